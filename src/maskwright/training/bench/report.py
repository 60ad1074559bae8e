"""From a model's name and a file of texts to a report: lengths, padding, measurements, and what they come to."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from transformers import CONFIG_MAPPING, PreTrainedTokenizerBase

from maskwright.data.budget import padding_stats
from maskwright.data.encode import encode_examples
from maskwright.data.sample import load_sample
from maskwright.data.tasks.base import Example
from maskwright.data.tasks.registry import load_task
from maskwright.errors import InputError
from maskwright.training.bench.measure import Measurement, Subject, measure
from maskwright.training.embed import read_texts
from maskwright.training.models import check_model, load_tokenizer, resolve_max_length
from maskwright.training.runs import environment
from maskwright.training.wordpiece import train_wordpiece

MAX_TEXTS = 4000
"""Enough for a stable histogram, few enough to tokenise in a moment."""

N_BINS = 12
WORTH = 1.05
"""From which speed-up on packing counts as one; less may be noise."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """The texts' lengths in tokens, special tokens included.

    `histogram` has rows (shortest, longest, number of texts); `n_truncated` of the `n_texts` were cut to `max_length`.
    """

    n_texts: int
    mean: float
    median: float
    p95: float
    longest: int
    n_truncated: int
    max_length: int
    histogram: list[tuple[int, int, int]]


@dataclass(frozen=True, slots=True)
class BenchReport:
    """All of it.

    Attributes:
        batch_size: rows a step as asked for; the measurement's own may be fewer, and then holds less padding.
        load_before: threads that programs kept busy over the minute before.
        padding: share in [0, 1) of slots without a token, for batches in `random` and in `grouped` order.
        speedup: tokens per second, packed to stock in either order, of `train` and `embed`.
        verdict: what it comes to, in words.
    """

    model: str
    data: str
    n_texts_in_data: int
    batch_size: int
    load_before: float
    lengths: Lengths
    padding: dict[str, float]
    measurement: Measurement
    speedup: dict[str, dict[str, float]]
    verdict: str
    environment: Mapping[str, str]


def run_bench(
    model: str,
    data: str,
    *,
    task: str | None = None,
    text_column: str = "text",
    tokenizer: str | None = None,
    max_length: int | None = None,
    batch_size: int = 16,
    bf16: bool = False,
    seconds: float = 50.0,
    seed: int = 0,
    on_stage: Callable[[str], None] = lambda stage: None,
) -> BenchReport:
    """What packing saves on a model, some texts and this machine.

    Args:
        model: a local folder, a hub name, or a model type (`bert`) for random weights.
        data: "sample" for the bundled one, a file of texts, or with `task` that task's folder or zip.
        task: a known task's name.
        text_column: the column to read, if the file is a table.
        tokenizer: a folder or hub name; default: the model's, or for random weights one trained on the texts.
        max_length: longest text in tokens; default: the model's.
        batch_size: rows a step; fewer where the time would not do.
        bf16: compute under bfloat16 autocast.
        seconds: about how long to measure.
        seed: of every random choice.
        on_stage: told each stage as it begins.

    Raises:
        InputError: a file, model or option that cannot be used.
        UnsupportedModelError: the model cannot be packed exactly.
    """
    if batch_size < 1 or seconds <= 0:
        raise InputError("must be positive", where="batch_size" if batch_size < 1 else "seconds")
    load_before = os.getloadavg()[0]
    on_stage("reading the texts")
    examples, n_texts = read_examples(data, task, text_column, seed)
    is_type = model in CONFIG_MAPPING and not Path(model).exists()
    if not is_type:
        check_model(model)
    subject = Subject(model, _tokenizer(tokenizer or model, examples, is_type and not tokenizer), is_type)
    on_stage("loading the model")
    encoder = subject.load()
    limit = resolve_max_length(max_length, encoder, subject.tokenizer)
    encoded = encode_examples(examples, subject.tokenizer, limit, "single_label_classification", n_labels=0)
    lengths = list(encoded.dataset["length"])
    measurement = measure(
        subject,
        encoder,
        encoded.dataset.to_list(),
        batch_size=batch_size,
        seconds=seconds,
        bf16=bf16,
        seed=seed,
        on_stage=on_stage,
    )
    stats = padding_stats(lengths, batch_size, seed)
    padding = {order: 1 - 1 / stats[f"{order}_ratio"] for order in ("random", "grouped")}
    speedup = speedups(measurement)
    return BenchReport(
        model=model,
        data=data,
        n_texts_in_data=n_texts,
        batch_size=batch_size,
        load_before=load_before,
        lengths=describe(lengths, encoded.n_truncated, limit),
        padding=padding,
        measurement=measurement,
        speedup=speedup,
        verdict=verdict(speedup, padding),
        environment=environment(),
    )


def read_examples(data: str, task: str | None, text_column: str, seed: int) -> tuple[list[Example], int]:
    """At most `MAX_TEXTS` of the texts, drawn at random and without labels, and how many there are in all.

    Raises:
        InputError: anything the readers find wrong, or fewer than two texts.
    """
    if task is not None:
        examples = [example for split in load_task(task, data).splits.values() for example in split]
    elif data == "sample":
        examples = load_sample().splits["train"]
    else:
        examples = [Example(text, None, None, data) for text in read_texts(data, text_column)]
    if len(examples) < 2:
        raise InputError("at least two texts are needed to fill batches", where=data)
    rows = sorted(random.Random(seed).sample(range(len(examples)), min(len(examples), MAX_TEXTS)))
    return [replace(examples[row], label=None) for row in rows], len(examples)


def describe(lengths: Sequence[int], n_truncated: int, max_length: int) -> Lengths:
    """The lengths in short.

    Example:
        >>> describe([3, 3, 5, 9], 0, 16).histogram
        [(3, 3, 2), (4, 4, 0), (5, 5, 1), (6, 6, 0), (7, 7, 0), (8, 8, 0), (9, 9, 1)]
    """
    low, high = min(lengths), max(lengths)
    width = -(-(high - low + 1) // N_BINS)
    counts = np.bincount((np.asarray(lengths) - low) // width)
    return Lengths(
        n_texts=len(lengths),
        mean=float(np.mean(lengths)),
        median=float(np.median(lengths)),
        p95=float(np.quantile(lengths, 0.95)),
        longest=high,
        n_truncated=n_truncated,
        max_length=max_length,
        histogram=[(low + i * width, min(low + (i + 1) * width - 1, high), n) for i, n in enumerate(counts.tolist())],
    )


def speedups(measurement: Measurement) -> dict[str, dict[str, float]]:
    """Tokens per second of packed over stock: `{"train": {"random": 2.0, "grouped": 1.1}, "embed": …}`."""
    return {
        kind: {order: figures["packed"].tokens_per_s / figures[order].tokens_per_s for order in ("random", "grouped")}
        for kind, figures in (("train", measurement.train), ("embed", measurement.embed))
    }


def verdict(speedup: Mapping[str, Mapping[str, float]], padding: Mapping[str, float]) -> str:
    """What the figures come to, in a few sentences; a speed-up below `WORTH` is not called one.

    Example:
        >>> same = {"random": 1.0, "grouped": 1.0}
        >>> verdict({"train": same, "embed": same}, {"random": 0.02, "grouped": 0.01})
        'Packing would not help here: the texts are so alike in length that only 2% of the slots are padding.'
    """
    train, embed = speedup["train"], speedup["embed"]
    if max(train["random"], embed["random"]) < WORTH:
        share = f"{padding['random']:.0%} of the slots are padding"
        alike = f"the texts are so alike in length that only {share}"
        slow = f"{share}, but on this machine leaving them out saves no time"
        return f"Packing would not help here: {alike if padding['random'] < 0.1 else slow}."
    text = (
        f"Against padded batches in random order, packing trains {train['random']:.2f}x and embeds "
        f"{embed['random']:.2f}x as fast."
    )
    if train["grouped"] >= WORTH:
        return f"{text} Against batches grouped by length, it trains {train['grouped']:.2f}x as fast."
    return (
        f"{text} Batches grouped by length already avoid most padding: against them, packing trains "
        f"{train['grouped']:.2f}x as fast, and keeps batches random."
    )


def _tokenizer(name: str, examples: Sequence[Example], train: bool) -> PreTrainedTokenizerBase:
    if not train:
        return load_tokenizer(name)
    # Weights at random need no particular vocabulary, only texts of the lengths a usual one gives them.
    return train_wordpiece((example.text for example in examples), vocab_size=21128)
