"""How the plan of a packed batch travels through a stock model: in the argument every encoder hands to its layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from maskwright.attention.buckets import Plan
from maskwright.errors import PackingError

# What may touch a carrier on its way: looking at its shape and type, and moving or detaching it (checkpointing).
_LOOKS = {"shape", "ndim", "dtype", "device", "is_cuda", "is_cpu", "layout", "is_sparse", "__len__"}
_LOOKS |= {"size", "dim", "is_floating_point", "is_complex", "stride", "type", "numel"}
_LOOKS |= {"requires_grad", "grad", "grad_fn"}
_MOVES = {"detach", "to", "requires_grad_", "contiguous", "clone", "__getitem__"}


class PlanCarrier(torch.Tensor):
    """A 4-D `attention_mask` that holds no mask but the Plan.

    transformers hands a 4-D mask to every attention layer as it is, also under gradient checkpointing. A model that
    computes with its mask instead would compute nonsense, so anything but looking at or moving it raises. A `plain`
    carrier is the 2-D mask of a packed row, which is all ones, and may be computed with.
    """

    plan: Plan
    plain: bool

    @classmethod
    def of(cls, plan: Plan, dtype: torch.dtype, *, plain: bool = False) -> PlanCarrier:
        """A carrier shaped `[1, 1, T, T]` that takes no memory, or a plain one, bool `[1, T]`."""
        n, device = plan.layout.n_tokens, plan.layout.index.device
        if plain:
            blank = torch.ones((1, n), dtype=torch.bool, device=device)
        else:
            blank = torch.zeros((1, 1, 1, 1), dtype=dtype, device=device).expand(1, 1, n, n)
        carrier = blank.as_subclass(cls)
        carrier.plan, carrier.plain = plan, plain
        return carrier

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", str(func))
        if name in ("__get__", "__set__"):  # a property such as .shape
            name = getattr(getattr(func, "__self__", None), "__name__", name)
        carrier = next(a for a in (*args, *(kwargs or {}).values()) if isinstance(a, cls))
        if name not in _LOOKS | _MOVES and not carrier.plain:
            raise PackingError(
                f"the model computes with its attention_mask ({name}), so it cannot be packed exactly; "
                "call maskwright.unpack(model) to go on with the stock model"
            )
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        if name in _MOVES and isinstance(result, Tensor):
            result = result.as_subclass(cls)
            result.plan, result.plain = carrier.plan, carrier.plain
        return result
