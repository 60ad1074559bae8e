"""The embedding correction: its formula, what it must leave alone, and that it is the mean of what corruption does."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AlbertConfig,
    AlbertForMaskedLM,
    AutoModelForMaskedLM,
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertModel,
    BertTokenizer,
)

from maskwright.cli.main import main
from maskwright.errors import InputError
from maskwright.objectives.correction import expected_embeddings
from maskwright.objectives.corruption import Corruption, Shares, stream
from maskwright.training.correct import correct_embeddings
from maskwright.training.pretrain.config import PretrainConfig
from maskwright.training.runs import write_config

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]
SPECIAL = range(5)
CASES = [(0.15, Shares()), (0.4, Shares(1.0, 0.0, 0.0)), (0.3, Shares(0.2, 0.3, 0.5)), (1.0, Shares(0.0, 0.0, 1.0))]


def oracle(table, mask, rate, shares, keep=()):
    """A row at a time, as an expectation over what may stand there."""
    out = np.empty_like(table)
    average = np.array([math.fsum(column) / len(column) for column in table.T])
    for i, own in enumerate(table):
        outcomes = [
            (1 - rate, own),
            (rate * shares[0], table[mask]),
            (rate * shares[1], own),
            (rate * shares[2], average),
        ]
        out[i] = own if i in keep else sum(weight * vector for weight, vector in outcomes)
    return out


@pytest.mark.parametrize(("rate", "shares"), CASES)
def test_the_formula(rate, shares):
    table = torch.randn(13, 7, dtype=torch.float64, generator=stream(0))
    keep = torch.tensor([0, 2, 4])
    wanted = oracle(table.numpy(), 4, rate, shares, {0, 2, 4})
    np.testing.assert_allclose(expected_embeddings(table, 4, rate, shares, keep).numpy(), wanted, atol=1e-14)
    assert torch.equal(expected_embeddings(table, 4, 0.0, shares), table)


@pytest.mark.parametrize(("rate", "shares"), CASES)
def test_it_is_the_mean_of_what_corruption_does(rate, shares):
    """100,003 draws a token, random replacements from the whole table as the formula has it."""
    n, table = 100_003, torch.randn(13, 7, dtype=torch.float64, generator=stream(1))
    corruption = Corruption(4, torch.arange(13), rate, shares)
    expected = expected_embeddings(table, 4, rate, shares)
    for token in (5, 11):
        ids = torch.full((n, 1), token)
        out, _ = corruption(ids, torch.ones_like(ids, dtype=torch.bool), stream(2, token))
        seen = table[out[:, 0]]
        error = seen.std(0) / math.sqrt(n)
        assert ((seen.mean(0) - expected[token]).abs() < 5.5 * error + 1e-12).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 1.5}, r"rate: must be in \[0, 1\]"),
        ({"shares": Shares(0.5, 0.1, 0.1)}, "add up to 1"),
        ({"mask_id": 13}, "not a row"),
    ],
)
def test_numbers_that_make_no_sense(options, message):
    with pytest.raises(InputError, match=message):
        expected_embeddings(torch.zeros(13, 7), **({"mask_id": 4} | options))


def small(cls, **options):
    torch.manual_seed(0)
    return cls(
        vocab_size=13, hidden_size=22, num_attention_heads=2, num_hidden_layers=3, intermediate_size=17, **options
    )


def save(model, folder, tokens=TOKENS):
    model.save_pretrained(folder)
    BertTokenizer(vocab={token: i for i, token in enumerate(tokens)}).save_pretrained(folder)
    return folder


MODELS = {
    "bert, tied": lambda: BertForMaskedLM(small(BertConfig)),
    "albert, factorised": lambda: AlbertForMaskedLM(small(AlbertConfig, embedding_size=11)),
    "bert, untied": lambda: BertForMaskedLM(small(BertConfig, tie_word_embeddings=False)),
}


@pytest.mark.parametrize("kind", list(MODELS))
def test_only_the_input_table_changes(kind, tmp_path):
    model = MODELS[kind]().eval()
    done = correct_embeddings(save(model, tmp_path / "in"), tmp_path / "out", rate=0.3)
    again = AutoModelForMaskedLM.from_pretrained(tmp_path / "out").eval()
    old, new = model.get_input_embeddings().weight.detach(), again.get_input_embeddings().weight.detach()
    wanted = oracle(old.double().numpy(), 4, 0.3, Shares(), set(SPECIAL))
    np.testing.assert_allclose(new.numpy(), wanted, atol=1e-7)
    assert torch.equal(new[:5], old[:5])
    assert (new[5:] != old[5:]).any(1).all()
    assert torch.equal(again.get_output_embeddings().weight, model.get_output_embeddings().weight)
    assert (done.changed, done.kept, done.untied) == (8, 5, kind != "bert, untied")
    head = next(name for name, module in model.named_modules() if module is model.get_output_embeddings())
    changed = {
        name
        for name, value in model.named_parameters(remove_duplicate=False)
        if not torch.equal(value, dict(again.named_parameters(remove_duplicate=False))[name])
    }
    assert changed == {done.table}
    assert f"{head}.weight" not in changed
    states = torch.randn(1, 5, old.shape[1])
    assert torch.equal(model.get_output_embeddings()(states), again.get_output_embeddings()(states))
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "r = 0.3, a = 0.8, b = 0.1, c = 0.1" in card


def test_an_encoder_without_a_head(tmp_path):
    model = BertModel(small(BertConfig), add_pooling_layer=False)
    done = correct_embeddings(save(model, tmp_path / "in"), tmp_path / "out")
    assert done.untied is False
    assert "decoder" not in "".join(load_file(tmp_path / "out" / "model.safetensors"))
    again = BertModel.from_pretrained(tmp_path / "out", add_pooling_layer=False)
    assert not torch.equal(again.embeddings.word_embeddings.weight, model.embeddings.word_embeddings.weight)


def test_shards(tmp_path):
    model = MODELS["bert, tied"]()
    folder = save(model, tmp_path / "in")
    weights = load_file(folder / "model.safetensors")
    names = sorted(weights)
    (folder / "model.safetensors").unlink()
    parts = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, part in parts.items():
        save_file({name: weights[name] for name in part}, folder / file, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": {name: file for file, part in parts.items() for name in part}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    correct_embeddings(folder, tmp_path / "out")
    again = BertForMaskedLM.from_pretrained(tmp_path / "out")
    assert torch.equal(again.cls.predictions.decoder.weight, model.cls.predictions.decoder.weight)
    assert not torch.equal(again.bert.embeddings.word_embeddings.weight, model.cls.predictions.decoder.weight)


def test_a_real_checkpoint(shared_data, tmp_path):
    folder = shared_data / "models" / "bert-tiny-splade-en"
    correct_embeddings(folder, tmp_path / "out")
    model, again = (AutoModelForMaskedLM.from_pretrained(path).eval() for path in (folder, tmp_path / "out"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    table = model.get_input_embeddings().weight.detach().double().numpy()
    wanted = oracle(table, tokenizer.mask_token_id, 0.15, Shares(), set(tokenizer.all_special_ids))
    found = again.get_input_embeddings().weight.detach().numpy()
    np.testing.assert_allclose(found, wanted, rtol=2**-10, atol=1e-7)  # the file is in float16
    assert torch.equal(again.get_output_embeddings().weight, model.get_output_embeddings().weight)
    states = torch.randn(1, 7, model.config.hidden_size)
    assert torch.equal(model.cls(states), again.cls(states))


def test_what_cannot_be_corrected_says_why(tmp_path):
    folder = save(MODELS["bert, tied"](), tmp_path / "in")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("x", encoding="utf-8")
    with pytest.raises(InputError, match="not empty"):
        correct_embeddings(folder, tmp_path / "full")
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    tokenizer["mask_token"] = None
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    with pytest.raises(InputError, match=r"no \[MASK\] token"):
        correct_embeddings(folder, tmp_path / "out")
    (folder / "model.safetensors").unlink()
    save(MODELS["bert, tied"](), tmp_path / "bare")
    (tmp_path / "bare" / "model.safetensors").unlink()
    with pytest.raises(InputError, match="only safetensors"):
        correct_embeddings(tmp_path / "bare", tmp_path / "out")


def test_the_command(tmp_path, capsys):
    save(MODELS["bert, tied"](), tmp_path / "in")
    assert main(["correct", str(tmp_path / "in"), str(tmp_path / "out"), "--rate", "0.4", "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert (out["rate"], out["changed"], out["table"]) == (0.4, 8, "bert.embeddings.word_embeddings.weight")
    assert main(["correct", str(tmp_path / "in"), str(tmp_path / "out")]) == 2
    assert "not empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("run", "wanted"),
    [
        ({"rate": 0.4, "shares": [1.0, 0.0, 0.0]}, (0.4, (1.0, 0.0, 0.0))),
        ({"rate": 0.3, "final_rate": 0.1}, (0.2, (0.8, 0.1, 0.1))),
        (None, (0.15, (0.8, 0.1, 0.1))),
    ],
)
def test_rate_and_shares_come_from_the_run_itself(tmp_path, run, wanted):
    source = save(MODELS["bert, tied"](), tmp_path / "model")
    if run is not None:
        write_config(source, PretrainConfig(corpus=["text"], model="some", **run))
    done = correct_embeddings(source, tmp_path / "out")
    assert (done.rate, done.shares) == (pytest.approx(wanted[0]), wanted[1])
    assert correct_embeddings(source, tmp_path / "other", rate=0.7, shares=(0.5, 0.5, 0.0)).rate == 0.7


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ({"objective": "mae"}, "never saw"),
        ({"nearest": 7}, "similar words"),
        ({"thesaurus": "t.json"}, "similar words"),
    ],
)
def test_a_run_that_leaves_nothing_to_correct_is_refused(tmp_path, run, message):
    source = save(MODELS["bert, tied"](), tmp_path / "model")
    write_config(source, PretrainConfig(corpus=["text"], model="some", **run))
    with pytest.raises(InputError, match=message):
        correct_embeddings(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()
