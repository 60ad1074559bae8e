"""Positions that count slots, lose their offset, or are not the ones that were handed over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .case import fault
from .models import on
from .own import OWN, WIDTH, Encoder
from .plant import change_argument, wrap

RULES = "padding-side padding-amount packing-blocks packing-positions position-offset holes-removed"
EMBEDDINGS = r"embeddings(\.\w+)?"
COUNTED = "slots-counted"


def not_handed_on(model: nn.Module) -> None:
    change_argument(model, "position_ids", lambda place: None)


def slots(model: nn.Module) -> None:
    """Positions count all slots from the offset of the family, padding or not."""

    def around(forward: Callable[..., Any], given: dict[str, Any]) -> Any:
        length = (given.get("input_ids") if given.get("input_ids") is not None else given["inputs_embeds"]).shape[1]
        given["position_ids"] = torch.arange(length)[None] + model.config.pad_token_id + 1
        return forward(**given)

    wrap(model.embeddings, around)


def from_the_end(model: nn.Module) -> None:
    """Positions count back from the end of the padded row."""

    def around(forward: Callable[..., Any], given: dict[str, Any]) -> Any:
        ids = given.get("input_ids") if given.get("input_ids") is not None else given["inputs_embeds"]
        given["position_ids"] = torch.arange(ids.shape[1]).flip(0)[None]
        return forward(**given)

    wrap(model.embeddings, around)


def offset_added_twice(model: nn.Module) -> None:
    """Whoever gives positions gets them moved by padding_idx + 1, as those are that the model counts itself."""
    moved = model.config.pad_token_id + 1
    change_argument(model.embeddings, "position_ids", lambda place: None if place is None else place + moved)


def rotation_from_width(model: nn.Module) -> None:
    """Layer 1 scales its rotary embeddings by the padded length, as dynamic scaling does."""
    rotary = model.rotary_emb

    def around(forward: Callable[..., Any], given: dict[str, Any]) -> Any:
        hidden = given["hidden_states"]
        length = hidden.shape[1]
        given["position_embeddings"] = rotary(hidden, torch.arange(length)[None] * (1 + length / 64))
        return forward(**given)

    wrap(model.layers[1].self_attn, around)


def windows_rotate_by_share(model: nn.Module) -> None:
    """The windows' rotary embeddings are stretched by the padded length, those of the global layers are not."""

    def around(forward: Callable[..., Any], given: dict[str, Any]) -> Any:
        if given.get("layer_type") == "sliding_attention":
            given["position_ids"] = given["position_ids"] * (20 / given["x"].shape[1])
        return forward(**given)

    wrap(model.rotary_emb, around)


def tokens_scaled(model: nn.Module) -> None:
    """Positions are stretched by the padded length, as for interpolation."""

    def around(forward: Callable[..., Any], given: dict[str, Any]) -> Any:
        ids = given.get("input_ids") if given.get("input_ids") is not None else given["inputs_embeds"]
        length = ids.shape[1]
        place = given.get("position_ids")
        place = torch.arange(length)[None] if place is None else place
        given["position_ids"] = (place * 40 // length).clamp(max=66)
        return forward(**given)

    wrap(model.embeddings, around)


class Where(nn.Module):
    """A feature wave over the tokens counted from the left, or over the share of the row's slots if `faulty`."""

    def __init__(self, faulty: bool) -> None:
        super().__init__()
        self.faulty = faulty
        self.rate = nn.Parameter(torch.rand(WIDTH) * 2)

    def forward(self, hidden: Tensor, keep: Tensor) -> Tensor:
        place = keep.cumsum(1).to(hidden.dtype)
        if self.faulty:
            place = torch.linspace(0, 5, hidden.shape[1], dtype=hidden.dtype).expand_as(place)
        return hidden + (place[..., None] * self.rate).sin()


CASES = [
    fault(
        "gpt2-position-ids-not-handed-on",
        "gpt2",
        "positions",
        "transformers 35909: left padding of a decoder",
        on("gpt2", not_handed_on),
        rules=RULES,
        cause=COUNTED,
    ),
    fault(
        "bert-position-ids-not-handed-on",
        "bert",
        "positions",
        "positions of packed texts are lost",
        on("bert", not_handed_on),
        rules=RULES,
        module=EMBEDDINGS + "|",
        cause="slots-counted packing-leak",
    ),
    fault(
        "roberta-positions-count-slots",
        "roberta",
        "positions",
        "positions of a left-padded row",
        on("roberta", slots),
        rules=RULES,
        module=EMBEDDINGS,
        cause=COUNTED,
    ),
    fault(
        "xlm-roberta-offset-added-twice",
        "xlm-roberta",
        "positions",
        "transformers 47525",
        on("xlm-roberta", offset_added_twice),
        rules=RULES,
        module=EMBEDDINGS,
        cause="position-offset slots-counted",
    ),
    fault(
        "bert-positions-from-the-end",
        "bert",
        "positions",
        "positions counted back from the padded end",
        on("bert", from_the_end),
        rules=RULES,
        module=EMBEDDINGS,
        cause=COUNTED,
    ),
    fault(
        "electra-positions-stretched",
        "electra",
        "positions",
        "positions interpolated by the padded length",
        on("electra", tokens_scaled),
        rules=RULES,
        module=EMBEDDINGS,
        cause="slots-counted unknown",
    ),
    fault(
        "llama-layer-1-rotation-from-width",
        "llama",
        "positions",
        "dynamic rotary scaling by the padded length",
        on("llama", rotation_from_width),
        rules=RULES,
        module=r"layers\.1\.self_attn",
        cause="slots-counted unknown",
    ),
    fault(
        "modernbert-windows-rotate-by-share",
        "modernbert",
        "positions",
        "positions interpolated by the padded length",
        on("modernbert", windows_rotate_by_share),
        rules=RULES,
        module=r"layers\.1\.attn|rotary_emb",
        cause="slots-counted unknown",
    ),
    fault(
        "own-positions-are-shares-of-the-row",
        "own module",
        "positions",
        "positions relative to the padded length",
        lambda faulty: Encoder(middle=lambda: Where(faulty)),
        rules=RULES,
        module="middle",
        cause="slots-counted unknown",
        audit=OWN,
    ),
]
