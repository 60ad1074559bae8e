"""`maskwright predict --averaging model`: from file to file, with spread and mutual information."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import pytest

import tiny_run
import tiny_tasks
from maskwright.cli.main import main
from maskwright.data.encode import encode_examples
from maskwright.errors import InputError
from maskwright.training.average import average_probabilities, with_spread
from maskwright.training.config import PredictConfig
from maskwright.training.finetune import run_finetune
from maskwright.training.models import load_fine_tuned, load_tokenizer
from maskwright.training.predict import run_predict


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_run.fine_tuned(tmp_path_factory.mktemp("averaged"))


@pytest.fixture
def texts(tmp_path):
    rows = [
        {"id": f"r{i}", "text": e.text, "label": "abc"[e.label]} for i, e in enumerate(tiny_run.data().splits["dev"])
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return tmp_path / "in.jsonl"


def predict(folder, texts, suffix=".jsonl", **options):
    out = texts.with_name(f"out{suffix}")
    return out, run_predict(PredictConfig(model=str(folder), input=str(texts), output=str(out), **options))


@pytest.mark.parametrize("packed", [True, False])
def test_rows_are_those_of_average_probabilities(packed, folder, texts):
    options = {"samples": 7, "noise": "droptoken", "drop_rate": 0.3, "seed": 5}
    out, result = predict(folder, texts, averaging="model", packed=packed, **options)
    model, tokenizer = load_fine_tuned(str(folder)), load_tokenizer(str(folder))
    problem = "single_label_classification"
    encoded = encode_examples(tiny_run.data().splits["dev"], tokenizer, 32, problem, 3)
    expected = average_probabilities(model, tokenizer, encoded.dataset, problem, **options)
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [row["id"] for row in rows] == [f"r{i}" for i in range(13)]
    for i, row in enumerate(rows):
        assert list(row["probabilities"].values()) == pytest.approx(expected.mean[i], abs=3e-6)
        assert list(row["spread"].values()) == pytest.approx(expected.spread[i], abs=3e-6)
        assert row["mutual_information"] == pytest.approx(expected.mutual_information[i], abs=3e-6)
        assert row["label"] == "abc"[expected.mean[i].argmax()]
    right = expected.mean.argmax(1) == [e.label for e in tiny_run.data().splits["dev"]]
    assert result.metrics["accuracy"] == pytest.approx(right.mean())
    assert result.calibration["nll"] > 0


def test_csv_has_columns_for_it(folder, texts):
    out, _ = predict(folder, texts, ".csv", averaging="model", samples=3)
    with out.open(encoding="utf-8", newline="") as stream:
        head = next(csv.reader(stream))
    shares, spreads = [f"p({name})" for name in "abc"], [f"spread({name})" for name in "abc"]
    assert head == ["id", "label", "mutual_information", *shares, *spreads]


def test_weight_is_the_default_and_has_no_spread(folder, texts):
    first, _ = predict(folder, texts)
    before = first.read_bytes()
    out, _ = predict(folder, texts, averaging="weight", samples=3, seed=8)
    assert out.read_bytes() == before
    assert "spread" not in json.loads(before.splitlines()[0])


@pytest.mark.parametrize("problem", ["multi_label_classification", "regression"])
def test_several_labels_and_values(problem, tmp_path):
    data = tiny_run.data()
    examples = [
        replace(e, label=(e.label,) if problem.startswith("multi") else float(e.label)) for e in data.splits["train"]
    ]
    splits = {"train": examples, "dev": examples[:7]}
    several = problem.startswith("multi")
    data = replace(data, problem=problem, splits=splits, metrics=("f1_macro",) if several else ("mse",))
    data = data if several else replace(data, labels=())
    run_finetune(tiny_run.config(tmp_path, output_dir=str(tmp_path / "run"), max_steps=2), data)
    file = tmp_path / "in.jsonl"
    file.write_text("".join(json.dumps({"text": e.text}) + "\n" for e in examples[:7]), "utf-8")
    out, _ = predict(tmp_path / "run", file, averaging="model", samples=5, threshold=0.4)
    for line in out.read_text("utf-8").splitlines():
        row = json.loads(line)
        if several:
            assert row["labels"] == [name for name, share in row["probabilities"].items() if share >= 0.4]
            assert set(row["spread"]) == set("abc")
            assert row["mutual_information"] >= 0
        else:
            assert row["spread"] > 0
            assert "mutual_information" not in row


def test_the_command_says_what_it_did(folder, texts, capsys):
    words = ["--model", str(folder), "--input", str(texts), "--output", str(texts.with_name("o.jsonl"))]
    assert main(["predict", *words, "--averaging", "model", "--samples", "3", "--noise", "droptoken"]) == 0
    printed = capsys.readouterr().out
    assert "3 passes, noise: droptoken" in printed
    assert "ECE " in printed
    assert main(["predict", *words, "--averaging", "model", "--samples", "3", "--json"]) == 0
    assert {"ece", "brier", "nll", "bins"} == set(json.loads(capsys.readouterr().out)["calibration"])


def test_records_stay_as_they_are_without_an_average():
    records = [{"id": 0, "answer": "x"}]
    assert list(with_spread(records, ())) == records


@pytest.mark.parametrize(
    ("option", "message"),
    [({"samples": 1}, "samples: must be 2"), ({"drop_rate": 1.0}, r"drop_rate: must be in \[0, 1\)")],
)
def test_options_that_make_no_sense(option, message):
    with pytest.raises(InputError, match=message):
        PredictConfig(input="x.jsonl", **option)


@pytest.mark.parametrize("task", ["cmrc2018", "c3"])
def test_reading_tasks_train_with_rdrop_and_predict_by_averaging(task, tmp_path):
    """Spans over windows, and ragged choices: under either noise, with answers that are possible ones."""
    data = str(tiny_tasks.write_zip(tmp_path, task))
    options = {"train_file": None, "task": task, "data": data, "rdrop_alpha": 1.0, "final_drop_rate": 0.1}
    options |= {"tokenizer": str(tiny_tasks.write_tokenizer(tmp_path)), "output_dir": str(tmp_path / "run")}
    result = run_finetune(tiny_run.config(tmp_path, **options, max_steps=2, max_length=30, doc_stride=5))
    assert set(result.calibration) == (set() if task == "cmrc2018" else {"dev"})
    names = {"model": str(tmp_path / "run"), "task": task, "data": data, "split": "dev", "doc_stride": 5}
    names |= {"output": str(tmp_path / "out.jsonl"), "max_length": 30, "max_tokens_per_batch": 200}
    plain = run_predict(PredictConfig(**names))
    for noise in ("dropout", "droptoken"):
        found = run_predict(PredictConfig(**names, averaging="model", samples=3, noise=noise, drop_rate=0.3))
        assert found.metrics.keys() == plain.metrics.keys()
        rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
        assert len(rows) == plain.n_rows
        for row in rows:
            if task == "cmrc2018":
                assert row["answer"]
                assert row["end"] - row["start"] == len(row["answer"])
            else:
                assert sum(row["probabilities"].values()) == pytest.approx(1, abs=1e-5)
                assert row["spread"].keys() == row["probabilities"].keys()
                assert row["mutual_information"] >= 0
