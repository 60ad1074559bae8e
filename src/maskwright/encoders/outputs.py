"""From the outputs of a packed call back to those a caller of the stock model expects."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from maskwright.core.layout import Layout
from maskwright.core.segments import segment_first
from maskwright.encoders.families import Family


def unpack_states(packed: Tensor, layout: Layout) -> Tensor:
    """`[1, T, D]` -> `[B, L, D]`: zeros where no token is kept, but for the two ends.

    A masked slot 0 holds its row's first kept token too, and a masked last slot the last kept one: class heads read a
    row's first slot, a few its last, and under padding on that side stock models hand them the state of a pad token.
    """
    states = packed[0]
    if layout.is_full:
        return layout.unpack(states)
    tokens, slots = layout.with_ends
    padded = states.new_zeros(layout.n_rows * layout.length, *states.shape[1:])
    return padded.index_copy(0, slots, states.index_select(0, tokens)).view(layout.n_rows, layout.length, -1)


def unpack_outputs(base: Any, family: Family, outputs: Any, layout: Layout) -> Any:
    """The same output object with padded states; the pooler reads each row's first kept token."""
    packed = outputs.last_hidden_state
    for name, value in list(outputs.items()):
        if isinstance(value, tuple):
            outputs[name] = tuple(None if states is None else unpack_states(states, layout) for states in value)
        elif isinstance(value, Tensor) and value.ndim == 3:
            outputs[name] = unpack_states(value, layout)
    if outputs.get("pooler_output") is not None:
        outputs["pooler_output"] = family.pool(base, segment_first(packed[0], layout))
    return outputs
