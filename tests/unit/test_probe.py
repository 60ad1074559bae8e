"""Model types without a row: accepted when they prove exact, refused with the reason when not."""

from __future__ import annotations

import pytest
import torch
from transformers import BertConfig, BertModel, RobertaConfig, RobertaModel, ViTConfig, ViTModel

import maskwright as mw
from maskwright.encoders.families import FAMILIES
from maskwright.encoders.pack import packing_of
from maskwright.errors import UnsupportedModelError
from parity import zoo


def stranger(base, config_class, model_type):
    config_type = type("Config", (config_class,), {"model_type": model_type})
    cls = type("Stranger", (base,), {"config_class": config_type})
    torch.manual_seed(0)
    return zoo.spread(cls(config_type(**zoo._COMMON)).eval())


@pytest.mark.parametrize(
    ("base", "config", "positions"), [(BertModel, BertConfig, "slots"), (RobertaModel, RobertaConfig, "from_pad")]
)
def test_a_stranger_that_proves_exact_is_packed(base, config, positions):
    model = stranger(base, config, "stranger")
    batch = zoo.ragged("stranger")
    keep = batch["attention_mask"].bool()
    stock = model(**batch)[0]
    packed = mw.pack(model)(**batch)[0]
    assert torch.allclose(packed[keep], stock[keep], atol=1e-5)
    assert packing_of(model).family.positions == positions
    assert "stranger" not in FAMILIES


class Leaky(BertModel):
    def forward(self, *args, **kwargs):
        output = super().forward(*args, **kwargs)
        states = output.last_hidden_state
        output.last_hidden_state = states + 0.1 * states.roll(1, 1)
        return output


class Bypassing(BertModel):
    def __init__(self, config):
        super().__init__(config)
        for layer in self.encoder.layer:
            layer.attention.self.forward = lambda hidden_states, *args, **kwargs: (hidden_states, None)


class Computing(BertModel):
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, inputs_embeds=None, **kwargs):
        kept = attention_mask.sum()
        return super().forward(input_ids, attention_mask=attention_mask, position_ids=position_ids, **kwargs) or kept


@pytest.mark.parametrize(
    ("base", "reason"),
    [
        (Leaky, "states differ"),
        (Bypassing, "does not go through transformers' attention interface"),
        (Computing, r"computes with its attention_mask \(sum\)"),
    ],
)
def test_a_stranger_that_does_not_is_refused(base, reason):
    model = stranger(base, BertConfig, "stranger")
    with pytest.raises(UnsupportedModelError, match=reason):
        mw.pack(model)
    assert packing_of(model) is None


def test_half_precision_strangers_are_judged_in_float32():
    model = stranger(BertModel, BertConfig, "stranger").to(torch.bfloat16)
    assert packing_of(mw.pack(model)) is not None
    assert model.dtype == torch.bfloat16


def test_models_without_tokens_are_refused():
    sizes = {"hidden_size": 22, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 8, "patch_size": 4}
    with pytest.raises(UnsupportedModelError, match="reads no token ids"):
        mw.pack(ViTModel(ViTConfig(intermediate_size=37, **sizes)))


def test_every_encoder_type_of_transformers_has_a_row():
    from transformers.models.auto import modeling_auto as auto

    types = set(auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES) | set(auto.MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES)
    assert types - set(FAMILIES) == set()
    assert all(family.note for family in FAMILIES.values() if family.verdict != "exact")
