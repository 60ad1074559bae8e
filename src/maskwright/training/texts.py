"""From the options of a run to its examples."""

from __future__ import annotations

import random
from collections.abc import Sequence

from maskwright.data.table import load_table
from maskwright.data.tasks.base import Example, TaskData
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
    data.splits = {
        split: draw(examples, config.limit_train if split == TRAIN else config.limit_eval)
        for split, examples in data.splits.items()
    }
    if not data.splits.get(TRAIN):
        raise InputError("there is no training example", where=config.data or config.train_file)
    if unlabelled := next((example for example in data.splits[TRAIN] if example.label is None), None):
        raise InputError("a training example has no label", where=unlabelled.where)
    return data


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
