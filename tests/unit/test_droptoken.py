"""DropToken: what is dropped, how often, and that dropping equals masking attention columns."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import binomtest
from transformers import AutoModelForMaskedLM, AutoModelForQuestionAnswering, AutoModelForSequenceClassification

import maskwright as mw
from maskwright.encoders.pack import packing_of
from maskwright.errors import InputError
from parity import zoo

SPECIAL = (0, 2, 3, zoo.PAD)


class Recorder:
    """Remembers the attention_mask the encoder gets, after DropToken."""

    def __init__(self, model):
        self.masks = []
        model.base_model.register_forward_pre_hook(self, with_kwargs=True)

    def __call__(self, module, args, kwargs):
        self.masks.append(kwargs["attention_mask"].clone())


def classifier(**changes):
    return AutoModelForSequenceClassification.from_config(zoo.config_of("bert", num_labels=5, **changes))


def batch(rows=7, length=13):
    ids = torch.randint(6, zoo.VOCAB, (rows, length))
    ids[:, 0], ids[:, -1] = 2, 3
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.arange(rows) % 5}


def test_drop_frequency_is_binomial():
    rate, model = 0.15, classifier(num_hidden_layers=1)
    mw.pack(model, drop_rate=rate, special_ids=SPECIAL, generator=torch.Generator().manual_seed(7)).train()
    seen = Recorder(model)
    for _ in range(97):
        model(**batch(rows=23, length=29))
    mask = torch.cat(seen.masks)
    ordinary = mask[:, 1:-1]
    assert (mask[:, [0, -1]] == 1).all(), "special tokens are never dropped"
    dropped = int((ordinary == 0).sum())
    assert binomtest(dropped, ordinary.numel(), rate).pvalue > 1e-4
    assert 0.1 < (ordinary == 0).float().mean(0).min(), "every place is dropped"


def test_evaluation_drops_nothing():
    model = mw.pack(classifier(), drop_rate=0.5, special_ids=SPECIAL).eval()
    seen = Recorder(model)
    inputs = batch()
    model(**inputs)
    assert (seen.masks[0] == 1).all()
    with torch.no_grad():
        assert torch.equal(model(**inputs).logits, mw.unpack(model)(**inputs).logits) or torch.allclose(
            mw.pack(model)(**inputs).logits, mw.unpack(model)(**inputs).logits, atol=1e-6
        )


@pytest.mark.parametrize("model_type", ["bert", "modernbert"])
def test_packed_drop_equals_stock_with_the_dropped_columns_masked(model_type):
    """In training mode with ordinary dropout off: same loss, same gradients; ModernBERT's head pools by the mask."""
    config = zoo.config_of(model_type, num_labels=5)
    config.classifier_pooling = "mean"
    model = zoo.spread(AutoModelForSequenceClassification.from_config(config).double()).train()
    inputs = batch()
    mw.pack(model, drop_rate=0.3, special_ids=SPECIAL, generator=torch.Generator().manual_seed(3))
    seen = Recorder(model)
    model(**inputs).loss.backward()
    packed = {name: p.grad.clone() for name, p in model.named_parameters()}
    assert (seen.masks[0] == 0).any()
    mw.unpack(model).zero_grad()
    model.set_attn_implementation("textbook")
    inputs["attention_mask"] = seen.masks[0]
    model(**inputs).loss.backward()
    for name, p in model.named_parameters():
        assert (p.grad - packed[name]).abs().max() <= 1e-10 * p.grad.abs().max().clamp(min=1), name


def test_labels_of_dropped_tokens_are_ignored():
    model = AutoModelForMaskedLM.from_config(zoo.config_of("bert"))
    mw.pack(model, drop_rate=0.5, special_ids=SPECIAL, generator=torch.Generator().manual_seed(1)).train()
    seen, inputs = Recorder(model), batch()
    inputs["labels"] = inputs["input_ids"].clone()
    output = model(**inputs)
    labels = inputs["labels"].masked_fill(seen.masks[0] == 0, -100)
    expected = torch.nn.functional.cross_entropy(output.logits.flatten(0, 1), labels.flatten())
    assert torch.allclose(output.loss, expected)
    assert (inputs["labels"] != -100).all(), "the caller's labels stay as they were"


def test_answers_are_never_dropped():
    model = AutoModelForQuestionAnswering.from_config(zoo.config_of("bert", num_labels=2))
    mw.pack(model, drop_rate=0.9, special_ids=SPECIAL).train()
    seen, inputs = Recorder(model), batch()
    inputs.pop("labels")
    starts, ends = torch.arange(7) % 5 + 1, torch.arange(7) % 3 + 7
    model(**inputs, start_positions=starts, end_positions=ends)
    rows = torch.arange(7)
    assert (seen.masks[0][rows, starts] == 1).all()
    assert (seen.masks[0][rows, ends] == 1).all()


def test_a_row_never_loses_its_last_token():
    model = mw.pack(classifier(), drop_rate=0.99, special_ids=[]).train()
    seen, inputs = Recorder(model), batch()
    inputs["attention_mask"][:, :4] = 0
    model(**inputs)
    assert (seen.masks[0].sum(1) >= 1).all()
    assert (seen.masks[0][:, :4] == 0).all(), "padding never comes back"


def test_same_seed_same_tokens():
    draws = []
    for _ in range(2):
        model = classifier(num_hidden_layers=1)
        mw.pack(model, drop_rate=0.3, special_ids=SPECIAL, generator=torch.Generator().manual_seed(11)).train()
        seen = Recorder(model)
        torch.manual_seed(5)
        inputs = batch()
        model(**inputs)
        model(**inputs)
        draws.append(torch.stack(seen.masks))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0][0], draws[0][1]), "each step drops anew"


def test_rate_can_be_changed_and_is_checked():
    model = mw.pack(classifier(), special_ids=SPECIAL).train()
    packing_of(model).drop_rate = 0.4
    seen = Recorder(model)
    model(**batch())
    assert (seen.masks[0] == 0).any()
    for rate in (-0.1, 1.0):
        with pytest.raises(InputError, match="drop_rate"):
            packing_of(model).drop_rate = rate
        with pytest.raises(InputError, match="drop_rate"):
            mw.pack(model, drop_rate=rate)


def test_unknown_specials_are_asked_for():
    model = mw.pack(classifier(), drop_rate=0.2).train()
    inputs = batch()
    with pytest.raises(InputError, match="special_ids=tokenizer"):
        model(**inputs)
    seen = Recorder(model)
    special = torch.zeros_like(inputs["input_ids"])
    special[:, :6] = 1
    model(**inputs, special_tokens_mask=special)
    assert (seen.masks[0][:, :6] == 1).all()
