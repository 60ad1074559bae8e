"""The regularising options reach the run: R-Drop, DropToken's schedule, layer decay, class weights, correction."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM, TrainerCallback

import tiny_run
from maskwright.data.tasks.base import Example
from maskwright.encoders.pack import packing_of
from maskwright.errors import InputError
from maskwright.objectives.correction import expected_embeddings
from maskwright.training.calibration import calibrate
from maskwright.training.config import PredictConfig
from maskwright.training.finetune import run_finetune
from maskwright.training.predict import run_predict

TABLE = "bert.embeddings.word_embeddings.weight"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("options")


def run(root: Path, name: str, data=None, callbacks=(), **options):
    changes = {"output_dir": str(root / name), "max_steps": 3, "save_strategy": "no"} | options
    return run_finetune(tiny_run.config(root, **changes), data or tiny_run.data(), callbacks)


def weights(root: Path, name: str, **options) -> dict[str, torch.Tensor]:
    run(root, name, **options)
    return load_file(root / name / "model.safetensors")


@pytest.fixture(scope="module")
def plain(root):
    return weights(root, "plain")


def same(a, b) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


def test_options_at_their_neutral_values_change_nothing_bitwise(root, plain):
    neutral = {"rdrop_alpha": 0.0, "layer_decay": 1.0, "class_weights": "none", "final_drop_rate": 0.2}
    assert same(weights(root, "neutral", **neutral), plain)


@pytest.mark.parametrize(
    "option",
    [{"rdrop_alpha": 1.0}, {"layer_decay": 0.5}, {"class_weights": "balanced"}, {"final_drop_rate": 0.6}],
    ids=lambda option: next(iter(option)),
)
def test_each_option_changes_the_run(option, root, plain):
    data = tiny_run.data()
    if "class_weights" in option:
        uneven = [replace(each, label=0 if i % 5 else each.label) for i, each in enumerate(data.splits["train"])]
        data.splits["train"] = uneven
        run(root, "uneven", data)
        plain = load_file(root / "uneven" / "model.safetensors")
    name = next(iter(option))
    run(root, name, data, **option)
    assert not same(load_file(root / name / "model.safetensors"), plain)


def test_layer_decay_holds_the_embeddings_back(root, plain):
    """Adam moves every weight by about its learning rate, so that moves show the rates."""
    start = weights(root, "start", max_steps=1, learning_rate=0.0)
    decayed = weights(root, "held", layer_decay=0.1)
    moved = [(found[TABLE] - start[TABLE]).abs().max() for found in (decayed, plain)]
    assert float(moved[0] / moved[1]) == pytest.approx(1e-3, rel=0.3)
    heads = [(found["classifier.bias"] - start["classifier.bias"]).abs().max() for found in (decayed, plain)]
    assert float(heads[0] / heads[1]) == pytest.approx(1, rel=0.3)


class Rates(TrainerCallback):
    """DropToken's rate in every step."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    def on_substep_end(self, args, state, control, model=None, **_) -> None:
        self.seen.append(packing_of(model).drop_rate)

    on_step_end = on_substep_end


def test_the_drop_rate_changes_evenly_to_the_end(root):
    rates = Rates()
    options = {"max_steps": 5, "drop_rate": 0.1, "final_drop_rate": 0.5}
    run(root, "schedule", callbacks=[rates], **options)
    assert rates.seen == pytest.approx([rate for rate in (0.1, 0.2, 0.3, 0.4, 0.5) for _ in range(2)])


def test_a_resumed_run_drops_as_it_would_have(root):
    options = {"drop_rate": 0.0, "final_drop_rate": 0.6, "save_strategy": "steps", "save_steps": 2, "max_steps": 4}
    options |= {"rdrop_alpha": 0.5, "layer_decay": 0.8, "class_weights": "balanced"}
    whole = weights(root, "whole", **options)
    checkpoint = str(root / "whole" / "checkpoint-2")
    again = weights(root, "again", resume_from_checkpoint=checkpoint, **options)
    assert same(again, whole)


def test_class_weights_need_classes(root):
    data = tiny_run.data()
    data.problem = "multi_label_classification"
    data.splits["train"] = [replace(each, label=(each.label,)) for each in data.splits["train"]]
    data.splits["dev"] = []
    with pytest.raises(InputError, match="class_weights: need one class an example"):
        run(root, "several", data, class_weights="balanced")


def test_rdrop_without_any_noise_is_refused(root):
    quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = tiny_run.config(root, output_dir=str(root / "quiet"), rdrop_alpha=1.0, drop_rate=0.0)
    config.config_overrides = config.config_overrides | quiet
    with pytest.raises(InputError, match="rdrop_alpha: all dropout rates of this model are 0"):
        run_finetune(config, tiny_run.data())


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"rdrop_alpha": -0.1}, "rdrop_alpha: must be 0 or more"),
        ({"rdrop_alpha": float("nan")}, "rdrop_alpha: must be 0 or more"),
        ({"layer_decay": 0.0}, "layer_decay: must be above 0"),
        ({"layer_decay": 1.1}, "layer_decay: must be above 0"),
        ({"final_drop_rate": 1.0}, r"final_drop_rate: must be in \[0, 1\)"),
        ({"final_drop_rate": 0.1, "drop_rate": 0.0, "packed": False}, "DropToken is done by packing"),
        ({"correct_embeddings": True}, r"correct_embeddings: random weights never saw \[MASK\]"),
    ],
)
def test_options_that_make_no_sense(option, message, root):
    with pytest.raises(InputError, match=message):
        tiny_run.config(root, **option)


def test_embeddings_are_corrected_before_the_first_step(root):
    tiny_run.config(root)
    tokenizer = AutoTokenizer.from_pretrained(root / "tokenizer")
    torch.manual_seed(4)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=22, num_hidden_layers=2, num_attention_heads=2, intermediate_size=37
    )
    model = BertForMaskedLM(config)
    model.save_pretrained(root / "pretrained")
    tokenizer.save_pretrained(root / "pretrained")
    options = {"model": str(root / "pretrained"), "from_config": None, "tokenizer": None, "config_overrides": {}}
    # A learning rate of 0 shows what training began with.
    options |= {"learning_rate": 0.0, "weight_decay": 0.0, "max_steps": 1}
    kept = weights(root, "kept", **options)
    corrected = weights(root, "corrected", correct_embeddings=True, **options)
    table = model.get_input_embeddings().weight
    special = torch.tensor(sorted(tokenizer.all_special_ids))
    torch.testing.assert_close(kept[TABLE], table.detach())
    torch.testing.assert_close(corrected[TABLE], expected_embeddings(table, tokenizer.mask_token_id, keep_ids=special))
    assert (corrected[TABLE] - kept[TABLE]).abs().max() > 1e-3
    assert same({n: v for n, v in kept.items() if n != TABLE}, {n: v for n, v in corrected.items() if n != TABLE})


def test_results_hold_the_calibration_of_every_labelled_split(root):
    data = tiny_run.data()
    data.splits["test"] = data.splits["train"][13:30]
    result = run(root, "calibrated", data)
    assert set(result.calibration) == {"dev", "test"}
    written = json.loads((root / "calibrated" / "results.json").read_text("utf-8"))["calibration"]
    assert written == json.loads(json.dumps(result.calibration))
    file = root / "dev.jsonl"
    rows = [{"text": each.text, "label": "abc"[each.label]} for each in data.splits["dev"]]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    out = root / "dev-out.jsonl"
    predicted = run_predict(PredictConfig(model=str(root / "calibrated"), input=str(file), output=str(out)))
    shares = [list(json.loads(line)["probabilities"].values()) for line in out.read_text("utf-8").splitlines()]
    expected = calibrate(np.array(shares), np.array([each.label for each in data.splits["dev"]]))
    for found in (written["dev"], predicted.calibration):
        for name in ("ece", "brier", "nll"):
            assert found[name] == pytest.approx(getattr(expected, name), abs=1e-4), name
        assert sum(each["n"] for each in found["bins"]) == 13


def test_values_have_no_calibration(root):
    examples = [Example(each.text, None, i / 7, each.where) for i, each in enumerate(tiny_run.data().splits["train"])]
    data = replace(tiny_run.data(), problem="regression", labels=(), metrics=("mse",))
    data.splits = {"train": examples, "dev": examples[:11]}
    assert run(root, "values", data, rdrop_alpha=1.0).calibration == {}
