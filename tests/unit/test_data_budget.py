"""Token budgets as a data loader uses them, and padding on lengths worked out by hand."""

from __future__ import annotations

import pytest
from datasets import Dataset
from torch.utils.data import DataLoader

from maskwright.data.budget import TokenBudgetBatches, padding_stats


def test_a_data_loader_takes_it_as_batch_sampler():
    lengths = [3, 1, 4, 1, 5, 9, 2, 6]
    batches = TokenBudgetBatches(lengths, 10)
    loader = DataLoader(range(8), batch_sampler=batches, collate_fn=list)
    assert len(loader) == len(batches)
    assert list(loader) == list(batches)


def test_lengths_may_be_a_dataset_column():
    dataset = Dataset.from_dict({"length": [3, 1, 4]})
    assert list(TokenBudgetBatches(dataset["length"], 5, shuffle=False)) == [[2], [0, 1]]


def test_evaluation_goes_from_long_to_short():
    assert list(TokenBudgetBatches([2, 9, 4, 3, 1], 7, shuffle=False)) == [[1], [2, 3], [0, 4]]


def test_the_largest_batches_are_halved_for_the_ranks():
    ranks = [list(TokenBudgetBatches([2, 9, 4, 3, 1], 7, shuffle=False, rank=r, world_size=2)) for r in range(2)]
    assert ranks == [[[1], [3]], [[2], [0, 4]]]


def test_rows_come_again_only_where_every_batch_is_one_row():
    ranks = [list(TokenBudgetBatches([5, 4, 3], 5, shuffle=False, rank=r, world_size=2)) for r in range(2)]
    assert ranks == [[[0], [2]], [[1], [0]]]
    ranks = [list(TokenBudgetBatches([5], 5, shuffle=False, rank=r, world_size=3)) for r in range(3)]
    assert ranks == [[[0]]] * 3


def test_padding_worked_out_by_hand():
    lengths = [1, 9] * 200
    stats = padding_stats(lengths, batch_size=1)
    assert (stats["random_ratio"], stats["grouped_ratio"]) == (1.0, 1.0)
    stats = padding_stats(lengths, batch_size=400)
    assert stats == {
        "n_rows": 400,
        "real_tokens": 2000,
        "random_slots": 3600,
        "random_ratio": 1.8,
        "grouped_slots": 3600,
        "grouped_ratio": 1.8,
    }
    stats = padding_stats(lengths, batch_size=4)
    assert stats["random_ratio"] > 1.5
    assert stats["grouped_ratio"] == pytest.approx(1.0, abs=0.1)


def test_a_permutation_that_needs_more_batches_is_drawn_again():
    """Over many epochs of very uneven lengths some first draw needs more batches than the trial epochs did."""
    lengths = [1 + 37 * (i % 3 == 0) + i % 23 for i in range(300)]
    batches = TokenBudgetBatches(lengths, 97)
    for epoch in range(60):
        batches.set_epoch(epoch)
        drawn = list(batches)
        assert len(drawn) == len(batches)
        assert sorted(index for batch in drawn for index in batch) == list(range(300))
