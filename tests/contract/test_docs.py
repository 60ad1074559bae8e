"""Pages that are generated from code are up to date, and what they say of the command line is true."""

from __future__ import annotations

import contextlib
import re
import runpy
import shlex
from importlib import import_module
from pathlib import Path

import pytest

from maskwright.audit.causes import CAUSES
from maskwright.audit.rules import RULES
from maskwright.cli.main import find_verb
from maskwright.cli.verbs import VERBS
from maskwright.encoders.families import FAMILIES

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["families.md", "audit_rules.md"])
def test_generated_tables_are_up_to_date(name: str) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert runpy.run_path(str(ROOT / "docs" / "generate.py"))["with_generated"](page) == page, "run `make docs`"


def test_the_pages_name_every_family_rule_and_cause() -> None:
    families, rules = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("families.md", "audit_rules.md"))
    assert set(re.findall(r"^\| `([^`]+)` \|", families, re.MULTILINE)) == set(FAMILIES)
    for kind, catalogue in (("rule", RULES), ("cause", CAUSES)):
        named = re.findall(rf'^\| <a id="{kind}-([^"]+)"></a>`\1` \| ', rules, re.MULTILINE)
        assert sorted(named) == sorted(catalogue)


def test_the_pictures_can_be_drawn_anew(tmp_path: Path) -> None:
    made = runpy.run_path(str(ROOT / "docs" / "generate.py"))
    made["draw_pictures"](tmp_path)
    drawn = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert set(drawn) == {path.name for path in (ROOT / "docs" / "images").glob("*.svg")}
    assert all("<svg" in text for text in drawn.values())
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    assert all(f"(images/{name})" in pages for name in drawn)


def test_both_languages_of_the_guide_show_the_same_code() -> None:
    english, chinese = (
        re.findall(r"^```.*?^```$", (ROOT / "docs" / name).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        for name in ("masks.md", "masks.zh.md")
    )
    assert english == chinese
    assert len(english) > 10


def test_the_readme_names_every_verb_and_no_other() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`maskwright ([a-z]+)[^`]*` \|", readme)) == {verb.name for verb in VERBS}


def commands() -> list[str]:
    """Every `maskwright VERB ...` line in a code block of the README and the docs."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return re.findall(r"^maskwright .*$", "\n".join(blocks), re.MULTILINE)


def test_the_docs_show_commands() -> None:
    assert len(commands()) >= 5


@pytest.mark.parametrize("command", commands())
def test_a_documented_command_is_accepted(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "tnews").mkdir(parents=True)
    (tmp_path / "runs" / "tnews" / "config.yaml").write_text("task: tnews\n", encoding="utf-8")
    _, name, *words = shlex.split(command)
    parser = import_module(find_verb(name).module).build_parser()
    with contextlib.suppress(SystemExit):  # --help
        parser.parse_args(words)
