"""A tiny random model of any transformers type, built offline from its configuration class."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import CONFIG_MAPPING, AutoConfig, AutoModel, AutoModelForMaskedLM
from transformers.models.auto import modeling_auto

from maskwright.errors import InputError

LARGEST = 20_000_000
WIDTH, HEADS, LAYERS, INNER, VOCAB, POSITIONS = 32, 2, 2, 48, 97, 64
# What the sizes are called by one family or another.
_SIZES = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embedding_size"), WIDTH),
    **dict.fromkeys(("d_latents", "entity_emb_size", "projection_dim"), WIDTH),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"), HEADS),
    **dict.fromkeys(("decoder_attention_heads", "num_key_value_heads"), HEADS),
    **dict.fromkeys(("num_self_attention_heads", "num_cross_attention_heads"), HEADS),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers"), LAYERS),
    **dict.fromkeys(("decoder_layers", "num_decoder_layers", "num_self_attends_per_block"), LAYERS),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "d_ff", "n_inner", "hidden_dim", "d_inner"), INNER),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), INNER),
    **dict.fromkeys(("head_dim", "d_kv", "d_head"), WIDTH // HEADS),
    **dict.fromkeys(("vocab_size", "entity_vocab_size"), VOCAB),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx"), POSITIONS),
    "type_vocab_size": 2,
    "num_latents": 11,
    "rotary_dim": WIDTH // HEADS // 2,
}
_IDS = {"pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}
_IDS |= {"mask_token_id": 4, "decoder_start_token_id": 2, "unk_token_id": 5}
# What some families need besides.
_FURTHER: dict[str, dict[str, Any]] = {
    "esm": {"vocab_size": VOCAB, "token_dropout": True},
    "funnel": {"block_sizes": [1, 1], "block_repeats": [1, 1], "num_decoder_layers": 1},
    "reformer": {"axial_pos_embds": False, "attention_head_size": WIDTH // HEADS},
    "longformer": {"attention_window": 4},
    "led": {"attention_window": 4},
    "xmod": {"default_language": "en_XX"},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 4},
    "bros": {"hidden_size": 64},
    "lilt": {"hidden_size": 48},  # which six embeddings of a box share
    "roc_bert": {"pronunciation_vocab_size": VOCAB, "shape_vocab_size": VOCAB},
}
# What counts something else there.
_UNSIZED = {"funnel": ("num_hidden_layers",), "xlnet": ("max_position_embeddings",)}
_READS_IDS_WITH_A_HEAD = frozenset({"perceiver"})  # its plain form reads vectors


def tiny_model(model_type: str, seed: int = 0, **overrides: Any) -> nn.Module:
    """Random weights for a type, such as "bert": two layers of width 32; torch's random state stays as it is.

    Raises:
        InputError: a type that transformers does not know, or that cannot be made so small.

    Example:
        >>> tiny_model("bert").config.hidden_size
        32
    """
    if model_type not in CONFIG_MAPPING:
        raise InputError(f"transformers knows no model type '{model_type}'", "arch")
    kind = AutoModelForMaskedLM if model_type in _READS_IDS_WITH_A_HEAD else AutoModel
    try:
        config = AutoConfig.for_model(model_type, **_changes(CONFIG_MAPPING[model_type]()) | overrides)
        config.architectures = config.architectures or []  # where a type has two plain forms, transformers looks there
        with torch.device("meta"):
            n = sum(parameter.numel() for parameter in kind.from_config(config).parameters())
        if n > LARGEST:
            raise InputError(f"no tiny {model_type} can be made: it would still have {n:,} weights", "arch")
        with torch.random.fork_rng([]):
            torch.manual_seed(seed)
            model: nn.Module = kind.from_config(config).eval()
            _fill_zeros(model)
        return model
    except InputError:
        raise
    except Exception as error:  # a family may refuse its sizes in any way
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise InputError(f"no tiny {model_type} can be made: {reason}", "arch") from error


def masked_lm_types() -> list[str]:
    """Every type of the installed transformers that has a masked-LM form, and so is meant to be an encoder."""
    return sorted(set(modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES) & set(modeling_auto.MODEL_MAPPING_NAMES))


def _changes(plain: Any) -> dict[str, Any]:
    """Which sizes and ids a configuration has, its parts' among them, at our values."""
    known = {name: value for name, value in (_SIZES | _IDS).items() if isinstance(getattr(plain, name, None), int)}
    aliases = set(getattr(plain, "attribute_map", {})) | {name for name in known if _is_computed(plain, name)}
    chosen: dict[str, Any] = {name: value for name, value in known.items() if name not in aliases} | _IDS
    for name in _UNSIZED.get(plain.model_type, ()):
        chosen.pop(name, None)
    for name in getattr(plain, "sub_configs", {}):
        if (part := getattr(plain, name, None)) is not None:
            chosen[name] = {"model_type": part.model_type} | _changes(part)
    return chosen | _FURTHER.get(plain.model_type, {})


def _is_computed(plain: Any, name: str) -> bool:
    found = getattr(type(plain), name, None)
    return isinstance(found, property) and found.fset is None


@torch.no_grad()
def _fill_zeros(model: nn.Module) -> None:
    """Random numbers for matrices that begin as zeros: behind those nothing is heard of what stands before."""
    for parameter in model.parameters():
        if parameter.ndim > 1 and not parameter.any():
            parameter.normal_(std=0.02)
