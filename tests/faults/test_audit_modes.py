"""Ways to run a model that must compute the same: training, checkpointed, compiled, packed."""

from __future__ import annotations

import shutil

import pytest
import torch
from planted_models import assert_fails, assert_passes, audited, change, model_of
from torch import nn

from maskwright.audit.probes import modes
from maskwright.audit.settings import changed_by
from maskwright.audit.subject import Subject
from maskwright.audit.trial import Trial


def test_a_mask_that_training_forgets():
    model = model_of("bert")
    layer = model.encoder.layer[1].attention.self
    change(layer, attention_mask=lambda mask, module: torch.zeros_like(mask) if module.training else mask)
    found = audited(model, "training-mode")
    assert_fails(found, "training-path", "encoder.layer.1.attention.self")
    assert "model.train(True)" in found.failures[0].script
    assert_passes(audited(model_of("bert"), "training-mode"))
    assert not model.training


@pytest.mark.parametrize("kind", ["bert", "distilbert", "deberta-v2", "gpt2", "bart"])
def test_dropout_alone_is_no_fault(kind):
    rates = {"dropout": 0.3, "attention_dropout": 0.3, "hidden_dropout_prob": 0.3, "resid_pdrop": 0.3}
    model = model_of(kind, **rates)
    subject = Subject(model)
    trial = Trial(subject.sequences(7), settings={"training": True})
    noisy = [next(iter(subject(trial).tokens.values()))[0] for _ in range(2)]
    assert not torch.equal(*noisy)
    assert_passes(audited(model, "training-mode"))


def test_training_that_draws_numbers_says_nothing():
    model = model_of("bert")
    model.encoder.layer[0].output.dropout.forward = lambda x: nn.functional.dropout(x, 0.3, model.training)
    (finding,) = audited(model, "training-mode")
    assert (finding.verdict, "draws random numbers" in finding.reason) == ("not applicable", True)


def test_layers_that_lose_the_mask_when_checkpointed():
    def lose(model):
        for layer in model.encoder.layer:
            inner = layer.attention.self

            def forgets(mask, module):
                return torch.zeros_like(mask) if model.encoder.layer[0].gradient_checkpointing else mask

            change(inner, attention_mask=forgets)
        return model

    assert_fails(audited(lose(model_of("bert")), "checkpointing"), "checkpointing-path")
    model = model_of("bert")
    assert_passes(audited(model, "checkpointing"))
    assert not any(getattr(module, "gradient_checkpointing", False) for module in model.modules())


def test_a_gradient_alone_that_checkpointing_loses():
    model = model_of("bert")
    inner = model.encoder.layer[1].output
    forward = inner.forward
    cut = model.encoder.layer[1]
    inner.forward = lambda x, y: forward(x.detach() if cut.gradient_checkpointing else x, y)
    assert_fails(audited(model, "checkpointing"), "checkpointing-path")


NEEDS_COMPILER = pytest.mark.skipif(shutil.which("c++") is None, reason="torch.compile needs a C++ compiler")


class Averaged(nn.Module):
    """Each token and the mean of the kept ones; compiled, of all slots."""

    def __init__(self, *, faulty):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.faulty = nn.Embedding(61, 28), faulty

    def forward(self, input_ids, attention_mask=None):
        states = self.embed(input_ids)
        keep = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        if self.faulty and torch.compiler.is_compiling():
            keep = torch.ones_like(keep)
        return states + (states * keep[..., None]).sum(1, keepdim=True) / keep.sum(1)[:, None, None]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, in its compiler
@pytest.mark.parametrize("backend", ["eager", pytest.param("inductor", marks=[pytest.mark.slow, NEEDS_COMPILER])])
def test_a_mask_that_compiling_loses(backend, monkeypatch):
    monkeypatch.setattr(modes, "BACKEND", backend)  # "eager" traces and stops there, for C++ takes a minute
    sizes = {"vocab_size": 61, "pad_id": 0}
    model = Averaged(faulty=True)
    found = audited(model, "compile", **sizes)
    assert_fails(found, "compiled-otherwise")
    assert [failure.check for failure in found.failures] == [f"torch.compile, {n} padded slots" for n in (0, 3)]
    assert model._compiled_call_impl is None
    assert_passes(audited(Averaged(faulty=False), "compile", **sizes))


def test_settings_are_undone():
    model = model_of("bert", hidden_dropout_prob=0.25)
    before = {name: dict(vars(module)) for name, module in model.named_modules()}
    with changed_by(model, {"no_dropout": True, "checkpointing": True, "packed": True}):
        assert model.config.hidden_dropout_prob == 0.0
        assert model.encoder.layer[0].gradient_checkpointing
        assert model.config._attn_implementation == "maskwright"
    assert model.config.hidden_dropout_prob == 0.25
    for name, module in model.named_modules():
        known = {key: value for key, value in before[name].items() if not key.startswith("_")}
        assert {key: value for key, value in vars(module).items() if not key.startswith("_")} == known
        assert vars(module).keys() == before[name].keys()


def test_cumulative_lengths():
    (finding,) = audited(model_of("bert"), "packing-lengths")
    assert (finding.verdict, finding.cause) == ("architectural", "packing-ignored")
    assert "cu_seq_lens_q=torch.tensor([0, 7, 12], dtype=torch.int32)" in finding.script
    assert_passes(audited(model_of("llama"), "packing-lengths"))
    (finding,) = audited(model_of("deberta-v2"), "packing-lengths")
    assert finding.verdict == "not applicable"


def test_packed_is_one_of_the_implementations():
    found = audited(model_of("bert"), "implementations")
    packed = {finding.check: finding.verdict for finding in found if "maskwright" in finding.check}
    assert packed["a int mask on maskwright"] == "pass"
    assert packed["a 4d bool mask on maskwright"] == "not applicable"
    (llama, *_) = [finding for finding in audited(model_of("llama"), "implementations") if "maskwr" in finding.check]
    assert llama.verdict == "not applicable"
