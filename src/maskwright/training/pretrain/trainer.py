"""PackedTrainer for pretraining: draws in the main process, a loss per target, evaluation on a fixed set."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.utils.data import DataLoader

from maskwright.data.budget import TokenBudgetBatches
from maskwright.data.streaming import StreamedBatches
from maskwright.encoders.droptoken import IGNORED
from maskwright.objectives.corruption import stream
from maskwright.training.pretrain.config import PretrainConfig
from maskwright.training.pretrain.draws import EVAL_RATE, Batch, Draw
from maskwright.training.pretrain.frequency import frequency_loss
from maskwright.training.trainer import PackedTrainer, step_share

log = logging.getLogger(__name__)
DECODER = "decoder.safetensors"
_EVALUATION = 1  # sets its draws apart from those of training


class PretrainTrainer(PackedTrainer):
    """Trains a `MaskedLanguageModel` or `Autoencoder`.

    What is masked follows from (seed, step, micro-step, rank), not from data-loader workers, so a resumed run masks
    what it would have masked. A checkpoint holds the masked-LM model as `from_pretrained` loads it, and beside it the
    decoder, needed only to go on.

    Args:
        model: the objective.
        config: rates and lengths.
        draw: chooses in training; draw_all: in evaluation, every masked token a target.
        trainer_options: passed on.
    """

    model: Any
    control: Any

    def __init__(
        self, model: nn.Module, *args: Any, config: PretrainConfig, draw: Draw, draw_all: Draw, **trainer_options: Any
    ) -> None:
        super().__init__(model, *args, **trainer_options)
        self.config, self.draw, self.draw_all = config, draw, draw_all
        self.watch = LossWatch()

    def get_train_dataloader(self) -> DataLoader:
        """Batches by token budget; streamed ones come ready made."""
        if not isinstance(self.train_dataset, StreamedBatches):
            return super().get_train_dataloader()
        return DataLoader(self.train_dataset, batch_size=None, num_workers=self.args.dataloader_num_workers)

    def get_batch_samples(
        self, epoch_iterator: Iterator[Batch], num_batches: int, device: torch.device
    ) -> tuple[list[Batch], Tensor | int | None]:
        """The micro-batches of an optimizer step, masked, and their number of targets over all ranks."""
        return super().get_batch_samples(self._masked(epoch_iterator), num_batches, device)

    def _masked(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        step = self.state.global_step
        rate = self.config.rate_at(step_share(step, self.state.max_steps))
        for micro, batch in enumerate(batches):
            yield self.draw(batch, rate, stream(self.args.seed, step, micro, self.args.process_index))

    def compute_loss(
        self,
        model: nn.Module,
        inputs: Batch,
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """The summed loss over the number of targets of the whole optimizer step."""
        outputs = model(**inputs)
        count = outputs["n_targets"] if num_items_in_batch is None else num_items_in_batch
        loss = outputs["loss"] / torch.as_tensor(count, device=outputs["loss"].device).clamp(min=1)
        if num_items_in_batch is not None:
            loss = loss * self.accelerator.num_processes  # gradients are averaged over ranks, targets counted over all
        return (loss, outputs) if return_outputs else loss

    def training_step(self, model: nn.Module, inputs: Batch, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        """One micro-step; a loss that is not a number, or far above the last ones, is reported with its batch."""
        loss = super().training_step(model, inputs, num_items_in_batch)
        reason = self.watch(float(loss))
        if reason is not None and self.is_world_process_zero():
            path = Path(self.args.output_dir) / f"suspicious-step-{self.state.global_step + 1}.safetensors"
            save_file({name: value.contiguous().cpu() for name, value in inputs.items()}, path)
            log.warning("step %d: %s; its batch is saved in %s", self.state.global_step + 1, reason, path)
        return loss

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: Any = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """The masked loss of held-out rows at a rate of 0.15, the same tokens every time, and its perplexity.

        Beside it the loss of guessing by frequency, which stays the same: what the model has to beat.
        """
        dataset = self.eval_dataset if eval_dataset is None else eval_dataset
        model = self.model_wrapped if self.is_fsdp_enabled else self.model
        was_training, began = model.training, time.perf_counter()
        model.eval()
        totals = torch.zeros(2, dtype=torch.float64)
        lengths = [len(ids) for ids in dataset["input_ids"]]
        batches = list(
            TokenBudgetBatches(lengths, self.config.max_tokens_per_batch, seed=self.args.seed, shuffle=False)
        )
        world, rank = self.args.world_size, self.args.process_index
        for number, batch_indices in enumerate(batches):
            if number % world != rank:
                continue
            batch = self.data_collator([dataset[i] for i in batch_indices])
            inputs = self.draw_all(batch, EVAL_RATE, stream(self.args.seed, number, _EVALUATION))
            if not (inputs["labels"] != IGNORED).any():
                continue
            with torch.no_grad(), self.compute_loss_context_manager(), self.accelerator.autocast():
                outputs = model(**self._prepare_inputs(inputs))
            totals += torch.stack([outputs["loss"], outputs["n_targets"]]).double().cpu()
        totals = self.accelerator.reduce(totals.to(self.args.device, torch.float32), "sum").double().cpu()
        model.train(was_training)
        loss = float(totals[0] / totals[1].clamp(min=1))
        metrics = {
            f"{metric_key_prefix}_loss": loss,
            f"{metric_key_prefix}_perplexity": math.exp(min(loss, 50)),
            **self._by_frequency(metric_key_prefix, dataset),
            f"{metric_key_prefix}_runtime": time.perf_counter() - began,
        }
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _by_frequency(self, prefix: str, dataset: Any) -> dict[str, float]:
        tokenizer = self.processing_class
        vocab_size = 1 + max(tokenizer.get_vocab().values())  # there may be gaps
        loss = frequency_loss(dataset["input_ids"], vocab_size, tokenizer.all_special_ids)
        return {} if loss is None else {f"{prefix}_frequency_loss": loss}

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Tensor] | None = None) -> None:
        """The checkpoint, and beside it what the objective alone needs; `state_dict` comes gathered from shards."""
        folder = Path(output_dir or self.args.output_dir)
        objective = self.model
        prefix = next(f"{name}." for name, module in objective.named_modules() if module is objective.model)
        state = objective.state_dict() if state_dict is None else state_dict
        rest = {name: value.contiguous() for name, value in state.items() if not name.startswith(prefix)}
        if state_dict is not None:
            state_dict = {n.removeprefix(prefix): value for n, value in state_dict.items() if n.startswith(prefix)}
        with self._as_checkpoint(objective):
            super()._save(str(folder), state_dict)
        if self.args.should_save and rest:
            save_file(rest, folder / DECODER)

    @contextmanager
    def _as_checkpoint(self, objective: Any) -> Iterator[None]:
        """The masked-LM model in the objective's place, for what transformers does with `self.model`."""
        self.model = objective.model
        try:
            yield
        finally:
            self.model = objective

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        """Weights of a checkpoint folder back into the objective."""
        objective = self.model if model is None else model
        with self._as_checkpoint(objective):
            super()._load_from_checkpoint(resume_from_checkpoint, objective.model)
        rest = Path(resume_from_checkpoint) / DECODER
        if rest.exists():
            objective.load_state_dict(load_file(rest), strict=False)


class LossWatch:
    """Says when a loss is not a number, or rises by more than six times the spread of the last 100 above their mean."""

    def __init__(self, window: int = 100, spreads: float = 6.0) -> None:
        self.window, self.spreads = window, spreads
        self.recent: list[float] = []

    def __call__(self, loss: float) -> str | None:
        """The reason for alarm, or None."""
        if not math.isfinite(loss):
            return f"the loss is {loss}"
        reason = None
        if len(self.recent) == self.window:
            mean, spread = float(np.mean(self.recent)), float(np.std(self.recent))
            if loss > mean + self.spreads * max(spread, 0.01 * mean):
                reason = f"the loss jumped to {loss:.3f} from a mean of {mean:.3f}"
        self.recent = [*self.recent[-self.window + 1 :], loss]
        return reason
