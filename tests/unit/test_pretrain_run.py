"""Pretraining runs in miniature, by the sources of text and the kinds of replacement; the head's memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from safetensors.torch import load_file

import tiny_pretraining
from maskwright.cli.gap import BOUNDARIES, NOISES
from maskwright.data import corpus
from maskwright.errors import InputError
from maskwright.objectives import mae, units
from maskwright.training.gap import noise
from maskwright.training.models import load_tokenizer
from maskwright.training.pretrain import config as options
from maskwright.training.pretrain.objective import Autoencoder, MaskedLanguageModel
from maskwright.training.pretrain.run import PretrainResult, run_pretrain
from tiny_run import WORDS

STREAM = {"streaming": True, "max_steps": 7, "shuffle_buffer": 13}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pretraining")


def run(root: Path, out: Path, objective: str = "mlm", **changes: Any) -> PretrainResult:
    return run_pretrain(tiny_pretraining.config(root, objective, output_dir=str(out), **changes))


def losses(out: Path) -> list[float]:
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text("utf-8").splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


@pytest.mark.parametrize("objective", ["mlm", "mae"])
def test_a_streamed_run_goes_on_exactly(root: Path, tmp_path: Path, objective: str) -> None:
    whole = run(root, tmp_path / "whole", objective, **STREAM)
    assert (whole.n_steps, whole.n_documents, list(whole.n_rows)) == (7, None, ["validation"])
    assert whole.eval_loss is not None
    part = run(root, tmp_path / "part", objective, **{**STREAM, "max_minutes": 1e-9, "save_steps": 100})
    assert part.n_steps == 1
    again = run(root, tmp_path / "part", objective, **STREAM, resume_from_checkpoint=True)
    assert again.n_steps == 7
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "part"))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_both_objectives_are_measured_on_the_same_hidden_tokens(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: dict[type[torch.nn.Module], list[dict[str, torch.Tensor]]] = {MaskedLanguageModel: [], Autoencoder: []}
    for objective, batches in measured.items():

        def forward(self: Any, *, original: Any = objective.forward, into: Any = batches, **batch: Any) -> Any:
            if not self.training:
                into.append(batch)
            return original(self, **batch)

        monkeypatch.setattr(objective, "forward", forward)
    for objective in ("mlm", "mae"):
        run(root, tmp_path / objective, objective, max_steps=1)
    mask_id = load_tokenizer(str(root / "tokenizer")).mask_token_id
    for masked, dropped in zip(*measured.values(), strict=True):
        hidden = masked["input_ids"] == mask_id  # a kept or random token would be easier or harder than one not seen
        assert hidden.any()
        assert torch.equal(hidden, dropped["hidden"])
        assert torch.equal(masked["labels"], torch.where(hidden, dropped["input_ids"], -100))
        assert torch.equal(masked["labels"], dropped["labels"])


def test_a_dataset_may_be_the_corpus(root: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    texts = [" ".join(WORDS[(i * j + j) % 8] for j in range(1, 6 + i % 23)) for i in range(53)]
    lines = "".join(json.dumps({"body": text}) + "\n" for text in [*texts, ""])
    (tmp_path / "data" / "train.jsonl").write_text(lines, encoding="utf-8")
    source = {"corpus": [], "dataset_name": str(tmp_path / "data"), "text_column": "body", "max_steps": 3}
    result = run(root, tmp_path / "whole", **source)
    assert (result.n_documents, result.n_bad_lines) == (53, 1)
    assert run(root, tmp_path / "streamed", **source, streaming=True).n_steps == 3


def test_similar_words_take_the_place_of_mask(root: Path, tmp_path: Path) -> None:
    """The same draws, so the first loss differs only by what stands in [MASK]'s place."""
    start = run(root, tmp_path / "start", max_steps=2).output_dir
    table = tmp_path / "similar.json"
    table.write_text(json.dumps({word: [other] for word, other in zip(WORDS, WORDS[::-1], strict=True)}), "utf-8")
    options = {"model": start, "from_config": None, "config_overrides": {}, "max_steps": 2, "shares": [1.0, 0.0, 0.0]}
    first = {}
    for name, change in {"mask": {}, "thesaurus": {"thesaurus": str(table)}, "nearest": {"nearest": 3}}.items():
        run(root, tmp_path / name, **options, **change)
        first[name] = losses(tmp_path / name)[0]
    assert len(set(first.values())) == 3


def test_a_schedule_with_a_plateau(root: Path, tmp_path: Path) -> None:
    options = {"lr_scheduler_type": "warmup_stable_decay", "lr_scheduler_kwargs": {"num_decay_steps": 4}}
    run(root, tmp_path / "out", max_steps=12, warmup_steps=3, **options)
    lines = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text("utf-8").splitlines()]
    rates = [line["learning_rate"] for line in lines if "learning_rate" in line]
    assert rates[3:8] == [1e-2] * 5
    assert rates[0] < rates[3] > rates[-1]


def test_mask_later_as_a_run(root: Path, tmp_path: Path) -> None:
    result = run(root, tmp_path / "out", "mae", decoder="mask_later", max_steps=3)
    assert result.n_steps == 3
    assert set(load_file(tmp_path / "out" / "decoder.safetensors")) == {"mae.mask"}
    with pytest.raises(InputError, match="n_layers: must be below"):
        run(root, tmp_path / "all", "mae", decoder="mask_later", decoder_layers=2)


def test_options_offer_just_what_there_is() -> None:
    """The config names choices by itself, for it must not import torch."""
    pairs = [(options.Decoder, mae.Decoder), (options.Unit, units.Unit), (options.Boundary, corpus.Boundary)]
    assert all(get_args(ours) == get_args(theirs) for ours, theirs in pairs)
    assert NOISES == get_args(noise.NoiseKind)
    assert BOUNDARIES == get_args(corpus.Boundary)


_MEMORY = """
import resource, sys, torch
from transformers import BertConfig, BertForMaskedLM
import maskwright as mw
from maskwright.objectives.mlm import target_loss
vocabulary, chunk = int(sys.argv[1]), int(sys.argv[2]) or None
sizes = {"hidden_size": 46, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 37}
model = mw.pack(BertForMaskedLM(BertConfig(vocab_size=vocabulary, **sizes)))
states = torch.randn(8192, 46, requires_grad=True)
def kib(name):  # not ru_maxrss: it takes over the peak of the process that started this one
    return int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith(name + ":")))
before = kib("VmRSS")
target_loss(model, states, torch.randint(vocabulary, (8192,)), chunk).backward()
print((kib("VmHWM") - before) / 2**20)
"""


def extra_gib(vocabulary: int, chunk: int) -> float:
    command = [sys.executable, "-c", _MEMORY, str(vocabulary), str(chunk)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    return float(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("vocabulary", [21128, 30522])
def test_the_head_in_chunks_takes_little_memory(vocabulary: int) -> None:
    """8,192 targets: logits, their gradient and the softmax of one chunk of 1,024, not of all."""
    assert extra_gib(vocabulary, 1024) < 1.0
    if vocabulary == 21128:
        assert extra_gib(vocabulary, 0) > 1.2
