"""Which Hugging Face encoders can be packed, how, and which cannot, and why: one row a model type.

To add a family, add a row; the parity suite picks it up (see CONTRIBUTING.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from maskwright.attention.buckets import Bucket
from maskwright.encoders.modules import ModuleRule

Verdict = Literal["exact", "adapted", "refused"]


def _pool_first(base: Any, first: Tensor) -> Tensor:
    return base.pooler(first[:, None])


def _pool_albert(base: Any, first: Tensor) -> Tensor:
    return base.pooler_activation(base.pooler(first))


def _any_config(config: Any) -> None:
    return None


@dataclass(frozen=True)
class Family:
    """One model type.

    Attributes:
        model_type: transformers' name for it.
        verdict: "exact" (stock code on fewer tokens), "adapted" (exact with the adaptation `note` names), or "refused".
        note: the adaptation, or the reason of the refusal.
        positions: how the model numbers positions when none are given: "slots" from 0, "from_pad" as RoBERTa does
            (counting the ids that are not the pad id, from pad id + 1), or "none" where it takes no position ids.
        rule: how to run attention modules that bypass transformers' attention interface.
        embed_first: compute the embeddings in the padded batch (they depend on whole rows), then pack them.
        plain_mask: the model computes with its mask on the way; it gets ones `[1, T]`, the truth about a packed row,
            and the plan travels beside them.
        check: further conditions on the config; returns the reason for a refusal, or None.
        pool: the pooler, applied to each row's first kept token `[B, D]`.
    """

    model_type: str
    verdict: Verdict
    note: str = ""
    positions: Literal["slots", "from_pad", "none"] = "slots"
    rule: ModuleRule | None = None
    embed_first: bool = False
    plain_mask: bool = False
    check: Callable[[Any], str | None] = _any_config
    pool: Callable[[Any, Tensor], Tensor] = _pool_first


def _no_convolution(config: Any) -> str | None:
    if getattr(config, "conv_kernel_size", 0) > 0:
        return "its ConvLayer (conv_kernel_size > 0) mixes neighbouring slots"
    return None


def _t5_bias(base: Any, bucket: Bucket, hidden: Tensor) -> dict[str, Any]:
    first = base.encoder.block[0].layer[0].SelfAttention
    return {"position_bias": first.compute_bias(bucket.length, bucket.length, device=hidden.device)}


def _mpnet_bias(base: Any, bucket: Bucket, hidden: Tensor) -> dict[str, Any]:
    return {"position_bias": type(base.encoder).compute_position_bias(base.encoder, hidden)}


def _deberta_distances(base: Any, bucket: Bucket, hidden: Tensor) -> dict[str, Any]:
    return {"relative_pos": type(base.encoder).get_rel_pos(base.encoder, hidden)}


def _roformer_angles(base: Any, bucket: Bucket, hidden: Tensor) -> dict[str, Any]:
    angles = nn.functional.embedding(bucket.positions, base.encoder.embed_positions.weight)
    return {"sinusoidal_pos": angles[:, None].to(hidden.dtype)}


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


def _same(attention_mask: Tensor) -> Tensor:
    return attention_mask


def _no_angles(*args: Any, **kwargs: Any) -> Tensor:
    return torch.empty(0, 0)


def _eager(*classes: str) -> ModuleRule:
    return ModuleRule(classes)


_EAGER = "attention per bucket (its attention bypasses the attention interface)"
_RELATIVE = "attention per bucket; relative distances in original positions"
_DEBERTA = ModuleRule(
    ("DisentangledSelfAttention",),
    ("attention_mask", "keep"),
    rows="span",
    extra=_deberta_distances,
    replaced=(("encoder", "get_rel_pos", _nothing), ("encoder", "get_attention_mask", _same)),
)
_MPNET = ModuleRule(
    ("MPNetSelfAttention",),
    rows="span",
    extra=_mpnet_bias,
    replaced=(("encoder", "compute_position_bias", _nothing),),
)
_ROFORMER = ModuleRule(
    ("RoFormerSelfAttention",),
    extra=_roformer_angles,
    replaced=(("encoder.embed_positions", "forward", _no_angles),),
)
_XLM = ModuleRule(("MultiHeadAttention",), ("mask", "keep-2d"))

_ROWS = (
    # Exact: attention through the interface, positions as inputs.
    *(Family(name, "exact") for name in ("bert", "distilbert", "electra", "ernie", "roc_bert", "splinter")),
    *(
        Family(name, "exact")
        for name in ("nomic_bert", "jina_embeddings_v3", "eurobert", "gte", "esmc", "bert-generation")
    ),
    Family("albert", "exact", pool=_pool_albert),
    *(
        Family(name, "exact", "positions counted from pad_token_id + 1", positions="from_pad")
        for name in ("roberta", "xlm-roberta", "xlm-roberta-xl", "roberta-prelayernorm", "camembert", "xmod")
    ),
    Family("data2vec-text", "exact", "positions counted from pad_token_id + 1", positions="from_pad"),
    Family("layoutlm", "exact", plain_mask=True),
    Family("markuplm", "exact", "positions counted from pad_token_id + 1", positions="from_pad", plain_mask=True),
    # Adapted: exact, with one thing done differently.
    Family("modernbert", "adapted", "sliding windows measured in original positions"),
    Family("ultrabert", "adapted", "sliding windows measured in original positions"),
    Family("esm", "adapted", "token-dropout scaling computed on whole rows", embed_first=True),
    Family("rembert", "adapted", _EAGER, rule=_eager("RemBertSelfAttention")),
    Family("megatron-bert", "adapted", _EAGER, rule=_eager("MegatronBertSelfAttention")),
    Family("luke", "adapted", _EAGER + "; words only", positions="from_pad", rule=_eager("LukeSelfAttention")),
    Family("ibert", "adapted", _EAGER, positions="from_pad", rule=_eager("IBertSelfAttention")),
    Family("lilt", "adapted", _EAGER, positions="from_pad", rule=_eager("LiltSelfAttention")),
    Family("xlm", "adapted", _EAGER, rule=_XLM, plain_mask=True),
    Family("flaubert", "adapted", _EAGER, rule=_XLM, plain_mask=True),
    Family("roformer", "adapted", "attention per bucket; rotary angles of original positions", rule=_ROFORMER),
    Family("mpnet", "adapted", _RELATIVE, positions="from_pad", rule=_MPNET),
    Family("deberta", "adapted", _RELATIVE, rule=_DEBERTA, plain_mask=True, check=_no_convolution),
    Family("deberta-v2", "adapted", _RELATIVE, rule=_DEBERTA, plain_mask=True, check=_no_convolution),
    *(
        Family(
            name,
            "adapted",
            _RELATIVE + "; encoder only",
            positions="none",
            rule=ModuleRule((cls,), (mask, "additive"), rows="span", extra=extra),
        )
        for name, cls, mask, extra in (
            ("t5", "T5Attention", "mask", _t5_bias),
            ("mt5", "MT5Attention", "mask", _t5_bias),
            ("umt5", "UMT5Attention", "attention_mask", None),
        )
    ),
    # Refused: neighbouring slots meet by design, or the row is read as a whole.
    Family("longformer", "refused", "sliding chunks of slots attend to each other"),
    Family("led", "refused", "sliding chunks of slots attend to each other"),
    Family("big_bird", "refused", "block-sparse attention over blocks of slots"),
    Family("reformer", "refused", "attention over chunks of slots chosen by hashing"),
    Family("convbert", "refused", "convolutions mix neighbouring slots"),
    Family("canine", "refused", "convolutions and downsampling mix neighbouring slots"),
    Family("squeezebert", "refused", "attention runs channel-first through grouped convolutions"),
    Family("fnet", "refused", "a Fourier transform mixes all slots, padding included"),
    Family("mobilebert", "refused", "its trigram input joins each token with both neighbouring slots"),
    Family("funnel", "refused", "pools neighbouring slots between blocks"),
    Family("nystromformer", "refused", "landmarks average segments of slots, padding included"),
    Family("yoso", "refused", "hashing attention estimates over all slots"),
    Family("mra", "refused", "multi-resolution attention over blocks of slots"),
    Family("perceiver", "refused", "cross-attends from latents; it has no per-token encoder"),
    Family("xlnet", "refused", "relative shift over [L, B] slots with permutation masks and memories"),
    Family("bros", "refused", "pairwise box distances for all pairs of slots"),
    Family("tapas", "refused", "cell-relative positions computed over whole rows of a table"),
    # Refused: not text encoders alone.
    *(
        Family(name, "refused", "its attention also covers image tokens that no attention_mask names")
        for name in ("layoutlmv2", "layoutlmv3", "lxmert", "modernvbert", "ultravbert", "visual_bert", "vilt", "neomme")
    ),
    *(
        Family(name, "refused", "encoder-decoder: the decoder would attend to states that do not exist")
        for name in ("bart", "mbart", "mvp", "t5gemma", "t5gemma2")
    ),
    *(Family(name, "refused", "a causal decoder") for name in ("emu3", "llama4", "mllama", "molmo2_text")),
    Family("clip_text_model", "refused", "causal attention, pooled at the end-of-text token"),
    Family("tipsv2_text_model", "refused", "averages over the row inside the encoder"),
    Family("openai_privacy_filter", "refused", "attention sinks and banded attention inside its attention"),
    Family("dpr", "refused", "returns only a pooled vector; pack the BERT model inside it"),
)

FAMILIES: Mapping[str, Family] = {family.model_type: family for family in _ROWS}
