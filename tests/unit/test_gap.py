"""The gap under noise: packed draws against stock passes one by one, models whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from transformers import BertConfig, BertModel
from transformers.models.bert.modeling_bert import BertLayer

import maskwright as mw
from maskwright.errors import InputError
from maskwright.objectives.corruption import Corruption, Shares, stream
from maskwright.objectives.gap import distances, resample
from maskwright.training.gap.measure import Place, measure
from maskwright.training.gap.noise import DroppedNoise, HiddenNoise, MaskedNoise
from maskwright.training.gap.report import figures
from parity import zoo

SPECIAL = torch.tensor([0, 1, 2, 3, 5])
MASK = 5
SHARES = Shares(0.7, 0.2, 0.1)
NOISES = {
    "mlm": MaskedNoise(Corruption(MASK, torch.arange(6, zoo.VOCAB), shares=SHARES), SPECIAL),
    "mae": HiddenNoise(SPECIAL),
    "droptoken": DroppedNoise(SPECIAL),
}


def made_texts(n, seed=0, lowest=6, vocab=zoo.VOCAB):
    """Of 4 to 13 tokens, special ones at both ends."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, 12, (n,), generator=generator).tolist()
    return [[2, *torch.randint(lowest, vocab, (length,), generator=generator).tolist(), 3] for length in lengths]


def pairs(values, reference):
    """The mean of (y_s - g)·(y_t - g) over pairs of draws s ≠ t."""
    away = np.array(values) - reference
    inner = away @ away.T
    return (inner.sum() - np.trace(inner)) / (len(away) * (len(away) - 1))


def stock_states(model, ids, keep):
    """Every layer's states of one row's kept tokens by position, and its pooled vectors, from a padded stock call."""
    with torch.no_grad():
        outputs = model(input_ids=ids[None], attention_mask=keep[None].long(), output_hidden_states=True)
    at = keep.nonzero().squeeze(1).tolist()
    places = {f"layer {i}": {p: h[0, p].numpy() for p in at} for i, h in enumerate(outputs.hidden_states)}
    last = outputs.last_hidden_state[0, keep].numpy()
    return places | {"mean": {0: last.mean(0)}, "cls": {0: last[0]}}


@pytest.mark.parametrize("family", ["bert", "roberta", "modernbert"])
@pytest.mark.parametrize("kind", list(NOISES))
def test_packed_draws_are_the_stock_models_one_by_one(kind, family):
    """In float64: the same draws, each alone through the stock model, and the definition of the estimate by pairs."""
    texts, rate, n_draws, seed, noise = made_texts(5), 0.4, 7, 3, NOISES[kind]
    model = zoo.encoder(family).double()
    table = model.get_input_embeddings().weight
    plain = [stock_states(model, torch.tensor(t), torch.ones(len(t), dtype=torch.bool)) for t in texts]
    references = {"plain": plain}
    if kind == "mlm":
        own, random = table.detach().clone(), table.detach().mean(0)
        with torch.no_grad():
            table[6:] = 0.6 * own[6:] + 0.4 * (0.7 * own[MASK] + 0.2 * own[6:] + 0.1 * random)
            table[4] = 0.6 * own[4] + 0.4 * (0.7 * own[MASK] + 0.2 * own[4] + 0.1 * random)
        references["corrected"] = [
            stock_states(model, torch.tensor(t), torch.ones(len(t), dtype=torch.bool)) for t in texts
        ]
        with torch.no_grad():
            table.copy_(own)
    draws, kept = [], []
    for number, text in enumerate(texts):
        drawn = noise.draw(torch.tensor(text).expand(n_draws, -1), rate, stream(seed, number))
        draws.append([stock_states(model, ids, see) for ids, see in zip(drawn.input_ids, drawn.visible, strict=True)])
        kept.append(drawn.intact)
    found = measure(mw.pack(model), texts, noise, [rate], n_draws=n_draws, seed=seed, max_tokens=97, pad_id=zoo.PAD)
    assert len(found) == (zoo.LAYERS + 1) * (2 if kind == "mlm" else 1) + 2
    n_compared = 0
    for (at, where, tokens), terms in found.items():
        assert at == rate
        for text, of_text in enumerate(draws):
            gaps, n, squares = dict.fromkeys(references, 0.0), 0, 0.0
            for position in plain[text][where]:
                values = [
                    one[where][position]
                    for s, one in enumerate(of_text)
                    if position in one[where] and (tokens == "all" or kept[text][s, position])
                ]
                if len(values) > 1:
                    n += 1
                    squares += pairs(values, 0)
                    for name, states in references.items():
                        gaps[name] += pairs(values, states[text][where][position])
            assert terms.n[text] == n
            assert terms.squares[text].item() == pytest.approx(squares, rel=1e-9)
            for name, gap in gaps.items():
                assert terms.gaps[name][text].item() == pytest.approx(gap, rel=1e-7, abs=1e-9), (where, tokens, name)
                n_compared += 1
    assert n_compared == len(found) * 5 * len(references)


class Linear(BertLayer):
    """A layer without attention: each state by itself, through one matrix."""

    def forward(self, hidden_states, *args, **kwargs):
        return hidden_states @ self.matrix


def linear_encoder():
    """Embeddings without a norm, then the layer: a linear function of the embeddings of each token."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 22, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 17}
    model = BertModel(BertConfig(vocab_size=41, **sizes)).eval()
    zoo.spread(model)
    model.embeddings.LayerNorm = nn.Identity()
    layer = Linear(model.config)
    layer.matrix = nn.Parameter(torch.randn(22, 22))
    model.encoder.layer = nn.ModuleList([layer])
    return mw.pack(model)


@pytest.mark.parametrize("rate", [0.15, 0.75])
def test_a_linear_layer_without_attention_is_at_its_average_once_corrected(rate):
    """Random tokens from the whole table, as the formula has it: corrected embeddings leave nothing, plain ones do."""
    noise = MaskedNoise(Corruption(4, torch.arange(41)), torch.arange(5))
    texts = made_texts(61, lowest=5, vocab=41)
    found = measure(linear_encoder(), texts, noise, [rate], n_draws=31, seed=1)
    rows, comparisons = figures(found, "mlm", seed=0)
    for row in rows:
        if row.tokens == "all" and row.where != "cls":
            if row.reference == "corrected":
                assert row.low == 0
                assert row.high < 0.2
            else:
                assert row.low > 0.1
    wanted = [c for c in comparisons if c.tokens == "all" and c.where != "cls"]
    assert {c.where for c in wanted} == {"layer 0", "layer 1", "mean"}
    assert all(c.high < 0 for c in wanted)
    # A token that is left as it is owes nothing to others here: plain embeddings are exact, corrected ones are not.
    intact = {(r.where, r.reference): r for r in rows if r.tokens == "intact"}
    assert all(intact[where, "plain"].distance < 1e-5 for where in ("layer 0", "layer 1"))
    assert all(intact[where, "corrected"].low > 0.1 for where in ("layer 0", "layer 1"))


@pytest.mark.parametrize("kind", ["mae", "droptoken"])
def test_without_attention_hidden_tokens_change_nothing(kind):
    texts = made_texts(13, lowest=6, vocab=41)
    found = measure(linear_encoder(), texts, NOISES[kind], [0.3, 0.6], n_draws=17)
    rows, comparisons = figures(found, kind, seed=0)
    assert comparisons == []
    assert {r.reference for r in rows} == {"plain"}
    assert all(r.distance < 1e-5 for r in rows if r.where.startswith("layer"))
    assert all(r.distance > 0.01 for r in rows if r.where == "mean")  # special tokens weigh more in a shorter mean


def test_draws_follow_from_the_seed_and_the_text_alone():
    model, texts = mw.pack(zoo.encoder("bert")), made_texts(11)
    options = {"noise": NOISES["mlm"], "rates": [0.2, 0.7], "n_draws": 5, "pad_id": zoo.PAD}
    first = measure(model, texts, seed=7, **options)
    again = measure(model, texts, seed=7, **options)
    for place, terms in first.items():
        assert torch.equal(terms.gaps["plain"], again[place].gaps["plain"])
    small = measure(model, texts, seed=7, max_tokens=1, **options)
    fewer = measure(model, texts[:4], seed=7, **options)
    place = Place(0.7, "layer 3", "all")
    torch.testing.assert_close(small[place].gaps["corrected"], first[place].gaps["corrected"], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(fewer[place].squares, first[place].squares[:4], rtol=1e-4, atol=1e-4)
    other = measure(model, texts, seed=8, **options)
    assert not torch.allclose(other[place].squares, first[place].squares, rtol=1e-3)


def test_what_a_draw_does_to_a_text():
    ids = torch.tensor([2, *range(6, 23), 3]).expand(997, -1)
    for kind, noise in NOISES.items():
        drawn = noise.draw(ids, 0.3, stream(0))
        ends = [0, -1]
        assert drawn.visible[:, ends].all()
        assert drawn.intact[:, ends].all()
        inner = drawn.visible[:, 1:-1]
        if kind == "mlm":
            assert drawn.visible.all()
            assert torch.equal(drawn.intact, drawn.input_ids == ids)
            share = (~drawn.intact[:, 1:-1]).double().mean().item()
            assert share == pytest.approx(0.3 * (0.7 + 0.1 * 54 / 55), abs=0.015)
        else:
            assert torch.equal(drawn.input_ids, ids)
            assert inner.double().mean().item() == pytest.approx(0.7, abs=0.015)
            assert (inner.sum(1) == 12).all() == (kind == "mae")


def test_the_model_is_as_before():
    model = mw.pack(zoo.encoder("bert"))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    weight = model.get_input_embeddings().weight
    measure(model, made_texts(3), NOISES["mlm"], [0.5], n_draws=2, pad_id=zoo.PAD)
    assert model.get_input_embeddings().weight is weight
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_draws": 1}, "draws: noise can be told from distance with two draws or more, not 1"),
        ({"max_tokens": 0}, "max_tokens_per_batch: must be 1 or more"),
        ({"rates": [0.0]}, "rate: must be above 0"),
        ({"rates": [1.5]}, "rate: must be in"),
        ({"noise": NOISES["mae"], "rates": [1.0]}, "rates: must be above 0 and below 1, got 1.0"),
        ({"noise": NOISES["droptoken"], "rates": [-0.1]}, "rates: must be above 0 and below 1"),
    ],
)
def test_numbers_that_make_no_sense(options, message):
    given = {"noise": NOISES["mlm"], "rates": [0.5], "n_draws": 2, "pad_id": zoo.PAD} | options
    with pytest.raises(InputError, match=message):
        measure(mw.pack(zoo.encoder("bert")), made_texts(3), **given)


def test_a_model_that_is_not_packed_is_refused():
    with pytest.raises(InputError, match="not packed"):
        measure(zoo.encoder("bert"), made_texts(3), NOISES["mae"], [0.5], n_draws=2)


# The verb, on a tiny model and texts of letters.


def test_a_place_without_scale_is_left_out(caplog):
    found = measure(linear_encoder(), made_texts(5, lowest=6, vocab=41), NOISES["mae"], [0.5], n_draws=5)
    flat = found[Place(0.5, "cls", "all")]
    same = {name: values * 0 for name, values in flat.gaps.items()}
    alike = type(flat)(flat.n, 0 * flat.total + 1, 0 * flat.squares + flat.total.shape[1], 0 * flat.noise, same)
    with caplog.at_level("WARNING", logger="maskwright"):
        rows, _ = figures({**found, Place(0.5, "cls", "all"): alike}, "mae", 0)
    assert "rate 0.5, cls: averaged states too much alike" in caplog.text
    assert "cls" not in {row.where for row in rows}
    assert distances(alike, resample(5, 3, 0))["plain"].isnan().all()
