"""Padded slots that are read outside attention: by convolutions, statistics and scalings."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .case import fault
from .models import named, on
from .own import OWN, WIDTH, Encoder
from .plant import change_output, wrap

RULES = "padding-amount padding-content padding-side padding-values holes holes-removed"
EMBEDDINGS = r"embeddings(\.\w+)?"


class Convolution(nn.Module):
    """A convolution of width 3 over slots; padded ones are set to zero before it, unless `faulty`."""

    def __init__(self, faulty: bool) -> None:
        super().__init__()
        self.faulty = faulty
        self.mix = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)

    def forward(self, hidden: Tensor, keep: Tensor) -> Tensor:
        if not self.faulty:
            hidden = hidden.masked_fill(~keep[..., None], 0)
        return self.mix(hidden.transpose(1, 2)).transpose(1, 2)


class OverSequence(nn.Module):
    """Every feature is normalised over the tokens of a text, or over all its slots if `faulty`."""

    def __init__(self, faulty: bool) -> None:
        super().__init__()
        self.faulty = faulty

    def forward(self, hidden: Tensor, keep: Tensor) -> Tensor:
        counted = torch.ones_like(keep) if self.faulty else keep
        hidden = hidden.masked_fill(~counted[..., None], 0)
        n = counted.sum(1)[:, None, None].clamp(min=1)
        mean = hidden.sum(1, keepdim=True) / n
        spread = ((hidden - mean).masked_fill(~counted[..., None], 0) ** 2).sum(1, keepdim=True) / n
        return (hidden - mean) / (spread + 1e-5).sqrt()


class Gate(nn.Module):
    """Squeeze and excite: a gate on every feature, from the mean over tokens, or over slots if `faulty`."""

    def __init__(self, faulty: bool) -> None:
        super().__init__()
        self.faulty = faulty
        self.gate = nn.Linear(WIDTH, WIDTH)

    def forward(self, hidden: Tensor, keep: Tensor) -> Tensor:
        n = hidden.shape[1] if self.faulty else keep.sum(1)[:, None].clamp(min=1)
        mean = hidden.masked_fill(~keep[..., None], 0).sum(1) / n
        return hidden * self.gate(mean).sigmoid()[:, None]


def neighbour_smoothing(model: nn.Module) -> None:
    """Each embedding gets a tenth of the slot that follows, masked or not."""
    change_output(model.embeddings, lambda hidden, _: hidden + 0.1 * nn.functional.pad(hidden, (0, 0, 0, 1))[:, 1:])


def padding_counts_as_masked(model: nn.Module) -> None:
    """Token dropout rescales by the share of [MASK], and takes padding for it."""

    def scaled(hidden: Tensor, given: dict[str, Any]) -> Tensor:
        keep = given.get("attention_mask")
        if keep is None or keep.dim() != 2:
            return hidden
        return hidden * (1 - 0.12 * (1 - keep.to(hidden.dtype).mean(-1)))[:, None, None]

    change_output(model.embeddings, scaled)


def minus_mean_of_slots(model: nn.Module) -> None:
    """The output of layer 0 is centred over all slots."""
    change_output(model.encoder.layer[0].output, lambda hidden, _: hidden - 0.05 * hidden.mean(1, keepdim=True))


def score_scale_from_width(model: nn.Module) -> None:
    """Log-length scaling of the scores takes the padded length for the text's."""

    def around(forward: Callable[..., Any], given: dict[str, Any]) -> Any:
        module = model.transformer.layer[1].attention
        usual = module.scaling
        module.scaling = usual * math.log(given["hidden_states"].shape[1]) / math.log(64)
        try:
            return forward(**given)
        finally:
            module.scaling = usual

    wrap(model.transformer.layer[1].attention, around)


def last_block_reads_ahead(model: nn.Module) -> None:
    """The feed-forward part of the last layer is shifted by one slot for a few features."""

    def shifted(hidden: Tensor, _: Any) -> Tensor:
        ahead = nn.functional.pad(hidden, (0, 0, 0, 1))[:, 1:]
        return torch.cat([ahead[..., :3], hidden[..., 3:]], -1)

    change_output(model.layers[1].mlp, shifted)


def own(name: str, part: type[nn.Module], report: str, cause: str) -> Any:
    return fault(
        name,
        "own module",
        "content",
        report,
        lambda faulty: Encoder(middle=lambda: part(faulty)),
        rules=RULES,
        module=r"middle(\.\w+)?",
        cause=cause,
        audit=OWN,
    )


CASES = [
    own(
        "own-convolution-reads-padding",
        Convolution,
        "MobileBERT: padding leaks into the last token",
        "border mixes-neighbours",
    ),
    own("own-normalised-over-slots", OverSequence, "statistics over the padded sequence", "batch-statistics unknown"),
    own("own-gate-from-mean-of-slots", Gate, "a mean that counts padding", "unknown pooling"),
    fault(
        "electra-embeddings-smoothed",
        "electra",
        "content",
        "MobileBERT: padding leaks into the last token",
        on("electra", neighbour_smoothing),
        rules=RULES,
        module=EMBEDDINGS,
        cause="border mixes-neighbours",
    ),
    fault(
        "esm-token-dropout-counts-padding",
        "esm",
        "content",
        "transformers 44163",
        on("esm", padding_counts_as_masked),
        rules=RULES,
        module=EMBEDDINGS,
        cause="unknown slots-counted",
    ),
    fault(
        "bert-layer-0-centred-over-slots",
        "bert",
        "content",
        "statistics over the padded sequence",
        on("bert", minus_mean_of_slots),
        rules=RULES,
        module=r"encoder\.layer\.0\.output",
        cause="batch-statistics unknown",
    ),
    fault(
        "distilbert-score-scale-from-width",
        "distilbert",
        "content",
        "a scale that counts slots",
        on("distilbert", score_scale_from_width),
        rules=RULES,
        module=named("distilbert", 1),
        cause="slots-counted unknown",
    ),
    fault(
        "modernbert-last-block-reads-ahead",
        "modernbert",
        "content",
        "a shift that reads padding",
        on("modernbert", last_block_reads_ahead),
        rules=RULES,
        module=r"layers\.1\.mlp",
        cause="border mixes-neighbours",
    ),
]
