"""What an audit says: one finding a check, and all of them together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Verdict = Literal["pass", "fail", "noise", "architectural", "not applicable", "error"]
Severity = Literal["none", "low", "medium", "high"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check came to.

    Attributes:
        rule: id in the catalogue (`maskwright.audit.rules.RULES`).
        check: what was compared with what, in words.
        verdict: "noise" is a difference that float64 makes vanish; "architectural" one that the model's design makes
            (it mixes neighbouring tokens); "error" a call that raised.
        severity: by the size of the effect on real tokens.
        effect: largest difference on real tokens over the root mean square of the outputs, in float32; None where
            there is nothing to compare. `effect_float64`: the same in float64.
        module: the first module whose outputs differ, by its dotted name.
        cause: key in the catalogue of causes; `reason` says it in a sentence.
        fix: what to do, in a sentence.
        script: Python that shows it in plain torch and transformers.
    """

    rule: str
    check: str
    verdict: Verdict
    severity: Severity = "none"
    effect: float | None = None
    effect_float64: float | None = None
    module: str | None = None
    cause: str | None = None
    reason: str = ""
    fix: str = ""
    script: str = ""
    allowed: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Findings(Sequence[Finding]):
    """All findings about one subject.

    Example:
        >>> found = Findings("my/model", [Finding("padding-amount", "5 pads against none", "fail", "high")])
        >>> found.is_clean, len(found.failures)
        (False, 1)
    """

    subject: str
    items: list[Finding] = field(default_factory=list)
    seconds: float = 0.0

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: Any) -> Any:
        return self.items[index]

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.items)

    @property
    def failures(self) -> list[Finding]:
        """Those that nobody has allowed."""
        return [finding for finding in self if finding.verdict in ("fail", "error") and finding.allowed is None]

    @property
    def is_clean(self) -> bool:
        """Whether nothing failed."""
        return not self.failures

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "subject": self.subject,
            "is_clean": self.is_clean,
            "seconds": self.seconds,
            "findings": [finding.to_dict() for finding in self],
        }
