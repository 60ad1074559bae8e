"""Rows of token ids to one padded batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from maskwright.errors import EmptyRowError, InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class PaddingCollator:
    """Pad rows to the longest, on the tokenizer's side with its ids, and say in `attention_mask` which slots are real.

    Takes dicts with `input_ids`, and optionally `token_type_ids`, `word_ids` (padded with -1, no word), `labels` (one
    value or a fixed number of values a row; whole numbers become int64, fractions float32) and `length`, which is
    dropped. Returns tensors `[B, L]`; `labels` is `[B]` or `[B, n_labels]`. In `attention_mask` 1 = takes part.
    `pad_to_multiple_of` rounds L up; `side` ("left" or "right") overrides the tokenizer's.

    Raises:
        InputError: a tokenizer without a pad token.
        EmptyRowError: rows without a token.

    Example:
        >>> from transformers import BertTokenizer
        >>> tokenizer = BertTokenizer(vocab={"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "a": 5})
        >>> batch = PaddingCollator(tokenizer)([{"input_ids": [2, 5, 3]}, {"input_ids": [2, 3]}])
        >>> batch["input_ids"].tolist(), batch["attention_mask"].tolist()
        ([[2, 5, 3], [2, 3, 0]], [[1, 1, 1], [1, 1, 0]])
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, pad_to_multiple_of: int | None = None, side: str | None = None
    ) -> None:
        if tokenizer.pad_token_id is None:
            raise InputError("the tokenizer has no pad token; set tokenizer.pad_token", "tokenizer")
        self._fills = {"input_ids": tokenizer.pad_token_id, "token_type_ids": tokenizer.pad_token_type_id}
        self._fills["word_ids"] = -1
        self._pads_left = (side or tokenizer.padding_side) == "left"
        self._multiple = pad_to_multiple_of or 1

    def __call__(self, features: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        lengths = np.fromiter((len(row["input_ids"]) for row in features), np.int64, len(features))
        empty = np.flatnonzero(lengths == 0)
        if len(empty):
            raise EmptyRowError(empty.tolist(), "every row needs at least one token")
        width = -(-int(lengths.max()) // self._multiple) * self._multiple
        slots = np.arange(width)
        if self._pads_left:
            keep = slots >= width - lengths[:, None]
        else:
            keep = slots < lengths[:, None]

        batch: dict[str, torch.Tensor] = {}
        for name, fill in self._fills.items():
            if name in features[0]:
                padded = np.full(keep.shape, fill, np.int64)
                padded[keep] = np.fromiter(chain.from_iterable(row[name] for row in features), np.int64)
                batch[name] = torch.from_numpy(padded)
        batch["attention_mask"] = torch.from_numpy(keep.astype(np.int64))
        if "labels" in features[0]:
            labels = np.asarray([row["labels"] for row in features])
            batch["labels"] = torch.from_numpy(labels.astype(np.float32 if labels.dtype.kind == "f" else np.int64))
        return batch
