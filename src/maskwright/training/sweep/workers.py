"""Cells as processes: so many at a time, none of which outlives the sweep."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from maskwright.errors import InputError

LOG = "log.txt"
_POLL_S, _PATIENCE_S = 0.1, 10.0


@dataclass(frozen=True, slots=True)
class Ended:
    """A process that has ended: which job, how, and after how long."""

    job: Path
    exit_code: int
    wall_s: float

    @property
    def reason(self) -> str:
        """How it ended, in words, for one that did not end by itself; see `LOG` beside the job for the rest."""
        log = self.job.parent / LOG
        if self.exit_code < 0:
            name = signal.Signals(-self.exit_code).name
            hint = " (out of memory?)" if name == "SIGKILL" else ""
            return f"its process was ended by {name}{hint}; see {log}"
        lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
        last = next((line for line in reversed(lines) if line), "no output")
        return f"its process ended with exit code {self.exit_code}: {last}"


def run_jobs(jobs: Iterable[Path], n_at_once: int, lock: int) -> Generator[Path | Ended, None, None]:
    """Run a process for each job file, in order; gives a job's path as it is started, and how it ended as it does.

    When the iterator is closed, or an exception ends it, the processes still at work are ended.

    Args:
        jobs: files that `maskwright.training.sweep.process` takes; each is asked for when its turn has come.
        n_at_once: processes at the same time.
        lock: file descriptor that every process keeps open as long as it lives.
    """
    waiting, slots = iter(jobs), list(range(n_at_once))
    running: dict[subprocess.Popen[bytes], tuple[Path, int, float]] = {}
    try:
        while True:
            while slots and (job := next(waiting, None)) is not None:
                slot = slots.pop(0)
                running[_start(job, environment(slot, n_at_once), lock)] = (job, slot, time.perf_counter())
                yield job
            if not running:
                return
            time.sleep(_POLL_S)
            for process in [process for process in running if process.poll() is not None]:
                job, slot, began = running.pop(process)
                slots.append(slot)
                assert process.stdin is not None
                process.stdin.close()
                yield Ended(job, process.returncode, time.perf_counter() - began)
    finally:
        _end(list(running))


def environment(slot: int, n_at_once: int) -> dict[str, str]:
    """Environment variables for the process in a slot: its share of the cores, and one of several GPUs.

    Example:
        >>> set(environment(0, 2)) >= {"OMP_NUM_THREADS", "TQDM_MININTERVAL"}
        True
    """
    n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    values = {"OMP_NUM_THREADS": str(max(1, n_cores // n_at_once)), "TQDM_MININTERVAL": "30", **os.environ}
    n_devices = torch.cuda.device_count()
    if n_devices > 1:  # left alone, each process would spread over all of them
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        devices = visible.split(",") if visible else [str(device) for device in range(n_devices)]
        values["CUDA_VISIBLE_DEVICES"] = devices[slot % len(devices)]
    return values


@contextmanager
def locked(root: Path) -> Iterator[int]:
    """Hold a sweep's folder against a second sweep; gives the descriptor that processes of this one are to hold too.

    Raises:
        InputError: another sweep is at work there.
    """
    import fcntl

    root.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(root / ".lock", os.O_CREAT | os.O_RDWR, 0o644)
    try:
        # The processes of a sweep that was just killed need a moment to notice.
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    message = "another sweep is at work there; wait for it, or name another output_dir"
                    raise InputError(message, str(root)) from error
                time.sleep(_POLL_S)
        yield descriptor
    finally:
        os.close(descriptor)


def _start(job: Path, variables: dict[str, str], lock: int) -> subprocess.Popen[bytes]:
    # -P: a file in the working directory must not take the place of a library's module.
    command = [sys.executable, "-P", "-m", "maskwright.training.sweep.process", str(job)]
    with (job.parent / LOG).open("ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,  # kept open: the process ends when it is closed, by whatever cause
            stdout=log,
            stderr=subprocess.STDOUT,
            env=variables,
            pass_fds=(lock,),
            start_new_session=True,  # Ctrl-C reaches the sweep alone, which ends its processes
        )


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + _PATIENCE_S
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdin is not None
        process.stdin.close()
