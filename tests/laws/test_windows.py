"""Laws of windows over a paragraph: nothing is left out, and answers map back to their very text."""

from __future__ import annotations

import string

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from transformers import BertTokenizer

from maskwright.data.encode_windows import encode_windows
from maskwright.data.tasks.base import Answer, Example

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *string.ascii_lowercase, *"甲乙丙丁戊己。，"]
TOKENIZER = BertTokenizer(vocab={word: index for index, word in enumerate(WORDS)}, model_max_length=512)
PARAGRAPHS = st.text(alphabet="甲乙丙丁戊己。，辛 \n", min_size=1, max_size=90).filter(str.strip)
QUESTIONS = st.text(alphabet="甲乙丙。", max_size=70)
LIMITS = st.tuples(st.integers(5, 61), st.integers(0, 40))


def bounds_of(window: dict) -> np.ndarray:
    return np.reshape(window["bounds"], (-1, 2))


@given(PARAGRAPHS, QUESTIONS, LIMITS)
def test_every_character_is_in_a_window_and_no_window_is_too_long(paragraph: str, question: str, limits: tuple):
    max_length, overlap = limits
    encoded = encode_windows([Example(paragraph, question, None, "a:1")], TOKENIZER, max_length, overlap).dataset
    covered = {i for window in encoded for start, end in bounds_of(window) for i in range(start, end)}
    assert covered == {i for i, character in enumerate(paragraph) if not character.isspace()}
    assert all(len(window["input_ids"]) == window["length"] <= max_length for window in encoded)


@given(PARAGRAPHS, QUESTIONS, LIMITS)
def test_neighbouring_windows_overlap_as_asked(paragraph: str, question: str, limits: tuple):
    max_length, overlap = limits
    encoded = encode_windows([Example(paragraph, question, None, "a:1")], TOKENIZER, max_length, overlap).dataset
    n_question = min(len(question), 64, (max_length - 3) // 2)
    shared = min(overlap, (max_length - 3 - min(64, (max_length - 3) // 2)) // 2)
    for earlier, later in zip(encoded, list(encoded)[1:], strict=False):
        starts = [{start for start, _ in bounds_of(window)} for window in (earlier, later)]
        assert len(starts[0] & starts[1]) == shared
        assert earlier["length"] == max_length
        assert earlier["first"] == n_question + 2


@st.composite
def answered(draw: st.DrawFn) -> Example:
    paragraph = draw(PARAGRAPHS)
    start = draw(st.integers(0, len(paragraph) - 1))
    end = draw(st.integers(start + 1, len(paragraph)))
    text = paragraph[start:end]
    return Example(paragraph, "甲", Answer(text, start, (text,)), "a:1")


@given(st.lists(answered(), min_size=1, max_size=5), LIMITS)
def test_an_answer_maps_back_to_its_text_in_exactly_the_windows_that_hold_it(examples: list, limits: tuple):
    encoded = encode_windows(examples, TOKENIZER, *limits).dataset
    assert sorted(set(encoded["example"])) == list(range(len(examples)))
    for window in encoded:
        example = examples[window["example"]]
        wanted = {example.label.start + i for i, character in enumerate(example.label.text) if not character.isspace()}
        bounds, first = bounds_of(window), window["first"]
        present = {start for start, _ in bounds}
        at = (window["start_positions"], window["end_positions"])
        if not wanted or not wanted <= present:
            assert at == (0, 0)
            continue
        begin, stop = bounds[at[0] - first][0], bounds[at[1] - first][1]
        assert example.text[begin:stop] == example.label.text.strip()


@given(st.lists(st.tuples(PARAGRAPHS, QUESTIONS), min_size=2, max_size=6), LIMITS)
def test_questions_encoded_together_are_those_encoded_alone(pairs: list, limits: tuple):
    examples = [Example(paragraph, question, None, "a:1") for paragraph, question in pairs]
    together = encode_windows(examples, TOKENIZER, *limits).dataset
    alone = [row for example in examples for row in encode_windows([example], TOKENIZER, *limits).dataset]
    assert [row["input_ids"] for row in together] == [row["input_ids"] for row in alone]
    assert [row["bounds"] for row in together] == [row["bounds"] for row in alone]
