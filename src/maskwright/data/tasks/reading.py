"""CMRC2018, and whatever else has SQuAD's format: questions whose answers are spans of a paragraph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from maskwright.data.archive import Entry, location
from maskwright.data.rows import Row
from maskwright.data.tasks.base import Answer, Example
from maskwright.data.tasks.spec import Notes, TaskSpec, json_document, may_lack_labels, take
from maskwright.errors import InputError

# What the published test file of CMRC2018 has in place of answers.
_NO_ANSWER = "FAKE_ANSWER"
NOWHERE = "answer not in its text"


def read_paragraphs(spec: TaskSpec, split: str, files: Sequence[Entry], notes: Notes) -> list[Example]:
    """The questions of SQuAD-like files, each with its paragraph.

    An answer that does not stand at its offset is looked for in the paragraph and counted as mended. A question none
    of whose answers stands there is no use in training: it is left out of "train" and counted. Other splits keep it,
    since a prediction can still be compared with the answer's text.

    Raises:
        InputError: a malformed file, or a question without an answer outside the split "test".
    """
    examples = []
    for file in files:
        for paragraph, question, where in _questions(file):
            example = _example(paragraph, question, split, where)
            answer = example.label
            if isinstance(answer, Answer):
                if answer.start is None and split == "train":
                    notes.skipped[NOWHERE] += 1
                    continue
                if answer.start is None:
                    notes.mended[f"{NOWHERE}, kept for scoring"] += 1
                elif answer.start != _offset(question, answer.text):
                    notes.mended["wrong answer offset"] += 1
            if not paragraph.strip():
                notes.skipped["empty text"] += 1
                continue
            examples.append(example)
    return examples


def find_answer(paragraph: str, text: str, offset: int) -> int | None:
    """Where `text` stands in `paragraph`: at `offset` if it does, else at the place nearest to it, else nowhere (None).

    Example:
        >>> [find_answer("去年3月，今年3月", "3月", offset) for offset in (7, 6, -1)]
        [7, 7, 2]
    """
    if not text:
        return None
    places = []
    start = paragraph.find(text)
    while start >= 0:
        places.append(start)
        start = paragraph.find(text, start + 1)
    return min(places, key=lambda place: abs(place - offset), default=None)


def _questions(file: Entry) -> Iterator[tuple[str, Row, str]]:
    document = json_document(file, dict)
    for article in take(document, "data", list, location(file)):
        for paragraph in take(article, "paragraphs", list, location(file)):
            context = take(paragraph, "context", str, location(file))
            for question in take(paragraph, "qas", list, location(file)):
                yield context, question, f"{location(file)}:{take(question, 'id', object, location(file))}"


def _example(paragraph: str, question: Row, split: str, where: str) -> Example:
    accepted = tuple(_answer_text(answer, where) for answer in question.get("answers") or ())
    text = take(question, "question", str, where)
    guid = str(question["id"]).strip()
    if may_lack_labels(split) and all(not answer or answer.startswith(_NO_ANSWER) for answer in accepted):
        return Example(paragraph, text, None, where, guid)
    if not accepted:
        raise InputError("no answer; only the split 'test' may lack answers", where)
    found = ((answer, find_answer(paragraph, answer, _offset(question, answer))) for answer in accepted)
    gold, start = next(((answer, start) for answer, start in found if start is not None), (accepted[0], None))
    return Example(paragraph, text, Answer(gold, start, accepted), where, guid)


def _answer_text(answer: Any, where: str) -> str:
    if not isinstance(answer, dict):
        raise InputError(f"an answer is a {type(answer).__name__}, a dict is expected", where)
    return str(take(answer, "text", object, where))


def _offset(question: Row, text: str) -> int:
    """The offset given with the first answer of that text, -1 without one."""
    for answer in question["answers"]:
        if str(answer["text"]) == text:
            offset = answer.get("answer_start", -1)
            return offset if isinstance(offset, int) else -1
    return -1
