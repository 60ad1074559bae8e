"""Padding that leaks: the mask is dropped somewhere, or lets too much through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .case import Case, fault
from .models import attention, named, on
from .own import OWN, Attention, Encoder
from .plant import change_argument, drop_mask, edit_mask, in_form, visible, wrap

RULES = "padding-amount padding-content padding-side padding-values holes holes-removed"
IGNORED = "mask-never-arrives"


def dropped(name: str, kind: str, layers: tuple[int, ...], report: str, **options: Any) -> Case:
    module = named(kind, layers[0])
    build = on(kind, drop_mask(*layers), **options)
    return fault(name, kind, "padding", report, build, rules=RULES, module=module, cause=IGNORED)


def model_drops_mask(model: nn.Module) -> None:
    change_argument(model, "attention_mask", lambda keep: None)


def ones_for_mask(model: nn.Module) -> None:
    edit_mask(model, 0, torch.ones_like)


def one_head_sees_padding(model: nn.Module) -> None:
    def edited(allowed: Tensor) -> Tensor:
        heads = allowed.expand(-1, 2, -1, -1).clone()
        heads[:, 0] = True
        return heads

    edit_mask(model, 1, edited)


def first_padded_slot_visible(model: nn.Module) -> None:
    edit_mask(model, 0, lambda allowed: allowed | allowed.roll(1, -1))


def blend(share: float) -> Callable[[nn.Module], None]:
    """A plant: a share of the unmasked attention is mixed into that of layer 1."""

    def plant(model: nn.Module) -> None:
        def around(forward: Callable[..., Any], given: dict[str, Any]) -> Any:
            right = forward(**given)
            wrong = forward(**{**given, "attention_mask": None})
            return ((1 - share) * right[0] + share * wrong[0], *right[1:])

        wrap(attention(model, 1), around)

    return plant


def weak_bias(model: nn.Module) -> None:
    def weak(mask: Tensor | None) -> Tensor | None:
        dtype = next(model.parameters()).dtype
        return None if mask is None else torch.zeros(mask.shape, dtype=dtype).masked_fill(~visible(mask), -5.0)

    change_argument(attention(model, 1), "attention_mask", weak)


def only_causal(model: nn.Module) -> None:
    """The causal part of the mask is rebuilt from the length, and the padding in it is lost."""

    def rebuilt(mask: Tensor | None) -> Tensor | None:
        if mask is None:
            return None
        return in_form(torch.ones(mask.shape, dtype=torch.bool).tril(), mask)

    change_argument(attention(model, 1), "attention_mask", rebuilt)


class Unmasked(Attention):
    def allowed(self, keep: Tensor) -> Tensor:
        return torch.ones_like(super().allowed(keep))


def torch_encoder(faulty: bool) -> nn.Module:
    """nn.TransformerEncoder, whose src_key_padding_mask is forgotten."""

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(61, 22)
            layer = nn.TransformerEncoderLayer(22, 2, 37, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

        def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
            if faulty or attention_mask is None:
                return self.encoder(self.embed(input_ids))
            padded = attention_mask == 0
            padded = padded & ~padded.all(1, keepdim=True)
            return self.encoder(self.embed(input_ids), src_key_padding_mask=padded)

    torch.manual_seed(5)
    return Wrapped().eval()


CASES = [
    dropped("bert-layer-1-drops-mask", "bert", (1,), "IndicBERT 20"),
    dropped("electra-layer-0-drops-mask", "electra", (0,), "IndicBERT 20"),
    dropped("distilbert-last-layer-drops-mask", "distilbert", (2,), "IndicBERT 20", num_hidden_layers=3),
    dropped("modernbert-global-layer-drops-mask", "modernbert", (0,), "IndicBERT 20"),
    dropped("modernbert-window-layer-drops-mask", "modernbert", (1,), "IndicBERT 20"),
    dropped("albert-shared-layer-drops-mask", "albert", (0,), "IndicBERT 20"),
    dropped("mpnet-layer-1-drops-mask", "mpnet", (1,), "ReProver 34"),
    dropped("bart-encoder-layer-1-drops-mask", "bart", (1,), "IndicBERT 20"),
    dropped("t5-encoder-layer-0-drops-mask", "t5", (0,), "IndicBERT 20"),
    fault(
        "roberta-model-drops-mask",
        "roberta",
        "padding",
        "ReProver 34: the mask is not passed on",
        on("roberta", model_drops_mask),
        rules=RULES,
        module=named("roberta", 0) + "|",
        cause=IGNORED,
    ),
    fault(
        "deberta-v2-layer-0-gets-a-mask-of-ones",
        "deberta-v2",
        "padding",
        "IndicBERT 20",
        on("deberta-v2", ones_for_mask),
        rules=RULES,
        module=named("deberta-v2", 0),
        cause=IGNORED,
    ),
    fault(
        "bert-one-head-sees-padding",
        "bert",
        "padding",
        "mask not broadcast over heads",
        on("bert", one_head_sees_padding),
        rules=RULES,
        module=named("bert", 1),
        cause=IGNORED,
    ),
    fault(
        "xlm-roberta-first-padded-slot-visible",
        "xlm-roberta",
        "padding",
        "mask off by one",
        on("xlm-roberta", first_padded_slot_visible),
        rules=RULES,
        module=named("xlm-roberta", 0),
        cause="mask-never-arrives unknown",
    ),
    fault(
        "roberta-a-thousandth-leaks",
        "roberta",
        "padding",
        "a small leak",
        on("roberta", blend(0.004)),
        rules=RULES,
        module=named("roberta", 1),
        cause="mask-never-arrives unknown",
    ),
    fault(
        "bert-bias-of-minus-five",
        "bert",
        "padding",
        "masked by a bias too weak to hide anything",
        on("bert", weak_bias),
        rules=RULES,
        module=named("bert", 1),
        cause="mask-never-arrives unknown",
    ),
    fault(
        "llama-left-padding-visible",
        "llama",
        "padding",
        "transformers 35909: left padding of a decoder",
        on("llama", only_causal),
        rules=RULES,
        module=named("llama", 1),
        cause=IGNORED,
    ),
    fault(
        "own-attention-without-mask",
        "own module",
        "padding",
        "IndicBERT 20",
        lambda faulty: Encoder(second=Unmasked if faulty else Attention),
        rules=RULES,
        module=r"layers\.1\.attention",
        cause=IGNORED,
        audit=OWN,
    ),
    fault(
        "own-torch-encoder-without-key-padding-mask",
        "own module",
        "padding",
        "pytorch: src_key_padding_mask forgotten",
        torch_encoder,
        rules=RULES,
        module=r"encoder\.layers\.0(\.self_attn)?|encoder",
        cause=IGNORED,
        audit=OWN,
    ),
]
