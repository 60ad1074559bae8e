"""Measuring A against B: in turn, in one process, medians, and a results file that says under which conditions."""

from __future__ import annotations

import contextlib
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


def interleave(variants: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each variant in each of `rounds` rounds; a round runs all in turn and begins with another one.

    A round during which other processes used more than a tenth of the time is dropped and repeated, as often as there
    are rounds; then it counts.
    """
    for run in variants.values():
        run()
    clean: list[dict[str, float]] = []
    disturbed: list[dict[str, float]] = []
    order = list(variants)
    while len(clean) < rounds and len(clean) + len(disturbed) < 2 * rounds:
        foreign, began, took = _foreign_s(), time.perf_counter(), {}
        for name in order:
            start = time.perf_counter()
            variants[name]()
            took[name] = time.perf_counter() - start
        quiet = _foreign_s() - foreign <= max(0.05, 0.1 * (time.perf_counter() - began))
        (clean if quiet else disturbed).append(took)
        order.append(order.pop(0))
    kept = (clean + disturbed)[:rounds]
    return {name: [took[name] for took in kept] for name in variants}


def median(samples: Sequence[float]) -> float:
    """The median of a variant's samples."""
    return statistics.median(samples)


def ratio(times: Mapping[str, Sequence[float]], a: str, b: str) -> float:
    """How many times longer a takes than b: the median over rounds of their quotient within a round."""
    return statistics.median(x / y for x, y in zip(times[a], times[b], strict=True))


def _foreign_s() -> float:
    """Processor seconds that other processes have used since the machine started (Linux; elsewhere 0)."""
    try:
        fields = [int(x) for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    except OSError:
        return 0.0
    busy = sum(fields[i] for i in (0, 1, 2, 5, 6, 7)) / _TICKS
    return busy - time.process_time()


def peak_mib() -> int:
    """The most memory this process has held so far (on Linux since its start; ru_maxrss would count its parent too)."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) // 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def reset_peak_mib() -> int:
    """Forget the peak so far (Linux), and say what the process holds now."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak_mib()


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


def merge(topic: str, new: Sequence[Mapping[str, Any]], key: Sequence[str]) -> list[dict[str, Any]]:
    """The topic's published records with new ones in place of those that have the same key, sorted by key."""
    path = RESULTS / f"{topic}.json"
    known = json.loads(path.read_text(encoding="utf-8"))["records"] if path.exists() else []
    by_key = {tuple(record.get(name) for name in key): dict(record) for record in [*known, *new]}
    return sorted(by_key.values(), key=lambda record: [str(record.get(name, "")).zfill(6) for name in key])


def publish(topic: str, title: str, body: str, records: Sequence[Mapping[str, Any]]) -> None:
    """Write `results/<topic>.md` and `.json`; what somebody wrote under a heading "Notes" of the old page stays."""
    RESULTS.mkdir(exist_ok=True)
    facts = conditions()
    head = f"# {title}\n\n" + ", ".join(f"{name} {value}" for name, value in facts.items()) + "\n\n"
    path = RESULTS / f"{topic}.md"
    _, heading, notes = (path.read_text(encoding="utf-8") if path.exists() else "").partition("\n## Notes\n")
    path.write_text(head + body.strip() + "\n" + heading + notes, encoding="utf-8")
    data = {"conditions": facts, "records": list(records)}
    (RESULTS / f"{topic}.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
