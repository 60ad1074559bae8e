"""The scoring of the audit's benchmark, on records whose scores are counted by hand."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from maskwright.audit.runner import run_audit
from maskwright.audit.tiny import tiny_model

BENCHMARKS = str(Path(__file__).resolve().parents[2] / "benchmarks")


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ModuleType, ModuleType]]:
    """The two modules; names as plain as `audit` do not stay behind for other tests."""
    before, known = list(sys.path), set(sys.modules)
    sys.path.insert(0, BENCHMARKS)
    import audit
    import audit_score

    yield audit, audit_score
    sys.path[:] = before
    for name in {"audit", "audit_score", "harness"} & (set(sys.modules) - known):
        del sys.modules[name]


def record(name, role, failed=(), *, tool="maskwright audit", **more):
    told = {"tool": tool, "name": name, "role": role, "half": "tune", "kind": "padding", "architecture": "bert"}
    right = {"found": bool(failed), "module": "m", "module_wanted": "m", "cause": "c", "cause_wanted": ["c"]}
    scored = dict.fromkeys(("module_right", "module_in_any", "cause_right", "cause_in_any"), True if failed else None)
    return told | right | scored | {"failed": list(failed), "seconds": 1.0} | more


def test_scores_are_counted_over_what_they_are_about(benchmarks):
    _, score = benchmarks
    records = [
        record("a", "fault", ["rule"]),
        record("a", "twin"),
        record("b", "fault", ["rule"], module_right=False, cause_right=False, seconds=4.0),
        record("b", "twin", ["rule"]),
        record("c", "fault", ["other"], found=False, module_right=None, cause_right=None),
        record("c", "twin"),
        record("d", "control"),
    ]
    told = score.scores(records)
    assert told["faults found (a rule that fits fails)"] == "2 of 3 (67%)"
    assert told["twins that fail"] == "1 of 3 (33%)"
    assert told["controls that fail"] == "0 of 1 (0%)"
    assert told["right module, of those found where one is asked for"] == "1 of 2 (50%)"
    assert told["right cause, of those found"] == "1 of 2 (50%)"
    assert told["seconds an audit, most"] == "4.0"
    page = score.summary(records)
    for line in ("`b` (bert, padding), a twin: fails rule", "`c` (bert, padding): missed; fails other"):
        assert line in page
    assert "`a`" not in page


def test_a_tool_that_always_raises_an_alarm_tells_nothing_apart(benchmarks):
    _, score = benchmarks
    loud = [record(name, role, ["x"], tool="loud") for name in "ab" for role in ("fault", "twin")]
    some = [record("a", "fault", ["x"], tool="some"), record("a", "twin", tool="some")]
    some += [record("b", role, tool="some", cannot="no way to call a loss") for role in ("fault", "twin")]
    rows = {line.split(" | ")[0]: line.split(" | ")[1:] for line in score.contest(loud + some).splitlines()}
    assert rows["| loud"][:5] == ["2 of 2 (100%)", "0 of 2 (0%)", "0", "0 of 2 (0%)", "2 of 2 (100%)"]
    assert rows["| some"][:5] == ["1 of 1 (100%)", "1 of 1 (100%)", "1", "1 of 2 (50%)", "0 of 1 (0%)"]


def test_an_audit_is_scored_by_the_rules_module_and_cause_that_the_case_names(benchmarks):
    audit, _ = benchmarks
    case = SimpleNamespace(
        name="live", half="tune", kind="content", architecture="mobilebert", twin=None, make=lambda: tiny_model("bert")
    )
    case.arguments = lambda: {"rules": ["padding-content"]}
    case.rules, case.module, case.cause = frozenset({"padding-content"}), r"embeddings(\..*)?", frozenset({"border"})
    quiet = audit.audited(case, "control")
    assert (quiet["failed"], quiet["found"], quiet["module_right"], quiet["cause_right"]) == ([], False, None, None)
    case.make = lambda: tiny_model("mobilebert")
    assert not run_audit(case.make(), rules=["padding-content"]).is_clean
    found = audit.audited(case, "fault")
    assert (found["failed"], found["found"], found["module_right"]) == (["padding-content"], True, True)
    case.module, case.rules = "encoder", frozenset({"padding-content"})
    assert audit.audited(case, "fault")["module_right"] is False
    case.rules = frozenset({"future"})
    missed = audit.audited(case, "fault")
    assert (missed["failed"], missed["found"], missed["module_right"]) == (["padding-content"], False, None)
    case.make = lambda: 1 / 0
    assert audit.audited(case, "control")["failed"] == ["crash"]
