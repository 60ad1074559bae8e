"""Masked autoencoding of text: the encoder sees visible tokens only, a light decoder predicts the hidden ones."""

from __future__ import annotations

import copy
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from transformers import AutoModel, PreTrainedModel

from maskwright.core.layout import Layout, as_keep
from maskwright.encoders.pack import encoder_of, pack, packed_states, unpack
from maskwright.errors import InputError, UnsupportedModelError
from maskwright.objectives.crossattention import CrossDecoder
from maskwright.objectives.masklater import check_late, late_states
from maskwright.objectives.mlm import CHUNK, target_loss

Decoder = Literal["layers", "cross_attention", "mask_later"]
Implementation = Literal["packed", "columns"]


class MaskedAutoencoder(nn.Module):
    """A masked-LM model trained without [MASK] in its encoder: hidden tokens are removed, and predicted by a decoder.

    The encoder and the vocabulary head are those of `model`; they alone are its result, and stay a normal masked-LM
    checkpoint. The decoder is thrown away after pretraining.

    Args:
        model: a transformers masked-LM model of a family that packs exactly.
        decoder: "layers", self-attention layers of the model's own family over all tokens; or "cross_attention",
            from the hidden tokens that are predicted to the visible ones, which costs far less; or "mask_later", no
            decoder: [MASK] enters the encoder itself before its last `n_layers` layers.
        n_layers: of the decoder.
        implementation: "packed" removes hidden tokens; "columns" computes them too, and masks their columns in the
            attention of every layer: the same numbers for more work, as a reference.
        chunk: targets whose logits are held at once.

    Raises:
        UnsupportedModelError: the model's family cannot be packed exactly, or it has no masked-LM head.
        InputError: an unknown decoder or implementation, less than one layer, or all of them for "mask_later".

    Example:
        >>> import torch
        >>> from transformers import BertConfig, BertForMaskedLM
        >>> config = BertConfig(vocab_size=61, hidden_size=22, num_attention_heads=2, num_hidden_layers=3)
        >>> mae = MaskedAutoencoder(BertForMaskedLM(config), decoder="cross_attention", n_layers=1)
        >>> ids, hidden = torch.tensor([[7, 8, 9, 10]]), torch.tensor([[False, True, False, True]])
        >>> loss, n_targets = mae(ids, hidden)
        >>> n_targets
        tensor(2)

    Source: He et al. 2022, Masked Autoencoders; for text, MAE seen as Dropout on attention columns; Liao et al. 2022,
    Mask More and Mask Later.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        decoder: Decoder = "cross_attention",
        n_layers: int = 1,
        *,
        implementation: Implementation = "packed",
        chunk: int | None = CHUNK,
    ) -> None:
        super().__init__()
        if decoder not in get_args(Decoder):
            raise InputError(f"must be one of {', '.join(get_args(Decoder))}, got {decoder!r}", "decoder")
        if implementation not in ("packed", "columns"):
            raise InputError(f"must be 'packed' or 'columns', got {implementation!r}", "implementation")
        if n_layers < 1:
            raise InputError(f"must be 1 or more, got {n_layers}", "n_layers")
        if model.get_output_embeddings() is None:
            raise UnsupportedModelError(f"{type(model).__name__} has no vocabulary head: use AutoModelForMaskedLM")
        self.model, self.implementation, self.chunk = pack(model), implementation, chunk
        config, width = model.config, encoder_of(model)[1].get_input_embeddings().weight.shape[1]
        if decoder != "mask_later":  # there it is an embedding like any other, else a state
            width = getattr(config, "hidden_size", width)
        elif implementation == "columns":
            raise InputError("is not there for decoder='mask_later'", "implementation")
        self.mask = nn.Parameter(torch.zeros(width))
        nn.init.normal_(self.mask, std=getattr(config, "initializer_range", 0.02))
        self.n_late = n_layers if decoder == "mask_later" else 0
        self.decoder: nn.Module | None = None
        if decoder == "layers":
            self.decoder = pack(_layers_like(model, n_layers))
        elif decoder == "cross_attention":
            self.decoder = CrossDecoder.like(config, n_layers)
        else:
            check_late(model, n_layers)

    def forward(
        self,
        input_ids: Tensor,
        hidden: Tensor,
        attention_mask: Tensor | None = None,
        targets: Tensor | None = None,
        **inputs: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """(summed loss, number of targets).

        Shapes: input_ids `[B, L]`; hidden bool `[B, L]`, True = not seen by the encoder; attention_mask `[B, L]`,
        1 = a token; targets bool `[B, L]`, True = a hidden token that is predicted (default: all hidden ones).

        Raises:
            MaskError: masks of other shapes or values.
            EmptyRowError: a row with no visible token.
            InputError: no target.
        """
        keep = torch.ones_like(input_ids, dtype=torch.bool) if attention_mask is None else as_keep(attention_mask)
        wanted = keep & hidden if targets is None else keep & hidden & targets
        if not bool(wanted.any()):
            raise InputError("no hidden token to predict", "hidden")
        if self.decoder is None:
            states, layout = late_states(self.model, self.n_late, self.mask, input_ids, keep, keep & hidden, **inputs)
            predicted = _at(states, layout, wanted)
        else:
            states, visible = self.encode(input_ids, keep & ~hidden, **inputs)
            if isinstance(self.decoder, CrossDecoder):
                predicted = self.decoder(self.mask, states, visible, Layout.from_mask(wanted, empty="zero"))
            else:
                predicted = _at(*self._through_layers(self.decoder, states, visible, keep), wanted)
        labels = input_ids[wanted]
        return target_loss(self.model, predicted, labels, self.chunk), labels.new_tensor(len(labels))

    def encode(self, input_ids: Tensor, visible: Tensor, **inputs: Tensor) -> tuple[Tensor, Layout]:
        """The encoder's last states of the visible tokens, `[T, D]`, and their Layout."""
        if self.implementation == "packed":
            return packed_states(self.model, input_ids=input_ids, attention_mask=visible, **inputs)
        layout = Layout.from_mask(visible)
        return layout.pack(self._with_columns_masked(input_ids, visible, **inputs)), layout

    def _with_columns_masked(self, input_ids: Tensor, visible: Tensor, **inputs: Tensor) -> Tensor:
        """All tokens through the stock encoder, hidden columns masked in all layers: `[B, L, D]`."""
        unpack(self.model)
        try:
            base = encoder_of(self.model)[1]
            states: Tensor = base(input_ids=input_ids, attention_mask=visible.long(), **inputs)[0]
        finally:
            pack(self.model)
        return states

    def _through_layers(
        self, decoder: nn.Module, states: Tensor, visible: Layout, keep: Tensor
    ) -> tuple[Tensor, Layout]:
        """Visible states and mask embeddings in their places, through the decoder: `[T, D]` and their Layout."""
        slots = self.mask.to(states.dtype).expand(keep.numel(), -1).index_copy(0, visible.index, states)
        return packed_states(decoder, inputs_embeds=slots.view(*keep.shape, -1), attention_mask=keep)


def _at(states: Tensor, layout: Layout, wanted: Tensor) -> Tensor:
    """Those of packed states `[T, D]` that bool `[B, L]` names, `[N, D]`."""
    return states.index_select(0, layout.pack(wanted).nonzero().squeeze(1))


def _layers_like(model: PreTrainedModel, n_layers: int) -> PreTrainedModel:
    """A new encoder of the same family and width with few layers, and as small a vocabulary as its pad id allows.

    It is fed states, not ids, so its own token embeddings are never used.
    """
    config = copy.deepcopy(model.config)
    config.num_hidden_layers = n_layers
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:n_layers]
    for name in ("embedding_size", "input_embedding_size"):  # factorised embeddings would want narrower states
        if hasattr(config, name):
            setattr(config, name, config.hidden_size)
    config.vocab_size = (getattr(config, "pad_token_id", None) or 0) + 2
    decoder = AutoModel.from_config(config)
    for parameter in decoder.get_input_embeddings().parameters():
        parameter.requires_grad_(False)
    return decoder
