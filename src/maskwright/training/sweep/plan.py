"""From a sweep's config to its cells, every one checked before the first is run."""

from __future__ import annotations

import dataclasses
from argparse import ArgumentError
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

from jsonargparse import ArgumentParser

from maskwright.errors import InputError
from maskwright.training.config import FinetuneConfig
from maskwright.training.sweep.config import Evaluation, Options, Split, SweepConfig

# What may differ without the result being another one.
_IMMATERIAL = frozenset(
    {"output_dir", "overwrite_output_dir", "resume_from_checkpoint", "logging_steps", "report_to", "save_total_limit"}
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Cell:
    """One fine-tuning run of a sweep.

    `options` holds what its task and variant set, and its value of every option that any variant sets.
    """

    task: str
    variant: str
    seed: int
    options: Options
    config: FinetuneConfig
    evaluations: dict[str, Evaluation]
    split: Split
    metric: str | None
    keep_models: bool

    @property
    def name(self) -> str:
        """What the cell's records are called."""
        return f"{self.task}-{self.variant}-{self.seed}"

    def folder(self, root: Path) -> Path:
        """Its run directory."""
        return root / "cells" / self.task / self.variant / str(self.seed)

    def record(self, root: Path, evaluation: str | None = None) -> Path:
        """The file that tells what became of it, or of one of its further evaluations."""
        return root / "cells" / record_file(self.name, evaluation)


def record_file(cell: str, evaluation: str | None = None) -> str:
    """The file name of a record: that of a cell's training, or of one of its further evaluations.

    Example:
        >>> record_file("tnews-plain-1"), record_file("tnews-plain-1", "dropout16")
        ('tnews-plain-1.json', 'tnews-plain-1-dropout16.json')
    """
    return f"{cell}.json" if evaluation is None else f"{cell}-{evaluation}.json"


def plan(config: SweepConfig) -> list[Cell]:
    """All cells, seed by seed, so that a sweep cut short has compared every variant on the first seeds.

    Raises:
        InputError: options that `FinetuneConfig` refuses, with the task and variant; or two cells whose records
            would have one name.

    Example:
        >>> variants = {"plain": {}, "drop": {"drop_rate": 0.1}}
        >>> cells = plan(SweepConfig(model="my/encoder", data="CLUE", tasks={"tnews": {}}, variants=variants))
        >>> [cell.name for cell in cells][:3], cells[0].options
        (['tnews-plain-1', 'tnews-drop-1', 'tnews-plain-2'], {'drop_rate': 0.0})
    """
    evaluations = {name: config.evaluation(name) for name in config.evaluations}
    varied = sorted({name for options in config.variants.values() for name in options or {}})
    merged = {}
    for task, task_options in config.tasks.items():
        for variant, variant_options in config.variants.items():
            own = {**(task_options or {}), **(variant_options or {})}
            merged[task, variant] = (own, _checked(task, variant, {**config.base, **own}))
    cells = [
        Cell(
            task=task,
            variant=variant,
            seed=seed,
            options={name: getattr(checked, name) for name in varied} | own,
            config=dataclasses.replace(checked, seed=seed),
            evaluations=evaluations,
            split=config.split,
            metric=config.metrics.get(task),
            keep_models=config.keep_models,
        )
        for seed in config.seeds
        for (task, variant), (own, checked) in merged.items()
    ]
    seen: set[Path] = set()
    for cell in cells:
        for record in (cell.record(Path(), name) for name in (None, *evaluations)):
            if record in seen:
                raise InputError(f"two cells would be called {record.stem}; rename a task or variant", "variants")
            seen.add(record)
    return cells


def material(config: FinetuneConfig) -> Options:
    """The options on which a cell's result depends."""
    return {name: value for name, value in asdict(config).items() if name not in _IMMATERIAL}


def differences(before: Options, now: Options) -> list[str]:
    """What changed between two cells' options, each as "name: before -> now"; one left out has its default.

    Example:
        >>> differences({"drop_rate": 0.1, "model": "m"}, {"drop_rate": 0.2, "model": "m", "packed": True})
        ['drop_rate: 0.1 -> 0.2']
    """
    defaults = {field.name: _default(field) for field in dataclasses.fields(FinetuneConfig)}
    full = [{**defaults, **options} for options in (before, now)]
    names = {**full[0], **full[1]}.keys() - _IMMATERIAL
    pairs = {name: (full[0].get(name), full[1].get(name)) for name in sorted(names)}
    return [f"{name}: {old} -> {new}" for name, (old, new) in pairs.items() if old != new]


def _checked(task: str, variant: str, options: Options) -> FinetuneConfig:
    if not options.get("task") and not options.get("train_file"):
        options = {**options, "task": task}
    where = f"task {task}, variant {variant}"
    known = [field.name for field in dataclasses.fields(FinetuneConfig)]
    # YAML reads an unquoted no as False.
    hints = get_type_hints(FinetuneConfig)
    options = {
        name: "no" if value is False and "no" in get_args(hints[name]) else value for name, value in options.items()
    }
    try:
        values = _parser().parse_object(options)
        return FinetuneConfig(**{name: values[name] for name in known})
    except (ArgumentError, InputError) as error:
        message = error.message if isinstance(error, ArgumentError) else str(error)
        raise InputError(" ".join(message.split()), where) from error


@cache
def _parser() -> ArgumentParser:
    # Values from YAML or Python, brought to the types of the fields just as on finetune's command line.
    parser = ArgumentParser(exit_on_error=False)
    hints = get_type_hints(FinetuneConfig)
    for field in dataclasses.fields(FinetuneConfig):
        parser.add_argument(f"--{field.name}", type=hints[field.name], default=_default(field))
    return parser


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
