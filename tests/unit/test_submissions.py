"""Every CLUE task from its zip to the file that is handed in, through the command line; made data, tiny models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForMultipleChoice, AutoModelForQuestionAnswering

import tiny_tasks
from maskwright.cli import main as cli
from maskwright.data.tasks.base import Example
from maskwright.data.tasks.registry import TASKS, load_task
from maskwright.errors import InputError
from maskwright.training.config import FinetuneConfig
from maskwright.training.submission import write_submission
from maskwright.training.texts import training_data

LABELS = {
    "tnews": {str(label) for label in range(100, 117)} - {"105", "111"},
    "iflytek": {str(label) for label in range(119)},
    "afqmc": {"0", "1"},
    "cmnli": {"entailment", "neutral", "contradiction"},
    "ocnli": {"entailment", "neutral", "contradiction"},
    "cluewsc2020": {"true", "false"},
    "csl": {"0", "1"},
}
FILES = {
    "tnews": "tnews11",
    "ocnli": "ocnli_50k",
    "cluewsc2020": "cluewsc11",
    "c3": "c311",
    "chid": "chid11",
} | {name: name for name in ("iflytek", "afqmc", "cmnli", "csl", "cmrc2018")}
OLDER = {"tnews": "tnews10", "cluewsc2020": "cluewsc10", "c3": "c310", "chid": "chid10"}
MODEL = {
    "hidden_size": 22,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 37,
    "max_position_embeddings": 32,
}


def call(*words: object) -> None:
    assert cli.main([str(word) for word in words]) == 0


def finetune(folder: Path, task: str, *more: object) -> Path:
    words = ["finetune", "--from_config", "bert", "--config_overrides", json.dumps(MODEL), "--task", task]
    words += ["--data", str(tiny_tasks.write_zip(folder, task)), "--tokenizer", str(tiny_tasks.write_tokenizer(folder))]
    words += ["--max_steps", "1", "--doc_stride", "5", "--save_strategy", "no", "--report_to", "[]"]
    words += ["--max_tokens_per_batch", "200", "--training_arguments", '{"use_cpu": true, "disable_tqdm": true}']
    call(*words, "--output_dir", folder / "run", "--json", *more)
    return folder / "run"


def predict(folder: Path, task: str, split: str) -> list[dict[str, Any]]:
    """The records of a split, its submission in ``out``."""
    out = folder / "predictions.jsonl"
    options = ["--data", folder / f"{task}_public.zip", "--split", split, "--doc_stride", "5"]
    call(
        "predict", "--model", folder / "run", "--task", task, *options, "--output", out, "--submission", folder / "out"
    )
    return [json.loads(line) for line in out.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("task", FILES)
def test_a_task_goes_from_its_zip_to_the_file_that_is_handed_in(task: str, tmp_path: Path) -> None:
    finetune(tmp_path, task, "--drop_rate", "0.2")
    splits = {"test": FILES[task]} | ({"test1.0": OLDER[task]} if task in OLDER else {})
    for split, name in splits.items():
        records = predict(tmp_path, task, split)
        examples = load_task(task, tmp_path, splits=[split]).splits[split]
        text = (tmp_path / "out" / f"{name}_predict.json").read_text("utf-8")
        if task in LABELS:
            rows = [json.loads(line) for line in text.splitlines()]
            assert [list(row) for row in rows] == [["id", "label"]] * len(examples)
            assert [row["id"] for row in rows] == [10 + i for i in range(tiny_tasks.N_ROWS)]
            assert {row["label"] for row in rows} <= LABELS[task]
            continue
        answers = json.loads(text)
        assert list(answers) == [example.guid for example in examples] == [record["id"] for record in records]
        for example, record in zip(examples, records, strict=True):
            answer = answers[example.guid]
            if task == "cmrc2018":
                assert answer == record["answer"] == example.text[record["start"] : record["end"]]
                assert answer
            else:
                assert answer == record["choice"] < len(example.choices)
                assert record["answer"] == example.choices[answer]
                assert len(record["probabilities"]) == len(example.choices)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {f"{name}_predict.json" for name in splits.values()}


@pytest.mark.parametrize(
    ("task", "auto"), [("c3", AutoModelForMultipleChoice), ("cmrc2018", AutoModelForQuestionAnswering)]
)
def test_the_run_says_what_it_is(task: str, auto: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = finetune(tmp_path, task)
    result = json.loads(capfd.readouterr().out)
    metrics = {"c3": {"accuracy"}, "cmrc2018": {"em", "f1"}}[task]
    assert {name for name in result["metrics"] if not name.endswith("loss")} == {f"dev_{name}" for name in metrics}
    assert auto.from_pretrained(run).config.architectures[0].startswith("Bert")
    card = (run / "README.md").read_text("utf-8")
    assert auto.__name__ in card
    assert "text-classification" not in card
    options = [
        "--task",
        task,
        "--data",
        tmp_path,
        "--split",
        "dev",
        "--output",
        tmp_path / "p.csv",
        "--doc_stride",
        "5",
    ]
    call("predict", "--model", run, *options, "--json")
    again = json.loads(capfd.readouterr().out)["metrics"]
    assert again == {name: pytest.approx(result["metrics"][f"dev_{name}"]) for name in metrics}
    assert len((tmp_path / "p.csv").read_text("utf-8").splitlines()) == result["n_examples"]["dev"] + 1


def test_other_splits_may_play_the_parts_of_train_and_dev(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    finetune(tmp_path, "cmrc2018", "--train_split", "trial", "--dev_split", "train", "--limit_train", "5")
    assert json.loads(capfd.readouterr().out)["n_examples"] == {"train": 5, "dev": 7}
    words = ["finetune", "--model", "m", "--task", "cmrc2018", "--data", str(tmp_path), "--train_split", "tiral"]
    assert cli.main(words) == 2
    assert "train_split: the task has no split 'tiral' there, only" in capfd.readouterr().err


def test_what_is_trained_on_is_not_evaluated_on_and_has_its_answers(tmp_path: Path) -> None:
    found = {"id": "a", "question": "q", "answers": [{"text": "c", "answer_start": 4}]}
    lost = {"id": "b", "question": "q", "answers": [{"text": "z", "answer_start": 0}]}
    document = {"data": [{"paragraphs": [{"context": "a b c", "qas": [found, lost]}]}]}
    for split in ("dev", "trial"):
        (tmp_path / f"{split}.json").write_text(json.dumps(document), encoding="utf-8")
    options = {"model": "m", "task": "cmrc2018", "data": str(tmp_path)}
    data = training_data(FinetuneConfig(**options, train_split="dev"))
    assert {split: [e.guid for e in examples] for split, examples in data.splits.items()} == {
        "train": ["a"],
        "trial": ["a", "b"],
    }
    assert data.skipped == {"answer not in its text": 1}
    data = training_data(FinetuneConfig(**options, train_split="trial", dev_split="dev"))
    assert {split: len(examples) for split, examples in data.splits.items()} == {"train": 1, "dev": 2}
    with pytest.raises(
        InputError, match=r"there is no training example; the splits there are dev, trial: train_split=dev"
    ):
        training_data(FinetuneConfig(**options))


def test_a_model_of_another_kind_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = finetune(tmp_path, "c3")
    tiny_tasks.write_zip(tmp_path, "cmrc2018")
    assert cli.main(["predict", "--model", str(run), "--task", "cmrc2018", "--data", str(tmp_path)]) == 2
    assert "is for multiple choice, the task cmrc2018 for question answering" in capfd.readouterr().err
    (tmp_path / "mine.csv").write_text("text\na\n", encoding="utf-8")
    assert cli.main(["predict", "--model", str(run), "--input", str(tmp_path / "mine.csv")]) == 2
    assert "is for multiple choice; name a task and its data" in capfd.readouterr().err
    assert cli.main(["predict", "--model", str(run), "--input", "a.csv", "--submission", "true"]) == 2
    assert "only a known task has an official format" in capfd.readouterr().err


def test_every_task_has_its_own_file() -> None:
    names = {name: spec.submission_file(["test.json"]) for name, spec in TASKS.items() if name in FILES}
    assert names == {name: f"{stem}_predict.json" for name, stem in FILES.items()}
    older = {name: TASKS[name].submission_file(["test1.0.json"]) for name in FILES}
    assert older == {name: f"{OLDER.get(name, stem)}_predict.json" for name, stem in FILES.items()}


def test_examples_with_the_same_id_cannot_be_handed_in(tmp_path: Path) -> None:
    examples = [Example("a", "b", None, "t:1", guid="7"), Example("a", "b", None, "t:2", guid="7")]
    with pytest.raises(InputError, match="the id 7 is that of 2 examples"):
        write_submission(tmp_path, "c3", ["test1.1.json"], examples, [0, 1])
