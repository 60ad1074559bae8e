"""Models and functions that are right, in which nothing may be found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from . import collators, losses, mask_builders, pooling
from .case import Case
from .empty import torch_attention
from .models import on, tiny
from .own import OWN, OWN_CAUSAL, WIDTH, Attention, Encoder
from .plant import wrap

TYPES = """
albert bart bert bert-generation biogpt blenderbot camembert cohere data2vec-text deberta deberta-v2
distilbert electra ernie esm eurobert gemma gpt2 gpt_neox granite jina_embeddings_v3 layoutlm llama m2m_100
marian mbart mistral modernbert mt5 nomic_bert olmo olmo2 opt pegasus phi3 plbart qwen2 qwen3 roberta
roberta-prelayernorm smollm3 starcoder2 t5 umt5 xlm-roberta xlm-roberta-xl
"""
"""Types of transformers whose code handles masks rightly in all that `evidence` looks at."""
HEADS = {
    "bert": "BertForMaskedLM",
    "roberta": "RobertaForTokenClassification",
    "electra": "ElectraForMaskedLM",
    "distilbert": "DistilBertForQuestionAnswering",
    "gpt2": "GPT2LMHeadModel",
    "llama": "LlamaForCausalLM",
    "t5": "T5EncoderModel",
    "bart": "BartForConditionalGeneration",
}


def control(name: str, architecture: str, report: str, make: Callable[[], Any], **audit: Any) -> Case:
    return Case(name, architecture, "control", report, make, audit=audit)


def stock(kind: str, report: str, name: str = "", head: str = "", **options: Any) -> Case:
    return control(name or f"right-{kind}", kind, report, lambda: tiny(kind, head, **options))


def cast(kind: str, dtype: torch.dtype) -> Case:
    name = f"right-{kind}-{str(dtype).removeprefix('torch.')}"
    return control(name, kind, "another dtype", lambda: tiny(kind).to(dtype))


def rotates_by_slot(model: Any) -> None:
    """Rotary distances are the same from wherever slots are counted; the float32 angles are not."""

    def around(forward: Callable[..., Any], given: dict[str, Any]) -> Any:
        hidden = given["hidden_states"]
        given["position_embeddings"] = model.rotary_emb(hidden, torch.arange(hidden.shape[1])[None])
        return forward(**given)

    wrap(model.layers[1].self_attn, around)


def in_padding(new: Callable[[Tensor], Tensor]) -> Callable[[Any], None]:
    """Change what stands in padded slots of the output, and nothing else."""

    def change(model: Any) -> None:
        def around(forward: Callable[..., Any], given: dict[str, Any]) -> Any:
            found = forward(**given)
            keep = given.get("attention_mask")
            if isinstance(keep, Tensor) and keep.dim() == 2:
                hidden = found.last_hidden_state
                found.last_hidden_state = torch.where(keep[..., None] != 0, hidden, new(hidden))
            return found

        wrap(model, around)

    return change


class Offset(nn.Module):
    """A large number is added and the mean over tokens taken off, in whatever order the sum runs over slots."""

    def forward(self, hidden: Tensor, keep: Tensor) -> Tensor:
        hidden = (hidden + 3e3).masked_fill(~keep[..., None], 0)
        return (hidden - hidden.sum(1, keepdim=True) / keep.sum(1)[:, None, None].clamp(min=1)).masked_fill(
            ~keep[..., None], 0
        )


class OffsetMean(nn.Module):
    """The mean of tokens to which a large number was added, less that number."""

    def forward(self, hidden: Tensor, keep: Tensor) -> Tensor:
        total = (hidden + 1e4).masked_fill(~keep[..., None], 0).sum(1)
        return total / keep.sum(1, keepdim=True).clamp(min=1) - 1e4


class Counting(Encoder):
    """Buffers that change with every call, and are never read."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.register_buffer("seen", torch.zeros(WIDTH))

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Any:
        found = super().forward(input_ids, attention_mask)
        self.calls += 1
        self.seen = self.seen + found.detach().mean((0, 1))
        return found


class Running(nn.Module):
    """Batch normalisation by running statistics, as evaluation has it, also while training."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2)

    def forward(self, hidden: Tensor, keep: Tensor) -> Tensor:
        mean, spread = self.norm.running_mean, self.norm.running_var
        shifted = nn.functional.batch_norm(hidden.flatten(0, 1), mean, spread, self.norm.weight, self.norm.bias)
        return shifted.view_as(hidden)


class Tupled(Encoder):
    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Any:
        found = super().forward(input_ids, attention_mask)
        return found, (found.amax(-1), None)


class Named(Encoder):
    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Any:
        return {"last_hidden_state": super().forward(input_ids, attention_mask), "version": 3, "note": "all right"}


class Causal(Attention):
    def __init__(self) -> None:
        super().__init__(causal=True)


def recurrent() -> nn.Module:
    """A recurrence from left to right over tokens, which padding leaves alone."""

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(61, WIDTH)
            self.cell = nn.GRUCell(WIDTH, WIDTH)

        def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
            hidden = self.embed(input_ids)
            keep = torch.ones_like(input_ids) if attention_mask is None else attention_mask
            state, states = torch.zeros_like(hidden[:, 0]), []
            for place in range(hidden.shape[1]):
                state = torch.where(keep[:, place, None] != 0, self.cell(hidden[:, place], state), state)
                states.append(state)
            return torch.stack(states, 1)

    torch.manual_seed(5)
    return Recurrent().eval()


FUNCTIONS = [
    *(
        control(
            f"right-pool-{name}", "pooling", "a pooling function that is right", lambda call=call: call, **pooling.POOL
        )
        for name, call in {
            "mean": pooling.mean,
            "max": pooling.maximum,
            "first": pooling.first,
            "last": pooling.last,
            "attention": pooling.attention,
        }.items()
    ),
    control(
        "right-collator",
        "collator",
        "80/10/10, seeded by torch",
        collators.Masking,
        kind="collator",
        tokenizer=collators.tokenizer,
    ),
    control("right-loss", "loss", "the mean over targets", lambda: losses.right, **losses.LOSS),
    control("right-loss-smoothed", "loss", "label smoothing over targets", lambda: losses.smoothed, **losses.LOSS),
    control("right-mask-bool", "mask", "True = may attend", lambda: mask_builders.keys, **mask_builders.MASK),
    control(
        "right-mask-additive", "mask", "half of the lowest number", lambda: mask_builders.additive, **mask_builders.MASK
    ),
    control("right-mask-causal", "mask", "causal and padding", lambda: mask_builders.causal, **mask_builders.CAUSAL),
]
OWN_MODULES = [
    control("right-own-encoder", "own module", "an encoder by hand", Encoder, **OWN),
    control("right-own-causal", "own module", "a decoder by hand", lambda: Encoder(Causal, Causal), **OWN_CAUSAL),
    control(
        "right-own-torch-attention",
        "own module",
        "key_padding_mask as torch has it",
        lambda: torch_attention(False),
        **OWN,
    ),
    control("right-own-buffers", "own module", "buffers that change", Counting, **OWN),
    control(
        "right-own-running-statistics", "own module", "normalised by constants", lambda: Encoder(middle=Running), **OWN
    ),
    control("right-own-tuple", "own module", "a nested tuple", Tupled, **OWN),
    control("right-own-dictionary", "own module", "a dictionary with other things in it", Named, **OWN),
    control("right-own-recurrence", "own module", "a recurrence that skips padding", recurrent, **OWN_CAUSAL),
]
NOISE = [
    control("noise-own-large-offset", "own module", "transformers 3150", lambda: Encoder(middle=Offset), **OWN),
    control(
        "noise-own-mean-of-large-numbers", "own module", "transformers 2401", lambda: Encoder(pool=OffsetMean), **OWN
    ),
    stock("roberta", "transformers 3150", "noise-roberta-large-weights", initializer_range=0.7),
    stock("bert", "transformers 2401", "noise-bert-six-layers", num_hidden_layers=6),
    control(
        "noise-llama-rotates-by-slot",
        "llama",
        "float32 angles of other slots, the same distances",
        lambda: on("llama", rotates_by_slot)(True),
    ),
]
FLOAT64_ONLY = [
    stock("bloom", "PEERS: finfo.min plus a score overflows in float64 alone", "float64-only-bloom"),
    stock("xlm", "PEERS: finfo.min plus a score overflows in float64 alone", "float64-only-xlm"),
]
PADDED_SLOTS = [
    control(
        "padding-only-bert-mean-of-the-batch",
        "bert",
        "transformers 36585: only padded slots differ",
        lambda: on("bert", in_padding(lambda hidden: hidden.mean((0, 1), keepdim=True)))(True),
    ),
    control(
        "padding-only-electra-next-slot",
        "electra",
        "transformers 36585: only padded slots differ",
        lambda: on("electra", in_padding(lambda hidden: hidden.roll(-1, 1) * 3))(True),
    ),
    control(
        "padding-only-modernbert-zeros",
        "modernbert",
        "unpadding leaves zeros in padded slots",
        lambda: on("modernbert", in_padding(torch.zeros_like))(True),
    ),
]
CASES: list[Case] = [
    *(stock(kind, "a type that is right") for kind in TYPES.split()),
    *(stock(kind, "a task model that is right", f"right-{head}".lower(), head) for kind, head in HEADS.items()),
    stock("bert", "one layer", "right-bert-one-layer", num_hidden_layers=1),
    stock("distilbert", "one head", "right-distilbert-one-head", num_attention_heads=1),
    stock("bert", "a decoder", "right-bert-decoder", is_decoder=True),
    stock("gpt2", "no id of padding", "right-gpt2-without-padding-id", pad_token_id=None),
    cast("bert", torch.float64),
    cast("roberta", torch.bfloat16),
    *OWN_MODULES,
    *NOISE,
    *FLOAT64_ONLY,
    *PADDED_SLOTS,
    *FUNCTIONS,
]
