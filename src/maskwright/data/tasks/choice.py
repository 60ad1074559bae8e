"""C3: which of two to four choices answers a question about a dialogue or a text?"""

from __future__ import annotations

from collections.abc import Sequence

from maskwright.data.archive import Entry, location
from maskwright.data.rows import Row
from maskwright.data.tasks.base import ChoiceExample, Example
from maskwright.data.tasks.spec import Notes, TaskSpec, json_document, may_lack_labels, take
from maskwright.errors import InputError


def read_choices(spec: TaskSpec, split: str, files: Sequence[Entry], notes: Notes) -> list[Example]:
    """The questions of files of ``[[paragraphs], [questions], id]``, the paragraphs joined by line ends.

    A question with fewer than two choices, or whose answer is none of them, is left out and counted.

    Raises:
        InputError: a malformed file, or a question without an answer outside the split "test".
    """
    examples: list[Example] = []
    for file in files:
        stem = file.name.removesuffix(".json")  # both halves number their texts from the start
        for number, entry in enumerate(json_document(file, list), 1):
            where = f"{location(file)}:{number}"
            if not isinstance(entry, list) or len(entry) != 3 or not all(isinstance(part, list) for part in entry[:2]):
                raise InputError("[[paragraphs], [questions], id] is expected", where)
            paragraphs, questions, name = entry
            text = "\n".join(map(str, paragraphs))
            for position, question in enumerate(questions):
                if not isinstance(question, dict):
                    raise InputError(f"a question is a {type(question).__name__}, a dict is expected", where)
                choices = tuple(map(str, take(question, "choice", list, where)))
                guid = str(question.get("id", f"{stem}-{name}-{position}"))
                answer = _gold(question, split, where)
                if len(choices) < 2:
                    notes.skipped["fewer than two choices"] += 1
                elif not text.strip():
                    notes.skipped["empty text"] += 1
                elif answer is not None and answer not in choices:
                    notes.skipped["answer is no choice"] += 1
                else:
                    label = None if answer is None else choices.index(answer)
                    asked = take(question, "question", str, where)
                    examples.append(ChoiceExample(text, asked, label, where, guid, choices=choices))
    return examples


def _gold(question: Row, split: str, where: str) -> str | None:
    answer = question.get("answer")
    if answer in (None, "") and not may_lack_labels(split):
        raise InputError("no answer; only the split 'test' may lack answers", where)
    return None if answer in (None, "") else str(answer)
