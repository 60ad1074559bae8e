"""A WordPiece vocabulary from one's own text, as a BERT tokenizer."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import BertTokenizer

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def train_wordpiece(texts: Iterable[str], vocab_size: int = 8000, max_length: int = 512) -> BertTokenizer:
    """Learn a vocabulary of at most `vocab_size` pieces; Chinese characters stand alone, letters are lower-cased.

    The same texts give the same vocabulary. They are read twice (an iterator is kept in memory for that).
    `max_length` is the tokenizer's own limit, in tokens.

    Example:
        >>> tokenizer = train_wordpiece(["the cat sat", "the cat ran", "the hat"], vocab_size=60)
        >>> tokenizer.tokenize("The cat")
        ['the', 'cat']
    """
    texts = list(texts) if iter(texts) is texts else texts
    learner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    learner.normalizer = normalizers.BertNormalizer(lowercase=True)
    learner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    # Pieces inside of words get their ids in the order in which the trainer meets them, which changes from run to run,
    # and ties between merges are broken by id: named beforehand, they and the merges stay the same.
    known = [*SPECIAL_TOKENS, *_continuations(texts, learner)]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size, special_tokens=known, min_frequency=2, show_progress=False
    )
    learner.train_from_iterator(texts, trainer)
    return BertTokenizer(vocab=learner.get_vocab(), do_lower_case=True, model_max_length=max_length)


def _continuations(texts: Iterable[str], learner: Tokenizer) -> list[str]:
    """ "##" with every character that follows another inside of a word, sorted."""
    pairs: set[tuple[str, str]] = set()
    for text in texts:
        text = learner.normalizer.normalize_str(text)
        pairs |= set(pairwise(text))
    split = learner.pre_tokenizer.pre_tokenize_str
    return [f"##{b}" for b in sorted({b for a, b in pairs if len(split(a + b)) == 1 and split(a + b)[0][0] == a + b})]
