"""The page of `pretraining.py`: losses against processor time, and what fine-tuning made of each encoder.

.venv/bin/python benchmarks/pretraining_page.py WORK
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import mean, stdev

from harness import RESULTS, publish, table
from pretraining import ARMS, FINE_TUNING, MODEL, PRETRAINING, RANDOM, TASKS, tuned

BASELINE = "MLM 15%"


def report(work):
    arms = {}
    for arm in ARMS:
        path = work / "pretrained" / arm / "spent.json"
        if path.exists():
            run = json.loads(path.read_text())
            lines = [json.loads(line) for line in (path.parent / "metrics.jsonl").read_text().splitlines()]
            per_step = run["minutes"] / run["n_steps"]
            losses = {line["step"]: line["eval_loss"] for line in lines if "eval_loss" in line}
            curve = [{"minutes": step * per_step, "loss": loss} for step, loss in sorted(losses.items())]
            del run["output_dir"]
            arms[arm] = run | {"arm": arm, "curve": curve, "tried": tuned(work, arm)}
    frequency = next(iter(arms.values()))["frequency_loss"]
    cells = [json.loads(path.read_text()) for path in sorted((work / "cells").glob("*.json"))]
    draw(arms, frequency, RESULTS / "pretraining.png")
    rows = [
        [
            arm,
            f"{run['learning_rate']:g}",
            f"{run['minutes']:.1f}",
            run["n_steps"],
            f"{run['n_tokens'] / 1e6:.2f}",
            f"{run['eval_loss']:.3f}",
        ]
        for arm, run in arms.items()
    ]
    tried = {arm: run["tried"] for arm, run in arms.items()}
    rates = sorted({rate for losses in tried.values() for rate in losses})
    parts = [
        f"ModernBERT {MODEL['num_hidden_layers']} x {MODEL['hidden_size']}, {json.dumps(PRETRAINING)}, one thread "
        "each, no dropout. Minutes of processor time as planned from the cost of a step on a quiet machine; the loss "
        "is that of 15% of held-out tokens, the same every time, none of them seen: [MASK] for MLM, removed for MAE. "
        f"Guessing tokens by frequency scores {frequency:.3f}.",
        table(["pretraining", "learning rate", "minutes", "steps", "million tokens", "masked loss"], rows),
        "The loss after the first sixth of the steps, by learning rate; each went on with its best.",
        table(
            ["pretraining", *(f"{rate:g}" for rate in rates)],
            [
                [arm, *(f"{losses[rate]:.3f}" if rate in losses else "-" for rate in rates)]
                for arm, losses in tried.items()
            ],
        ),
        "![masked loss against processor time](pretraining.png)",
    ]
    if cells:
        parts += [fine_tuned(cells)]
    publish("pretraining", "Pretraining at equal cost", "\n\n".join(parts), [*arms.values(), *cells])


def fine_tuned(cells):
    by_key = {(c["variant"], c["task"], c["seed"]): 100 * c["accuracy"] for c in cells}
    names = dict.fromkeys(c["variant"] for c in cells)
    order = [RANDOM, *(n for arm in ARMS for n in (arm, f"{arm}, corrected"))]
    seeds = sorted({c["seed"] for c in cells})
    rows = []
    for name in sorted(names, key=order.index):
        row = [name]
        for task in TASKS:
            found = [by_key[name, task, seed] for seed in seeds if (name, task, seed) in by_key]
            row.append(f"{mean(found):.2f} ± {stdev(found):.2f}" if len(found) > 1 else "-")
        rows.append(row)
    lines = [
        f"Fine-tuned on {cells[0]['examples']} examples a task, {json.dumps(FINE_TUNING)}; accuracy in % on held-out "
        f"examples, mean ± standard deviation over seeds {seeds}.",
        table(["pretraining", *TASKS], rows),
    ]
    return "\n\n".join([*lines, *differences(by_key)])


def differences(by_key):
    """Against MLM 15%, and the correction against what it corrected; in points, over pairs of task and seed."""
    from maskwright.training.sweep.compare import holm, paired

    wanted = [(f"{arm}, corrected", arm) for arm in ARMS]
    wanted += [(name, BASELINE) for name in (RANDOM, *ARMS) if name != BASELINE]
    compared = []
    for one, other in wanted:
        keys = [key for name, *key in by_key if name == one and (other, *key) in by_key]
        if len(keys) < 2:
            continue
        found = paired(*([by_key[name, *key] for key in keys] for name in (one, other)))
        if found.p is not None:  # None: every pair differs by the same, which tells nothing of the scatter
            compared.append((one, other, found))
    corrected = holm([found.p for *_, found in compared])
    rows = [
        [one, other, interval(d), d.n_pairs, f"{d.p:.3f}", f"{p:.3f}"]
        for (one, other, d), p in zip(compared, corrected, strict=True)
    ]
    yield (
        "Differences in points over pairs of task and seed, with 95% intervals and a paired t-test; beside its p the "
        "one corrected for their number by Holm's method."
    )
    yield table(["pretraining", "against", "difference", "pairs", "p", "p (Holm)"], rows)


def interval(found):
    """Where all pairs are equal there is none."""
    reach = "" if found.low is None else f" ({found.low:+.2f} to {found.high:+.2f})"
    return f"{found.difference:+.2f}{reach}"


def draw(arms, frequency, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    for arm, run in arms.items():
        style = "-" if arm.startswith("MLM") else "--"
        axes.plot([p["minutes"] for p in run["curve"]], [p["loss"] for p in run["curve"]], style, marker=".", label=arm)
    axes.axhline(frequency, color="gray", linestyle=":", label="guessing by frequency")
    axes.set(xlabel="processor minutes (one thread)", ylabel="masked loss at 15%, nats a token")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    report(parser.parse_args().work.resolve())


if __name__ == "__main__":
    main()
