"""Models that do not play along: always a finding or an error in a sentence, and the model left as it was."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from transformers.modeling_outputs import BaseModelOutput

from maskwright.audit.runner import run_audit
from maskwright.audit.tiny import tiny_model
from maskwright.cli.main import main
from maskwright.errors import InputError

V, D = 31, 7
IDS = {"vocab_size": V, "pad_id": 0}
QUICK = ["padding-amount", "padding-side", "padding-content", "empty-row", "neighbours", "repeatable", "row-order"]


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


class Plain(nn.Module):
    """Each token's embedding plus the mean over the kept ones; `wrapped` makes of both what the model gives back."""

    def __init__(self, wrapped: Any = WRAPPINGS["tuple"], n_positions: int = 0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(V, D)
        self.place = nn.Embedding(n_positions, D) if n_positions else None
        self.wrapped = wrapped

    def forward(self, input_ids, attention_mask=None):
        return self.wrapped(*self.states(input_ids, attention_mask))

    def states(self, ids, keep):
        states = self.embed(ids)
        if self.place is not None:
            states = states + self.place(torch.arange(ids.shape[1]))
        weight = torch.ones_like(ids) if keep is None else keep
        weight = weight[..., None].to(states.dtype)
        pooled = (states * weight).sum(1) / weight.sum(1).clamp(min=1)
        return states + pooled[:, None], pooled


class Called(Plain):
    """A `Plain` with another forward, which is planted by the test."""


def called(forward) -> nn.Module:
    kind = type("Called", (Plain,), {"forward": forward})
    return kind()


def broken(found) -> set[str]:
    return {finding.rule for finding in found.failures}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_outputs_in_any_wrapping(wrapping):
    found = run_audit(Plain(WRAPPINGS[wrapping]), **IDS, rules=QUICK)
    assert found.is_clean, [finding.to_dict() for finding in found.failures]
    assert {finding.rule for finding in found if finding.verdict == "pass"} == set(QUICK)


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
    assert found.is_clean, [finding.to_dict() for finding in found.failures]
    assert {finding.rule for finding in found if finding.verdict == "pass"} == set(QUICK)


def test_arguments_by_place_alone():
    def forward(self, tokens, keep, /):
        return self.states(tokens, keep)

    assert run_audit(called(forward), **IDS, rules=QUICK).is_clean


def test_a_mask_that_must_be_given_is_not_left_out():
    model = called(lambda self, tokens, keep: self.states(tokens, keep))
    found = run_audit(model, **IDS, direction="bidirectional", rules=["backward-attention"])
    assert found.is_clean
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

    assert run_audit(Wrapper(True)).is_clean
    found = run_audit(Wrapper(False), rules=["padding-amount"])
    assert found.failures[0].cause == "mask-never-arrives"
    assert found.failures[0].module.startswith("encoder.encoder.layer.0.attention")


@pytest.mark.parametrize("pad", [None, -1, 97])
def test_no_pad_token(pad):
    model = tiny_model("gpt2", pad_token_id=pad) if pad is None else tiny_model("gpt2")
    model.config.pad_token_id = pad
    found = run_audit(model)
    assert found.is_clean, [finding.to_dict() for finding in found.failures]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_a_model_of_another_dtype(dtype):
    model = tiny_model("bert").to(dtype)
    found = run_audit(model)
    assert found.is_clean, [finding.to_dict() for finding in found.failures]
    assert {p.dtype for p in model.parameters()} == {dtype}
    forward = model.forward
    model.forward = lambda input_ids, attention_mask=None, **more: forward(input_ids, **more)
    assert "padding-amount" in broken(run_audit(model, rules=["padding-amount"]))


@pytest.mark.parametrize("kind", ["bert", "roberta", "gpt2"])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_positions(kind, n):
    offset = 2 if kind == "roberta" else 0
    found = run_audit(tiny_model(kind, max_position_embeddings=n + offset, num_hidden_layers=1))
    assert found.is_clean, [finding.to_dict() for finding in found.failures]
    assert "error" not in {finding.verdict for finding in found}
    assert any(f"the model has {n}" in finding.reason for finding in found)


@pytest.mark.parametrize("n", [1, 3, 5])
def test_few_positions_that_no_configuration_tells(n):
    found = run_audit(Plain(n_positions=n), **IDS)
    assert found.is_clean, [finding.to_dict() for finding in found.failures]
    assert any(f"the model has {n}" in finding.reason for finding in found)


@pytest.mark.parametrize("n", [1, 2])
def test_a_vocabulary_without_choice(n):
    model = tiny_model("bert", vocab_size=n, pad_token_id=0)
    found = run_audit(model)
    assert found.is_clean, [finding.to_dict() for finding in found.failures]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"vocab_size": 0}, "vocabulary is not known"),
        ({"vocab_size": -3}, "vocabulary is not known"),
        ({}, "vocabulary is not known"),
        ({"vocab_size": V, "pad_id": V}, "must be an id of the vocabulary of 31, got 31"),
        ({"vocab_size": V, "pad_id": -1}, "must be an id of the vocabulary of 31, got -1"),
    ],
)
def test_ids_that_are_none(given, message):
    with pytest.raises(InputError, match=message):
        run_audit(Plain(), **given)


def test_a_vocabulary_that_is_smaller_than_said():
    (finding,) = run_audit(Plain(), vocab_size=5000)
    assert finding.reason.startswith("IndexError")


def test_modules_shared_by_two_places():
    class Twice(Plain):
        def __init__(self):
            super().__init__()
            self.one = nn.Linear(D, D)
            self.layers = nn.ModuleList([self.one, self.one])

        def forward(self, input_ids, attention_mask=None):
            states, _ = self.states(input_ids, attention_mask)
            first = self.layers[0](states)
            return self.layers[1](first + first.mean(1, keepdim=True))

    found = run_audit(Twice(), **IDS, rules=["padding-content"])
    assert [finding.module for finding in found.failures] == ["one#2"]


def test_no_parameters():
    class Counts(nn.Module):
        def forward(self, input_ids, attention_mask=None):
            keep = torch.ones_like(input_ids) if attention_mask is None else attention_mask
            return nn.functional.one_hot(input_ids, V).float() * keep[..., None].float()

    found = run_audit(Counts(), **IDS)
    assert found.is_clean, [finding.to_dict() for finding in found.failures]


def test_no_numbers():
    with torch.device("meta"):
        model = Plain()
    with pytest.raises(InputError, match="meta device"):
        run_audit(model, **IDS)
    lazy = Plain()
    lazy.more = nn.LazyLinear(3)
    with pytest.raises(InputError, match="call it once before"):
        run_audit(lazy, **IDS)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_quantised_model():
    model = torch.ao.quantization.quantize_dynamic(tiny_model("bert"), {nn.Linear}, dtype=torch.qint8)
    found = run_audit(model, rules=[*QUICK, "options", "narrow-dtypes"])
    assert all(finding.reason for finding in found.failures)
    assert {finding.rule for finding in found} == {*QUICK, "options", "narrow-dtypes"}


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


def test_an_eval_that_gives_nothing_back():
    model = Plain()
    model.eval = lambda: None
    assert run_audit(model, **IDS, rules=QUICK).is_clean


def test_hostile_modules_from_a_file(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text(
        "import torch\nfrom torch import nn\n"
        "def meta():\n    with torch.device('meta'):\n        return nn.Embedding(31, 7)\n"
        "def raises():\n    return 1 / 0\n"
        "embedding = nn.Embedding(31, 7)\n",
        "utf-8",
    )
    sizes = ["--vocab_size", "31", "--pad_id", "0"]
    assert main(["audit", "--python", f"{file}:meta", *sizes]) == 2
    assert "meta device" in capsys.readouterr().err
    assert main(["audit", "--python", f"{file}:raises", *sizes]) == 2
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert main(["audit", "--python", f"{file}:embedding", *sizes]) == 0
