"""A function under audit: pooling, a collator, a loss, or a builder of masks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import nn

Kind = Literal["model", "pooling", "collator", "loss", "mask"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(eq=False)
class Function:
    """What is called, and how, by its kind.

    Attributes:
        call: "pooling": `(hidden [B, L, D], keep bool [B, L]) -> [B, D]`. "collator": `(list of {"input_ids", ...}) ->
            {"input_ids", "labels", ...}`, each `[B, L]`, labels -100 where nothing is to be predicted. "loss":
            `(logits [B, L, V], labels [B, L]) -> scalar`. "mask": `(keep bool [B, L]) -> [B, 1, L, L]` or broadcastable
            to it, bool (True = may attend) or additive.
        tokenizer: a collator's.
        dtype: of the numbers that a rule makes up for it.
    """

    call: Callable[..., Any]
    kind: Kind
    name: str
    tokenizer: Any = None
    dtype: torch.dtype = torch.float32

    @contextmanager
    def cast_to(self, wanted: torch.dtype | None) -> Iterator[None]:
        """Numbers, and the weights of a module, in another dtype for a while."""
        before, self.dtype = self.dtype, wanted or self.dtype
        if isinstance(self.call, nn.Module):
            self.call.to(self.dtype)
        try:
            yield
        finally:
            self.dtype = before
            if isinstance(self.call, nn.Module):
                self.call.to(before)
