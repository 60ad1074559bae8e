"""Every rule against one subject."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn

from maskwright.audit.causes import CAUSES, DESIGNS, Cause
from maskwright.audit.compare import Check, Measure, Outcome, judge
from maskwright.audit.explain import explain, mixes
from maskwright.audit.finding import Finding, Findings
from maskwright.audit.function import KINDS, Function, Kind
from maskwright.audit.locate import first_module
from maskwright.audit.rule import Rule
from maskwright.audit.rules import RULES
from maskwright.audit.script import script_of
from maskwright.audit.subject import Direction, Subject
from maskwright.audit.trial import Trial
from maskwright.errors import InputError


def run_audit(
    model: nn.Module | Callable[..., Any],
    tokenizer: Any = None,
    *,
    kind: Kind = "model",
    name: str = "",
    direction: Direction | None = None,
    vocab_size: int | None = None,
    pad_id: int | None = None,
    rules: Iterable[str] | None = None,
    allow: Mapping[str, str] | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Findings:
    """Check a model's masks; nothing is trained, nothing fetched.

    Args:
        model: any module that is called as `model(input_ids, attention_mask)`; transformers and sentence-transformers
            models of every kind; or a function of another `kind`.
        tokenizer: says vocabulary and special tokens, where the model's configuration does not; needed for a collator.
        kind: "model", or what the function is (`maskwright.audit.function.Function` says how each is called).
        name: for the reports.
        direction: what attention is meant to be; by default what the configuration says.
        vocab_size, pad_id: where neither configuration nor tokenizer says.
        rules: names of those to check; None = all that are checked by default.
        allow: rule -> why breaking it is all right here.
        tell: takes a line a rule.

    Raises:
        InputError: an unknown rule, or a model whose vocabulary is not known.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> config = BertConfig(vocab_size=61, hidden_size=22, num_attention_heads=2, num_hidden_layers=2)
        >>> run_audit(BertModel(config), rules=["padding-amount", "backward-attention"]).is_clean
        True
    """
    began = time.perf_counter()
    allow = allow or {}
    if kind not in KINDS:
        raise InputError(f"must be one of {', '.join(KINDS)}, got '{kind}'", "kind")
    ours = {rule: found for rule, found in RULES.items() if found.kind == kind}
    wanted = [rule for rule, found in ours.items() if found.by_default] if rules is None else list(rules)
    if unknown := [rule for rule in wanted if rule not in ours] + [rule for rule in allow if rule not in RULES]:
        raise InputError(f"no rule is called '{unknown[0]}'; there are {', '.join(ours)}", "rules")
    subject: Subject | Function
    findings: list[Finding] = []
    if kind != "model":
        subject = Function(model, kind, name or getattr(model, "__name__", type(model).__name__), tokenizer)
    elif isinstance(model, nn.Module):
        if tokenizer is not None:
            vocab_size = vocab_size or len(tokenizer)
            pad_id = tokenizer.pad_token_id if pad_id is None else pad_id
        special = frozenset(getattr(tokenizer, "all_special_ids", ()))
        subject = Subject(
            model, name=name, direction=direction, vocab_size=vocab_size, pad_id=pad_id, special_ids=special
        )
        findings = _cannot_be_called(subject)
    else:
        raise InputError(f"must be a torch module, got {type(model).__name__}; for a function give its kind", "model")
    for rule in wanted if not findings else ():
        tell(rule)
        findings += [_allowed(finding, allow) for finding in _findings(RULES[rule], subject)]
    return Findings(subject.name, findings, time.perf_counter() - began)


def _cannot_be_called(subject: Subject) -> list[Finding]:
    """One finding, if the plainest call of all fails."""
    trial = Trial(subject.sequences(3))
    try:
        n_values = subject(trial).n_values
    except Exception as error:  # a model may raise anything
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        fix = "audit a module that is called as model(input_ids, attention_mask)"
        return [Finding("callable", "one row of three tokens", "error", "high", reason=reason, fix=fix)]
    if n_values:
        return []
    reason = "it gives back no floating-point tensor whose first sizes are those of the batch"
    return [Finding("callable", "one row of three tokens", "error", "high", reason=reason)]


def _findings(rule: Rule, subject: Subject | Function) -> list[Finding]:
    reason = rule.applies(subject)
    if reason is not None:
        return [Finding(rule.name, rule.law, "not applicable", reason=reason)]
    return [_finding(rule, check, subject) for check in rule.checks(subject)]


def _finding(rule: Rule, check: Check | Measure, subject: Subject | Function) -> Finding:
    script = script_of(check, subject) if isinstance(check, Check) and isinstance(subject, Subject) else ""
    try:
        outcome = judge(check, subject)
    except Exception as error:  # a model may raise anything; that is a finding, not a crash
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        if rule.may_refuse:
            return Finding(rule.name, check.name, "not applicable", reason=f"it refuses: {reason}")
        return Finding(rule.name, check.name, "error", "high", reason=reason, script=script)
    effects = (outcome.single.effect, None if outcome.exact is None else outcome.exact.effect)
    if outcome.verdict != "fail":
        return Finding(rule.name, check.name, outcome.verdict, "none", *effects)
    module, cause = _diagnosis(rule, check, subject, outcome)
    by_design = cause.name in DESIGNS
    return Finding(
        rule.name,
        check.name,
        "architectural" if by_design else "fail",
        "none" if by_design else outcome.severity,
        *effects,
        module=module,
        cause=cause.name,
        reason=cause.reason,
        fix=cause.fix,
        script=script,
    )


def _diagnosis(
    rule: Rule, check: Check | Measure, subject: Subject | Function, outcome: Outcome
) -> tuple[str | None, Cause]:
    """Where two calls part, and why; a measure brings its cause along."""
    if isinstance(check, Measure):
        by_design = isinstance(subject, Subject) and mixes(subject)
        return None, CAUSES["mixes-neighbours" if by_design else check.cause]
    assert isinstance(subject, Subject)
    # Where float64 gives no number (a model that casts on its way), the experiments are made as it is.
    exact = (outcome.exact is not None and outcome.exact.is_finite) or not outcome.single.is_finite
    with subject.cast_to(torch.float64 if exact else None):
        module = first_module(check, subject)
        return module, explain(check, rule.name, subject, module)


def _allowed(finding: Finding, allow: Mapping[str, str]) -> Finding:
    if finding.verdict not in ("fail", "error") or finding.rule not in allow:
        return finding
    return Finding(**{**finding.to_dict(), "allowed": allow[finding.rule]})
