"""Measuring A against B: in turn, in one process, medians, and a results file that says under which conditions."""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers

import maskwright as mw

RESULTS = Path(__file__).parent / "results"
_TICKS = os.sysconf("SC_CLK_TCK")


def interleave(variants: Mapping[str, Callable[[], Any]], rounds: int, patience_s: float = 900.0) -> dict[str, float]:
    """Median seconds of each variant over `rounds` rounds; each round begins with another variant.

    A sample during which other processes used more than a tenth of its time is dropped and repeated, for up to
    `patience_s` seconds in all; then whatever there is counts.
    """
    for run in variants.values():
        run()
    samples: dict[str, list[float]] = {name: [] for name in variants}
    disturbed: dict[str, list[float]] = {name: [] for name in variants}
    order = list(variants)
    until = time.monotonic() + patience_s
    while time.monotonic() < until and any(len(s) < rounds for s in samples.values()):
        for name in order:
            if len(samples[name]) >= rounds:
                continue
            foreign = _foreign_s()
            began = time.perf_counter()
            variants[name]()
            took = time.perf_counter() - began
            clean = _foreign_s() - foreign <= max(0.03, 0.1 * took)
            (samples if clean else disturbed)[name].append(took)
        order.append(order.pop(0))
    return {name: statistics.median(samples[name] or disturbed[name]) for name in variants}


def _foreign_s() -> float:
    """Processor seconds that other processes have used since the machine started (Linux; elsewhere 0)."""
    try:
        fields = [int(x) for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    except OSError:
        return 0.0
    busy = sum(fields[i] for i in (0, 1, 2, 5, 6, 7)) / _TICKS
    return busy - time.process_time()


def peak_mib() -> int:
    """The most memory this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def conditions() -> dict[str, Any]:
    """Versions, threads and machine, for the head of a results file."""
    return {
        "maskwright": mw.__version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
        "processor": _processor(),
        "threads": torch.get_num_threads(),
        "date": time.strftime("%Y-%m-%d"),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(f"{x:.2f}" if isinstance(x, float) else str(x) for x in row) + " |" for row in rows]
    return "\n".join(lines)


def publish(topic: str, title: str, body: str, records: Sequence[Mapping[str, Any]]) -> None:
    """Write `results/<topic>.md` and `.json`, and print the former."""
    RESULTS.mkdir(exist_ok=True)
    facts = conditions()
    head = f"# {title}\n\n" + ", ".join(f"{name} {value}" for name, value in facts.items()) + "\n\n"
    (RESULTS / f"{topic}.md").write_text(head + body.strip() + "\n", encoding="utf-8")
    data = {"conditions": facts, "records": list(records)}
    (RESULTS / f"{topic}.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    print(head + body)
