"""Masks as rules: who may attend to whom, combined with & | ~, lowered to every library's own convention.

Example:
    >>> import maskwright as mw
    >>> mask = mw.masks.padding(lengths=[3, 2]) & mw.masks.causal()
    >>> print(mask.text(row=1, title="row 1"))
    row 1 (row attends to column: █ yes, · no)
       0 1 2
     0 █ · ·
     1 █ █ ·
     2 █ █ ·
"""

from maskwright.masks.draw import Panel, draw, text
from maskwright.masks.mask import Mask
from maskwright.masks.read import CONVENTIONS, read
from maskwright.masks.rules import causal, documents, hide_columns, padding, prefix, sliding_window
from maskwright.masks.softmax import apply, masked_log_softmax, masked_softmax

__all__ = [
    "CONVENTIONS",
    "Mask",
    "Panel",
    "apply",
    "causal",
    "documents",
    "draw",
    "hide_columns",
    "masked_log_softmax",
    "masked_softmax",
    "padding",
    "prefix",
    "read",
    "sliding_window",
    "text",
]
