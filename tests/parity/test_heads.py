"""Task models: logits and losses equal stock, or the truth where stock lets padding in."""

from __future__ import annotations

import pytest
import torch
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

import maskwright as mw
from parity import zoo

HEADED = ["albert", "bert", "deberta-v2", "distilbert", "electra", "eurobert", "modernbert", "mpnet", "nomic_bert"]
HEADED += ["rembert", "roberta", "roformer", "xlm-roberta"]
N_LABELS = 5


def task_model(auto, model_type, **changes):
    torch.manual_seed(0)
    return zoo.spread(auto.from_config(zoo.config_of(model_type, **({"num_labels": N_LABELS} | changes))).eval())


def supported(auto, model_type):
    return model_type if zoo.config_of(model_type).__class__ in auto._model_mapping else None


def cases(auto):
    return [name for name in HEADED if supported(auto, name)]


def right_padded(model_type="bert"):
    """The rows of the ragged batch whose first slot is kept: class heads of stock models read slot 0."""
    batch = zoo.ragged(model_type)
    rows = batch["attention_mask"][:, 0].bool()
    return {name: value[rows] for name, value in batch.items() if name != "token_type_ids"}


def compare(stock, packed, keep=None):
    scale = stock.abs().max().clamp(min=1)
    difference = (packed - stock).abs()
    assert (difference if keep is None else difference[keep]).max() <= 2e-5 * scale


@pytest.mark.parametrize("model_type", cases(AutoModelForSequenceClassification))
@pytest.mark.parametrize("problem", ["single_label_classification", "multi_label_classification", "regression"])
def test_sequence_classification(model_type, problem):
    model = task_model(AutoModelForSequenceClassification, model_type)
    model.config.problem_type = problem
    batch = right_padded()
    n = len(batch["input_ids"])
    labels = torch.arange(n) % N_LABELS if problem.startswith("single") else torch.rand(n, N_LABELS).round()
    with torch.no_grad():
        stock = model(**batch, labels=labels)
        packed = mw.pack(model)(**batch, labels=labels)
    compare(stock.logits, packed.logits)
    compare(stock.loss, packed.loss)


@pytest.mark.parametrize("model_type", cases(AutoModelForTokenClassification))
def test_token_classification(model_type):
    model = task_model(AutoModelForTokenClassification, model_type)
    batch = zoo.ragged()
    keep = batch["attention_mask"].bool()
    labels = torch.randint(0, N_LABELS, keep.shape).masked_fill(~keep, -100)
    batch.pop("token_type_ids")
    with torch.no_grad():
        stock = model(**batch, labels=labels)
        packed = mw.pack(model)(**batch, labels=labels)
    compare(stock.logits, packed.logits, keep)
    compare(stock.loss, packed.loss)


@pytest.mark.parametrize("model_type", cases(AutoModelForMaskedLM))
def test_masked_lm(model_type):
    model = task_model(AutoModelForMaskedLM, model_type)
    batch = zoo.ragged()
    keep = batch["attention_mask"].bool()
    labels = batch["input_ids"].masked_fill(~keep | (torch.rand(keep.shape) < 0.5), -100)
    batch.pop("token_type_ids")
    with torch.no_grad():
        stock = model(**batch, labels=labels)
        packed = mw.pack(model)(**batch, labels=labels)
    compare(stock.logits, packed.logits, keep)
    compare(stock.loss, packed.loss)


@pytest.mark.parametrize("model_type", cases(AutoModelForMultipleChoice))
def test_multiple_choice(model_type):
    model = task_model(AutoModelForMultipleChoice, model_type)
    if model_type == "roformer":  # its stock head reads the last slot, padding or not
        model.sequence_summary.summary_type = "first"
    batch = {name: torch.stack([value[:4], value[:4].flip(0)], 1) for name, value in right_padded().items()}
    labels = torch.tensor([0, 1, 1, 0])
    with torch.no_grad():
        stock = model(**batch, labels=labels)
        packed = mw.pack(model)(**batch, labels=labels)
    compare(stock.logits, packed.logits)
    compare(stock.loss, packed.loss)


@pytest.mark.parametrize("model_type", cases(AutoModelForQuestionAnswering))
def test_question_answering_is_that_of_the_unpadded_texts(model_type):
    """Stock lets padding share the softmax over positions, so the oracle is stock on each text alone."""
    model = task_model(AutoModelForQuestionAnswering, model_type, num_labels=2)
    keep = torch.arange(13) < torch.tensor([[13], [9], [1]])
    batch = {"input_ids": zoo.ragged()["input_ids"][[0, 1, 4]], "attention_mask": keep.long()}
    starts, ends = torch.tensor([2, 3, 0]), torch.tensor([4, 7, 0])
    losses = []
    with torch.no_grad():
        for row, n in enumerate(keep.sum(1).tolist()):
            text = {"input_ids": batch["input_ids"][row : row + 1, :n]}
            alone = model(**text, start_positions=starts[row : row + 1], end_positions=ends[row : row + 1])
            losses.append(alone.loss)
        packed = mw.pack(model)(**batch, start_positions=starts, end_positions=ends)
    compare(torch.stack(losses).mean(), packed.loss)
    assert (packed.start_logits[~keep] == torch.finfo(torch.float32).min).all()


@pytest.mark.parametrize("model_type", cases(AutoModelForSequenceClassification))
def test_left_padding_changes_nothing(model_type):
    """Where stock heads read the padding in slot 0, packed heads read the first real token: as without padding."""
    model = task_model(AutoModelForSequenceClassification, model_type)
    ids = torch.randint(6, zoo.VOCAB, (3, 7))
    padded = torch.cat([torch.full((3, 4), zoo.PAD), ids], 1)
    mask = (torch.arange(11) >= 4).long().expand(3, -1)
    positions = {}
    if model_type in {
        "bert",
        "deberta-v2",
        "distilbert",
        "albert",
        "electra",
        "rembert",
    }:  # absolute positions count slots
        positions = {"position_ids": (torch.arange(11) - 4).clamp(min=0).expand(3, -1)}
    with torch.no_grad():
        alone = model(input_ids=ids).logits
        packed = mw.pack(model)(input_ids=padded, attention_mask=mask, **positions).logits
    compare(alone, packed)
