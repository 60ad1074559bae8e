"""A model is left as it was: weights, modes, hooks, dtypes, gradients, configuration and torch's random state."""

from __future__ import annotations

import pytest
import torch
from planted_models import IDS, D, V, broken
from torch import nn

from maskwright.audit.probes import modes
from maskwright.audit.runner import run_audit
from maskwright.audit.tiny import tiny_model


class Stateful(nn.Module):
    """Random in evaluation, with running statistics, a counter, frozen weights, gradients and hooks."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(V, D)
        self.norm = nn.BatchNorm1d(D)
        self.register_buffer("n_calls", torch.zeros((), dtype=torch.long))
        self.embed.requires_grad_(False)
        self.norm.weight.grad = torch.full((D,), 3.0)
        self.norm.eval()
        self.seen = []
        self.norm.register_forward_hook(lambda *given: self.seen.append(1))
        self.norm.register_forward_pre_hook(lambda module, given: None)

    def forward(self, input_ids, attention_mask=None):
        self.n_calls += 1
        self.register_buffer("cache", torch.rand(3))
        states = self.embed(input_ids)
        return self.norm(states.transpose(1, 2)).transpose(1, 2) + torch.rand(())


def state_of(model):
    return {
        "weights": {name: value.clone() for name, value in model.state_dict().items()},
        "where": [tensor.data_ptr() for tensor in (*model.parameters(), *model.buffers())],
        "modes": [module.training for module in model.modules()],
        "requires": [(parameter.requires_grad, parameter.grad) for parameter in model.parameters()],
        "hooks": [
            (list(module._forward_hooks), list(module._forward_pre_hooks), list(module._backward_hooks))
            for module in model.modules()
        ],
        "configuration": model.config.to_dict() if hasattr(model, "config") else None,
        "attention": getattr(getattr(model, "config", None), "_attn_implementation", None),
        "compiled": model._compiled_call_impl,
        "checkpointed": [getattr(module, "gradient_checkpointing", None) for module in model.modules()],
        "random": torch.random.get_rng_state(),
        "forward": model.forward,
        "threads": (torch.get_num_threads(), torch.is_grad_enabled(), torch.get_default_dtype()),
    }


def assert_same(before, after):
    for name in before.keys() - {"requires", "weights", "random"}:
        assert before[name] == after[name], name
    for (wants, grad), (wants_now, grad_now) in zip(before["requires"], after["requires"], strict=True):
        assert wants == wants_now
        assert grad is grad_now
    assert before["weights"].keys() == after["weights"].keys()
    for name, value in before["weights"].items():
        assert value.dtype == after["weights"][name].dtype
        assert torch.equal(value, after["weights"][name]), name
    assert torch.equal(before["random"], after["random"])


def test_a_model_with_a_state_is_left_as_it_was():
    model = Stateful().train()
    model.norm.eval()
    before = state_of(model)
    found = run_audit(model, **IDS)
    assert "repeatable" in broken(found)
    assert model.seen
    assert_same(before, state_of(model))


@pytest.mark.parametrize("kind", ["bert", "mobilebert", "modernbert", "gpt2", "t5", "reformer"])
def test_a_transformers_model_is_left_as_it_was(kind):
    model = tiny_model(kind).train()
    model.set_attn_implementation("eager")
    before = state_of(model)
    found = run_audit(model)
    assert len({finding.rule for finding in found if finding.verdict != "not applicable"}) > 10
    assert_same(before, state_of(model))


def test_a_compiled_model_is_left_as_it_was(monkeypatch):
    monkeypatch.setattr(modes, "BACKEND", "eager")  # tracing alone: the rest of torch.compile takes a minute
    model = tiny_model("bert", num_hidden_layers=1).train()
    before = state_of(model)
    assert {finding.verdict for finding in run_audit(model, rules=["compile"])} == {"pass"}
    assert_same(before, state_of(model))


def test_a_model_is_left_as_it_was_when_it_raises_on_the_way():
    model = Stateful()
    before = state_of(model)
    model.norm.register_forward_hook(lambda *given: 1 / 0)
    hooked = state_of(model)
    (finding,) = run_audit(model, **IDS)
    assert finding.reason.startswith("ZeroDivisionError")
    assert_same({**before, "hooks": hooked["hooks"]}, state_of(model))
