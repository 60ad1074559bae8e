"""Masks: the values everybody should know, sizes, polarities, and the errors of wrong use."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import maskwright as mw
from maskwright import masks, pooling
from maskwright.errors import EmptyRowError, MaskError


def test_the_two_rows_everybody_starts_with():
    ids = torch.tensor([[3, 1, 7, 0, 0], [3, 4, 5, 6, 7]])
    wanted = [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]
    rule = masks.padding(ids=ids, pad_id=0, batch_first=True)
    assert rule.to_attention_mask().tolist() == wanted
    assert masks.padding(ids=ids.t(), pad_id=0, batch_first=False).to_attention_mask().tolist() == wanted
    assert masks.padding(lengths=[3, 5]).to_attention_mask().tolist() == wanted
    assert masks.padding(attention_mask=torch.tensor(wanted)).to_attention_mask().tolist() == wanted
    assert (
        masks.padding(attention_mask=torch.tensor(wanted).t(), batch_first=False).to_attention_mask().tolist() == wanted
    )


def test_mean_and_maximum_without_padding():
    values = torch.tensor([[3.0, 1.0, 7.0, 0.0, 0.0]], dtype=torch.float64)[..., None]
    keep = torch.tensor([[1, 1, 1, 0, 0]])
    assert values.mean(1).item() == pytest.approx(2.2)
    assert pooling.mean(values, keep).item() == pytest.approx(11 / 3, abs=1e-15)
    negative = torch.tensor([[-3.0, -1.0, -7.0, 0.0, 0.0]])[..., None]
    assert pooling.max(negative, keep).item() == -1


def test_padding_takes_no_share_of_the_softmax():
    scores = torch.tensor([[[1.0, 2.0, 3.0, 0.0, 0.0]]], dtype=torch.float64)
    plain = scores.softmax(-1)
    shared = 2 / (math.e + math.e**2 + math.e**3 + 2)
    assert plain[..., 3:].sum().item() == pytest.approx(shared)
    ours = mw.masked_softmax(scores, masks.padding(lengths=[3], length=5))
    assert (ours[..., 3:] == 0).all()
    torch.testing.assert_close(ours[..., :3], plain[..., :3] / (1 - shared))
    misprint = (scores - 1e-10 * torch.tensor([0, 0, 0, 1, 1])).softmax(-1)
    assert misprint[..., 3:].sum().item() == pytest.approx(shared)


def test_the_pad_row_of_an_embedding_gets_no_gradient():
    ids = torch.tensor([[3, 1, 7, 0, 0], [3, 4, 5, 6, 7]])
    embedding = torch.nn.Embedding(11, 7, padding_idx=0)
    pooling.mean(embedding(ids), masks.padding(lengths=[3, 5]).to_attention_mask()).square().sum().backward()
    assert (embedding.weight.grad[0] == 0).all()
    assert (embedding.weight.grad[1] != 0).any()


def test_the_common_triangle_has_the_other_polarity():
    triangle = torch.triu(torch.ones(5, 5), diagonal=1)  # 1 = blocked
    allowed = masks.causal().to_bool(5)
    assert torch.equal(allowed, triangle == 0)
    assert torch.equal(masks.causal().to_attn_mask(n_queries=5), triangle.bool())
    assert torch.equal(masks.read(triangle, "blocked").to_bool(), allowed)


def test_a_rule_for_any_length_meets_one_of_rows_as_b_l_l():
    both = masks.padding(lengths=[3, 5]) & masks.causal()
    wanted = np.tril(np.ones((2, 5, 5), bool))
    wanted[0, :, 3:] = False
    assert np.array_equal(both.to_bool().numpy(), wanted)


def test_cross_attention_has_sizes_of_its_own():
    rule = masks.padding(lengths=[3, 5])
    assert rule.to_bool(n_queries=7).shape == (2, 7, 5)
    assert rule.to_sdpa(n_queries=7).shape == (2, 1, 7, 5)
    assert masks.causal(offset=4).to_bool(3, 7).tolist() == np.tri(3, 7, 4, dtype=bool).tolist()
    with pytest.raises(MaskError, match="is for 5 keys, asked for 7"):
        rule.to_bool(n_keys=7)
    with pytest.raises(MaskError, match="holds for any length"):
        masks.causal().to_bool()


def test_windows_without_a_bound():
    assert torch.equal(masks.sliding_window(None, 0).to_bool(7), masks.causal().to_bool(7))
    assert masks.sliding_window(None, None).to_bool(7).all()


def test_a_prefix_of_its_own_for_each_row():
    rule = masks.prefix([1, 3])
    assert rule.to_bool(5).long().sum((1, 2)).tolist() == [15, 18]


def test_left_padded_queries_see_nothing_and_nobody_minds():
    rule = masks.padding(lengths=[2, 5], side="left") & masks.causal()
    allowed = rule.to_bool()
    assert not allowed[0, :3].any()
    opened = rule.to_sdpa()[:, 0]
    assert opened[0, :3].all()
    assert torch.equal(opened[:, 3:], allowed[:, 3:])
    assert (mw.masked_softmax(torch.zeros(2, 5, 5), rule)[0, :3] == 0).all()


def test_a_slot_is_absent_if_any_rule_of_an_and_says_so():
    """Query 0 of row 0 is hidden and sees only itself; as no token stands there, that is nobody's mistake."""
    hidden = torch.tensor([[True, False, False], [False, False, False]])
    rule = masks.padding(lengths=[2, 3]) & masks.hide_columns(hidden) & masks.causal()
    assert not rule.to_bool()[0, 0].any()
    assert rule.to_sdpa()[0, 0, 0].all()
    with pytest.raises(EmptyRowError):
        (rule | ~masks.sliding_window(None, None)).to_sdpa()  # of an OR only if both say so, and one does not know


def test_a_real_query_that_sees_nothing_is_a_mistake():
    rule = masks.padding(lengths=[2, 5]) & ~masks.causal()
    with pytest.raises(EmptyRowError, match=r"under 'padding & ~\(causal\)' query 1 .* in rows 0, 1") as caught:
        rule.to_sdpa()
    assert caught.value.rows == [0, 1]
    assert rule.to_sdpa(empty="open").any(-1).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: masks.padding(), "exactly one"),
        (lambda: masks.padding(lengths=[1], ids=torch.ones(1, 1)), "exactly one"),
        (lambda: masks.padding(ids=torch.ones(2, 3, dtype=torch.long)), "batch_first="),
        (lambda: masks.padding(ids=torch.ones(2, 3), pad_id=0, batch_first=True), "integers"),
        (lambda: masks.padding(lengths=[7], length=5), "row 0 has 7 tokens"),
        (lambda: masks.padding(lengths=[1.5]), "non-negative integers"),
        (lambda: masks.padding(lengths=[-1]), "non-negative integers"),
        (lambda: masks.padding(lengths=[1], side="top"), "'right' or 'left'"),
        (lambda: masks.padding(attention_mask=torch.ones(2, 1, 3, 3)), r"\[B, L\]"),
        (lambda: masks.sliding_window(-1, 0), "0 or more"),
        (lambda: masks.documents(), "exactly one"),
        (lambda: masks.documents(cu_seqlens=[1, 2]), "rise from 0"),
        (lambda: masks.documents(cu_seqlens=[0, 2, 1]), "rise from 0"),
        (lambda: masks.documents(ids=torch.ones(2, 3)), "integers"),
        (lambda: masks.hide_columns(torch.ones(2, 3)), "True = hidden"),
        (lambda: masks.causal() and True, "no truth value"),
        (lambda: masks.causal() & torch.ones(3, 3), "a bare tensor does not say"),
        (lambda: masks.padding(lengths=[1, 2]) & masks.padding(lengths=[1, 2, 2]), r"2 rows.*3 rows"),
        (lambda: masks.padding(lengths=[1, 2]) & masks.padding(lengths=[1, 3]), r"2 keys.*3 keys"),
        (lambda: masks.causal().to_attention_mask(), "depends on the query"),
        (lambda: masks.causal().to_key_padding(), "depends on the query"),
        (lambda: masks.causal().to_cu_seqlens(), "depends on the query"),
        (lambda: masks.documents(ids=torch.tensor([0, 1, 0])).to_cu_seqlens(), "in one piece"),
        (lambda: masks.padding(lengths=[2, 3]).to_attn_mask(), "n_heads="),
        (lambda: masks.padding(lengths=[2, 3]).to_additive(torch.long), "floating-point"),
        (lambda: masks.padding(lengths=[2, 3]).to_sdpa(empty="zero"), "'raise' or 'open'"),
        (lambda: masks.padding(lengths=[2, 3]).to_transformers("flash_attention_2"), "no 4-D mask"),
        (lambda: mw.masked_softmax(torch.zeros(2, 3, 3), torch.ones(2, 3, 3)), "expected a Mask, got Tensor"),
        (lambda: mw.masked_softmax(torch.zeros(5, 3, 3), masks.padding(lengths=[2, 3])), "2 rows"),
        (lambda: mw.masked_softmax(torch.zeros(2, 3, 3).long(), masks.causal()), "floats"),
        (lambda: mw.masked_softmax(torch.zeros(3, 3), masks.causal(), empty="open"), "'raise' or 'zero'"),
    ],
)
def test_wrong_use_says_what_and_what_to_do(call, message):
    with pytest.raises(MaskError, match=message):
        call()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_at_4096_tokens_with_the_biases_of_64_heads(dtype):
    """Two masks added one after the other, distance biases, and scores: finite, and near the float64 sum."""
    length, queries = 4096, [0, 1, 513, 1031, 2053, 4095]
    padding, near = masks.padding(lengths=[3001], length=length), masks.sliding_window(1021, 0)
    both = padding & near
    at = torch.tensor(queries)
    first = padding.to_additive(dtype)[0, :, at]
    second = near.to_additive(dtype, length, length)[0, :, at]
    allowed = both.to_bool()[0, at]
    slopes = 2 ** (-8 / 64 * torch.arange(1, 65, dtype=torch.float64))
    distance = (at[:, None] - torch.arange(length)).abs()
    bias = -slopes[:, None, None] * distance
    scores = 8 * torch.randn(64, len(queries), length, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    summed = scores.to(dtype) + bias.to(dtype) + first + second
    assert summed.isfinite().all()
    shares = summed.float().softmax(-1)
    assert shares.isfinite().all()
    something = allowed.any(-1)
    exact = (scores.to(dtype).double() + bias.to(dtype).double()).masked_fill(~allowed, float("-inf")).softmax(-1)
    assert (shares[:, something][:, ~allowed[something]] == 0).all()
    rounding = torch.finfo(dtype).eps * 4096
    assert (shares - exact)[:, something].abs().max() < rounding
    ours = mw.masked_softmax(scores.to(dtype)[None] + bias.to(dtype), _rows(both, at), empty="zero")
    assert ours.isfinite().all()
    assert (ours[0][:, ~allowed] == 0).all()


def _rows(rule, at):
    """The rule for some of its queries."""
    return masks.read(rule.to_bool()[:, at], "allowed")
