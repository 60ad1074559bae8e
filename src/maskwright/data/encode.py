"""Examples to token ids, in one table per split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from datasets import Dataset
from tqdm.auto import tqdm

from maskwright.data.tasks.base import Example, Problem
from maskwright.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

CHUNK = 1000


@dataclass(frozen=True, slots=True)
class EncodedSplit:
    """One split as token ids: how many examples were cut to the maximal length, how many tokens are left in all."""

    dataset: Dataset
    n_truncated: int
    n_tokens: int


def encode_examples(
    examples: Sequence[Example],
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    problem: Problem,
    n_labels: int,
) -> EncodedSplit:
    """Tokenise examples, none padded, those over `max_length` tokens cut ("longest first") and counted.

    Columns: `input_ids`; `token_type_ids` where the tokenizer's model takes them; `length` in tokens; and, where the
    examples carry labels, `labels`: a class index, a float (regression), or `n_labels` floats 0/1 (multi-label).

    Raises:
        InputError: no examples, only some of them labelled, a text without any token, or a `max_length` that the
            special tokens fill.
    """
    if not examples:
        raise InputError("no examples to encode", "examples")
    is_pair = examples[0].text_pair is not None
    if max_length <= tokenizer.num_special_tokens_to_add(pair=is_pair):
        raise InputError(f"{max_length} leaves no room beside the special tokens; raise it", "max_length")
    label_column = _label_column(examples, problem, n_labels)

    columns = [name for name in ("input_ids", "token_type_ids") if name in tokenizer.model_input_names]
    chunks: dict[str, list[pa.Array]] = {name: [] for name in columns}
    lengths: list[int] = []
    n_truncated = 0
    for chunk in chunks_of(examples):
        encoded = _tokenise(chunk, tokenizer, None)
        too_long = [i for i, ids in enumerate(encoded["input_ids"]) if len(ids) > max_length]
        n_truncated += len(too_long)
        if too_long:
            cut = _tokenise([chunk[i] for i in too_long], tokenizer, max_length)
            for name in columns:
                for i, row in zip(too_long, cut[name], strict=True):
                    encoded[name][i] = row
        for name in columns:
            chunks[name].append(pa.array(encoded[name], pa.list_(pa.int32())))
        lengths += map(len, encoded["input_ids"])
    for example, length in zip(examples, lengths, strict=True):
        if length == 0:
            raise InputError("the tokenizer makes no token of this text; remove the row", example.where)

    data: dict[str, pa.Array | pa.ChunkedArray] = {name: pa.chunked_array(chunks[name]) for name in columns}
    data["length"] = pa.array(lengths, pa.int32())
    if label_column is not None:
        data["labels"] = label_column
    return EncodedSplit(Dataset.from_dict(data), n_truncated, sum(lengths))


def chunks_of(examples: Sequence[Example]) -> Iterator[Sequence[Example]]:
    """The examples in chunks of a thousand, with a progress bar once it takes more than two seconds.

    Chunks become arrow arrays one by one: token ids as Python numbers would take ten times the memory.
    """
    with tqdm(total=len(examples), unit="example", desc="tokenising", delay=2, leave=False) as bar:
        for start in range(0, len(examples), CHUNK):
            yield examples[start : start + CHUNK]
            bar.update(len(examples[start : start + CHUNK]))


def _tokenise(
    examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, max_length: int | None
) -> dict[str, list[list[int]]]:
    pairs = [example.text_pair for example in examples]
    encoding = tokenizer(
        [example.text for example in examples],
        None if pairs[0] is None else pairs,
        truncation=False if max_length is None else "longest_first",
        max_length=max_length,
        return_attention_mask=False,
        verbose=False,
    )
    return dict(encoding)


def _label_column(examples: Sequence[Example], problem: Problem, n_labels: int) -> pa.Array | None:
    unlabelled = [example.where for example in examples if example.label is None]
    if len(unlabelled) == len(examples):
        return None
    if unlabelled:
        raise InputError("no label, though other rows of this split have one; label all of them or none", unlabelled[0])
    if problem == "multi_label_classification":
        return pa.array(list(_multi_hot(examples, n_labels)), pa.list_(pa.float32()))
    kind = pa.float32() if problem == "regression" else pa.int64()
    return pa.array([example.label for example in examples], kind)


def _multi_hot(examples: Sequence[Example], n_labels: int) -> Iterator[list[float]]:
    for example in examples:
        chosen = example.label if isinstance(example.label, tuple) else ()
        yield [float(index in chosen) for index in range(n_labels)]
