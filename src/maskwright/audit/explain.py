"""Why a law is broken: experiments that tell the usual causes apart."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from maskwright.audit.causes import CAUSES, UNKNOWN, Cause
from maskwright.audit.compare import LEAK64, Check, difference
from maskwright.audit.locate import recorded
from maskwright.audit.subject import Subject

# What a rule's breaking can only mean.
_BY_RULE = {
    "repeatable": "random-in-evaluation",
    "future": "no-causal-mask",
    "backward-attention": "causal-mask",
    "padding-nan": "nan-times-zero",
    "mask-forms": "mask-form",
    "options": "option-changes-path",
    "packing-positions": "packing-ignored",
    "packing-blocks": "packing-leak",
}

# Encoders that mix slots by design, whatever the module where that shows first.
_MIXING = frozenset({"fnet", "canine", "convbert", "nystromformer", "big_bird", "reformer", "longformer", "funnel"})


def mixes(subject: Subject) -> bool:
    """Whether the family mixes slots by design."""
    return getattr(subject.config, "model_type", None) in _MIXING


def explain(check: Check, rule: str, subject: Subject, module: str | None) -> Cause:
    """The likeliest cause of a failed check; the subject is in float64."""
    if mixes(subject):
        return CAUSES["mixes-neighbours"]
    if (fixed := _BY_RULE.get(rule)) is not None:
        return CAUSES[fixed]
    a, b = subject(check.a), subject(check.b)
    if not difference(check, a, b).is_finite:
        return CAUSES["softmax-over-nothing"]
    found = dict(subject.model.named_modules()).get((module or "").split("#")[0])
    if isinstance(found, nn.modules.batchnorm._BatchNorm):
        return CAUSES["batch-statistics"]
    if isinstance(found, (nn.Conv1d, nn.Conv2d)):
        return CAUSES["mixes-neighbours"]
    if rule == "padding-side" and subject(check.a).n_values:
        right = replace(check, a=check.b.but(side="right"))
        if difference(right, subject(right.a), a).effect <= LEAK64 and not subject.takes("position_ids"):
            return CAUSES["slots-counted"]
    if rule.startswith(("padding", "holes")):
        seen = difference(replace(check, outputs="tokens"), a, b)
        if seen.n_compared and seen.effect <= LEAK64:
            return CAUSES["pooling"]
        same = replace(check, pairs=[(second, second) for _, second in check.pairs])
        if difference(same, b, subject(check.b.but(mask="none"))).effect <= LEAK64:
            return CAUSES["mask-never-arrives"]
        if difference(check, a, subject(check.b.but(mask="inverted"))).effect <= LEAK64:
            return CAUSES["polarity"]
        if _at_the_border(check, subject, module):
            return CAUSES["border"]
    return UNKNOWN


def _at_the_border(check: Check, subject: Subject, module: str | None) -> bool:
    """Whether the module's outputs agree on all tokens but the last ones, which stand beside the padding."""
    ones, others = dict(recorded(subject, check.a)), dict(recorded(subject, check.b))
    if module not in ones or module not in others:
        return False
    shortest = min(len(check.a.sequences[first]) for first, _ in check.pairs)
    inner = replace(check, until=shortest // 2)
    found = difference(inner, ones[module], others[module])
    return bool(found.n_compared) and found.effect <= LEAK64
