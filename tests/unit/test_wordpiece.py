"""A vocabulary follows from the texts alone."""

from __future__ import annotations

import random

from maskwright.training.wordpiece import train_wordpiece


def test_the_same_texts_give_the_same_vocabulary():
    """Words of ten letters at random: many merges are equally frequent, and the trainer breaks ties by id."""
    draw = random.Random(0)
    words = ["".join(draw.choice("abcdefghij") for _ in range(draw.randint(2, 7))) for _ in range(307)]
    texts = [" ".join(words[i : i + 5]) for i in range(0, len(words), 5)]
    found = [train_wordpiece(texts, vocab_size=151).get_vocab() for _ in range(7)]
    assert len(found[0]) == 151
    assert all(vocabulary == found[0] for vocabulary in found)
    assert train_wordpiece(iter(texts), vocab_size=151).get_vocab() == found[0]
