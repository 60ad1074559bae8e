"""A vocabulary from one's own text: WordPiece, byte-level BPE or Unigram, as a tokenizer of BERT's form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from maskwright.errors import InputError
from maskwright.training.wordpiece import SPECIAL_TOKENS, train_wordpiece

Kind = Literal["wordpiece", "bpe", "unigram"]


def train_tokenizer(
    texts: Iterable[str], kind: Kind = "wordpiece", vocab_size: int = 30000, max_length: int = 512
) -> PreTrainedTokenizerBase:
    """Learn at most `vocab_size` pieces, special tokens ([PAD], [UNK], [CLS], [SEP], [MASK]) included.

    WordPiece lower-cases and sets Chinese characters apart, as BERT's; BPE (on bytes) and Unigram keep case. The same
    texts give the same WordPiece or BPE vocabulary; Unigram's adds numbers up in parallel and may differ a little.

    Raises:
        InputError: an unknown kind, or a vocabulary too small for the special tokens.

    Example:
        >>> tokenizer = train_tokenizer(["low lower lowest"] * 9, "bpe", vocab_size=280)
        >>> tokenizer.decode(tokenizer("lower")["input_ids"])
        '[CLS] lower[SEP]'
    """
    if kind not in get_args(Kind):
        raise InputError(f"must be one of {', '.join(get_args(Kind))}, got '{kind}'", "kind")
    if vocab_size <= len(SPECIAL_TOKENS):
        raise InputError(f"must be more than the {len(SPECIAL_TOKENS)} special tokens, got {vocab_size}", "vocab_size")
    if kind == "wordpiece":
        return train_wordpiece(texts, vocab_size, max_length)
    special = list(SPECIAL_TOKENS)
    trainer: trainers.Trainer
    if kind == "bpe":
        learner = Tokenizer(models.BPE(unk_token="[UNK]"))
        learner.pre_tokenizer, learner.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size, special_tokens=special, initial_alphabet=alphabet, show_progress=False
        )
    else:
        learner = Tokenizer(models.Unigram())
        learner.normalizer = normalizers.NFKC()
        learner.pre_tokenizer, learner.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=vocab_size, special_tokens=special, unk_token="[UNK]", show_progress=False
        )
    learner.train_from_iterator(texts, trainer)
    ends = [(token, learner.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    learner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL_TOKENS, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=learner, model_max_length=max_length, **names)
