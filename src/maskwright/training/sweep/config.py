"""What a sweep can be told: tasks x variants x seeds; free of torch and transformers."""

# ruff: noqa: RUF009 - `option` makes a dataclass field
from __future__ import annotations

import difflib
import re
from collections.abc import Collection
from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

from maskwright.errors import InputError
from maskwright.training.config import Averaging, FinetuneConfig, Noise, option

Options = dict[str, Any]
Split = Literal["dev", "test"]

_NAME = re.compile(r"[\w+][\w.+-]*")  # they become folders
_SET_BY_THE_SWEEP = ("output_dir", "overwrite_output_dir", "resume_from_checkpoint", "seed")


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """How a trained model is evaluated once more: by averaging `samples` noisy passes.

    Raises:
        InputError: fewer than two samples, a rate outside (0, 1), an unknown kind of averaging or noise.

    Example:
        >>> Evaluation(noise="droptoken", drop_rate=0.1).samples
        16
    """

    averaging: Averaging = "model"
    samples: int = 16
    noise: Noise = "dropout"
    drop_rate: float = 0.1

    def __post_init__(self) -> None:
        for name, allowed in (("averaging", get_args(Averaging)), ("noise", get_args(Noise))):
            if (value := getattr(self, name)) not in allowed:
                raise InputError(f"must be {' or '.join(allowed)}, got {value!r}", where=name)
        if not isinstance(self.samples, int) or self.samples < 2:
            raise InputError(f"must be a whole number from 2, got {self.samples!r}", where="samples")
        if not isinstance(self.drop_rate, int | float) or not 0 < self.drop_rate < 1:
            raise InputError(f"must be above 0 and below 1, got {self.drop_rate!r}", where="drop_rate")


@dataclass(kw_only=True)
class SweepConfig:
    """A sweep: every task with every variant and every seed is one fine-tuning run, a cell.

    A cell's options are `base`, then its task's, then its variant's; the later ones win. They are those of
    `FinetuneConfig`, except what the sweep sets by itself: the seed and the run directory.

    Raises:
        InputError: names or options that cannot be used, by name.

    Example:
        >>> config = SweepConfig(
        ...     base={"model": "my/encoder"},
        ...     tasks={"tnews": {"data": "tnews_public.zip"}},
        ...     variants={"plain": {}, "drop": {"drop_rate": 0.1}},
        ... )
        >>> config.baseline, config.seeds
        ('plain', [1, 2, 3])
    """

    output_dir: str = option("sweep", "the sweep's folder: a record of every cell, tables, plot")
    data: str | None = option(None, "folder of the tasks that name no data of their own (same as base.data)")
    model: str | None = option(None, "model of the variants that name none of their own (same as base.model)")
    base: Options = option({}, "options of every cell: those of `maskwright finetune`")
    tasks: dict[str, Options | None] = option({}, "{name: options}; without task or train_file the name is the task")
    variants: dict[str, Options | None] = option({}, "{name: options}: what is compared")
    baseline: str | None = option(None, "the variant that others are compared with (default: the first)")
    seeds: list[int] = option([1, 2, 3], "seeds; the same ones for every variant, so that runs are pairs", many=True)
    metrics: dict[str, str] = option({}, "{task: metric} where it is not to be the task's first")
    split: Split = option("dev", "what is compared: dev, or test where it is labelled")
    evaluations: dict[str, Options] = option(
        {}, "{name: {averaging, samples, noise, drop_rate}}: trained models are also evaluated by averaging"
    )
    processes: int = option(1, "cells run at the same time; they share the processor's cores")
    keep_models: bool = option(False, "keep the weights of finished cells")
    allow_changes: bool = option(False, "run finished cells again whose options have changed")

    def __post_init__(self) -> None:
        self.base = dict(self.base)
        for where in ("tasks", "variants", "evaluations"):  # YAML reads 0.1 as a number, and nothing as None
            setattr(self, where, {str(name): dict(options or {}) for name, options in getattr(self, where).items()})
        for name in ("data", "model"):
            if (value := getattr(self, name)) is not None:
                self.base[name] = value
        self._check_names()
        self._check_options()
        if self.baseline is None:
            self.baseline = next(iter(self.variants))
        check_known(self.baseline, self.variants, "baseline")
        for task in self.metrics:
            check_known(task, self.tasks, "metrics")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise InputError(f"must be one or more different numbers, got {self.seeds}", where="seeds")
        if self.processes < 1:
            raise InputError(f"must be 1 or more, got {self.processes}", where="processes")

    def evaluation(self, name: str) -> Evaluation:
        """The evaluation of that name, checked.

        Raises:
            InputError: an option it does not have, or a value it cannot take.
        """
        where, known = f"evaluations.{name}", [field.name for field in fields(Evaluation)]
        for key in self.evaluations[name]:
            check_known(key, known, where)
        try:
            return Evaluation(**self.evaluations[name])
        except InputError as error:
            raise InputError(str(error), where) from error

    def _check_names(self) -> None:
        for where in ("tasks", "variants"):
            if not getattr(self, where):
                raise InputError("there are none; name them in CONFIG (see `maskwright sweep --help`)", where)
        for where in ("tasks", "variants", "evaluations"):
            folded: dict[str, str] = {}
            for name in getattr(self, where):
                if not _NAME.fullmatch(name):
                    raise InputError(f"{name!r} becomes a folder's name; use letters, digits, and . _ + -", where)
                if (twin := folded.setdefault(name.casefold(), name)) != name:
                    raise InputError(f"{twin!r} and {name!r} are one folder on some systems; rename one", where)

    def _check_options(self) -> None:
        tables = {"base": self.base}
        for where in ("tasks", "variants"):
            tables |= {f"{where}.{name}": options for name, options in getattr(self, where).items()}
        known = [field.name for field in fields(FinetuneConfig)]
        for where, options in tables.items():
            for name in options:
                check_known(name, known, where)
                if name in _SET_BY_THE_SWEEP:
                    raise InputError(f"the sweep sets {name} by itself; remove it", where)
        for name in self.evaluations:
            self.evaluation(name)


def study(name: str) -> Path:
    """The file of a sweep: a path as given, or one of the studies that come with maskwright, by name.

    Raises:
        InputError: neither a file nor a study of that name.

    Example:
        >>> study("droptoken").name
        'droptoken.yaml'
    """
    if Path(name).is_file():
        return Path(name)
    shipped = {Path(entry.name).stem: entry for entry in (files("maskwright") / "resources" / "sweeps").iterdir()}
    if name not in shipped:
        raise InputError(f"neither a file nor one of the studies {', '.join(sorted(shipped))}", name)
    return Path(str(shipped[name]))


def check_known(name: str, known: Collection[str], where: str) -> None:
    """Raises: InputError, unless `name` is among the known ones; the nearest is suggested."""
    if name not in known:
        close = difflib.get_close_matches(str(name), list(known), n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"there are {', '.join(known)}"
        raise InputError(f"unknown '{name}'; {hint}", where)
