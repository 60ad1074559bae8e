"""Random choices that are left on in evaluation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .case import Case, fault
from .models import attention, named, on
from .own import OWN, WIDTH, Attention, Encoder
from .plant import change_argument, change_output, wrap

RULES = "repeatable neighbours row-order batch-size padding-amount"
RANDOM = "random-in-evaluation"


def attention_dropout(model: nn.Module) -> None:
    """The probability is passed whatever the mode."""

    def around(forward: Callable[..., Any], given: dict[str, Any]) -> Any:
        out = forward(**given)
        return (nn.functional.dropout(out[0], 0.1, training=True), *out[1:])

    wrap(attention(model, 1), around)


def feed_forward_dropout(model: nn.Module) -> None:
    change_output(model.transformer.layer[0].ffn, lambda hidden, _: nn.functional.dropout(hidden, 0.1))


def random_masking(model: nn.Module) -> None:
    """A tenth of the ids become the mask token, in evaluation too."""

    def masked(ids: Tensor | None) -> Tensor | None:
        return None if ids is None else torch.where(torch.rand(ids.shape) < 0.1, 4, ids)

    change_argument(model.embeddings, "input_ids", masked)


def noise(model: nn.Module) -> None:
    change_output(model.encoder.block[1].layer[1], lambda hidden, _: hidden + 1e-2 * torch.randn_like(hidden))


def tokens_dropped(model: nn.Module) -> None:
    """Whole tokens are set to zero between the layers, in evaluation too."""
    change_output(model.encoder.layer[0], lambda hidden, _: hidden * (torch.rand(hidden.shape[:2]) > 0.1)[..., None])


def jitter(model: nn.Module) -> None:
    """Inputs of the feed-forward part are jittered, as routers of experts do while training."""
    change_argument(model.layers[1].mlp, "x", lambda hidden: hidden * (1 + 1e-2 * torch.randn_like(hidden)))


class FusedDropout(Attention):
    """scaled_dot_product_attention with its dropout_p always given."""

    def __init__(self, faulty: bool) -> None:
        super().__init__()
        self.faulty = faulty

    def forward(self, hidden: Tensor, keep: Tensor) -> Tensor:
        hidden = hidden.masked_fill(~keep[..., None], 0)
        parts = (part(hidden)[:, None] for part in (self.query, self.key, self.value))
        allowed = (self.allowed(keep) | ~keep.any(1)[:, None, None])[:, None]
        rate = 0.1 if self.faulty or self.training else 0.0
        return nn.functional.scaled_dot_product_attention(*parts, attn_mask=allowed, dropout_p=rate)[:, 0]


class Sampled(nn.Module):
    """A fifth of the tokens skip the module, drawn with every call (stochastic depth)."""

    def __init__(self, faulty: bool) -> None:
        super().__init__()
        self.faulty = faulty
        self.feed = nn.Linear(WIDTH, WIDTH)

    def forward(self, hidden: Tensor, keep: Tensor) -> Tensor:
        skipped = torch.rand(keep.shape) < (0.2 if self.faulty or self.training else 0.0)
        return hidden + self.feed(hidden).masked_fill(skipped[..., None], 0)


def stock(name: str, kind: str, plant: Callable[[Any], None], module: str, report: str) -> Case:
    return fault(name, kind, "random", report, on(kind, plant), rules=RULES, module=module, cause=RANDOM)


CASES = [
    stock("bert-attention-dropout-left-on", "bert", attention_dropout, named("bert", 1), "pytorch 124464"),
    stock(
        "distilbert-feed-forward-dropout-left-on",
        "distilbert",
        feed_forward_dropout,
        r"transformer\.layer\.0\.ffn",
        "pytorch 124464",
    ),
    stock(
        "electra-random-masking-left-on",
        "electra",
        random_masking,
        r"embeddings(\.\w+)?",
        "masking left on in evaluation",
    ),
    stock("t5-noise", "t5", noise, r"encoder\.block\.1\.layer\.1", "noise left on in evaluation"),
    stock(
        "roberta-tokens-dropped",
        "roberta",
        tokens_dropped,
        r"encoder\.layer\.0",
        "token dropping left on in evaluation",
    ),
    stock("llama-jitter", "llama", jitter, r"layers\.1\.mlp(\.\w+)?", "router jitter left on in evaluation"),
    fault(
        "own-fused-dropout",
        "own module",
        "random",
        "pytorch 124464",
        lambda faulty: Encoder(first=lambda: FusedDropout(faulty)),
        rules=RULES,
        module=r"layers\.0\.attention",
        cause=RANDOM,
        audit=OWN,
    ),
    fault(
        "own-stochastic-depth",
        "own module",
        "random",
        "stochastic depth left on in evaluation",
        lambda faulty: Encoder(middle=lambda: Sampled(faulty)),
        rules=RULES,
        module="middle",
        cause=RANDOM,
        audit=OWN,
    ),
]
