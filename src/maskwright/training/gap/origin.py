"""What noise a checkpoint was pretrained with, where its folder says so."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import yaml

from maskwright.objectives.corruption import BERT_SHARES, Shares
from maskwright.training.gap.noise import NoiseKind


class Origin(NamedTuple):
    """`shares` are what became of chosen tokens under "mlm"."""

    noise: NoiseKind
    shares: Shares


def origin_of(model: str) -> Origin:
    """Of a folder that `maskwright pretrain` wrote, its own noise; of any other model, BERT's.

    Example:
        >>> origin_of("google-bert/bert-base-uncased")
        Origin(noise='mlm', shares=Shares(mask=0.8, keep=0.1, random=0.1))
    """
    path = Path(model).expanduser() / "config.yaml"
    run = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else None
    if not isinstance(run, dict) or "objective" not in run:
        return Origin("mlm", BERT_SHARES)
    return Origin("mae" if run["objective"] == "mae" else "mlm", Shares(*run["shares"]))
