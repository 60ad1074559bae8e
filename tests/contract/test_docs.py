"""Pages that are generated from code are up to date, and what they say of the command line is true."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from maskwright.cli.verbs import VERBS
from maskwright.encoders.families import FAMILIES

ROOT = Path(__file__).resolve().parents[2]


def test_the_family_table_is_up_to_date() -> None:
    page = (ROOT / "docs" / "families.md").read_text(encoding="utf-8")
    assert runpy.run_path(str(ROOT / "docs" / "generate.py"))["with_table"](page) == page, "run `make docs`"
    assert set(re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)) == set(FAMILIES)


def test_the_readme_names_every_verb_and_no_other() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`maskwright ([a-z]+)[^`]*` \|", readme)) == {verb.name for verb in VERBS}
