"""The run directory: all of it there, loadable, and enough to make the run again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

import tiny_run
from maskwright.cli.finetune import build_parser
from maskwright.cli.options import read_config
from maskwright.data.tasks.base import Example, TaskData
from maskwright.errors import InputError
from maskwright.training.config import FinetuneConfig
from maskwright.training.finetune import FinetuneResult, run_finetune
from maskwright.training.metrics import decide, probabilities, score
from maskwright.training.models import new_task_model, position_limit, resolve_max_length


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def result(root: Path) -> FinetuneResult:
    changes = {"report_to": ["tensorboard"], "max_steps": 4, "drop_rate": 0.0}
    return run_finetune(tiny_run.config(root, output_dir=str(root / "run"), **changes), tiny_run.data())


def test_everything_is_there(result: FinetuneResult) -> None:
    folder = Path(result.output_dir)
    names = {path.name for path in folder.iterdir()}
    wanted = {"config.json", "model.safetensors", "tokenizer.json", "config.yaml", "environment.json"}
    assert wanted | {"metrics.jsonl", "results.json", "README.md", "runs", "checkpoint-4"} <= names
    assert list(folder.glob("runs/*/events*"))
    assert json.loads((folder / "results.json").read_text("utf-8")) == result.to_dict()
    assert "torch" in json.loads((folder / "environment.json").read_text("utf-8"))
    card = (folder / "README.md").read_text("utf-8")
    assert f"| dev_accuracy | {result.metrics['dev_accuracy']:.4f} |" in card


def test_transformers_loads_it_with_its_labels(result: FinetuneResult) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(result.output_dir)
    assert model.config.id2label == {0: "a", 1: "b", 2: "c"}
    assert model.config.problem_type == "single_label_classification"
    assert AutoTokenizer.from_pretrained(result.output_dir).tokenize("red quiet") == ["red", "quiet"]


def test_its_config_file_makes_the_same_run_again(result: FinetuneResult, root: Path) -> None:
    words = ["--config", f"{result.output_dir}/config.yaml", "--output_dir", str(root / "again")]
    config = read_config(FinetuneConfig, build_parser().parse_args(words))
    again = run_finetune(config, tiny_run.data())
    assert again.metrics == result.metrics
    weights = [Path(folder, "model.safetensors").read_bytes() for folder in (again.output_dir, result.output_dir)]
    assert weights[0] == weights[1]


def test_what_was_asked_is_written_down(result: FinetuneResult) -> None:
    values = yaml.safe_load((Path(result.output_dir) / "config.yaml").read_text("utf-8"))
    assert values["max_steps"] == 4
    assert set(values) == set(FinetuneConfig.__dataclass_fields__)


def test_tokens_are_counted_without_padding(root: Path) -> None:
    changes = {"num_train_epochs": 1, "drop_rate": 0.0, "gradient_accumulation_steps": 1, "save_strategy": "no"}
    done = run_finetune(tiny_run.config(root, output_dir=str(root / "count"), **changes), tiny_run.data())
    n_words = sum(len(example.text.split()) + 2 for example in tiny_run.data().splits["train"])
    assert done.n_tokens == n_words
    assert 0 < done.padding_avoided < 1
    assert done.tokens_per_s > 0


def test_early_stopping_stops_and_the_best_weights_are_kept(root: Path) -> None:
    changes = {
        "num_train_epochs": 30,
        "learning_rate": 0.0,
        "save_strategy": "epoch",
        "early_stopping_patience": 2,
        "gradient_accumulation_steps": 1,
    }
    done = run_finetune(tiny_run.config(root, output_dir=str(root / "early"), **changes), tiny_run.data())
    n_per_epoch = done.n_steps // 3  # the first evaluation is the best; two more are no better
    assert done.n_steps == 3 * n_per_epoch < 30 * n_per_epoch
    assert done.best_checkpoint == str(root / "early" / f"checkpoint-{n_per_epoch}")


def test_overwriting_leaves_nothing_of_the_run_before(root: Path) -> None:
    folder = root / "twice"
    for rate in (1e-2, 1e-3):
        options = {"output_dir": str(folder), "max_steps": 2, "overwrite_output_dir": True, "learning_rate": rate}
        run_finetune(tiny_run.config(root, **options), tiny_run.data())
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert [line["step"] for line in lines if "loss" in line] == [1, 2]


def test_bf16_trains(root: Path) -> None:
    options = {"output_dir": str(root / "bf16"), "bf16": True, "max_steps": 2, "save_strategy": "no"}
    config = tiny_run.config(root, **options)
    done = run_finetune(config, tiny_run.data())
    assert np.isfinite(done.metrics["dev_loss"])


def test_training_needs_labels(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "texts.csv"
    file.write_text("text,label\nred,\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"texts\.csv:2: no label"):
        run_finetune(tiny_run.config(root, train_file=str(file), output_dir=str(tmp_path / "run")))


def test_scores_are_those_of_the_definitions() -> None:
    logits = np.array([[2.0, 0.0, 1.0], [0.0, 3.0, 1.0], [5.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    gold = np.array([0, 1, 1, 2])
    found = score(["accuracy", "f1_macro"], logits, gold, "single_label_classification")
    assert found == {"accuracy": 0.75, "f1_macro": pytest.approx((2 / 3 + 2 / 3 + 1) / 3)}
    values = score(["pearson", "spearman", "mse"], np.array([[1.0], [2], [4]]), np.array([1.0, 4, 16]), "regression")
    deviations = (np.array([1.0, 2, 4]) - 7 / 3, np.array([1.0, 4, 16]) - 7)
    pearson = (deviations[0] * deviations[1]).sum() / np.sqrt((deviations[0] ** 2).sum() * (deviations[1] ** 2).sum())
    assert values == {"pearson": pytest.approx(pearson), "spearman": pytest.approx(1), "mse": pytest.approx(148 / 3)}


def test_probabilities_survive_large_logits() -> None:
    shares = probabilities(np.array([[1000.0, -1000.0]]), "multi_label_classification")
    assert shares.tolist() == [[1.0, 0.0]]
    assert probabilities(np.array([[1000.0, 999.0]]), "single_label_classification").sum() == pytest.approx(1)
    assert decide(np.array([[0.1, -0.1]]), "multi_label_classification").tolist() == [[1, 0]]


@pytest.mark.parametrize(("model_type", "limit"), [("bert", 32), ("roberta", 30), ("modernbert", None)])
def test_positions_a_model_has(model_type: str, limit: int | None, root: Path) -> None:
    tiny_run.config(root)
    tokenizer = AutoTokenizer.from_pretrained(root / "tokenizer")
    task = TaskData("t", "regression", {"train": [Example("red", None, 1.0, "t:1")]})
    sizes = {"hidden_size": 22, "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 32}
    overrides = {**sizes, "pad_token_id": 1} if model_type == "roberta" else sizes
    model = new_task_model(task, tokenizer, from_config=model_type, overrides=overrides)
    assert position_limit(model) == limit
    assert model.config.vocab_size == len(tokenizer)
    assert resolve_max_length(None, model, tokenizer) == min(limit or 32, 32)
    if limit is not None:
        with pytest.raises(InputError, match=f"{limit + 1} is more than the {limit} positions"):
            resolve_max_length(limit + 1, model, tokenizer)


def test_overrides_reach_the_configuration(root: Path) -> None:
    tiny_run.config(root)
    tokenizer = AutoTokenizer.from_pretrained(root / "tokenizer")
    config = AutoConfig.for_model("bert", hidden_size=22, num_attention_heads=2, num_hidden_layers=1)
    config.save_pretrained(root / "start")
    model = new_task_model(
        tiny_run.data(), tokenizer, from_config=str(root / "start"), overrides={"hidden_act": "relu"}
    )
    assert (model.config.hidden_size, model.config.hidden_act, model.config.num_labels) == (22, "relu", 3)
