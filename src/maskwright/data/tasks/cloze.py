"""ChID: which idiom fills the blank? One example a blank."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

from maskwright.data.archive import Entry, find_file, location
from maskwright.data.tasks.base import ChoiceExample, Example
from maskwright.data.tasks.spec import Notes, TaskSpec, json_document, json_lines, may_lack_labels, take
from maskwright.errors import InputError

_BLANK = re.compile(r"#idiom\d+#")


def read_blanks(spec: TaskSpec, split: str, files: Sequence[Entry], notes: Notes) -> list[Example]:
    """One example for every tag such as ``#idiom000378#``; ``NAME_answer.json`` beside the file has the answers.

    Raises:
        InputError: a malformed row, no file of answers (outside "test"), a tag without an answer, or an answer that
            is no index of a candidate.
    """
    examples: list[Example] = []
    for file in files:
        answers = _answers(file, split)
        for where, row in json_lines(file):
            candidates = take(row, "candidates", list, where)
            passages = take(row, "content", list, where)
            if not all(isinstance(text, str) for text in (*candidates, *passages)):
                raise InputError("'content' and 'candidates' must be lists of strings", where)
            for passage in passages:
                blanks = [(match.start(), match.end()) for match in _BLANK.finditer(passage)]
                for blank in blanks:
                    if len(candidates) < 2:
                        notes.skipped["fewer than two choices"] += 1
                        continue
                    tag = passage[slice(*blank)]
                    examples.append(
                        ChoiceExample(
                            passage,
                            None,
                            None if answers is None else _gold(answers, tag, len(candidates), where),
                            where,
                            guid=tag,
                            choices=tuple(candidates),
                            blank=blank,
                            other_blanks=tuple(other for other in blanks if other != blank),
                        )
                    )
    return examples


def _answers(file: Entry, split: str) -> dict[str, Any] | None:
    name = f"{file.name.removesuffix('.json')}_answer.json"
    beside = find_file(cast(Entry, file.parent), [name])
    if beside is not None:
        return json_document(beside, dict)
    if may_lack_labels(split):
        return None
    raise InputError(f"no {name} beside it; only the split 'test' may lack answers", location(file))


def _gold(answers: dict[str, Any], tag: str, n_choices: int, where: str) -> int:
    index = answers.get(tag)
    if not isinstance(index, int) or not 0 <= index < n_choices:
        raise InputError(f"the answer to {tag} is {index!r}, an index below {n_choices} is expected", where)
    return index
