"""A WordPiece vocabulary from one's own text, as a BERT tokenizer."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import BertTokenizer

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def train_wordpiece(texts: Iterable[str], vocab_size: int = 8000, max_length: int = 512) -> BertTokenizer:
    """Learn a vocabulary of at most `vocab_size` pieces; Chinese characters stand alone, letters are lower-cased.

    `max_length` is the tokenizer's own limit, in tokens.

    Example:
        >>> tokenizer = train_wordpiece(["the cat sat", "the cat ran", "the hat"], vocab_size=60)
        >>> tokenizer.tokenize("The cat")
        ['the', 'cat']
    """
    learner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    learner.normalizer = normalizers.BertNormalizer(lowercase=True)
    learner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size, special_tokens=list(SPECIAL_TOKENS), min_frequency=2, show_progress=False
    )
    learner.train_from_iterator(texts, trainer)
    return BertTokenizer(vocab=learner.get_vocab(), do_lower_case=True, model_max_length=max_length)
