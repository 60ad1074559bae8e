"""Mask and pooling faults that people reported of other projects: the naive form has the fault, ours does not.

Named by where they were reported: hf = huggingface/transformers, st = sentence-transformers, pt = pytorch.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from maskwright import masks, pooling
from maskwright.errors import EmptyRowError, MaskError

B, L, D = 2, 5, 3
LENGTHS = [3, 5]
KEEP = masks.padding(lengths=LENGTHS).to_attention_mask()
LEFT = masks.padding(lengths=LENGTHS, side="left").to_attention_mask()


def hidden(seed=0):
    return torch.randn(B, L, D, generator=torch.Generator().manual_seed(seed))


def same(one, two):
    return torch.allclose(one, two, atol=1e-6)


def test_vllm_speculators_691_bool_mask_added_to_the_scores():
    rule = masks.padding(lengths=LENGTHS)
    scores = torch.randn(B, 1, L, L, generator=torch.Generator().manual_seed(0))
    wanted = masks.masked_softmax(scores, rule)
    assert not same((scores + rule.to_sdpa()).softmax(-1), wanted)
    assert same((scores + rule.to_transformers("eager")).softmax(-1), wanted)


def test_hf_38094_additive_mask_cast_to_bool():
    rule = masks.padding(lengths=LENGTHS)
    q, k, v = (torch.randn(B, 1, L, D, generator=torch.Generator().manual_seed(s)) for s in range(3))
    bias = rule.to_additive(torch.float32)
    wanted = scaled_dot_product_attention(q, k, v, attn_mask=bias)
    assert not same(scaled_dot_product_attention(q, k, v, attn_mask=bias.bool()), wanted)
    assert same(scaled_dot_product_attention(q, k, v, attn_mask=masks.read(bias).to_sdpa()), wanted)


def test_hf_45491_a_window_wholly_in_padding():
    rule = masks.padding(lengths=[2, 7]) & masks.sliding_window(1, 1)
    scores = torch.randn(2, 7, 7)
    naive = scores.masked_fill(~rule.to_bool(), float("-inf")).softmax(-1)
    assert naive.isnan().any()
    assert masks.masked_softmax(scores, rule).isfinite().all()
    assert (scores[:, None] + rule.to_additive(torch.float32)).softmax(-1).isfinite().all()


def test_hf_17463_a_mean_that_depends_on_the_batch():
    x = hidden()
    alone = x[:1, : LENGTHS[0]].mean(1)
    assert not same(x.mean(1)[:1], alone)
    assert same(pooling.mean(x, KEEP)[:1], alone)


def test_hf_35909_the_last_token_by_the_first_pad():
    """Where pad and end of text share an id, the first pad is the text's own end; under left padding it is slot 0."""
    eos = 2
    x = hidden()
    for ids, keep in (
        (torch.tensor([[4, 5, eos, eos, eos], [4, 5, 6, 7, eos]]), KEEP),
        (torch.tensor([[eos, eos, 4, 5, eos], [4, 5, 6, 7, eos]]), LEFT),
    ):
        wanted = torch.stack([x[b, keep[b].nonzero().max()] for b in range(B)])
        naive = x[torch.arange(B), (ids == eos).int().argmax(1) - 1]
        assert not same(naive, wanted)
        assert same(pooling.last(x, keep), wanted)


def test_hf_17306_the_lowest_value_plus_a_negative_score():
    rule = masks.padding(lengths=[0, 5], length=5)
    scores = torch.full((2, 1, 1, 5), -100.0, dtype=torch.float16)
    lowest = torch.finfo(torch.float16).min
    naive = torch.where(rule.to_bool(1)[:, None], torch.zeros((), dtype=torch.float16), lowest)
    assert (naive + naive + scores).float().softmax(-1).isnan().any()
    bias = rule.to_additive(torch.float16, n_queries=1, empty="open")
    blocked = torch.full((2, 1, 1, 5), float(bias.new_tensor(lowest) / 4), dtype=torch.float16)
    for ours in (bias, blocked):
        assert (ours + ours + scores).isfinite().all()
        assert (ours + ours + scores).float().softmax(-1).isfinite().all()


def test_pt_24816_a_row_of_padding_alone_in_multihead_attention():
    layer, x = nn.MultiheadAttention(D, 1, batch_first=True), hidden()
    rule = masks.padding(lengths=[0, 5], length=5)
    ignore = rule.to_attention_mask() == 0
    assert layer(x, x, x, key_padding_mask=ignore)[0][0].isnan().all()
    with pytest.raises(EmptyRowError, match="row 0"):
        rule.to_key_padding()
    x.requires_grad_()
    out, _ = layer(x, x, x, key_padding_mask=rule.to_key_padding(empty="open"))
    out.sum().backward()
    assert out.isfinite().all()
    assert x.grad.isfinite().all()


def test_pt_101967_nan_in_a_masked_slot():
    x = hidden()
    wanted = pooling.mean(x, KEEP)
    x[0, 3:] = float("nan")
    naive = (x * KEEP[..., None]).sum(1) / KEEP.sum(1, keepdim=True)
    assert naive.isnan().any()
    assert torch.equal(pooling.mean(x, KEEP), wanted)


def test_pt_103749_softmax_over_nothing():
    rule = masks.padding(lengths=[0, 5], length=5)
    scores = torch.randn(2, 5, 5)
    assert scores.masked_fill(~rule.to_bool(5), float("-inf")).softmax(-1).isnan().any()
    with pytest.raises(EmptyRowError, match="row 0"):
        masks.masked_softmax(scores, rule)
    assert (masks.masked_softmax(scores, rule, empty="zero")[0] == 0).all()


def test_st_3208_cls_under_left_padding():
    x = hidden()
    assert not same(x[:, 0], torch.stack([x[0, 2], x[1, 0]]))
    assert same(pooling.first(x, LEFT), torch.stack([x[0, 2], x[1, 0]]))


def test_allennlp_4739_padding_wins_the_maximum():
    x = -hidden().abs() - 1
    assert ((x * KEEP[..., None]).amax(1)[0] == 0).all()
    assert same(pooling.max(x, KEEP)[:1], x[:1, :3].amax(1))


def test_composer_the_last_token_by_the_mask_sum():
    x = hidden()
    wanted = x[:, -1]
    assert not same(x[torch.arange(B), LEFT.sum(1) - 1], wanted)
    assert same(pooling.last(x, LEFT), wanted)


@pytest.mark.parametrize(
    ("tensor", "convention", "message"),
    [
        (torch.tensor([[1.0, 0.0]]), None, "attention_mask or key_padding_mask or allowed or blocked or additive"),
        (torch.tensor([[1.0, 0.0]]), "additive", "0/1 flags"),
        (torch.ones(2, 1, 5, 5, dtype=torch.int64), None, "allowed or blocked"),
        (torch.ones(2, 1, 5, 5, dtype=torch.int64), "additive", "takes floats"),
        (torch.ones(2, 1, 5, 1, dtype=torch.bool), "allowed", "one key for 5 queries"),
        (torch.ones(5, 5, dtype=torch.uint8).triu(1), None, "say convention="),
        (torch.ones(5, 5, dtype=torch.uint8).triu(1), "allowed", "the other polarity, convention='blocked'"),
        (torch.ones(5, 5, dtype=torch.bool).triu(1).logical_not(), "blocked", "convention='allowed'"),
        (torch.tensor([[0.0, -1.5]]), "additive", "shifts scores and blocks nothing"),
        (torch.tensor([[0.0, float("nan")]]), "additive", "nan"),
        (torch.tensor([[0, 3]]), "allowed", "other values than 0 and 1"),
        (torch.ones(2, 3, 4, dtype=torch.bool), "attention_mask", "is not an attention_mask"),
        (torch.ones(5, dtype=torch.bool), "allowed", "says nothing of pairs"),
        (torch.tensor([True, False]), "cu_seqlens", "non-negative integers"),
        (torch.ones(2, 5), "padding", "unknown convention"),
        ([[1, 0]], None, "expected a tensor"),
        (torch.stack([torch.eye(3, dtype=torch.bool), torch.ones(3, 3, dtype=torch.bool)])[None], "allowed", "head"),
    ],
)
def test_a_mask_of_uncertain_meaning_is_refused(tensor, convention, message):
    with pytest.raises(MaskError, match=message):
        masks.read(tensor, convention)
