"""What may stand in slots that must not matter: two contents of padded slots, two endings of a text."""

from __future__ import annotations

import torch
from torch import Tensor

from maskwright.audit.subject import Subject
from maskwright.audit.trial import Trial


def two_contents(subject: Subject, trial: Trial) -> tuple[Trial, Trial]:
    """A trial as it is, and with another token in its padded slots.

    Families that count the ids that are no padding to find positions (M2M100, FSMT) would count the other token, unless
    positions are handed over: they are given embeddings instead of ids.
    """
    other = int(subject.sequences(1, seed=5)[0][0])
    side = "decoder_" if trial.part == "decoder" else ""
    if subject.takes(f"{side}position_ids"):
        trial = trial.but(positions="of tokens")
    elif subject.takes(f"{side}inputs_embeds"):
        trial = trial.but(as_embeddings=True)
    return trial, trial.but(fill=other)


def two_endings(subject: Subject, length: int, at: int) -> tuple[Tensor, Tensor]:
    """Two rows of ids `[length]`, equal up to token `at` and different from there on, if there are ids enough."""
    (row,), (other,) = subject.sequences(length), subject.sequences(length, seed=1)
    return row, torch.cat([row[:at], torch.where(other == row, row.roll(1), other)[at:]])
