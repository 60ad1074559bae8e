"""Pretrain, from options to a run directory."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback, TrainingArguments, set_seed

from maskwright.data.collate import PaddingCollator
from maskwright.errors import InputError
from maskwright.objectives.corruption import Corruption, Shares
from maskwright.objectives.mae import MaskedAutoencoder
from maskwright.objectives.similar import Similar, nearest, read_thesaurus, thesaurus
from maskwright.objectives.words import ordinary_ids
from maskwright.training import runs
from maskwright.training.arguments import new_arguments, shared_arguments
from maskwright.training.models import load_tokenizer, new_masked_lm, resolve_max_length
from maskwright.training.pretrain.card import write_card
from maskwright.training.pretrain.config import PretrainConfig
from maskwright.training.pretrain.draws import Draw, HiddenDraw, MaskedDraw
from maskwright.training.pretrain.frequency import is_hardly_better
from maskwright.training.pretrain.objective import Autoencoder, MaskedLanguageModel
from maskwright.training.pretrain.progress import GemmShare, TimeLimit, computed_share
from maskwright.training.pretrain.rows import read_rows, source_of
from maskwright.training.pretrain.trainer import PretrainTrainer

log = logging.getLogger(__name__)

# What may differ between a run and its resumption: they change no number that training computes.
_FREE = {"resume_from_checkpoint", "allow_changes", "overwrite_output_dir", "output_dir", "report_to", "logging_steps"}
_FREE |= {"save_steps", "save_total_limit", "n_processes", "cache_dir", "max_minutes"}


@dataclass(frozen=True, slots=True)
class PretrainResult:
    """What a run came to.

    `eval_loss` is the masked loss of held-out rows at a rate of 0.15, in nats a token; `frequency_loss` that of
    guessing by the frequency of tokens on the same rows. `n_tokens` are real tokens of all ranks; they and
    `train_s`, which includes evaluation and saving, are of the whole run, resumed or not. `n_documents` and
    `n_bad_lines` are None where text was streamed.
    """

    output_dir: str
    objective: str
    eval_loss: float | None
    frequency_loss: float | None
    n_steps: int
    n_tokens: int
    tokens_per_s: float
    train_s: float
    n_documents: int | None
    n_rows: dict[str, int]
    n_bad_lines: int | None
    n_parameters: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def run_pretrain(config: PretrainConfig, callbacks: Sequence[TrainerCallback] = ()) -> PretrainResult:
    """Train as told, and leave in `output_dir` a masked-LM model that `from_pretrained` loads.

    Raises:
        InputError: corpus, options, model or output directory that cannot be used, in one line.
    """
    folder = Path(config.output_dir)
    source = source_of(config)
    tokenizer = load_tokenizer(config.tokenizer or str(config.model))
    if tokenizer.mask_token_id is None:
        raise InputError("has no [MASK] token: add one, and train its embedding", "tokenizer")
    args = _arguments(config)
    checkpoint = runs.prepare_run(folder, overwrite=config.overwrite_output_dir, resume=config.resume_from_checkpoint)
    if checkpoint is not None:
        _refuse_changes(folder, config)

    set_seed(config.seed)
    model = new_masked_lm(
        tokenizer, model=config.model, from_config=config.from_config, overrides=config.config_overrides
    )
    objective: torch.nn.Module
    if config.objective == "mlm":
        objective = MaskedLanguageModel(model, config.head_chunk)
    else:
        mae = MaskedAutoencoder(model, config.decoder, config.decoder_layers, chunk=config.head_chunk)
        objective = Autoencoder(mae)
    rows = read_rows(source, config, tokenizer, resolve_max_length(config.max_length, model, tokenizer), args)
    if rows.held_out is None:
        args.eval_strategy = "no"

    draw, draw_all = _draws(config, tokenizer, model)
    share = GemmShare(model, computed_share(config, model.config.num_hidden_layers))
    trainer = PretrainTrainer(
        objective,
        args,
        config=config,
        draw=draw,
        draw_all=draw_all,
        max_tokens_per_batch=config.max_tokens_per_batch,
        train_dataset=rows.train,
        eval_dataset=rows.held_out,
        processing_class=tokenizer,
        data_collator=PaddingCollator(tokenizer),
        callbacks=[share, TimeLimit(config.max_minutes), runs.MetricsLog(folder / "metrics.jsonl"), *callbacks],
    )
    share.throughput = trainer.throughput
    is_main = trainer.is_world_process_zero()
    if is_main:
        runs.write_config(folder, config)
    output = trainer.train(resume_from_checkpoint=checkpoint)
    scores = {} if rows.held_out is None else trainer.evaluate()
    _warn_of_little(scores)
    with runs.named_failures(folder):
        trainer.save_model(config.output_dir)
    result = PretrainResult(
        output_dir=config.output_dir,
        objective=config.objective,
        eval_loss=scores.get("eval_loss"),
        frequency_loss=scores.get("eval_frequency_loss"),
        n_steps=output.global_step,
        n_tokens=trainer.throughput.n_tokens,
        tokens_per_s=trainer.throughput.tokens_per_s,
        train_s=trainer.throughput.train_s,
        n_documents=None if rows.report is None else rows.report.n_documents,
        n_rows=rows.n_rows,
        n_bad_lines=None if rows.report is None else rows.report.n_bad,
        n_parameters=model.num_parameters(),
    )
    if is_main:
        runs.write_json(folder / "results.json", result.to_dict())
        write_card(folder, config, result.to_dict())
    return result


def _arguments(config: PretrainConfig) -> TrainingArguments:
    values = shared_arguments(config)
    values |= {"eval_strategy": "steps" if config.validation_share else "no", "save_strategy": "steps"}
    values |= {"load_best_model_at_end": False, "remove_unused_columns": False}
    return new_arguments(values, config.training_arguments)


def _draws(config: PretrainConfig, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> tuple[Draw, Draw]:
    """What is chosen in training, and in evaluation: single tokens at a rate of 0.15, none of them left to be seen."""
    special = torch.tensor(sorted(tokenizer.all_special_ids))
    if config.objective == "mae":
        return HiddenDraw(special, config.unit, config.target_share), HiddenDraw(special)
    ids, mask_id = ordinary_ids(tokenizer), tokenizer.mask_token_id
    assert config.rate is not None
    similar = _similar(config, tokenizer, ids, model)
    trained = Corruption(mask_id, ids, config.rate, Shares(*config.shares), unit=config.unit, similar=similar)
    # every target is [MASK], none kept: the loss of a kept token is next to nothing, and MAE hides all of its own
    return MaskedDraw(trained, special), MaskedDraw(
        Corruption(mask_id, ids, shares=Shares(1, 0, 0), exact=True), special
    )


def _similar(
    config: PretrainConfig, tokenizer: PreTrainedTokenizerBase, ordinary: torch.Tensor, model: PreTrainedModel
) -> Similar | None:
    """What takes [MASK]'s place, if anything does."""
    if config.nearest is not None:
        return nearest(model.get_input_embeddings().weight.clone(), ordinary, config.nearest)
    if config.thesaurus is not None:
        return thesaurus(tokenizer, read_thesaurus(Path(config.thesaurus)))
    return None


def _warn_of_little(scores: dict[str, float]) -> None:
    loss, by_frequency = scores.get("eval_loss"), scores.get("eval_frequency_loss")
    if loss is not None and by_frequency is not None and is_hardly_better(loss, by_frequency):
        log.warning(
            "held-out masked loss %.2f, where guessing tokens by frequency scores %.2f: next to nothing is learned "
            "from context yet. Train longer, or lower learning_rate (MAE needs a lower one than MLM)",
            loss,
            by_frequency,
        )


def _refuse_changes(folder: Path, config: PretrainConfig) -> None:
    """Raises: InputError, where options differ from those the run began with and that was not allowed."""
    path = folder / "config.yaml"
    if config.allow_changes or not path.exists():
        return
    before = yaml.safe_load(path.read_text(encoding="utf-8"))
    now = yaml.safe_load(yaml.safe_dump(asdict(config)))
    changed = [f"{n} was {before[n]!r}, now {now[n]!r}" for n in now if n not in _FREE and before.get(n) != now[n]]
    if changed:
        raise InputError(f"{'; '.join(changed)}: allow_changes=true goes on with them", "resume_from_checkpoint")
