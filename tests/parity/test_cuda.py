"""On a GPU: the variable-length kernel is chosen, and packed equals stock in half precision and in float32."""

from __future__ import annotations

import pytest
import torch

import maskwright as mw
from maskwright.attention import varlen
from parity import zoo

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def run(model_type, dtype):
    model = zoo.encoder(model_type, hidden_size=64).cuda().to(dtype)  # flash needs head widths that 8 divides
    batch = {name: value.cuda() for name, value in zoo.ragged(model_type).items()}
    keep = batch["attention_mask"].bool()

    def states_and_gradients():
        model.zero_grad()
        states = model(**batch)[0]
        states[keep].float().square().sum().backward()
        return states.detach()[keep].float(), [p.grad.float() for p in model.parameters() if p.grad is not None]

    truth = states_and_gradients()
    mw.pack(model)
    return truth, states_and_gradients()


@pytest.mark.parametrize("model_type", ["bert", "modernbert", "roberta"])
def test_half_precision_takes_the_varlen_kernel(model_type, monkeypatch):
    calls = []
    kernel = varlen.varlen
    monkeypatch.setattr(varlen, "varlen", lambda *args: calls.append(1) or kernel(*args))
    (stock, stock_grads), (packed, packed_grads) = run(model_type, torch.bfloat16)
    assert calls
    assert (stock - packed).abs().mean() <= 0.02 * stock.abs().mean()
    for theirs, ours in zip(stock_grads, packed_grads, strict=True):
        assert (ours - theirs).norm() <= 0.1 * theirs.norm() + 1e-3


@pytest.mark.parametrize("model_type", ["bert", "modernbert", "roberta", "t5", "rembert"])
def test_float32_falls_back_and_stays_exact(model_type):
    (stock, stock_grads), (packed, packed_grads) = run(model_type, torch.float32)
    assert torch.allclose(stock, packed, atol=1e-4)
    for theirs, ours in zip(stock_grads, packed_grads, strict=True):
        assert torch.allclose(theirs, ours, atol=1e-3 * float(theirs.abs().max().clamp(min=1)))
