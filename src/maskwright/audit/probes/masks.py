"""The same mask in another form, and the same call with another option, must mean the same or be refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from maskwright.audit.compare import Check
from maskwright.audit.rule import Rule, is_transformers, takes_blocks
from maskwright.audit.subject import Subject
from maskwright.audit.trial import MaskForm, Trial

LENGTHS = (7, 5)
PAIRS = [(0, 0), (1, 1)]
OPTIONS = ("use_cache", "output_attentions", "output_hidden_states")


def forms(subject: Subject) -> Iterator[Check]:
    """Bool, float and 4-D masks against the 2-D mask of whole numbers."""
    trial = Trial(subject.sequences(*LENGTHS), n_pads=1)
    for form in get_args(MaskForm):
        if form not in ("int", "inverted", "none") and (not form.startswith("4d") or takes_blocks(subject) is None):
            yield Check(f"a {form} mask", trial, trial.but(mask=form), PAIRS)
    full = Trial(subject.sequences(LENGTHS[0]))
    yield Check("no mask where nothing is padded", full, full.but(mask="none"), [(0, 0)])


def implementations(subject: Subject) -> Iterator[Check]:
    """eager, sdpa, packed and, on a GPU, flex attention, with every form of mask."""
    trial = Trial(subject.sequences(*LENGTHS), n_pads=1)
    ways: dict[str, dict[str, Any]] = {name: {"attn_implementation": name} for name in ("eager", "sdpa")}
    ways["maskwright"] = {"packed": True}
    if subject.device.type == "cuda":  # torch 2.13's kernel for CPUs gives NaN where all is padding, and crashes
        ways["flex_attention"] = {"attn_implementation": "flex_attention"}
    for name, settings in ways.items():
        for form in get_args(MaskForm):
            if form not in ("inverted", "none") and (not form.startswith("4d") or takes_blocks(subject) is None):
                yield Check(f"a {form} mask on {name}", trial, trial.but(mask=form, settings=settings), PAIRS)


def options(subject: Subject) -> Iterator[Check]:
    """Options that should change what is returned and nothing else."""
    trial = Trial(subject.sequences(*LENGTHS), n_pads=1)
    for option in OPTIONS:
        if subject.inner is not None:
            plain, asked = trial.but(options={option: False}), trial.but(options={option: True})
            yield Check(f"{option}=True", plain, asked, PAIRS)


RULES = (
    Rule(
        "mask-forms",
        "A mask means the same in every form that the model takes.",
        "huggingface/transformers 38094: float cast to bool; vllm-project/speculators 691: bool added as 1 and 0",
        forms,
        may_refuse=True,
    ),
    Rule(
        "implementations",
        "A mask means the same on every implementation of attention.",
        "transformers 5.23: a 4-D bool mask is silently wrong on eager",
        implementations,
        is_transformers,
        may_refuse=True,
        by_default=False,
    ),
    Rule(
        "options",
        "use_cache, output_attentions and output_hidden_states change nothing that is computed.",
        "code paths chosen by what is to be returned",
        options,
        is_transformers,
        may_refuse=True,
    ),
)
