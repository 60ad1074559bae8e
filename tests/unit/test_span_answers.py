"""From windows' logits to answers: the best over all windows, out of the paragraph's own characters."""

from __future__ import annotations

import numpy as np
import pytest
from transformers import BertTokenizer

from maskwright.data.encode_windows import encode_windows
from maskwright.data.tasks.base import Answer, Example, TaskData
from maskwright.training.kinds.base import Predicted
from maskwright.training.kinds.span import MAX_ANSWER_TOKENS, SPAN, answer_spans


def predicted(examples: list[Example], tokenizer: BertTokenizer, peaks: dict[tuple[int, int, int], float]) -> Predicted:
    """Logits that are 0 but at (example, first character, last character): there start and end have the value."""
    encoded = encode_windows(examples, tokenizer, 12, 2).dataset
    width = max(encoded["length"]) + 3  # more slots than any row has
    start, end = np.full((2, len(encoded), width), 50.0)
    for row, window in enumerate(encoded):
        bounds = np.reshape(window["bounds"], (-1, 2))
        tokens = slice(window["first"], window["first"] + len(bounds))
        start[row, tokens] = end[row, tokens] = 0
        for (example, first, last), value in peaks.items():
            if window["example"] == example and {first, last} <= set(bounds[:, 0].tolist()):
                start[row, window["first"] + bounds[:, 0].tolist().index(first)] = value
                end[row, window["first"] + bounds[:, 0].tolist().index(last)] = value
    data = TaskData("t", "question_answering", {}, metrics=("em", "f1"))
    return Predicted(data, [], examples, encoded, (start, end))


def asked(text: str, answer: str | None = None) -> Example:
    label = None if answer is None else Answer(answer, text.find(answer), (answer, answer.upper() + "!"))
    return Example(text, "q", label, "a:1", guid=f"Q{text[0]}")


def test_the_best_window_wins_and_what_is_not_paragraph_never_does(letters: BertTokenizer):
    """Slots of the question, of special tokens and of padding have the highest logits of all."""
    examples = [asked("a b c d e f g h i j k l m n o p q r s t u v"), asked("h i j")]
    peaks = {(0, 2, 6): 3.0, (0, 30, 34): 5.0, (1, 2, 2): 1.0}
    spans = answer_spans(predicted(examples, letters, peaks))
    assert [(span.text, span.start, span.end, span.score) for span in spans] == [
        ("p q r", 30, 35, 10.0),
        ("i", 2, 3, 2.0),
    ]


def test_records_and_scores(letters: BertTokenizer):
    examples = [asked("a b c", "b c"), asked("h i j", "h")]
    found = predicted(examples, letters, {(0, 2, 4): 4.0, (1, 2, 4): 1.0})
    assert list(SPAN.records(found)) == [
        {"id": "Qa", "answer": "b c", "start": 2, "end": 5, "score": 8.0},
        {"id": "Qh", "answer": "i j", "start": 2, "end": 5, "score": 2.0},
    ]
    assert SPAN.score(found) == {"em": 0.5, "f1": 0.5}
    assert SPAN.answers(found) == ["b c", "i j"]


def test_no_answer_is_longer_than_allowed(letters: BertTokenizer):
    example = asked(" ".join("ab"[i % 2] for i in range(200)))
    encoded = encode_windows([example], letters, 300, 2).dataset
    start, end = np.zeros((2, 1, 300))
    start[0, 5], end[0, 150] = 9, 9
    data = TaskData("t", "question_answering", {}, metrics=("em",))
    (span,) = answer_spans(Predicted(data, [], [example], encoded, (start, end)))
    assert len(span.text.split()) <= MAX_ANSWER_TOKENS
    assert span.score == pytest.approx(9)
