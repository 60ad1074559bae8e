"""Masks taken the wrong way round."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .case import Case, fault
from .models import attention, named, on
from .own import OWN, Attention, Encoder
from .plant import change_argument, invert_mask

RULES = "padding-amount padding-content padding-side padding-values mask-forms backward-attention holes holes-removed"


def inverted(name: str, kind: str, layers: tuple[int, ...], **options: Any) -> Case:
    build = on(kind, invert_mask(*layers), **options)
    module = named(kind, layers[0])
    return fault(name, kind, "polarity", "transformers 38094", build, rules=RULES, module=module, cause="polarity")


def model_inverts(model: nn.Module) -> None:
    change_argument(model, "attention_mask", lambda keep: keep if keep is None or keep.all() else 1 - keep.long())


def wrong_sign(model: nn.Module) -> None:
    """`keep * min` is added to the scores, where it should be `(1 - keep) * min`."""

    def wrong(bias: Tensor | None) -> Tensor | None:
        if bias is None or (bias == 0).all():
            return bias
        return torch.zeros_like(bias).masked_fill(bias == 0, torch.finfo(bias.dtype).min)

    for layer in (0, 1):
        change_argument(attention(model, layer), "attention_mask", wrong)


def torch_attention(faulty: bool) -> nn.Module:
    """nn.MultiheadAttention's key_padding_mask is True where a slot is NOT to be seen."""

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(61, 22)
            self.attend = nn.MultiheadAttention(22, 2, batch_first=True)
            self.norm = nn.LayerNorm(22)

        def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
            hidden = self.embed(input_ids)
            padded = torch.zeros(input_ids.shape, dtype=torch.bool) if attention_mask is None else attention_mask == 0
            hidden_slots = ~padded if faulty and padded.any() else padded & ~padded.all(1, keepdim=True)
            mixed, _ = self.attend(hidden, hidden, hidden, key_padding_mask=hidden_slots, need_weights=False)
            return self.norm(hidden + mixed)

    torch.manual_seed(5)
    return Wrapped().eval()


class Inverted(Attention):
    def allowed(self, keep: Tensor) -> Tensor:
        return super().allowed(keep if keep.all() else ~keep)


CASES = [
    inverted("bert-layer-0-inverted", "bert", (0,)),
    inverted("electra-layer-1-inverted", "electra", (1,)),
    inverted("modernbert-layers-inverted", "modernbert", (0, 1)),
    inverted("t5-encoder-layer-1-inverted", "t5", (1,)),
    inverted("xlm-roberta-middle-layer-inverted", "xlm-roberta", (1,), num_hidden_layers=3),
    fault(
        "distilbert-model-inverted",
        "distilbert",
        "polarity",
        "transformers 38094",
        on("distilbert", model_inverts),
        rules=RULES,
        module=named("distilbert", 0) + "|",
        cause="polarity",
    ),
    fault(
        "mpnet-bias-on-the-wrong-slots",
        "mpnet",
        "polarity",
        "keep * min for (1 - keep) * min",
        on("mpnet", wrong_sign),
        rules=RULES,
        module=named("mpnet", 0),
        cause="polarity",
    ),
    fault(
        "own-key-padding-mask-is-keep",
        "own module",
        "polarity",
        "nn.MultiheadAttention: True means masked",
        torch_attention,
        rules=RULES,
        module="attend",
        cause="polarity",
        audit=OWN,
    ),
    fault(
        "own-first-layer-inverted",
        "own module",
        "polarity",
        "transformers 38094",
        lambda faulty: Encoder(first=Inverted if faulty else Attention),
        rules=RULES,
        module=r"layers\.0\.attention",
        cause="polarity",
        audit=OWN,
    ),
]
