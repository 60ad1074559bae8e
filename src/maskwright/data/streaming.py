"""Rows and batches of a corpus that fits neither memory nor disk, read while training goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count, islice
from typing import Any

from datasets import Dataset, IterableDataset
from datasets.distributed import split_dataset_by_node
from torch.utils.data import IterableDataset as TorchIterableDataset

from maskwright.data.blocks import Blocks, held_out
from maskwright.data.corpus import TextSource
from maskwright.errors import InputError

N_HELD_OUT, N_SEARCHED = 500, 100_000


def stream_corpus(
    corpus: TextSource,
    blocks: Blocks,
    *,
    rank: int = 0,
    world_size: int = 1,
    validation_share: float = 0.0,
    seed: int = 0,
    buffer: int | None = None,
) -> IterableDataset:
    """Training rows as they are read, in an order that follows from (seed, epoch).

    Each rank reads files of its own if their number divides by the ranks; else all read everything and take every
    n-th document. Data-loader workers share a rank's files.

    Args:
        buffer: rows read ahead, from which the next is drawn; None keeps the order of the files.
    """
    texts = split_dataset_by_node(corpus.stream(), rank=rank, world_size=world_size)
    kept = texts.filter(lambda row: not held_out(row["text"], validation_share, seed))
    rows = kept.map(blocks, batched=True, remove_columns=["text"])
    return rows if buffer is None else rows.shuffle(seed=seed, buffer_size=buffer)


def first_held_out(corpus: TextSource, blocks: Blocks, *, validation_share: float, seed: int = 0) -> Dataset | None:
    """Rows of the first held-out documents, at most 500 among the first 100,000; None where there are none."""
    texts = (row["text"] for row in islice(corpus.stream(), N_SEARCHED))
    found = list(islice((text for text in texts if held_out(text, validation_share, seed)), N_HELD_OUT))
    rows = blocks({"text": found}) if found else {}
    return Dataset.from_dict(rows) if rows.get("input_ids") else None


class StreamedBatches(TorchIterableDataset):
    """Endless batches of at most `max_tokens` real tokens from streamed rows, pass after pass, each in another order.

    Args:
        rows: as `stream_corpus` gives them.
        max_tokens: a longer row is a batch of its own.
        collate: rows -> a batch.

    Raises:
        InputError: a pass without a row.
    """

    def __init__(
        self, rows: IterableDataset, max_tokens: int, collate: Callable[[Sequence[dict[str, Any]]], Any]
    ) -> None:
        self.rows, self.max_tokens, self.collate = rows, max_tokens, collate

    def __iter__(self) -> Iterator[Any]:
        batch: list[dict[str, Any]] = []
        n_tokens = 0
        for epoch in count():
            self.rows.set_epoch(epoch)
            n_rows = 0
            for row in self.rows:
                n_rows += 1
                length = len(row["input_ids"])
                if batch and n_tokens + length > self.max_tokens:
                    yield self._collated(batch)
                    batch, n_tokens = [], 0
                batch.append(row)
                n_tokens += length
            if not n_rows:
                raise InputError("the corpus holds no document for this process", "corpus")

    def _collated(self, batch: list[dict[str, Any]]) -> Any:
        return self.collate(sorted(batch, key=lambda row: -len(row["input_ids"])))
