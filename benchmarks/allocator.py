"""Linux on CPU: what keeping freed memory in the process saves, where steps make and free very large tensors.

    .venv/bin/python benchmarks/allocator.py [--rounds 5]

glibc hands large freed blocks back to the kernel and gets them anew, zeroed page by page, in every step. The setting
keeps them. Measured in alternating child processes: a masked-LM step with logits of 4096 tokens over 21128 words
(346 MB), and a classification step without large tensors.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from statistics import median

import torch
from harness import publish, table
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification

import maskwright as mw

SETTING = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "-1", "MALLOC_TOP_PAD_": "268435456"}
STEPS = 4


def step_s(job):
    """Median seconds of a step."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024, "num_hidden_layers": 4}
    cls = BertForMaskedLM if job == "masked LM" else BertForSequenceClassification
    model = mw.pack(cls(BertConfig(vocab_size=21128, **sizes))).train()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    ids = torch.randint(200, 21128, (32, 128))
    labels = ids if job == "masked LM" else ids[:, 0] % 2
    times = []
    for _ in range(STEPS + 1):
        began = time.perf_counter()
        model(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.perf_counter() - began)
    return median(times[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(os.cpu_count() or 1)
    if options.one:
        print(step_s(options.one))
        return
    records = []
    for job in ("masked LM", "classification"):
        times = {"default": [], "kept": []}
        for _ in range(options.rounds):
            for name, setting in (("default", {}), ("kept", SETTING)):
                command = [sys.executable, __file__, "--one", job]
                run = subprocess.run(command, env=os.environ | setting, capture_output=True, text=True, check=True)
                times[name].append(float(run.stdout.split()[-1]))
        gain = median(a / b for a, b in zip(times["default"], times["kept"], strict=True))
        records.append({"job": job, **{name: median(samples) for name, samples in times.items()}, "times faster": gain})
    body = " ".join(f"`{name}={value}`" for name, value in SETTING.items()) + "\n\n"
    body += table(["step", "default s", "kept s", "times faster"], [list(record.values()) for record in records])
    publish("allocator", "Keeping freed memory in the process (glibc)", body, records)
    print(body)


if __name__ == "__main__":
    main()
