"""The parity suite can fail: each fault planted in packing is caught by it."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from maskwright.attention import buckets
from maskwright.core.layout import Layout
from maskwright.encoders import families, inputs, outputs, pack
from parity import test_families as suite
from parity import test_heads as heads


def caught(check, *args):
    """Whether a parity test fails by its assertion."""
    try:
        check(*args)
    except AssertionError:
        return True
    return False


def states(model_type):
    return caught(suite.test_states_equal_stock, model_type, torch.float32)


def test_nothing_planted_nothing_caught():
    assert not states("bert")
    assert not states("roberta")
    assert not states("modernbert")


@pytest.mark.parametrize("model_type", ["bert", "nomic_bert", "roformer"])
def test_positions_renumbered(monkeypatch, model_type):
    """Kept tokens numbered 0, 1, 2, … as if the holes had never been."""

    def renumbered(layout):
        return torch.cat([torch.arange(n) for n in layout.row_lengths])

    def default(base, family, given, layout):
        return layout.unpack(renumbered(layout))

    monkeypatch.setattr(Layout, "positions", property(renumbered))
    monkeypatch.setattr(inputs, "default_positions", default)
    assert states(model_type)


def test_windows_in_slots_instead_of_positions(monkeypatch):
    bias = buckets.Bucket.bias

    def by_slot(self, dtype, window=None):
        slots = torch.arange(self.length).expand(self.n, -1)
        return bias(dataclasses.replace(self, positions=slots, _biases={}), dtype, window)

    monkeypatch.setattr(buckets.Bucket, "bias", by_slot)
    assert states("modernbert")


def test_neighbours_leak(monkeypatch):
    """Padding inside a bucket (which repeats one of the row's tokens) not masked."""
    monkeypatch.setattr(buckets.Bucket, "bias", lambda self, dtype, window=None: None)
    assert states("bert")


def test_rows_of_a_bucket_in_the_wrong_order(monkeypatch):
    collect = buckets.Buckets.collect

    def swapped(self, spread):
        blocks = [bucket.block(spread).flip(0).flatten(0, 1) for bucket in self.items]
        return collect(self, torch.cat(blocks))

    monkeypatch.setattr(buckets.Buckets, "collect", swapped)
    assert states("bert")


def test_roberta_counts_from_zero(monkeypatch):
    table = families.FAMILIES | {"roberta": dataclasses.replace(families.FAMILIES["roberta"], positions="slots")}
    monkeypatch.setattr(pack, "FAMILIES", table)
    assert states("roberta")


def test_relative_distances_from_compacted_rows(monkeypatch):
    monkeypatch.setattr(buckets.Plan, "spans", property(lambda self: self.buckets))
    for model_type in ("t5", "mpnet", "deberta-v2"):
        assert states(model_type)


def test_backward_without_the_padding_cut(monkeypatch):
    """Gradients of padding inside a bucket added to real tokens."""
    monkeypatch.setattr(buckets.Buckets, "spread_gradient", buckets.Buckets.spread)
    assert caught(suite.test_gradients_equal_stock, "bert")


def test_pooler_reads_the_first_row_only(monkeypatch):
    monkeypatch.setattr(outputs, "segment_first", lambda packed, layout: packed[:1].expand(layout.n_rows, -1))
    assert states("bert")


def test_head_gets_unmasked_answers(monkeypatch):
    monkeypatch.setattr(pack, "mask_answers", lambda given, output: output)
    assert caught(heads.test_question_answering_is_that_of_the_unpadded_texts, "bert")
