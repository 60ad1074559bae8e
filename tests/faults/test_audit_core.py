"""The audit on models that are right, and on the same models with a fault planted: verdict, module and cause."""

from __future__ import annotations

import json

import pytest
import torch
from planted_models import assert_passes, broken, model_of
from torch import nn

from maskwright.audit.compare import Check, judge
from maskwright.audit.locate import first_module
from maskwright.audit.runner import run_audit
from maskwright.audit.subject import Subject
from maskwright.audit.trial import Trial, lay
from maskwright.cli.main import main
from maskwright.errors import InputError

RIGHT = ["bert", "roberta", "distilbert", "electra", "esm", "modernbert", "gpt2", "llama", "t5", "albert"]


def change_mask(model, change):
    forward = model.forward
    model.forward = lambda input_ids, attention_mask=None: forward(input_ids, attention_mask=change(attention_mask))
    return model


@pytest.fixture(scope="module")
def mobilebert():
    """The findings about a model whose padding leaks into the tokens beside it."""
    return run_audit(model_of("mobilebert"))


@pytest.mark.parametrize("kind", RIGHT)
def test_models_that_are_right_are_clean(kind):
    found = run_audit(model_of(kind), name=kind)
    assert_passes(found, ["padding-amount", "padding-content", "neighbours", "gradient"])


@pytest.mark.parametrize("kind", ["bert", "distilbert", "modernbert"])
def test_a_mask_that_never_arrives(kind):
    found = run_audit(change_mask(model_of(kind), lambda keep: None), rules=["padding-amount"])
    assert {finding.cause for finding in found.failures} == {"mask-never-arrives"}
    assert all("atten" in finding.module or "attn" in finding.module for finding in found.failures)


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_an_inverted_mask(kind):
    def inverted(keep):
        return None if keep is None else 1 - keep if keep.any() and not keep.all() else keep

    found = run_audit(change_mask(model_of(kind), inverted), rules=["padding-amount"])
    assert {finding.cause for finding in found.failures} == {"polarity"}


def test_dropout_left_on():
    model = model_of("bert")
    layer = model.encoder.layer[1].output.dropout
    layer.forward = lambda x: nn.functional.dropout(x, 0.1, training=True)
    found = run_audit(model, rules=["repeatable"])
    (failure,) = found.failures
    assert (failure.cause, failure.module) == ("random-in-evaluation", "encoder.layer.1.output.dropout")


def test_an_encoder_that_turns_causal():
    model = model_of("bert", is_decoder=True)
    found = run_audit(model, direction="bidirectional", rules=["backward-attention"])
    assert {finding.cause for finding in found.failures} == {"causal-mask"}


def test_a_causal_model_that_sees_the_future():
    found = run_audit(model_of("bert"), direction="causal", rules=["future"])
    assert {finding.cause for finding in found.failures} == {"no-causal-mask"}
    assert all(finding.module.startswith("encoder.layer.0.attention") for finding in found.failures)


def test_the_live_fault_of_mobilebert(mobilebert):
    found = mobilebert
    assert broken(found) == {"padding-content", "padding-values", "gradient", "holes", "packing-blocks"}
    assert found.failures[0].module == "embeddings"
    assert found.failures[0].cause == "border"


class MeanOfAllSlots(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(61, 7)

    def forward(self, input_ids, attention_mask=None):
        states = self.embed(input_ids)
        return states, states.mean(1)


def test_a_mean_over_padding():
    found = run_audit(MeanOfAllSlots(), vocab_size=61, pad_id=0)
    assert {finding.cause for finding in found.failures} == {"pooling", "gradient-into-padding"}
    assert {"padding-amount", "padding-content"} <= broken(found)


class Rounding(nn.Module):
    """Adds a row's own sum, which a padded row forms in another order: float32 noise, and nothing else."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(61, 7)
        nn.init.normal_(self.embed.weight, mean=1e3)

    def forward(self, input_ids, attention_mask=None):
        states = self.embed(input_ids) * attention_mask[..., None]
        ordered = states if attention_mask.all() else states.flip(1)
        total = ordered[:, 0]
        for slot in range(1, ordered.shape[1]):
            total = total + ordered[:, slot]
        return states + 100 * (total - total.mean(-1, keepdim=True))[:, None]


def test_rounding_is_told_from_a_leak():
    subject = Subject(Rounding(), vocab_size=61, pad_id=0)
    (row,) = subject.sequences(37)
    outcome = judge(Check("pads", Trial((row,)), Trial((row,), n_pads=11), [(0, 0)]), subject)
    assert outcome.verdict == "noise"
    assert outcome.single.effect > 2e-6
    assert outcome.exact.effect < 1e-9


def test_a_model_that_raises_is_a_finding():
    def raises(input_ids, attention_mask=None):
        raise RuntimeError("no such thing")

    model = MeanOfAllSlots()
    model.forward = raises
    found = run_audit(model, vocab_size=61, pad_id=0, rules=["row-order"])
    assert found.failures[0].verdict == "error"
    assert "RuntimeError: no such thing" in found.failures[0].reason


def test_what_is_allowed_is_no_failure():
    model = change_mask(model_of("bert"), lambda keep: None)
    found = run_audit(model, rules=["padding-amount"], allow={"padding-amount": "rows are never padded here"})
    assert found.is_clean
    assert found[0].allowed == "rows are never padded here"
    with pytest.raises(InputError, match="no rule is called 'padding'"):
        run_audit(model, allow={"padding": "x"})


def test_the_script_shows_the_fault(mobilebert, capsys):
    exec(compile(mobilebert.failures[0].script, "script", "exec"), {})
    shown = [float(line) for line in capsys.readouterr().out.split()]
    assert max(shown) > 1e-3


def test_tokens_are_found_wherever_they_lie():
    rows = (torch.tensor([7, 8, 9]), torch.tensor([10]))
    model = MeanOfAllSlots()
    subject = Subject(model, vocab_size=61, pad_id=0)
    right, left = subject(Trial(rows, n_pads=2)), subject(Trial(rows, order=((1,), (0,)), side="left"))
    for sequence in (0, 1):
        assert torch.equal(right.tokens["0"][sequence], left.tokens["0"][sequence])
    assert lay(Trial(rows, n_pads=1), 0).keep.tolist() == [[True] * 3 + [False], [True] + [False] * 3]
    laid = [(right, [[7, 8, 9, 0, 0], [10, 0, 0, 0, 0]]), (left, [[7, 8, 9], [0, 0, 10]])]
    for outputs, expected in laid:
        for sequence, ids in enumerate(expected):
            assert torch.equal(outputs.rows["1"][sequence], model.embed(torch.tensor(ids)).mean(0))


def test_the_module_is_the_one_that_makes_the_difference_of_equal_inputs():
    subject = Subject(model_of("mobilebert"))
    rows = subject.sequences(7)
    check = Check("fill", Trial(rows, n_pads=3), Trial(rows, n_pads=3, fill=9), [(0, 0)])
    before = {name: value.clone() for name, value in subject.model.state_dict().items()}
    with subject.cast_to(torch.float64):
        assert subject.dtype == torch.float64
        assert first_module(check, subject) == "embeddings"
    assert all(torch.equal(value, before[name]) for name, value in subject.model.state_dict().items())


def test_the_command_says_what_is_wrong_and_writes_it_down(tmp_path, capsys):
    options = ["--rules", "padding-content", "row-order", "--output", str(tmp_path)]
    assert main(["audit", "--arch", "mobilebert", *options]) == 1
    printed = capsys.readouterr().out
    assert "padding-content" in printed
    assert "only the tokens beside the padding differ" in " ".join(printed.split())
    records = json.loads((tmp_path / "audit.json").read_text("utf-8"))
    assert records[0]["subject"] == "mobilebert"
    assert {finding["verdict"] for finding in records[0]["findings"] if finding["rule"] == "row-order"} == {"pass"}
    assert "```python" in (tmp_path / "audit.md").read_text("utf-8")
    sarif = json.loads((tmp_path / "audit.sarif").read_text("utf-8"))
    assert {result["ruleId"] for result in sarif["runs"][0]["results"]} == {"padding-content"}


def test_the_command_on_what_is_right_and_on_what_is_allowed(tmp_path, capsys):
    assert main(["audit", "--arch", "bert", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["is_clean"] is True
    (tmp_path / "allow.yaml").write_text("padding-content: rows have one length\n", "utf-8")
    options = ["--rules", "padding-content", "--allow", str(tmp_path / "allow.yaml")]
    assert main(["audit", "--arch", "mobilebert", *options]) == 0
    assert "rows have one length" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name one of MODEL"),
        (["--arch", "nothing"], "knows no model type 'nothing'"),
        (["./nowhere"], "no such folder"),
        (["--python", "nowhere.py:f"], "must be file.py:name"),
        (["--arch", "bert", "--rules", "none"], "no rule is called 'none'"),
    ],
)
def test_bad_use_is_one_line(words, message, capsys):
    assert main(["audit", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_module_from_a_file(tmp_path, capsys):
    file = tmp_path / "mine.py"
    source = """
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(31, 7)

    def forward(self, input_ids, attention_mask=None):
        states = self.embed(input_ids)
        return states, states.mean(1)

def make():
    return Model()

def wrong():
    return 3
"""
    file.write_text(source, "utf-8")
    sizes = ["--vocab_size", "31", "--pad_id", "0"]
    assert main(["audit", "--python", f"{file}:make", *sizes, "--rules", "padding-amount"]) == 1
    assert "padded slots take part in the pooling" in " ".join(capsys.readouterr().out.split())
    assert main(["audit", "--python", f"{file}:wrong", *sizes]) == 2
    assert "gives a int, not a torch module" in capsys.readouterr().err
