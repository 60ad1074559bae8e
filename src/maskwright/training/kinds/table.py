"""Which kind of task a problem is, and which problem a model solves."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import cast

from transformers import PreTrainedConfig

from maskwright.data.tasks.base import Problem
from maskwright.training.kinds.base import TaskKind
from maskwright.training.kinds.choice import CHOICE
from maskwright.training.kinds.classify import CLASSIFICATION
from maskwright.training.kinds.span import SPAN

KINDS: Mapping[Problem, TaskKind] = MappingProxyType(
    {
        "single_label_classification": CLASSIFICATION,
        "multi_label_classification": CLASSIFICATION,
        "regression": CLASSIFICATION,
        "multiple_choice": CHOICE,
        "question_answering": SPAN,
    }
)
"""The kind of every problem."""

_HEADS: dict[str, Problem] = {"ForMultipleChoice": "multiple_choice", "ForQuestionAnswering": "question_answering"}


def problem_of_config(config: PreTrainedConfig) -> Problem:
    """What a fine-tuned model does, from its configuration.

    Example:
        >>> problem_of_config(PreTrainedConfig(architectures=["BertForMultipleChoice"]))
        'multiple_choice'
    """
    for name in config.architectures or ():
        for head, problem in _HEADS.items():
            if head in name:
                return problem
    return cast(Problem, config.problem_type or ("regression" if config.num_labels == 1 else CLASSES))


CLASSES: Problem = "single_label_classification"
