"""The two objectives as modules a trainer can call alike: a batch in, a summed loss and its number of targets out."""

from __future__ import annotations

from typing import TypedDict

from torch import Tensor, nn
from transformers import PreTrainedModel

from maskwright.encoders.droptoken import IGNORED
from maskwright.encoders.pack import pack
from maskwright.objectives.mae import MaskedAutoencoder
from maskwright.objectives.mlm import CHUNK, masked_lm_loss


class Summed(TypedDict):
    """`loss` is summed over `n_targets` tokens."""

    loss: Tensor
    n_targets: Tensor


class MaskedLanguageModel(nn.Module):
    """MLM, the vocabulary head on target tokens only. `model` is the checkpoint."""

    def __init__(self, model: PreTrainedModel, chunk: int | None = CHUNK) -> None:
        super().__init__()
        self.model, self.chunk = pack(model), chunk

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> Summed:
        """All `[B, L]`; labels -100 = no target."""
        loss, n = masked_lm_loss(self.model, labels, self.chunk, input_ids=input_ids, attention_mask=attention_mask)
        return {"loss": loss, "n_targets": n}


class Autoencoder(nn.Module):
    """MAE. `model` is the checkpoint; `mae` holds it and the decoder that is thrown away."""

    def __init__(self, mae: MaskedAutoencoder) -> None:
        super().__init__()
        self.mae = mae

    @property
    def model(self) -> PreTrainedModel:
        """The encoder with its head."""
        return self.mae.model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, hidden: Tensor, labels: Tensor) -> Summed:
        """All `[B, L]`; hidden True = not seen; labels -100 = no target."""
        loss, n = self.mae(input_ids, hidden, attention_mask, labels != IGNORED)
        return {"loss": loss, "n_targets": n}
