"""Every family in the table: packed equals stock with the same attention_mask, in states and in gradients."""

from __future__ import annotations

import pytest
import torch

import maskwright as mw
from maskwright.encoders.families import FAMILIES
from maskwright.errors import UnsupportedModelError
from parity import zoo

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


@pytest.fixture(autouse=True)
def double(monkeypatch):
    """Stock code that casts scores to float32 for its softmax (XLM) keeps float64, so that it is an oracle there."""
    cast = torch.Tensor.float
    monkeypatch.setattr(torch.Tensor, "float", lambda t, *a, **k: t if t.dtype == torch.float64 else cast(t, *a, **k))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("model_type", zoo.PACKABLE)
def test_states_equal_stock(model_type, dtype):
    model = zoo.encoder(model_type).to(dtype)
    if dtype == torch.float64 and FAMILIES[model_type].rule is None:
        model.set_attn_implementation("textbook")
    batch = zoo.ragged(model_type)
    keep = batch["attention_mask"].bool()
    with torch.no_grad():
        stock = model(**batch, output_hidden_states=True)
        packed = mw.pack(model)(**batch, output_hidden_states=True)
    assert len(packed.hidden_states) == len(stock.hidden_states) > zoo.LAYERS - 1
    for ours, theirs in zip((packed[0], *packed.hidden_states), (stock[0], *stock.hidden_states), strict=True):
        assert ours.shape == theirs.shape
        scale = theirs[keep].abs().max().clamp(min=1)
        assert (ours - theirs)[keep].abs().max() <= TOLERANCE[dtype] * scale
    if stock.get("pooler_output") is not None:
        leads = keep[:, 0]
        difference = (packed.pooler_output - stock.pooler_output)[leads].abs().max()
        assert difference <= TOLERANCE[dtype] * stock.pooler_output.abs().max().clamp(min=1)


@pytest.mark.parametrize("model_type", zoo.PACKABLE)
def test_gradients_equal_stock(model_type):
    model = zoo.encoder(model_type).double()
    if FAMILIES[model_type].rule is None:
        model.set_attn_implementation("textbook")
    batch = zoo.ragged(model_type)
    keep = batch["attention_mask"].bool()
    with torch.no_grad():
        shape = model(**batch)[0].shape
    weights = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))

    def gradients():
        model.zero_grad()
        (model(**batch)[0] * weights)[keep].sum().backward()
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    stock = gradients()
    mw.pack(model)
    packed = gradients()
    for name, theirs in stock.items():
        ours = packed.get(name, torch.zeros_like(theirs))
        assert (ours - theirs).abs().max() <= 1e-9 * theirs.abs().max().clamp(min=1), name
    assert all(packed[name].abs().max() == 0 for name in packed.keys() - stock.keys())


@pytest.mark.parametrize("model_type", zoo.PACKABLE)
def test_unpack_restores_stock(model_type):
    model = zoo.encoder(model_type)
    batch = zoo.ragged(model_type)
    with torch.no_grad():
        before = model(**batch)[0]
        mw.unpack(mw.pack(model))
        assert torch.equal(model(**batch)[0], before)


@pytest.mark.parametrize("model_type", zoo.REFUSED)
def test_refused_families_say_why(model_type):
    class Base(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.config = type("Config", (), {"model_type": model_type})()

    from maskwright.encoders.pack import family_of

    with pytest.raises(UnsupportedModelError, match="cannot be packed exactly: ") as error:
        family_of(Base())
    assert FAMILIES[model_type].note in str(error.value)
