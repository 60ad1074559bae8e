"""Laws of mask rules: they mean what plain Python says, obey Boolean algebra, and survive lowering and reading."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from maskwright import masks
from maskwright.errors import EmptyRowError
from oracles import masks as oracle
from oracles.mask_rules import B, H, L, hidden_columns, paddings, rules, written_out


def same(one, two):
    return torch.equal(written_out(one), written_out(two))


@given(case=rules())
def test_a_rule_means_what_plain_python_says(case):
    assert np.array_equal(written_out(case.rule).numpy(), case.table)


@given(one=rules(), two=rules(), three=rules())
def test_boolean_algebra(one, two, three):
    a, b, c = one.rule, two.rule, three.rule
    assert same(a & b, b & a)
    assert same(a | b, b | a)
    assert same((a & b) & c, a & (b & c))
    assert same((a | b) | c, a | (b | c))
    assert same(a & (b | c), (a & b) | (a & c))
    assert same(a | (b & c), (a | b) & (a | c))
    assert same(~(a & b), ~a | ~b)
    assert same(~(a | b), ~a & ~b)
    assert same(~~a, a)
    assert same(a & a, a)
    assert same(a | (a & b), a)


@given(case=rules())
def test_what_is_blocked_stays_blocked_in_every_lowering(case):
    """Queries with nothing are opened; everything else is the rule itself, in each library's polarity."""
    table = torch.from_numpy(case.table)
    wanted = table | ~table.any(-1, keepdim=True)
    size = {"n_queries": L, "n_keys": L, "empty": "open"}
    assert torch.equal(case.rule.to_sdpa(**size).expand(B, 1, L, L)[:, 0], wanted)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        bias = case.rule.to_additive(dtype, **size).expand(B, 1, L, L)[:, 0]
        assert bias.dtype == dtype
        assert torch.equal(bias == 0, wanted)
        assert (bias[~wanted] == torch.finfo(dtype).min / 4).all()
    attn_mask = case.rule.to_attn_mask(H, **size)
    by_head = attn_mask.expand(B * H, L, L).view(B, H, L, L)
    assert torch.equal(by_head, ~wanted[:, None].expand(B, H, L, L))


@given(case=rules())
def test_a_real_query_with_nothing_raises_and_a_padded_one_does_not(case):
    table = case.table
    absent = case.rule.absent
    real = np.ones((B, L), bool)
    if absent is not None:
        real = ~absent.numpy() | absent.numpy().all(1, keepdims=True)
    bad = (~table.any(-1) & real).any(1)
    if not bad.any():
        assert case.rule.to_sdpa(L, L).dtype == torch.bool
        return
    with pytest.raises(EmptyRowError, match="may attend to nothing") as caught:
        case.rule.to_sdpa(L, L)
    assert caught.value.rows == ([0] if case.rule.n_rows is None else bad.nonzero()[0].tolist())


@given(case=rules())
def test_reading_undoes_lowering(case):
    rule, size = case.rule, {"n_queries": L, "n_keys": L}
    allowed = rule.to_bool(**size)
    assume(not _is_future(allowed))
    assert same(masks.read(allowed, "allowed"), rule)
    assert same(masks.read(~allowed, "blocked"), rule)
    assert same(masks.read(allowed.long(), "allowed"), rule)
    assume(bool(allowed.any(-1).all()))
    assert same(masks.read(rule.to_sdpa(**size), "allowed"), rule)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        bias = rule.to_additive(dtype, **size)
        assert same(masks.read(bias, "additive"), rule)
        if not allowed.all():
            assert same(masks.read(bias), rule), "an additive mask has one reading"
    attn_mask = rule.to_attn_mask(H, **size)
    assert same(masks.read(attn_mask if rule.n_rows is None else attn_mask[::H], "blocked"), rule)


def _is_future(allowed):
    """The one mask of pairs that cannot be meant: later positions only."""
    return bool((allowed == torch.ones(L, L, dtype=torch.bool).triu(1)).all())


@given(case=st.one_of(paddings(least=1), hidden_columns()))
def test_reading_undoes_lowering_of_rules_about_keys(case):
    assume(case.table.any(-1).all())
    assert same(masks.read(case.rule.to_attention_mask(), "attention_mask"), case.rule)
    assert same(masks.read(case.rule.to_key_padding(), "key_padding_mask"), case.rule)
    bounds = case.rule.to_cu_seqlens()
    assert bounds.dtype == torch.int32
    assert bounds.diff().tolist() == case.table[:, 0].sum(-1).tolist()


@given(lengths=st.lists(st.integers(1, 7), min_size=1, max_size=5))
def test_documents_and_cu_seqlens(lengths):
    bounds = torch.tensor([0, *np.cumsum(lengths)])
    rule = masks.documents(cu_seqlens=bounds)
    assert rule.to_cu_seqlens().tolist() == bounds.tolist()
    again = masks.read(rule.to_cu_seqlens(), "cu_seqlens")
    assert torch.equal(again.to_bool(), rule.to_bool())
    of = np.repeat(np.arange(len(lengths)), lengths)
    wanted = oracle.table(oracle.documents([of]), 1, len(of), len(of))[0]
    assert np.array_equal(rule.to_bool().numpy(), wanted)
