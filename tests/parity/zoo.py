"""Tiny random models of every family in the table, built offline; sizes are distinct primes or products of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    AutoConfig,
    AutoModel,
    MT5EncoderModel,
    PreTrainedModel,
    T5EncoderModel,
    UMT5EncoderModel,
)
from transformers.masking_utils import eager_mask

from maskwright.encoders.families import FAMILIES

VOCAB, LAYERS, HEADS, WIDTH, INNER, POSITIONS = 61, 3, 2, 2 * 14, 37, 53
PAD, MASK_ID = 1, 5

_COMMON = {
    "vocab_size": VOCAB,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "hidden_size": WIDTH,
    "intermediate_size": INNER,
    "max_position_embeddings": POSITIONS,
    "pad_token_id": PAD,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
_ROPE = {"pad_token_id": PAD, "bos_token_id": 2, "eos_token_id": 3}
_T5 = {"vocab_size": VOCAB, "d_model": WIDTH, "d_kv": 7, "d_ff": INNER, "num_layers": LAYERS, "num_heads": HEADS}
_T5 |= {"dropout_rate": 0.0, "pad_token_id": PAD, "relative_attention_num_buckets": 8}
_XLM = {"vocab_size": VOCAB, "emb_dim": WIDTH, "n_layers": LAYERS, "n_heads": HEADS, "pad_index": PAD, "mask_index": 5}
_XLM |= {"dropout": 0.0, "attention_dropout": 0.0, "max_position_embeddings": POSITIONS, "n_langs": 1}
_XLM |= {"pad_token_id": PAD}
_DEBERTA = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "max_relative_positions": 7}

# What a family needs beyond, or instead of, the common arguments.
SPECIAL: dict[str, dict[str, Any]] = {
    "albert": {"embedding_size": 19},
    "electra": {"embedding_size": 19},
    "distilbert": {"dim": WIDTH, "n_layers": LAYERS, "n_heads": HEADS, "hidden_dim": INNER, "dropout": 0.0}
    | {"attention_dropout": 0.0},
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
    "roc_bert": {"pronunciation_vocab_size": 17, "shape_vocab_size": 23, "pronunciation_embed_dim": 11}
    | {"shape_embed_dim": 13},
    "modernbert": _ROPE | {"local_attention": 6, "global_attn_every_n_layers": 2, "cls_token_id": 2, "sep_token_id": 3},
    "ultrabert": _ROPE | {"sliding_window": 3},
    "eurobert": _ROPE | {"num_key_value_heads": 1},
    "markuplm": {"max_depth": 5, "xpath_unit_hidden_size": 7, "max_xpath_tag_unit_embeddings": 11}
    | {"max_xpath_subs_unit_embeddings": 13, "tag_pad_id": 10, "subs_pad_id": 12},
    "esm": {"position_embedding_type": "rotary", "token_dropout": True, "mask_token_id": MASK_ID},
    "rembert": {"input_embedding_size": 19, "output_embedding_size": 23},
    "luke": {"entity_vocab_size": 11, "entity_emb_size": 13},
    "lilt": {"hidden_size": 36, "channel_shrink_ratio": 2, "max_2d_position_embeddings": 61},
    "xlm": _XLM,
    "flaubert": _XLM,
    "roformer": {"embedding_size": WIDTH},
    "deberta": _DEBERTA,
    "deberta-v2": _DEBERTA | {"position_buckets": 5, "share_att_key": True, "norm_rel_ebd": "layer_norm"},
    "t5": _T5,
    "mt5": _T5,
    "umt5": _T5,
}
_ENCODER_ONLY = {"t5": T5EncoderModel, "mt5": MT5EncoderModel, "umt5": UMT5EncoderModel}
_BARE = {"t5", "mt5", "umt5", "xlm", "flaubert"}

PACKABLE = sorted(name for name, family in FAMILIES.items() if family.verdict != "refused")
REFUSED = sorted(name for name, family in FAMILIES.items() if family.verdict == "refused")


def _plain_attention(module, query, key, value, attention_mask, scaling=None, sliding_window=None, **kwargs):
    """The textbook formula in the inputs' own precision (some stock eager paths form their softmax in float32)."""
    key, value = (t.repeat_interleave(query.shape[1] // t.shape[1], 1) for t in (key, value))
    scores = query @ key.transpose(2, 3) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    for bias in (attention_mask, kwargs.get("position_bias")):
        scores = scores if bias is None else scores + bias
    shifted = (scores - scores.amax(-1, keepdim=True)).exp()
    return (shifted / shifted.sum(-1, keepdim=True) @ value).transpose(1, 2), None


AttentionInterface.register("textbook", _plain_attention)
AttentionMaskInterface.register("textbook", eager_mask)


def config_of(model_type: str, **changes: Any) -> Any:
    """A tiny config of a model type."""
    common = {} if model_type in _BARE else _COMMON
    return AutoConfig.for_model(model_type, **(common | SPECIAL.get(model_type, {}) | changes))


def encoder(model_type: str, **changes: Any) -> PreTrainedModel:
    """A tiny random encoder in evaluation mode; weights large enough that every part shows in the output."""
    torch.manual_seed(0)
    config = config_of(model_type, **changes)
    model = _ENCODER_ONLY.get(model_type, AutoModel.from_config)(config).eval()
    return spread(model)


def spread(model: PreTrainedModel) -> PreTrainedModel:
    """Redraw the weights wide, biases and norms included, so that a wrong position or neighbour shows clearly."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            if "embed_positions" in name:  # RoFormer's frozen table of angles
                continue
            draw = torch.randn(weight.shape, generator=generator, dtype=torch.float64).to(weight.dtype)
            weight.copy_(1 + 0.1 * draw if "norm" in name.lower() and "weight" in name else 0.3 * draw)
    return model


def ragged(model_type: str = "bert") -> dict[str, Tensor]:
    """Seven rows of up to 13 tokens: full, right-padded, left-padded, with holes, both, and of one token."""
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(6, VOCAB, (7, 13), generator=generator)
    mask = torch.ones_like(ids)
    mask[1, 9:], mask[2, :4], mask[3, 3:5], mask[4, 1:] = 0, 0, 0, 0
    mask[5, 2], mask[5, 11:], mask[6, 1:9:3] = 0, 0, 0
    ids[1, 9:], ids[2, :4], ids[4, 1:], ids[5, 11:] = PAD, PAD, PAD, PAD  # holes keep their ids, as dropped tokens do
    if model_type == "esm":
        ids[0, 3], ids[1, 2], ids[6, 1] = MASK_ID, MASK_ID, MASK_ID
    batch = {"input_ids": ids, "attention_mask": mask}
    if model_type in {"layoutlm", "lilt"}:
        corner = torch.randint(0, 23, (7, 13, 2), generator=generator)
        batch["bbox"] = torch.cat([corner, corner + torch.randint(1, 29, (7, 13, 2), generator=generator)], -1)
    if model_type == "bert":
        batch["token_type_ids"] = torch.randint(0, 2, (7, 13), generator=generator)
    return batch
