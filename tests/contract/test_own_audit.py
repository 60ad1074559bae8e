"""What maskwright makes itself passes maskwright's own audit, and with a fault planted in it does not."""

from __future__ import annotations

import pytest
import torch
from transformers import BertTokenizer

import maskwright as mw
from maskwright.attention import register
from maskwright.audit.tiny import tiny_model
from maskwright.core.layout import Layout
from maskwright.encoders import pack as packing
from maskwright.encoders.inputs import layout_of
from maskwright.objectives import corruption, mlm
from maskwright.objectives.mlm import masked_lm_loss
from maskwright.pooling import reduce

PIECES = [first + second for first in "abcdefg" for second in "aeiou"]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *PIECES, *(f"##{piece}" for piece in PIECES)]
TOKENIZER = BertTokenizer(vocab={word: number for number, word in enumerate(WORDS)})
POOLING = ["mean", "mean_sqrt_length", "weighted_mean", "max", "first", "last"]
PADDING = ["padding-amount", "padding-side", "padding-content", "padding-nan", "neighbours", "row-order"]


def clean(found):
    assert found.is_clean, [finding.to_dict() for finding in found.failures]
    assert any(finding.verdict == "pass" for finding in found)


def broken(found):
    return {finding.rule for finding in found.failures}


@pytest.mark.parametrize(("kind", "drop_rate"), [("bert", 0.0), ("bert", 0.3), ("roberta", 0.0), ("modernbert", 0.0)])
def test_packed_models(kind, drop_rate):
    model = mw.pack(tiny_model(kind), drop_rate, special_ids=[1, 2, 3])
    found = mw.run_audit(model, name=kind)
    clean(found)
    refused = [finding.reason for finding in found if finding.rule == "empty-row" and finding.verdict != "pass"]
    assert refused
    assert all("EmptyRowError" in reason for reason in refused)


@pytest.mark.parametrize("kind", ["distilbert", "albert", "electra"])
def test_padding_of_further_packed_models(kind):
    found = mw.run_audit(mw.pack(tiny_model(kind)), rules=PADDING)
    clean(found)
    assert {finding.verdict for finding in found} <= {"pass", "noise", "not applicable"}  # a NaN in padding, too


def test_packing_that_ignores_the_mask(monkeypatch):
    def without_mask(inputs):
        return layout_of({name: value for name, value in inputs.items() if name != "attention_mask"})

    monkeypatch.setattr(packing, "layout_of", without_mask)
    assert {"padding-amount", "padding-content"} <= broken(mw.run_audit(mw.pack(tiny_model("bert")), rules=PADDING))


def test_packed_attention_between_rows(monkeypatch):
    def across(q, k, v, plan, scale, window=None, rate=0.0):
        states = [part.transpose(0, 1)[None] for part in (q, k, v)]
        mixed = torch.nn.functional.scaled_dot_product_attention(*states, scale=scale)
        return mixed[0].transpose(0, 1)

    monkeypatch.setattr(register, "attend", across)
    assert "neighbours" in broken(mw.run_audit(mw.pack(tiny_model("bert")), rules=PADDING))


@pytest.mark.parametrize("empty", ["raise", "zero"])
@pytest.mark.parametrize("name", POOLING)
def test_pooling(name, empty):
    pool = getattr(mw.pooling, name)
    found = mw.run_audit(lambda hidden, keep: pool(hidden, keep, empty=empty), kind="pooling", name=name)
    clean(found)
    assert {finding.verdict for finding in found} <= {"pass", "noise", "not applicable"}


def test_attention_pooling():
    torch.manual_seed(0)
    found = mw.run_audit(mw.pooling.AttentionPooling(13), kind="pooling")
    clean(found)
    assert {finding.verdict for finding in found} <= {"pass", "noise", "not applicable"}


def test_pooling_that_takes_every_slot(monkeypatch):
    def everything(hidden, keep, exclude, empty):
        layout = Layout.from_mask(torch.ones(hidden.shape[:2], dtype=torch.bool))
        return layout.pack(hidden), layout, layout.index

    monkeypatch.setattr(reduce, "pooled_tokens", everything)
    for name in POOLING:
        rules = broken(mw.run_audit(getattr(mw.pooling, name), kind="pooling"))
        assert "pooling-content" in rules or name == "first"
        assert "pooling-side" in rules or name == "last"


@pytest.mark.parametrize("unit", ["token", "whole_word", "span", "ngram"])
@pytest.mark.parametrize("exact", [False, True])
def test_masked_corruption(unit, exact):
    collate = mw.MaskedCorruption(TOKENIZER, unit=unit, exact=exact, rate=0.2)
    found = mw.run_audit(collate, TOKENIZER, kind="collator")
    clean(found)
    judged = [finding.verdict for finding in found if finding.rule != "collator-words" or unit != "token"]
    assert set(judged) == {"pass"}


def test_other_rates_and_shares():
    collate = mw.MaskedCorruption(TOKENIZER, rate=0.4, shares=(1.0, 0.0, 0.0))
    clean(mw.run_audit(collate, TOKENIZER, kind="collator", rules=["collator-rate", "collator-shares"]))


def test_corruption_with_faults(monkeypatch):
    collate = mw.MaskedCorruption(TOKENIZER)
    collate._special = torch.tensor([0])
    assert broken(mw.run_audit(collate, TOKENIZER, kind="collator", rules=["collator-targets"])) == {"collator-targets"}
    monkeypatch.setattr(corruption, "ordinary_ids", lambda tokenizer: torch.arange(len(tokenizer)))
    collate = mw.MaskedCorruption(TOKENIZER)
    found = mw.run_audit(collate, TOKENIZER, kind="collator", rules=["collator-random-ids"])
    assert broken(found) == {"collator-random-ids"}
    monkeypatch.setattr(corruption, "get_worker_info", lambda: None)
    found = mw.run_audit(mw.MaskedCorruption(TOKENIZER), TOKENIZER, kind="collator", rules=["collator-workers"])
    assert broken(found) == {"collator-workers"}


@pytest.fixture
def own_loss(monkeypatch):
    """The masked-LM loss as training takes it, of a model whose states are its logits."""

    def states(model, logits):
        layout = Layout.from_mask(torch.ones(logits.shape[:2], dtype=torch.long))
        return layout.pack(logits), layout

    monkeypatch.setattr(mlm, "packed_states", states)
    monkeypatch.setattr(mlm, "vocabulary_logits", lambda model, states: states)

    def loss(logits, labels):
        total, n = masked_lm_loss(torch.nn.Identity(), labels, chunk=5, logits=logits)
        return total / n

    return loss


def test_masked_lm_loss(own_loss, monkeypatch):
    found = mw.run_audit(own_loss, kind="loss", name="masked_lm_loss")
    clean(found)
    assert {finding.verdict for finding in found} <= {"pass", "noise", "not applicable"}
    monkeypatch.setattr(mlm, "IGNORED", -99)
    faulty = mw.run_audit(own_loss, kind="loss", rules=["loss-padding"])
    assert {finding.cause for finding in faulty.failures} == {"slots-in-the-mean"}


def test_masks():
    def additive(keep, dtype=torch.float32):
        return mw.masks.padding(attention_mask=keep).to_additive(dtype, n_queries=keep.shape[1], empty="open")

    def causal(keep, dtype=torch.float32):
        return (mw.masks.padding(attention_mask=keep) & mw.masks.causal()).to_additive(dtype, empty="open")

    def eager(keep, dtype=torch.float32):
        rule = mw.masks.padding(attention_mask=keep)
        return rule.to_transformers("eager", dtype, n_queries=keep.shape[1], empty="open")

    builders = {
        "to_sdpa": lambda keep: mw.masks.padding(attention_mask=keep).to_sdpa(n_queries=keep.shape[1]),
        "to_key_padding": lambda keep: ~mw.masks.padding(attention_mask=keep).to_key_padding()[:, None, None],
        "to_additive": additive,
        "to_transformers": eager,
    }
    for name, build in builders.items():
        clean(mw.run_audit(build, kind="mask", name=name))
    clean(mw.run_audit(causal, kind="mask", direction="causal"))


def test_masks_with_faults(monkeypatch):
    def inverted(keep):
        return mw.masks.padding(attention_mask=keep).to_key_padding()[:, None, None]

    found = mw.run_audit(inverted, kind="mask", rules=["mask-keys"])
    assert {finding.cause for finding in found.failures} == {"polarity"}

    def lowest(keep, dtype=torch.float32):
        return 4 * mw.masks.padding(attention_mask=keep).to_additive(dtype, n_queries=keep.shape[1], empty="open")

    monkeypatch.setattr(
        mw.masks.Mask, "allowed", lambda self, n_queries, n_keys, empty: self.to_bool(n_queries, n_keys)
    )
    assert broken(mw.run_audit(lowest, kind="mask", rules=["mask-narrow-dtypes"])) == {"mask-narrow-dtypes"}
