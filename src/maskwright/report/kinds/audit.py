"""Audits: which checks of which models fail, why, and what to do."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from maskwright.report.blocks import Block, Card, Part, Section, Table
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
    "cause": "cause",
    "reach": "reach (tokens)",
    "reason": "reason",
    "allowed": "allowed because",
}
_FACTS = {
    "check": "check",
    "effect": "effect",
    "module": "module",
    "cause": "cause",
    "reason": "why",
    "reach": "reach (tokens)",
    "fix": "what to do",
}


def section(sources: Sequence[Source]) -> Section:
    """All audits of the page."""
    words, notes, parts = [], [], []
    for source in sources:
        reader = Reader(source)
        subjects = reader.objects("audit.json")
        named = f"{source.name}: " if len(sources) > 1 else ""
        words += [named + _words(subject) for subject in subjects]
        failed = _table("Failed checks", subjects, _is_failure)
        every = _table("All checks", subjects, lambda finding: True)
        parts += [
            Part(f"{named}Verdicts", _filled(_verdicts(subjects))),
            Part(f"{named}What failed, and why", _cards(subjects)),
            Part(f"{named}Properties of the design", _filled(_properties(subjects))),
            Part(f"{named}Checks", _filled(failed, every)),
        ]
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


def _filled(*tables: Table) -> list[Block]:
    return [table for table in tables if table.rows]


def _table(title: str, subjects: Sequence[Mapping[str, Any]], wanted: Callable[[Mapping[str, Any]], bool]) -> Table:
    found = [
        (show(subject.get("subject")), finding)
        for subject in subjects
        for finding in rows_of(subject.get("findings"))
        if wanted(finding)
    ]
    used = [key for key in _COLUMNS if any(finding.get(key) not in (None, "") for _, finding in found)]
    rows = [[name, *(_cell(finding.get(key)) for key in used)] for name, finding in found]
    return Table(title, ["model", *(_COLUMNS[key] for key in used)], rows, folded=True)


def _properties(subjects: Sequence[Mapping[str, Any]]) -> Table:
    """What is so by design, a row for each model and cause: the first module, and how far it reaches at most."""
    rows: list[list[Any]] = []
    for subject in subjects:
        by_cause: dict[str, list[Mapping[str, Any]]] = {}
        for finding in rows_of(subject.get("findings")):
            if finding.get("verdict") == "architectural":
                by_cause.setdefault(show(finding.get("reason")), []).append(finding)
        for reason, found in by_cause.items():
            rules = ", ".join(dict.fromkeys(show(finding.get("rule")) for finding in found))
            module = next((show(finding.get("module")) for finding in found if finding.get("module")), "")
            reach = max((known for finding in found if (known := number(finding.get("reach"))) is not None), default="")
            rows.append([show(subject.get("subject")), reason, module, reach, rules])
    columns = ["model", "what is so by design", "first seen in", "reach (tokens)", "rules that show it"]
    used = [i for i in range(len(columns)) if any(row[i] != "" for row in rows)]
    return Table("Properties of the design", [columns[i] for i in used], [[row[i] for i in used] for row in rows])


def _cards(subjects: Sequence[Mapping[str, Any]]) -> list[Block]:
    """A card for each model and rule that it breaks, about the check with the largest effect."""
    cards: list[Block] = []
    for subject in subjects:
        by_rule: dict[str, list[Mapping[str, Any]]] = {}
        for finding in filter(_is_failure, rows_of(subject.get("findings"))):
            by_rule.setdefault(show(finding.get("rule")), []).append(finding)
        for rule, findings in by_rule.items():
            worst = max(findings, key=_size)
            facts = [(name, show(worst.get(key))) for key, name in _FACTS.items()]
            others = len(findings) - 1
            facts += [("also", f"{count(others, 'other check')} of this rule failed")] if others else []
            title = f"{show(subject.get('subject')) or 'a model'}: {rule}"
            shown = [(name, value) for name, value in facts if value]
            cards.append(Card(title, shown, show(worst.get("script")).rstrip(), "Script that shows it"))
    return cards


def _size(finding: Mapping[str, Any]) -> float:
    """By its effect; one that is not a finite number is the largest."""
    effect = finding.get("effect")
    finite = number(effect)
    return (math.inf if isinstance(effect, float) else 0.0) if finite is None else finite


def _cell(value: Any) -> Any:
    return value if number(value) is not None else show(value)


AUDIT = Kind("audit", "audit.json", lambda folder: (folder / "audit.json").is_file(), section)
