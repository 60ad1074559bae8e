"""Laws of the batches that `bench` times: both orders hold the same texts, and grouping never adds padding."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from maskwright.training.bench.workload import StepCost, count_slots, draw_workload, fit_workload

COST = StepCost(fixed_s=0.1, slot_s=0.001)
LENGTHS = st.lists(st.integers(2, 512), min_size=1, max_size=97)


@given(lengths=LENGTHS, batch_size=st.integers(1, 64), pass_s=st.floats(0.01, 1e3), seed=st.integers(0, 99))
def test_both_orders_hold_the_same_texts_once(lengths: list[int], batch_size: int, pass_s: float, seed: int) -> None:
    size, n_batches = fit_workload(lengths, batch_size, COST, pass_s)
    assert 1 <= size <= batch_size
    assert 1 <= n_batches <= 16
    work = draw_workload(lengths, size, n_batches, seed)
    grouped = [row for batch in work.grouped for row in batch]
    assert sorted(work.rows) == sorted(set(grouped))
    assert [len(batch) for batch in work.random] == [len(batch) for batch in work.grouped] == [size] * n_batches


@given(lengths=LENGTHS, seed=st.integers(0, 99))
def test_grouping_never_adds_padding(lengths: list[int], seed: int) -> None:
    size, n_batches = fit_workload(lengths, 5, COST, pass_s=10)
    work = draw_workload(lengths, size, n_batches, seed)
    n_tokens = sum(lengths[row] for row in work.rows)
    assert n_tokens <= count_slots(work.grouped, lengths) <= count_slots(work.random, lengths)


@given(length=st.integers(2, 512), n=st.integers(1, 97))
def test_texts_of_one_length_need_no_padding(length: int, n: int) -> None:
    work = draw_workload([length] * n, *fit_workload([length] * n, 7, COST, pass_s=10), seed=0)
    assert count_slots(work.random, [length] * n) == length * len(work.rows)


@given(length=st.integers(2, 512), pass_s=st.floats(0.5, 1e3))
def test_a_pass_takes_the_time_it_is_given(length: int, pass_s: float) -> None:
    size, n_batches = fit_workload([length] * 97, 16, COST, pass_s)
    took = n_batches * COST.step_s(size * length)
    assert took <= pass_s or (size, n_batches) == (2, 2)
    full = min(16, 97 // size)
    assert n_batches == full or (n_batches + 1) * COST.step_s(size * length) > pass_s
