"""The catalogue: every rule by its name, gathered from the probes."""

from __future__ import annotations

from maskwright.audit.probes import (
    collators,
    decoder,
    direction,
    draws,
    holes,
    losses,
    mask_builders,
    masks,
    modes,
    numbers,
    packing,
    padding,
    pooling,
    positions,
    rows,
    selection,
)

_PROBES = (
    padding,
    holes,
    selection,
    numbers,
    masks,
    modes,
    positions,
    packing,
    rows,
    direction,
    decoder,
    pooling,
    collators,
    draws,
    losses,
    mask_builders,
)

RULES = {rule.name: rule for probe in _PROBES for rule in probe.RULES}
"""Every rule by its name."""
