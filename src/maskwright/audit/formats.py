"""Findings for people and for machines: Markdown as GitHub shows it, and SARIF."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from maskwright._version import __version__
from maskwright.audit.finding import Finding, Findings
from maskwright.audit.rules import RULES

_RANK = ("fail", "error", "architectural", "noise", "pass", "not applicable")
_MARK = {"fail": "❌", "error": "❌", "architectural": "◆", "noise": "≈", "pass": "✅", "not applicable": "–"}


def worst_by_rule(findings: Findings) -> dict[str, Finding]:
    """The finding that says most about each rule: the worst verdict, then the largest effect.

    Example:
        >>> items = [Finding("a", "x", "pass"), Finding("a", "y", "fail", "low", 1e-4)]
        >>> items.append(Finding("a", "z", "fail", "high", 2.0))
        >>> worst_by_rule(Findings("model", items))["a"].check
        'z'
    """
    worst: dict[str, Finding] = {}
    for finding in findings:
        known = worst.get(finding.rule)
        if known is None or _badness(finding) > _badness(known):
            worst[finding.rule] = finding
    return worst


def _badness(finding: Finding) -> tuple[int, float]:
    return (len(_RANK) - _RANK.index(finding.verdict), finding.effect or 0.0)


def to_markdown(findings: Findings) -> str:
    """A summary with a table of rules, and a section for every failed one."""
    n = len({finding.rule for finding in findings.failures})
    verdict = "clean" if findings.is_clean else f"{n} of {len(worst_by_rule(findings))} rules broken"
    lines = [f"## Mask audit of {findings.subject}: {verdict}", ""]
    lines += ["| | rule | effect | where | why |", "|---|---|---|---|---|"]
    for rule, finding in worst_by_rule(findings).items():
        mark = "allowed" if finding.allowed else _MARK[finding.verdict]
        why = finding.allowed or finding.why
        lines.append(f"| {mark} | {rule} | {_effect(finding)} | {_code(finding.module)} | {_cell(why)} |")
    for rule, finding in worst_by_rule(findings).items():
        if finding in findings.failures:
            lines += ["", f"### {rule}", "", RULES[rule].law if rule in RULES else ""]
            lines += ["", f"{finding.check}: {finding.why}."]
            lines += ["", f"Fix: {finding.fix}."] if finding.fix else []
            lines += ["", "```python", finding.script.rstrip(), "```"] if finding.script else []
    return "\n".join(lines) + "\n"


def to_sarif(all_findings: Iterable[Findings]) -> dict[str, Any]:
    """SARIF 2.1.0, as code-scanning services read it.

    Source: OASIS, Static Analysis Results Interchange Format 2.1.0.
    """
    results = [
        {
            "ruleId": finding.rule,
            "level": {"high": "error", "medium": "warning"}.get(finding.severity, "note"),
            "message": {"text": f"{finding.check}: {finding.why} Fix: {finding.fix}"},
            "locations": [
                {"logicalLocations": [{"fullyQualifiedName": ".".join(filter(None, (found.subject, finding.module)))}]}
            ],
        }
        for found in all_findings
        for finding in found.failures
    ]
    rules = [{"id": rule.name, "shortDescription": {"text": rule.law}} for rule in RULES.values()]
    driver = {"name": "maskwright", "version": __version__, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _effect(finding: Finding) -> str:
    return "" if finding.effect is None else f"{finding.effect:.1e}"


def _code(name: str | None) -> str:
    return f"`{name}`" if name else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
