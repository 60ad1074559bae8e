"""`maskwright gap`: packed draws against stock passes one by one, models whose answer is known, the verb."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification, BertModel, LongformerConfig
from transformers.models.bert.modeling_bert import BertLayer

import maskwright as mw
from maskwright.cli.main import main
from maskwright.errors import InputError
from maskwright.objectives.corruption import Corruption, Shares, stream
from maskwright.objectives.gap import distances, resample
from maskwright.training.gap.measure import Place, measure
from maskwright.training.gap.noise import DroppedNoise, HiddenNoise, MaskedNoise
from maskwright.training.gap.report import Comparison, GapRow, figures, run_gap
from maskwright.training.gap.texts import sample
from maskwright.training.gap.words import summary
from maskwright.training.pretrain.config import PretrainConfig
from maskwright.training.runs import write_config
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


@pytest.fixture
def place(tmp_path, letters):
    torch.manual_seed(0)
    sizes = {"hidden_size": 22, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 17}
    model = zoo.spread(BertModel(BertConfig(vocab_size=31, max_position_embeddings=19, **sizes)))
    model.save_pretrained(tmp_path / "model")
    letters.save_pretrained(tmp_path / "model")
    words = "abcdefghijklmnopqrstuvwxyz"
    texts = [" ".join(words[(i * j + j) % 26] for j in range(1, 4 + i % 11)) for i in range(1, 24)]
    (tmp_path / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
    rows = [json.dumps({"body": text}) for text in texts] + ["not json", json.dumps({"body": "z"})]
    (tmp_path / "texts.jsonl").write_text("\n".join(rows), encoding="utf-8")
    return tmp_path


def gap(place, *words, text="texts.txt"):
    options = ["--draws", "3", "--boundary", "line", "--output", str(place / "out"), *words]
    return main(["gap", str(place / "model"), str(place / text), *options])


def test_the_verb_writes_table_picture_and_json(place, capsys):
    assert gap(place, "--rates", "0.5", "0.2", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((place / "out" / "gap.json").read_text(encoding="utf-8"))
    assert (printed["noise"], printed["n_texts"], printed["n_draws"]) == ("mlm", 23, 3)
    found = {(r["rate"], r["reference"], r["where"], r["tokens"]) for r in printed["rows"]}
    layers = ("layer 0", "layer 1", "layer 2")
    references = ("plain", "corrected")
    wanted = {(p, r, w, "all") for p in (0.2, 0.5) for r in references for w in (*layers, "mean", "cls")}
    wanted |= {(p, r, w, "intact") for p in (0.2, 0.5) for r in references for w in layers}
    assert found == wanted
    assert len(printed["rows"]) == len(wanted)
    assert all(0 <= r["low"] <= r["high"] for r in printed["rows"])
    page = (place / "out" / "gap.md").read_text(encoding="utf-8")
    row = next(r for r in printed["rows"] if r["where"] == "mean" and r["reference"] == "corrected")
    assert f"{row['distance']:.3f} ({row['low']:.3f} to {row['high']:.3f})" in page
    assert "| | 0.2, plain | 0.2, corrected | 0.5, plain | 0.5, corrected |" in page
    assert (place / "out" / "gap.png").read_bytes().startswith(b"\x89PNG")


def test_the_verb_says_it_in_words(place, capsys):
    assert gap(place, "--noise", "mae", "--rates", "0.4") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "tokens hidden, in units of the spread" in out
    assert "Last layer: " in out
    assert "corrected" not in out
    assert "layer 0 0.000" in out
    assert gap(place, "--noise", "mlm", "--rates", "0.4") == 0
    assert "With corrected embeddings the model is closer in" in " ".join(capsys.readouterr().out.split())


def test_bad_lines_and_short_texts_are_counted(place, capsys):
    assert gap(place, "--noise", "droptoken", "--text_column", "body", "--json", text="texts.jsonl") == 0
    printed = capsys.readouterr()
    result = json.loads(printed.out)
    assert (result["n_texts"], result["n_too_short"], result["shares"]) == (23, 1, None)
    assert "texts.jsonl:24" in "".join(printed.err.split())


def test_the_same_seed_gives_the_same_numbers(place, capsys):
    rows = []
    for seed in ("0", "0", "1"):
        assert gap(place, "--rates", "0.4", "--texts", "13", "--seed", seed, "--json") == 0
        rows.append(json.loads(capsys.readouterr().out)["rows"])
    assert rows[0] == rows[1] != rows[2]


@pytest.mark.parametrize(
    ("run", "words", "wanted"),
    [
        ({"objective": "mae"}, [], ("mae", None)),
        ({"objective": "mae"}, ["--noise", "mlm"], ("mlm", [0.8, 0.1, 0.1])),
        ({"shares": [1.0, 0.0, 0.0]}, [], ("mlm", [1.0, 0.0, 0.0])),
        ({"shares": [1.0, 0.0, 0.0]}, ["--shares", "0.5", "0.5", "0"], ("mlm", [0.5, 0.5, 0.0])),
        (None, [], ("mlm", [0.8, 0.1, 0.1])),
    ],
)
def test_a_run_of_our_own_brings_its_noise(place, run, words, wanted, capsys):
    if run is not None:
        write_config(place / "model", PretrainConfig(corpus=["text"], model="some", **run))
    assert gap(place, "--rates", "0.3", "--json", *words) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["noise"], printed["shares"]) == wanted


def test_a_task_models_encoder_is_measured(place, capsys):
    base = BertModel.from_pretrained(place / "model")
    model = BertForSequenceClassification(base.config)
    model.bert.load_state_dict(base.state_dict())
    assert gap(place, "--rates", "0.4", "--json") == 0
    wanted = json.loads(capsys.readouterr().out)["rows"]
    model.save_pretrained(place / "model")
    assert gap(place, "--rates", "0.4", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"] == wanted


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rates", "2"], "rate: must be in [0, 1], got 2.0"),
        (["--shares", "0.5", "0.1", "0.1"], "shares: must be non-negative and add up to 1"),
        (["--texts", "1"], "texts: an interval over texts needs two at least, got 1"),
        (["--draws", "1"], "draws: noise can be told from distance with two draws or more, not 1"),
        (["--noise", "gauss"], "'gauss'"),
        (["--max_length", "20"], "max_length: 20 is more than the 19 positions"),
        (["--max_length", "2"], "max_length: 2 leaves no room for two tokens"),
        (["--boundary", "file"], "texts: two different documents are needed at least, found 1"),
    ],
)
def test_bad_use(place, words, message, capsys):
    assert gap(place, *words) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert len([line for line in printed.err.splitlines() if "error" in line]) == 1
    assert not (place / "out").exists()


def test_texts_are_drawn_from_all_and_differ():
    texts = [str(i % 97) for i in range(500)]
    found = [sample(texts, 11, seed) for seed in range(400)]
    assert found[0] == sample(texts, 11, 0)
    assert all(len(set(one)) == 11 for one in found)
    counts = np.bincount([int(text) for one in found for text in one], minlength=97)
    assert counts.min() > 15
    assert counts.max() < 85  # 45 expected, with a standard deviation of 6.3
    assert sorted(sample(texts, 997, 0)) == sorted(set(texts))


def test_a_tokenizer_without_mask_and_a_model_that_cannot_be_packed(place, capsys):
    config = json.loads((place / "model" / "tokenizer_config.json").read_text(encoding="utf-8"))
    config["mask_token"] = None
    (place / "model" / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    assert gap(place) == 2
    assert "tokenizer: has no [MASK] token: measure --noise mae or droptoken" in capsys.readouterr().err
    assert gap(place, "--noise", "mae") == 0
    capsys.readouterr()
    from transformers import LongformerModel

    sizes = {"hidden_size": 22, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 17}
    LongformerModel(LongformerConfig(vocab_size=31, attention_window=[4], **sizes)).save_pretrained(place / "model")
    assert gap(place, "--noise", "mae") == 2
    assert "longformer cannot be packed exactly" in capsys.readouterr().err


def test_the_words():
    def row(rate, reference, distance, low, high):
        return GapRow("mlm", rate, reference, "layer 2", "all", distance, low, high, 0.1)

    rows = [row(0.1, "plain", 0.5, 0.4, 0.6), row(0.2, "plain", 0.8, 0.7, 0.9), row(0.3, "plain", 0.05, 0.0, 0.1)]
    pairs_of = [
        Comparison(0.1, "layer 2", "all", -0.1, -0.2, -0.05),
        Comparison(0.2, "layer 2", "all", 0.2, 0.1, 0.3),
        Comparison(0.3, "layer 2", "all", 0.01, -0.1, 0.1),
    ]
    _, overall, last = summary(rows, pairs_of)
    assert "closer in 1, farther in 1 and no different beyond the interval in 1 of 3 comparisons" in overall
    assert last == (
        "Last layer: 0.500 (0.400 to 0.600) at a rate of 0.1, 0.800 (0.700 to 0.900) at a rate of 0.2, 0.050 (0.000 to "
        "0.100) at a rate of 0.3 (no distance beyond the interval at 0.3); with corrected embeddings closer at 0.1 (by "
        "20%), farther at 0.2 (by 25%), no different at 0.3."
    )


def test_on_a_real_model(shared_data, tmp_path):
    """Corrected embeddings stand nearer to what masking does to embeddings; hidden tokens leave embeddings alone."""
    folder = str(shared_data / "models" / "bert-tiny-splade-en")
    lines = (shared_data / "english" / "trec" / "TREC.test.all").read_text(encoding="latin-1").splitlines()
    (tmp_path / "texts.txt").write_text("\n".join(line.split(" ", 1)[1] for line in lines[:31]), encoding="utf-8")
    options = {"boundary": "line", "n_draws": 7}
    masked = run_gap(folder, [str(tmp_path / "texts.txt")], rates=[0.15, 0.5], **options)
    assert all(c.high < 0 for c in masked.comparisons if (c.where, c.tokens) == ("layer 0", "all"))
    hidden = run_gap(folder, [str(tmp_path / "texts.txt")], rates=[0.15, 0.75], noise="mae", **options)
    by_place = {(r.where, r.rate): r for r in hidden.rows}
    assert by_place["layer 0", 0.75].high < 1e-5
    assert by_place["layer 2", 0.75].low > by_place["layer 2", 0.15].high


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


def test_the_benchmark_publishes_a_page(place, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[2] / "benchmarks")
    import gap as benchmark
    import harness

    monkeypatch.setattr(harness, "RESULTS", place / "results")
    model, texts = str(place / "model"), str(place / "texts.txt")
    words = [texts, "--model", "tiny", "mlm", model, "--model", "tiny", "mae", model, "--rates", "0.2", "0.5"]
    words += ["--draws", "2", "--boundary", "line", "--work", str(place / "work")]
    try:
        benchmark.main(words)
        monkeypatch.setattr("maskwright.training.gap.report.run_gap", None)  # what is there is not done again
        benchmark.main(words)
    finally:
        del sys.modules["gap"], sys.modules["harness"]
    records = json.loads((place / "results" / "gap.json").read_text(encoding="utf-8"))["records"]
    assert {(record["model"], record["noise"]) for record in records} == {("tiny", "mlm"), ("tiny", "mae")}
    page = (place / "results" / "gap.md").read_text(encoding="utf-8")
    assert "| tiny | layer 2, intact | corrected | " in page
    assert "- tiny, mlm, with corrected embeddings: closer in " in page
    assert str(place) not in page
    assert (place / "results" / "gap.png").exists()
