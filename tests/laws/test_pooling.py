"""Laws of pooling: the loop's numbers, and nothing that padding, neighbours or form can change."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maskwright import pooling
from maskwright.core.layout import Layout
from maskwright.errors import EmptyRowError, MaskError

L, D = 7, 5
torch.manual_seed(0)
ATTENTION = pooling.AttentionPooling(D, 3).double()


def oracle_attention(rows):
    """Weights by explicit exponentials; the scores are the module's own layers, a token at a time."""
    out = []
    for token in rows:
        score = ATTENTION.score(torch.tanh(ATTENTION.project(torch.tensor(token, dtype=torch.float64))))
        out.append(math.exp(score.item()))
    return [sum(w * t[d] for w, t in zip(out, rows, strict=True)) / sum(out) for d in range(D)]


def columns(rows):
    return [[token[d] for token in rows] for d in range(D)]


# What each function gives for one row of tokens, each a list of D floats.
ORACLES = {
    "mean": lambda rows: [math.fsum(c) / len(c) for c in columns(rows)],
    "mean_sqrt_length": lambda rows: [math.fsum(c) / math.sqrt(len(c)) for c in columns(rows)],
    "max": lambda rows: [sorted(c)[-1] for c in columns(rows)],
    "first": lambda rows: rows[0],
    "last": lambda rows: rows[-1],
    "weighted_mean": lambda rows: [
        math.fsum((i + 1) * x for i, x in enumerate(c)) / (len(c) * (len(c) + 1) / 2) for c in columns(rows)
    ],
    "attention": oracle_attention,
}


def pool(name, *args, **options):
    return ATTENTION(*args, **options) if name == "attention" else getattr(pooling, name)(*args, **options)


every_pooling = pytest.mark.parametrize("name", list(ORACLES))


def keeps(*, empty=False):
    row = st.lists(st.booleans(), min_size=L, max_size=L)
    return st.lists(row if empty else row.filter(any), min_size=1, max_size=3).map(torch.tensor)


def random_states(keep, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*keep.shape, D, dtype=torch.float64, generator=generator)


def gradient(name, hidden, *args, **options):
    hidden = hidden.clone().requires_grad_()
    out = pool(name, hidden, *args, **options)
    (out * torch.arange(1, out.numel() + 1).view_as(out)).sum().backward()
    return out.detach(), hidden.grad


@every_pooling
@given(keep=keeps())
def test_padded_and_packed_give_the_loops_numbers(name, keep):
    hidden = random_states(keep)
    rows = [[hidden[b, i].tolist() for i in range(L) if keep[b, i]] for b in range(len(keep))]
    wanted = torch.tensor([ORACLES[name](row) for row in rows], dtype=torch.float64)
    layout = Layout.from_mask(keep)
    padded, padded_grad = gradient(name, hidden, keep)
    packed, packed_grad = gradient(name, layout.pack(hidden), layout)
    torch.testing.assert_close(padded, wanted, atol=1e-12, rtol=0)
    torch.testing.assert_close(packed, wanted, atol=1e-12, rtol=0)
    torch.testing.assert_close(packed_grad, layout.pack(padded_grad), atol=1e-12, rtol=0)


@every_pooling
@given(keep=keeps(), junk=st.sampled_from([float("nan"), float("inf"), -float("inf"), 1e30, -1e30]))
def test_masked_slots_never_matter(name, keep, junk):
    hidden = random_states(keep)
    clean, clean_grad = gradient(name, hidden, keep)
    ATTENTION.zero_grad()
    out, grad = gradient(name, hidden.masked_fill(~keep[..., None], junk), keep)
    assert torch.equal(out, clean)
    assert torch.equal(grad, clean_grad)
    assert grad.isfinite().all()
    assert (grad[~keep] == 0).all()
    if name == "attention":
        assert all(p.grad.isfinite().all() for p in ATTENTION.parameters())


@every_pooling
@given(keep=keeps(), more=st.integers(1, 3), left=st.booleans(), order=st.randoms(use_true_random=False))
def test_padding_amount_side_and_neighbours_never_matter(name, keep, more, left, order):
    hidden = random_states(keep)
    wanted = pool(name, hidden, keep)
    ends = (more, 0) if left else (0, more)
    wider = torch.nn.functional.pad(hidden, (0, 0, *ends), value=9.0)
    assert torch.allclose(pool(name, wider, torch.nn.functional.pad(keep, ends)), wanted, atol=1e-13)
    rows = list(range(len(keep)))
    order.shuffle(rows)
    assert torch.allclose(pool(name, hidden[rows], keep[rows]), wanted[rows], atol=1e-13)
    assert torch.allclose(pool(name, hidden[:1], keep[:1]), wanted[:1], atol=1e-13)


@every_pooling
@given(keep=keeps(empty=True))
def test_empty_rows_raise_or_are_zero(name, keep):
    hidden = random_states(keep)
    layout = Layout.from_mask(keep, empty="zero")
    empty = ~keep.any(1)
    for args in ((hidden, keep), (layout.pack(hidden), layout)):
        if empty.any():
            with pytest.raises(EmptyRowError) as caught:
                pool(name, *args)
            assert caught.value.rows == empty.nonzero().flatten().tolist()
        out, grad = gradient(name, *args, empty="zero")
        assert (out[empty] == 0).all()
        assert grad.isfinite().all()
        if (~empty).any():
            rest = pool(name, hidden[~empty], keep[~empty])
            torch.testing.assert_close(out[~empty], rest, atol=1e-12, rtol=0)


@every_pooling
@given(keep=keeps(), left_out=st.lists(st.booleans(), min_size=3 * L, max_size=3 * L))
def test_excluded_tokens_are_as_if_masked(name, keep, left_out):
    exclude = torch.tensor(left_out).view(3, L)[: len(keep)]
    hidden, layout = random_states(keep), Layout.from_mask(keep)
    wanted = pool(name, hidden, keep & ~exclude, empty="zero")
    torch.testing.assert_close(pool(name, hidden, keep, exclude=exclude, empty="zero"), wanted, atol=1e-13, rtol=0)
    packed = pool(name, layout.pack(hidden), layout, exclude=layout.pack(exclude), empty="zero")
    torch.testing.assert_close(packed, wanted, atol=1e-12, rtol=0)


@given(keep=keeps(), n=st.integers(0, 3))
def test_first_tokens_are_the_first_kept_ones(keep, n):
    wanted = torch.zeros_like(keep)
    for row, slots in enumerate(keep):
        wanted[row, slots.nonzero().flatten()[:n]] = True
    assert torch.equal(pooling.first_tokens(keep, n), wanted)
    assert torch.equal(pooling.first_tokens(keep, torch.full((len(keep),), n)), wanted)
    layout = Layout.from_mask(keep)
    assert torch.equal(pooling.first_tokens(layout, n), layout.pack(wanted))


@pytest.mark.parametrize("name", [name for name in ORACLES if name != "attention"])  # its layers round each score
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_accumulates_in_float32(name, dtype):
    """4099 tokens of 16 sum to more than float16 holds, and beyond what bfloat16 counts in steps of 16."""
    n = 4099
    hidden = torch.full((1, n, 3), 16.0, dtype=dtype)
    keep = torch.ones(1, n, dtype=torch.bool)
    layout = Layout.from_mask(keep)
    exact = 16 * math.sqrt(n) if name == "mean_sqrt_length" else 16.0
    for out in (pool(name, hidden, keep), pool(name, layout.pack(hidden), layout)):
        assert out.dtype == dtype
        torch.testing.assert_close(out.float(), torch.full((1, 3), exact), rtol=torch.finfo(dtype).eps, atol=0)


@given(keep=keeps(), seed=st.integers(0, 99))
def test_weighted_mean_with_weights(keep, seed):
    hidden = random_states(keep)
    weights = torch.rand(keep.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    wanted = []
    for b in range(len(keep)):
        slots = keep[b].nonzero().flatten().tolist()
        total = math.fsum(weights[b, i].item() for i in slots)
        wanted.append(
            [math.fsum(weights[b, i].item() * hidden[b, i, d].item() for i in slots) / total for d in range(D)]
        )
    layout = Layout.from_mask(keep)
    junk = weights.masked_fill(~keep, float("nan"))
    for out in (
        pooling.weighted_mean(hidden, keep, junk),
        pooling.weighted_mean(layout.pack(hidden), layout, layout.pack(weights)),
    ):
        torch.testing.assert_close(out, torch.tensor(wanted, dtype=torch.float64), atol=1e-12, rtol=0)


def test_weights_that_make_no_mean_are_refused():
    hidden, keep = torch.ones(2, 3, 5), torch.ones(2, 3)
    with pytest.raises(MaskError, match="negative"):
        pooling.weighted_mean(hidden, keep, -torch.ones(2, 3))
    with pytest.raises(MaskError, match=r"weights must be \[2, 3\]"):
        pooling.weighted_mean(hidden, keep, torch.ones(3))
    with pytest.raises(EmptyRowError) as caught:
        pooling.weighted_mean(hidden, keep, torch.tensor([[1.0, 0, 0], [0, 0, 0]]))
    assert caught.value.rows == [1]


@pytest.mark.parametrize(
    ("hidden", "keep", "message"),
    [
        (torch.ones(2, 3, 5), torch.ones(3, 2), r"\[B, L, D\]"),
        (torch.ones(6, 5), torch.ones(2, 3), r"\[B, L, D\]"),
        (torch.ones(2, 3, 5), torch.full((2, 3), 2.0), "only 0 and 1"),
        (torch.ones(2, 3, 5), [[1, 1, 1]] * 2, "got list"),
        (torch.ones(2, 3, 5).long(), torch.ones(2, 3), "floats"),
        (torch.ones(4, 5), Layout.from_mask(torch.ones(2, 3)), r"\[T, D\] with a Layout of T tokens"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(hidden, keep, message):
    with pytest.raises(MaskError, match=message):
        pooling.mean(hidden, keep)


def test_an_exclude_of_unclear_polarity_is_refused():
    with pytest.raises(MaskError, match="True = left out"):
        pooling.mean(torch.ones(2, 3, 5), torch.ones(2, 3), exclude=torch.ones(2, 3))
    with pytest.raises(MaskError, match="'raise' or 'zero'"):
        pooling.mean(torch.ones(2, 3, 5), torch.ones(2, 3), empty="nan")
