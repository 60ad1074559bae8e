"""Pooling without unpacking, and without multiplying: time and memory against the usual ways.

    .venv/bin/python benchmarks/pooling.py

Packed mean and max of T = 100,000 tokens (D = 768, log-normal lengths) against unpacking them and pooling the padded
tensor; padded mean against the usual multiply-and-sum. Forward, and forward with backward.
"""

from __future__ import annotations

import os
import subprocess
import sys

import torch
from harness import interleave, median, peak_mib, publish, ratio, reset_peak_mib, table
from pack import draw_lengths

import maskwright as mw
from maskwright import pooling

WIDTH, N_TOKENS, ROUNDS = 768, 100_000, 3


def workload(dtype=torch.float32):
    """Packed states of 100,000 tokens, their layout, and the same padded."""
    lengths = []
    for n in draw_lengths(60, 4 * N_TOKENS // 60):
        if sum(lengths) + n > N_TOKENS:
            break
        lengths.append(n)
    layout = mw.Layout.from_mask(mw.masks.padding(lengths=lengths).to_attention_mask())
    packed = torch.randn(layout.n_tokens, WIDTH, generator=torch.Generator().manual_seed(0)).to(dtype)
    return packed, layout


def multiply_and_sum(hidden, keep):
    """As sentence-transformers and most tutorials do."""
    mask = keep[..., None].to(hidden.dtype)
    return (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)


def fill_and_max(hidden, keep):
    return hidden.masked_fill(~keep[..., None], -1e9).amax(1)


CONTESTS = {
    "packed mean": ("unpack, multiply and sum", "packed mean"),
    "packed max": ("unpack, fill and max", "packed max"),
    "padded mean": ("multiply and sum", "padded mean"),
    "padded max": ("fill and max", "padded max"),
}


def variants(packed, layout):
    padded, keep = layout.unpack(packed), layout.keep
    return {
        "unpack, multiply and sum": (packed, lambda x: multiply_and_sum(layout.unpack(x), keep)),
        "unpack, fill and max": (packed, lambda x: fill_and_max(layout.unpack(x), keep)),
        "packed mean": (packed, lambda x: pooling.mean(x, layout)),
        "packed max": (packed, lambda x: pooling.max(x, layout)),
        "multiply and sum": (padded, lambda x: multiply_and_sum(x, keep)),
        "padded mean": (padded, lambda x: pooling.mean(x, keep)),
        "fill and max": (padded, lambda x: fill_and_max(x, keep)),
        "padded max": (padded, lambda x: pooling.max(x, keep)),
    }


def forward(x, pool):
    with torch.no_grad():
        return pool(x)


def both(x, pool):
    x = x.detach().requires_grad_()
    pool(x).sum().backward()


def peak(name):
    """MiB that one forward and backward adds to the process."""
    command = [sys.executable, __file__, "--peak", name]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def main():
    torch.set_num_threads(os.cpu_count() or 1)
    packed, layout = workload()
    runs = variants(packed, layout)
    if sys.argv[1:2] == ["--peak"]:
        x, pool = runs[sys.argv[2]]
        before = reset_peak_mib()
        both(x, pool)
        print(peak_mib() - before)
        return
    records = []
    for name, (usual, ours) in CONTESTS.items():
        record = {"what": name, "against": usual}
        for step, work in (("forward", forward), ("with backward", both)):
            times = interleave({key: lambda key=key, work=work: work(*runs[key]) for key in (usual, ours)}, ROUNDS)
            record |= {step: ratio(times, usual, ours), f"{step} ms": 1e3 * median(times[ours])}
        record |= {"usual MiB": peak(usual), "MiB": peak(ours)}
        print(record, flush=True)
        records.append(record)
    publish("pooling", "Pooling", report(records, layout), records)


def report(records, layout):
    slots = layout.n_rows * layout.length
    columns = ["what", "against", "forward", "with backward", "MiB", "usual MiB"]
    return (
        f"T = {layout.n_tokens:,} tokens in {layout.n_rows:,} rows ({slots:,} slots padded), D = {WIDTH}, float32. "
        f"Medians of {ROUNDS} interleaved rounds; above 1 = faster than the usual way. Memory is what one forward and "
        "backward adds to a process of its own.\n\n"
        + table(columns, [[record[column] for column in columns] for record in records])
    )


if __name__ == "__main__":
    main()
