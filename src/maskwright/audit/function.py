"""A function under audit: pooling, a collator, a loss, or a builder of masks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from maskwright.audit.compare import Difference
from maskwright.errors import InputError

Kind = Literal["model", "pooling", "collator", "loss", "mask"]
KINDS: tuple[Kind, ...] = get_args(Kind)
WIDTH = 11  # of the states that are pooled, where the function does not say


@dataclass(eq=False)
class Function:
    """What is called, and how, by its kind.

    Attributes:
        call: "pooling": `(hidden [B, L, D], keep bool [B, L]) -> [B, D]`. "collator": `(list of {"input_ids", ...}) ->
            {"input_ids", "labels", ...}`, each `[B, L]`, labels -100 where nothing is to be predicted. "loss":
            `(logits [B, L, V], labels [B, L]) -> scalar`. "mask": `(keep bool [B, L]) -> [B, 1, L, L]` or broadcastable
            to it, bool (True = may attend) or additive, or None = all may attend to all; a `dtype` argument is given
            where it takes one. Where a bool keep raises, 1 and 0 are given.
        kind: which of them.
        name: for the reports.
        tokenizer: a collator's; None = its own `tokenizer`.
        direction: "causal" for a builder of causal masks.
        dtype: of the numbers that a rule makes up for it.

    Raises:
        InputError: nothing that can be called, or a collator without a tokenizer.
    """

    call: Callable[..., Any]
    kind: Kind
    name: str
    tokenizer: Any = None
    direction: str | None = None
    dtype: torch.dtype = torch.float32
    _made: dict[str, Any] = field(default_factory=dict, init=False, repr=False)
    _calls: list[tuple[tuple[Any, ...], dict[str, Any]]] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if not callable(self.call):
            raise InputError(f"must be something to call, got {type(self.call).__name__}", self.name)
        self.tokenizer = self.tokenizer or getattr(self.call, "tokenizer", None)
        if self.kind == "collator" and self.tokenizer is None:
            raise InputError("give the tokenizer that its examples come from (--tokenizer)", self.name)

    def __call__(self, *arguments: Any) -> Any:
        """The result, of the form that its kind must have; a module is in evaluation mode meanwhile.

        Raises:
            InputError: a result of another form.
        """
        options = {"dtype": self.dtype} if self.kind == "mask" and self.takes_dtype else {}
        if self._calls is not None:
            self._calls.append((arguments, options))
        # A clone, for a function may write into what it is given.
        given = [value.clone() if isinstance(value, Tensor) else value for value in arguments]
        modules = list(self.call.modules()) if isinstance(self.call, nn.Module) else []
        training = [module.training for module in modules]
        try:
            for module in modules:
                module.training = False
            result = self.call(*given, **options)
        finally:
            for module, was in zip(modules, training, strict=True):
                module.training = was
        return _FORMS[self.kind](result, arguments[0])

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """What `make` gives, made once for all rules that ask for it by that name."""
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    @contextmanager
    def recorded(self) -> Iterator[list[tuple[tuple[Any, ...], dict[str, Any]]]]:
        """The list to which every call within adds (what it is given, by place and by name)."""
        before, self._calls = self._calls, []
        try:
            yield self._calls
        finally:
            self._calls = before

    def plainly(self) -> Any:
        """The result of a call with nothing special about it; a collator's rules make their own."""
        keep = torch.ones(2, 3).to(self.keep_dtype if self.kind in ("pooling", "mask") else torch.bool)
        if self.kind == "pooling":
            return self(torch.ones(2, 3, self.width, dtype=self.dtype), keep)
        if self.kind == "loss":
            return self(torch.zeros(2, 3, 5, dtype=self.dtype), torch.tensor([[1, 2, -100], [3, -100, -100]]))
        return self(keep) if self.kind == "mask" else None

    @cached_property
    def keep_dtype(self) -> torch.dtype:
        """bool, or int64 where the function can only do with 1 and 0."""
        for dtype in (torch.bool, torch.int64):
            keep = torch.ones(2, 3).to(dtype)
            try:
                self(*((torch.ones(2, 3, self.width, dtype=self.dtype), keep) if self.kind == "pooling" else (keep,)))
            except Exception:  # whatever it is, the rules show it
                continue
            return dtype
        return torch.bool

    @cached_property
    def width(self) -> int:
        """D of the states it pools: of a module with weights, their last size."""
        weights = self.call.parameters() if isinstance(self.call, nn.Module) else iter(())
        return next((int(weight.shape[-1]) for weight in weights if weight.ndim), WIDTH)

    @cached_property
    def takes_dtype(self) -> bool:
        """Whether it has an argument of that name, as builders of masks may."""
        try:
            return "dtype" in inspect.signature(self.call).parameters
        except (TypeError, ValueError):  # compiled code tells nothing about itself
            return False

    @contextmanager
    def cast_to(self, wanted: torch.dtype | None) -> Iterator[None]:
        """Numbers, and the weights of a module, in another dtype for a while."""
        before, self.dtype = self.dtype, wanted or self.dtype
        module = self.call if isinstance(self.call, nn.Module) else None
        tensors = [] if module is None else [*module.parameters(), *module.buffers()]
        held = [(tensor, tensor.data) for tensor in tensors if tensor.is_floating_point()]
        for tensor, data in held:
            tensor.data = data.to(self.dtype)
        try:
            yield
        finally:
            self.dtype = before
            for tensor, data in held:
                tensor.data = data


def apart(ones: Tensor, others: Tensor) -> Difference:
    """The largest difference over the root mean square of those that are larger; shapes must agree.

    Example:
        >>> apart(torch.tensor([5.0, 5.0]), torch.tensor([3.0, 5.0])).effect
        0.4
    """
    ones, others = ones.detach().double(), others.detach().double()
    if ones.shape != others.shape:
        raise InputError(f"gives {list(others.shape)} where {list(ones.shape)} was to be expected", "shape")
    if not bool(ones.isfinite().all() and others.isfinite().all()):
        return Difference(float("inf"), "", False, 1)
    scale = torch.maximum(ones.square().mean(), others.square().mean()).sqrt().clamp(min=1e-12)
    return Difference(float((ones - others).abs().max() / scale), "", True, 1)


def amount(wrong: float, n_compared: int = 1) -> Difference:
    """A number that ought to be zero, such as a share of slots that are wrong; nothing compared = not applicable."""
    return Difference(float(wrong), "", True, n_compared)


def _is_pooled(result: Any, hidden: Tensor) -> Tensor:
    if not isinstance(result, Tensor) or result.ndim != 2 or len(result) != len(hidden):
        raise InputError(f"must give a tensor [B, D] for hidden {list(hidden.shape)}, gave {_said(result)}", "pooling")
    return result


def _is_scalar(result: Any, logits: Tensor) -> Tensor:
    if not isinstance(result, Tensor) or result.numel() != 1:
        raise InputError(f"must give a scalar tensor, gave {_said(result)}", "loss")
    return result.reshape(())


def _is_mask(result: Any, keep: Tensor) -> Tensor | None:
    n_rows, length = keep.shape
    if result is None:
        return None
    wanted = (n_rows, 1, length, length)
    try:
        assert isinstance(result, Tensor)
        assert torch.broadcast_shapes(result.shape, wanted) == torch.Size(wanted)
    except (AssertionError, RuntimeError):
        text = f"must give a mask that broadcasts to {list(wanted)}, gave {_said(result)}"
        raise InputError(text, "mask") from None
    assert isinstance(result, Tensor)
    return result


def _is_batch(result: Any, examples: Any) -> dict[str, Tensor]:
    if not isinstance(result, Mapping) or not {"input_ids", "labels"} <= set(result):
        raise InputError(f"must give input_ids and labels by name, gave {_said(result)}", "collator")
    names = ("input_ids", "labels", "attention_mask")
    batch = {name: torch.as_tensor(result[name]) for name in names if result.get(name) is not None}
    shapes = {tuple(value.shape) for value in batch.values()}
    if len(shapes) != 1 or len(next(iter(shapes))) != 2 or next(iter(shapes))[0] != len(examples):
        raise InputError(f"must give [B, L] each for {len(examples)} examples, gave {sorted(shapes)}", "collator")
    return batch


_FORMS: dict[str, Callable[[Any, Any], Any]] = {
    "pooling": _is_pooled,
    "loss": _is_scalar,
    "mask": _is_mask,
    "collator": _is_batch,
}


def _said(result: Any) -> str:
    return f"{result.dtype} {list(result.shape)}" if isinstance(result, Tensor) else type(result).__name__
