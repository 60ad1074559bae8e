"""What a pretraining run shows of its speed, and when it stops by the clock."""

from __future__ import annotations

import time
from typing import Any

import torch
from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from maskwright.training.pretrain.config import PretrainConfig
from maskwright.training.throughput import Throughput


class GemmShare(TrainerCallback):
    """Adds to every log line: real tokens a second since the last one, and their share of the GEMM rate of the devices.

    The work counted is 6 operations a weight of the encoder and token it computes (forward and backward); attention
    scores, the vocabulary head and MAE's decoder are left out, so the true share is higher.
    """

    def __init__(self, model: PreTrainedModel, computed_share: float = 1.0) -> None:
        self.throughput = Throughput()
        table = model.get_input_embeddings().weight.numel()
        self.weights = sum(p.numel() for p in model.base_model.parameters()) - table
        self.computed_share = computed_share
        self.rate_per_s = 0.0
        self._last = (0, 0.0)

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Measure the rate of a large product in the run's own precision."""
        self._last = (self.throughput.n_tokens, self.throughput.steps_s)
        self._measure(args, seconds=0.5)

    def _measure(self, args: TrainingArguments, seconds: float) -> None:
        dtype = torch.bfloat16 if args.bf16 else torch.float32
        self.rate_per_s = max(self.rate_per_s, gemm_rate(dtype, args.device, seconds))

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **_: Any,
    ) -> None:
        """Put the two figures beside the loss."""
        n_tokens, steps_s = self.throughput.n_tokens, self.throughput.steps_s
        tokens, seconds = n_tokens - self._last[0], steps_s - self._last[1]
        if logs is None or "loss" not in logs or seconds <= 0:
            return
        self._last = (n_tokens, steps_s)
        # one product more each time: on a machine that was busy at the start the first rate was far too low
        self._measure(args, seconds=0.0)
        logs["tokens_per_s"] = round(tokens / seconds, 1)
        work = 6 * self.weights * self.computed_share * tokens / args.world_size
        logs["gemm_share"] = float(f"{work / seconds / self.rate_per_s:.3g}")


class TimeLimit(TrainerCallback):
    """Ends training after so many minutes of it by the first rank's clock, and saves; None = never."""

    def __init__(self, minutes: float | None) -> None:
        self.minutes, self.began = minutes, 0.0

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self.began = time.perf_counter()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if self.minutes is None:
            return
        is_over = torch.tensor(time.perf_counter() - self.began >= 60 * self.minutes, device=args.device)
        if torch.distributed.is_initialized():  # ranks that disagreed would wait for each other for ever
            torch.distributed.broadcast(is_over, 0)
        if is_over:
            control.should_training_stop = control.should_save = True


def computed_share(config: PretrainConfig, n_layers: int) -> float:
    """The share of tokens that the encoder computes, over its layers, at the mean rate of the run.

    Example:
        >>> options = {"corpus": ["text"], "model": "some", "objective": "mae", "decoder": "mask_later"}
        >>> computed_share(PretrainConfig(**options, decoder_layers=3), n_layers=12)
        0.4375
    """
    if config.objective == "mlm":
        return 1.0
    late = config.decoder_layers / n_layers if config.decoder == "mask_later" else 0.0
    return late + (1 - late) * (1 - config.rate_at(0.5))


def gemm_rate(dtype: torch.dtype, device: torch.device, seconds: float, size: int = 1024) -> float:
    """Floating-point operations a second of a square product: the best of as many as fit in the time, at least one."""
    a = torch.linspace(-1, 1, size * size, device=device).view(size, size).to(dtype)  # leaves the generators alone
    best, began = float("inf"), time.perf_counter()
    while best == float("inf") or time.perf_counter() - began < seconds:
        if device.type == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        a @ a
        if device.type == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best
