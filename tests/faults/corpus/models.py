"""Tiny random transformers models, and where their attention stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import nn
from transformers import AutoConfig, AutoModel

VOCAB, PAD, WIDTH, INNER, SLOTS = 89, 1, 28, 37, 67
_SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": INNER,
    "max_position_embeddings": SLOTS,
    "pad_token_id": PAD,
    "bos_token_id": 2,
    "eos_token_id": 3,
    "cls_token_id": 2,
    "sep_token_id": 3,
    "initializer_range": 0.2,
}
_SIDES = {f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in (("layers", 2), ("attention_heads", 2))}
_SIDES |= {"encoder_ffn_dim": INNER, "decoder_ffn_dim": INNER, "d_model": WIDTH, "decoder_start_token_id": 2}
_SIDES |= {"init_std": 0.2, "forced_eos_token_id": None}
_GROUPED = {"num_key_value_heads": 2, "head_dim": WIDTH // 2}
_T5 = {"d_kv": WIDTH // 2, "d_ff": INNER, "decoder_start_token_id": 2, "initializer_factor": 0.7}
_MORE: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("bart", "mbart", "pegasus", "marian", "m2m_100", "blenderbot", "blenderbot-small"), _SIDES),
    **dict.fromkeys(("plbart",), _SIDES),
    **dict.fromkeys(("t5", "mt5", "umt5"), _T5),
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "olmo", "olmo2", "phi3"), _GROUPED),
    **dict.fromkeys(("starcoder2", "stablelm", "granite", "cohere", "eurobert", "smollm3", "phi"), _GROUPED),
    "opt": {"ffn_dim": INNER, "word_embed_proj_dim": WIDTH, "init_std": 0.2},
    "modernbert": {"local_attention": 8, "global_attn_every_n_layers": 2},
    "distilbert": {"hidden_dim": INNER, "sinusoidal_pos_embds": False},
    "electra": {"embedding_size": WIDTH},
    "albert": {"embedding_size": 23},
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8},
    "deberta": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
}
ATTENTION = {
    **dict.fromkeys(
        ("bert", "roberta", "xlm-roberta", "electra", "esm", "deberta-v2", "deberta"), "encoder.layer.{}.attention.self"
    ),
    "distilbert": "transformer.layer.{}.attention",
    "modernbert": "layers.{}.attn",
    "albert": "encoder.albert_layer_groups.0.albert_layers.0.attention",
    "gpt2": "h.{}.attn",
    **dict.fromkeys(("llama", "qwen2", "mistral"), "layers.{}.self_attn"),
    "bart": "encoder.layers.{}.self_attn",
    "t5": "encoder.block.{}.layer.0.SelfAttention",
    "mpnet": "encoder.layer.{}.attention.attn",
}
"""The module of a type that attends, by the number of its layer."""
MASK = {"t5": "mask"}
"""What that module calls its mask, where it is not `attention_mask`."""


def tiny(model_type: str, head: str = "", **options: Any) -> nn.Module:
    """A tiny random model in evaluation mode, the same every time; `head` names a transformers class."""
    torch.manual_seed(11)
    config = AutoConfig.for_model(model_type, **{**_SIZES, **_MORE.get(model_type, {}), **options})
    model = getattr(transformers, head)(config) if head else AutoModel.from_config(config)
    return model.eval()


def attention(model: nn.Module, layer: int) -> nn.Module:
    """The attention module of a layer."""
    return model.get_submodule(ATTENTION[model.config.model_type].format(layer))


def named(model_type: str, layer: int) -> str:
    """A regular expression for the name of that module, or of the wrapper around it where there is one."""
    path = ATTENTION[model_type].format(layer).split(".")
    whole = r"\.".join(path)
    return (
        whole + "|" + r"\.".join(path[:-1])
        if path[-1] in ("self", "attn", "SelfAttention") and len(path) > 3
        else whole
    )


def on(model_type: str, plant: Callable[[Any], object], head: str = "", **options: Any) -> Callable[[bool], nn.Module]:
    """A function for `fault`: a tiny model, with or without what `plant` does to it."""

    def build(faulty: bool) -> nn.Module:
        model = tiny(model_type, head, **options)
        if faulty:
            plant(model)
        return model

    return build
