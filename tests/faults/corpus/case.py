"""What a case of the corpus is, and which half of it a case belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Half = Literal["tune", "report"]


@dataclass(frozen=True)
class Case:
    """A subject for `run_audit`, and what the audit ought to say about it.

    Attributes:
        name: unique, in kebab-case.
        architecture: the transformers type, "own module", or the kind of function.
        kind: what goes wrong ("padding", "future", "collator", …); "control" where nothing does.
        report: the public report that it is written from, or the description.
        make: a fresh subject with the fault, seeded.
        twin: the same without the fault; None for controls.
        rules: any of these, failing, counts as having found it.
        module: regular expression for the whole dotted name of the module to blame; None = not asked.
        cause: the causes that are right.
        audit: keyword arguments for `run_audit`; "tokenizer" is a function that makes one.
        half: "tune" may be looked at while the audit is being written, "report" only counted.
    """

    name: str
    architecture: str
    kind: str
    report: str
    make: Callable[[], Any]
    twin: Callable[[], Any] | None = None
    rules: frozenset[str] = frozenset()
    module: str | None = None
    cause: frozenset[str] = frozenset()
    audit: Mapping[str, Any] = field(default_factory=dict)
    half: Half = "tune"

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments for `run_audit`, a fresh tokenizer among them where one is needed."""
        return {name: value() if name == "tokenizer" else value for name, value in self.audit.items()}


def fault(name: str, architecture: str, kind: str, report: str, build: Callable[[bool], Any], **more: Any) -> Case:
    """A case and its twin from one function: `build(True)` plants the fault, `build(False)` leaves it out.

    Args:
        more: `rules` and `cause` as space-separated names; `module`, `audit`.
    """
    return Case(
        name,
        architecture,
        kind,
        report,
        make=lambda: build(True),
        twin=lambda: build(False),
        rules=frozenset(more["rules"].split()),
        module=more.get("module"),
        cause=frozenset(more["cause"].split()),
        audit=more.get("audit", {}),
    )


def halved(cases: Iterable[Case]) -> tuple[Case, ...]:
    """The cases sorted by kind and name, with every second one of a kind in the other half.

    The first half alternates between kinds, so that kinds with an odd number of cases do not all favour one.
    """
    ordered = sorted(cases, key=lambda case: (case.kind, case.name))
    halves: tuple[Half, Half] = ("tune", "report")
    kinds = {kind: place for place, kind in enumerate(sorted({case.kind for case in ordered}))}
    seen: dict[str, int] = {}
    result = []
    for case in ordered:
        turn = seen.setdefault(case.kind, kinds[case.kind])
        seen[case.kind] += 1
        result.append(replace(case, half=halves[turn % 2]))
    return tuple(result)
