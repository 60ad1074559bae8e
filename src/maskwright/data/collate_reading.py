"""Batches of texts with choices, and of windows with answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from maskwright.data.collate import PaddingCollator

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class ChoiceCollator:
    """Pad examples with choices (see `encode_choices`) to tensors `[B, C, L]`; `labels` is `[B]`.

    An example with fewer choices than C gets choices of a single token, the fewest an encoder computes; every real
    choice has two or more, which is how `is_choice` tells them apart. In `attention_mask` 1 = takes part.

    Raises:
        InputError: a tokenizer without a pad token.

    Example:
        >>> from transformers import BertTokenizer
        >>> tokenizer = BertTokenizer(vocab={"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "a": 5})
        >>> batch = ChoiceCollator(tokenizer)([{"input_ids": [[2, 5, 3], [2, 3]]}, {"input_ids": [[2, 3]]}])
        >>> batch["attention_mask"].tolist()
        [[[1, 1, 1], [1, 1, 0]], [[1, 1, 0], [1, 0, 0]]]
        >>> is_choice(batch["attention_mask"]).tolist()
        [[True, True], [True, False]]
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._pad = PaddingCollator(tokenizer)

    def __call__(self, features: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        n_choices = max(len(row["input_ids"]) for row in features)
        names = [name for name in ("input_ids", "token_type_ids") if name in features[0]]
        flat = []
        for row in features:
            for choice in range(n_choices):
                is_real = choice < len(row["input_ids"])
                flat.append({name: row[name][choice] if is_real else row[name][0][:1] for name in names})
        padded = self._pad(flat)
        batch = {name: part.view(len(features), n_choices, -1) for name, part in padded.items()}
        if "labels" in features[0]:
            batch["labels"] = torch.tensor([int(row["labels"]) for row in features])
        return batch


def is_choice(attention_mask: torch.Tensor) -> torch.Tensor:
    """Which choices are real: bool `[B, C]` of an `attention_mask` `[B, C, L]` that `ChoiceCollator` made."""
    return attention_mask.sum(-1) > 1


class WindowCollator:
    """Pad windows (see `encode_windows`) on the right to `[B, L]`, so that positions stay what they are.

    Where windows have answers, `start_positions` and `end_positions` are `[B]`, and `labels` `[B, 2]` holds both.

    Raises:
        InputError: a tokenizer without a pad token.

    Example:
        >>> from transformers import BertTokenizer
        >>> tokenizer = BertTokenizer(vocab={"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "a": 5})
        >>> row = {"input_ids": [2, 5, 3, 5, 5, 3], "start_positions": 3, "end_positions": 4}
        >>> WindowCollator(tokenizer)([row])["labels"].tolist()
        [[3, 4]]
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._pad = PaddingCollator(tokenizer, side="right")

    def __call__(self, features: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        batch = self._pad([{name: row[name] for name in row if name.endswith("_ids")} for row in features])
        if "start_positions" in features[0]:
            for name in ("start_positions", "end_positions"):
                batch[name] = torch.tensor([int(row[name]) for row in features])
            batch["labels"] = torch.stack([batch["start_positions"], batch["end_positions"]], 1)
        return batch
