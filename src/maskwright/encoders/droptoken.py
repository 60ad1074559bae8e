"""DropToken: while training, each ordinary token is dropped with a small probability; the rest keep their positions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from maskwright.attention.carrier import PlanCarrier
from maskwright.core.layout import as_keep
from maskwright.core.sampling import sample_kept
from maskwright.errors import InputError

IGNORED = -100  # the label torch's and transformers' losses skip


@dataclass(eq=False)
class DropToken:
    """Drops tokens by clearing their `attention_mask`, before a model sees its inputs.

    Labels of dropped tokens become -100, so token-level losses ignore them; answer spans are never dropped. Heads that
    pool by mask get the reduced mask. Outside training, or at rate 0, it does nothing.

    Attributes:
        rate: probability of dropping each token that is not special, in [0, 1).
        special_ids: ids never dropped; None means each call must bring a `special_tokens_mask` (1 = special).
        generator: the CPU generator that chooses; seed or restore it as you like.
    """

    rate: float
    special_ids: Tensor | None
    generator: torch.Generator

    def hook(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """A forward pre-hook of modules that take one dict of features, as sentence-transformers' do."""
        self(module, args[0])

    def __call__(self, module: nn.Module, inputs: dict[str, Any]) -> dict[str, Any]:
        """Change the named inputs of a call in place, and return them."""
        special = inputs.pop("special_tokens_mask", None)
        if not (self.rate and module.training) or isinstance(inputs.get("attention_mask"), PlanCarrier):
            return inputs
        tokens = inputs.get("input_ids", inputs.get("inputs_embeds"))
        if tokens is None:
            return inputs
        shape = tokens.shape if "input_ids" in inputs else tokens.shape[:-1]  # [B, L], or [B, choices, L]
        length = shape[-1]
        mask = inputs.get("attention_mask", torch.ones(shape, dtype=torch.long, device=tokens.device))
        keep = as_keep(mask.reshape(-1, length))
        may_drop = ~self._special(inputs, special, shape).reshape(-1, length)
        for name in ("start_positions", "end_positions"):
            if name in inputs:
                answer = inputs[name].reshape(-1, 1).clamp(0, length - 1)
                may_drop.scatter_(1, answer, False)
        kept = sample_kept(keep, may_drop, self.rate, self.generator)
        inputs["attention_mask"] = kept.reshape(shape).to(mask.dtype)
        labels = inputs.get("labels")
        if isinstance(labels, Tensor) and labels.shape == shape:
            inputs["labels"] = labels.masked_fill((keep & ~kept).reshape(shape), IGNORED)
        return inputs

    def _special(self, inputs: dict[str, Any], special: Tensor | None, shape: torch.Size) -> Tensor:
        if special is not None:
            return special.bool().reshape(shape)
        if self.special_ids is None or "input_ids" not in inputs:
            raise InputError(
                "DropToken must know the special tokens: pass special_ids=tokenizer to maskwright.pack, "
                "or a special_tokens_mask with each batch (1 = special)",
                "special_ids",
            )
        return torch.isin(inputs["input_ids"], self.special_ids.to(inputs["input_ids"].device))


def read_special_ids(source: Any) -> Tensor | None:
    """A tokenizer (its `all_special_ids`), an iterable of ids, or None."""
    if source is None:
        return None
    ids: Iterable[int] = getattr(source, "all_special_ids", source)
    return torch.tensor(sorted(ids), dtype=torch.long)


def check_rate(rate: float) -> float:
    """Raises InputError unless 0 <= rate < 1."""
    if not 0 <= rate < 1:
        raise InputError(f"must be at least 0 and below 1, got {rate}", "drop_rate")
    return float(rate)
