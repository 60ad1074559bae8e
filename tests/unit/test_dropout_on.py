"""Dropout in evaluation mode: all of it, attention dropout included, and nothing else of training mode."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import AutoModelForSequenceClassification

import maskwright as mw
from maskwright.encoders.pack import packing_of
from maskwright.errors import InputError
from maskwright.objectives.dropout import dropout_on, has_dropout
from parity import zoo

ATTENTIONS = ("eager", "sdpa", "packed")
WITH_HEAD = ("bert", "roberta", "distilbert", "modernbert", "albert", "electra", "deberta-v2", "xlm", "nomic_bert")


def classifier(model_type="bert", rates=None, **changes):
    config = zoo.config_of(model_type, num_labels=5, **changes)
    for name, value in vars(config).items():
        if "drop" in name and type(value) is float and rates is not None:
            setattr(config, name, rates)
    torch.manual_seed(0)
    return zoo.spread(AutoModelForSequenceClassification.from_config(config)).eval()


def attend_by(model, attention):
    if attention == "packed":
        return mw.pack(model)
    model.set_attn_implementation(attention)
    return model


def two_passes(model):
    batch = zoo.ragged()
    with torch.no_grad():
        return [model(**batch).logits for _ in range(2)]


def naive(model):
    """What is often written, and leaves attention dropout off."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.train()


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_attention_dropout_is_on_and_the_usual_way_leaves_it_off(attention):
    """Attention dropout is the only noise there is."""
    model = attend_by(classifier(attention_probs_dropout_prob=0.4), attention)
    evaluated = two_passes(model)[0]
    with dropout_on(model):
        first, second = two_passes(model)
    assert (first - second).abs().max() > 0.01
    naive(model)
    first, second = two_passes(model)
    assert torch.equal(first, second), "transformers has changed: the usual way works now"
    assert torch.equal(first, evaluated)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("model_type", WITH_HEAD)
def test_it_draws_what_training_mode_draws(model_type, packed):
    model = classifier(model_type, rates=0.3)
    if packed:
        mw.pack(model)
    batch = zoo.ragged(model_type)
    torch.manual_seed(5)
    trained = model.train()(**batch).logits
    model.eval()
    with dropout_on(model):
        torch.manual_seed(5)
        found = model(**batch).logits
    assert torch.equal(found, trained)
    assert (found - model(**batch).logits).abs().max() > 0.01


class Everything(nn.Module):
    """A batch norm, a layer that is dropped whole in training, and dropout of the functional kind."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.layerdrop = 0.9
        self.gradient_checkpointing = True
        self.dropout = 0.25

    def forward(self, x):
        assert not self.gradient_checkpointing
        assert self.layerdrop == 0.0
        return nn.functional.dropout(self.norm(x), self.dropout, self.training)


def test_nothing_else_of_training_mode_is_on():
    model = nn.Sequential(Everything(), nn.Dropout(0.0)).eval()
    model[1].train()
    modes = {name: module.training for name, module in model.named_modules()}
    state = {name: value.clone() for name, value in model.state_dict().items()}
    with dropout_on(model):
        out = model(torch.randn(1009, 3))
    assert 0.2 < float((out == 0).float().mean()) < 0.3
    assert all(torch.equal(state[name], value) for name, value in model.state_dict().items())
    assert (model[0].layerdrop, model[0].gradient_checkpointing) == (0.9, True)
    assert {name: module.training for name, module in model.named_modules()} == modes


def test_droptoken_stays_off_and_comes_back():
    model = mw.pack(classifier(hidden_dropout_prob=0.2), drop_rate=0.5, special_ids=[]).eval()
    seen = []
    model.base_model.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(kwargs["attention_mask"].clone()), with_kwargs=True
    )
    with dropout_on(model):
        two_passes(model)
    assert all(torch.equal(mask, zoo.ragged()["attention_mask"]) for mask in seen)
    assert packing_of(model).drop_rate == 0.5


def test_a_failure_inside_leaves_the_model_as_it_was():
    model = classifier(hidden_dropout_prob=0.2).train()
    model.base_model.embeddings.eval()
    modes = [module.training for module in model.modules()]
    with pytest.raises(ZeroDivisionError), dropout_on(model):
        1 / 0  # noqa: B018
    assert [module.training for module in model.modules()] == modes


def test_a_model_without_dropout_is_refused():
    model = classifier()
    assert not has_dropout(model)
    with pytest.raises(InputError, match="all its dropout rates are 0"), dropout_on(model):
        pass
