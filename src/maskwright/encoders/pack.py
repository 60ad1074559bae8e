"""`pack(model)`: a Hugging Face encoder that computes the kept tokens and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from maskwright.attention.carrier import PlanCarrier
from maskwright.attention.register import NAME
from maskwright.core.layout import Layout
from maskwright.encoders import modules
from maskwright.encoders.answers import mask_answers
from maskwright.encoders.droptoken import DropToken, check_rate, read_special_ids
from maskwright.encoders.families import FAMILIES, Family
from maskwright.encoders.inputs import layout_of, named, pack_inputs, runs_unpacked
from maskwright.encoders.outputs import unpack_outputs
from maskwright.encoders.override import override, restore, stock
from maskwright.errors import InputError, UnsupportedModelError

Model = TypeVar("Model", bound=nn.Module)
_ATTRIBUTE = "_maskwright_packing"


@dataclass(eq=False)
class Packing:
    """What a packed model carries: its family, DropToken, and how to undo the packing."""

    family: Family
    droptoken: DropToken
    stock_attention: str
    drops_in_encoder: bool
    handle: RemovableHandle | None = None
    ready_states: Tensor | None = None  # what the encoder is to answer with, where a head alone is wanted

    @property
    def drop_rate(self) -> float:
        """DropToken's probability; may be changed between steps."""
        return self.droptoken.rate

    @drop_rate.setter
    def drop_rate(self, rate: float) -> None:
        self.droptoken.rate = check_rate(rate)

    @property
    def generator(self) -> torch.Generator:
        """The generator that chooses the dropped tokens."""
        return self.droptoken.generator


def pack(
    model: Model,
    drop_rate: float = 0.0,
    special_ids: Any = None,
    generator: torch.Generator | None = None,
) -> Model:
    """Make an encoder compute only tokens whose `attention_mask` is 1, each at its original position. In place.

    The call, the outputs `[B, L, ...]`, the parameters and everything built on them (Trainer, pipeline, autocast,
    checkpointing, saving) stay as they are; masked slots of hidden states hold zeros. Packing again changes options.

    Args:
        model: a transformers encoder or task model, or a module that holds one (SentenceTransformer, PEFT).
        drop_rate: DropToken's probability, used in training mode only; special tokens are never dropped.
        special_ids: the tokenizer, or the ids of the special tokens; needed when `drop_rate` is above 0, unless every
            batch brings a `special_tokens_mask` (1 = special).
        generator: chooses the dropped tokens; a new one, seeded from torch's global generator, by default.

    Returns:
        The same model.

    Raises:
        UnsupportedModelError: its family cannot be packed exactly; the message says why.
        InputError: a drop rate outside [0, 1).

    Example:
        >>> import torch, maskwright as mw
        >>> from transformers import BertConfig, BertModel
        >>> config = BertConfig(vocab_size=61, hidden_size=22, num_attention_heads=2, num_hidden_layers=3)
        >>> model = mw.pack(BertModel(config).eval())
        >>> ids, mask = torch.tensor([[7, 8, 9], [7, 8, 0]]), torch.tensor([[1, 1, 1], [1, 1, 0]])
        >>> model(ids, attention_mask=mask).last_hidden_state.shape
        torch.Size([2, 3, 22])
    """
    check_rate(drop_rate)
    unpack(model)
    if special_ids is None and drop_rate:
        special_ids = getattr(model, "tokenizer", None)
    if generator is None:
        generator = torch.Generator()
        if drop_rate:
            generator.manual_seed(int(torch.randint(2**62, ()).item()))
    droptoken = DropToken(drop_rate, read_special_ids(special_ids), generator)
    return pack_as(family_of(encoder_of(model)[1]), model, droptoken)


def pack_as(family: Family, model: Model, droptoken: DropToken | None = None) -> Model:
    """Pack a stock model by the rules of `family`, whatever the table says of its type."""
    inner, base = encoder_of(model)
    droptoken = droptoken or DropToken(0.0, None, torch.Generator())
    # A SentenceTransformer pools by the mask, as a head may: tokens are dropped before both see it.
    pools_outside = hasattr(model, "tokenizer")
    packing = Packing(family, droptoken, base.config._attn_implementation, inner is base and not pools_outside)
    if pools_outside:
        packing.handle = model.register_forward_pre_hook(packing.droptoken.hook)
    if inner is not base:
        override(inner, _task_forward)
    override(base, _encoder_forward)
    if family.rule is None:
        base.set_attn_implementation(NAME)
    else:
        modules.install(base, family.rule)
    setattr(base, _ATTRIBUTE, packing)
    return model


def unpack(model: Model) -> Model:
    """Give a packed model its stock behaviour back, in place; does nothing to a model that is not packed.

    Example:
        >>> import maskwright as mw
        >>> from transformers import BertConfig, BertModel
        >>> model = mw.pack(BertModel(BertConfig(vocab_size=61, hidden_size=22, num_attention_heads=2)))
        >>> mw.unpack(model) is model
        True
    """
    packing = packing_of(model)
    if packing is None:
        return model
    inner, base = encoder_of(model)
    if packing.handle is not None:
        packing.handle.remove()
    for module in {inner, base}:
        restore(module)
    if packing.family.rule is None:
        base.set_attn_implementation(packing.stock_attention)
    else:
        modules.remove(base, packing.family.rule)
    delattr(base, _ATTRIBUTE)
    return model


def packing_of(model: nn.Module) -> Packing | None:
    """The Packing of a packed model (its DropToken rate and generator), or None."""
    for module in model.modules():
        packing = module.__dict__.get(_ATTRIBUTE)
        if packing is not None:
            found: Packing = packing
            return found
    return None


def packed_states(model: nn.Module, **inputs: Any) -> tuple[Tensor, Layout]:
    """The last hidden states of the kept tokens only, `[T, D]`, and their Layout: nothing is padded again.

    Args:
        model: a packed model; its encoder is called, not its head.
        inputs: the encoder's arguments, padded, as for a normal call. DropToken does not act.

    Raises:
        InputError: the model is not packed.
    """
    packing = packing_of(model)
    if packing is None:
        raise InputError("is not packed; call maskwright.pack(model) first", "model")
    _, base = encoder_of(model)
    inputs = named(base, (), inputs)
    layout = layout_of(inputs)
    packed = pack_inputs(base, packing.family, inputs, layout)
    return base(**packed).last_hidden_state.flatten(0, 1), layout


def encoder_of(model: nn.Module) -> tuple[PreTrainedModel, PreTrainedModel]:
    """The transformers model inside `model`, and its encoder without a head.

    Raises:
        UnsupportedModelError: there is none.
    """
    inner = next((module for module in model.modules() if isinstance(module, PreTrainedModel)), None)
    if inner is None:
        raise UnsupportedModelError(f"{type(model).__name__} holds no transformers model")
    return inner, inner.base_model


def family_of(base: PreTrainedModel) -> Family:
    """The family row of an encoder.

    Raises:
        UnsupportedModelError: refused, a decoder, an encoder-decoder, or unknown and not exact when probed.
    """
    model_type = base.config.model_type
    family = FAMILIES.get(model_type)
    if family is None:
        from maskwright.encoders.probe import probe_family  # probing packs, so it imports this module

        return probe_family(base)
    reason = family.note if family.verdict == "refused" else family.check(base.config)
    if reason is None and getattr(base.config, "is_decoder", False):
        reason = "it is configured as a decoder (is_decoder=True): causal attention"
    if reason is None and hasattr(base, "decoder"):
        reason = "encoder-decoder: pack its encoder model instead"
    if reason is not None:
        raise UnsupportedModelError(f"{model_type} cannot be packed exactly: {reason}")
    return family


def _task_forward(inner: Any, *args: Any, **kwargs: Any) -> Any:
    """A model with a head: tokens are dropped before head and encoder see the mask, and answers stay off padding."""
    packing: Packing = getattr(inner.base_model, _ATTRIBUTE)
    inputs = named(inner, args, kwargs)
    if packing.handle is None:
        inputs = packing.droptoken(inner, inputs)
    if not type(inner).__name__.endswith("ForQuestionAnswering"):
        return stock(inner, **inputs)
    wants_tuple = not inputs.pop("return_dict", inner.config.return_dict)
    outputs = mask_answers(inputs, stock(inner, **inputs, return_dict=True))
    return outputs.to_tuple() if wants_tuple else outputs


def _encoder_forward(base: Any, *args: Any, **kwargs: Any) -> Any:
    packing: Packing = getattr(base, _ATTRIBUTE)
    if packing.ready_states is not None:
        return BaseModelOutput(last_hidden_state=packing.ready_states)
    inputs = named(base, args, kwargs)
    if isinstance(inputs.get("attention_mask"), PlanCarrier):  # packed already, by packed_states
        return stock(base, **inputs)
    if packing.drops_in_encoder:
        inputs = packing.droptoken(base, inputs)
    wants_tuple = not inputs.pop("return_dict", base.config.return_dict)
    layout = layout_of(inputs)
    outputs = stock(base, **pack_inputs(base, packing.family, inputs, layout))
    if not runs_unpacked(packing.family, layout):
        outputs = unpack_outputs(base, packing.family, outputs, layout)
    return outputs.to_tuple() if wants_tuple else outputs
