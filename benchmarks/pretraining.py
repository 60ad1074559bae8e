"""Which pretraining gives the best encoder for the same compute: MLM at 15% or 40%, or MAE with 75% or 50% hidden?

    .venv/bin/python benchmarks/pretraining.py pretrain WORK DATA [--cpu_minutes 50 | --repeat]
    .venv/bin/python benchmarks/pretraining.py finetune WORK DATA [--seeds 0 1 2] [--examples 3000]
    .venv/bin/python benchmarks/pretraining_page.py WORK

A ModernBERT of 6 layers and width 384 with the google_zh vocabulary, from random weights, on 22 million characters of
Chinese. Each pretraining gets the steps that fit in the same processor time of one thread; how many that are is
measured first, one pretraining after the other (let nothing else run), so every schedule ends at zero and what
disturbs the machine later costs nobody a step. Then each tries every learning rate for the first sixth of its steps,
for what suits one objective breaks another, and goes the whole way with its best; as many at a time as there are
processors. `--repeat` takes steps and learning rates from the published results, which saves the measuring and trying.
Fine-tuned on TNEWS, AFQMC and docs_topic, with and without the embedding correction where [MASK] was an input. What is
finished is not done again: kill it and start it anew as you like.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ARMS = {
    "MLM 15%": {"objective": "mlm", "rate": 0.15},
    "MLM 40%": {"objective": "mlm", "rate": 0.4},
    "MAE 75%": {"objective": "mae", "rate": 0.75, "target_share": 0.2},
    "MAE 50%": {"objective": "mae", "rate": 0.5, "target_share": 0.3},
}
FAMILY = "modernbert"  # its rotary positions leave the plateau of word frequencies in hundreds of steps, BERT's do not
MODEL = {"num_hidden_layers": 6, "hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 768}
MODEL |= {"max_position_embeddings": 128, "global_attn_every_n_layers": 1, "classifier_pooling": "mean"}
MODEL |= {"pad_token_id": 0, "cls_token_id": 101, "sep_token_id": 102, "bos_token_id": 101, "eos_token_id": 102}
CORPORA = ("docs_open", "indomain", "niutrans_modern_half")
PRETRAINING = {"max_tokens_per_batch": 1024, "warmup_steps": 0.1, "max_length": 128}
LEARNING_RATES = (3e-4, 5e-4, 1e-3)
# Many small steps: with batches of 32 and at 1e-3 pretrained and random starts ended alike, the former still learning.
FINE_TUNING = {"learning_rate": 3e-4, "warmup_steps": 0.1, "num_train_epochs": 3, "max_length": 128}
FINE_TUNING |= {"per_device_train_batch_size": 8}
DROPOUT = {"embedding_dropout": 0.1, "mlp_dropout": 0.1, "attention_dropout": 0.1, "classifier_dropout": 0.1}
RANDOM = "none (random weights)"
TASKS = ("tnews", "afqmc", "docs_topic")
CALIBRATION = 12  # steps


def config(work, data, arm, out, **options):
    from maskwright.training.pretrain.config import PretrainConfig

    corpus = [str(data / "corpora" / f"{name}.txt.xz") for name in CORPORA]
    options |= {"from_config": FAMILY, "config_overrides": MODEL, "tokenizer": str(work / "tokenizer")}
    options |= {"corpus": corpus, "validation_share": 0.004, "cache_dir": str(work / "cache"), "report_to": []}
    options |= {"save_total_limit": 1, "seed": 0, "training_arguments": {"disable_tqdm": True}}
    return PretrainConfig(output_dir=str(out), **options, **ARMS[arm], **PRETRAINING)


def processor_clock():
    """A callback that counts processor seconds inside of training steps; the first two allocate memory and are not."""
    from transformers import TrainerCallback

    class Clock(TrainerCallback):
        spent, began = 0.0, 0.0

        def on_step_begin(self, args, state, control, **_):
            self.began = time.process_time()

        def on_step_end(self, args, state, control, **_):
            if state.global_step > 2:
                self.spent += time.process_time() - self.began

    return Clock()


def calibrate(work, data, arm, minutes):
    """How many steps fit, from a few of them."""
    import torch

    from maskwright.training.pretrain.run import run_pretrain

    torch.set_num_threads(1)
    clock = processor_clock()
    options = {"max_steps": CALIBRATION, "eval_steps": 10**6, "save_steps": 10**6, "overwrite_output_dir": True}
    run_pretrain(config(work, data, arm, work / "calibration" / arm, **options), [clock])
    steps = round(60 * minutes * (CALIBRATION - 2) / clock.spent)
    (work / "pretrained" / f"{arm}.json").write_text(json.dumps({"steps": steps, "minutes": minutes}))


def stop_at(step):
    from transformers import TrainerCallback

    class Stop(TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            control.should_training_stop = state.global_step >= step

    return Stop()


def pretrain_arm(work, data, arm, rate, *, only_begin=False):
    """With a learning rate; `only_begin`: a sixth of the schedule, to see whether the rate is any good."""
    import torch

    from maskwright.training.pretrain.run import run_pretrain

    torch.set_num_threads(1)
    plan = json.loads((work / "pretrained" / f"{arm}.json").read_text())
    steps = plan["steps"]
    options = {"max_steps": steps, "eval_steps": max(1, steps // 12), "save_steps": max(1, steps // 48)}
    options |= {"learning_rate": rate, "resume_from_checkpoint": True}
    out = work / "tuning" / f"{arm} at {rate:g}" if only_begin else work / "pretrained" / arm
    callbacks = [stop_at(2 * options["eval_steps"])] if only_begin else []
    result = run_pretrain(config(work, data, arm, out, **options), callbacks)
    (out / "spent.json").write_text(json.dumps(plan | {"learning_rate": rate} | result.to_dict()))


def tuned(work, arm):
    """Held-out loss after the first sixth by learning rate."""
    plan = work / "pretrained" / f"{arm}.json"
    found = {float(rate): loss for rate, loss in json.loads(plan.read_text()).get("tried", {}).items()}
    for rate in LEARNING_RATES:
        path = work / "tuning" / f"{arm} at {rate:g}" / "spent.json"
        if path.exists():
            found[rate] = json.loads(path.read_text())["eval_loss"]
    return found


def repeat():
    """Arm -> steps, minutes, learning rate and the rates tried, as published."""
    from harness import RESULTS

    records = json.loads((RESULTS / "pretraining.json").read_text())["records"]
    wanted = ("steps", "minutes", "learning_rate", "tried")
    return {record["arm"]: {key: record[key] for key in wanted} for record in records if "arm" in record}


def pretrain(work, data, minutes, plans):
    from transformers import BertTokenizer

    (work / "pretrained").mkdir(parents=True, exist_ok=True)
    for arm, plan in plans.items():
        path = work / "pretrained" / f"{arm}.json"
        if not path.exists():
            path.write_text(json.dumps(plan))
    vocabulary = (data / "vocab" / "google_zh_vocab.txt").read_text(encoding="utf-8").split("\n")
    vocabulary = [token for token in vocabulary if token]
    BertTokenizer(vocab={token: i for i, token in enumerate(vocabulary)}).save_pretrained(work / "tokenizer")
    for arm in ARMS:
        known = (work / "pretrained" / f"{arm}.json").exists()
        if not known and in_process("calibrate", work, data, arm, minutes).wait():
            raise SystemExit(f"{arm} failed; see above")
    known = {arm: json.loads((work / "pretrained" / f"{arm}.json").read_text()).get("learning_rate") for arm in ARMS}
    tried = [(arm, rate) for arm in ARMS if not known[arm] for rate in LEARNING_RATES]
    side_by_side("tune", work, data, [(arm, rate) for arm, rate in tried if rate not in tuned(work, arm)])
    waiting = [arm for arm in ARMS if not (work / "pretrained" / arm / "spent.json").exists()]
    best = {arm: known[arm] or min(losses := tuned(work, arm), key=losses.get) for arm in waiting}
    side_by_side("arm", work, data, list(best.items()))


def in_process(stage, work, data, *words):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, __file__, stage, str(work), str(data), *map(str, words)]
    return subprocess.Popen(command, env=environment)


def side_by_side(stage, work, data, jobs):
    """A process each, as many at once as there are processors."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        codes = list(pool.map(lambda words: in_process(stage, work, data, *words).wait(), jobs))
    if any(codes):
        raise SystemExit(f"{sum(map(bool, codes))} of {len(codes)} runs of {stage} failed; see above")


def variants(work):
    """Name -> folder of the model to fine-tune, None = random weights."""
    from maskwright.training.correct import correct_embeddings

    found = {RANDOM: None}
    for arm, options in ARMS.items():
        folder = work / "pretrained" / arm
        if not (folder / "spent.json").exists():
            continue
        found[arm] = folder
        if options["objective"] == "mlm":
            corrected = work / "corrected" / arm
            if not corrected.exists():
                correct_embeddings(folder, corrected)
            found[f"{arm}, corrected"] = corrected
    return found


def cell(work, data, name, task, seed, examples):
    import torch

    from maskwright.training.config import FinetuneConfig
    from maskwright.training.finetune import run_finetune

    torch.set_num_threads(1)
    model = variants(work)[name]
    start = {"from_config": FAMILY, "config_overrides": MODEL | DROPOUT}
    if model is not None:
        start = {"model": str(model), "config_overrides": DROPOUT}
    source = {"task": task, "data": str(data / "clue_mini" / task)}
    if task == "docs_topic":
        files = {"train_file": "train", "validation_file": "dev"}
        source = {option: str(data / task / f"{split}.jsonl") for option, split in files.items()}
    out = work / "fine-tuned" / f"{name}-{task}-{seed}"
    options = {"seed": seed, "limit_train": examples, "limit_eval": 2000, "eval_strategy": "no", "save_strategy": "no"}
    options |= {"load_best_model_at_end": False, "report_to": [], "training_arguments": {"disable_tqdm": True}}
    found = run_finetune(
        FinetuneConfig(
            output_dir=str(out),
            overwrite_output_dir=True,
            tokenizer=str(work / "tokenizer"),
            **start,
            **source,
            **options,
            **FINE_TUNING,
        )
    )
    (out / "model.safetensors").unlink()
    accuracy = next(value for key, value in found.metrics.items() if key.endswith("accuracy"))
    record = {"variant": name, "task": task, "seed": int(seed), "accuracy": accuracy, "seconds": found.train_s}
    (work / "cells" / f"{name}-{task}-{seed}.json").write_text(json.dumps(record | {"examples": examples}))


def finetune(work, data, seeds, examples):
    (work / "cells").mkdir(exist_ok=True)
    wanted = [(name, task, seed) for seed in seeds for task in TASKS for name in variants(work)]
    missing = [key for key in wanted if not (work / "cells" / "{}-{}-{}.json".format(*key)).exists()]
    side_by_side("cell", work, data, [(*key, examples) for key in missing])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    stages = parser.add_subparsers(dest="stage", required=True)
    for stage in ("pretrain", "calibrate", "tune", "arm", "finetune", "cell"):
        options = stages.add_parser(stage)
        options.add_argument("work", type=Path)
        options.add_argument("data", type=Path)
        if stage in ("arm", "tune", "calibrate"):
            options.add_argument("arm")
        if stage in ("arm", "tune"):
            options.add_argument("learning_rate", type=float)
        elif stage == "calibrate":
            options.add_argument("cpu_minutes", type=float)
        elif stage == "pretrain":
            options.add_argument("--cpu_minutes", type=float, default=50)
            options.add_argument("--repeat", action="store_true", help="the published steps and learning rates")
        elif stage == "cell":
            for name in ("name", "task", "seed"):
                options.add_argument(name)
            options.add_argument("examples", type=int)
        elif stage == "finetune":
            options.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
            options.add_argument("--examples", type=int, default=3000)
    o = parser.parse_args()
    work = o.work.resolve()
    if o.stage in ("arm", "tune"):
        pretrain_arm(work, o.data, o.arm, o.learning_rate, only_begin=o.stage == "tune")
    elif o.stage == "calibrate":
        calibrate(work, o.data, o.arm, o.cpu_minutes)
    elif o.stage == "pretrain":
        pretrain(work, o.data, o.cpu_minutes, repeat() if o.repeat else {})
    elif o.stage == "cell":
        cell(work, o.data, o.name, o.task, int(o.seed), o.examples)
    else:
        finetune(work, o.data, o.seeds, o.examples)


if __name__ == "__main__":
    main()
