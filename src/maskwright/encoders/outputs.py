"""From the outputs of a packed call back to those a caller of the stock model expects."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from maskwright.core.layout import Layout
from maskwright.core.segments import segment_first
from maskwright.encoders.families import Family


def unpack_states(packed: Tensor, layout: Layout) -> Tensor:
    """`[1, T, D]` -> `[B, L, D]`: zeros where no token is kept.

    One exception: a row whose slot 0 is masked (left padding) has its first kept token there too, because class heads
    read slot 0; the stock model hands them the state of a padding slot.
    """
    states = layout.unpack(packed[0])
    if not layout.is_full and layout.leads_masked is not None:
        rows = layout.leads_masked
        states[rows, 0] = segment_first(packed[0], layout)[rows]
    return states


def unpack_outputs(base: Any, family: Family, outputs: Any, layout: Layout) -> Any:
    """The same output object with padded states; the pooler reads each row's first kept token."""
    packed = outputs.last_hidden_state
    for name, value in list(outputs.items()):
        if isinstance(value, tuple):
            outputs[name] = tuple(unpack_states(states, layout) for states in value)
        elif isinstance(value, Tensor) and value.shape[:2] == (1, layout.n_tokens):
            outputs[name] = unpack_states(value, layout)
    if outputs.get("pooler_output") is not None:
        outputs["pooler_output"] = family.pool(base, segment_first(packed[0], layout))
    return outputs
