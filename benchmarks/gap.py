"""How far is the network people fine-tune from the average of the networks that were pretrained, for several models?

    .venv/bin/python benchmarks/gap.py TEXT... --model NAME NOISE FOLDER --model NAME NOISE FOLDER ...
        [--rates 0.15 0.3 0.5 0.75] [--draws 64] [--texts 200] [--boundary blank_line] [--work gap]

NOISE is mlm, mae or droptoken; the same folder may come under several. Each pair is measured as `maskwright gap` does,
and kept under WORK: what is there is not done again. Published are the last layer and the pooled vectors of each, and
a sentence a model on whether the correction brings the network closer.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import harness
from harness import merge, publish, table


def measure(name, noise, folder, options):
    """The record of one model under one noise."""
    from maskwright.training.gap.report import run_gap
    from maskwright.training.gap.write import write_report

    out = options.work / f"{name}-{noise}"
    asked = {"model": str(Path(folder).resolve()), "text": options.text, "rates": options.rates, "seed": options.seed}
    asked |= {"draws": options.draws, "texts": options.texts, "boundary": options.boundary}
    if not (out / "asked.json").exists() or json.loads((out / "asked.json").read_text()) != asked:
        report = run_gap(
            folder,
            options.text,
            noise=noise,
            rates=options.rates,
            n_draws=options.draws,
            n_texts=options.texts,
            boundary=options.boundary,
            seed=options.seed,
        )
        write_report(report, out)
        (out / "asked.json").write_text(json.dumps(asked))
    found = json.loads((out / "gap.json").read_text())
    texts = ", ".join(Path(file).name for file in options.text)
    kept = ("n_texts", "n_draws", "n_tokens", "rows", "comparisons")
    return {"model": name, "noise": noise, "text": texts} | {field: found[field] for field in kept}


def lines_of(record):
    """Table rows of a record: a place each, tokens intact in a draw beside all of them."""
    from maskwright.training.gap.words import number

    layers = [row["where"] for row in record["rows"] if row["where"].startswith("layer")]
    rates = rates_of([record])
    for where, tokens in (
        ("layer 0", "all"),
        (layers[-1], "all"),
        (layers[-1], "intact"),
        ("mean", "all"),
        ("cls", "all"),
    ):
        here = [row for row in record["rows"] if (row["where"], row["tokens"]) == (where, tokens)]
        for reference in dict.fromkeys(row["reference"] for row in here):
            by_rate = {row["rate"]: row for row in here if row["reference"] == reference}
            cells = [
                number(*(by_rate[rate][k] for k in ("distance", "low", "high"))) if rate in by_rate else ""
                for rate in rates
            ]
            kind = f"{where}, intact" if tokens == "intact" else where
            yield record["noise"], [record["model"], kind, reference, *cells]


def rates_of(records):
    return sorted({row["rate"] for record in records for row in record["rows"]})


def sentence(record):
    """Whether the correction brings the model of a record closer to its average."""
    from maskwright.training.gap.report import Comparison
    from maskwright.training.gap.words import verdict

    found = [verdict(Comparison(**one)) for one in record["comparisons"] if one["tokens"] == "all"]
    counts = ", ".join(f"{word} in {found.count(word)}" for word in ("closer", "farther", "no different"))
    return (
        f"- {record['model']}, {record['noise']}, with corrected embeddings: {counts} of {len(found)} places and rates."
    )


def body(records):
    parts = [
        "Distance of the model without noise from its average under noise, in units of the spread of the averaged "
        "states (`docs/gap.md`), with 95% intervals over texts and draws. *intact*: tokens over the draws that leave "
        "them as they are, which is what the visible tokens of MAE compare with."
    ]
    for record in records:
        facts = (
            f"{record['n_texts']} texts of {record['text']}, {record['n_tokens']:,} tokens, {record['n_draws']} draws"
        )
        parts.append(f"**{record['model']}, {record['noise']}**: {facts}.")
        rows = [row for _, row in lines_of(record)]
        parts.append(table(["model", "where", "reference", *(f"{rate:g}" for rate in rates_of([record]))], rows))
    said = [sentence(record) for record in records if record["comparisons"]]
    parts += ["\n".join(said)] if said else []
    parts.append("![distance in the last layer against the rate](gap.png)")
    return "\n\n".join(parts)


def draw(records, path):
    """The last layer against the rate: visible or intact tokens of every model, so that MLM and MAE compare."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    for i, record in enumerate(records):
        layers = [row["where"] for row in record["rows"] if row["where"].startswith("layer")]
        tokens = "intact" if record["noise"] == "mlm" else "all"
        here = [row for row in record["rows"] if (row["where"], row["tokens"]) == (layers[-1], tokens)]
        for reference in dict.fromkeys(row["reference"] for row in here):
            part = [row for row in here if row["reference"] == reference]
            mean = [row["distance"] for row in part]
            error = [[r["distance"] - r["low"] for r in part], [r["high"] - r["distance"] for r in part]]
            axes.errorbar(
                [row["rate"] for row in part],
                mean,
                error,
                color=pyplot.get_cmap("viridis")(0.88 * i / max(1, len(records) - 1)),
                linestyle="-" if reference == "plain" else "--",
                marker="osD^vP*X"[i % 8],
                capsize=2,
                label=f"{record['model']}, {record['noise']}{'' if reference == 'plain' else ', corrected'}",
            )
    axes.set(xlabel="rate", ylabel="distance in the last layer, tokens that are seen as they are")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", nargs="+")
    parser.add_argument("--model", nargs=3, action="append", required=True, metavar=("NAME", "NOISE", "FOLDER"))
    parser.add_argument("--rates", type=float, nargs="+", default=[0.15, 0.3, 0.5, 0.75])
    parser.add_argument("--draws", type=int, default=64)
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--boundary", default="blank_line")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, default=Path("gap"))
    options = parser.parse_args(words)
    new = [measure(*model, options) for model in options.model]
    records = merge("gap", new, ("model", "noise"))
    harness.RESULTS.mkdir(exist_ok=True)
    draw(records, harness.RESULTS / "gap.png")
    publish("gap", "The gap between pretraining and fine-tuning", body(records), records)


if __name__ == "__main__":
    main()
