"""Documents to rows of token ids for pretraining: cut to a length, tokenised in parallel, cached."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datasets import Dataset, IterableDataset

from maskwright.data.corpus import Corpus, Report
from maskwright.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

WordIds = Callable[[Sequence[int]], list[int]]


class Blocks:
    """Cuts a batch of documents into rows of at most `max_length` tokens, special tokens included.

    Without `cross_documents` a row never holds two documents, and rows are as short as their texts: packing makes that
    free. With it, documents are joined by the tokenizer's separator and every row but the last of a batch is full.

    Args:
        word_ids: ids of a row -> its word ids, stored beside it for whole-word masking.
        shortest: rows with fewer ordinary tokens are left out.

    Raises:
        InputError: a `max_length` that the special tokens fill.

    Example:
        >>> from transformers import BertTokenizer
        >>> tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c"]
        >>> tokenizer = BertTokenizer(vocab={token: i for i, token in enumerate(tokens)})
        >>> Blocks(tokenizer, max_length=4)({"text": ["a b c", "c"]})["input_ids"]
        [[2, 5, 6, 3], [2, 7, 3], [2, 7, 3]]
        >>> Blocks(tokenizer, max_length=5, cross_documents=True)({"text": ["a b c", "c"]})["input_ids"]
        [[2, 5, 6, 7, 3], [2, 7, 3]]
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        max_length: int,
        *,
        cross_documents: bool = False,
        word_ids: WordIds | None = None,
        shortest: int = 1,
    ) -> None:
        self.room = max_length - tokenizer.num_special_tokens_to_add(pair=False)
        if self.room < 1:
            raise InputError(f"{max_length} leaves no room beside the special tokens; raise it", "max_length")
        plain, whole = (tokenizer("a", add_special_tokens=special)["input_ids"] for special in (False, True))
        at = next(i for i in range(len(whole)) if whole[i : i + len(plain)] == plain)
        self.before, self.after = whole[:at], whole[at + len(plain) :]
        self.tokenizer, self.cross_documents = tokenizer, cross_documents
        self.word_ids, self.shortest = word_ids, shortest

    def __call__(self, batch: dict[str, list[str]]) -> dict[str, list[list[int]]]:
        """Texts -> rows: `input_ids` and, if asked for, `word_ids`."""
        encoded = self.tokenizer(
            batch["text"],
            add_special_tokens=False,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,
        )
        texts: list[list[int]] = encoded["input_ids"]
        if self.cross_documents:
            between = [self.tokenizer.sep_token_id] if self.tokenizer.sep_token_id is not None else []
            joined: list[int] = []
            for ids in texts:
                joined += ids if not joined else between + ids
            texts = [joined]
        rows = []
        for ids in texts:
            for start in range(0, len(ids), self.room):
                part = ids[start : start + self.room]
                if self.cross_documents and part[0] == self.tokenizer.sep_token_id:
                    part = part[1:]  # nothing stands before it
                if len(part) >= self.shortest:
                    rows.append([*self.before, *part, *self.after])
        columns = {"input_ids": rows}
        if self.word_ids is not None:
            columns["word_ids"] = [self.word_ids(ids) for ids in rows]
        return columns


def held_out(text: str, share: float, seed: int = 0) -> bool:
    """Whether a document belongs to the held-out split: by its content alone, so that equal documents never part.

    Example:
        >>> sum(held_out(str(i), 0.1) for i in range(1000))
        103
    """
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=seed.to_bytes(8, "little"))
    return int.from_bytes(digest.digest(), "little") < share * 2**64


def encode_corpus(
    corpus: Corpus,
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
    if next(corpus.documents(), None) is None:
        raise InputError("the corpus holds no document", "corpus")
    stamps = tuple((str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in corpus.files)
    rows = Dataset.from_generator(
        _rows, gen_kwargs={"corpus": corpus, "stamps": stamps}, cache_dir=None if cache is None else str(cache)
    )
    bad = rows.filter(lambda row: row["bad"] is not None)
    for where, reason in bad["bad"]:
        report.add_bad(where, reason)
    texts = rows.filter(lambda row: row["bad"] is None)
    report.n_documents = len(texts)
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


def stream_corpus(
    corpus: Corpus, blocks: Blocks, *, rank: int = 0, world_size: int = 1, validation_share: float = 0.0, seed: int = 0
) -> IterableDataset:
    """Rows as they are read, for a corpus that fits neither memory nor disk; each rank and worker has its own files."""
    if len(corpus.files) < world_size:
        raise InputError(
            f"{len(corpus.files)} files cannot be shared among {world_size} processes: split them", "corpus"
        )
    files = list(corpus.files[rank::world_size])
    stream = IterableDataset.from_generator(
        _stream, gen_kwargs={"files": files, "corpus": (corpus,), "share": validation_share, "seed": seed}
    )
    return stream.map(blocks, batched=True, remove_columns=["text"])


def _rows(corpus: Corpus, stamps: Any) -> Iterator[dict[str, Any]]:
    report = Report(shown=sys.maxsize)
    for text in corpus.documents(report):
        yield {"text": text, "bad": None}
    for where_reason in report.bad:
        yield {"text": "", "bad": list(where_reason)}


def _stream(files: list[Path], corpus: tuple[Corpus], share: float, seed: int) -> Iterator[dict[str, str]]:
    for text in corpus[0].documents(files=files):
        if not held_out(text, share, seed):
            yield {"text": text}
