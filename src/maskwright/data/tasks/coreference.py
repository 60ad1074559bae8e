"""CLUEWSC2020: does the pronoun refer to the noun? Both are marked in the one text."""

from __future__ import annotations

from maskwright.data.rows import Row
from maskwright.data.tasks.spec import SkipRow, Texts, take


def marked_spans(row: Row, where: str) -> Texts:
    """The text with ``_`` around span 1 (the noun) and ``[ ]`` around span 2 (the pronoun), as in CLUE's baseline.

    Rows whose spans are not at their indices in the text are skipped.

    Example:
        >>> target = {"span1_text": "小明", "span1_index": 0, "span2_text": "他", "span2_index": 5}
        >>> marked_spans({"text": "小明病了，他没来", "target": target}, "a:1")
        ('_小明_病了，[他]没来', None)
    """
    text = take(row, "text", str, where)
    target = take(row, "target", dict, where)
    marks: list[tuple[int, bool, str]] = []
    for number, opening, closing in ((1, "_", "_"), (2, "[", "]")):
        span = take(target, f"span{number}_text", str, where)
        start = take(target, f"span{number}_index", int, where)
        if not span or start < 0 or not text.startswith(span, start):
            raise SkipRow("span not at its index")
        marks += [(start, True, opening), (start + len(span), False, closing)]
    # From the back, so that earlier indices stay true; where spans touch, one closes before the other opens.
    for position, _, mark in sorted(marks, reverse=True):
        text = text[:position] + mark + text[position:]
    return text, None
