"""Results by row: which token they are read from, and rows that must not matter to each other."""

from __future__ import annotations

import types

import pytest
import torch
from planted_models import assert_fails, assert_passes, audited, model_of
from torch import nn
from transformers import AutoModelForSequenceClassification


class Pooled(nn.Module):
    """A transformer of one layer without positions, whose result by row is read from one slot."""

    def __init__(self, slot):
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(61, 28)
        self.layer = nn.TransformerEncoderLayer(28, 2, 37, 0.0, batch_first=True)
        self.slot = slot

    def forward(self, input_ids, attention_mask=None):
        keep = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        states = self.layer(self.embed(input_ids), src_key_padding_mask=keep == 0)
        return states, states[torch.arange(len(states)), self.slot(keep)]


SLOTS = {
    "first": lambda keep: torch.zeros(len(keep), dtype=torch.long),
    "sum-1": lambda keep: keep.sum(1) - 1,
    "last slot": lambda keep: torch.full((len(keep),), keep.shape[1] - 1),
}


@pytest.mark.parametrize("name", SLOTS)
def test_a_result_read_from_another_slot(name):
    found = audited(Pooled(SLOTS[name]), "row-selection", vocab_size=61, pad_id=0, direction="bidirectional")
    assert_fails(found, "pooling" if name == "last slot" else "row-selection")  # the last slot is padding on the right


OWN = {"first kept": lambda keep: keep.argmax(1), "last kept": lambda keep: len(keep[0]) - 1 - keep.flip(1).argmax(1)}


@pytest.mark.parametrize("name", OWN)
def test_a_result_read_from_the_row_s_own_token(name):
    model = Pooled(OWN[name])
    assert_passes(audited(model, "row-selection", vocab_size=61, pad_id=0, direction="bidirectional"))


@pytest.mark.parametrize("kind", ["bert", "esm"])
def test_the_pooler_of_an_encoder_is_a_design(kind):
    found = audited(model_of(kind), "row-selection")
    assert found.is_clean
    assert "first-slot" in {finding.cause for finding in found if finding.verdict == "architectural"}


def test_a_head_that_takes_eos_for_padding():
    head = AutoModelForSequenceClassification
    assert_fails(audited(model_of("llama", head, eos_token_id=1), "row-end"), "eos-as-pad")
    (finding,) = audited(model_of("llama", head, eos_token_id=2), "row-end")
    assert finding.verdict == "not applicable"
    assert_passes(audited(model_of("llama", head, eos_token_id=2), "row-selection"))

    class ByMask(nn.Module):
        """The same model, its result read from the last token that the mask keeps."""

        def __init__(self):
            super().__init__()
            self.model, self.score = model_of("llama", eos_token_id=1), nn.Linear(28, 3)

        def forward(self, input_ids, attention_mask=None):
            states = self.model(input_ids, attention_mask=attention_mask).last_hidden_state
            keep = torch.ones_like(input_ids) if attention_mask is None else attention_mask
            last = (keep * torch.arange(keep.shape[1])).argmax(1)
            return states, self.score(states[torch.arange(len(states)), last])

    assert_passes(audited(ByMask(), "row-end", direction="causal"))


def test_first_pad_arithmetic():
    """huggingface/transformers 35352: the first id of padding minus one, which an eos id in the text moves."""
    model = model_of("llama", AutoModelForSequenceClassification, eos_token_id=1)

    def forward(self, input_ids=None, attention_mask=None, **kwargs):
        states = self.model(input_ids, attention_mask=attention_mask).last_hidden_state
        place = (input_ids == 1).int().argmax(1) - 1
        return {"logits": self.score(states)[torch.arange(len(input_ids)), place % input_ids.shape[1]]}

    model.forward = types.MethodType(forward, model)
    assert_fails(audited(model, "row-end"), "eos-as-pad")


def test_a_head_without_a_pad_id_refuses_two_rows():
    model = model_of("llama", AutoModelForSequenceClassification, pad_token_id=None)
    (finding,) = audited(model, "row-selection")
    assert (finding.verdict, "no padding token" in finding.reason) == ("not applicable", True)


@pytest.mark.parametrize("mode", ["cls", "mean", "max", "lasttoken"])
def test_sentence_transformers_read_either_side(mode, tmp_path):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    folder = tmp_path / "encoder"
    model_of("bert").save_pretrained(folder)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(56))]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", "utf-8")
    from transformers import BertTokenizer

    BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    parts = sentence_transformers.sentence_transformer.modules
    transformer = parts.Transformer(str(folder))
    pooling = parts.Pooling(28, pooling_mode=mode)
    model = sentence_transformers.SentenceTransformer(modules=[transformer, pooling], device="cpu")
    assert_passes(audited(model, "row-selection"))
    pooling.forward = lambda features: features | {"sentence_embedding": features["token_embeddings"][:, 0]}
    assert_fails(audited(model, "row-selection"), "row-selection")


def test_statistics_over_equal_rows():
    class Batchwise(nn.Module):
        def __init__(self, *, over_batch):
            super().__init__()
            self.embed, self.over_batch = nn.Embedding(61, 28), over_batch

        def forward(self, input_ids, attention_mask=None):
            states = self.embed(input_ids)
            return states - (states.mean((0, 2), keepdim=True) if self.over_batch else states.mean(2, keepdim=True))

    sizes = {"vocab_size": 61, "pad_id": 0}
    assert not audited(Batchwise(over_batch=True), "batch-size", **sizes).is_clean
    assert_passes(audited(Batchwise(over_batch=False), "batch-size", **sizes))


class Softmax(nn.Module):
    """Attention with a bias of -inf; rows without a kept token give zeros, by where or by a product."""

    def __init__(self, *, safe):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.safe = nn.Embedding(61, 28), safe
        self.query = nn.Linear(28, 28)

    def forward(self, input_ids, attention_mask=None):
        states = self.embed(input_ids)
        keep = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        bias = torch.where(keep[:, None] > 0, 0.0, -torch.inf)
        if self.safe:
            bias = bias.masked_fill(keep.sum(1)[:, None, None] == 0, 0.0)
        weights = (self.query(states) @ states.mT + bias).softmax(-1)
        return states + torch.where(weights.isnan(), 0.0, weights) @ states


def test_a_gradient_through_a_row_of_padding():
    """Forward all is well: the NaN is replaced. Backward it comes back."""
    sizes = {"vocab_size": 61, "pad_id": 0}
    found = audited(Softmax(safe=False), "empty-row", **sizes)
    assert_fails(found, "softmax-over-nothing")
    assert [failure.check for failure in found.failures] == ["gradients of the rows beside it are numbers"]
    assert_passes(audited(Softmax(safe=True), "empty-row", **sizes))
