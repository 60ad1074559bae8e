"""Where tokens stand: rows with holes, and positions that count from elsewhere."""

from __future__ import annotations

import pytest
import torch
from planted_models import assert_fails, assert_passes, audited, change, model_of

from maskwright.audit.runner import run_audit
from maskwright.audit.trial import Trial, lay


def fill_holes(mask, module):
    """Forget masked keys that stand before a kept one, as code does that looks for padding at the end."""
    behind = mask.flip(-1).cumsum(-1).flip(-1) > 0
    return mask | behind if mask.dtype == torch.bool else torch.where(behind, 0.0, mask)


def test_holes_that_are_attended_to():
    model = model_of("bert")
    change(model.encoder.layer[1].attention.self, attention_mask=fill_holes)
    found = audited(model, "holes")
    assert not found.is_clean
    assert found.failures[0].module == "encoder.layer.1.attention.self"
    assert_passes(audited(model_of("bert"), "holes"))
    others = ["padding-amount", "padding-content"]
    assert_passes(run_audit(model, rules=others), others)


@pytest.mark.parametrize("kind", ["bert", "roberta", "modernbert", "gpt2", "llama"])
def test_holes_may_be_taken_out_where_positions_count_tokens(kind):
    assert_passes(audited(model_of(kind), "holes-removed"))


def test_distances_in_slots_are_a_design():
    found = audited(model_of("mpnet"), "holes-removed")
    assert {(finding.verdict, finding.cause) for finding in found} == {("architectural", "slots-counted")}
    (first, _) = found
    assert "slice" not in first.script.split("for one, other")[1].split("]:")[0].split("),")[1]


def test_the_slots_of_a_row_with_a_hole():
    rows = (torch.tensor([7, 8, 9, 10]), torch.tensor([11, 12]))
    laid = lay(Trial(rows, hole=(1, 3), side="left", n_pads=1), 0)
    assert laid.ids.tolist() == [[0, 7, 0, 0, 0, 8, 9, 10], [0, 0, 0, 11, 0, 0, 0, 12]]
    assert laid.position[laid.keep].tolist() == [0, 1, 2, 3, 0, 1]
    for sequence, row in enumerate(rows):
        assert torch.equal(laid.ids[sequence, laid.slots(sequence)], row)
    packed = lay(Trial(rows, order=((1, 0),), hole=(2, 1)), 0)
    assert packed.ids.tolist() == [[11, 12, 0, 7, 8, 0, 9, 10]]
    for sequence, row in enumerate(rows):
        assert torch.equal(packed.ids[0, packed.slots(sequence)], row)


def test_roberta_that_counts_from_0():
    model = model_of("roberta")
    forward = model.embeddings.forward

    def from_0(input_ids=None, position_ids=None, **kwargs):
        if position_ids is None:
            position_ids = torch.arange(input_ids.shape[1])[None]
        return forward(input_ids=input_ids, position_ids=position_ids, **kwargs)

    model.embeddings.forward = from_0
    found = audited(model, "position-offset")
    assert_fails(found, "position-offset", "embeddings")
    assert found.failures[0].severity == "high"
    assert "position_ids=torch.tensor([[2, 3, 4," in found.failures[0].script
    assert_passes(audited(model_of("roberta"), "position-offset"))
