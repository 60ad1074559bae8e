"""Every rule against one subject."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn

from maskwright.audit.calling import InapplicableError
from maskwright.audit.configured import Direction
from maskwright.audit.examine import Examination, told
from maskwright.audit.finding import Finding, Findings
from maskwright.audit.function import KINDS, Function, Kind
from maskwright.audit.rules import RULES
from maskwright.audit.state import untouched
from maskwright.audit.subject import Subject
from maskwright.audit.trial import Trial, lay
from maskwright.errors import InputError

ENOUGH = 31  # tokens: what most rules need at most


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
    """Check a model's masks; nothing is trained, nothing fetched, and the model is left as it was.

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
        InputError: an unknown rule, a model whose vocabulary is not known, or one that holds no numbers.

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
    if kind != "model":
        label = name or getattr(model, "__name__", type(model).__name__)
        function = Function(model, kind, label, tokenizer, direction)
        findings = _cannot_be_asked(function) or _examined(wanted, function, allow, tell)
        return Findings(function.name, findings, time.perf_counter() - began)
    if not isinstance(model, nn.Module):
        raise InputError(f"must be a torch module, got {type(model).__name__}; for a function give its kind", "model")
    if tokenizer is not None:
        vocab_size = vocab_size or len(tokenizer)
        pad_id = tokenizer.pad_token_id if pad_id is None else pad_id
    special = frozenset(getattr(tokenizer, "all_special_ids", ()))
    with untouched(model):
        subject = Subject(
            model, name=name, direction=direction, vocab_size=vocab_size, pad_id=pad_id, special_ids=special
        )
        findings = _cannot_be_called(subject) or _examined(wanted, subject, allow, tell)
    return Findings(subject.name, findings, time.perf_counter() - began)


def _cannot_be_called(subject: Subject) -> list[Finding]:
    """One finding, if the plainest call of all fails; else the subject learns how long a row may be."""
    name = "one row of tokens"
    raised: dict[int, Exception] = {}
    for plain in (3, 2, 1, 16):  # some models begin with a few tokens, some end with them
        if (error := _raises(subject, plain)) is None:
            break
        raised[plain] = error
    else:
        fix = "audit a module that is called as model(input_ids, attention_mask)"
        reason = told(next(e for e in raised.values() if not isinstance(e, InapplicableError)))
        return [Finding("callable", name, "error", "high", reason=reason, fix=fix)]
    tried = range(min(ENOUGH, subject.longest), plain, -1)
    if (longest := next((n for n in tried if _raises(subject, n) is None), plain)) < ENOUGH:
        subject.longest = longest
    if not subject(Trial(subject.sequences(plain))).n_values:
        reason = "it gives back no floating-point tensor whose first sizes are those of the batch"
        return [Finding("callable", name, "error", "high", reason=reason)]
    return []


def _cannot_be_asked(function: Function) -> list[Finding]:
    """One finding, if the plainest call of a function fails."""
    try:
        function.plainly()
    except Exception as error:  # a function may raise anything
        fix = f"audit a function of the form that kind '{function.kind}' asks for"
        return [Finding("callable", "the plainest call", "error", "high", reason=told(error), fix=fix)]
    return []


def _raises(subject: Subject, n: int) -> Exception | None:
    """What a row of n tokens raises."""
    trial = Trial(subject.sequences(n))
    try:
        with torch.no_grad():
            subject.raw(lay(trial, subject.pad_id), trial)
    except Exception as error:  # a model may raise anything
        return error
    return None


def _examined(
    wanted: Iterable[str], subject: Subject | Function, allow: Mapping[str, str], tell: Callable[[str], None]
) -> list[Finding]:
    examination = Examination(subject)
    findings: list[Finding] = []
    for rule in wanted:
        tell(rule)
        findings += [_allowed(finding, allow) for finding in examination.findings(RULES[rule])]
    return findings


def _allowed(finding: Finding, allow: Mapping[str, str]) -> Finding:
    if finding.verdict not in ("fail", "error") or finding.rule not in allow:
        return finding
    return Finding(**{**finding.to_dict(), "allowed": allow[finding.rule]})
