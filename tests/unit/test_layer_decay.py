"""Layer-wise learning-rate decay: which weight stands how high, in every family, and that steps shrink accordingly."""

from __future__ import annotations

import re

import one_step
import pytest
import torch
from transformers import AutoModelForSequenceClassification, FunnelConfig, FunnelModel

from maskwright.data.collate import PaddingCollator
from maskwright.encoders.pack import pack
from maskwright.errors import InputError
from maskwright.training.optimizer import decayed_groups, heights
from maskwright.training.trainer import PackedTrainer
from parity import zoo

DECAY = 0.5
# What numbers the layers in parameters' names; XLM keeps four lists, T5 calls them blocks.
LAYER = re.compile(r"\b(?:layers?|block|attentions|ffns|layer_norm[12])\.(\d+)\.")


@pytest.mark.parametrize("model_type", sorted(set(zoo.PACKABLE) - {"albert"}))
def test_every_family_has_its_layers_in_order_and_embeddings_deepest(model_type):
    model = zoo.encoder(model_type)
    found = heights(model)
    assert set(found) == {name for name, _ in model.named_parameters()}
    table = model.get_input_embeddings().weight
    for name, parameter in model.named_parameters():
        layer = LAYER.search(name)
        if layer is not None:
            assert found[name] == zoo.LAYERS - int(layer[1]), name
        elif parameter is table or "position_embeddings" in name:
            assert found[name] == zoo.LAYERS + 1, name
        elif "pooler" in name or "final" in name:
            assert found[name] == 0, name
    assert {zoo.LAYERS - i for i in range(zoo.LAYERS)} < set(found.values())


def test_the_whole_of_a_small_bert():
    found = heights(one_step.tiny_model())
    by_part = {
        ".".join(name.split(".")[:4] if "layer." in name else name.split(".")[:2]): height
        for name, height in found.items()
    }
    assert by_part == {
        "bert.embeddings": 3,
        "bert.encoder.layer.0": 2,
        "bert.encoder.layer.1": 1,
        "bert.pooler": 0,
        "classifier.weight": 0,
        "classifier.bias": 0,
    }


def test_a_head_is_full_and_the_order_of_groups_puts_it_first():
    model = AutoModelForSequenceClassification.from_config(zoo.config_of("electra", num_labels=5))
    named = {name for name, _ in model.named_parameters() if not name.endswith("bias")}
    groups = decayed_groups(model, 0.1, DECAY, 0.01, named)
    assert groups[0]["lr"] == 0.1
    assert any(p is model.classifier.out_proj.weight for p in groups[0]["params"])
    assert sorted(id(p) for group in groups for p in group["params"]) == sorted(id(p) for p in model.parameters())
    rates = {id(p): group for group in groups for p in group["params"]}
    layer = model.electra.encoder.layer[1].output.dense
    assert rates[id(layer.weight)]["lr"] == pytest.approx(0.1 * DECAY**2)
    assert rates[id(layer.weight)]["weight_decay"] == 0.01
    assert rates[id(layer.bias)]["weight_decay"] == 0.0


def test_frozen_weights_are_left_out():
    model = one_step.tiny_model()
    model.bert.embeddings.requires_grad_(False)
    groups = decayed_groups(model, 0.1, DECAY, 0.01, set())
    assert all(p.requires_grad for group in groups for p in group["params"])


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (zoo.encoder("albert"), "no list of 3 layers, each with weights of its own"),
        (FunnelModel(FunnelConfig(vocab_size=61, d_model=28, n_head=2, d_head=14, block_sizes=[2, 1])), "no list of 3"),
    ],
    ids=["albert", "funnel"],
)
def test_families_without_layers_of_their_own_are_refused(model, reason):
    with pytest.raises(InputError, match=f"layer_decay: .* {reason}"):
        heights(model)


def train(tmp_path, layer_decay):
    model = pack(one_step.tiny_model())
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    trainer = PackedTrainer(
        model,
        one_step.one_step_arguments(tmp_path, 23, 1),
        layer_decay=layer_decay,
        train_dataset=one_step.ragged_dataset(),
        data_collator=PaddingCollator(one_step.tiny_tokenizer()),
    )
    trainer.train()
    return trainer, {name: p.detach() - before[name] for name, p in model.named_parameters()}


def test_a_step_moves_each_weight_by_its_own_rate(tmp_path):
    """Plain gradient descent shows it: the same gradient, times decay to the power of the height."""
    _, full = train(tmp_path, 1.0)
    trainer, found = train(tmp_path, DECAY)
    for name, height in heights(trainer.model).items():
        torch.testing.assert_close(found[name], full[name] * DECAY**height, rtol=2e-3, atol=1e-7, msg=name)


def test_the_schedule_scales_all_rates_and_the_log_shows_the_head(tmp_path):
    trainer, _ = train(tmp_path, DECAY)
    rates = [group["initial_lr"] for group in trainer.optimizer.param_groups]
    assert sorted(set(rates), reverse=True) == [one_step.RATE * DECAY**height for height in range(4)]
    assert trainer.state.log_history[0]["learning_rate"] == one_step.RATE


def test_an_optimizer_that_groups_by_itself_is_refused(tmp_path, monkeypatch):
    """GaLore and its like bring their own parameter groups."""
    own = (torch.optim.SGD, {"lr": 0.1, "params": []})
    monkeypatch.setattr(PackedTrainer, "get_optimizer_cls_and_kwargs", staticmethod(lambda *args: own))
    with pytest.raises(InputError, match="layer_decay: optim=sgd groups parameters by itself"):
        train(tmp_path, DECAY)
