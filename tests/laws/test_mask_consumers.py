"""Any rule, lowered for a real consumer, gives the attention of a float64 loop: torch, transformers, ours."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import BertConfig, BertModel, LlamaConfig, LlamaModel

from maskwright import masks
from maskwright.errors import EmptyRowError
from oracles import masks as oracle
from oracles.mask_rules import B, D, H, L, paddings, rules, states

few = settings(max_examples=25)
OPEN = {"n_queries": L, "n_keys": L, "empty": "open"}


def compared(table):
    """Where a query may attend to something, so that consumers have one answer; bool `[B, 1, Q, 1]`."""
    return torch.from_numpy(table.any(-1))[:, None, :, None]


def assert_attends_as(out, qkv, table, atol=1e-12):
    """`out` `[B, H, Q, d]` against the loop."""
    wanted = torch.from_numpy(oracle.attention(*(t.detach().numpy() for t in qkv), table))
    where = compared(table).expand_as(wanted)
    torch.testing.assert_close(out.double()[where], wanted[where], atol=atol, rtol=0)


@few
@given(case=rules())
def test_sdpa_bool_and_additive(case):
    qkv = states()
    assert_attends_as(scaled_dot_product_attention(*qkv, attn_mask=case.rule.to_sdpa(**OPEN)), qkv, case.table)
    for dtype, atol in ((torch.float64, 1e-12), (torch.float32, 1e-5), (torch.float16, 2e-2)):
        bias = case.rule.to_additive(dtype, **OPEN)
        low = [t.to(dtype) for t in qkv]
        exact = [t.double() for t in low]
        assert_attends_as(scaled_dot_product_attention(*low, attn_mask=bias), exact, case.table, atol)


@few
@given(case=rules(), scale=st.sampled_from([1.0, 1e6]))
def test_masked_softmax_is_the_loop_zeros_included(case, scale):
    scores = scale * torch.randn(B, H, L, L, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    wanted = torch.from_numpy(oracle.softmax(scores.numpy(), case.table))
    blocked = ~torch.from_numpy(case.table)[:, None].expand_as(scores)
    poisoned = scores.masked_fill(blocked, float("nan")).requires_grad_()
    out = masks.masked_softmax(poisoned, case.rule, empty="zero")
    torch.testing.assert_close(out, wanted, atol=1e-14, rtol=0)
    assert (out[blocked] == 0).all()
    (out * torch.randn_like(out)).sum().backward()
    assert poisoned.grad.isfinite().all()
    assert (poisoned.grad[blocked] == 0).all()
    logs = masks.masked_log_softmax(scores, case.rule, empty="zero")
    torch.testing.assert_close(logs.exp(), wanted, atol=1e-14, rtol=0)
    applied = masks.apply(poisoned, case.rule, empty="zero")
    assert not applied.isnan().any()
    where = compared(case.table).expand_as(scores)
    torch.testing.assert_close(applied.softmax(-1)[where], wanted[where], atol=1e-14, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@few
@given(case=rules(), scale=st.sampled_from([1.0, 100.0, 1e4]))
def test_masked_softmax_is_never_nan_in_any_dtype(dtype, case, scale):
    scores = (scale * torch.randn(B, L, L, generator=torch.Generator().manual_seed(2))).to(dtype).requires_grad_()
    for function in (masks.masked_softmax, masks.apply, masks.masked_log_softmax):
        out = function(scores, case.rule, empty="zero")
        assert out.dtype == dtype
        assert not out.isnan().any()
        (grad,) = torch.autograd.grad(torch.where(out.isfinite(), out, 0).sum(), scores)
        assert grad.isfinite().all()


@few
@given(case=rules())
def test_masked_softmax_raises_for_real_queries_alone(case):
    scores = torch.zeros(B, L, L)
    try:
        allowed = case.rule.to_sdpa(L, L)
    except EmptyRowError:
        with pytest.raises(EmptyRowError):
            masks.masked_softmax(scores, case.rule)
        return
    assert allowed.any(-1).all()
    assert masks.masked_softmax(scores, case.rule).sum(-1).le(1 + 1e-6).all()


def heads_of(x, weight, bias):
    """`[B, L, E]` -> `[B, H, L, E/H]` in NumPy."""
    out = x @ weight.T + bias
    return out.reshape(*out.shape[:2], H, -1).transpose(0, 2, 1, 3)


def numpy_attention(x, memory, weights, allowed):
    """A multi-head attention layer: `weights` are those of q, k, v and the output, (weight, bias) each."""
    q, k, v = (heads_of(t, *w) for t, w in zip((x, memory, memory), weights[:3], strict=True))
    out = oracle.attention(q, k, v, allowed).transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1)
    return out @ weights[3][0].T + weights[3][1]


def layer_norm(x, module):
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + getattr(module, "eps", 1e-5))
    return scaled * module.weight.detach().numpy() + module.bias.detach().numpy()


def linear(module):
    return module.weight.detach().numpy(), module.bias.detach().numpy()


def weights_of(attention):
    """Of an nn.MultiheadAttention."""
    packed = zip(attention.in_proj_weight.detach().chunk(3), attention.in_proj_bias.detach().chunk(3), strict=True)
    return [(w.numpy(), b.numpy()) for w, b in packed] + [linear(attention.out_proj)]


WIDTH = 2 * D


def tokens(seed=3):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(B, L, WIDTH, generator=generator, dtype=torch.float64)


@few
@given(case=rules(), padded=paddings(least=1))
def test_multihead_attention(case, padded):
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(WIDTH, H, batch_first=True, dtype=torch.float64)
    x = tokens()
    table = case.table & padded.table
    attn_mask = (case.rule & padded.rule).to_attn_mask(H, **OPEN)
    out, _ = layer(x, x, x, attn_mask=attn_mask)
    split, _ = layer(
        x, x, x, attn_mask=case.rule.to_attn_mask(H, **OPEN), key_padding_mask=padded.rule.to_key_padding()
    )
    wanted = torch.from_numpy(numpy_attention(x.numpy(), x.numpy(), weights_of(layer), table))
    where = compared(table)[:, 0].expand_as(wanted)
    torch.testing.assert_close(out[where], wanted[where], atol=1e-12, rtol=0)
    torch.testing.assert_close(split[where], wanted[where], atol=1e-12, rtol=0)


@few
@given(target=paddings(least=1), source=paddings(least=1), sides=st.booleans())
def test_transformer_decoder_with_both_masks(target, source, sides):
    torch.manual_seed(0)
    layer = nn.TransformerDecoderLayer(WIDTH, H, 11, dropout=0.0, batch_first=True, dtype=torch.float64)
    decoder = nn.TransformerDecoder(layer, 1).eval()
    x, memory = tokens(), tokens(5)
    both = target.rule & masks.causal()
    out = decoder(
        x,
        memory,
        tgt_mask=both.to_attn_mask(H, **OPEN),
        memory_key_padding_mask=source.rule.to_key_padding(),
    )
    (block,) = decoder.layers
    seen = target.table & oracle.table(oracle.causal, B, L, L)
    y = x.numpy()
    y = layer_norm(y + numpy_attention(y, y, weights_of(block.self_attn), seen), block.norm1)
    y = layer_norm(y + numpy_attention(y, memory.numpy(), weights_of(block.multihead_attn), source.table), block.norm2)
    (w1, b1), (w2, b2) = linear(block.linear1), linear(block.linear2)
    wanted = torch.from_numpy(layer_norm(y + np.maximum(y @ w1.T + b1, 0) @ w2.T + b2, block.norm3))
    where = torch.from_numpy(seen.any(-1))[..., None].expand_as(wanted)
    torch.testing.assert_close(out[where], wanted[where], atol=1e-10, rtol=0)


SIZES = {"vocab_size": 23, "hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": H}
SIZES |= {"intermediate_size": 11, "max_position_embeddings": 13}


def bert(implementation):
    torch.manual_seed(0)
    config = BertConfig(**SIZES, attn_implementation=implementation)
    return BertModel(config, add_pooling_layer=False).double().eval()


@pytest.fixture(scope="module")
def berts():
    return {name: bert(name) for name in ("eager", "sdpa")}


IDS = torch.randint(5, 23, (B, L), generator=torch.Generator().manual_seed(7))


@settings(max_examples=25)
@given(case=rules())
def test_transformers_bert_eager_and_sdpa(berts, case):
    model = berts["eager"]
    x = model.embeddings(IDS).detach().numpy()
    (layer,) = model.encoder.layer
    own = layer.attention.self
    weights = [linear(m) for m in (own.query, own.key, own.value, layer.attention.output.dense)]
    y = layer_norm(x + numpy_attention(x, x, weights, case.table), layer.attention.output.LayerNorm)
    w1, b1 = linear(layer.intermediate.dense)
    gelu = torch.nn.functional.gelu(torch.from_numpy(y @ w1.T + b1)).numpy()
    w2, b2 = linear(layer.output.dense)
    wanted = torch.from_numpy(layer_norm(y + gelu @ w2.T + b2, layer.output.LayerNorm))
    where = compared(case.table)[:, 0].expand_as(wanted)
    rule = case.rule & masks.padding(lengths=[L] * B)  # says B where the rule does not
    for name, each in berts.items():
        mask = rule.to_transformers(name, torch.float64, empty="open")
        with torch.no_grad():
            out = each(IDS, attention_mask=mask).last_hidden_state
        torch.testing.assert_close(out[where], wanted[where], atol=1e-6, rtol=0)


@pytest.fixture(scope="module")
def llamas():
    models = {}
    for name in ("eager", "sdpa"):
        torch.manual_seed(0)
        config = LlamaConfig(**SIZES | {"hidden_size": 2 * WIDTH}, attn_implementation=name, use_cache=False)
        models[name] = LlamaModel(config).double().eval()
    return models


@settings(max_examples=25)
@given(case=rules())
def test_a_causal_model_of_transformers(llamas, case):
    """Its first layer's probabilities under no mask, those blocked left out and the rest made to add up to 1."""
    everything = masks.padding(lengths=[L] * B)
    rule = case.rule & everything

    def run(name, mask):
        lowered = mask.to_transformers(name, torch.float64, empty="open")
        with torch.no_grad():
            return llamas[name](IDS, attention_mask=lowered, output_attentions=name == "eager")

    full = run("eager", everything).attentions[0]
    shares = full * torch.from_numpy(case.table)[:, None]
    where = compared(case.table).expand_as(shares)
    wanted = shares / shares.sum(-1, keepdim=True).clamp(min=1e-300)
    eager = run("eager", rule)
    torch.testing.assert_close(eager.attentions[0][where], wanted[where], atol=1e-6, rtol=0)
    torch.testing.assert_close(run("sdpa", rule)[0], eager[0], atol=1e-6, rtol=0)


@settings(max_examples=10)
@given(case=rules())
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_on_cpu(case):
    from torch.nn.attention.flex_attention import flex_attention

    qkv = [torch.nn.functional.pad(t, (0, 1)) for t in states()]  # it takes only even widths
    block_mask = case.rule.to_block_mask(L, L)
    with torch.no_grad():
        out = flex_attention(*qkv, block_mask=block_mask, scale=D**-0.5)
    wanted = torch.from_numpy(oracle.attention(*(t[..., :D].numpy() for t in qkv), case.table))
    torch.testing.assert_close(out[..., :D], wanted, atol=1e-12, rtol=0)
