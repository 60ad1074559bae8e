"""Fine-tuning on TNEWS: transformers' own Trainer against `maskwright finetune`, same settings, several seeds.

    .venv/bin/python benchmarks/tnews.py MODEL TNEWS_FOLDER [--seeds 0 1 2] [--epochs 3]

For each seed both run at the same moment, each on one core and one thread of its own, so that whatever else happens on
the machine disturbs both alike. Seconds are those of training alone; accuracy is that of the last weights on the dev
set.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from statistics import mean, stdev

from harness import publish, table

SETTINGS = {"learning_rate": 5e-5, "per_device_train_batch_size": 32, "warmup_steps": 0.1, "weight_decay": 0.01}
SETTINGS |= {"optim": "adamw_torch_fused", "bf16": True, "eval_strategy": "no", "save_strategy": "no"}
MAX_LENGTH = 128


def run_packed(model, folder, seed, epochs, out):
    from maskwright.training.config import FinetuneConfig
    from maskwright.training.finetune import run_finetune

    options = SETTINGS | {"output_dir": out, "num_train_epochs": epochs, "seed": seed, "max_length": MAX_LENGTH}
    config = FinetuneConfig(model=model, task="tnews", data=folder, report_to=[], **options)
    result = run_finetune(config)
    return {"accuracy": result.metrics["dev_accuracy"], "seconds": result.train_s}


def run_stock(model, folder, seed, epochs, out):
    import numpy as np
    from datasets import Dataset
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
        set_seed,
    )

    def read(name):
        with open(os.path.join(folder, f"{name}.json"), encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        return [row["sentence"] for row in rows], [row["label"] for row in rows]

    set_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(model)
    (train_texts, train_labels), (dev_texts, dev_labels) = read("train"), read("dev")
    names = sorted(set(train_labels), key=int)

    def encode(texts, labels):
        encoded = tokenizer(texts, truncation=True, max_length=MAX_LENGTH)
        return Dataset.from_dict({**encoded, "labels": [names.index(label) for label in labels]})

    classifier = AutoModelForSequenceClassification.from_pretrained(model, num_labels=len(names), dtype="float32")
    trainer = Trainer(
        classifier,
        TrainingArguments(out, num_train_epochs=epochs, seed=seed, report_to=[], use_cpu=True, **SETTINGS),
        train_dataset=encode(train_texts, train_labels),
        eval_dataset=encode(dev_texts, dev_labels),
        data_collator=DataCollatorWithPadding(tokenizer),
        compute_metrics=lambda p: {"accuracy": float((np.argmax(p.predictions, -1) == p.label_ids).mean())},
    )
    began = time.perf_counter()
    trainer.train()
    seconds = time.perf_counter() - began
    return {"accuracy": trainer.evaluate()["eval_accuracy"], "seconds": seconds}


def both(model, folder, seed, epochs):
    """Run both variants side by side, each bound to a core."""
    running = {}
    with tempfile.TemporaryDirectory() as out:
        for core, variant in enumerate(("stock", "packed")):
            command = [
                sys.executable,
                __file__,
                model,
                folder,
                "--one",
                variant,
                str(seed),
                str(core),
                f"{out}/{variant}",
            ]
            command += ["--epochs", str(epochs)]
            environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
            running[variant] = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        return {variant: json.loads(p.communicate()[0].splitlines()[-1]) for variant, p in running.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("folder")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        variant, seed, core, out = options.one
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {int(core) % (os.cpu_count() or 1)})
        run = run_stock if variant == "stock" else run_packed
        print(json.dumps(run(options.model, options.folder, int(seed), options.epochs, out)))
        return
    records = []
    for seed in options.seeds:
        found = both(options.model, options.folder, seed, options.epochs)
        records += [{"variant": variant, "seed": seed, **figures} for variant, figures in found.items()]
        print(records[-2:], flush=True)
    report(records, options)


def report(records, options):
    rows = []
    for variant in ("stock", "packed"):
        own = [r for r in records if r["variant"] == variant]
        accuracy, seconds = [100 * r["accuracy"] for r in own], [r["seconds"] for r in own]
        shown = f"{mean(accuracy):.2f} ± {stdev(accuracy):.2f}" if len(own) > 1 else f"{accuracy[0]:.2f}"
        rows.append([variant, shown, round(mean(seconds)), " ".join(f"{a:.2f}" for a in accuracy)])
    pairs = len(options.seeds)
    faster = mean(records[2 * i]["seconds"] / records[2 * i + 1]["seconds"] for i in range(pairs))
    body = (
        f"{options.epochs:g} epochs, seeds {options.seeds}, {json.dumps(SETTINGS)}, longest text {MAX_LENGTH} tokens. "
        "Mean ± standard deviation over seeds; one core and one thread a run.\n\n"
        + table(["variant", "dev accuracy %", "training s", "by seed"], rows)
        + f"\n\nPacked is {faster:.2f} times faster (mean of the ratios of runs side by side)."
    )
    publish("tnews", "TNEWS, transformers' Trainer against maskwright finetune", body, records)


if __name__ == "__main__":
    main()
