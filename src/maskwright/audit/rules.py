"""The catalogue: every rule with its law, a public report of it being broken, and how to mend it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from maskwright.audit.compare import Check, Measure
from maskwright.audit.probes import direction, masks, numbers, packing, padding, rows
from maskwright.audit.subject import Subject

Applies = Callable[[Subject], str | None]


def always(subject: Subject) -> None:
    """Applies to every subject."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One law.

    Attributes:
        name: as reports and `--allow` call it.
        law: what must hold, in a sentence.
        report: a public report of a model or library that broke it.
        checks: subject -> the comparisons that test it.
        applies: subject -> None, or why the law does not bind it.
        may_refuse: a clear error is as good as the right answer.
        by_default: checked unless others are asked for.
    """

    name: str
    law: str
    report: str
    checks: Callable[[Subject], Iterable[Check | Measure]]
    applies: Applies = always
    may_refuse: bool = False
    by_default: bool = True


def _bidirectional(subject: Subject) -> str | None:
    return None if subject.direction == "bidirectional" else f"it is meant to be {subject.direction or 'unknown'}"


def _causal(subject: Subject) -> str | None:
    return None if subject.direction == "causal" else f"it is meant to be {subject.direction or 'unknown'}"


def _is_transformers(subject: Subject) -> str | None:
    return None if subject.inner is not None and not subject.takes_features else "it is no transformers model"


def _takes_positions(subject: Subject) -> str | None:
    return None if subject.takes("position_ids") else "it takes no position_ids"


def _has_embeddings(subject: Subject) -> str | None:
    return None if subject.takes("inputs_embeds") and not subject.takes_features else "it takes no inputs_embeds"


def _has_tokens(subject: Subject) -> str | None:
    return None if subject.direction != "encoder-decoder" else "its decoder's side is not looked at"


RULES = {
    rule.name: rule
    for rule in (
        Rule(
            "padding-amount",
            "How much padding a row has changes none of its tokens.",
            "IndicBERT issue 20: real tokens change tenfold with padding; huggingface/transformers 17463",
            padding.amount,
        ),
        Rule(
            "padding-side",
            "On which side padding stands changes no token, once positions count tokens.",
            "UKPLab/sentence-transformers 3208; huggingface/transformers 35909",
            padding.side,
            _has_tokens,
        ),
        Rule(
            "padding-content",
            "The id that stands in padded slots changes no real token.",
            "MobileBERT in transformers 5.23: the pad id reaches the last real token",
            padding.content,
        ),
        Rule(
            "padding-values",
            "Large numbers in the embeddings of padded slots change no real token.",
            "huggingface/transformers 17306, 17437: a finite bias that large scores overcome",
            padding.values,
            _has_embeddings,
            may_refuse=True,
        ),
        Rule(
            "padding-nan",
            "A NaN in a padded slot reaches no real token.",
            "pytorch/pytorch 101967: 0 x NaN",
            padding.not_a_number,
            _has_embeddings,
            may_refuse=True,
        ),
        Rule(
            "empty-row",
            "A row of padding alone changes no other row, and holds numbers.",
            "pytorch/pytorch 24816, huggingface/transformers 44163: NaN for an all-padded row",
            numbers.empty_row,
        ),
        Rule(
            "narrow-dtypes",
            "In float16 and bfloat16 padded rows stay numbers.",
            "huggingface/transformers 17306, 17437: finfo.min plus a negative score",
            numbers.narrow,
            may_refuse=True,
        ),
        Rule(
            "gradient",
            "No gradient of real tokens' outputs reaches padded slots.",
            "the pad row of an embedding table that trains",
            numbers.gradient,
            _has_embeddings,
            may_refuse=True,
        ),
        Rule(
            "mask-forms",
            "A mask means the same in every form that the model takes.",
            "huggingface/transformers 38094: float cast to bool; vllm-project/speculators 691: bool added as 1 and 0",
            masks.forms,
            _is_transformers,
            may_refuse=True,
        ),
        Rule(
            "implementations",
            "A mask means the same on eager and sdpa attention.",
            "transformers 5.23: a 4-D bool mask is silently wrong on eager",
            masks.implementations,
            _is_transformers,
            may_refuse=True,
            by_default=False,
        ),
        Rule(
            "options",
            "use_cache, output_attentions and output_hidden_states change nothing that is computed.",
            "code paths chosen by what is to be returned",
            masks.options,
            _is_transformers,
            may_refuse=True,
        ),
        Rule(
            "packing-blocks",
            "Texts in one row under a block mask are as in rows of their own.",
            "huggingface/transformers 46634: packed documents attend to each other",
            packing.blocks,
            _takes_positions,
            may_refuse=True,
        ),
        Rule(
            "packing-positions",
            "Texts in one row whose positions start anew are as in rows of their own.",
            "huggingface/transformers 46634; encoders of 5.23 on sdpa and eager",
            packing.positions,
            _takes_positions,
            may_refuse=True,
        ),
        Rule(
            "neighbours",
            "The other rows of a batch change nothing.",
            "ReProver issue 34: four batch sizes, four rankings",
            rows.neighbours,
        ),
        Rule("row-order", "The order of the rows changes nothing.", "ReProver issue 34", rows.order),
        Rule(
            "repeatable",
            "The same call in evaluation mode gives the same numbers.",
            "pytorch/pytorch 124464: functional dropout left on",
            rows.repeated,
        ),
        Rule(
            "future",
            "A causal model's tokens do not change with what follows them.",
            "huggingface/transformers 48745: several families see the future",
            direction.future,
            _causal,
        ),
        Rule(
            "backward-attention",
            "A bidirectional model's tokens do change with what follows them, padded or not.",
            "huggingface/transformers 42820: an encoder turns causal when nothing is padded",
            direction.backward,
            _bidirectional,
        ),
    )
}
"""Every rule by its name."""
