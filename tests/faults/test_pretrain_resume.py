"""Pretraining killed in the middle goes on to the same weights; changed options are named; checkpoints stay whole."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModel, AutoModelForMaskedLM

import tiny_pretraining
from maskwright.errors import InputError
from maskwright.training.pretrain.run import PretrainResult, run_pretrain
from maskwright.training.pretrain.trainer import LossWatch


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pretraining")


@pytest.fixture(scope="module", params=["mlm", "mae"])
def whole(request: pytest.FixtureRequest, root: Path) -> PretrainResult:
    config = tiny_pretraining.config(root, request.param, output_dir=str(root / f"whole-{request.param}"))
    return run_pretrain(config)


def weights(folder: str | Path) -> bytes:
    return (Path(folder) / "model.safetensors").read_bytes()


def run_apart(root: Path, objective: str, out: Path, end: str) -> subprocess.CompletedProcess[str]:
    tiny_pretraining.config(root, objective)  # writes corpus and tokenizer
    command = [sys.executable, tiny_pretraining.__file__, str(root), str(out), objective, end]
    path = os.pathsep.join([str(Path(tiny_pretraining.__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def killed(root: Path, objective: str, out: Path, end: str) -> None:
    done = run_apart(root, objective, out, end)
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_a_run_leaves_what_others_can_load(whole: PretrainResult) -> None:
    model = AutoModelForMaskedLM.from_pretrained(whole.output_dir)
    encoder = AutoModel.from_pretrained(whole.output_dir)
    assert torch.equal(model.get_input_embeddings().weight, encoder.get_input_embeddings().weight)
    folder = Path(whole.output_dir)
    assert (folder / "decoder.safetensors").exists() == (whole.objective == "mae")
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]
    losses = [line["loss"] for line in lines if "loss" in line]
    assert len(losses) == whole.n_steps
    assert losses[-1] < losses[0]
    assert all("tokens_per_s" in line and 0 < line["gemm_share"] for line in lines if "loss" in line)
    assert [line["step"] for line in lines if "eval_loss" in line][:2] == [3, 6]
    assert "Pretrained with maskwright" in (folder / "README.md").read_text("utf-8")


def test_a_killed_run_goes_on_to_the_same_weights(root: Path, whole: PretrainResult, tmp_path: Path) -> None:
    out = tmp_path / "killed"
    killed(root, whole.objective, out, "5")
    assert (out / "checkpoint-4" / "trainer_state.json").exists()
    config = tiny_pretraining.config(root, whole.objective, output_dir=str(out), resume_from_checkpoint=True)
    again = run_pretrain(config)
    assert (again.n_steps, again.n_tokens) == (whole.n_steps, whole.n_tokens)
    assert weights(out) == weights(whole.output_dir)
    assert again.eval_loss == whole.eval_loss
    if whole.objective == "mae":
        assert (out / "decoder.safetensors").read_bytes() == (
            Path(whole.output_dir) / "decoder.safetensors"
        ).read_bytes()


def test_a_run_killed_while_it_writes_keeps_the_checkpoint_before(
    root: Path, whole: PretrainResult, tmp_path: Path
) -> None:
    out = tmp_path / "killed"
    killed(root, whole.objective, out, "writing 4")
    assert (out / "checkpoint-4" / "model.safetensors").exists()
    assert AutoModelForMaskedLM.from_pretrained(out / "checkpoint-2").config.num_hidden_layers == 2
    config = tiny_pretraining.config(root, whole.objective, output_dir=str(out), resume_from_checkpoint=True)
    run_pretrain(config)
    assert weights(out) == weights(whole.output_dir)


def test_a_full_disk_says_what_to_do_and_loses_nothing(root: Path, whole: PretrainResult, tmp_path: Path) -> None:
    out = tmp_path / "full"
    done = run_apart(root, whole.objective, out, "full 4")
    assert done.returncode != 0
    message = done.stderr.strip().splitlines()[-1]
    assert "checkpoint-4: cannot be written (" in message
    assert "checkpoint-2 is whole. Make room, then go on with resume_from_checkpoint=true" in message
    assert not (out / "checkpoint-4").exists()
    config = tiny_pretraining.config(root, whole.objective, output_dir=str(out), resume_from_checkpoint=True)
    run_pretrain(config)
    assert weights(out) == weights(whole.output_dir)


def test_changed_options_are_named_and_refused(root: Path, whole: PretrainResult) -> None:
    changes = {"output_dir": whole.output_dir, "resume_from_checkpoint": True, "learning_rate": 1e-3}
    with pytest.raises(InputError, match=r"learning_rate was 0\.01, now 0\.001: allow_changes=true"):
        run_pretrain(tiny_pretraining.config(root, whole.objective, **changes))


def test_a_used_folder_is_not_trained_over_by_mistake(root: Path, whole: PretrainResult) -> None:
    with pytest.raises(InputError, match="already holds a run"):
        run_pretrain(tiny_pretraining.config(root, whole.objective, output_dir=whole.output_dir))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"corpus": []}, "corpus: name files"),
        ({"rate": 0.0}, "rate: must be above 0"),
        ({"shares": [0.5, 0.1, 0.1]}, "shares: must be three"),
        ({"from_config": None}, "model: name either"),
        ({"tokenizer": None}, "tokenizer: a random start needs"),
        ({"chinese_words": True}, "words matter only"),
        ({"validation_share": 1.0}, "validation_share: must be in"),
        ({"dataset_name": "some"}, "corpus: name files"),
        ({"streaming": True}, "max_steps: streaming never"),
        ({"streaming": True, "max_steps": 3, "cross_documents": True}, "cross_documents: streamed rows"),
        ({"objective": "mae", "thesaurus": "t.json"}, "thesaurus: replaces"),
        ({"thesaurus": "t.json", "nearest": 5}, "nearest: choose one"),
        ({"nearest": 5}, "nearest: nearest tokens need"),
    ],
)
def test_options_that_contradict_one_another(root: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tiny_pretraining.config(root, **{"objective": "mlm", **changes})


def test_a_rate_changes_evenly(root: Path) -> None:
    config = tiny_pretraining.config(root, "mlm", rate=0.3, final_rate=0.15)
    assert [round(config.rate_at(p), 4) for p in (0, 0.5, 1, 2)] == [0.3, 0.225, 0.15, 0.15]
    assert tiny_pretraining.config(root, "mae").rate == 0.75


def test_the_watch_names_jumps_and_what_is_no_number() -> None:
    watch = LossWatch(window=10)
    assert [watch(3 + 0.01 * (i % 3)) for i in range(10)] == [None] * 10
    assert "jumped to 9.000" in str(watch(9.0))
    assert watch(3.0) is None or "jumped" in str(watch(3.0))
    assert "nan" in str(watch(float("nan")))
