"""Examples to ids, ids to padded batches."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from transformers import BertTokenizer, DataCollatorWithPadding

from maskwright.data.collate import PaddingCollator
from maskwright.data.encode import encode_examples
from maskwright.data.tasks.base import Example

SINGLE = "single_label_classification"


def example(text: str, pair: str | None = None, label: object = 0) -> Example:
    return Example(text, pair, label, "a:1")  # type: ignore[arg-type]


def test_ids_types_lengths_and_labels(letters: BertTokenizer):
    split = encode_examples([example("a b", "c", 1), example("d", "e f", 0)], letters, 11, SINGLE, 2)
    assert split.dataset[:] == {
        "input_ids": [[2, 5, 6, 3, 7, 3], [2, 8, 3, 9, 10, 3]],
        "token_type_ids": [[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1]],
        "length": [6, 6],
        "labels": [1, 0],
    }
    assert (split.n_truncated, split.n_tokens) == (0, 12)


def test_over_long_texts_are_cut_longest_first_and_counted(letters: BertTokenizer):
    examples = [example("a " * 9, "b b"), example("a", "b"), example("a a", "b " * 9)]
    split = encode_examples(examples, letters, 7, SINGLE, 2)
    assert split.dataset["input_ids"][:] == [[2, 5, 5, 3, 6, 6, 3], [2, 5, 3, 6, 3], [2, 5, 5, 3, 6, 6, 3]]
    assert (split.n_truncated, split.n_tokens) == (2, 19)


def test_encoding_equals_the_tokenizer_row_by_row(letters: BertTokenizer):
    """More rows than one chunk, each against a call of its own."""
    rng = random.Random(0)
    examples = [example(" ".join(rng.choices("abcdefgh", k=rng.randint(1, 13))), label=i % 3) for i in range(2311)]
    split = encode_examples(examples, letters, 11, SINGLE, 3)
    expected = [letters(e.text, truncation=True, max_length=11)["input_ids"] for e in examples]
    assert split.dataset["input_ids"][:] == expected
    assert split.dataset["length"][:] == [len(ids) for ids in expected]
    assert split.dataset["labels"][:] == [e.label for e in examples]
    assert split.n_truncated == sum(len(letters(e.text)["input_ids"]) > 11 for e in examples) > 0


def test_token_types_only_where_the_model_takes_them(letters: BertTokenizer):
    letters.model_input_names = ["input_ids", "attention_mask"]
    split = encode_examples([example("a")], letters, 11, SINGLE, 2)
    assert split.dataset.column_names == ["input_ids", "length", "labels"]


@pytest.mark.parametrize(
    ("problem", "labels", "column"),
    [
        ("multi_label_classification", [(0, 2), ()], [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]),
        ("regression", [0.5, -2.0], [0.5, -2.0]),
    ],
)
def test_labels_of_every_problem(letters: BertTokenizer, problem: str, labels: list, column: list):
    split = encode_examples([example("a", label=label) for label in labels], letters, 11, problem, 3)
    assert split.dataset["labels"][:] == column
    batch = PaddingCollator(letters)(split.dataset.__getitems__([0, 1]))
    assert batch["labels"].dtype == torch.float32
    assert batch["labels"].tolist() == column


def test_unlabelled_examples_have_no_label_column(letters: BertTokenizer):
    assert "labels" not in encode_examples([example("a", label=None)], letters, 11, SINGLE, 2).dataset.column_names


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("multiple", [None, 8])
def test_padding_equals_transformers_own(letters: BertTokenizer, side: str, multiple: int | None):
    letters.padding_side = side
    rng = np.random.default_rng(0)
    rows = [
        {"input_ids": rng.integers(5, 31, n).tolist(), "token_type_ids": rng.integers(0, 2, n).tolist(), "labels": n}
        for n in (3, 11, 1, 7)
    ]
    stock = DataCollatorWithPadding(letters, pad_to_multiple_of=multiple)([dict(row) for row in rows])
    batch = PaddingCollator(letters, multiple)([{**row, "length": len(row["input_ids"])} for row in rows])
    assert set(batch) == {"input_ids", "token_type_ids", "attention_mask", "labels"}
    for name, tensor in batch.items():
        assert torch.equal(tensor, stock[name])
        assert tensor.dtype == torch.int64


def test_the_pad_ids_are_the_tokenizers(letters: BertTokenizer):
    letters.pad_token = "z"
    letters._pad_token_type_id = 1
    rows = [{"input_ids": [5, 6], "token_type_ids": [0, 0]}, {"input_ids": [5], "token_type_ids": [0]}]
    batch = PaddingCollator(letters)(rows)
    assert batch["input_ids"].tolist() == [[5, 6], [5, 30]]
    assert batch["token_type_ids"].tolist() == [[0, 0], [0, 1]]
    assert batch["attention_mask"].tolist() == [[1, 1], [1, 0]]


def test_rows_may_come_as_arrays(letters: BertTokenizer):
    rows = [
        {"input_ids": np.array([5, 6]), "labels": np.int64(1)},
        {"input_ids": torch.tensor([7]), "labels": np.int64(0)},
    ]
    batch = PaddingCollator(letters)(rows)
    assert batch["input_ids"].tolist() == [[5, 6], [7, 0]]
    assert batch["labels"].tolist() == [1, 0]
