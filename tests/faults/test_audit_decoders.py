"""Encoder-decoders: the future, padding on either side, and attention between the sides."""

from __future__ import annotations

import pytest
import torch
from planted_models import assert_fails, assert_passes, audited, change, model_of


def test_a_decoder_that_sees_the_future():
    model = model_of("bart")
    for layer in model.decoder.layers[1:]:
        change(layer.self_attn, attention_mask=lambda mask, module: torch.ones_like(mask))
        layer.self_attn.is_causal = False
    found = audited(model, "decoder-future")
    assert not found.is_clean
    assert {failure.cause for failure in found.failures} == {"no-causal-mask"}
    assert {failure.module for failure in found.failures} == {"decoder.layers.1.self_attn"}
    assert_passes(audited(model_of("bart"), "decoder-future"))


def test_a_decoder_mask_that_is_dropped():
    model = model_of("bart")
    change(model.decoder, attention_mask=lambda mask, module: torch.ones_like(mask))
    assert_fails(audited(model, "decoder-padding"), "mask-never-arrives")
    assert_passes(audited(model_of("bart"), "decoder-padding"))


def test_a_decoder_that_sees_the_encoder_s_padding():
    model = model_of("bart")
    change(model.decoder, encoder_attention_mask=lambda mask, module: torch.ones_like(mask))
    found = audited(model, "cross-attention")
    assert not found.is_clean
    assert {failure.module for failure in found.failures} == {"decoder.layers.0.encoder_attn"}
    assert_passes(audited(model_of("bart"), "cross-attention"))


def test_a_decoder_that_is_blind_to_the_encoder():
    model = model_of("bart")
    for layer in model.decoder.layers:
        change(layer, encoder_hidden_states=lambda states, module: torch.zeros_like(states))
        layer.encoder_attn.forward = lambda hidden_states, **kwargs: (hidden_states, None)
    assert_fails(audited(model, "cross-attention"), "no-cross-attention")


@pytest.mark.parametrize("rule", ["decoder-future", "decoder-padding", "cross-attention"])
def test_what_has_no_decoder_is_told_so(rule):
    (finding,) = audited(model_of("bert"), rule)
    assert (finding.verdict, finding.reason) == ("not applicable", "it has no decoder beside an encoder")
