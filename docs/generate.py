"""Rewrite the generated part of docs/families.md; `make docs` runs it, and a test checks that it was run."""

from __future__ import annotations

import re
from pathlib import Path

from maskwright.encoders.families import FAMILIES

PAGE = Path(__file__).with_name("families.md")
BEGIN, END = "<!-- families -->\n", "<!-- end of families -->\n"


def with_table(page: str) -> str:
    """The page with the text between its two marks replaced by today's table."""
    rows = "".join(f"| `{row.model_type}` | {row.verdict} | {row.note} |\n" for row in FAMILIES.values())
    table = f"| model type | verdict | how, or why not |\n|---|---|---|\n{rows}"
    return re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}{table}{END}", page, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
