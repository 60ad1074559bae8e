"""The embedding correction of a model in memory is that of the folder, and touches nothing else."""

from __future__ import annotations

import pytest
import torch
import yaml
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    BertConfig,
    BertForMaskedLM,
    BertTokenizer,
)

from maskwright.errors import InputError
from maskwright.training.correct import correct_embeddings, correct_in_memory
from maskwright.training.models import load_tokenizer

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]


@pytest.fixture
def folder(tmp_path):
    torch.manual_seed(0)
    config = BertConfig(vocab_size=13, hidden_size=22, num_attention_heads=2, num_hidden_layers=2, intermediate_size=17)
    BertForMaskedLM(config).save_pretrained(tmp_path / "model")
    BertTokenizer(vocab={token: i for i, token in enumerate(TOKENS)}).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("run", [None, {"objective": "mlm", "rate": 0.4, "final_rate": 0.2, "shares": [0.6, 0.3, 0.1]}])
@pytest.mark.parametrize("auto", [AutoModelForSequenceClassification, AutoModelForMaskedLM])
def test_it_is_the_correction_of_the_folder(auto, run, folder, tmp_path):
    if run is not None:
        run = run | {"thesaurus": None, "nearest": None}
        (folder / "config.yaml").write_text(yaml.safe_dump(run), encoding="utf-8")
    correct_embeddings(folder, tmp_path / "corrected")
    torch.manual_seed(3)
    expected = auto.from_pretrained(tmp_path / "corrected").state_dict()
    torch.manual_seed(3)
    model = auto.from_pretrained(folder)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    correct_in_memory(model, load_tokenizer(str(folder)), str(folder))
    found = model.state_dict()
    table = "bert.embeddings.word_embeddings.weight"
    torch.testing.assert_close(found[table], expected[table])
    assert not torch.equal(found[table][5:], before[table][5:])
    assert torch.equal(found[table][:5], before[table][:5])
    for name, value in before.items():
        assert name == table or torch.equal(found[name], value), name
    assert model.get_input_embeddings().weight.requires_grad


def test_a_head_that_shared_the_table_keeps_it_when_saved(folder, tmp_path):
    model = AutoModelForMaskedLM.from_pretrained(folder)
    head = model.get_output_embeddings().weight.clone()
    correct_in_memory(model, load_tokenizer(str(folder)), str(folder))
    model.save_pretrained(tmp_path / "saved")
    again = AutoModelForMaskedLM.from_pretrained(tmp_path / "saved")
    assert not again.config.tie_word_embeddings
    assert torch.equal(again.get_output_embeddings().weight, head)
    assert torch.equal(again.get_input_embeddings().weight, model.get_input_embeddings().weight)


def test_a_model_without_a_mask_token_is_refused(folder):
    tokenizer = load_tokenizer(str(folder))
    tokenizer.mask_token = None
    with pytest.raises(InputError, match=r"has no \[MASK\] token"):
        correct_in_memory(AutoModelForMaskedLM.from_pretrained(folder), tokenizer, str(folder))


def test_an_encoder_that_never_saw_a_mask_is_refused(folder):
    (folder / "config.yaml").write_text("objective: mae\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"never saw \[MASK\]"):
        correct_in_memory(AutoModelForMaskedLM.from_pretrained(folder), load_tokenizer(str(folder)), str(folder))
