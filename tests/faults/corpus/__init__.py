"""The exam of `maskwright audit`: planted faults, each with a twin that lacks it, and clean controls.

Written from public reports and descriptions, without regard to how the audit works. Half of each kind may be looked at
while the audit is being written, the other half is only counted.
"""

from __future__ import annotations

from . import (
    chance,
    collators,
    content,
    controls,
    decoders,
    direction,
    empty,
    forms,
    gradient,
    losses,
    mask_builders,
    modes,
    options,
    packing,
    padding,
    polarity,
    pooled,
    pooling,
    positions,
    precision,
    rows,
)
from .case import Case, halved

_KINDS = (
    *(padding, polarity, content, direction, decoders, packing, positions, empty, precision, rows, chance, options),
    *(modes, forms, gradient, pooled, pooling, collators, losses, mask_builders),
)

FAULTS: tuple[Case, ...] = halved(case for kind in _KINDS for case in kind.CASES)
CONTROLS: tuple[Case, ...] = halved(controls.CASES)

__all__ = ["CONTROLS", "FAULTS", "Case"]
