"""Laws of the one primitive: packing and unpacking are inverse, and packed reductions are those of the rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maskwright import pooling
from maskwright.core.layout import Layout
from maskwright.errors import EmptyRowError, MaskError


def masks(*, empty_rows=False):
    row = st.lists(st.booleans(), min_size=11, max_size=11)
    return st.lists(row if empty_rows else row.filter(any), min_size=1, max_size=7).map(torch.tensor)


@given(keep=masks(empty_rows=True))
def test_unpack_undoes_pack(keep):
    layout = Layout.from_mask(keep, empty="zero")
    padded = torch.randn(*keep.shape, 3)
    packed = layout.pack(padded)
    assert torch.equal(packed, padded[keep])
    assert torch.equal(layout.pack(layout.unpack(packed)), packed)
    restored = layout.unpack(packed, fill=5)
    assert torch.equal(restored[keep], padded[keep])
    assert (restored[~keep] == 5).all()
    assert torch.equal(layout.keep, keep)


@given(keep=masks(empty_rows=True))
def test_derived_quantities(keep):
    layout = Layout.from_mask(keep, empty="zero")
    rows, positions = keep.nonzero(as_tuple=True)
    assert torch.equal(layout.rows, rows)
    assert torch.equal(layout.positions, positions)
    assert layout.row_lengths == [int(n) for n in keep.sum(1)]
    assert layout.offsets.tolist() == np.concatenate([[0], np.cumsum(layout.row_lengths)]).tolist()
    assert layout.offsets.dtype == torch.int32


@given(keep=masks())
def test_packed_pooling_equals_loops(keep):
    layout = Layout.from_mask(keep)
    hidden = torch.randn(*keep.shape, 3, dtype=torch.float64)
    packed = layout.pack(hidden)
    rows = [[hidden[b, t].numpy() for t in range(keep.shape[1]) if keep[b, t]] for b in range(len(keep))]
    mean = np.array([sum(tokens) / len(tokens) for tokens in rows])
    largest = np.array([functools_max(tokens) for tokens in rows])
    np.testing.assert_allclose(pooling.mean(packed, layout).numpy(), mean, atol=1e-12)
    np.testing.assert_array_equal(pooling.max(packed, layout).numpy(), largest)
    np.testing.assert_array_equal(pooling.first(packed, layout).numpy(), np.array([tokens[0] for tokens in rows]))


def functools_max(tokens):
    largest = tokens[0].copy()
    for token in tokens[1:]:
        for i, value in enumerate(token):
            if value > largest[i]:
                largest[i] = value
    return largest


def test_half_precision_means_accumulate_in_float32():
    layout = Layout.from_mask(torch.ones(1, 4099, dtype=torch.bool))
    packed = torch.full((4099, 1), 1.0, dtype=torch.float16)
    packed[:3] = 3.0
    assert pooling.mean(packed, layout).item() == pytest.approx(4105 / 4099, abs=1e-3)
    assert pooling.mean(packed, layout).dtype == torch.float16


def test_gradients_stay_with_the_kept():
    keep = torch.tensor([[True, False, True], [False, True, True]])
    layout = Layout.from_mask(keep)
    padded = torch.randn(2, 3, 5, requires_grad=True)
    pooling.mean(layout.pack(padded), layout).sum().backward()
    assert (padded.grad[~keep] == 0).all()
    assert torch.allclose(padded.grad[keep], torch.full((4, 5), 0.5))


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (torch.ones(3), "must be \\[B, L\\]"),
        (torch.ones(2, 1, 3, 3), "4-D masks say which pairs"),
        (torch.tensor([[0.0, -1e4]]), "only 0 and 1"),
        (torch.tensor([[1, 2, 0]]), "only 0 and 1"),
    ],
)
def test_masks_that_could_be_misread_are_refused(mask, message):
    with pytest.raises(MaskError, match=message):
        Layout.from_mask(mask)


def test_empty_rows_are_named_or_allowed():
    mask = torch.tensor([[1, 0], [0, 0], [1, 1], [0, 0]])
    with pytest.raises(EmptyRowError, match="rows 1, 3") as error:
        Layout.from_mask(mask)
    assert error.value.rows == [1, 3]
    layout = Layout.from_mask(mask, empty="zero")
    assert layout.row_lengths == [1, 0, 2, 0]


def test_wrong_shapes_are_refused():
    layout = Layout.from_mask(torch.ones(2, 3))
    with pytest.raises(MaskError, match=r"\[B, L\] = \(2, 3\), got \(3, 2\)"):
        layout.pack(torch.zeros(3, 2))
    with pytest.raises(MaskError, match="T = 6"):
        layout.unpack(torch.zeros(5))
