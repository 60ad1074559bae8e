"""How a model of the corpus is called, and what of its results is compared."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn

LENGTH, OTHER, WIDE = 7, 11, 17
"""Tokens of the text that is looked at, of its neighbour, and slots of a padded row."""


def vocabulary(model: nn.Module) -> int:
    return int(model.config.vocab_size) if hasattr(model, "config") else 61


def padding_id(model: nn.Module) -> int:
    return getattr(getattr(model, "config", None), "pad_token_id", None) or 0


def text(model: nn.Module, length: int = LENGTH, seed: int = 0) -> Tensor:
    """Ids [L] of ordinary words."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(7, vocabulary(model), (length,), generator=generator)


def takes(model: nn.Module, name: str) -> bool:
    return name in inspect.signature(type(model).forward).parameters


def counts_itself(model: nn.Module) -> bool:
    """Whether positions are counted from the ids that are no padding, as RoBERTa does."""
    return any(
        hasattr(module, "padding_idx") for module in model.modules() if type(module).__name__.endswith("Embeddings")
    )


def read(model: nn.Module, ids: Tensor, keep: Tensor | None, **options: Any) -> tuple[Tensor | None, Tensor | None]:
    """What a call gives: of each token [B, L, D], and of each row [B, D]."""
    if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        options.setdefault("decoder_input_ids", text(model, 3, seed=9).expand(len(ids), -1))
    found = model(input_ids=ids, attention_mask=keep, **options)
    if isinstance(found, Tensor):
        return (found, None) if found.dim() == 3 else (None, found)
    if isinstance(found, tuple) and not hasattr(found, "keys"):
        return found[0], None
    if isinstance(found, dict) and "encoder_last_hidden_state" in found:
        decoded = found["last_hidden_state"] if "last_hidden_state" in found else found["logits"]
        return found["encoder_last_hidden_state"], decoded.flatten(1)
    if "start_logits" in found:
        return torch.stack([found["start_logits"], found["end_logits"]], -1), None
    tokens = found["last_hidden_state"] if "last_hidden_state" in found else found["logits"]
    if tokens.dim() == 2:
        return None, tokens
    return tokens, found.get("pooler_output")


def gap(left: Tensor | None, right: Tensor | None) -> float:
    """The largest difference, relative to the largest number; infinite where either is no number."""
    if left is None or right is None:
        return 0.0
    difference = (left - right).abs().max() / right.abs().max()
    return float(difference.nan_to_num(nan=float("inf")))


def laid(row: Tensor, width: int, side: str, filler: int) -> tuple[Tensor, Tensor]:
    """Ids and keep, [L] each, of a text in a wider row."""
    ids, keep = torch.full((width,), filler), torch.zeros(width, dtype=torch.long)
    place = slice(0, len(row)) if side == "right" else slice(width - len(row), width)
    ids[place], keep[place] = row, 1
    return ids, keep


def positions(model: nn.Module, keep: Tensor) -> dict[str, Tensor]:
    """Position ids that count tokens, for a model that takes them and does not count by itself."""
    if not takes(model, "position_ids") or counts_itself(model):
        return {}
    return {"position_ids": (keep.cumsum(-1) - 1).clamp(min=0)}


CAUSAL = """
biogpt bloom cohere gemma gpt2 gpt_neox granite llama mistral olmo olmo2 opt phi3 qwen2 qwen3 smollm3 starcoder2
"""
NO_FOUR_DIMENSIONS = "bloom deberta deberta-v2 esm layoutlm modernbert opt"
"""Types that refuse a 4-D mask, or take one for each kind of layer."""


def is_causal(model: nn.Module) -> bool:
    config = getattr(model, "config", None)
    return bool(getattr(config, "is_decoder", False)) or getattr(config, "model_type", "") in CAUSAL.split()
