"""What packing saves a training step: forward, backward and AdamW of BERT for classification, stock against packed.

    .venv/bin/python benchmarks/pack.py [--sizes base small] [--parts stock uniform drop memory]

Stock runs on batches padded in random order, and on the strongest alternative, batches of like length as transformers'
length-grouped sampler cuts them. Packed runs on the same texts in random order, sorted inside each batch. Lengths are
log-normal. "Ideal" is padded slots over real tokens of the random batches: what leaving out padding could gain at most
if attention cost nothing.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys

import torch
from harness import interleave, median, merge, peak_mib, publish, ratio, table
from transformers import BertConfig, BertForSequenceClassification

import maskwright as mw
from maskwright.encoders.pack import packing_of

SIZES = {"base": {}, "small": {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024}}
LAYERS = {"base": 12, "small": 4}
ROWS = {("base", 20): 32, ("base", 60): 16, ("base", 300): 8, ("small", 20): 128, ("small", 60): 64, ("small", 300): 16}
# Rounds of random order (far from packed), and of the contests that are close, for each size.
ROUNDS = {"base": (2, 5), "small": (3, 24)}
N_BATCHES = {"base": 2, "small": 2}
LONGEST, VOCAB, N_LABELS, SPECIAL = 512, 21128, 15, (0, 100, 101, 102)


def draw_lengths(mean, n, seed=0):
    """Log-normal lengths of texts in tokens, at least 4, at most 512."""
    generator = torch.Generator().manual_seed(seed)
    spread = 0.6 if mean < 150 else 0.7
    draws = torch.exp(math.log(mean) - spread**2 / 2 + spread * torch.randn(n, generator=generator))
    return draws.round().clamp(4, LONGEST).long().tolist()


def batch_of(lengths, seed=0):
    generator = torch.Generator().manual_seed(seed)
    longest = max(lengths)
    keep = torch.arange(longest) < torch.tensor(lengths)[:, None]
    ids = torch.randint(200, VOCAB, keep.shape, generator=generator).masked_fill(~keep, 0)
    ids[:, 0] = 101
    labels = torch.randint(0, N_LABELS, (len(lengths),), generator=generator)
    return {"input_ids": ids, "attention_mask": keep.long(), "labels": labels}


def random_order(mean, rows, n_batches):
    """The same texts in random order: as stock pads them, and sorted inside as packed batches are."""
    pool = draw_lengths(mean, 50 * rows)
    cut = [pool[i * rows : (i + 1) * rows] for i in range(n_batches)]
    return {
        "stock random": [batch_of(lengths, i) for i, lengths in enumerate(cut)],
        "packed": [batch_of(sorted(lengths, reverse=True), i) for i, lengths in enumerate(cut)],
    }


def length_grouped(mean, rows, n_batches):
    """The same texts grouped by length (from the middle of equal parts of 50 sorted batches), and mixed and packed."""
    pool = sorted(draw_lengths(mean, 50 * rows))
    middle = [int((i + 0.5) * 50 / n_batches) for i in range(n_batches)]
    groups = [pool[i * rows : (i + 1) * rows] for i in middle]
    mixed = [[group[row] for group in groups for row in range(i, rows, n_batches)] for i in range(n_batches)]
    return {
        "stock grouped": [batch_of(lengths, i) for i, lengths in enumerate(groups)],
        "packed": [batch_of(sorted(lengths, reverse=True), i) for i, lengths in enumerate(mixed)],
    }


def tokens(batches):
    return sum(int(batch["attention_mask"].sum()) for batch in batches)


def slots(batches):
    return sum(batch["attention_mask"].numel() for batch in batches)


def new_model(size, attention_dropout):
    torch.manual_seed(0)
    options = SIZES[size] | {"num_hidden_layers": LAYERS[size], "num_labels": N_LABELS, "vocab_size": VOCAB}
    config = BertConfig(attention_probs_dropout_prob=attention_dropout, **options)
    model = BertForSequenceClassification(config).train()
    return model, torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)


def train(model, optimizer, batches):
    for batch in batches:
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def against_stock(size, mean, attention_dropout):
    (rounds, close_rounds), n_batches = ROUNDS[size], N_BATCHES[size]
    far = random_order(mean, ROWS[size, mean], n_batches)
    near = length_grouped(mean, ROWS[size, mean], n_batches)
    stock, packed = new_model(size, attention_dropout), new_model(size, attention_dropout)
    mw.pack(packed[0])

    def runs(work):
        return {
            name: lambda name=name, batches=batches: train(*(packed if name == "packed" else stock), batches)
            for name, batches in work.items()
        }

    times = interleave(runs(far), rounds)
    gain = ratio(times, "stock random", "packed")
    ideal = slots(far["stock random"]) / tokens(far["packed"])
    return {
        "size": size,
        "mean length": mean,
        "attention dropout": attention_dropout,
        "packed us per token": 1e6 * median(times["packed"]) / tokens(far["packed"]),
        "ideal": ideal,
        "against random": gain,
        "share of ideal": gain / ideal,
        "against grouped": ratio(interleave(runs(near), close_rounds), "stock grouped", "packed"),
    }


def uniform(size, length):
    """No padding at all: packing has nothing to save."""
    batches = [batch_of([length] * ROWS[size, min(length, 60)], i) for i in range(N_BATCHES[size])]
    stock, packed = new_model(size, 0.0), new_model(size, 0.0)
    mw.pack(packed[0])
    runs = {"stock": lambda: train(*stock, batches), "packed": lambda: train(*packed, batches)}
    return {"size": size, "mean length": length, "against stock": ratio(interleave(runs, ROUNDS[size][1]), *runs)}


def droptoken(size):
    """Step time at each drop rate on long texts, relative to no drop."""
    batches = random_order(300, ROWS[size, 300], N_BATCHES[size])["packed"]
    model, optimizer = new_model(size, 0.0)
    mw.pack(model, special_ids=SPECIAL)

    def run(rate):
        packing_of(model).drop_rate = rate
        train(model, optimizer, batches)

    times = interleave({str(rate): lambda rate=rate: run(rate) for rate in (0.0, 0.1, 0.15, 0.3)}, ROUNDS[size][1])
    return {"size": size, "relative step time": {rate: ratio(times, rate, "0.0") for rate in times}}


def peak_memory(size, mean, attention_dropout):
    """Peak MiB of training on one random batch, each variant in a process of its own."""
    peaks = {}
    for variant in ("stock random", "packed"):
        command = [sys.executable, __file__, "--peak", size, str(mean), str(attention_dropout), variant]
        peaks[variant] = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])
    return {"size": size, "mean length": mean, "attention dropout": attention_dropout, "peak MiB": peaks}


def print_peak(size, mean, attention_dropout, variant):
    batches = random_order(int(mean), ROWS[size, int(mean)], 2)[variant]
    model, optimizer = new_model(size, float(attention_dropout))
    if variant == "packed":
        mw.pack(model)
    train(model, optimizer, batches)
    print(peak_mib())


PARTS = ("stock", "uniform", "drop", "memory")


def measure(part, size, means, dropouts):
    if part == "stock":
        for dropout in dropouts:
            for mean in means:
                yield against_stock(size, mean, dropout)
    elif part == "uniform":
        yield from (uniform(size, length) for length in (20, 60))
    elif part == "drop":
        yield droptoken(size)
    else:
        yield from (peak_memory(size, 60, dropout) for dropout in (0.0, 0.1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=SIZES)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--means", nargs="+", type=int, default=[20, 60, 300])
    parser.add_argument("--dropouts", nargs="+", type=float, default=[0.0, 0.1])
    parser.add_argument("--peak", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(os.cpu_count() or 1)
    if options.peak:
        print_peak(*options.peak)
        return
    for size in options.sizes:
        for part in options.parts:
            for record in measure(part, size, options.means, options.dropouts):
                print(record, flush=True)
                # Published as it comes, beside what earlier runs measured: an interrupted run loses nothing.
                records = merge("pack", [{"part": part} | record], ("part", "size", "mean length", "attention dropout"))
                publish("pack", "Training steps, stock against packed", report(records), records)


def report(records):
    measured = {part: [r for r in records if r["part"] == part] for part in PARTS}
    names = {"base": "12 x 768", "small": "4 x 256"}
    columns = ("ideal", "against random", "share of ideal", "against grouped")
    rows = [
        [names[r["size"]], r["mean length"], r["attention dropout"], *(float(r[c]) for c in columns)]
        for r in measured["stock"]
    ]
    parts = [
        "Forward, backward and fused AdamW in float32, times per real token, medians of interleaved rounds.",
        table(["model", "mean length", "attention dropout", *columns], rows),
        "Uniform lengths (no padding to save; 1.00 = as fast as stock):",
        table(
            ["model", "length", "against stock"],
            [[names[r["size"]], r["mean length"], float(r["against stock"])] for r in measured["uniform"]],
        ),
        "DropToken on long texts (mean 300): step time relative to no drop.",
        table(
            ["model", "0.1", "0.15", "0.3"],
            [
                [names[r["size"]], *(r["relative step time"][x] for x in ("0.1", "0.15", "0.3"))]
                for r in measured["drop"]
            ],
        ),
        "Peak memory of the process (MiB), random batches:",
        table(
            ["model", "mean length", "attention dropout", "stock", "packed"],
            [
                [names[r["size"]], r["mean length"], r["attention dropout"], *r["peak MiB"].values()]
                for r in measured["memory"]
            ],
        ),
    ]
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
