"""`maskwright gap`: what it writes and says, bad use, a real model."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, BertModel, LongformerConfig

from maskwright.cli.main import main
from maskwright.training.gap.report import Comparison, GapRow, run_gap
from maskwright.training.gap.texts import sample
from maskwright.training.gap.words import summary
from maskwright.training.pretrain.config import PretrainConfig
from maskwright.training.runs import write_config
from parity import zoo


@pytest.fixture
def place(tmp_path, letters):
    torch.manual_seed(0)
    sizes = {"hidden_size": 22, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 17}
    model = zoo.spread(BertModel(BertConfig(vocab_size=31, max_position_embeddings=19, **sizes)))
    model.save_pretrained(tmp_path / "model")
    letters.save_pretrained(tmp_path / "model")
    words = "abcdefghijklmnopqrstuvwxyz"
    texts = [" ".join(words[(i * j + j) % 26] for j in range(1, 4 + i % 11)) for i in range(1, 24)]
    (tmp_path / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
    rows = [json.dumps({"body": text}) for text in texts] + ["not json", json.dumps({"body": "z"})]
    (tmp_path / "texts.jsonl").write_text("\n".join(rows), encoding="utf-8")
    return tmp_path


def gap(place, *words, text="texts.txt"):
    options = ["--draws", "3", "--boundary", "line", "--output", str(place / "out"), *words]
    return main(["gap", str(place / "model"), str(place / text), *options])


def test_the_verb_writes_table_picture_and_json(place, capsys):
    assert gap(place, "--rates", "0.5", "0.2", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((place / "out" / "gap.json").read_text(encoding="utf-8"))
    assert (printed["noise"], printed["n_texts"], printed["n_draws"]) == ("mlm", 23, 3)
    found = {(r["rate"], r["reference"], r["where"], r["tokens"]) for r in printed["rows"]}
    layers = ("layer 0", "layer 1", "layer 2")
    references = ("plain", "corrected")
    wanted = {(p, r, w, "all") for p in (0.2, 0.5) for r in references for w in (*layers, "mean", "cls")}
    wanted |= {(p, r, w, "intact") for p in (0.2, 0.5) for r in references for w in layers}
    assert found == wanted
    assert len(printed["rows"]) == len(wanted)
    assert all(0 <= r["low"] <= r["high"] for r in printed["rows"])
    page = (place / "out" / "gap.md").read_text(encoding="utf-8")
    row = next(r for r in printed["rows"] if r["where"] == "mean" and r["reference"] == "corrected")
    assert f"{row['distance']:.3f} ({row['low']:.3f} to {row['high']:.3f})" in page
    assert "| | 0.2, plain | 0.2, corrected | 0.5, plain | 0.5, corrected |" in page
    assert (place / "out" / "gap.png").read_bytes().startswith(b"\x89PNG")


def test_the_verb_says_it_in_words(place, capsys):
    assert gap(place, "--noise", "mae", "--rates", "0.4") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "tokens hidden, in units of the spread" in out
    assert "Last layer: " in out
    assert "corrected" not in out
    assert "layer 0 0.000" in out
    assert gap(place, "--noise", "mlm", "--rates", "0.4") == 0
    assert "With corrected embeddings the model is closer in" in " ".join(capsys.readouterr().out.split())


def test_bad_lines_and_short_texts_are_counted(place, capsys):
    assert gap(place, "--noise", "droptoken", "--text_column", "body", "--json", text="texts.jsonl") == 0
    printed = capsys.readouterr()
    result = json.loads(printed.out)
    assert (result["n_texts"], result["n_too_short"], result["shares"]) == (23, 1, None)
    assert "texts.jsonl:24" in "".join(printed.err.split())


def test_the_same_seed_gives_the_same_numbers(place, capsys):
    rows = []
    for seed in ("0", "0", "1"):
        assert gap(place, "--rates", "0.4", "--texts", "13", "--seed", seed, "--json") == 0
        rows.append(json.loads(capsys.readouterr().out)["rows"])
    assert rows[0] == rows[1] != rows[2]


@pytest.mark.parametrize(
    ("run", "words", "wanted"),
    [
        ({"objective": "mae"}, [], ("mae", None)),
        ({"objective": "mae"}, ["--noise", "mlm"], ("mlm", [0.8, 0.1, 0.1])),
        ({"shares": [1.0, 0.0, 0.0]}, [], ("mlm", [1.0, 0.0, 0.0])),
        ({"shares": [1.0, 0.0, 0.0]}, ["--shares", "0.5", "0.5", "0"], ("mlm", [0.5, 0.5, 0.0])),
        (None, [], ("mlm", [0.8, 0.1, 0.1])),
    ],
)
def test_a_run_of_our_own_brings_its_noise(place, run, words, wanted, capsys):
    if run is not None:
        write_config(place / "model", PretrainConfig(corpus=["text"], model="some", **run))
    assert gap(place, "--rates", "0.3", "--json", *words) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["noise"], printed["shares"]) == wanted


def test_a_task_models_encoder_is_measured(place, capsys):
    base = BertModel.from_pretrained(place / "model")
    model = BertForSequenceClassification(base.config)
    model.bert.load_state_dict(base.state_dict())
    assert gap(place, "--rates", "0.4", "--json") == 0
    wanted = json.loads(capsys.readouterr().out)["rows"]
    model.save_pretrained(place / "model")
    assert gap(place, "--rates", "0.4", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"] == wanted


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rates", "2"], "rate: must be in [0, 1], got 2.0"),
        (["--shares", "0.5", "0.1", "0.1"], "shares: must be non-negative and add up to 1"),
        (["--texts", "1"], "texts: an interval over texts needs two at least, got 1"),
        (["--draws", "1"], "draws: noise can be told from distance with two draws or more, not 1"),
        (["--noise", "gauss"], "'gauss'"),
        (["--max_length", "20"], "max_length: 20 is more than the 19 positions"),
        (["--max_length", "2"], "max_length: 2 leaves no room for two tokens"),
        (["--boundary", "file"], "texts: two different documents are needed at least, found 1"),
    ],
)
def test_bad_use(place, words, message, capsys):
    assert gap(place, *words) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert len([line for line in printed.err.splitlines() if "error" in line]) == 1
    assert not (place / "out").exists()


def test_texts_are_drawn_from_all_and_differ():
    texts = [str(i % 97) for i in range(500)]
    found = [sample(texts, 11, seed) for seed in range(400)]
    assert found[0] == sample(texts, 11, 0)
    assert all(len(set(one)) == 11 for one in found)
    counts = np.bincount([int(text) for one in found for text in one], minlength=97)
    assert counts.min() > 15
    assert counts.max() < 85  # 45 expected, with a standard deviation of 6.3
    assert sorted(sample(texts, 997, 0)) == sorted(set(texts))


def test_a_tokenizer_without_mask_and_a_model_that_cannot_be_packed(place, capsys):
    config = json.loads((place / "model" / "tokenizer_config.json").read_text(encoding="utf-8"))
    config["mask_token"] = None
    (place / "model" / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    assert gap(place) == 2
    assert "tokenizer: has no [MASK] token: measure --noise mae or droptoken" in capsys.readouterr().err
    assert gap(place, "--noise", "mae") == 0
    capsys.readouterr()
    from transformers import LongformerModel

    sizes = {"hidden_size": 22, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 17}
    LongformerModel(LongformerConfig(vocab_size=31, attention_window=[4], **sizes)).save_pretrained(place / "model")
    assert gap(place, "--noise", "mae") == 2
    assert "longformer cannot be packed exactly" in capsys.readouterr().err


def test_the_words():
    def row(rate, reference, distance, low, high):
        return GapRow("mlm", rate, reference, "layer 2", "all", distance, low, high, 0.1)

    rows = [row(0.1, "plain", 0.5, 0.4, 0.6), row(0.2, "plain", 0.8, 0.7, 0.9), row(0.3, "plain", 0.05, 0.0, 0.1)]
    pairs_of = [
        Comparison(0.1, "layer 2", "all", -0.1, -0.2, -0.05),
        Comparison(0.2, "layer 2", "all", 0.2, 0.1, 0.3),
        Comparison(0.3, "layer 2", "all", 0.01, -0.1, 0.1),
    ]
    _, overall, last = summary(rows, pairs_of)
    assert "closer in 1, farther in 1 and no different beyond the interval in 1 of 3 comparisons" in overall
    assert last == (
        "Last layer: 0.500 (0.400 to 0.600) at a rate of 0.1, 0.800 (0.700 to 0.900) at a rate of 0.2, 0.050 (0.000 to "
        "0.100) at a rate of 0.3 (no distance beyond the interval at 0.3); with corrected embeddings closer at 0.1 (by "
        "20%), farther at 0.2 (by 25%), no different at 0.3."
    )


def test_on_a_real_model(shared_data, tmp_path):
    """Corrected embeddings stand nearer to what masking does to embeddings; hidden tokens leave embeddings alone."""
    folder = str(shared_data / "models" / "bert-tiny-splade-en")
    lines = (shared_data / "english" / "trec" / "TREC.test.all").read_text(encoding="latin-1").splitlines()
    (tmp_path / "texts.txt").write_text("\n".join(line.split(" ", 1)[1] for line in lines[:31]), encoding="utf-8")
    options = {"boundary": "line", "n_draws": 7}
    masked = run_gap(folder, [str(tmp_path / "texts.txt")], rates=[0.15, 0.5], **options)
    assert all(c.high < 0 for c in masked.comparisons if (c.where, c.tokens) == ("layer 0", "all"))
    hidden = run_gap(folder, [str(tmp_path / "texts.txt")], rates=[0.15, 0.75], noise="mae", **options)
    by_place = {(r.where, r.rate): r for r in hidden.rows}
    assert by_place["layer 0", 0.75].high < 1e-5
    assert by_place["layer 2", 0.75].low > by_place["layer 2", 0.15].high


def test_the_benchmark_publishes_a_page(place, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[2] / "benchmarks")
    import gap as benchmark
    import harness

    monkeypatch.setattr(harness, "RESULTS", place / "results")
    model, texts = str(place / "model"), str(place / "texts.txt")
    words = [texts, "--model", "tiny", "mlm", model, "--model", "tiny", "mae", model, "--rates", "0.2", "0.5"]
    words += ["--draws", "2", "--boundary", "line", "--work", str(place / "work")]
    try:
        benchmark.main(words)
        monkeypatch.setattr("maskwright.training.gap.report.run_gap", None)  # what is there is not done again
        benchmark.main(words)
    finally:
        del sys.modules["gap"], sys.modules["harness"]
    records = json.loads((place / "results" / "gap.json").read_text(encoding="utf-8"))["records"]
    assert {(record["model"], record["noise"]) for record in records} == {("tiny", "mlm"), ("tiny", "mae")}
    page = (place / "results" / "gap.md").read_text(encoding="utf-8")
    assert "| tiny | layer 2, intact | corrected | " in page
    assert "- tiny, mlm, with corrected embeddings: closer in " in page
    assert str(place) not in page
    assert (place / "results" / "gap.png").exists()
