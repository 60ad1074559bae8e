"""Models at the edge of what there is: few positions or ids, no padding, no weights, another dtype, odd methods."""

from __future__ import annotations

import pytest
import torch
from planted_models import IDS, QUICK, D, Plain, V, assert_passes, broken
from torch import nn

from maskwright.audit.runner import run_audit
from maskwright.audit.tiny import tiny_model
from maskwright.cli.main import main
from maskwright.errors import InputError


@pytest.mark.parametrize("pad", [None, -1, 97])
def test_no_pad_token(pad):
    model = tiny_model("gpt2", pad_token_id=pad) if pad is None else tiny_model("gpt2")
    model.config.pad_token_id = pad
    assert_passes(run_audit(model), QUICK)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_a_model_of_another_dtype(dtype):
    model = tiny_model("bert").to(dtype)
    assert_passes(run_audit(model), QUICK)
    assert {p.dtype for p in model.parameters()} == {dtype}
    forward = model.forward
    model.forward = lambda input_ids, attention_mask=None, **more: forward(input_ids, **more)
    assert "padding-amount" in broken(run_audit(model, rules=["padding-amount"]))


@pytest.mark.parametrize("kind", ["bert", "roberta", "gpt2"])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_positions(kind, n):
    offset = 2 if kind == "roberta" else 0
    found = run_audit(tiny_model(kind, max_position_embeddings=n + offset, num_hidden_layers=1))
    assert_passes(found, ["padding-amount", "padding-content"])
    assert any(f"the model has {n}" in finding.reason for finding in found)


@pytest.mark.parametrize("n", [1, 3, 5])
def test_few_positions_that_no_configuration_tells(n):
    found = run_audit(Plain(n_positions=n), **IDS)
    assert_passes(found, ["padding-amount", "padding-content"])
    assert any(f"the model has {n}" in finding.reason for finding in found)


@pytest.mark.parametrize("n", [1, 2])
def test_a_vocabulary_without_choice(n):
    model = tiny_model("bert", vocab_size=n, pad_token_id=0)
    assert_passes(run_audit(model), QUICK)


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
    assert [finding.module for finding in found.failures] == [""]  # the mean is taken in its own forward


def test_no_parameters():
    class Counts(nn.Module):
        def forward(self, input_ids, attention_mask=None):
            keep = torch.ones_like(input_ids) if attention_mask is None else attention_mask
            return nn.functional.one_hot(input_ids, V).float() * keep[..., None].float()

    assert_passes(run_audit(Counts(), **IDS), ["padding-amount", "padding-content", "row-order"])


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
    # Its int8 scale spans the whole batch, padding and neighbours included; it has no float16.
    assert broken(found) == {"padding-amount", "padding-content", "neighbours"}
    assert {finding.cause for finding in found.failures} == {"rows-mixed"}
    assert {finding.verdict for finding in found if finding.rule == "narrow-dtypes"} == {"not applicable"}
    assert {finding.verdict for finding in found if finding.rule in ("repeatable", "row-order", "options")} == {"pass"}


def test_an_eval_that_gives_nothing_back():
    model = Plain()
    model.eval = lambda: None
    assert_passes(run_audit(model, **IDS, rules=QUICK), QUICK)


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
