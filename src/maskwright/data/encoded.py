"""A corpus as tokenised rows on disk: in parallel, with progress, and found again while nothing changed."""

from __future__ import annotations

from pathlib import Path

from datasets import Dataset

from maskwright.data.blocks import Blocks, held_out
from maskwright.data.corpus import Report, TextSource
from maskwright.errors import InputError


def encode_corpus(
    corpus: TextSource,
    blocks: Blocks,
    *,
    validation_share: float = 0.0,
    seed: int = 0,
    n_processes: int | None = None,
    cache: Path | None = None,
) -> tuple[Dataset, Dataset | None, Report]:
    """(training rows, held-out rows or None, report), tokenised with progress shown and kept in datasets' cache.

    The cache is found again while files (name, size, time), tokenizer and options are the same.

    Raises:
        InputError: no document at all, or a split without any.
    """
    report = Report()
    rows = corpus.table(cache)
    for where, reason in rows.filter(lambda row: row["bad"] is not None)["bad"]:
        report.add_bad(where, reason)
    texts = rows.filter(lambda row: row["bad"] is None)
    report.n_documents = len(texts)
    if not report.n_documents:
        raise InputError("the corpus holds no document", "corpus")
    tokenised = {}
    for name, wanted in (("train", False), ("validation", True)):
        part = texts.filter(lambda row, wanted=wanted: held_out(row["text"], validation_share, seed) is wanted)
        if len(part):
            tokenised[name] = part.map(
                blocks, batched=True, remove_columns=part.column_names, num_proc=n_processes, desc=f"tokenising {name}"
            )
    if "train" not in tokenised:
        raise InputError(f"all documents were held out by validation_share={validation_share}", "validation_share")
    return tokenised["train"], tokenised.get("validation"), report
