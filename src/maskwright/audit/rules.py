"""The catalogue: every rule by its name, gathered from the probes."""

from __future__ import annotations

from maskwright.audit.probes import direction, masks, numbers, packing, padding, rows

_PROBES = (padding, numbers, masks, packing, rows, direction)

RULES = {rule.name: rule for probe in _PROBES for rule in probe.RULES}
"""Every rule by its name."""
