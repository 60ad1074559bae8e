"""Question answering on packed states: masked slots are no candidates for an answer's start or end."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from maskwright.core.layout import as_keep


def mask_answers(inputs: dict[str, Any], outputs: Any) -> Any:
    """Mend the outputs of a model with start and end logits `[B, L]`.

    Stock models let padding slots share the softmax over positions, so that a loss depends on the amount of padding.
    Here masked slots get the lowest value, and the loss is the one of the unpadded texts.
    """
    if "start_logits" not in outputs or "attention_mask" not in inputs:
        return outputs
    keep = as_keep(inputs["attention_mask"]).to(outputs.start_logits.device)
    lowest = torch.finfo(outputs.start_logits.dtype).min
    outputs["start_logits"] = torch.where(keep, outputs.start_logits, lowest)
    outputs["end_logits"] = torch.where(keep, outputs.end_logits, lowest)
    if outputs.get("loss") is not None:
        start = _position_loss(outputs.start_logits, inputs["start_positions"])
        end = _position_loss(outputs.end_logits, inputs["end_positions"])
        outputs["loss"] = (start + end) / 2
    return outputs


def _position_loss(logits: Tensor, positions: Tensor) -> Tensor:
    """Mean cross entropy of `[B, L]` logits; positions beyond L are ignored, as transformers does."""
    length = logits.shape[1]
    return cross_entropy(logits, positions.reshape(-1).clamp(0, length), ignore_index=length)
