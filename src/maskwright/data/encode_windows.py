"""Questions about paragraphs to windows of token ids, and windows back to characters of the paragraph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset

from maskwright.data.encode import EncodedSplit, chunks_of
from maskwright.data.tasks.base import Answer, Example
from maskwright.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

QUESTION_TOKENS = 64


def encode_windows(
    examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, max_length: int, overlap: int = 128
) -> EncodedSplit:
    """Tokenise questions, each with every window of its paragraph, in order; no window is padded.

    A window is the question (its first 64 tokens, at most half the room) and as many of the paragraph's tokens as fit
    `max_length`; neighbouring windows share `overlap` tokens, at most half a window. Every token of a paragraph is in
    a window.

    Columns: `input_ids`; `token_type_ids` where the tokenizer's model takes them; `length` in tokens; `example`, the
    question's index; `first`, the index of the window's first paragraph token; `bounds`, two numbers for each of its
    paragraph tokens: the characters of the paragraph it starts at and ends before. And, where questions have answers,
    `start_positions` and `end_positions`: indices of the answer's first and last token, or both of the token that
    opens the row ([CLS]) in a window that does not hold the whole answer. `n_truncated` counts cut questions.

    Raises:
        InputError: no examples, only some of them labelled, a paragraph without any token, a `max_length` without room
            for both texts, or a tokenizer that cannot say which characters a token stands for.
    """
    if not examples:
        raise InputError("no examples to encode", "examples")
    if not tokenizer.is_fast:
        raise InputError("it cannot map tokens to characters; a fast tokenizer (tokenizer.json) is needed", "tokenizer")
    room = max_length - tokenizer.num_special_tokens_to_add(pair=True)
    if room < 2:
        raise InputError(f"{max_length} leaves no room for a question and a paragraph; raise it", "max_length")
    is_labelled = examples[0].label is not None
    for example in examples:
        if (example.label is not None) != is_labelled:
            raise InputError("only some questions of this split have answers; all or none must have", example.where)

    n_question = min(QUESTION_TOKENS, room // 2)
    options = {"max_length": max_length, "stride": min(overlap, (room - n_question) // 2)}
    columns = [name for name in ("input_ids", "token_type_ids") if name in tokenizer.model_input_names]
    tables: list[dict[str, pa.Array]] = []
    n_truncated = n_encoded = 0
    for chunk in chunks_of(examples):
        questions, n_cut = _cut([str(example.text_pair) for example in chunk], tokenizer, n_question)
        n_truncated += n_cut
        encoding = tokenizer(
            questions,
            [example.text for example in chunk],
            truncation="only_second",
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            return_attention_mask=False,
            verbose=False,
            **options,
        )
        rows = _Rows({name: [] for name in columns})
        rows.add(encoding, chunk, n_encoded, tokenizer.cls_token_id)
        tables.append(rows.table(is_labelled))
        n_encoded += len(chunk)
    data = {name: pa.chunked_array([table[name] for table in tables]) for name in tables[0]}
    return EncodedSplit(Dataset.from_dict(data), n_truncated, pc.sum(data["length"]).as_py())


@dataclass(slots=True)
class _Rows:
    ids: dict[str, list[list[int]]]
    lengths: list[int] = field(default_factory=list)
    example: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    bounds: list[list[int]] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def add(self, encoding: Any, examples: Sequence[Example], offset: int, opening: int | None) -> None:
        owners = encoding["overflow_to_sample_mapping"]
        for row, owner in enumerate(owners):
            ids, sequences = encoding["input_ids"][row], encoding.sequence_ids(row)
            if 1 not in sequences:
                raise InputError("the tokenizer makes no token of this paragraph", examples[owner].where)
            first = sequences.index(1)
            bounds = np.asarray(encoding["offset_mapping"][row][first : first + sequences.count(1)])
            for name, column in self.ids.items():
                column.append(encoding[name][row])
            self.lengths.append(len(ids))
            self.example.append(offset + owner)
            self.first.append(first)
            self.bounds.append(bounds.ravel().tolist())
            answer = examples[owner].label
            if not isinstance(answer, Answer):
                continue
            nowhere = ids.index(opening) if opening in ids else 0
            is_first = row == 0 or owners[row - 1] != owner
            is_last = row + 1 == len(owners) or owners[row + 1] != owner
            span = answer_tokens(answer, bounds, is_first, is_last)
            self.starts.append(nowhere if span is None else first + span[0])
            self.ends.append(nowhere if span is None else first + span[1])

    def table(self, is_labelled: bool) -> dict[str, pa.Array]:
        columns = {name: pa.array(rows, pa.list_(pa.int32())) for name, rows in self.ids.items()}
        columns |= {"length": pa.array(self.lengths, pa.int32()), "example": pa.array(self.example, pa.int32())}
        columns |= {"first": pa.array(self.first, pa.int32()), "bounds": pa.array(self.bounds, pa.list_(pa.int32()))}
        if is_labelled:
            columns |= {"start_positions": pa.array(self.starts), "end_positions": pa.array(self.ends)}
        return columns


def answer_tokens(answer: Answer, bounds: Any, is_first: bool = True, is_last: bool = True) -> tuple[int, int] | None:
    """The first and last of a window's paragraph tokens that make up an answer; None if the window lacks a part of it.

    Args:
        answer: where it starts, and its text; white space at its ends does not count.
        bounds: int `[N, 2]`, the characters each token starts at and ends before.
        is_first: no token of the paragraph stands before the window, so that characters without a token may.
        is_last: the same, after it.

    Example:
        >>> answer_tokens(Answer("bc", 1, ("bc",)), np.array([[0, 1], [1, 2], [2, 3]]))
        (1, 2)
    """
    if answer.start is None or not answer.text.strip():
        return None
    start = answer.start + len(answer.text) - len(answer.text.lstrip())
    end = start + len(answer.text.strip())
    first = int(np.searchsorted(bounds[:, 1], start, side="right"))
    last = int(np.searchsorted(bounds[:, 0], end, side="left")) - 1
    if first > last:
        return None
    begins = is_first or bounds[0, 0] <= start
    finishes = is_last or bounds[-1, 1] >= end
    return (first, last) if begins and finishes else None


def _cut(texts: list[str], tokenizer: PreTrainedTokenizerBase, n_tokens: int) -> tuple[list[str], int]:
    """Texts cut after so many tokens, and how many were."""
    encoding = tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    cut, n_cut = [], 0
    for text, offsets in zip(texts, encoding["offset_mapping"], strict=True):
        is_long = len(offsets) > n_tokens
        cut.append(text[: offsets[n_tokens - 1][1]] if is_long else text)
        n_cut += is_long
    return cut, n_cut
