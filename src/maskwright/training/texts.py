"""From the options of a run to its examples."""

from __future__ import annotations

import random
from collections.abc import Sequence

from maskwright.data.table import load_table
from maskwright.data.tasks.base import Answer, Example, TaskData
from maskwright.data.tasks.reading import NOWHERE
from maskwright.data.tasks.registry import load_task
from maskwright.errors import InputError
from maskwright.training.config import FinetuneConfig

TRAIN, DEV, TEST = "train", "dev", "test"


def training_data(config: FinetuneConfig) -> TaskData:
    """The splits to train and evaluate on, cut to the limits asked for.

    Raises:
        InputError: no training example is left, or anything the readers find wrong.
    """
    if config.task and config.data:
        data = load_task(config.task, config.data)
        _give_roles(data, config.train_split, config.dev_split)
    else:
        named = {TRAIN: config.train_file, DEV: config.validation_file, TEST: config.test_file}
        files = {split: file for split, file in named.items() if file is not None}
        data = load_table(
            files,
            text_column=config.text_column,
            text_pair_column=config.text_pair_column,
            label_column=config.label_column,
            problem=config.problem,
        )
    there = ", ".join(split for split, examples in data.splits.items() if examples)
    data.splits = {
        split: draw(examples, config.limit_train if split == TRAIN else config.limit_eval)
        for split, examples in data.splits.items()
    }
    if not data.splits.get(TRAIN):
        hint = f"; the splits there are {there}: train_split={there.split(',')[0]} takes one" if there else ""
        raise InputError(f"there is no training example{hint}", where=config.data or config.train_file)
    if unlabelled := next((example for example in data.splits[TRAIN] if example.label is None), None):
        raise InputError("a training example has no label", where=unlabelled.where)
    return data


def _give_roles(data: TaskData, train_split: str, dev_split: str) -> None:
    """Put splits under the names of the roles they are to play, in place; a role's own split gives way.

    What is trained on is not evaluated on, and holds no question whose answer stands nowhere.
    """
    roles = {TRAIN: train_split} if train_split == dev_split else {TRAIN: train_split, DEV: dev_split}
    for role, split in roles.items():
        if split not in data.splits and split != role:
            there = ", ".join(data.splits)
            raise InputError(f"the task has no split {split!r} there, only {there}", f"{role}_split")
    taken = {TRAIN, DEV, *roles.values()}
    rest = {split: examples for split, examples in data.splits.items() if split not in taken}
    played = {role: data.splits[split] for role, split in roles.items() if split in data.splits}
    data.splits = played | rest
    if train := played.get(TRAIN):
        data.splits[TRAIN] = [e for e in train if not (isinstance(e.label, Answer) and e.label.start is None)]
        if n_nowhere := len(train) - len(data.splits[TRAIN]):
            data.skipped[NOWHERE] += n_nowhere


def draw(examples: Sequence[Example], limit: int | None) -> list[Example]:
    """At most `limit` examples, the same ones every time, in their order: files may be sorted by label."""
    if limit is None or limit >= len(examples):
        return list(examples)
    return [examples[i] for i in sorted(random.Random(0).sample(range(len(examples)), limit))]


def labelled(data: TaskData, split: str) -> list[Example]:
    """A split's examples, if it is there and every one has a gold label; else none."""
    examples = data.splits.get(split, [])
    return examples if is_labelled(examples) else []


def is_labelled(examples: Sequence[Example]) -> bool:
    """Whether there are examples and all have gold labels."""
    return bool(examples) and all(example.label is not None for example in examples)
