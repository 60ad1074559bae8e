"""Why a law is broken: experiments that tell the usual causes apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torch import nn

from maskwright.audit.causes import CAUSES, DESIGNS, UNKNOWN, Cause
from maskwright.audit.compare import LEAK64, Check, difference
from maskwright.audit.experiments import Facts, ignores_positions, module_sees, reacts
from maskwright.audit.locate import recorded
from maskwright.audit.rule import Rule
from maskwright.audit.subject import Subject
from maskwright.audit.trial import Trial

# What a rule's breaking can only mean.
_BY_RULE = {
    "repeatable": "random-in-evaluation",
    "future": "no-causal-mask",
    "backward-attention": "causal-mask",
    "padding-nan": "nan-times-zero",
    "mask-forms": "mask-form",
    "implementations": "mask-form",
    "options": "option-changes-path",
    "packing-positions": "packing-ignored",
    "packing-blocks": "packing-leak",
}
_MOVING = ("padding-side", "padding-amount", "holes-removed")
_PADDED = ("padding", "holes", "row", "neighbours", "batch-size", "decoder-padding", "cross-attention")

# Encoders that mix slots by design, whatever the module where that shows first.
_MIXING = frozenset({"fnet", "canine", "convbert", "nystromformer", "big_bird", "reformer", "longformer", "funnel"})


def mixes(subject: Subject) -> bool:
    """Whether the family mixes slots by design."""
    return getattr(subject.config, "model_type", None) in _MIXING


def is_design(cause: Cause, rule: Rule, subject: object) -> bool:
    """Whether a broken rule is a property of the model and no fault.

    Slots instead of tokens may be counted where nothing says which tokens there are: not for padding on the right,
    which moves none, nor where position_ids are taken.
    """
    if cause.name == "slots-counted" and isinstance(subject, Subject):
        return rule.name.startswith("holes") or (rule.name == "padding-side" and not subject.takes("position_ids"))
    return rule.kind in DESIGNS.get(cause.name, ())


def explain(check: Check, rule: str, facts: Facts, module: str | None) -> Cause:
    """The likeliest cause of a failed check; the subject is in float64."""
    subject = facts.subject
    if mixes(subject):
        return CAUSES["mixes-neighbours"]
    if not facts.repeats:
        return CAUSES["random-in-evaluation"]
    if check.cause:
        return CAUSES[check.cause]
    if (fixed := _BY_RULE.get(rule)) is not None:
        return CAUSES[fixed]
    if not difference(check, subject(check.a), subject(check.b)).is_finite:
        return CAUSES["softmax-over-nothing"]
    found = dict(subject.model.named_modules()).get((module or "").split("#")[0])
    if isinstance(found, nn.modules.batchnorm._BatchNorm):
        return CAUSES["batch-statistics"]
    if isinstance(found, (nn.Conv1d, nn.Conv2d)):
        return CAUSES["mixes-neighbours"]
    if not rule.startswith(_PADDED):
        return UNKNOWN
    if not facts.keeps_rows_apart:
        return CAUSES["rows-mixed"]
    return _of_padding(check, rule, subject, module)


def _of_padding(check: Check, rule: str, subject: Subject, module: str | None) -> Cause:
    """The first cause whose experiment succeeds; one that the model refuses says nothing."""
    ours, theirs = check.pairs[0]
    padded = (check.b, theirs) if _has_padding(check.b, theirs) else (check.a, ours)

    def sees() -> tuple[bool, bool]:
        if not module or not _has_padding(*padded):
            return False, False
        return module_sees(subject, module.split("#")[0], *padded)

    experiments: list[tuple[str, Callable[[], bool]]] = [
        ("causal-mask", lambda: subject.direction == "bidirectional" and _turns_causal(check, subject)),
        ("no-causal-mask", lambda: subject.direction == "causal" and _sees_the_future(check, subject)),
        ("slots-counted", lambda: rule in _MOVING and _counts_slots(check, subject)),
        ("pooling", lambda: subject.direction != "encoder-decoder" and _pools(check, subject, module)),
        ("mask-never-arrives", lambda: _is_same_without(check, subject)),
        ("polarity", lambda: replace(check, b=check.b.but(mask="inverted")).measure(subject).effect <= LEAK64),
        ("mask-never-arrives", lambda: sees() == (True, True)),
        ("polarity", lambda: sees() == (True, False)),
        ("border", lambda: _at_the_border(check, subject, module)),
    ]
    return next((CAUSES[cause] for cause, experiment in experiments if _succeeds(experiment)), UNKNOWN)


def _succeeds(experiment: Callable[[], bool]) -> bool:
    try:
        return experiment()
    except Exception:  # a model may refuse a mask or positions in any way
        return False


def _turns_causal(check: Check, subject: Subject) -> bool:
    """Whether one of the two calls hides later tokens alone, and the other nothing."""
    sides = [(check.a, check.pairs[0][0]), (check.b, check.pairs[0][1])]
    later = {reacts(subject, *side, first_to_last=True) for side in sides}
    return len(later) > 1 and all(reacts(subject, *side, first_to_last=False) for side in sides)


def _sees_the_future(check: Check, subject: Subject) -> bool:
    sides = [(check.a, check.pairs[0][0]), (check.b, check.pairs[0][1])]
    return any(reacts(subject, *side, first_to_last=True) for side in sides)


def _has_padding(trial: Trial, sequence: int) -> bool:
    longest = max(len(row) for row in trial.sequences)
    has_any = trial.n_pads > 0 or trial.hole[1] > 0 or len(trial.sequences[sequence]) < longest
    return trial.part == "input" and has_any


def _counts_slots(check: Check, subject: Subject) -> bool:
    """Whether the two calls agree once positions count tokens, or padding stands on one side."""
    if ignores_positions(subject, check.b):
        return True
    if not subject.takes("position_ids"):
        right = replace(check, a=check.a.but(side="right"), b=check.b.but(side="right"))
        return check.a.side != check.b.side and right.measure(subject).effect <= LEAK64
    told = replace(check, a=check.a.but(positions="of tokens"), b=check.b.but(positions="of tokens"))
    return check.b.positions == "default" and told.measure(subject).effect <= LEAK64


def _pools(check: Check, subject: Subject, module: str | None) -> bool:
    """Whether all tokens agree and a row's result does not: of the whole model, or of the module."""
    tokens = replace(check, outputs="tokens").measure(subject)
    if tokens.n_compared:
        return tokens.effect <= LEAK64
    call = recorded(subject, check.a).get(module or "")
    return call is not None and bool(call.outputs.rows) and not call.outputs.tokens


def _is_same_without(check: Check, subject: Subject) -> bool:
    """Whether the padded call gives the same without its mask."""
    pairs = [(second, second) for _, second in check.pairs]
    return replace(check, a=check.b, b=check.b.but(mask="none"), pairs=pairs).measure(subject).effect <= LEAK64


def _at_the_border(check: Check, subject: Subject, module: str | None) -> bool:
    """Whether the module's outputs agree on all tokens but the last ones, which stand beside the padding."""
    if module is None:
        return False
    one, other = (recorded(subject, trial).get(module) for trial in (check.a, check.b))
    if one is None or other is None:
        return False
    shortest = min(len(check.a.sequences[first]) for first, _ in check.pairs)
    found = difference(replace(check, until=shortest // 2), one.outputs, other.outputs)
    return bool(found.n_compared) and found.effect <= LEAK64
