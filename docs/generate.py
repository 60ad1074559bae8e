"""Rewrite the generated parts of the documentation: the family table, the audit's rules and causes, pictures of masks.

`make docs` runs it; tests check that the tables are up to date, and draw the pictures anew.
"""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib
import torch

from maskwright import masks
from maskwright.audit.causes import CAUSES, DESIGNS
from maskwright.audit.function import KINDS
from maskwright.audit.rules import RULES
from maskwright.encoders.families import FAMILIES

DOCS = Path(__file__).parent
IMAGES = DOCS / "images"
_BOUND = {
    "model": "Models",
    "pooling": "Pooling functions",
    "collator": "Collators",
    "loss": "Losses",
    "mask": "Builders of masks",
}


def generated() -> dict[str, str]:
    """What stands between two marks in the pages of the documentation, by the marks' name."""
    families = [[f"`{row.model_type}`", row.verdict, row.note] for row in FAMILIES.values()]
    causes = [
        [
            _anchored("cause", cause.name),
            cause.reason,
            cause.fix,
            _counted(cause.name),
        ]
        for cause in CAUSES.values()
    ]
    return {
        "families": _table(["model type", "verdict", "how, or why not"], families),
        "rules": "\n".join(_rules(kind) for kind in KINDS if any(rule.kind == kind for rule in RULES.values())),
        "causes": _table(["cause", "what is wrong", "what to do", "counts as"], causes),
    }


def with_generated(page: str) -> str:
    """The page with the text between each pair of marks replaced by today's."""
    for name, text in generated().items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        page = re.sub(f"{begin}.*{end}", lambda _, new=f"{begin}{text}{end}": new, page, flags=re.DOTALL)
    return page


def _rules(kind: str) -> str:
    rows = [
        [_anchored("rule", rule.name), rule.law, rule.report, "yes" if rule.by_default else "no"]
        for rule in RULES.values()
        if rule.kind == kind
    ]
    return f"### {_BOUND[kind]}\n\n{_table(['rule', 'law', 'public report', 'checked by default'], rows)}"


def _counted(cause: str) -> str:
    kinds = [_BOUND[kind].lower() for kind in DESIGNS.get(cause, ())]
    return f"a property of {' and '.join(kinds)}" if kinds else "a failure"


def _anchored(kind: str, name: str) -> str:
    return f'<a id="{kind}-{name}"></a>`{name}`'


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in [head, *rows]]
    lines = [f"| {line} |\n" for line in lines]
    return "".join([lines[0], f"|{'---|' * len(head)}\n", *lines[1:]])


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
    for path in DOCS.glob("*.md"):
        path.write_text(with_generated(path.read_text(encoding="utf-8")), encoding="utf-8")
    draw_pictures(IMAGES)
