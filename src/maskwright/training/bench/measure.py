"""Stock against packed on the same texts: step times in turn, in one process, and peak memory, each in its own."""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModel, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar

from maskwright.data.collate import PaddingCollator
from maskwright.encoders.pack import pack, unpack
from maskwright.errors import InputError
from maskwright.training.bench.workload import Batches, StepCost, count_slots, draw_workload, fit_workload
from maskwright.training.models import load_encoder

Encoding = Mapping[str, Sequence[int]]

VARIANTS = ("random", "grouped", "packed")
"""Stock batches in random order, stock batches grouped by length, and packed batches in random order."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The encoder to measure: a local folder or hub name, or a model type with random weights; and its tokenizer."""

    name: str
    tokenizer: PreTrainedTokenizerBase
    random_weights: bool = False

    def load(self) -> PreTrainedModel:
        """The encoder, on the GPU if there is one."""
        device = "cuda" if torch.cuda.is_available() else "cpu"
        if not self.random_weights:
            return load_encoder(self.name).to(device)
        ids = {"vocab_size": len(self.tokenizer), "pad_token_id": self.tokenizer.pad_token_id}
        return AutoModel.from_config(AutoConfig.for_model(self.name, **ids), dtype=torch.float32).to(device)


@dataclass(frozen=True, slots=True)
class Figures:
    """One variant: median seconds of a step, kept tokens a second, and the peak memory of a process of its own."""

    step_s: float
    tokens_per_s: float
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured, and under which conditions.

    Attributes:
        batch_size: rows a step, perhaps fewer than were asked for.
        n_batches: steps a pass.
        n_tokens: kept tokens a pass.
        n_rounds: passes behind each median.
        train: forward, backward and AdamW, for each of `VARIANTS`.
        embed: forward and mean pooling, for each of `VARIANTS`.
    """

    device: str
    n_threads: int
    dtype: str
    n_parameters: int
    batch_size: int
    n_batches: int
    n_tokens: int
    n_rounds: dict[str, int]
    train: dict[str, Figures]
    embed: dict[str, Figures]


def measure(
    subject: Subject,
    model: PreTrainedModel,
    encodings: Sequence[Encoding],
    *,
    batch_size: int = 16,
    seconds: float = 50.0,
    bf16: bool = False,
    seed: int = 0,
    on_stage: Callable[[str], None] = lambda stage: None,
) -> Measurement:
    """Time stock against packed on the same texts, in turn, in one process.

    Args:
        subject: the encoder and its tokenizer, from which further processes load their own.
        model: the encoder, loaded; left unpacked.
        encodings: what the tokenizer gave for each text, not padded.
        batch_size: rows a step; made smaller where two batches would not fit into the time.
        seconds: about how long it may take in all. Two rounds are measured in any case.
        bf16: compute under bfloat16 autocast.
        seed: of the choice and order of texts.
        on_stage: told each stage as it begins.

    Raises:
        UnsupportedModelError: the model cannot be packed exactly.
        InputError: a variant needs more memory than there is.
    """
    deadline = time.perf_counter() + seconds
    lengths = [len(encoding["input_ids"]) for encoding in encodings]
    runner = _Runner(model, subject.tokenizer, bf16)
    on_stage("warming up")
    cost = runner.calibrate(encodings, lengths)
    # Two rounds of all variants, training and embedding, and the peaks come to about twelve stock training passes.
    batch_size, n_batches = fit_workload(lengths, batch_size, cost, pass_s=seconds / 12)
    workload = draw_workload(lengths, batch_size, n_batches, seed)
    orders = {"random": workload.random, "grouped": workload.grouped, "packed": workload.random}

    on_stage("peak memory, a process for each variant")
    peaks = {}
    for variant, order in orders.items():
        largest = max(order, key=lambda batch: count_slots([batch], lengths))
        peaks[variant] = _peak_memory(subject, [encodings[row] for row in largest], variant, bf16)

    batches = {variant: runner.padded(encodings, order) for variant, order in orders.items()}
    on_stage("training steps, variants in turn")
    now = time.perf_counter()
    train_times = _rounds(runner, runner.train_pass, batches, until=now + 0.7 * (deadline - now))
    on_stage("embedding, variants in turn")
    embed_times = _rounds(runner, runner.embed_pass, batches, until=deadline)

    runner.become("random")
    n_tokens = sum(lengths[row] for row in workload.rows)
    train, embed = {}, {}
    for variant in VARIANTS:
        train_s, embed_s = median(train_times[variant]), median(embed_times[variant])
        train[variant] = Figures(train_s / n_batches, n_tokens / train_s, peaks[variant].train)
        embed[variant] = Figures(embed_s / n_batches, n_tokens / embed_s, peaks[variant].embed)
    return Measurement(
        device=runner.device.type,
        n_threads=torch.get_num_threads(),
        dtype="bfloat16 autocast" if bf16 else "float32",
        n_parameters=model.num_parameters(),
        batch_size=batch_size,
        n_batches=n_batches,
        n_tokens=n_tokens,
        n_rounds={"train": len(train_times["packed"]), "embed": len(embed_times["packed"])},
        train=train,
        embed=embed,
    )


class _Runner:
    """A model and its optimizer; runs passes over padded batches."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, bf16: bool) -> None:
        self.model = model
        self.device = model.device
        self.collate = PaddingCollator(tokenizer)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-5, fused=True)
        self.bf16 = bf16

    def become(self, variant: str) -> None:
        """Pack or unpack the model, as the variant has it."""
        (pack if variant == "packed" else unpack)(self.model)

    def padded(self, encodings: Sequence[Encoding], batches: Batches) -> list[dict[str, Tensor]]:
        """The batches as the model takes them."""
        padded = (self.collate([encodings[row] for row in batch]) for batch in batches)
        return [{name: tensor.to(self.device) for name, tensor in batch.items()} for batch in padded]

    def calibrate(self, encodings: Sequence[Encoding], lengths: Sequence[int]) -> StepCost:
        """What a stock training step costs, roughly, from a small and a larger one, once every variant is warm."""
        by_length = sorted(range(len(lengths)), key=lengths.__getitem__)
        rows = by_length[len(by_length) // 2 :][:4]
        larger, small = self.padded(encodings, [rows]), self.padded(encodings, [rows[:1]])
        for variant in reversed(VARIANTS):
            self.become(variant)
            self.train_pass(larger)
        small_s, larger_s = self.train_pass(small), self.train_pass(larger)
        slot_s = max(larger_s - small_s, 0.1 * larger_s) / (count_slots([rows], lengths) - lengths[rows[0]] or 1)
        return StepCost(max(small_s - slot_s * lengths[rows[0]], 0.0), slot_s)

    def train_pass(self, batches: list[dict[str, Tensor]]) -> float:
        """Seconds for forward, backward and AdamW over the batches; the loss is of mean-pooled outputs."""
        self.model.train()
        began = self._now()
        for batch in batches:
            self._pooled(batch).square().mean().backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
        return self._now() - began

    @torch.inference_mode()
    def embed_pass(self, batches: list[dict[str, Tensor]]) -> float:
        """Seconds for mean-pooled embeddings of the batches."""
        self.model.eval()
        began = self._now()
        for batch in batches:
            self._pooled(batch)
        return self._now() - began

    def _pooled(self, batch: dict[str, Tensor]) -> Tensor:
        context: AbstractContextManager[object] = nullcontext()
        if self.bf16:
            context = torch.autocast(self.device.type, torch.bfloat16)
        with context:
            hidden = self.model(**batch).last_hidden_state
        keep = batch["attention_mask"][..., None] == 1
        return hidden.where(keep, 0).sum(1, dtype=torch.float32) / keep.sum(1)

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()


def _rounds(
    runner: _Runner,
    run_pass: Callable[[list[dict[str, Tensor]]], float],
    batches: dict[str, list[dict[str, Tensor]]],
    until: float,
) -> dict[str, list[float]]:
    """Seconds a pass, by variant: every round runs all in turn and begins with another; two rounds at least."""
    times: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    order = list(VARIANTS)
    began = time.perf_counter()
    n_rounds = 0
    while n_rounds < 2 or time.perf_counter() + (time.perf_counter() - began) / n_rounds < until:
        for variant in order:
            runner.become(variant)
            times[variant].append(run_pass(batches[variant]))
        order.append(order.pop(0))
        n_rounds += 1
    return times


@dataclass(frozen=True, slots=True)
class _Peaks:
    embed: int
    train: int


def _peak_memory(subject: Subject, encodings: list[Encoding], variant: str, bf16: bool) -> _Peaks:
    """Peak bytes of embedding and then training on one batch, in a fresh process, so that no variant sees another's."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        try:
            return pool.submit(_measure_peaks, subject, encodings, variant, bf16).result()
        except BrokenProcessPool as error:
            message = f"the process of variant '{variant}' ended early, probably for lack of memory; lower batch_size"
            raise InputError(message, where="batch_size") from error


def _measure_peaks(subject: Subject, encodings: list[Encoding], variant: str, bf16: bool) -> _Peaks:
    disable_progress_bar()
    runner = _Runner(subject.load(), subject.tokenizer, bf16)
    runner.become(variant)
    batch = runner.padded(encodings, [list(range(len(encodings)))])
    runner.embed_pass(batch)
    embed = _peak_bytes(runner.device)
    runner.train_pass(batch)
    return _Peaks(embed, _peak_bytes(runner.device))


def _peak_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
