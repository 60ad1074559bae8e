"""Prediction by model averaging: 16 noisy passes as packed batches against 16 passes of a stock model.

    .venv/bin/python benchmarks/averaging.py [--sizes base small] [--means 20 60 300] [--texts 128] [--rounds 3]

The texts are random tokens of log-normal lengths in random order. Stock runs a pass after the other over padded batches
of 32 texts as they come, and, as the strongest alternative, of texts sorted by length. Packed puts all samples of a
text into one batch, up to a budget of padded slots. Both use the same noise: the model's dropout of 0.1, attention
dropout included; or a tenth of the tokens left out, which a stock model masks and a packed one does not compute. Time
includes drawing the noise, and the means and spreads of the probabilities.
"""

from __future__ import annotations

import argparse
import os

import numpy as np
import torch
from datasets import Dataset
from harness import interleave, median, merge, publish, ratio, table
from pack import LAYERS, N_LABELS, SIZES, SPECIAL, VOCAB, draw_lengths
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

import maskwright as mw
from maskwright.data.collate import PaddingCollator
from maskwright.objectives.averaging import summarise
from maskwright.objectives.dropout import dropout_on
from maskwright.training.average import Sampling, average_outputs, drop_tokens
from maskwright.training.metrics import probabilities

SAMPLES, ROWS, BUDGET = 16, 32, 4096
CLASSES = "single_label_classification"
NOISES = {"dropout": Sampling(samples=SAMPLES), "droptoken": Sampling(samples=SAMPLES, noise="droptoken")}


def texts_of(mean, n):
    """Rows of random tokens, [CLS] before and [SEP] after them."""
    lengths = draw_lengths(mean, n)
    rng = np.random.default_rng(0)
    ids = [[101, *rng.integers(200, VOCAB, length - 2).tolist(), 102] for length in lengths]
    return Dataset.from_dict({"input_ids": ids, "length": lengths})


def collator():
    """Pads with id 0; the vocabulary itself is not needed."""
    return PaddingCollator(BertTokenizer(vocab={"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}))


def new_model(size):
    torch.manual_seed(0)
    options = SIZES[size] | {"num_hidden_layers": LAYERS[size], "num_labels": N_LABELS, "vocab_size": VOCAB}
    return BertForSequenceClassification(BertConfig(**options)).eval()


def stock_passes(model, dataset, sampling, *, by_length):
    """16 passes of a stock model, each over batches of 32 padded texts."""
    lengths = np.asarray(dataset["length"])
    order = np.argsort(-lengths, kind="stable") if by_length else np.arange(len(lengths))
    rows, collate = dataset["input_ids"], collator()
    logits = np.empty((sampling.samples, len(lengths), N_LABELS), np.float32)
    for sample in range(sampling.samples):
        for start in range(0, len(order), ROWS):
            chosen = order[start : start + ROWS]
            batch = collate([{"input_ids": rows[i]} for i in chosen])
            if sampling.noise == "droptoken":
                drop_tokens(batch, chosen, np.full(len(chosen), sample), SPECIAL, sampling)
            logits[sample, chosen] = model(**batch).logits.numpy()
    return summarise(probabilities(logits, CLASSES), CLASSES)


def compare(size, mean, n_texts, noise, rounds):
    sampling, dataset = NOISES[noise], texts_of(mean, n_texts)
    stock, packed = new_model(size), mw.pack(new_model(size))

    def by_stock(by_length):
        if noise == "droptoken":
            return stock_passes(stock, dataset, sampling, by_length=by_length)
        with dropout_on(stock):
            return stock_passes(stock, dataset, sampling, by_length=by_length)

    def by_packing():
        options = {"max_tokens": BUDGET}
        return average_outputs(packed, SPECIAL, collator(), dataset, ("logits",), CLASSES, sampling, **options)[0]

    runs = {
        "stock": lambda: by_stock(by_length=False),
        "stock sorted": lambda: by_stock(by_length=True),
        "packed": by_packing,
    }
    with torch.inference_mode():
        times = interleave(runs, rounds)
        apart = float(np.abs(by_packing().mean - by_stock(by_length=False).mean).max())
    lengths = np.asarray(dataset["length"])
    batches = [lengths[start : start + ROWS] for start in range(0, len(lengths), ROWS)]
    return {
        "model": f"{LAYERS[size]} x {stock.config.hidden_size}",
        "noise": noise,
        "mean length": mean,
        "texts": n_texts,
        "rounds": rounds,
        "padding": 1 - float(lengths.sum()) / sum(int(batch.max()) * len(batch) for batch in batches),
        "stock s": median(times["stock"]),
        "packed s": median(times["packed"]),
        "times faster": ratio(times, "stock", "packed"),
        "than sorted": ratio(times, "stock sorted", "packed"),
        "largest difference of means": apart,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=["base", "small"])
    parser.add_argument("--means", nargs="+", type=int, default=[20, 60, 300])
    parser.add_argument("--noises", nargs="+", choices=list(NOISES), default=list(NOISES))
    parser.add_argument("--texts", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(os.cpu_count() or 1)
    for size in options.sizes:
        for noise in options.noises:
            for mean in options.means:
                found = compare(size, mean, options.texts, noise, options.rounds)
                print(found, flush=True)
                report(merge("averaging", [found], ("model", "noise", "mean length")))


def report(records):
    """The page, after every row: a run that is stopped leaves what it has measured."""
    rows = [[*list(record.values())[:-1], f"{record['largest difference of means']:.1e}"] for record in records]
    body = (
        f"{SAMPLES} samples of every text. Medians over the rounds, which run all three in turn; above 1 = packed is "
        f"faster. Stock batches hold {ROWS} texts, packed ones at most {BUDGET} padded slots. With DropToken both draw "
        "the same tokens, so the means agree; with dropout they agree within sampling error.\n\n"
        + table(list(records[0]), rows)
    )
    publish("averaging", "Prediction by averaging over noise", body, records)


if __name__ == "__main__":
    main()
