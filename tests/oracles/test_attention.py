"""Every attention kernel against the float64 loop oracle, forward and backward, with windows and holes."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maskwright.attention import flash, register
from maskwright.attention.buckets import Plan, group_rows
from maskwright.attention.dropped import BucketedDropout
from maskwright.attention.reference import dense_reference
from maskwright.attention.sdpa import bucketed_sdpa
from maskwright.core.layout import Layout
from oracles.attention import attend as oracle

HEADS, WIDTH, SCALE = 3, 7, 0.37


def flash_kernel(q, k, v, plan, scale, window=None):
    return flash.BucketedFlash.apply(q, k, v, plan, scale, window)


def dropout_kernel(q, k, v, plan, scale, window=None):
    return BucketedDropout.apply(q, k, v, plan, scale, window, 0.0)


KERNELS = {"flash": flash_kernel, "dropout at 0": dropout_kernel, "sdpa": bucketed_sdpa, "dense": dense_reference}


def masks():
    """Keep masks of up to 5 rows of 17 with at least one token each: any side, any holes."""
    row = st.lists(st.booleans(), min_size=17, max_size=17).filter(any)
    return st.lists(row, min_size=1, max_size=5).map(torch.tensor)


def tensors(n, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, HEADS, WIDTH, generator=generator, dtype=dtype).requires_grad_() for _ in range(3)]


@pytest.mark.parametrize("window", [None, 2, 16])
@pytest.mark.parametrize("name", KERNELS)
@settings(max_examples=25)
@given(keep=masks())
def test_forward_equals_the_loops(name, window, keep):
    plan = Plan(Layout.from_mask(keep))
    q, k, v = tensors(plan.layout.n_tokens)
    ours = KERNELS[name](q, k, v, plan, SCALE, window).detach().numpy()
    arrays = [t.detach().numpy() for t in (q, k, v)]
    theirs = oracle(*arrays, plan.layout.row_lengths, plan.layout.positions.numpy(), SCALE, window)
    np.testing.assert_allclose(ours, theirs, atol=1e-12)


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("name", ["flash", "dropout at 0", "sdpa"])
@settings(max_examples=15)
@given(keep=masks())
def test_gradients_equal_the_dense_reference(name, window, keep):
    plan = Plan(Layout.from_mask(keep))
    inputs = tensors(plan.layout.n_tokens)
    upstream = torch.randn(plan.layout.n_tokens, HEADS, WIDTH, dtype=torch.float64)
    ours = torch.autograd.grad(KERNELS[name](*inputs, plan, SCALE, window), inputs, upstream)
    theirs = torch.autograd.grad(dense_reference(*inputs, plan, SCALE, window), inputs, upstream)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=1e-11, rtol=0)


@pytest.mark.parametrize("name", ["flash", "dropout at 0", "sdpa"])
def test_gradients_are_the_differential(name):
    plan = Plan(Layout.from_mask(torch.arange(11) < torch.tensor([[11], [3], [2], [1], [5]])))
    kernel = functools.partial(KERNELS[name], plan=plan, scale=SCALE, window=4)
    assert torch.autograd.gradcheck(kernel, tensors(plan.layout.n_tokens))


@pytest.mark.parametrize("kernel", ["ours", "sdpa"])
def test_attention_dropout_is_dropout(kernel):
    """Every probability falls with the stated rate, independently, and the mean over draws is the undropped output."""
    rate, n_draws = 0.3, 4001
    plan = Plan(Layout.from_mask(torch.arange(7) < torch.tensor([[7], [3], [5]])))
    q, k, v = tensors(plan.layout.n_tokens)
    v = torch.eye(7, dtype=torch.float64).repeat(3, 1)[plan.layout.index][:, None].expand(-1, HEADS, -1).contiguous()
    torch.manual_seed(0)
    apply = BucketedDropout.apply if kernel == "ours" else bucketed_sdpa
    # with one-hot values the output is the row of dropped probabilities itself
    draws = torch.stack([apply(q, k, v, plan, SCALE, None, rate).detach() for _ in range(n_draws)])
    probs = dense_reference(q, k, v, plan, SCALE).detach()
    possible = probs > 0
    kept = draws[:, possible] != 0
    deviations = (kept.double().mean(0) - (1 - rate)).abs() / (rate * (1 - rate) / n_draws) ** 0.5
    assert deviations.max() < 5
    assert torch.allclose(draws[:, possible][kept], (probs[possible] / (1 - rate)).expand(n_draws, -1)[kept])
    correlation = torch.corrcoef(kept.double().T[:23])
    assert (correlation - torch.eye(23)).abs().max() < 5 / n_draws**0.5


def test_attention_dropout_gradient_is_the_differential():
    plan = Plan(Layout.from_mask(torch.arange(7) < torch.tensor([[7], [3], [5], [6]])))

    def same_draw(q, k, v):
        torch.manual_seed(13)
        return BucketedDropout.apply(q, k, v, plan, SCALE, None, 0.4)

    assert torch.autograd.gradcheck(same_draw, tensors(plan.layout.n_tokens))


def test_grouped_queries_share_keys():
    plan = Plan(Layout.from_mask(torch.arange(7) < torch.tensor([[7], [3]])))
    n = plan.layout.n_tokens
    q, k, v = torch.randn(n, 6, 5), torch.randn(n, 2, 5), torch.randn(n, 2, 5)
    shared = register.attend(q, k, v, plan, SCALE)
    spelled = register.attend(q, k[:, [0, 0, 0, 1, 1, 1]], v[:, [0, 0, 0, 1, 1, 1]], plan, SCALE)
    assert torch.equal(shared, spelled)


@settings(max_examples=200)
@given(lengths=st.lists(st.integers(0, 89), max_size=41))
def test_buckets_hold_every_row_once_with_little_padding(lengths):
    groups = group_rows(lengths)
    assert sorted(row for group in groups for row in group) == [row for row, n in enumerate(lengths) if n]
    for group in groups:
        shortest, longest = min(lengths[row] for row in group), max(lengths[row] for row in group)
        assert longest <= max(1.15 * shortest, shortest + 3)


@settings(max_examples=50)
@given(keep=masks())
def test_spans_keep_distances(keep):
    layout = Layout.from_mask(keep)
    buckets = Plan(layout).spans
    spread = buckets.spread(layout.positions)
    for bucket in buckets.items:
        slots = torch.arange(bucket.length).expand(bucket.n, -1)
        valid = torch.ones_like(slots, dtype=torch.bool) if bucket.valid is None else bucket.valid
        offset = bucket.block(spread) - slots
        first = offset.gather(1, valid.long().argmax(1, keepdim=True)).expand_as(slots)
        assert torch.equal(offset[valid], first[valid]), "slot distances are position distances"


@pytest.mark.parametrize("kind", ["buckets", "spans"])
@settings(max_examples=50)
@given(keep=masks())
def test_collect_undoes_spread(kind, keep):
    layout = Layout.from_mask(keep)
    buckets = getattr(Plan(layout), kind)
    packed = torch.arange(layout.n_tokens, dtype=torch.float64).requires_grad_()
    spread = buckets.spread(packed)
    assert torch.equal(buckets.collect(spread), packed)
    assert spread.shape[0] == sum(bucket.n * bucket.length for bucket in buckets.items)
    upstream = torch.rand(layout.n_tokens, dtype=torch.float64)
    (passed_back,) = torch.autograd.grad(buckets.collect(spread), spread, upstream)
    assert torch.equal(buckets.spread_gradient(upstream), passed_back)
