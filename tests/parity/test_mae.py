"""Removing hidden tokens and masking their attention columns are the same: states, loss, gradients, in float64."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForMaskedLM

import maskwright as mw
from maskwright import masks
from maskwright.encoders.heads import vocabulary_logits
from maskwright.encoders.pack import packed_states
from maskwright.errors import EmptyRowError, InputError, UnsupportedModelError
from maskwright.objectives.mae import MaskedAutoencoder
from maskwright.objectives.masklater import layers_of
from maskwright.objectives.mlm import masked_lm_loss
from parity import zoo

FAMILIES = ["bert", "roberta", "electra", "distilbert", "albert", "modernbert", "xlm-roberta", "rembert"]
B, L = 3, 11


def masked_lm(model_type):
    torch.manual_seed(0)
    return AutoModelForMaskedLM.from_config(zoo.config_of(model_type)).double()


def batch(lengths=(11, 7, 5)):
    """Ragged rows, tokens hidden at random, specials visible."""
    generator = torch.Generator().manual_seed(3)
    keep = torch.arange(L) < torch.tensor(lengths)[:, None]
    ids = torch.randint(7, zoo.VOCAB, (B, L), generator=generator).masked_fill(~keep, zoo.PAD)
    hidden = (torch.rand(B, L, generator=generator) < 0.6) & keep
    hidden[:, 0] = False
    return ids, keep, hidden


def gradients(module, loss):
    module.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("lengths", [(11, 7, 5), (11, 11, 11)], ids=["ragged", "full"])
@pytest.mark.parametrize("decoder", ["layers", "cross_attention"])
@pytest.mark.parametrize("family", FAMILIES)
def test_both_implementations_agree(family, decoder, lengths):
    ids, keep, hidden = batch(lengths)
    torch.manual_seed(1)
    mae = MaskedAutoencoder(masked_lm(family), decoder, 2).double().train()
    packed_loss, n = mae(ids, hidden, keep)
    packed = gradients(mae, packed_loss)
    states, layout = mae.encode(ids, keep & ~hidden)
    mae.implementation = "columns"
    columns_loss, _ = mae(ids, hidden, keep)
    columns = gradients(mae, columns_loss)
    reference, _ = mae.encode(ids, keep & ~hidden)
    assert n == hidden.sum()
    assert layout.n_tokens == (keep & ~hidden).sum()
    assert (states - reference).abs().max() <= 1e-10 * reference.abs().max()
    assert abs(packed_loss - columns_loss) <= 1e-10 * columns_loss
    assert packed.keys() == columns.keys()
    largest = max(grad.abs().max() for grad in columns.values())
    for name, grad in columns.items():
        assert (packed[name] - grad).abs().max() <= 1e-10 * largest, name


@pytest.mark.parametrize("family", FAMILIES)
def test_a_hidden_token_changes_nothing_but_its_own_target(family):
    ids, keep, hidden = batch()
    mae = MaskedAutoencoder(masked_lm(family)).double().eval()
    other = torch.where(hidden, 9, ids)
    one, two = (mae.encode(x, keep & ~hidden)[0] for x in (ids, other))
    assert torch.equal(one, two)
    assert not torch.equal(mae(ids, hidden, keep)[0], mae(other, hidden, keep)[0])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("chunk", [None, 2])
def test_the_head_on_targets_is_the_head_on_everything(family, chunk):
    ids, keep, hidden = batch()
    model = masked_lm(family).eval()
    labels = torch.where(hidden, ids, -100)
    logits = model(input_ids=ids, attention_mask=keep.long()).logits
    loss = -logits.log_softmax(-1)[hidden].gather(1, ids[hidden][:, None]).sum()  # stock's own would be in float32
    wanted = gradients(model, loss)
    mw.pack(model)
    states, _ = packed_states(model, input_ids=ids, attention_mask=keep.long())
    torch.testing.assert_close(vocabulary_logits(model, states).detach(), logits[keep].detach(), atol=1e-10, rtol=0)
    ours, n = masked_lm_loss(model, labels, chunk, input_ids=ids, attention_mask=keep.long())
    assert n == hidden.sum()
    torch.testing.assert_close(ours, loss, atol=1e-10, rtol=0)
    got = gradients(model, ours)
    largest = max(grad.abs().max() for grad in wanted.values())
    for name, grad in wanted.items():
        torch.testing.assert_close(got[name], grad, atol=1e-10 * float(largest), rtol=0)


LATE_FAMILIES = ["bert", "roberta", "electra", "distilbert", "modernbert", "xlm-roberta"]


def mask_arguments(layer_inputs, masks):
    """The positional and named inputs of a layer with another call's mask in the place of its own."""
    args, kwargs = layer_inputs
    other_args, other_kwargs = masks
    if "attention_mask" in kwargs:
        return args, {**kwargs, "attention_mask": other_kwargs["attention_mask"]}
    return (args[0], other_args[1], *args[2:]), kwargs


@pytest.mark.parametrize("lengths", [(11, 7, 5), (11, 11, 11)], ids=["ragged", "full"])
@pytest.mark.parametrize("family", LATE_FAMILIES)
@pytest.mark.parametrize("n_late", [1, 2])
def test_mask_later_is_stock_with_columns_masked_and_then_mask_states_put_in(family, n_late, lengths):
    """The reference runs the stock model on all tokens; hooks give its first layers the mask of the visible ones."""
    ids, keep, hidden = batch(lengths)
    torch.manual_seed(1)
    mae = MaskedAutoencoder(masked_lm(family), "mask_later", n_late).double().eval()
    loss, n = mae(ids, hidden, keep)
    ours = gradients(mae, loss)

    model = mw.unpack(mae.model)
    base, table = model.base_model, model.get_input_embeddings()
    layers = layers_of(model)
    n_early = len(layers) - n_late
    early_masks, entering = [], []
    handles = [
        layer.register_forward_pre_hook(lambda m, a, k: early_masks.append((a, k)), with_kwargs=True)
        for layer in layers
    ]
    base(input_ids=ids, attention_mask=(keep & ~hidden).long())
    for handle in handles:
        handle.remove()

    def hook(number):
        def change(module, args, kwargs):
            if number == 0:
                entering.append(args[0])
            if number == n_early:
                args = (torch.where(hidden[..., None], entering[0], args[0]), *args[1:])
            return mask_arguments((args, kwargs), early_masks[number]) if number < n_early else (args, kwargs)

        return change

    for number, layer in enumerate(layers):
        layer.register_forward_pre_hook(hook(number), with_kwargs=True)
    embedded = torch.where(hidden[..., None], mae.mask, table(ids))
    logits = model(inputs_embeds=embedded, attention_mask=keep.long()).logits
    wanted = -logits.log_softmax(-1)[hidden].gather(1, ids[hidden][:, None]).sum()
    assert n == hidden.sum()
    torch.testing.assert_close(loss, wanted, atol=1e-10, rtol=0)
    reference = gradients(mae, wanted)
    assert reference.keys() == ours.keys()
    largest = max(grad.abs().max() for grad in reference.values())
    for name, grad in reference.items():
        torch.testing.assert_close(ours[name], grad, atol=1e-10 * float(largest), rtol=0)


def test_mask_later_trains_with_checkpointed_activations():
    ids, keep, hidden = batch()
    mae = MaskedAutoencoder(masked_lm("bert"), "mask_later", 2).double().train()
    plain = gradients(mae, mae(ids, hidden, keep)[0])
    mae.model.activation_checkpointing_enable()
    again = gradients(mae, mae(ids, hidden, keep)[0])
    for name, grad in plain.items():
        torch.testing.assert_close(again[name], grad, atol=1e-12, rtol=0)


@given(
    scores=st.lists(st.lists(st.floats(-9, 9), min_size=5, max_size=5), min_size=5, max_size=5),
    p=st.floats(0.01, 1.0),
)
def test_the_expected_column_mask_leaves_attention_as_it_is(scores, p):
    """The mean over all hidden sets of the column masks is p everywhere, and Norm(p A) = A: MAE without its Dropout."""
    expected = torch.zeros(5, 5, dtype=torch.float64)
    for hidden in itertools.product([False, True], repeat=5):
        chance = math.prod(1 - p if is_hidden else p for is_hidden in hidden)
        expected += chance * masks.hide_columns(torch.tensor([hidden])).to_bool()[0].double()
    torch.testing.assert_close(expected, torch.full_like(expected, p), atol=1e-12, rtol=0)
    powers = torch.tensor(scores, dtype=torch.float64).exp()
    attention = masks.masked_softmax(powers.log(), masks.sliding_window(None, None))
    masked = attention * expected
    torch.testing.assert_close(masked / masked.sum(1, keepdim=True), powers / powers.sum(1, keepdim=True))


def test_targets_may_be_a_share_of_the_hidden_tokens():
    ids, keep, hidden = batch()
    mae = MaskedAutoencoder(masked_lm("bert"), n_layers=2).double().eval()
    targets = torch.zeros_like(hidden)
    for row in range(B):
        targets[row, hidden[row].nonzero().squeeze(1)[0]] = True
    each = [mae(ids, hidden, keep, targets & (torch.arange(B) == row)[:, None])[0] for row in range(B)]
    loss, n = mae(ids, hidden, keep, targets)
    assert n == B
    torch.testing.assert_close(loss, sum(each), atol=1e-10, rtol=0)


def test_wrong_use_says_so():
    ids, keep, hidden = batch()
    with pytest.raises(InputError, match="decoder: must be"):
        MaskedAutoencoder(masked_lm("bert"), "none")
    with pytest.raises(InputError, match="implementation: must be"):
        MaskedAutoencoder(masked_lm("bert"), implementation="slow")
    with pytest.raises(InputError, match="n_layers: must be 1"):
        MaskedAutoencoder(masked_lm("bert"), n_layers=0)
    with pytest.raises(UnsupportedModelError, match="no vocabulary head"):
        MaskedAutoencoder(zoo.encoder("bert"))
    with pytest.raises(InputError, match="n_layers: must be below the encoder's 3 layers"):
        MaskedAutoencoder(masked_lm("bert"), "mask_later", 3)
    with pytest.raises(InputError, match="implementation: is not there"):
        MaskedAutoencoder(masked_lm("bert"), "mask_later", implementation="columns")
    with pytest.raises(UnsupportedModelError, match="albert has no list of 3 layers"):
        MaskedAutoencoder(masked_lm("albert"), "mask_later")
    with pytest.raises(UnsupportedModelError, match="RemBertLayer gives back more than states"):
        MaskedAutoencoder(masked_lm("rembert"), "mask_later").double()(ids, hidden, keep)
    mae = MaskedAutoencoder(masked_lm("bert")).double()
    with pytest.raises(InputError, match="no hidden token"):
        mae(ids, torch.zeros_like(hidden), keep)
    with pytest.raises(EmptyRowError, match="row 1"):
        mae(ids, hidden | (torch.arange(B) == 1)[:, None], keep)
