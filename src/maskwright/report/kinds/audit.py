"""Audits: which checks of which models fail, why, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from maskwright.report.blocks import Part, Section, Table
from maskwright.report.kinds.base import Kind
from maskwright.report.records import Reader, Source, rows_of
from maskwright.report.values import count, number, show

_FAILED = ("fail", "error")
_COLUMNS = {
    "rule": "rule",
    "check": "check",
    "verdict": "verdict",
    "severity": "severity",
    "effect": "effect",
    "module": "module",
    "reason": "reason",
    "fix": "what to do",
    "allowed": "allowed because",
}


def section(sources: Sequence[Source]) -> Section:
    """All audits of the page."""
    words, notes, parts = [], [], []
    for source in sources:
        reader = Reader(source)
        subjects = reader.objects("audit.json")
        named = f"{source.name}: " if len(sources) > 1 else ""
        words += [named + _words(subject) for subject in subjects]
        failed = _table("Failed checks", subjects, only_failures=True)
        every = _table("All checks", subjects, only_failures=False)
        parts.append(Part(f"{named}Checks", [table for table in (_verdicts(subjects), failed, every) if table.rows]))
        notes += reader.notes
    return Section("Audit", words, notes, parts)


def _words(subject: Mapping[str, Any]) -> str:
    findings = rows_of(subject.get("findings"))
    failed = list(dict.fromkeys(show(finding.get("rule")) for finding in findings if _is_failure(finding)))
    checked = f"{show(subject.get('subject')) or 'a model'}: {count(len(findings), 'check')}, "
    return checked + (f"failed are {', '.join(failed)}." if failed else "none failed.")


def _is_failure(finding: Mapping[str, Any]) -> bool:
    return finding.get("verdict") in _FAILED and finding.get("allowed") is None


def _verdicts(subjects: Sequence[Mapping[str, Any]]) -> Table:
    """The worst verdict of each rule by subject: a failure, else what came first."""
    names = [show(subject.get("subject")) for subject in subjects]
    found: dict[str, dict[int, str]] = {}
    for i, subject in enumerate(subjects):
        for finding in sorted(rows_of(subject.get("findings")), key=_is_failure, reverse=True):
            verdict = "allowed" if finding.get("allowed") is not None else show(finding.get("verdict"))
            found.setdefault(show(finding.get("rule")), {}).setdefault(i, verdict)
    rows = [[rule, *(by_subject.get(i) for i in range(len(names)))] for rule, by_subject in found.items()]
    return Table("Verdicts by rule", ["rule", *names], rows)


def _table(title: str, subjects: Sequence[Mapping[str, Any]], *, only_failures: bool) -> Table:
    findings = [
        (show(subject.get("subject")), finding)
        for subject in subjects
        for finding in rows_of(subject.get("findings"))
        if _is_failure(finding) or not only_failures
    ]
    used = [key for key in _COLUMNS if any(finding.get(key) not in (None, "") for _, finding in findings)]
    rows = [[name, *(_cell(finding.get(key)) for key in used)] for name, finding in findings]
    return Table(title, ["model", *(_COLUMNS[key] for key in used)], rows, folded=not only_failures)


def _cell(value: Any) -> Any:
    return value if number(value) is not None else show(value)


AUDIT = Kind("audit", "audit.json", lambda folder: (folder / "audit.json").is_file(), section)
