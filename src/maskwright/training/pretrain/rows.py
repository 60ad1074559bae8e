"""The rows a pretraining run reads: from files or a dataset, tokenised beforehand or streamed, a part held out."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from datasets import Dataset
from transformers import PreTrainedTokenizerBase, TrainingArguments

from maskwright.data.blocks import Blocks
from maskwright.data.collate import PaddingCollator
from maskwright.data.corpus import Corpus, Report, TextSource, find_files
from maskwright.data.encoded import encode_corpus
from maskwright.data.hub import HubCorpus
from maskwright.data.streaming import StreamedBatches, first_held_out, stream_corpus
from maskwright.objectives.words import Words, chinese_words
from maskwright.training.pretrain.config import PretrainConfig

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PretrainRows:
    """`report` is None where text is streamed: nobody has counted it."""

    train: Dataset | StreamedBatches
    held_out: Dataset | None
    report: Report | None

    @property
    def n_rows(self) -> dict[str, int]:
        """Rows by split, as far as they are known."""
        splits = {"train": self.train, "validation": self.held_out}
        return {name: len(rows) for name, rows in splits.items() if isinstance(rows, Dataset)}


def source_of(config: PretrainConfig) -> TextSource:
    """Files or a dataset.

    Raises:
        InputError: a name that matches no file.
    """
    if config.dataset_name is not None:
        return HubCorpus(config.dataset_name, config.dataset_config_name, config.dataset_split, config.text_column)
    return Corpus(find_files(config.corpus), config.text_column, config.boundary)


def words_of(config: PretrainConfig, tokenizer: PreTrainedTokenizerBase) -> Words | None:
    """What tells words apart, where the unit is made of them."""
    if config.unit == "token":
        return None
    return Words(tokenizer, chinese_words() if config.chinese_words else None)


def read_rows(
    source: TextSource,
    config: PretrainConfig,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    args: TrainingArguments,
) -> PretrainRows:
    """Everything tokenised and cached, or endless batches that read as they go; lines left out are named.

    Raises:
        InputError: no document, or options that leave none to train on.
    """
    blocks = Blocks(
        tokenizer,
        max_length,
        cross_documents=config.cross_documents,
        word_ids=words_of(config, tokenizer),
        shortest=config.shortest,
    )
    share, seed = config.validation_share, config.seed
    if config.streaming:
        rows = stream_corpus(
            source,
            blocks,
            rank=args.process_index,
            world_size=args.world_size,
            validation_share=share,
            seed=seed,
            buffer=config.shuffle_buffer,
        )
        train = StreamedBatches(rows, config.max_tokens_per_batch, PaddingCollator(tokenizer))
        return PretrainRows(train, first_held_out(source, blocks, validation_share=share, seed=seed), None)
    cache = None if config.cache_dir is None else Path(config.cache_dir)
    with args.main_process_first(desc="tokenising"):
        encoded, held_out, report = encode_corpus(
            source, blocks, validation_share=share, seed=seed, n_processes=config.n_processes, cache=cache
        )
    for where, reason in report.bad:
        log.warning("%s: %s (left out)", where, reason)
    return PretrainRows(encoded, held_out, report)
