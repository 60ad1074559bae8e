"""Models of any signature and any kind of result: a right one is clean, a wrong one a finding in a sentence."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass

import pytest
import torch
from planted_models import IDS, QUICK, D, Plain, assert_passes, broken, called
from torch import nn
from transformers.modeling_outputs import BaseModelOutput

from maskwright.audit.runner import run_audit
from maskwright.audit.tiny import tiny_model


@dataclass
class Held:
    states: torch.Tensor
    pooled: torch.Tensor


Named = namedtuple("Named", "states pooled")


WRAPPINGS = {
    "tensor": lambda states, pooled: states,
    "tuple": lambda states, pooled: (states, pooled),
    "list": lambda states, pooled: [states, pooled],
    "dict": lambda states, pooled: {"states": states, "pooled": pooled, 3: None},
    "named tuple": Named,
    "dataclass": Held,
    "transformers": lambda states, pooled: BaseModelOutput(last_hidden_state=states, hidden_states=(states, pooled)),
    "nested": lambda states, pooled: {"a": [Held(states, pooled), {"b": (None, "text", 3)}]},
}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_outputs_in_any_wrapping(wrapping):
    assert_passes(run_audit(Plain(WRAPPINGS[wrapping]), **IDS, rules=QUICK), QUICK)


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_a_leak_in_any_wrapping(wrapping):
    leaky = called(lambda self, input_ids, attention_mask=None: self.wrapped(*self.states(input_ids, None)))
    leaky.wrapped = WRAPPINGS[wrapping]
    found = run_audit(leaky, **IDS, rules=QUICK)
    assert {"padding-amount", "padding-content"} <= broken(found)


@pytest.mark.parametrize(
    "nothing",
    [
        lambda states, pooled: None,
        lambda states, pooled: "text",
        lambda states, pooled: states.argmax(-1),
        lambda states, pooled: states.sum(),
        lambda states, pooled: states.flatten(0, 1),
        lambda states, pooled: ({}, [], iter(())),
    ],
    ids=["None", "text", "ids", "scalar", "flat", "empty"],
)
def test_outputs_that_cannot_be_compared(nothing):
    (finding,) = run_audit(Plain(nothing), **IDS)
    assert (finding.rule, finding.verdict) == ("callable", "error")
    assert "no floating-point tensor" in finding.reason


@pytest.mark.parametrize("error", [RuntimeError, KeyError, AssertionError, RecursionError, StopIteration, MemoryError])
def test_a_model_that_raises(error):
    def raises(self, input_ids, attention_mask=None):
        raise error("no\nsuch thing")

    (finding,) = run_audit(called(raises), **IDS)
    assert finding.verdict == "error"
    assert finding.reason.startswith(error.__name__)
    assert "\n" not in finding.reason


def test_a_model_that_raises_where_rows_are_padded():
    def raises(self, input_ids, attention_mask=None):
        if attention_mask is not None and not attention_mask.all():
            raise IndexError("padding is not for me")
        return self.states(input_ids, attention_mask)

    found = run_audit(called(raises), **IDS)
    assert "padding-amount" in broken(found)
    assert "repeatable" in broken(found)
    assert all("padding is not for me" in finding.reason for finding in found.failures)


def test_a_model_that_takes_no_mask():
    found = run_audit(called(lambda self, tokens: self.states(tokens, None)), **IDS)
    causes = {finding.cause for finding in found.failures if finding.rule == "padding-amount"}
    assert causes == {"mask-never-arrives"}


FORWARDS = {
    "other names": lambda self, tokens, keep: self.states(tokens, keep),
    "another order": lambda self, attention_mask, input_ids: self.states(input_ids, attention_mask),
    "the mask last": lambda self, input_ids, token_type_ids=None, labels=None, attention_mask=None: self.states(
        input_ids, attention_mask
    ),
    "token types": lambda self, input_ids, attention_mask, token_type_ids: self.states(
        input_ids + token_type_ids, attention_mask
    ),
    "positions": lambda self, input_ids, position_ids, attention_mask=None: self.states(
        input_ids + 0 * position_ids, attention_mask
    ),
    "boxes": lambda self, input_ids, bbox, attention_mask=None: self.states(input_ids + bbox.sum(-1), attention_mask),
    "by place": lambda self, *given: self.states(given[0], given[1] if len(given) > 1 else None),
    "by name": lambda self, **given: self.states(given["input_ids"], given.get("attention_mask")),
    "anything": lambda self, *places, **named: self.states(places[0], (*places[1:], None)[0]),
    "by name alone": lambda self, *, input_ids, attention_mask=None: self.states(input_ids, attention_mask),
}


@pytest.mark.parametrize("forward", FORWARDS)
def test_arguments_in_any_order(forward):
    found = run_audit(called(FORWARDS[forward]), **IDS, rules=QUICK, direction="bidirectional")
    assert_passes(found, QUICK)


def test_arguments_by_place_alone():
    def forward(self, tokens, keep, /):
        return self.states(tokens, keep)

    assert_passes(run_audit(called(forward), **IDS, rules=QUICK), QUICK)


def test_a_mask_that_must_be_given_is_not_left_out():
    model = called(lambda self, tokens, keep: self.states(tokens, keep))
    found = run_audit(model, **IDS, direction="bidirectional", rules=["backward-attention"])
    assert_passes(found)
    assert any("cannot be called without a mask" in finding.reason for finding in found)


def test_an_argument_that_cannot_be_made_up():
    model = called(lambda self, input_ids, attention_mask, pixel_values: pixel_values)
    (finding,) = run_audit(model, **IDS)
    assert "it needs 'pixel_values', which cannot be made up: wrap it" in finding.reason


def test_a_wrapper_with_names_of_its_own():
    class Wrapper(nn.Module):
        def __init__(self, use_mask):
            super().__init__()
            self.encoder = tiny_model("bert")
            self.use_mask = use_mask

        def forward(self, tokens, keep=None):
            return self.encoder(tokens, attention_mask=keep if self.use_mask else None).last_hidden_state

    assert_passes(run_audit(Wrapper(True)), ["padding-amount", "padding-content", "row-order"])
    found = run_audit(Wrapper(False), rules=["padding-amount"])
    assert found.failures[0].cause == "mask-never-arrives"
    assert found.failures[0].module.startswith("encoder.encoder.layer.0.attention")


def test_outputs_that_the_next_call_overwrites():
    class Reuses(Plain):
        def __init__(self):
            super().__init__()
            self.register_buffer("out", torch.zeros(4, 64, D), persistent=False)

        def forward(self, input_ids, attention_mask=None):
            states, _ = self.states(input_ids, None)
            n_rows, width = input_ids.shape
            self.out[:n_rows, :width] = states.to(self.out.dtype)
            return self.out[:n_rows, :width]

    assert "padding-content" in broken(run_audit(Reuses(), **IDS))
