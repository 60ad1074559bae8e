"""The pytest plugin, run by pytest inside pytest: what fails, what is shown, and that it does nothing unasked."""

from __future__ import annotations

import subprocess
import sys

import pytest

from maskwright.audit.rules import RULES
from maskwright.audit.runner import run_audit
from maskwright.audit.tiny import tiny_model

pytest_plugins = ["pytester"]

BOUND = [name for name, rule in RULES.items() if rule.kind == "model" and rule.by_default]
USES = """
    from maskwright.audit.tiny import tiny_model

    def test_right(maskwright_audit):
        assert maskwright_audit(tiny_model("bert"), rules=["padding-amount"], name="mine").is_clean

    def test_wrong(maskwright_audit):
        maskwright_audit(tiny_model("mobilebert"), rules=["padding-content"], name="mine")

    def test_looks_only(maskwright_audit):
        found = maskwright_audit(tiny_model("mobilebert"), rules=["padding-content"], check=False)
        assert found.failures

    def test_allowed(maskwright_audit):
        why = {"padding-content": "rows have one length"}
        assert maskwright_audit(tiny_model("mobilebert"), rules=["padding-content"], allow=why).is_clean
"""


@pytest.fixture(scope="module", autouse=True)
def loaded():
    """pytester forgets modules that the inner run loads, and torch must not be loaded twice."""
    for kind in ("bert", "mobilebert"):
        run_audit(tiny_model(kind), rules=["padding-content"])


def test_the_fixture_fails_the_test_with_where_why_and_what_to_do(pytester):
    pytester.makepyfile(USES)
    result = pytester.runpytest("--maskwright-output=scripts")
    result.assert_outcomes(passed=3, failed=1)
    script = pytester.path / "scripts" / "test_the_fixture_fails_the_test_with_where_why_and_what_to_do.py--test_wrong"
    result.stdout.fnmatch_lines(
        [
            "mine breaks padding-content",
            "  check:  another id in padded slots",
            "  effect: *",
            "  module: embeddings",
            "  cause:  border: *",
            "  fix:    set masked slots to zero before it",
            f"  script: {script / 'padding-content.py'}",
        ],
        consecutive=False,
    )
    assert "import torch" in (script / "padding-content.py").read_text("utf-8")
    result.stdout.no_fnmatch_line("*Traceback*")


def test_an_audit_without_a_test_file(pytester):
    result = pytester.runpytest("--maskwright-arch=mobilebert", "-v", "-k", "padding or future")
    n = len([name for name in BOUND if "padding" in name or "future" in name])
    counts = result.parseoutcomes()
    assert counts["failed"] == 2
    assert counts["passed"] >= 3
    assert sum(counts.values()) - counts["deselected"] == n
    result.stdout.fnmatch_lines(
        ["mobilebert::padding-content FAILED*", "mobilebert::future SKIPPED (it is meant to be bidirectional)*"]
    )


def test_beside_tests_that_are_named(pytester):
    pytester.makepyfile(test_other="def test_other(): pass")
    result = pytester.runpytest("--maskwright-arch=bert", "test_other.py", "-k", "test_other or repeatable")
    assert result.parseoutcomes()["passed"] == 2


def test_every_rule_for_models_is_a_test_of_its_own_and_there_is_no_other(pytester):
    pytester.makepyfile(test_other="def test_other(): pass")
    result = pytester.runpytest("--maskwright-arch=bert", "--maskwright-arch=mobilebert", "--collect-only", "-q")
    names = [line for line in result.outlines if "::" in line]
    assert names == [f"{kind}::{rule}" for kind in ("bert", "mobilebert") for rule in BOUND]


def test_a_model_from_a_folder(pytester):
    folder = pytester.mkdir("model")
    tiny_model("bert").save_pretrained(folder)
    result = pytester.runpytest(f"--maskwright-model={folder}", "-k", "padding-content or repeatable")
    assert result.parseoutcomes()["passed"] == 2


def test_what_a_file_allows_is_shown_with_its_reason(pytester):
    pytester.path.joinpath("allow.yaml").write_text("padding-content: rows have one length\n", "utf-8")
    words = ["--maskwright-arch=mobilebert", "--maskwright-allow=allow.yaml", "-k", "padding-content", "-rx"]
    result = pytester.runpytest(*words)
    assert result.parseoutcomes()["xfailed"] == 1
    result.stdout.fnmatch_lines(["XFAIL mobilebert::padding-content*rows have one length"])
    pytester.makepyfile(USES)
    result = pytester.runpytest("--maskwright-allow=allow.yaml", "-k", "test_wrong")
    assert result.parseoutcomes()["passed"] == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--maskwright-arch=nothing"], "*knows no model type 'nothing'*"),
        (["--maskwright-model=./nowhere"], "*no such folder*"),
        (["--maskwright-arch=bert", "--maskwright-allow=nowhere.yaml"], "*nowhere.yaml*cannot be read*"),
        (["--maskwright-arch=bert", "--maskwright-allow=wrong.yaml"], "*no rule is called 'padding'*"),
    ],
)
def test_bad_use_is_one_line(pytester, words, message):
    pytester.path.joinpath("wrong.yaml").write_text("padding: why not\n", "utf-8")
    result = pytester.runpytest(*words)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])
    assert "Traceback" not in result.stderr.str() + result.stdout.str()


def test_it_does_nothing_unasked(pytester):
    pytester.makepyfile("def test_plain():\n    import sys\n    assert 'torch' not in sys.modules")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    done = subprocess.run(words, cwd=pytester.path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
