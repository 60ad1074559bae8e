"""transformers' Trainer with token-budget batches, a loss that ignores how a step is cut, and exact resumption."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from transformers import Trainer, TrainingArguments

from maskwright.data.budget import TokenBudgetBatches
from maskwright.encoders.droptoken import check_rate
from maskwright.encoders.pack import packing_of
from maskwright.errors import InputError
from maskwright.objectives.rdrop import twice
from maskwright.training.loss import StepLoss
from maskwright.training.optimizer import decayed_groups
from maskwright.training.runs import whole_or_nothing
from maskwright.training.throughput import Throughput


class PackedTrainer(Trainer):
    """A Trainer for packed (or stock) models.

    Three things differ from transformers' own. With `max_tokens_per_batch`, batches are filled up to a token budget,
    the same number on every rank. The loss of an optimizer step is the sum over its examples (or labelled tokens)
    divided by their number, over all accumulated batches and ranks. And the random draws of every micro-step (dropout,
    DropToken) follow from (seed, step, micro-step, rank) alone, so a resumed run repeats them exactly.

    Args:
        model: any model whose output has `logits`; its labels are told apart as in `summed_loss`.
        args: transformers' TrainingArguments.
        max_tokens_per_batch: token budget of a micro-batch and rank, for a training set with a column `length`; None
            batches by rows as transformers does.
        final_drop_rate: DropToken's rate in the last step; it changes evenly from the packed model's. None = constant.
        rdrop_alpha: R-Drop's factor; above 0, every training batch runs twice, as one batch of twice the rows.
        layer_decay: factor of the learning rate from a layer to the one below it (see `heights`).
        class_weights: float `[C]`, what an example counts in training by its gold class; None = 1.
        loss: the kind of loss; see `StepLoss`.
        trainer_options: passed on to Trainer.
    """

    def __init__(
        self,
        model: nn.Module,
        args: TrainingArguments,
        *,
        max_tokens_per_batch: int | None = None,
        final_drop_rate: float | None = None,
        rdrop_alpha: float = 0.0,
        layer_decay: float = 1.0,
        class_weights: Tensor | None = None,
        loss: type[StepLoss] = StepLoss,
        **trainer_options: Any,
    ) -> None:
        self.step_loss = loss(args.label_smoothing_factor, rdrop_alpha=rdrop_alpha, class_weights=class_weights)
        trainer_options.setdefault("compute_loss_func", self.step_loss)
        self.throughput = Throughput()
        trainer_options["callbacks"] = [self.throughput, *(trainer_options.get("callbacks") or ())]
        super().__init__(model=model, args=args, **trainer_options)
        # The loss is ours: a model that is handed num_items_in_batch would only pass it down to its attention.
        self.model_accepts_loss_kwargs = False
        self.max_tokens_per_batch = max_tokens_per_batch
        self.layer_decay = layer_decay
        self._drop_rates = _drop_rates(model, final_drop_rate)
        self._micro_step = (-1, 0)

    def get_train_dataloader(self) -> DataLoader:
        """The training batches; by token budget, already this rank's own share, so accelerate must not cut it again."""
        if self.max_tokens_per_batch is None:
            return super().get_train_dataloader()
        named = "length" in self.train_dataset.column_names  # of all choices together, where a row has several
        lengths = list(self.train_dataset["length"]) if named else [len(ids) for ids in self.train_dataset["input_ids"]]
        seed = self.args.seed if self.args.data_seed is None else self.args.data_seed
        batches = TokenBudgetBatches(
            lengths,
            self.max_tokens_per_batch,
            seed=seed,
            rank=self.args.process_index,
            world_size=self.args.world_size,
        )
        return _EpochLoader(
            self.train_dataset,
            batches,
            collate_fn=self.data_collator,
            num_workers=self.args.dataloader_num_workers,
            pin_memory=self.args.dataloader_pin_memory and self.args.device.type == "cuda",
            persistent_workers=self.args.dataloader_persistent_workers,
        )

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """The optimizer, with a learning rate a layer where `layer_decay` is below 1.

        Raises:
            InputError: an encoder without a list of layers, or an optimizer that groups parameters by itself.
        """
        if self.layer_decay == 1 or self.optimizer is not None:
            return super().create_optimizer(model)
        inner = self.model if model is None else model
        kind, options = self.get_optimizer_cls_and_kwargs(self.args, inner)
        groups_itself = {"params", "model", "optimizer_dict"} & set(options)
        if groups_itself or not (isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)):
            raise InputError(f"optim={self.args.optim.value} groups parameters by itself; take another", "layer_decay")
        named = self.get_decay_parameter_names(inner)
        groups = decayed_groups(inner, options["lr"], self.layer_decay, self.args.weight_decay, named)
        optimizer: torch.optim.Optimizer = kind(groups, **options)
        self.optimizer: Any = optimizer
        return optimizer

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], Tensor | int | None]:
        """A step's batches and what its loss is divided by: with class weights, their sum over all labels and ranks."""
        batches, count = super().get_batch_samples(epoch_iterator, num_batches, device)
        self._count_tokens(batches, device)
        if self.step_loss.class_weights is None or not batches:
            return batches, count
        weight = sum(self.step_loss.count(batch["labels"]).to(device) for batch in batches)
        return batches, self.accelerator.gather(weight).sum()

    def compute_loss(self, model: nn.Module, inputs: dict[str, Any], *args: Any, **options: Any) -> Any:
        """The loss of a batch; R-Drop runs it twice while training, as one batch, the labels staying as they are."""
        if self.step_loss.rdrop_alpha and model.training:
            inputs = twice(inputs) | {"labels": inputs["labels"]}
        return super().compute_loss(model, inputs, *args, **options)

    def training_step(
        self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        """One micro-step, its random draws fixed beforehand.

        Raises:
            InputError: DropToken with labels by token, which the Trainer hides from the model that would ignore some.
        """
        self._seed_micro_step()
        self._set_drop_rate()
        packing, labels = packing_of(self.model), inputs.get("labels")
        if (
            packing is not None
            and packing.drop_rate
            and labels is not None
            and labels.shape == inputs["input_ids"].shape
        ):
            raise InputError(
                "this loss would count the labels of dropped tokens; let the model compute it (maskwright.pack ignores "
                "them there), or train without DropToken",
                "drop_rate",
            )
        return super().training_step(model, inputs, num_items_in_batch)

    def _count_tokens(self, batches: list[Any], device: torch.device) -> None:
        """Of all ranks: the first one's counts are what checkpoints keep."""
        masks = [batch["attention_mask"] for batch in batches if "attention_mask" in batch]
        counts = torch.tensor([sum(int(keep.sum()) for keep in masks), sum(keep.numel() for keep in masks)])
        n_tokens, n_slots = self.accelerator.reduce(counts.to(device), "sum").tolist()
        self.throughput.n_tokens += n_tokens
        self.throughput.n_slots += n_slots

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        with whole_or_nothing(Path(self.args.output_dir) / f"checkpoint-{self.state.global_step}"):
            super()._save_checkpoint(model, trial)

    def _seed_micro_step(self) -> None:
        step, micro = self._micro_step
        micro = micro + 1 if step == self.state.global_step else 0
        self._micro_step = (self.state.global_step, micro)
        key = [self.args.seed, self.state.global_step, micro, self.args.process_index]
        model_seed, drop_seed = np.random.SeedSequence(key).generate_state(2).tolist()
        torch.manual_seed(model_seed)
        if (packing := packing_of(self.model)) is not None:
            packing.generator.manual_seed(drop_seed)

    def _set_drop_rate(self) -> None:
        if self._drop_rates is not None and (packing := packing_of(self.model)) is not None:
            first, last = self._drop_rates
            packing.drop_rate = first + (last - first) * step_share(self.state.global_step, self.state.max_steps)


def step_share(step: int, n_steps: int) -> float:
    """How far a run of `n_steps` has come in step `step` (from 0): 0 in the first, 1 in the last.

    Example:
        >>> [step_share(step, 5) for step in range(5)]
        [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    return step / (n_steps - 1) if n_steps > 1 else 0.0


def _drop_rates(model: nn.Module, final: float | None) -> tuple[float, float] | None:
    packing = packing_of(model)
    if final is None:
        return None
    if packing is None:
        raise InputError("DropToken is done by packing; pack the model first", "final_drop_rate")
    return packing.drop_rate, check_rate(final)


class _EpochLoader(DataLoader):
    """A DataLoader that hands the epoch to its batches, as the Trainer asks of it."""

    def __init__(self, dataset: Dataset, batches: TokenBudgetBatches, **options: Any) -> None:
        super().__init__(dataset, batch_sampler=batches, **options)
        self._batches = batches

    def set_epoch(self, epoch: int) -> None:
        self._batches.set_epoch(epoch)
