"""Laws of token-budget batches, over random lengths, budgets and ranks."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from maskwright.data.budget import TokenBudgetBatches, padding_stats

lengths_of_rows = st.lists(st.integers(1, 40), min_size=1, max_size=120)
budgets = st.integers(1, 200)


def all_ranks(lengths: list[int], budget: int, world_size: int, epoch: int, **options: object) -> list[list[list[int]]]:
    share = {"world_size": world_size, **options}
    samplers = [TokenBudgetBatches(lengths, budget, rank=rank, **share) for rank in range(world_size)]
    for sampler in samplers:
        sampler.set_epoch(epoch)
    batches = [list(sampler) for sampler in samplers]
    assert [len(sampler) for sampler in samplers] == [len(found) for found in batches]
    return batches


@given(lengths_of_rows, budgets, st.integers(1, 5), st.integers(0, 9), st.booleans(), st.none() | st.integers(1, 7))
def test_ranks_share_every_row_once_in_equally_many_batches(lengths, budget, world_size, epoch, shuffle, max_rows):
    ranks = all_ranks(lengths, budget, world_size, epoch, shuffle=shuffle, max_rows=max_rows)
    batches = [batch for rank in ranks for batch in rank]
    assert len({len(rank) for rank in ranks}) == 1
    seen = Counter(index for batch in batches for index in batch)
    assert set(seen) == set(range(len(lengths)))
    if len(batches) <= len(lengths):
        assert set(seen.values()) == {1}
    else:
        assert {len(batch) for batch in batches} == {1}
        assert len(batches) - len(lengths) < world_size


@given(lengths_of_rows, budgets, st.integers(1, 3), st.booleans(), st.none() | st.integers(1, 7))
def test_only_a_single_row_may_exceed_the_budget(lengths, budget, world_size, shuffle, max_rows):
    for rank in all_ranks(lengths, budget, world_size, 0, shuffle=shuffle, max_rows=max_rows):
        for batch in rank:
            assert len(batch) == 1 or sum(lengths[i] for i in batch) <= budget
            assert len(batch) <= (max_rows or len(lengths))
            assert [lengths[i] for i in batch] == sorted((lengths[i] for i in batch), reverse=True)


@given(lengths_of_rows, budgets, st.integers(0, 2**31), st.integers(0, 9))
def test_batches_follow_from_seed_and_epoch(lengths, budget, seed, epoch):
    first, second = (TokenBudgetBatches(lengths, budget, seed=seed) for _ in range(2))
    list(second)  # an epoch already run leaves no trace
    first.set_epoch(epoch)
    second.set_epoch(epoch)
    assert list(first) == list(second)


@given(lengths_of_rows, budgets, st.integers(1, 3))
def test_every_epoch_has_as_many_batches(lengths, budget, world_size):
    sampler = TokenBudgetBatches(lengths, budget, world_size=world_size)
    for epoch in range(12):
        sampler.set_epoch(epoch)
        assert len(list(sampler)) == len(sampler)


@given(st.integers(30, 60), st.integers(0, 2**31))
def test_epochs_and_seeds_differ_in_membership(n_rows, seed):
    sampler = TokenBudgetBatches([1] * n_rows, 5, seed=seed)
    other = TokenBudgetBatches([1] * n_rows, 5, seed=seed + 1)
    first = {frozenset(batch) for batch in sampler}
    sampler.set_epoch(1)
    assert first != {frozenset(batch) for batch in sampler}
    assert first != {frozenset(batch) for batch in other}


@given(lengths_of_rows, st.integers(20, 200))
def test_greedy_batches_leave_no_room_for_their_successor(lengths, budget):
    batches = list(TokenBudgetBatches(lengths, budget, shuffle=False))
    tokens = [sum(lengths[i] for i in batch) for batch in batches]
    for batch, following in zip(tokens, batches[1:], strict=False):
        assert batch + lengths[following[0]] > budget


@given(lengths_of_rows, budgets, st.integers(1, 4), st.integers(0, 5))
def test_drop_last_never_repeats_and_leaves_out_less_than_one_batch_a_rank(lengths, budget, world_size, epoch):
    whole = len(TokenBudgetBatches(lengths, budget))
    assume(whole >= world_size)
    ranks = all_ranks(lengths, budget, world_size, epoch, drop_last=True)
    assert sum(map(len, ranks)) == whole - whole % world_size
    seen = Counter(index for rank in ranks for batch in rank for index in batch)
    assert set(seen.values()) == {1}


@given(lengths_of_rows, st.integers(1, 20), st.integers(0, 5))
def test_padding_counts_every_slot(lengths, batch_size, seed):
    stats = padding_stats(lengths, batch_size, seed)
    assert stats["real_tokens"] == sum(lengths)
    assert stats["n_rows"] == len(lengths)
    for order in ("random", "grouped"):
        assert sum(lengths) <= stats[f"{order}_slots"] <= max(lengths) * len(lengths)
        assert stats[f"{order}_ratio"] == pytest.approx(stats[f"{order}_slots"] / sum(lengths))
