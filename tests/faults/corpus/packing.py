"""Texts that share a row and see each other, although the mask keeps them apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .case import Case, fault
from .models import attention, named, on
from .plant import change_argument, drop_mask, edit_mask, in_form, visible, wrap

RULES = "packing-blocks packing-positions packing-lengths"
CAUSES = "packing-leak packing-ignored"


def keys_only(layer: int) -> Callable[[nn.Module], None]:
    """A plant: a mask for each query becomes one mask for all, which lets through what any query may see."""

    def plant(model: nn.Module) -> None:
        edit_mask(model, layer, lambda allowed: allowed.any(-2, keepdim=True).expand_as(allowed))

    return plant


def causal_and_no_more(model: nn.Module) -> None:
    """Layer 1 rebuilds a causal mask; the blocks in it are lost, the padding is not."""

    def rebuilt(allowed: Tensor) -> Tensor:
        seen = allowed.any(-2, keepdim=True)
        return seen & torch.ones(allowed.shape[-2:], dtype=torch.bool).tril()

    edit_mask(model, 1, rebuilt)


def one_head_sees_all(model: nn.Module) -> None:
    def edited(allowed: Tensor) -> Tensor:
        heads = allowed.expand(-1, 2, -1, -1).clone()
        heads[:, 1] = allowed.any(-2)
        return heads

    edit_mask(model, 0, edited)


def last_of_the_text_before(model: nn.Module) -> None:
    """Every text also sees the last token of the one before it: a border off by one."""

    def edited(allowed: Tensor) -> Tensor:
        return allowed | (allowed.roll(-1, -1) & allowed.any(-2, keepdim=True)).tril()

    edit_mask(model, 1, edited)


def blocks_ignored(model: nn.Module) -> None:
    """Only a mask that says the same to all queries is handed on."""

    def some(mask: Tensor | None) -> Tensor | None:
        if mask is None or mask.dim() != 4:
            return mask
        same = (visible(mask) == visible(mask)[..., :1, :]).all()
        return mask if same else in_form(torch.ones(mask.shape, dtype=torch.bool), mask)

    change_argument(attention(model, 1), "attention_mask", some)


def positions_run_on(model: nn.Module) -> None:
    """Positions that start anew with each text are replaced by a plain count."""

    def around(forward: Callable[..., Any], given: dict[str, Any]) -> Any:
        if given.get("position_ids") is not None and (given["position_ids"].diff() < 0).any():
            given["position_ids"] = torch.arange(given["position_ids"].shape[1])[None]
        return forward(**given)

    wrap(model, around)


def blocked(name: str, kind: str, layer: int, plant: Callable[[nn.Module], None], report: str, **options: Any) -> Case:
    build = on(kind, plant, **options)
    module = named(kind, layer)
    return fault(name, kind, "packing", report, build, rules=RULES, module=module, cause=CAUSES)


CASES = [
    blocked("bert-layer-1-ignores-blocks", "bert", 1, blocks_ignored, "transformers 46634"),
    blocked("roberta-layer-0-takes-blocks-for-keys", "roberta", 0, keys_only(0), "transformers 46634"),
    blocked("electra-one-head-ignores-blocks", "electra", 0, one_head_sees_all, "transformers 46634"),
    blocked("xlm-roberta-sees-the-text-before", "xlm-roberta", 1, last_of_the_text_before, "a border off by one"),
    blocked("llama-layer-1-rebuilds-a-causal-mask", "llama", 1, causal_and_no_more, "transformers 46634"),
    blocked("gpt2-layer-1-rebuilds-a-causal-mask", "gpt2", 1, causal_and_no_more, "transformers 46634"),
    blocked("qwen2-first-layer-drops-blocks", "qwen2", 0, drop_mask(0), "transformers 46634"),
    blocked("mistral-sees-the-text-before", "mistral", 1, last_of_the_text_before, "a border off by one"),
    fault(
        "distilbert-positions-run-on",
        "distilbert",
        "packing",
        "transformers 47525",
        on("distilbert", positions_run_on),
        rules=RULES,
        module=r"embeddings(\.\w+)?|",
        cause="packing-leak slots-counted",
    ),
]
