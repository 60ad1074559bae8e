"""Numbers that leave the range of a narrow dtype, and are right in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .case import Case, fault
from .models import attention, named, on
from .own import OWN, Attention, Encoder
from .plant import change_argument, change_output, visible

RULES = "narrow-dtypes"
CAUSES = "overflow softmax-over-nothing"


def product_with_a_large_number(layer: int) -> Callable[[nn.Module], None]:
    """A plant: the bias is (1 - keep) * -1e9 in the model's dtype, and 0 * -inf is no number."""

    def plant(model: nn.Module) -> None:
        def bias(mask: Tensor | None) -> Tensor | None:
            if mask is None:
                return None
            dtype = next(model.parameters()).dtype
            return (~visible(mask)).to(dtype) * torch.tensor([-1e9], dtype=dtype)

        change_argument(attention(model, layer), "attention_mask", bias)

    return plant


def lowest_of_float32(model: nn.Module) -> None:
    """float32's lowest number is cast to the narrow dtype; where a query sees nothing, softmax is over -inf alone."""

    def bias(mask: Tensor | None) -> Tensor | None:
        if mask is None:
            return None
        lowest = torch.zeros(mask.shape).masked_fill(~visible(mask), -1e30)
        return lowest.to(next(model.parameters()).dtype)

    change_argument(attention(model, 0), "attention_mask", bias)


def scaled_and_scaled_back(model: nn.Module) -> None:
    """Embeddings are multiplied by a large number that a later step divides by."""
    change_output(model.embeddings, lambda hidden, _: hidden * 3e5 / 3e5)


def norm_without_upcast(model: nn.Module) -> None:
    """A mean of squares in the model's dtype, of states that are large."""

    def squared(hidden: Tensor, _: Any) -> Tensor:
        large = hidden * 300
        return (
            large
            / large.square().mean(-1, keepdim=True).sqrt()
            * (large.square().mean(-1, keepdim=True) + 1).sqrt()
            / 300
        )

    change_output(model.encoder.block[1].layer[1], squared)


class NaiveSoftmax(Attention):
    """exp(x) / sum(exp(x)), without the largest taken off first."""

    def weights(self, scores: Tensor, allowed: Tensor) -> Tensor:
        power = (scores * 40).exp().masked_fill(~allowed, 0)
        return power / power.sum(-1, keepdim=True).clamp(min=1e-30 if scores.dtype != torch.float16 else 1e-4)


class SafeSoftmax(Attention):
    def weights(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return super().weights(scores * 40, allowed)


def eager(name: str, kind: str, plant: Callable[[nn.Module], None], layer: int, report: str) -> Case:
    build = on(kind, plant, attn_implementation="eager")
    module = named(kind, layer)
    return fault(name, kind, "precision", report, build, rules=RULES, module=module, cause=CAUSES)


CASES = [
    eager("bert-zero-times-a-large-number", "bert", product_with_a_large_number(1), 1, "transformers 17306"),
    eager(
        "distilbert-zero-times-a-large-number", "distilbert", product_with_a_large_number(0), 0, "transformers 17306"
    ),
    eager("gpt2-lowest-of-float32", "gpt2", lowest_of_float32, 0, "transformers 17437"),
    fault(
        "esm-embeddings-scaled-and-back",
        "esm",
        "precision",
        "transformers 17437: hidden states leave float16",
        on("esm", scaled_and_scaled_back),
        rules=RULES,
        module=r"embeddings(\.\w+)?",
        cause="overflow",
    ),
    fault(
        "t5-squares-in-half",
        "t5",
        "precision",
        "transformers 17437: hidden states leave float16",
        on("t5", norm_without_upcast),
        rules=RULES,
        module=r"encoder\.block\.1\.layer\.1(\.\w+)?",
        cause=CAUSES,
    ),
    fault(
        "own-softmax-without-the-largest",
        "own module",
        "precision",
        "exp overflows in float16",
        lambda faulty: Encoder(second=NaiveSoftmax if faulty else SafeSoftmax),
        rules=RULES,
        module=r"layers\.1\.attention",
        cause="overflow softmax-over-nothing",
        audit=OWN,
    ),
]
