"""Scripts of the audit of functions: they run, and show a fault that its right twin does not have."""

from __future__ import annotations

import json

import pytest
import torch
from planted_functions import LOSSES, MASKS, POOLING, named

from maskwright.audit.runner import run_audit
from maskwright.cli.main import main

FUNCTIONS = [
    (kind, rule, fault, twin)
    for kind, cases in (("pooling", POOLING), ("loss", LOSSES), ("mask", MASKS))
    for rule, (fault, twin, _) in cases.items()
]


def printed_by(script, call):
    """What a script prints of another function."""
    printed = []
    exec(script.replace("call = ...  # your function", ""), {"call": call, "print": printed.append})
    return printed


@pytest.mark.parametrize(("kind", "rule", "fault", "twin"), FUNCTIONS, ids=named)
def test_every_failure_has_a_script_that_tells_the_fault_from_its_twin(kind, rule, fault, twin):
    for finding in run_audit(fault, kind=kind, rules=[rule]).failures:
        assert f"# {finding.check}\n" in finding.script
        ours, twins = printed_by(finding.script, fault), printed_by(finding.script, twin)
        assert len(ours) == len(twins) > 0
        assert len(finding.script) < 4000
        pairs = list(zip(ours, twins, strict=True))
        assert any(one.dtype != other.dtype or not torch.equal(one, other) for one, other in pairs)


AGREE = ["pooling-amount", "pooling-side", "pooling-holes", "pooling-content", "pooling-negative", "pooling-nan"]
AGREE += ["loss-ignored", "loss-nan", "loss-padding", "loss-order"]


@pytest.mark.parametrize("rule", AGREE)
def test_a_script_shows_two_results_that_should_agree(rule):
    kind = rule.split("-")[0]
    fault, twin, _ = (POOLING if kind == "pooling" else LOSSES)[rule]
    finding = run_audit(fault, kind=kind, rules=[rule]).failures[0]
    for call, agrees in ((fault, False), (twin, True)):
        first, *others = printed_by(finding.script, call)
        other = others[0] if first.shape == others[0].shape else torch.cat(others)
        assert torch.allclose(first, other, atol=1e-6) == agrees


@pytest.mark.parametrize(("name", "made"), [("plain", "from mine_too import plain"), ("Mean", "made = Mean()")])
def test_the_script_of_a_function_in_a_file_imports_it(tmp_path, monkeypatch, capsys, name, made):
    lines = ["class Mean:", "    def __call__(self, h, m):", "        return h.mean(1)", ""]
    lines += ["def plain(h, m):", "    return h.mean(1)"]
    (tmp_path / "mine_too.py").write_text("\n".join(lines), "utf-8")
    given = ["audit", "--python", f"{tmp_path}/mine_too.py:{name}", "--kind", "pooling", "--rules", "pooling-content"]
    assert main([*given, "--output", str(tmp_path)]) == 1
    assert "script in plain torch" in capsys.readouterr().out
    (found,) = json.loads((tmp_path / "audit.json").read_text("utf-8"))
    script = found["findings"][0]["script"]
    assert made in script
    monkeypatch.syspath_prepend(tmp_path)
    printed = []
    exec(script, {"print": printed.append})
    assert not torch.allclose(*printed)
