"""What an audit says: one finding a check, and all of them together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Verdict = Literal["pass", "fail", "noise", "architectural", "not applicable", "error"]
Severity = Literal["none", "low", "medium", "high"]
FARTHEST = 31  # tokens from the border that a reach is followed; it may be more


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
        module: the module whose outputs differ though its inputs agree, by its dotted name; "" = the model itself.
        cause: key in the catalogue of causes; `reason` says it in a sentence.
        fix: what to do, in a sentence.
        reach: how many tokens from its border padding changes in the first module that mixes neighbouring tokens; at
            most `FARTHEST`.
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
    reach: int | None = None

    @property
    def why(self) -> str:
        """The reason, with the reach where there is one.

        Example:
            >>> Finding("padding-content", "another id", "fail", reason="a convolution reads padding", reach=2).why
            'a convolution reads padding; it reaches 2 tokens from the border'
        """
        if self.reach is None:
            return self.reason
        more = " or more" if self.reach >= FARTHEST else ""
        return f"{self.reason}; it reaches {self.reach}{more} token{'' if self.reach == 1 else 's'} from the border"

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
