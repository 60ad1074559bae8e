"""One rule after the other on one subject: what each check came to, where it failed, and why."""

from __future__ import annotations

import torch

from maskwright.audit.calling import InapplicableError
from maskwright.audit.causes import CAUSES, UNKNOWN, Cause
from maskwright.audit.compare import Check, Measure, Outcome, judge
from maskwright.audit.experiments import Facts
from maskwright.audit.explain import explain, is_design, mixes
from maskwright.audit.finding import Finding
from maskwright.audit.function import Function
from maskwright.audit.function_script import function_script
from maskwright.audit.locate import first_module, first_nan
from maskwright.audit.reach import reach_of
from maskwright.audit.rule import Rule
from maskwright.audit.script import script_of
from maskwright.audit.subject import Subject

LONGEST_MESSAGE = 300  # characters


class Examination:
    """Checks of one subject; what was found out about it for one is kept for the next."""

    def __init__(self, subject: Subject | Function) -> None:
        self.subject = subject
        self._facts = Facts(subject) if isinstance(subject, Subject) else None
        self._causes: dict[tuple[str, str | None, str], Cause] = {}

    def findings(self, rule: Rule) -> list[Finding]:
        """One a check, or one that says why the rule does not bind the subject."""
        try:
            reason = rule.applies(self.subject)
            if reason is not None:
                return [Finding(rule.name, rule.law, "not applicable", reason=reason)]
            checks = list(rule.checks(self.subject))
        except Exception as error:  # what a rule asks of a model may raise anything
            return [_raised(rule, rule.law, error)]
        return [self._finding(rule, check) for check in checks]

    def _finding(self, rule: Rule, check: Check | Measure) -> Finding:
        try:
            outcome = judge(check, self.subject)
        except Exception as error:  # a model may raise anything; that is a finding, not a crash
            return _raised(rule, check.name, error, self._script(check))
        effects = (outcome.single.effect, None if outcome.exact is None else outcome.exact.effect)
        if outcome.verdict != "fail":
            return Finding(rule.name, check.name, outcome.verdict, "none", *effects)
        try:
            module, cause = self._diagnosis(rule, check, outcome)
        except Exception:  # an experiment that the model does not survive explains nothing
            module, cause = None, UNKNOWN
        by_design = is_design(cause, rule, self.subject)
        severity = (check.severity if isinstance(check, Measure) else None) or outcome.severity
        return Finding(
            rule.name,
            check.name,
            "architectural" if by_design else "fail",
            "none" if by_design else severity,
            *effects,
            module=module,
            cause=cause.name,
            reason=cause.reason,
            fix=cause.fix,
            script=self._script(check),
            reach=self._reach(cause),
        )

    def _diagnosis(self, rule: Rule, check: Check | Measure, outcome: Outcome) -> tuple[str | None, Cause]:
        """Where two calls part, and why; a measure brings its cause along."""
        if isinstance(check, Measure):
            by_design = isinstance(self.subject, Subject) and mixes(self.subject)
            return self._measured_at(check), CAUSES["mixes-neighbours" if by_design else check.cause]
        assert isinstance(self.subject, Subject)
        assert self._facts is not None
        # Where float64 gives no number (a model that casts on its way), the experiments are made as it is.
        exact = (outcome.exact is not None and outcome.exact.is_finite) or not outcome.single.is_finite
        with self.subject.cast_to(torch.float64 if exact else None):
            module = first_module(check, self.subject)
            key = (rule.name, module, check.cause)  # under one law, one module fails for one cause
            if key not in self._causes:
                self._causes[key] = explain(check, rule.name, self._facts, module)
        return module, self._causes[key]

    def _measured_at(self, check: Measure) -> str | None:
        if not isinstance(self.subject, Subject):
            return None
        if len(check.trials) == 1:
            return first_nan(check.trials[0], self.subject)
        if len(check.trials) == 2:
            pairs = [(i, i) for i in range(len(check.trials[0].sequences))]
            return first_module(Check(check.name, *check.trials, pairs), self.subject)
        return None

    def _reach(self, cause: Cause) -> int | None:
        if cause.name not in ("mixes-neighbours", "border") or not isinstance(self.subject, Subject):
            return None
        try:
            return reach_of(self.subject)
        except Exception:  # a model may have no float64
            return None

    def _script(self, check: Check | Measure) -> str:
        try:
            if isinstance(check, Check) and isinstance(self.subject, Subject):
                return script_of(check, self.subject)
            if isinstance(check, Measure) and isinstance(self.subject, Function):
                return function_script(check, self.subject)
        except Exception:  # a configuration that cannot be written down
            pass
        return ""


def told(error: Exception) -> str:
    """An error's type and message in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:LONGEST_MESSAGE]}"


def _raised(rule: Rule, name: str, error: Exception, script: str = "") -> Finding:
    if isinstance(error, InapplicableError):
        return Finding(rule.name, name, "not applicable", reason=str(error))
    if rule.may_refuse or "no padding token is defined" in str(error):  # heads of transformers without a pad id
        return Finding(rule.name, name, "not applicable", reason=f"it refuses: {told(error)}")
    cause, reason = CAUSES["raises"], told(error)
    return Finding(rule.name, name, "error", "high", cause=cause.name, reason=reason, fix=cause.fix, script=script)
