"""Bad use and bad input: one line on stderr that says what to do, nothing on stdout, exit code 2."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertModel

import tiny_run
from maskwright.cli.main import main

Fail = Callable[..., str]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_run.fine_tuned(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def fail(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fail:
    """Run in an empty folder, and give back the one line of the error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def run(*words: str) -> str:
        assert main(list(words)) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        lines = printed.err.strip().splitlines()
        assert len(lines) == 1, printed.err
        assert lines[0].startswith("maskwright: error: ")
        assert not (tmp_path / "run").exists()
        return lines[0]

    return run


@pytest.fixture
def model(tmp_path: Path, run_folder: Path) -> Path:
    """An encoder folder with tokenizer and without a head."""
    folder = tmp_path / "encoder"
    config = BertConfig(
        vocab_size=61, hidden_size=22, num_hidden_layers=1, num_attention_heads=2, max_position_embeddings=32
    )
    BertModel(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((run_folder / name).read_bytes())
    return folder


@pytest.fixture
def table(tmp_path: Path) -> Path:
    file = tmp_path / "table.csv"
    file.write_text("text,label\nred,a\nround,b\n", encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["finetun"], "unknown verb 'finetun'; did you mean 'finetune'?"),
        (["xyzzy"], "unknown verb 'xyzzy'; `maskwright --help` lists them"),
        (["finetune", "--lerning_rate", "1"], "unknown option 'lerning_rate'; did you mean '--learning_rate'?"),
        (["finetune", "--learning_rate=fast"], "Parser key \"learning_rate\": Expected a <class 'float'>"),
        (["finetune", "--model", "m"], "task: name either a task (with its data) or a train_file"),
        (["finetune", "--task", "tnews"], "data: task 'tnews' needs its folder or zip"),
        (["finetune", "--train_file", "t.csv"], "model: name either a model, or from_config"),
        (["finetune", "--train_file", "t.csv", "--from_config", "bert"], "tokenizer: a random start needs"),
        (["finetune", "--train_file", "t", "--model", "m", "--drop_rate", "1"], "drop_rate: must be in [0, 1)"),
        (["finetune", "--config", "none.yaml"], "File does not exist"),
        (["finetune", "--train_file", "t.csv", "--model", "m"], "t.csv: no such file"),
        (
            ["finetune", "--task", "tnew", "--data", ".", "--model", "m"],
            "unknown task 'tnew'; the known ones are tnews",
        ),
        (["predict", "--input", "t.csv", "--output", "p.txt"], "output: must end in .jsonl or .csv"),
        (["predict", "--input", "t.csv", "--model", "./none"], "no such folder: ./none"),
        (["embed", "--model", "m"], "input: name the file of texts"),
        (["embed", "--model", "m", "--input", "t", "--output", "v.bin"], "output: must end in .npy or .parquet"),
        (["embed", "--model", "no/such-model", "--input", "t"], "neither a local folder, nor to be had from the hub"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_use(words: list[str], message: str, fail: Fail) -> None:
    assert message in fail(*words)


def test_an_option_mistyped_in_the_file(tmp_path: Path, fail: Fail) -> None:
    (tmp_path / "run.yaml").write_text("learning_rat: 1\n", encoding="utf-8")
    assert "unknown option 'learning_rat'; did you mean '--learning_rate'?" in fail("finetune", "--config", "run.yaml")


@pytest.mark.parametrize(
    ("left_out", "message"),
    [("model.safetensors", "has no model.safetensors"), ("config.json", "has no config.json")],
)
def test_a_model_folder_that_lacks_a_file(left_out: str, message: str, model: Path, table: Path, fail: Fail) -> None:
    (model / left_out).unlink()
    assert message in fail("finetune", "--model", str(model), "--train_file", str(table))
    assert message in fail("embed", "--model", str(model), "--input", str(table))


def test_pickled_weights_are_not_read(model: Path, table: Path, fail: Fail) -> None:
    (model / "model.safetensors").unlink()
    torch.save({}, model / "pytorch_model.bin")
    assert "pytorch_model.bin is a pickle" in fail("finetune", "--model", str(model), "--train_file", str(table))


def test_a_model_folder_without_tokenizer(model: Path, table: Path, fail: Fail) -> None:
    (model / "tokenizer.json").unlink()
    (model / "tokenizer_config.json").unlink()
    assert "has no tokenizer.json" in fail("finetune", "--model", str(model), "--train_file", str(table))


def test_a_missing_column(model: Path, table: Path, fail: Fail) -> None:
    words = ["--model", str(model), "--train_file", str(table), "--text_column", "body"]
    assert "table.csv:2: no column 'body'; the columns are text, label" in fail("finetune", *words)
    words = ["--model", str(model), "--input", str(table), "--text_column", "body"]
    assert "no column 'body'" in fail("embed", *words)


def test_an_unknown_training_argument(model: Path, table: Path, fail: Fail) -> None:
    words = ["--model", str(model), "--train_file", str(table), "--training_arguments.adam_beta", "1"]
    assert "no training argument 'adam_beta'; did you mean 'adam_beta" in fail("finetune", *words)


def test_more_tokens_than_the_model_has_positions(model: Path, table: Path, fail: Fail) -> None:
    words = ["--model", str(model), "--train_file", str(table), "--max_length", "33"]
    assert "max_length: 33 is more than the 32 positions" in fail("finetune", *words)


def test_predicting_with_an_encoder_that_has_no_head(model: Path, table: Path, fail: Fail) -> None:
    assert "has no trained head" in fail("predict", "--model", str(model), "--input", str(table))


def test_an_empty_line_among_texts(model: Path, tmp_path: Path, fail: Fail) -> None:
    (tmp_path / "texts.txt").write_text("one\n\nthree\n", encoding="utf-8")
    assert "texts.txt:2: empty text" in fail("embed", "--model", str(model), "--input", "texts.txt")


def test_a_sentence_transformers_folder_that_does_something_else(model: Path, table: Path, fail: Fail) -> None:
    chain = ["Transformer", "Pooling", "LayerNorm"]
    rows = [{"idx": i, "name": str(i), "path": "", "type": f"x.{kind}"} for i, kind in enumerate(chain)]
    (model / "modules.json").write_text(json.dumps(rows), encoding="utf-8")
    message = "chains Transformer + Pooling + LayerNorm; done here are"
    assert message in fail("embed", "--model", str(model), "--input", str(table))
