"""From the name of a model and some texts to a report: distances, intervals, and what they come to."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from tqdm.auto import tqdm

from maskwright.data.corpus import Boundary, Corpus, find_files
from maskwright.encoders.pack import pack
from maskwright.errors import InputError
from maskwright.objectives.corruption import Shares
from maskwright.objectives.gap import TextTerms, distances, interval, resample
from maskwright.training.gap.measure import Place, Tokens, measure
from maskwright.training.gap.noise import NoiseKind, noise_of
from maskwright.training.gap.origin import origin_of
from maskwright.training.gap.texts import read_texts
from maskwright.training.gap.words import summary
from maskwright.training.models import load_encoder, load_tokenizer, resolve_max_length
from maskwright.training.runs import environment

log = logging.getLogger(__name__)

RATES = (0.15, 0.3, 0.5, 0.75)
N_RESAMPLES, MAX_LENGTH = 2000, 128


@dataclass(frozen=True, slots=True)
class GapRow:
    """One distance with its interval of 95%, in units of the averaged vectors' spread around their mean.

    `norm_distance` is the same in units of their root mean square norm. See `Place` for `where` and `tokens`.
    """

    noise: NoiseKind
    rate: float
    reference: str
    where: str
    tokens: Tokens
    distance: float
    low: float
    high: float
    norm_distance: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """How much farther the corrected network is than the plain one (below 0: closer), with its paired interval."""

    rate: float
    where: str
    tokens: Tokens
    difference: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class GapReport:
    """All of it. `n_tokens` are those of the texts; `n_too_short` texts were left out, `n_truncated` were cut."""

    model: str
    noise: NoiseKind
    shares: tuple[float, float, float] | None
    n_texts: int
    n_draws: int
    n_tokens: int
    n_truncated: int
    n_too_short: int
    max_length: int
    seed: int
    rows: list[GapRow]
    comparisons: list[Comparison]
    summary: list[str]
    environment: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def run_gap(
    model: str,
    texts: Sequence[str],
    *,
    noise: NoiseKind | None = None,
    rates: Sequence[float] = RATES,
    shares: Sequence[float] | None = None,
    n_draws: int = 64,
    n_texts: int = 200,
    boundary: Boundary = "blank_line",
    text_column: str = "text",
    max_length: int | None = None,
    max_tokens: int = 4096,
    seed: int = 0,
) -> GapReport:
    """How far a model is from the average of itself under the noise of its pretraining.

    Args:
        model: a local folder or hub name; of a task model the encoder is measured.
        texts: files, globs or folders, as `maskwright.data.corpus` reads them.
        noise: "mlm" (some tokens replaced), "mae" (a fixed share removed) or "droptoken" (each removed with a
            probability). Default: what a run of `maskwright pretrain` was made with, else "mlm".
        rates: of the noise.
        shares: for "mlm", of the chosen tokens: became [MASK], stayed, became random. Default: the run's own, else
            BERT's.
        n_draws: draws of noise for each text and rate.
        n_texts: texts at most, drawn at random.
        boundary, text_column: see `maskwright.data.corpus.Corpus`.
        max_length: tokens of a text at most; None = what the model takes, but no more than 128.
        max_tokens: real tokens in a batch at most.
        seed: of texts, noise and resamples.

    Raises:
        InputError: a model, text or option that cannot be used, in one line.
        UnsupportedModelError: the model cannot be packed exactly.
    """
    rates = sorted(set(rates))
    if not rates:
        raise InputError("name one at least", "rates")
    origin = origin_of(model)
    kind, chosen = noise or origin.noise, Shares(*(origin.shares if shares is None else shares))
    tokenizer = load_tokenizer(model)
    draws = noise_of(kind, tokenizer, chosen)
    corpus = Corpus(find_files(texts), text_column, boundary)
    encoder = pack(load_encoder(model))
    if torch.cuda.is_available():
        encoder.cuda()
    limit = resolve_max_length(max_length, encoder, tokenizer)
    limit = min(limit, MAX_LENGTH) if max_length is None else limit
    found = read_texts(corpus, tokenizer, n_texts=n_texts, max_length=limit, seed=seed)
    with tqdm(total=len(found.ids) * len(rates) * n_draws, unit="draw", unit_scale=True, delay=2) as bar:
        terms = measure(
            encoder,
            found.ids,
            draws,
            rates,
            n_draws=n_draws,
            seed=seed,
            max_tokens=max_tokens,
            pad_id=tokenizer.pad_token_id or 0,
            on_rows=bar.update,
        )
    table, comparisons = figures(terms, kind, seed)
    return GapReport(
        model=model,
        noise=kind,
        shares=(chosen.mask, chosen.keep, chosen.random) if kind == "mlm" else None,
        n_texts=len(found.ids),
        n_draws=n_draws,
        n_tokens=sum(map(len, found.ids)),
        n_truncated=found.n_truncated,
        n_too_short=found.n_too_short,
        max_length=limit,
        seed=seed,
        rows=table,
        comparisons=comparisons,
        summary=summary(table, comparisons),
        environment=environment(),
    )


def figures(terms: Mapping[Place, TextTerms], noise: NoiseKind, seed: int) -> tuple[list[GapRow], list[Comparison]]:
    """Distances and comparisons of everything measured, with intervals from one set of resamples of the texts."""
    n_texts = len(next(iter(terms.values())).n)
    weights = resample(n_texts, N_RESAMPLES, seed)
    rows, comparisons = [], []
    for place, of_texts in terms.items():
        found = distances(of_texts, weights)
        norms = distances(of_texts, weights[:1], scale="norm")
        if not all(values.isfinite().all() for values in (*found.values(), *norms.values())):
            log.warning(
                "rate %g, %s: averaged states too much alike to be a scale; more texts or draws help", *place[:2]
            )
            continue
        rows += [
            GapRow(noise, place.rate, name, place.where, place.tokens, *interval(values), norms[name].item())
            for name, values in found.items()
        ]
        if "corrected" in found:
            comparisons.append(Comparison(*place, *interval(found["corrected"] - found["plain"])))
    return rows, comparisons
