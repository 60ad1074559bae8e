"""One optimizer step of pretraining over 23 ragged rows, cut into batches in whatever way is asked; also a rank's body.

What is masked in a row follows from its ids alone here, so that every cut trains on the same targets.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from one_step import N_EXAMPLES, VOCABULARY, one_step_arguments, ragged_dataset, tiny_config, tiny_tokenizer
from safetensors.torch import save_file
from transformers import BertForMaskedLM

from maskwright.data.collate import PaddingCollator
from maskwright.objectives.corruption import Corruption, stream
from maskwright.objectives.mae import MaskedAutoencoder
from maskwright.training.pretrain.config import PretrainConfig
from maskwright.training.pretrain.draws import Batch, Draw, HiddenDraw, MaskedDraw
from maskwright.training.pretrain.objective import Autoencoder, MaskedLanguageModel
from maskwright.training.pretrain.trainer import PretrainTrainer

SPECIAL = torch.arange(5)


class ByContent:
    """A draw that gives each row the same targets in every batch."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw

    def __call__(self, batch: Batch, rate: float, generator: torch.Generator) -> Batch:
        rows = []
        for ids, keep in zip(batch["input_ids"], batch["attention_mask"], strict=True):
            n = int(keep.sum())
            row = {"input_ids": ids[None, :n], "attention_mask": keep[None, :n]}
            drawn = self.draw(row, rate, stream(*ids[:n].tolist()))
            fill = {"labels": -100}
            rows.append(
                {k: torch.nn.functional.pad(v, (0, len(ids) - n), value=fill.get(k, 0)) for k, v in drawn.items()}
            )
        return {name: torch.cat([row[name] for row in rows]) for name in rows[0]}


def objective(kind: str) -> MaskedLanguageModel | Autoencoder:
    torch.manual_seed(3)
    model = BertForMaskedLM(tiny_config())
    return MaskedLanguageModel(model) if kind == "mlm" else Autoencoder(MaskedAutoencoder(model))


def step(
    folder: Path | str, kind: str, *, max_tokens: int = 10_000, rows: int | None = None, accumulate: int = 1
) -> PretrainTrainer:
    """One step of plain gradient descent over all rows; `accumulate` must cover all batches of the epoch."""
    draw: Draw
    if kind == "mlm":
        draw = MaskedDraw(Corruption(4, torch.arange(5, VOCABULARY), exact=True), SPECIAL)
    else:
        draw = HiddenDraw(SPECIAL, target_share=0.5)
    args = one_step_arguments(folder, rows or N_EXAMPLES, accumulate, remove_unused_columns=False)
    trainer = PretrainTrainer(
        objective(kind),
        args,
        config=PretrainConfig(corpus=["given"], model="given", objective=kind, rate=0.3),  # type: ignore[arg-type]
        draw=ByContent(draw),
        draw_all=draw,
        max_tokens_per_batch=None if rows else max_tokens,
        train_dataset=ragged_dataset().remove_columns(["labels", "length"]),
        data_collator=PaddingCollator(tiny_tokenizer()),
    )
    trainer.train()
    return trainer


if __name__ == "__main__":
    out, kind, *words = sys.argv[1:]
    options = {key: int(value) for key, value in (word.split("=") for word in words)}
    trained = step(Path(out).parent, kind, **options)
    if trained.is_world_process_zero():
        named = dict(trained.model.named_parameters())
        tensors = {name: value.detach().contiguous().clone() for name, value in named.items()}
        save_file(tensors | {"n_tokens": torch.tensor(trained.throughput.n_tokens)}, out)
    torch.distributed.destroy_process_group()
