"""Rows of a batch that depend on each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .case import Case, fault
from .models import WIDTH, named, on
from .own import OWN, Attention, Encoder
from .own import WIDTH as OWN_WIDTH
from .plant import change_output, edit_mask, wrap

RULES = "neighbours row-order batch-size padding-amount padding-content padding-side padding-values"
BATCH = "batch-statistics rows-mixed"


class OverBatch(nn.Module):
    """nn.BatchNorm1d without running statistics, over the features of [B, L, D]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width, track_running_stats=False)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.norm(hidden.flatten(0, 1)).view_as(hidden)


def batch_norm(model: nn.Module) -> None:
    model.encoder.layer[1].output.LayerNorm = OverBatch(WIDTH)


def batch_norm_in_feed_forward(model: nn.Module) -> None:
    model.layers[0].mlp_norm = OverBatch(WIDTH)


def rescaled_by_the_largest(model: nn.Module) -> None:
    """Activations are rounded to 8 bits with one scale for the whole batch."""

    def rounded(hidden: Tensor, _: Any) -> Tensor:
        scale = hidden.abs().max() / 127
        return (hidden / scale).round() * scale

    change_output(model.encoder.layer[0].intermediate, rounded)


def mean_of_the_batch(model: nn.Module) -> None:
    change_output(model.transformer.layer[1].ffn, lambda hidden, _: hidden + 0.01 * hidden.mean((0, 1)))


def mask_of_row_0(model: nn.Module) -> None:
    edit_mask(model, 0, lambda allowed: allowed[:1].expand_as(allowed))


def cache_between_calls(model: nn.Module) -> None:
    """A running mean of what was seen is added to every row."""
    kept: dict[str, Tensor] = {}

    def mixed(hidden: Tensor, _: Any) -> Tensor:
        before = kept.get("mean", torch.zeros(hidden.shape[-1])).to(hidden.dtype)
        kept["mean"] = (0.5 * before + 0.5 * hidden.detach().mean((0, 1))).to(torch.float64)
        return hidden + 0.02 * before

    change_output(model.embeddings, mixed)


def row_before(model: nn.Module) -> None:
    """Each row gets a hundredth of the one before it: a view with a wrong stride."""
    change_output(model.h[0].mlp, lambda hidden, _: hidden + 0.01 * hidden.roll(1, 0) if len(hidden) > 1 else hidden)


def sorted_and_not_put_back(model: nn.Module) -> None:
    """Rows are sorted by their first id for speed, and given back in that order."""

    def around(forward: Callable[..., Any], given: dict[str, Any]) -> Any:
        if given.get("input_ids") is None:
            return forward(**given)
        order = given["input_ids"].sum(1).argsort(stable=True)
        moved = {
            name: value[order] if isinstance(value, Tensor) and len(value) == len(order) else value
            for name, value in given.items()
        }
        return forward(**moved)

    wrap(model, around)


def remembered_by_length(model: nn.Module) -> None:
    """Embeddings of a row are kept in a dictionary whose key, their length, is not unique."""
    kept: dict[int, Tensor] = {}

    def around(forward: Callable[..., Any], given: dict[str, Any]) -> Any:
        found = forward(**given)
        ids = given.get("input_ids")
        if ids is None:
            return found
        mixed = []
        for row, new in zip(ids, found, strict=True):
            before = kept.get(len(row), new).to(new.dtype)
            kept[len(row)] = new.detach()
            mixed.append(0.05 * before + 0.95 * new)
        return torch.stack(mixed)

    wrap(model.embeddings, around)


class AcrossRows(Attention):
    """Attention along the wrong axis: batch_first forgotten."""

    def forward(self, hidden: Tensor, keep: Tensor) -> Tensor:
        return super().forward(hidden.transpose(0, 1), keep.T).transpose(0, 1)


class ScrambledKeep(Encoder):
    """The mask is viewed as [L, B] instead of being transposed, and back."""

    def keep(self, input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        right = super().keep(input_ids, attention_mask)
        return right.reshape(right.shape[1], right.shape[0]).T


class Experts(nn.Module):
    """An expert takes the tokens that score highest, three of each row, or three of the whole batch if `faulty`."""

    def __init__(self, faulty: bool) -> None:
        super().__init__()
        self.faulty = faulty
        self.score, self.expert = nn.Linear(OWN_WIDTH, 1), nn.Linear(OWN_WIDTH, OWN_WIDTH)

    def forward(self, hidden: Tensor, keep: Tensor) -> Tensor:
        score = self.score(hidden)[..., 0].masked_fill(~keep, float("-inf"))
        if self.faulty:
            least = score.flatten().topk(min(3, score.numel())).values[-1]
        else:
            least = score.topk(min(3, score.shape[1])).values[:, -1:]
        taken = (score >= least) & keep
        return hidden + self.expert(hidden).masked_fill(~taken[..., None], 0)


def stock(
    name: str, kind: str, plant: Callable[[Any], None], module: str | None, report: str, cause: str = BATCH
) -> Case:
    return fault(name, kind, "rows", report, on(kind, plant), rules=RULES, module=module, cause=cause)


CASES = [
    stock(
        "bert-batch-norm",
        "bert",
        batch_norm,
        r"encoder\.layer\.1\.output(\.LayerNorm(\.norm)?)?",
        "statistics of the batch",
    ),
    stock(
        "modernbert-batch-norm",
        "modernbert",
        batch_norm_in_feed_forward,
        r"layers\.0\.mlp_norm(\.norm)?",
        "statistics of the batch",
    ),
    stock(
        "roberta-rounded-by-the-batch",
        "roberta",
        rescaled_by_the_largest,
        r"encoder\.layer\.0\.intermediate",
        "one scale a batch",
    ),
    stock(
        "distilbert-mean-of-the-batch",
        "distilbert",
        mean_of_the_batch,
        r"transformer\.layer\.1\.ffn",
        "transformers 17463",
    ),
    stock(
        "electra-mask-of-row-0",
        "electra",
        mask_of_row_0,
        named("electra", 0),
        "ReProver 34",
        "rows-mixed mask-never-arrives",
    ),
    fault(
        "albert-cache-between-calls",
        "albert",
        "rows",
        "state that outlives a call",
        on("albert", cache_between_calls),
        rules=RULES + " repeatable",
        module=r"embeddings(\.\w+)?",
        cause="random-in-evaluation rows-mixed",
    ),
    stock("gpt2-row-before-leaks", "gpt2", row_before, r"h\.0\.mlp", "a view with a wrong stride"),
    stock("xlm-roberta-sorted-and-not-put-back", "xlm-roberta", sorted_and_not_put_back, None, "ReProver 34"),
    fault(
        "bert-remembered-by-a-key-that-is-not-unique",
        "bert",
        "rows",
        "a cache shared between rows",
        on("bert", remembered_by_length),
        rules=RULES + " repeatable",
        module=r"embeddings(\.\w+)?",
        cause="random-in-evaluation rows-mixed",
    ),
    fault(
        "own-attention-across-rows",
        "own module",
        "rows",
        "batch_first forgotten",
        lambda faulty: Encoder(second=AcrossRows if faulty else Attention),
        rules=RULES + " backward-attention",
        module=r"layers\.1\.attention",
        cause=BATCH,
        audit=OWN,
    ),
    fault(
        "own-mask-viewed-for-transposed",
        "own module",
        "rows",
        "[B, L] viewed as [L, B]",
        lambda faulty: (ScrambledKeep if faulty else Encoder)(),
        rules=RULES,
        module=r"layers\.0\.attention|layers\.0|",
        cause="rows-mixed mask-never-arrives",
        audit=OWN,
    ),
    fault(
        "own-experts-share-capacity",
        "own module",
        "rows",
        "tokens of all rows compete for an expert",
        lambda faulty: Encoder(middle=lambda: Experts(faulty)),
        rules=RULES,
        module=r"middle(\.\w+)?",
        cause=BATCH,
        audit=OWN,
    ),
]
