"""Examples with choices to ids and padded batches."""

from __future__ import annotations

import pytest
import torch
from transformers import BertTokenizer

from maskwright.data.collate_reading import ChoiceCollator, WindowCollator, is_choice
from maskwright.data.encode_choices import encode_choices
from maskwright.data.encode_windows import encode_windows
from maskwright.data.tasks.base import Answer, ChoiceExample, Example
from maskwright.errors import InputError

CLS, SEP, MASK, UNK = 2, 3, 4, 1


def asked(text: str, question: str, *choices: str, label: int | None = 0) -> ChoiceExample:
    return ChoiceExample(text, question, label, "a:1", choices=choices)


def cloze(text: str, *choices: str, label: int | None = 0) -> ChoiceExample:
    """`#` is the blank asked for, `%` another one."""
    blanks = [(i, i + 1) for i, character in enumerate(text) if character in "#%"]
    (blank,) = [span for span in blanks if text[span[0]] == "#"]
    others = tuple(span for span in blanks if span != blank)
    return ChoiceExample(text, None, label, "a:1", choices=choices, blank=blank, other_blanks=others)


def test_a_choice_answers_a_question_as_the_second_text(letters: BertTokenizer):
    split = encode_choices([asked("a b", "c", "d", "e f", "g", label=2), asked("a", "b", "c", "d")], letters, 31)
    assert split.dataset[:] == {
        "input_ids": [
            [[CLS, 5, 6, SEP, 7, SEP, 8, SEP], [CLS, 5, 6, SEP, 7, SEP, 9, 10, SEP], [CLS, 5, 6, SEP, 7, SEP, 11, SEP]],
            [[CLS, 5, SEP, 6, SEP, 7, SEP], [CLS, 5, SEP, 6, SEP, 8, SEP]],
        ],
        "token_type_ids": [
            [[0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1]],
            [[0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1, 1]],
        ],
        "length": [25, 14],
        "n_choices": [3, 2],
        "labels": [2, 0],
    }
    assert (split.n_truncated, split.n_tokens) == (0, 39)


def test_a_choice_for_a_blank_comes_first_and_the_blank_is_masked(letters: BertTokenizer):
    (row,) = encode_choices([cloze("% a % b # c % d %", "e", "f f")], letters, 31).dataset
    passage = [UNK, 5, UNK, 6, MASK, 7, UNK, 8, UNK]
    assert row["input_ids"] == [[CLS, 9, SEP, *passage, SEP], [CLS, 10, 10, SEP, *passage, SEP]]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a b c d e f # g h i j k l", "def#ghi"),
        ("# g h i j k l m", "#ghijkl"),
        ("g a b c d e f #", "abcdef#"),
        ("a # b c d e f g h", "a#bcdef"),
        ("a b c d e f g # h", "bcdefg#h"[1:]),
    ],
)
def test_a_long_text_is_cut_evenly_around_its_blank(letters: BertTokenizer, text: str, kept: str):
    split = encode_choices([cloze(text, "x y", "z")], letters, 12)  # 12 - 3 special tokens - 2 of the choice
    wanted = [MASK if character == "#" else ord(character) - ord("a") + 5 for character in kept]
    (row,) = split.dataset
    assert row["input_ids"][0] == [CLS, 28, 29, SEP, *wanted, SEP]
    assert split.n_truncated == 1


def test_a_text_so_long_that_nothing_but_the_blank_fits_still_has_it(letters: BertTokenizer):
    (row,) = encode_choices([cloze("a b # c", "x y", "z")], letters, 6).dataset
    assert all(MASK in ids and len(ids) <= 6 for ids in row["input_ids"])


def test_only_examples_that_are_too_long_are_cut(letters: BertTokenizer):
    examples = [asked("a", "b", "c", "d"), asked("a " * 20, "b", "c", "d"), asked("e", "b", "c", "d")]
    split = encode_choices(examples, letters, 9)
    assert [[len(ids) for ids in row] for row in split.dataset["input_ids"]] == [[7, 7], [9, 9], [7, 7]]
    assert split.n_truncated == 1
    assert split.dataset["input_ids"][1][0] == [CLS, 5, 5, 5, SEP, 6, SEP, 7, SEP]


def test_unlabelled_examples_have_no_label_column(letters: BertTokenizer):
    split = encode_choices([asked("a", "b", "c", "d", label=None)], letters, 11)
    assert "labels" not in split.dataset.column_names


@pytest.mark.parametrize(
    ("examples", "max_length", "expected"),
    [
        ([], 11, "examples: no examples to encode"),
        ([asked("a", "b", "c", "d")], 4, "max_length: 4 leaves no room beside the special tokens; raise it"),
        ([Example("a", "b", 0, "x:3")], 11, "x:3: an example with choices is expected"),
        (
            [asked("a", "b", "c", "d"), asked("a", "b", "c", "d", label=None)],
            11,
            "a:1: only some examples of this split have a label; all or none must have",
        ),
    ],
)
def test_examples_that_cannot_be_encoded(letters: BertTokenizer, examples: list, max_length: int, expected: str):
    with pytest.raises(InputError) as caught:
        encode_choices(examples, letters, max_length)
    assert str(caught.value) == expected


@pytest.mark.parametrize("side", ["left", "right"])
def test_ragged_choices_are_padded_and_told_apart(letters: BertTokenizer, side: str):
    letters.padding_side = side
    rows = encode_choices([asked("a", "b", "c d", "e", "f"), asked("g", "h", "i", "j", label=1)], letters, 31).dataset
    batch = ChoiceCollator(letters)([dict(row) for row in rows])
    assert {name: tuple(part.shape) for name, part in batch.items()} == {
        "input_ids": (2, 3, 8),
        "token_type_ids": (2, 3, 8),
        "attention_mask": (2, 3, 8),
        "labels": (2,),
    }
    assert batch["attention_mask"].sum(-1).tolist() == [[8, 7, 7], [7, 7, 1]]
    assert is_choice(batch["attention_mask"]).tolist() == [[True, True, True], [True, True, False]]
    for row, choices in zip(rows, batch["input_ids"], strict=True):
        for ids, padded in zip(row["input_ids"], choices, strict=False):
            slots = torch.arange(8) >= 8 - len(ids) if side == "left" else torch.arange(8) < len(ids)
            assert padded[slots].tolist() == ids


def test_windows_are_padded_on_the_right_whatever_the_tokenizer_says(letters: BertTokenizer):
    letters.padding_side = "left"
    examples = [Example("a b c", "d", Answer("c", 4, ("c",)), "a:1"), Example("e", "f", Answer("e", 0, ("e",)), "a:2")]
    batch = WindowCollator(letters)([dict(row) for row in encode_windows(examples, letters, 31).dataset])
    assert batch["attention_mask"].tolist() == [[1] * 7, [1] * 5 + [0, 0]]
    assert batch["labels"].tolist() == [[5, 5], [3, 3]]
    for row, (start, end) in enumerate(batch["labels"].tolist()):
        assert batch["input_ids"][row, start : end + 1].tolist() == [[7], [9]][row]


@pytest.mark.parametrize(
    ("examples", "max_length", "expected"),
    [
        ([], 11, "examples: no examples to encode"),
        (
            [Example("a", "b", None, "a:1")],
            4,
            "max_length: 4 leaves no room for a question and a paragraph; raise it",
        ),
        ([Example("\u200b", "b", None, "a:1")], 11, "a:1: the tokenizer makes no token of this paragraph"),
        (
            [Example("a", "b", Answer("a", 0, ("a",)), "a:1"), Example("a", "b", None, "a:2")],
            11,
            "a:2: only some questions of this split have answers; all or none must have",
        ),
    ],
)
def test_questions_that_cannot_be_encoded(letters: BertTokenizer, examples: list, max_length: int, expected: str):
    with pytest.raises(InputError) as caught:
        encode_windows(examples, letters, max_length)
    assert str(caught.value) == expected


def test_a_long_question_is_cut_and_counted(letters: BertTokenizer):
    split = encode_windows([Example("a " * 30, "b " * 30, None, "a:1"), Example("a", "b", None, "a:2")], letters, 23)
    assert split.n_truncated == 1
    assert split.dataset["input_ids"][0] == [CLS, *[6] * 10, SEP, *[5] * 10, SEP]


def test_chunks_are_put_together_in_order(letters: BertTokenizer, monkeypatch: pytest.MonkeyPatch):
    questions = [Example("a b c " * (i % 4 + 1), "d", Answer("c", 4, ("c",)), f"a:{i}") for i in range(11)]
    choices = [asked("abc"[i % 3], "d", *"efg"[: 2 + i % 2], label=i % 2) for i in range(11)]
    whole = encode_windows(questions, letters, 11, 2), encode_choices(choices, letters, 11)
    monkeypatch.setattr("maskwright.data.encode.CHUNK", 3)
    parts = encode_windows(questions, letters, 11, 2), encode_choices(choices, letters, 11)
    for one, other in zip(whole, parts, strict=True):
        assert one.dataset[:] == other.dataset[:]
        assert (one.n_truncated, one.n_tokens) == (other.n_truncated, other.n_tokens)
