"""Corruption: statistics within binomial bounds, whole units, no special token, streams of their own."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch.utils.data import DataLoader
from transformers import BertTokenizer

from maskwright.errors import InputError
from maskwright.objectives.corruption import Corruption, MaskedCorruption, Shares, stream
from maskwright.objectives.similar import nearest, read_thesaurus, thesaurus
from maskwright.objectives.units import NGRAM_LENGTHS, SPAN_LENGTHS, choose, span_units, token_units, word_units
from maskwright.objectives.words import Words, chinese_words, ordinary_ids

B, L, V = 101, 131, 997
MASK, PAD, FIRST = 3, 0, 5


def assert_binomial(successes, n, p):
    """A share that would be this far off less than once in 10^7 tries."""
    assert stats.binomtest(int(successes), int(n), p).pvalue > 1e-7, (successes / n, p)


def ragged(seed=0):
    """Random ids with special tokens at row ends, and which may be masked."""
    generator = stream(seed)
    lengths = torch.randint(2, L + 1, (B,), generator=generator)
    slot = torch.arange(L)
    ids = torch.randint(FIRST, V, (B, L), generator=generator)
    ids[slot >= lengths[:, None]] = PAD
    ids[:, 0] = 1
    ids[torch.arange(B), lengths - 1] = 2
    return ids, ids >= FIRST


def words_of(may_mask, seed=1):
    """Words of one to four tokens."""
    begins = torch.rand(may_mask.shape, generator=stream(seed)) < 0.4
    return torch.where(may_mask, begins.long().cumsum(1), -1)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("rate", [0.15, 0.4])
@pytest.mark.parametrize("unit", ["token", "whole_word", "span", "ngram"])
def test_rates_and_shares(unit, rate, exact):
    ids, may_mask = ragged()
    shares = Shares(0.7, 0.2, 0.1)
    corruption = Corruption(MASK, torch.arange(FIRST, V), rate, shares, exact, unit)
    generator, words = stream(2), words_of(may_mask)
    units = chosen_units = masked = kept = changed = n_targets = 0
    for _ in range(7):
        out, labels = corruption(ids, may_mask, generator, words)
        target = labels != -100
        assert not (target & ~may_mask).any()
        assert torch.equal(labels[target], ids[target])
        assert torch.equal(out[~target], ids[~target])
        n_targets += target.sum()
        if unit == "token":
            masked += (out[target] == MASK).sum()
            kept += (out[target] == ids[target]).sum()
            changed += ((out != ids) & (out != MASK) & target).sum()
        units += may_mask.sum()
        chosen_units += target.sum()
    if unit == "token":
        if exact:
            assert n_targets == 7 * sum(max(1, round(rate * n)) if n else 0 for n in may_mask.sum(1).tolist())
        else:
            assert_binomial(n_targets, units, rate)
        same_by_chance = shares.random / (V - FIRST)
        assert_binomial(masked, n_targets, shares.mask)
        assert_binomial(kept, n_targets, shares.keep + same_by_chance)
        assert_binomial(changed, n_targets, shares.random - same_by_chance)
    else:  # tokens of a unit share their fate, so the spread is that of units of up to a few tokens
        spread = math.sqrt(rate * (1 - rate) * 40 / int(units))
        assert abs(int(chosen_units) / int(units) - rate) < 5.5 * spread


@pytest.mark.parametrize("unit", ["whole_word", "span", "ngram"])
@pytest.mark.parametrize("exact", [False, True])
def test_units_are_chosen_and_replaced_whole(unit, exact):
    ids, may_mask = ragged()
    words = words_of(may_mask)
    corruption = Corruption(MASK, torch.arange(FIRST, V), 0.3, Shares(0.5, 0.3, 0.2), exact, unit)
    out, labels = corruption(ids, may_mask, stream(3), words)
    target = labels != -100
    for row in range(B):
        for word in words[row][words[row] >= 0].unique():
            slots = words[row] == word
            assert target[row][slots].all() or not target[row][slots].any()
            masked = out[row][slots] == MASK
            assert masked.all() or not masked.any()


@pytest.mark.parametrize("lengths", [SPAN_LENGTHS, NGRAM_LENGTHS])
def test_span_lengths_follow_their_distribution(lengths):
    words = torch.arange(10007).expand(7, -1)
    spans = span_units(words, lengths, stream(4))
    counts = torch.zeros(len(lengths), dtype=torch.long)
    for row in spans:
        sizes = row.unique_consecutive(return_counts=True)[1][:-1]  # the last is cut by the row's end
        counts += torch.bincount(sizes - 1, minlength=len(lengths))
    expected = np.array(lengths) / sum(lengths) * int(counts.sum())
    assert stats.chisquare(counts.numpy(), expected).pvalue > 1e-7


def test_spans_do_not_cross_special_tokens():
    may_mask = torch.tensor([[True, True, False, True, True, True, False]])
    words = word_units(may_mask, torch.tensor([[0, 1, -1, 2, 3, 4, -1]]))
    for seed in range(97):
        spans = span_units(words, SPAN_LENGTHS, stream(seed))
        assert torch.equal(spans < 0, ~may_mask)
        assert spans[0, 1] != spans[0, 3]


@given(rows=st.lists(st.lists(st.booleans(), min_size=7, max_size=7), min_size=1, max_size=5), seed=st.integers(0, 99))
def test_units_number_what_may_be_masked(rows, seed):
    may_mask = torch.tensor(rows)
    words = words_of(may_mask, seed)
    for units in (token_units(may_mask), word_units(may_mask, words)):
        assert torch.equal(units >= 0, may_mask)
        for row in units:
            own = row[row >= 0]
            assert own.unique_consecutive().tolist() == list(range(int(own.max()) + 1 if len(own) else 0))
    everything = choose(token_units(may_mask), 1.0, stream(seed), exact=True)
    assert torch.equal(everything, may_mask)


def test_an_exact_rate_of_whole_words_is_exact_on_average():
    may_mask = torch.ones(5003, 11, dtype=torch.bool)
    units = word_units(may_mask, torch.tensor([0, 0, 0, 1, 2, 2, 3, 3, 3, 3, 4]).expand(5003, -1))
    n = choose(units, 0.4, stream(5), exact=True).sum(1).double()
    assert abs(n.mean().item() - 4) < 5 * n.std().item() / math.sqrt(len(n))


LETTERS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused1]", "<reserved_2>", *"abcdefghij", "##b", "##c"]


@pytest.fixture
def tokenizer():
    return BertTokenizer(vocab={token: i for i, token in enumerate(LETTERS)})


def test_special_and_unused_tokens_are_never_drawn(tokenizer):
    assert ordinary_ids(tokenizer).tolist() == list(range(7, len(LETTERS)))
    collate = MaskedCorruption(tokenizer, rate=1.0, shares=(0.0, 0.0, 1.0))
    examples = [{"input_ids": [2, *range(7, 7 + n), 3]} for n in (1, 4, 9)] * 17
    batch = collate(examples)
    target = batch["labels"] != -100
    assert torch.equal(target, batch["input_ids"] >= 7)
    assert (batch["input_ids"][target] >= 7).all()
    assert batch["attention_mask"].sum(1).tolist() == [3, 6, 11] * 17


def test_whole_words_of_word_pieces_in_ragged_batches(tokenizer):
    ids = [2, *tokenizer.convert_tokens_to_ids(["a", "##b", "##c", "d", "e", "##b"]), 3]
    assert Words(tokenizer)(ids) == [-1, 0, 0, 0, 1, 2, 2, -1]
    collate = MaskedCorruption(tokenizer, rate=0.5, unit="whole_word", shares=(1.0, 0.0, 0.0))
    batch = collate([{"input_ids": ids}, {"input_ids": [*ids[:5], 3]}, {"input_ids": [2, 7, 3]}] * 41)
    target = batch["labels"] != -100
    first = target[::3]
    assert torch.equal(first[:, 1], first[:, 2])
    assert torch.equal(first[:, 2], first[:, 3])
    assert torch.equal(first[:, 5], first[:, 6])
    assert first.any()
    assert not first[:, 1].all()


def test_chinese_words_of_real_headlines(shared_data):
    """Words are masked whole, and a fair share of the characters stand in words of two and more."""
    import json

    from maskwright.training.wordpiece import train_wordpiece

    lines = (shared_data / "clue_mini" / "tnews" / "train.json").read_text(encoding="utf-8").splitlines()[:499]
    texts = [json.loads(line)["sentence"] for line in lines]
    tokenizer = train_wordpiece(texts, 3000)
    words = Words(tokenizer, chinese_words())
    rows = [tokenizer(text)["input_ids"] for text in texts]
    sizes = []
    for ids in rows:
        ids_of_words = np.array(words(ids))
        assert (ids_of_words[[0, -1]] == -1).all()
        inner = ids_of_words[ids_of_words >= 0]
        assert (np.diff(inner) >= 0).all()
        assert set(inner) == set(range(len(set(inner))))
        sizes += np.bincount(inner).tolist()
    assert 1.4 < np.mean(sizes) < 2.5, "jieba's words of headlines have about 1.7 characters"
    collate = MaskedCorruption(tokenizer, 0.15, unit="whole_word", segment=chinese_words(), shares=(1.0, 0.0, 0.0))
    batch = collate([{"input_ids": ids} for ids in rows])
    for ids, labels in zip(rows, batch["labels"], strict=True):
        target, of = (labels[: len(ids)] != -100).numpy(), np.array(words(ids))
        for word in set(of[of >= 0]):
            assert len(set(target[of == word])) == 1


def test_a_segmenter_that_loses_characters_is_refused(tokenizer):
    chinese = BertTokenizer(vocab={t: i for i, t in enumerate([*LETTERS[:5], "中", "国"])})
    with pytest.raises(InputError, match="every character"):
        Words(chinese, segment=lambda text: [text[:1]])(chinese("中国")["input_ids"])


def test_similar_words_take_the_mask_share(tokenizer):
    other = thesaurus(tokenizer, {"a": ["b", "ab"], "c": ["cc"]})
    assert list(other((7,), stream(0))) == [8]
    assert other((9,), stream(0)) is None
    collate = MaskedCorruption(tokenizer, rate=1.0, shares=(1.0, 0.0, 0.0), similar=other)
    batch = collate([{"input_ids": [2, 7, 9, 3]}] * 53)
    assert (batch["input_ids"][:, 1] == 8).all()
    assert len(set(batch["input_ids"][:, 2].tolist())) > 1, "no similar word is known: random ones"
    assert (batch["input_ids"][:, 2] >= 7).all()


def test_the_nearest_embedding_is_similar():
    table = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
    similar = nearest(table, torch.arange(4), n=1)
    assert [similar((i,), stream(0)) for i in range(4)] == [[1], [0], [3], [2]]
    assert similar((0, 1), stream(0)) is None


def draws(**options):
    tokenizer = BertTokenizer(vocab={token: i for i, token in enumerate(LETTERS)})
    collate = MaskedCorruption(tokenizer, rate=0.5, **options)
    return collate, [{"input_ids": [2, *[7, 8, 9, 10] * 11, 3]}] * 3


def test_seeds_and_ranks_differ_and_repeat():
    seen = {}
    for seed, rank in ((0, 0), (0, 1), (1, 0)):
        collate, examples = draws(seed=seed, rank=rank)
        again, _ = draws(seed=seed, rank=rank)
        seen[seed, rank] = collate(examples)["labels"]
        assert torch.equal(seen[seed, rank], again(examples)["labels"])
    assert not torch.equal(seen[0, 0], seen[0, 1])
    assert not torch.equal(seen[0, 0], seen[1, 0])


def test_a_resumed_stream_is_the_uninterrupted_one():
    collate, examples = draws()
    collate(examples)
    state = collate.state_dict()
    wanted = [collate(examples)["labels"] for _ in range(3)]
    resumed, _ = draws()
    resumed.load_state_dict(state)
    assert all(torch.equal(resumed(examples)["labels"], labels) for labels in wanted)


def test_workers_draw_from_streams_of_their_own():
    collate, examples = draws()
    loader = DataLoader(examples, batch_size=1, num_workers=2, collate_fn=collate, generator=stream(7))
    first, second, _ = (batch["labels"] for batch in loader)
    assert not torch.equal(first, second)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 0.0}, "above 0"),
        ({"rate": 1.5}, "at most 1"),
        ({"shares": (0.5, 0.1, 0.1)}, "add up to 1"),
        ({"shares": (1.5, -0.5, 0.0)}, "non-negative"),
    ],
)
def test_rates_and_shares_that_make_no_sense(tokenizer, options, message):
    with pytest.raises(InputError, match=message):
        MaskedCorruption(tokenizer, **options)


def test_a_tokenizer_without_a_mask_is_refused(tokenizer):
    tokenizer.mask_token = None
    with pytest.raises(InputError, match=r"no \[MASK\]"):
        MaskedCorruption(tokenizer)


def test_units_of_words_need_word_ids():
    ids, may_mask = ragged()
    with pytest.raises(InputError, match="word_ids"):
        Corruption(MASK, torch.arange(FIRST, V), unit="span")(ids, may_mask, stream(0))


@pytest.mark.parametrize(
    ("text", "message"), [("{", "cannot be read as JSON"), ('["a"]', "one object"), ('{"a": "b"}', "one object")]
)
def test_a_thesaurus_that_is_none_says_so(tmp_path, text, message):
    path = tmp_path / "thesaurus.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_thesaurus(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_thesaurus(tmp_path / "none.json")
