"""Averaging over noisy passes: what is drawn, that packing and batches change nothing, and that the model stays."""

from __future__ import annotations

import numpy as np
import one_step
import pytest
import torch
from transformers import BertForMultipleChoice

import maskwright as mw
from maskwright.data.collate import PaddingCollator
from maskwright.encoders.pack import pack, packing_of
from maskwright.errors import InputError
from maskwright.objectives.dropout import dropout_on
from maskwright.training.average import Sampling, average_outputs, average_probabilities, drop_tokens
from maskwright.training.metrics import probabilities
from maskwright.training.predict import predict_logits
from parity import zoo

CLASSES = one_step.PROBLEMS[0]
S, N = 7, one_step.N_EXAMPLES
SPECIAL = [0, 1, 2, 3, 4]


def model_of(problem=CLASSES, dropout=0.2, packed=True):
    model = zoo.spread(one_step.tiny_model(problem, dropout=dropout)).eval()
    return pack(model) if packed else model


def average(model, problem=CLASSES, **options):
    return average_probabilities(
        model, one_step.tiny_tokenizer(), one_step.ragged_dataset(problem), problem, **{"samples": S} | options
    )


@pytest.mark.parametrize("problem", one_step.PROBLEMS)
@pytest.mark.parametrize("packed", [True, False])
def test_weight_averaging_is_bitwise_evaluation_mode(problem, packed):
    model = model_of(problem, packed=packed)
    logits = predict_logits(model, one_step.tiny_tokenizer(), one_step.ragged_dataset(problem))
    found = average(model.train(), problem, averaging="weight")
    shares = logits.astype(np.float64) if problem == "regression" else probabilities(logits, problem)
    assert np.array_equal(found.mean, shares)
    assert not found.spread.any()
    assert model.training


def separate_passes(model, drawn):
    """S times N forward passes of one row each, its mask as `drawn` has it; probabilities `[S, N, C]`."""
    rows = one_step.ragged_dataset()["input_ids"]
    out = []
    with torch.no_grad():
        for sample in range(S):
            out.append([])
            for text, ids in enumerate(rows):
                mask = drawn(text, sample, torch.tensor([ids]))
                out[-1].append(model(input_ids=torch.tensor([ids]), attention_mask=mask).logits[0])
    return torch.stack([torch.stack(each) for each in out]).double().softmax(-1).numpy()


@pytest.mark.parametrize("packed", [True, False])
def test_dropped_tokens_are_exactly_those_of_separate_passes(packed):
    """Noise that is drawn by row: S passes at once, S passes apart, packed and not, are one and the same."""
    sampling = Sampling(samples=S, noise="droptoken", drop_rate=0.3, seed=5)

    def drawn(text, sample, ids):
        batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        drop_tokens(batch, np.array([text]), np.array([sample]), SPECIAL, sampling)
        return batch["attention_mask"]

    passes = separate_passes(model_of(packed=False), drawn)
    found = average(model_of(packed=packed), noise="droptoken", drop_rate=0.3, seed=5)
    np.testing.assert_allclose(found.mean, passes.mean(0), atol=2e-6)
    np.testing.assert_allclose(found.spread, passes.std(0, ddof=1), atol=5e-6)
    assert found.spread.max() > 0.05


@pytest.mark.parametrize("max_tokens", [1, 37, 100_003])
def test_the_token_budget_changes_nothing_under_noise_by_row(max_tokens):
    model = model_of()
    usual = average(model, noise="droptoken", drop_rate=0.3)
    found = average(model, noise="droptoken", drop_rate=0.3, max_tokens=max_tokens)
    np.testing.assert_allclose(found.mean, usual.mean, atol=1e-6)
    assert found.mutual_information == pytest.approx(usual.mutual_information, abs=1e-5)


def test_special_tokens_stay_and_others_go_at_the_rate():
    ids = torch.randint(5, 61, (1, 1009))
    ids[0, ::101] = 2
    sampling = Sampling(samples=S, noise="droptoken", drop_rate=0.2, seed=1)
    masks = []
    for sample in range(S):
        batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        drop_tokens(batch, np.array([0]), np.array([sample]), SPECIAL, sampling)
        masks.append(batch["attention_mask"][0])
    kept = torch.stack(masks).bool()
    assert kept[:, ::101].all()
    share = float((~kept).sum() / (S * (1009 - 10)))
    assert abs(share - 0.2) < 5 * (0.2 * 0.8 / (S * 999)) ** 0.5
    assert len({tuple(mask.tolist()) for mask in kept}) == S


def test_every_text_sample_and_seed_has_a_draw_of_its_own():
    ids = torch.randint(5, 61, (1, 101))
    places = [(0, 0, 1), (1, 0, 1), (0, 1, 1), (0, 0, 2)]
    masks = []
    for text, number, seed in places:
        batch = {"input_ids": ids, "attention_mask": torch.ones(1, 101, dtype=torch.long)}
        sampling = Sampling(samples=S, noise="droptoken", drop_rate=0.5, seed=seed)
        drop_tokens(batch, np.array([text]), np.array([number]), SPECIAL, sampling)
        masks.append(tuple(batch["attention_mask"][0].tolist()))
    assert len(set(masks)) == len(places)


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_draw_does_not_depend_on_padding(side):
    sampling = Sampling(samples=S, noise="droptoken", drop_rate=0.5, seed=3)
    rows = [torch.randint(5, 61, (n,)).tolist() for n in (11, 29, 3)]
    tokenizer = one_step.tiny_tokenizer()
    tokenizer.padding_side = side
    batch = PaddingCollator(tokenizer)([{"input_ids": row} for row in rows])
    drop_tokens(batch, np.array([4, 9, 9]), np.array([0, 1, 2]), SPECIAL, sampling)
    for row, (text, sample) in enumerate([(4, 0), (9, 1), (9, 2)]):
        alone = {
            "input_ids": torch.tensor([rows[row]]),
            "attention_mask": torch.ones(1, len(rows[row]), dtype=torch.long),
        }
        drop_tokens(alone, np.array([text]), np.array([sample]), SPECIAL, sampling)
        real = slice(-len(rows[row]), None) if side == "left" else slice(len(rows[row]))
        assert torch.equal(batch["attention_mask"][row, real], alone["attention_mask"][0])
        assert int(batch["attention_mask"][row].sum()) == int(alone["attention_mask"].sum())


def dropout_moments(passes):
    """Mean, standard error of it, and standard deviation over many passes `[S, N, C]`."""
    return passes.mean(0), passes.std(0) / len(passes) ** 0.5, passes.std(0)


@pytest.mark.parametrize("packed", [True, False])
def test_under_dropout_one_batch_of_samples_is_distributed_as_separate_passes(packed):
    """Mean and spread of 409 samples at once against 409 separate passes of a stock model."""
    many, few = 409, 3
    dataset = one_step.ragged_dataset().select(range(few))
    model = model_of(packed=packed)
    found = average_probabilities(model, one_step.tiny_tokenizer(), dataset, CLASSES, samples=many, max_tokens=2048)
    stock = model_of(packed=False)
    batch = PaddingCollator(one_step.tiny_tokenizer())([{"input_ids": ids} for ids in dataset["input_ids"]])
    torch.manual_seed(8)
    with torch.no_grad(), dropout_on(stock):
        passes = torch.stack([stock(**batch).logits.double().softmax(-1) for _ in range(many)]).numpy()
    mean, error, deviation = dropout_moments(passes)
    assert (np.abs(found.mean - mean) < 5 * (2**0.5) * error + 1e-4).all()
    np.testing.assert_allclose(found.spread, deviation, rtol=0.3, atol=0.01)
    evaluated = average_probabilities(model, one_step.tiny_tokenizer(), dataset, CLASSES, averaging="weight")
    assert (np.abs(found.mean - evaluated.mean) > 8 * error).any(), "averaging over weights is something else"


@pytest.mark.parametrize("attention", ["eager", "sdpa", "packed"])
def test_attention_dropout_alone_gives_spread(attention):
    model = model_of(dropout=0.0, packed=False)
    for module in model.modules():
        if type(module).__name__ == "BertSelfAttention":
            module.dropout.p = 0.3
    if attention == "packed":
        pack(model)
    else:
        model.set_attn_implementation(attention)
    found = average(model)
    assert found.spread.max() > 0.01
    assert found.mutual_information.max() > 1e-4


@pytest.mark.parametrize("noise", ["dropout", "droptoken"])
def test_a_seed_fixes_it_and_the_global_generator_stays(noise):
    model = model_of()
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    first, again, other = (average(model, noise=noise, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(torch.rand(3), expected)
    assert np.array_equal(first.mean, again.mean)
    assert not np.array_equal(first.mean, other.mean)


def test_a_models_own_droptoken_plays_no_part():
    plain = average(model_of(), seed=2)
    model = pack(model_of(), drop_rate=0.5, special_ids=SPECIAL).train()
    assert np.array_equal(average(model, seed=2).mean, plain.mean)
    assert packing_of(model).drop_rate == 0.5
    assert all(module.training for module in model.modules())


def test_values_are_averaged_as_they_are():
    found = average(model_of("regression"), "regression", samples=401)
    evaluated = average(model_of("regression"), "regression", averaging="weight")
    assert found.mean.shape == (N, 1)
    assert found.mutual_information is None
    assert np.isfinite(found.mean).all()
    assert np.abs(found.mean - evaluated.mean).max() < 3 * found.spread.max()


def test_choices_are_averaged_over_their_own_number():
    """`[B, C, L]`: examples with 2 and 3 choices, dropped tokens drawn for every choice."""
    from datasets import Dataset

    from maskwright.data.collate_reading import ChoiceCollator
    from maskwright.training.kinds.choice import restrict_to_choices

    torch.manual_seed(2)
    model = zoo.spread(BertForMultipleChoice(one_step.tiny_config(0.2))).eval()
    restrict_to_choices(model)
    pack(model)
    ids = [[[2, 7, 9, 11, 3], [2, 8, 6, 3]], [[2, 6, 3], [2, 9, 14, 3], [2, 17, 19, 23, 3]], [[2, 5, 3], [2, 12, 3]]]
    dataset = Dataset.from_dict({"input_ids": ids, "length": [sum(map(len, row)) for row in ids]})
    collate = ChoiceCollator(one_step.tiny_tokenizer())
    for noise in ("dropout", "droptoken"):
        sampling = Sampling(samples=S, noise=noise, drop_rate=0.4)
        (found,) = average_outputs(
            model, SPECIAL, collate, dataset, ("logits",), "multiple_choice", sampling, max_tokens=50
        )
        assert found.mean.shape == (3, 3)
        np.testing.assert_allclose(found.mean.sum(1), 1)
        assert (found.mean[[0, 2], 2] == 0).all()
        assert (found.spread[:, :2] > 1e-6).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": 1}, "samples: 2 or more"),
        ({"noise": "droptoken", "drop_rate": 0.0}, "drop_rate: must be above 0"),
        ({"noise": "gauss"}, "noise: 'gauss' is neither"),
        ({"averaging": "median"}, "averaging: 'median' is neither"),
    ],
)
def test_options_that_make_no_sense(options, message):
    with pytest.raises(InputError, match=message):
        average(model_of(), **options)


def test_a_model_without_dropout_cannot_be_averaged_over_it():
    with pytest.raises(InputError, match="dropout rates are 0"):
        average(model_of(dropout=0.0))


def texts_and_pairs():
    return [["w1 w2 w3", "w4", "w5 w6"], [("w1 w2", "w3"), ("w4", "w5 w6 w7")]]


@pytest.mark.parametrize("texts", texts_and_pairs(), ids=["texts", "pairs"])
def test_texts_at_hand(texts):
    model, tokenizer = model_of(), one_step.tiny_tokenizer()
    found = mw.predict(model, tokenizer, texts)
    for row, text in enumerate(texts):
        inputs = (
            tokenizer(text, return_tensors="pt") if isinstance(text, str) else tokenizer(*text, return_tensors="pt")
        )
        with torch.no_grad():
            np.testing.assert_allclose(found.mean[row], model(**inputs).logits[0].softmax(-1).numpy(), atol=2e-6)
    noisy = mw.predict(model, tokenizer, texts, averaging="model", samples=5)
    assert noisy.spread.shape == found.mean.shape
    assert (noisy.mutual_information > 0).all()


@pytest.mark.parametrize(
    ("texts", "message"),
    [("one text", "list of texts"), (["a", ("b", "c")], "not both"), ([], "one or more"), ([("a", "b", "c")], "pairs")],
)
def test_texts_that_are_none(texts, message):
    with pytest.raises(InputError, match=message):
        mw.predict(model_of(), one_step.tiny_tokenizer(), texts)
