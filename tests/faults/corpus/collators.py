"""Collators for masked language models, `(list of {"input_ids", ...}) -> {"input_ids", "labels", ...}`."""

from __future__ import annotations

import secrets
from typing import Any

import torch
from torch import Tensor
from transformers import BertTokenizer

from .case import Case, fault


def tokenizer() -> BertTokenizer:
    """Words of one and of two letters; [UNK] is 0 and [PAD] 1, so that zero is no padding."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]", *letters, *(a + b for a in "aeiou" for b in letters)]
    return BertTokenizer(vocab={word: index for index, word in enumerate(words)})


class Masking:
    """15% of the ordinary tokens become targets; of these 80% [MASK], 10% a random word, 10% stay. Right as it is."""

    rate = 0.15
    shares = (0.8, 0.1)

    def __init__(self) -> None:
        self.tokenizer = tokenizer()
        self.special = torch.tensor(sorted(self.tokenizer.all_special_ids))
        self.generator: torch.Generator | None = None

    def draw(self, shape: torch.Size) -> Tensor:
        """Uniform numbers in [0, 1)."""
        return torch.rand(shape, generator=self.generator)

    def pad(self, examples: list[dict[str, Any]]) -> tuple[Tensor, Tensor]:
        """Ids and keep, [B, L] each."""
        rows = [torch.as_tensor(example["input_ids"]) for example in examples]
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=self.tokenizer.pad_token_id)
        lengths = torch.tensor([len(row) for row in rows])
        return ids, torch.arange(ids.shape[1])[None] < lengths[:, None]

    def ordinary(self, ids: Tensor, keep: Tensor) -> Tensor:
        """Bool [B, L], True = may become a target."""
        return keep & ~torch.isin(ids, self.special)

    def targets(self, ids: Tensor, keep: Tensor) -> Tensor:
        return self.ordinary(ids, keep) & (self.draw(ids.shape) < self.rate)

    def words(self, shape: torch.Size) -> Tensor:
        """Random ids that are no special tokens."""
        ordinary = torch.tensor([i for i in range(len(self.tokenizer)) if i not in set(self.special.tolist())])
        return ordinary[(self.draw(shape) * len(ordinary)).long()]

    def corrupted(self, ids: Tensor, is_target: Tensor) -> Tensor:
        lot = self.draw(ids.shape)
        masked, replaced = self.shares
        ids = torch.where(is_target & (lot < masked), self.tokenizer.mask_token_id, ids)
        return torch.where(is_target & (lot >= masked) & (lot < masked + replaced), self.words(ids.shape), ids)

    def labels(self, ids: Tensor, corrupted: Tensor, is_target: Tensor) -> Tensor:
        return ids.masked_fill(~is_target, -100)

    def keep(self, ids: Tensor, keep: Tensor) -> Tensor:
        """The attention mask of the batch."""
        return keep.long()

    def __call__(self, examples: list[dict[str, Any]]) -> dict[str, Tensor]:
        ids, keep = self.pad(examples)
        is_target = self.targets(ids, keep)
        corrupted = self.corrupted(ids, is_target)
        labels = self.labels(ids, corrupted, is_target)
        return {"input_ids": corrupted, "labels": labels, "attention_mask": self.keep(ids, keep)}


class SpecialsToo(Masking):
    def ordinary(self, ids: Tensor, keep: Tensor) -> Tensor:
        return keep


class PaddingToo(Masking):
    def ordinary(self, ids: Tensor, keep: Tensor) -> Tensor:
        return super().ordinary(ids, keep) | ~keep


class WholeVocabulary(Masking):
    def words(self, shape: torch.Size) -> Tensor:
        return (self.draw(shape) * len(self.tokenizer)).long()


class LabelsAfterwards(Masking):
    """The labels are read from what was corrupted already."""

    def labels(self, ids: Tensor, corrupted: Tensor, is_target: Tensor) -> Tensor:
        return corrupted.masked_fill(~is_target, -100)


class LabelsShifted(Masking):
    """Labels as for a decoder, one place to the left."""

    def labels(self, ids: Tensor, corrupted: Tensor, is_target: Tensor) -> Tensor:
        return super().labels(ids, corrupted, is_target).roll(-1, 1)


class EverythingPredicted(Masking):
    """Labels everywhere but in padding."""

    def labels(self, ids: Tensor, corrupted: Tensor, is_target: Tensor) -> Tensor:
        return ids.masked_fill(ids == self.tokenizer.pad_token_id, -100)


class OthersCorrupted(Masking):
    """A second draw decides where tokens are replaced."""

    def corrupted(self, ids: Tensor, is_target: Tensor) -> Tensor:
        again = self.targets(ids, ids != self.tokenizer.pad_token_id)
        return super().corrupted(ids, again)


class SeededAnew(Masking):
    """A new generator with the same seed in every call."""

    def __call__(self, examples: list[dict[str, Any]]) -> dict[str, Tensor]:
        self.generator = torch.Generator().manual_seed(7)
        return super().__call__(examples)


class OneGenerator(Masking):
    """A generator from the start, which each worker of a data loader copies."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(7)


class Unrepeatable(Masking):
    """Numbers of the operating system, which no seed repeats."""

    def draw(self, shape: torch.Size) -> Tensor:
        return torch.rand(shape, generator=torch.Generator().manual_seed(secrets.randbits(60)))


class TwiceAsMany(Masking):
    rate = 0.3


class AllMasked(Masking):
    shares = (1.0, 0.0)


class NoneMasked(Masking):
    """Masked and replaced are taken for each other."""

    shares = (0.1, 0.8)


class RateOfSlots(Masking):
    """15% of a row's slots, however many of them are tokens."""

    def targets(self, ids: Tensor, keep: Tensor) -> Tensor:
        lots = self.draw(ids.shape).masked_fill(~self.ordinary(ids, keep), 2)
        place = lots.argsort(1).argsort(1)
        return (place < max(1, round(self.rate * ids.shape[1]))) & self.ordinary(ids, keep)


class AllOnes(Masking):
    def keep(self, ids: Tensor, keep: Tensor) -> Tensor:
        return torch.ones_like(ids)


class PaddedWithZero(Masking):
    """Padding is 0, which is another token here."""

    def pad(self, examples: list[dict[str, Any]]) -> tuple[Tensor, Tensor]:
        ids, keep = super().pad(examples)
        return ids.masked_fill(~keep, 0), keep


class ShortestRow(Masking):
    """Rows are cut to the length of the shortest."""

    def pad(self, examples: list[dict[str, Any]]) -> tuple[Tensor, Tensor]:
        ids, keep = super().pad(examples)
        n = int(keep.sum(1).min())
        return ids[:, :n], keep[:, :n]


class NoPadding(Masking):
    """Rows of different lengths cannot be stacked."""

    def pad(self, examples: list[dict[str, Any]]) -> tuple[Tensor, Tensor]:
        ids = torch.stack([torch.as_tensor(example["input_ids"]) for example in examples])
        return ids, torch.ones_like(ids, dtype=torch.bool)


def case(name: str, wrong: type[Masking], rules: str, cause: str, report: str) -> Case:
    return fault(
        name,
        "collator",
        "collator",
        report,
        lambda faulty: (wrong if faulty else Masking)(),
        rules=rules,
        cause=cause,
        audit={"kind": "collator", "tokenizer": tokenizer},
    )


CASES = [
    case(
        "collate-targets-on-specials",
        SpecialsToo,
        "collator-targets",
        "targets-on-specials",
        "[CLS] and [SEP] are masked",
    ),
    case("collate-targets-on-padding", PaddingToo, "collator-targets", "targets-on-padding", "padding is masked"),
    case("collate-random-specials", WholeVocabulary, "collator-random-ids", "random-specials", "transformers 15342"),
    case(
        "collate-labels-afterwards",
        LabelsAfterwards,
        "collator-labels collator-shares",
        "labels-not-original",
        "labels of corrupted ids",
    ),
    case(
        "collate-labels-shifted",
        LabelsShifted,
        "collator-labels collator-targets",
        "labels-not-original others-changed",
        "labels as for a decoder",
    ),
    case(
        "collate-everything-predicted",
        EverythingPredicted,
        "collator-labels collator-targets collator-rate collator-shares",
        "targets-on-specials wrong-rate",
        "labels without -100",
    ),
    case(
        "collate-others-corrupted",
        OthersCorrupted,
        "collator-labels collator-shares",
        "others-changed",
        "two draws for one decision",
    ),
    case("collate-seeded-anew", SeededAnew, "collator-draws", "draws-repeat", "static masking by accident"),
    case("collate-one-generator", OneGenerator, "collator-workers", "workers-alike", "a seed copied to each worker"),
    case("collate-unrepeatable", Unrepeatable, "collator-seeds", "seed-ignored", "a seed that is ignored"),
    case("collate-twice-as-many", TwiceAsMany, "collator-rate", "wrong-rate", "a rate that is not the one claimed"),
    case("collate-all-masked", AllMasked, "collator-shares", "wrong-shares", "no 80/10/10"),
    case("collate-shares-exchanged", NoneMasked, "collator-shares", "wrong-shares", "no 80/10/10"),
    case(
        "collate-rate-of-slots",
        RateOfSlots,
        "collator-rate",
        "rate-counts-padding wrong-rate",
        "a share of padded length",
    ),
    case("collate-mask-of-ones", AllOnes, "collator-ragged", "attention-mask-of-collator", "IndicBERT 20"),
    case("collate-padded-with-zero", PaddedWithZero, "collator-ragged", "padding-of-collator", "zero for padding"),
    case(
        "collate-shortest-row",
        ShortestRow,
        "collator-ragged collator-labels",
        "unknown attention-mask-of-collator",
        "tokens are cut off",
    ),
    case("collate-rows-of-one-length-only", NoPadding, "collator-ragged", "unknown", "ragged batches crash"),
]
