"""Softmax over nothing, and other divisions by a count of zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .case import Case, fault
from .models import attention, named, on
from .own import OWN, OWN_CAUSAL, WIDTH, Attention, Encoder
from .plant import change_argument, change_output, visible

RULES = "empty-row padding-amount padding-side padding-content padding-values neighbours"
NOTHING = "softmax-over-nothing"


def infinite_bias(model: nn.Module, layer: int, new: Callable[[Tensor], Tensor] = lambda allowed: allowed) -> None:
    """Give a layer's eager attention a bias of minus infinity in place of a large number."""

    def infinite(mask: Tensor | None) -> Tensor | None:
        if mask is None:
            return None
        dtype = next(model.parameters()).dtype
        return torch.zeros(mask.shape, dtype=dtype).masked_fill(~new(visible(mask)), float("-inf"))

    change_argument(attention(model, layer), "attention_mask", infinite)


def in_layer(layer: int) -> Callable[[nn.Module], None]:
    return lambda model: infinite_bias(model, layer)


def padded_queries_see_nothing(model: nn.Module) -> None:
    """Padding is hidden as a query too; its rows are no numbers, and the next layer reads them times zero."""
    infinite_bias(model, 0, lambda allowed: allowed & allowed.transpose(-1, -2))


def window_over_nothing(model: nn.Module) -> None:
    """Layer 1 gives no numbers for a slot whose window lies wholly in padding; the next layer reads them times zero."""

    def nothing(hidden: Tensor, given: dict[str, Any]) -> Tensor:
        mask = given.get("attention_mask")
        if mask is None:
            return hidden
        return hidden.masked_fill(~visible(mask).any(-1).any(1)[..., None], float("nan"))

    change_output(attention(model, 1), nothing)


def divided_by_length(model: nn.Module) -> None:
    """What the last layer gives is rescaled by a count that may be zero."""
    seen: dict[str, Tensor] = {}

    def note(mask: Tensor | None) -> Tensor | None:
        seen["n"] = torch.ones(1, 1, 1) if mask is None else visible(mask).any(-2).any(1).sum(-1)[:, None, None]
        return mask

    layer = model.transformer.layer[1]
    change_argument(layer.attention, "attention_mask", note)
    change_output(layer.ffn, lambda hidden, _: hidden * seen["n"].to(hidden.dtype) / seen["n"].to(hidden.dtype))


class Careless(Attention):
    """Minus infinity, and no thought of a query that may attend to nothing."""

    def weights(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return scores.masked_fill(~allowed, float("-inf")).softmax(-1)


class Norm(nn.Module):
    """Hidden states are divided by the root mean square of a text's tokens, of which there may be none."""

    def __init__(self, faulty: bool) -> None:
        super().__init__()
        self.faulty = faulty

    def forward(self, hidden: Tensor, keep: Tensor) -> Tensor:
        hidden = hidden.masked_fill(~keep[..., None], 0)
        n = keep.sum(1)[:, None, None]
        square = hidden.square().sum((1, 2), keepdim=True) / (n if self.faulty else n.clamp(min=1))
        return hidden / (square / WIDTH + 1e-6).sqrt()


def torch_attention(faulty: bool) -> nn.Module:
    """nn.MultiheadAttention gives no numbers for a row of padding alone."""

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(61, WIDTH)
            self.attend = nn.MultiheadAttention(WIDTH, 2, batch_first=True)

        def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
            hidden = self.embed(input_ids)
            padded = torch.zeros_like(input_ids, dtype=torch.bool) if attention_mask is None else attention_mask == 0
            if not faulty:
                padded = padded & ~padded.all(1, keepdim=True)
            mixed, _ = self.attend(hidden, hidden, hidden, key_padding_mask=padded)
            return hidden + mixed

    torch.manual_seed(5)
    return Wrapped().eval()


def eager(name: str, kind: str, plant: Callable[[nn.Module], None], layer: int, report: str, **options: Any) -> Case:
    build = on(kind, plant, attn_implementation="eager", **options)
    module = named(kind, layer)
    return fault(name, kind, "empty", report, build, rules=RULES, module=module, cause=NOTHING)


def own(name: str, build: Callable[[bool], nn.Module], module: str, report: str, audit: dict[str, Any] = OWN) -> Case:
    return fault(name, "own module", "empty", report, build, rules=RULES, module=module, cause=NOTHING, audit=audit)


CASES = [
    eager("bert-layer-1-infinite-bias", "bert", in_layer(1), 1, "pytorch 24816"),
    eager("albert-infinite-bias", "albert", in_layer(0), 0, "pytorch 24816"),
    fault(
        "modernbert-window-wholly-in-padding",
        "modernbert",
        "empty",
        "transformers 45491",
        on("modernbert", window_over_nothing, num_hidden_layers=3),
        rules=RULES,
        module=named("modernbert", 1),
        cause=NOTHING,
    ),
    eager("electra-padded-queries-see-nothing", "electra", padded_queries_see_nothing, 0, "pytorch 103749"),
    eager("gpt2-left-padding-sees-nothing", "gpt2", in_layer(0), 0, "pytorch 103749: causal and left-padded"),
    fault(
        "distilbert-divided-by-length",
        "distilbert",
        "empty",
        "transformers 44163: a row of padding alone",
        on("distilbert", divided_by_length),
        rules=RULES,
        module=r"transformer\.layer\.1\.ffn",
        cause="softmax-over-nothing unknown",
    ),
    own(
        "own-softmax-over-nothing",
        lambda faulty: Encoder(second=Careless if faulty else Attention),
        r"layers\.1\.attention",
        "pytorch 24816",
    ),
    own(
        "own-causal-softmax-over-nothing",
        lambda faulty: Encoder(*[(lambda: Careless(True)) if faulty else (lambda: Attention(True))] * 2),
        r"layers\.0\.attention",
        "pytorch 103749",
        OWN_CAUSAL,
    ),
    own("own-norm-over-no-tokens", lambda faulty: Encoder(middle=lambda: Norm(faulty)), "middle", "a mean of nothing"),
    own("own-torch-attention", torch_attention, "attend", "pytorch 24816"),
]
