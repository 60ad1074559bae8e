"""Laws of the batches that `bench` times: both orders hold the same texts, and grouping never adds padding."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from maskwright.training.workload import count_slots, draw_workload, fit_workload

LENGTHS = st.lists(st.integers(2, 512), min_size=1, max_size=97)


@given(lengths=LENGTHS, batch_size=st.integers(1, 64), max_slots=st.floats(1, 1e6), seed=st.integers(0, 99))
def test_both_orders_hold_the_same_texts_once(lengths: list[int], batch_size: int, max_slots: float, seed: int) -> None:
    size, n_batches = fit_workload(lengths, batch_size, max_slots)
    assert 1 <= size <= batch_size
    assert 1 <= n_batches <= 16
    work = draw_workload(lengths, size, n_batches, seed)
    grouped = [row for batch in work.grouped for row in batch]
    assert sorted(work.rows) == sorted(set(grouped))
    assert [len(batch) for batch in work.random] == [len(batch) for batch in work.grouped] == [size] * n_batches


@given(lengths=LENGTHS, seed=st.integers(0, 99))
def test_grouping_never_adds_padding(lengths: list[int], seed: int) -> None:
    size, n_batches = fit_workload(lengths, 5, 1e4)
    work = draw_workload(lengths, size, n_batches, seed)
    n_tokens = sum(lengths[row] for row in work.rows)
    assert n_tokens <= count_slots(work.grouped, lengths) <= count_slots(work.random, lengths)


@given(length=st.integers(2, 512), n=st.integers(1, 97))
def test_texts_of_one_length_need_no_padding(length: int, n: int) -> None:
    work = draw_workload([length] * n, *fit_workload([length] * n, 7, 1e4), seed=0)
    assert count_slots(work.random, [length] * n) == length * len(work.rows)


@given(lengths=st.lists(st.integers(2, 512), min_size=64, max_size=97), max_slots=st.floats(4096, 1e6))
def test_a_pass_stays_near_its_slots(lengths: list[int], max_slots: float) -> None:
    size, n_batches = fit_workload(lengths, 16, max_slots)
    work = draw_workload(lengths, size, n_batches, seed=0)
    # The estimate takes the 95th percentile for every batch's longest text; the true longest is at most 512.
    assert count_slots(work.random, lengths) <= max(max_slots * 512 / sorted(lengths)[int(0.9 * len(lengths))], 4 * 512)
