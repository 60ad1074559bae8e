"""Rewrite the generated parts of the documentation: the family table and the pictures of masks.

`make docs` runs it; a test checks that the table is up to date, and draws the pictures anew.
"""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib
import torch

from maskwright import masks
from maskwright.encoders.families import FAMILIES

DOCS = Path(__file__).parent
PAGE, IMAGES = DOCS / "families.md", DOCS / "images"
BEGIN, END = "<!-- families -->\n", "<!-- end of families -->\n"


def with_table(page: str) -> str:
    """The page with the text between its two marks replaced by today's table."""
    rows = "".join(f"| `{row.model_type}` | {row.verdict} | {row.note} |\n" for row in FAMILIES.values())
    table = f"| model type | verdict | how, or why not |\n|---|---|---|\n{rows}"
    return re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}{table}{END}", page, flags=re.DOTALL)


def pictures() -> dict[str, list[masks.Panel]]:
    """The panels of every picture, by file name."""
    padding = masks.padding(lengths=[3, 5])
    tokens = ["3", "1", "7", "[PAD]", "[PAD]"]
    hidden = masks.hide_columns(torch.tensor([[False, True, False, False, True, True, False, False]]))
    return {
        "masks.svg": [
            masks.Panel("padding", padding, tokens),
            masks.Panel("causal", masks.causal(), tokens),
            masks.Panel("padding & causal", padding & masks.causal(), tokens),
        ],
        "rules.svg": [
            masks.Panel("hidden columns", hidden),
            masks.Panel("window of 1 on each side", masks.sliding_window(1, 1), [str(i) for i in range(8)]),
            masks.Panel("three documents", masks.documents(cu_seqlens=[0, 3, 5, 8])),
        ],
    }


def draw_pictures(folder: Path) -> None:
    """Write every picture; the same drawing gives the same file."""
    folder.mkdir(exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "maskwright", "svg.fonttype": "path"}):
        for name, panels in pictures().items():
            masks.draw(panels).savefig(folder / name, metadata={"Date": None})


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    draw_pictures(IMAGES)
