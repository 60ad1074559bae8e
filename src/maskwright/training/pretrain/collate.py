"""Rows of ids, with word ids where there are any, to one padded batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from maskwright.data.collate import PaddingCollator


class RowCollator(PaddingCollator):
    """`PaddingCollator` that pads `word_ids` as well, with -1 (no word)."""

    def __call__(self, features: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """Rows -> input_ids, attention_mask and, if they bring them, word_ids, int64 `[B, L]`."""
        batch = super().__call__(features)
        if "word_ids" in features[0]:
            keep = batch["attention_mask"].bool()
            words = torch.full(keep.shape, -1)
            words[keep] = torch.cat([torch.as_tensor(row["word_ids"]) for row in features])
            batch["word_ids"] = words
        return batch
