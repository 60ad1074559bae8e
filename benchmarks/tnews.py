"""Fine-tuning on TNEWS: transformers' own Trainer against `maskwright finetune`, same settings, several seeds.

    .venv/bin/python benchmarks/tnews.py MODEL TNEWS_FOLDER [--seeds 0 1 2] [--epochs 3]

Both run at the same time, seed after seed, each on one core and one thread of its own, so that whatever else happens on
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
from concurrent.futures import ThreadPoolExecutor
from statistics import mean, stdev

from harness import merge, publish, table

SETTINGS = {"learning_rate": 5e-5, "per_device_train_batch_size": 32, "warmup_steps": 0.1, "weight_decay": 0.01}
SETTINGS |= {"optim": "adamw_torch_fused", "eval_strategy": "no", "save_strategy": "no"}
MAX_LENGTH = 128


def run_packed(model, folder, seed, epochs, out, settings):
    from maskwright.training.config import FinetuneConfig
    from maskwright.training.finetune import run_finetune

    options = settings | {"output_dir": out, "num_train_epochs": epochs, "seed": seed, "max_length": MAX_LENGTH}
    config = FinetuneConfig(model=model, task="tnews", data=folder, report_to=[], **options)
    result = run_finetune(config)
    return {"accuracy": result.metrics["dev_accuracy"], "seconds": result.train_s}


def run_stock(model, folder, seed, epochs, out, settings):
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
        TrainingArguments(out, num_train_epochs=epochs, seed=seed, report_to=[], use_cpu=True, **settings),
        train_dataset=encode(train_texts, train_labels),
        eval_dataset=encode(dev_texts, dev_labels),
        data_collator=DataCollatorWithPadding(tokenizer),
        compute_metrics=lambda p: {"accuracy": float((np.argmax(p.predictions, -1) == p.label_ids).mean())},
    )
    began = time.perf_counter()
    trainer.train()
    seconds = time.perf_counter() - began
    return {"accuracy": trainer.evaluate()["eval_accuracy"], "seconds": seconds}


def queue(variant, core, options):
    """All seeds of a variant, one after the other, bound to a core."""
    found = []
    for seed in options.seeds:
        with tempfile.TemporaryDirectory() as out:
            command = [sys.executable, __file__, options.model, options.folder, "--epochs", str(options.epochs)]
            command += ["--one", variant, str(seed), str(core), out] + ["--float32"] * options.float32
            environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
            run = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=True)
        print(variant, seed, run.stdout.splitlines()[-1], flush=True)
        precision = "float32" if options.float32 else "bfloat16"
        found.append(
            {"variant": variant, "seed": seed, "precision": precision, **json.loads(run.stdout.splitlines()[-1])}
        )
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("folder")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--float32", action="store_true", help="for processors that compute bfloat16 slowly")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        variant, seed, core, out = options.one
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {int(core) % (os.cpu_count() or 1)})
        run = run_stock if variant == "stock" else run_packed
        settings = SETTINGS | {"bf16": not options.float32}
        print(json.dumps(run(options.model, options.folder, int(seed), options.epochs, out, settings)))
        return
    with ThreadPoolExecutor(2) as pool:
        queues = [pool.submit(queue, variant, core, options) for core, variant in enumerate(("stock", "packed"))]
        found = [record for part in queues for record in part.result()]
    report(merge("tnews", found, ("variant", "seed")), options.epochs)  # beside the seeds of earlier runs


def report(records, epochs):
    seeds = sorted({r["seed"] for r in records})
    rows = []
    for variant in ("stock", "packed"):
        own = [r for r in records if r["variant"] == variant]
        accuracy, seconds = [100 * r["accuracy"] for r in own], [r["seconds"] for r in own]
        shown = f"{mean(accuracy):.2f} ± {stdev(accuracy):.2f}" if len(own) > 1 else f"{accuracy[0]:.2f}"
        rows.append([variant, shown, round(mean(seconds)), " ".join(f"{a:.2f}" for a in accuracy)])
    seconds = {v: sum(r["seconds"] for r in records if r["variant"] == v) for v in ("stock", "packed")}
    faster = seconds["stock"] / seconds["packed"]
    precisions = " and ".join(sorted({r.get("precision", "bfloat16") for r in records}))
    body = (
        f"{epochs:g} epochs, seeds {seeds}, {precisions}, {json.dumps(SETTINGS)}, "
        f"longest text {MAX_LENGTH} tokens. "
        "Mean ± standard deviation over seeds; one core and one thread a run.\n\n"
        + table(["variant", "dev accuracy %", "training s", "by seed"], rows)
        + f"\n\nPacked is {faster:.2f} times faster (all seeds together)."
    )
    publish("tnews", "TNEWS, transformers' Trainer against maskwright finetune", body, records)
    print(body)


if __name__ == "__main__":
    main()
