"""What a finding shows: how far a fault reaches, and a script that repeats it."""

from __future__ import annotations

import pytest
import torch
from planted_models import model_of
from torch import nn

from maskwright.audit.finding import FARTHEST, Finding, Findings
from maskwright.audit.formats import to_markdown
from maskwright.audit.reach import reach_of
from maskwright.audit.runner import run_audit
from maskwright.audit.subject import Subject


class Shifted(nn.Module):
    """Adds the embedding of the slot so many places further on, padded or not."""

    def __init__(self, n):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.mix, self.n = nn.Embedding(61, 28), nn.Identity(), n

    def forward(self, input_ids, attention_mask=None):
        states = self.embed(input_ids)
        return self.mix(states + states.roll(-self.n, 1)) if self.n else states


@pytest.mark.parametrize(("n", "reach"), [(0, None), (1, 1), (5, 5)])
def test_reach_is_counted_in_tokens(n, reach):
    assert reach_of(Subject(Shifted(n), vocab_size=61, pad_id=0)) == reach


def test_reach_is_shown():
    found = run_audit(model_of("mobilebert"), rules=["padding-content"])
    assert {failure.reach for failure in found.failures} == {1}
    assert "it reaches 1 token from the border" in to_markdown(found)
    far = Finding("padding-content", "x", "architectural", reason="all of it", reach=FARTHEST)
    assert "it reaches 31 or more tokens from the border" in to_markdown(Findings("fnet", [far]))
    assert {finding.reach for finding in run_audit(model_of("bert"), rules=["padding-content"])} == {None}


def runs(script, capsys):
    """The largest difference that a script prints."""
    capsys.readouterr()
    exec(compile(script, "script", "exec"), {})
    return max(float(line) for line in capsys.readouterr().out.split())


@pytest.mark.parametrize("kind", ["mobilebert", "mpnet", "bart"])
def test_every_script_shows_what_was_found(kind, capsys):
    found = [finding for finding in run_audit(model_of(kind)) if finding.script]
    assert len(found) > 1
    for finding in found:
        assert not runs(finding.script, capsys) < 1e-5, finding.check
