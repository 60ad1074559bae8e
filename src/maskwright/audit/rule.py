"""What a rule is, and the usual reasons why one does not bind a subject."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from maskwright.audit.compare import Check, Measure
from maskwright.audit.configured import window_of
from maskwright.audit.function import Kind
from maskwright.audit.subject import Subject

Applies = Callable[[Any], str | None]


def always(subject: Any) -> None:
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
        kind: what it binds; `checks` gets a `Subject` for "model", a `Function` for all else.
    """

    name: str
    law: str
    report: str
    checks: Callable[[Any], Iterable[Check | Measure]]
    applies: Applies = always
    may_refuse: bool = False
    by_default: bool = True
    kind: Kind = "model"


def rules_of(kind: Kind) -> Callable[..., Rule]:
    """What makes the rules of a kind of function: `Rule`, with the kind before their names."""

    def rule(name: str, *parts: Any, **options: Any) -> Rule:
        return Rule(f"{kind}-{name}", *parts, **options | {"kind": kind})

    return rule


def bidirectional(subject: Subject) -> str | None:
    return None if subject.direction == "bidirectional" else f"it is meant to be {subject.direction or 'unknown'}"


def causal(subject: Subject) -> str | None:
    return None if subject.direction == "causal" else f"it is meant to be {subject.direction or 'unknown'}"


def is_transformers(subject: Subject) -> str | None:
    return None if subject.inner is not None and not subject.takes_features else "it is no transformers model"


LENGTH = 7  # tokens in the longest row that a block mask is tried on


def takes_blocks(subject: Subject) -> str | None:
    """Whether a 4-D mask can say all that attention needs: in place of a 2-D one it widens a layer's window."""
    if (reason := is_transformers(subject)) is not None:
        return reason
    window = window_of(subject.config)
    return f"a 4-D mask would widen its windows of {window}" if 0 < window < LENGTH - 1 else None


def takes_positions(subject: Subject) -> str | None:
    return None if subject.takes("position_ids") else "it takes no position_ids"


def has_embeddings(subject: Subject) -> str | None:
    return None if subject.takes("inputs_embeds") and not subject.takes_features else "it takes no inputs_embeds"


def encoder_decoder(subject: Subject) -> str | None:
    return None if subject.direction == "encoder-decoder" else "it has no decoder beside an encoder"


def takes_decoder_mask(subject: Subject) -> str | None:
    if (reason := encoder_decoder(subject)) is not None:
        return reason
    return None if subject.takes("decoder_attention_mask") else "it takes no decoder_attention_mask"
