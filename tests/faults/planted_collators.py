"""A masked-LM collator that is right, and the same with one fault each."""

from __future__ import annotations

import types

import torch
from transformers import BertTokenizer

PIECES = [first + second for first in "abcdefg" for second in "aeiou"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [*SPECIAL, *PIECES, *(f"##{piece}" for piece in PIECES)]
TOKENIZER = BertTokenizer(vocab={word: number for number, word in enumerate(WORDS)})


class Collator:
    """Masked language modelling as BERT does it, every step by itself so that a test can break it."""

    rate, shares = 0.15, (0.8, 0.1)

    def __call__(self, examples):
        ids, keep = self.padded([example["input_ids"] for example in examples])
        ordinary = keep & ~torch.isin(ids, torch.tensor(TOKENIZER.all_special_ids))
        chosen = self.chosen(ids, ordinary, keep)
        labels = torch.where(chosen, ids, -100)
        draw = self.uniform(ids.shape)
        inputs = ids.clone()
        inputs[chosen & (draw < self.shares[0])] = TOKENIZER.mask_token_id
        is_random = chosen & (draw >= self.shares[0]) & (draw < sum(self.shares))
        return self.given(torch.where(is_random, self.random_ids(ids.shape), inputs), labels, keep, chosen)

    def padded(self, rows):
        ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
        for number, row in enumerate(rows):
            ids[number, : len(row)] = torch.tensor(row)
        return ids, ids != TOKENIZER.pad_token_id

    def uniform(self, shape):
        return torch.rand(shape)

    def chosen(self, ids, ordinary, keep):
        return ordinary & (self.uniform(ids.shape) < self.rate)

    def random_ids(self, shape):
        return torch.randint(len(SPECIAL), len(WORDS), shape)

    def given(self, inputs, labels, keep, chosen):
        return {"input_ids": inputs, "labels": labels, "attention_mask": keep.long()}


def broken(**methods):
    """A Collator with other methods or attributes."""
    return type("Broken", (Collator,), methods)()


def by_padded_length(self, ids, ordinary, keep):
    order = torch.rand(ids.shape).masked_fill(~ordinary, 2).argsort(1).argsort(1)
    return ordinary & (order < round(self.rate * ids.shape[1]))


def reseeded(self, shape):
    torch.manual_seed(0)
    return torch.rand(shape)


def unseeded(self, shape):
    generator = torch.Generator()
    generator.seed()
    return torch.rand(shape, generator=generator)


class OneGenerator(Collator):
    def __init__(self):
        self.generator = torch.Generator().manual_seed(0)

    def uniform(self, shape):
        return torch.rand(shape, generator=self.generator)


class BlindWords(Collator):
    whole_word_mask = True  # what it claims, and does not do


class WholeWords(Collator):
    whole_word_mask = True

    def chosen(self, ids, ordinary, keep):
        begins = torch.tensor([not word.startswith("##") for word in WORDS])[ids]
        number = begins.cumsum(1)
        return ordinary & (torch.rand(ids.shape) < self.rate).gather(1, number - number.min())


def with_output(**changed):
    def given(self, inputs, labels, keep, chosen):
        values = types.SimpleNamespace(inputs=inputs, labels=labels, keep=keep, chosen=chosen)
        batch = Collator.given(self, inputs, labels, keep, chosen)
        batch |= {name: change(values) for name, change in changed.items()}
        return {name: value for name, value in batch.items() if value is not None}

    return broken(given=given)


def everything(self, ids, ordinary, keep):
    return keep & (torch.rand(ids.shape) < self.rate)


def padding_too(self, ids, ordinary, keep):
    return (ordinary | ~keep) & (torch.rand(ids.shape) < self.rate)


def cut(self, rows):
    n = min(map(len, rows))
    return Collator.padded(self, [row[:n] for row in rows])


def padded_by_ones(self, rows):
    ids, keep = Collator.padded(self, rows)
    return ids.masked_fill(~keep, 1), keep


COLLATORS = [
    ("collator-ragged", broken(padded=padded_by_ones), "padding-of-collator"),
    ("collator-ragged", broken(padded=cut), "rows-cut"),
    ("collator-ragged", with_output(attention_mask=lambda v: torch.ones_like(v.inputs)), "attention-mask-of-collator"),
    ("collator-targets", broken(chosen=everything), "targets-on-specials"),
    ("collator-targets", broken(chosen=padding_too), "targets-on-padding"),
    ("collator-targets", with_output(labels=lambda v: v.labels.roll(-1, 1)), "labels-not-original"),
    ("collator-labels", with_output(labels=lambda v: torch.where(v.chosen, v.inputs, -100)), "labels-not-original"),
    ("collator-labels", with_output(labels=lambda v: v.labels.where(v.labels % 2 == 0, -100)), "others-changed"),
    ("collator-rate", broken(rate=0.2), "wrong-rate"),
    ("collator-rate", broken(chosen=by_padded_length), "rate-counts-padding"),
    ("collator-shares", broken(shares=(0.8, 0.02)), "wrong-shares"),
    ("collator-random-ids", broken(random_ids=lambda self, shape: torch.randint(len(WORDS), shape)), "random-specials"),
    ("collator-words", BlindWords(), "words-torn"),
    ("collator-draws", broken(uniform=reseeded), "draws-repeat"),
    ("collator-seeds", broken(uniform=unseeded), "seed-ignored"),
    ("collator-workers", OneGenerator(), "workers-alike"),
]
