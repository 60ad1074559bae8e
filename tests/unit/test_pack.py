"""A packed model is still the model: calls, saving, copying, precision, checkpointing, refusals."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest
import torch
from transformers import AutoModel, AutoModelForSequenceClassification, Trainer, TrainingArguments, pipeline

import maskwright as mw
from maskwright.encoders.pack import packed_states, packing_of
from maskwright.errors import EmptyRowError, InputError, MaskError, PackingError, UnsupportedModelError
from parity import zoo


@pytest.fixture
def model():
    return zoo.encoder("bert")


@pytest.fixture
def inputs():
    return zoo.ragged()


def test_masked_slots_hold_zeros_but_for_the_ends(model, inputs):
    states = mw.pack(model)(**inputs).last_hidden_state
    inner = inputs["attention_mask"].clone()
    inner[:, [0, -1]] = 1
    assert (states[inner == 0] == 0).all()
    assert torch.equal(states[2, 0], states[2, 4]), "slot 0 of a left-padded row is its first token"
    assert torch.equal(states[1, -1], states[1, 8]), "the last slot of a right-padded row is its last token"


def test_what_stands_in_masked_slots_never_matters(model, inputs):
    mw.pack(model)
    before = model(**inputs).last_hidden_state
    inputs["input_ids"] = torch.where(inputs["attention_mask"] == 1, inputs["input_ids"], zoo.VOCAB - 1)
    assert torch.equal(model(**inputs).last_hidden_state, before)
    embeds = model.embeddings.word_embeddings(inputs["input_ids"]).detach().requires_grad_()
    poisoned = torch.where(inputs["attention_mask"][..., None] == 1, embeds, float("nan"))
    rest = {name: value for name, value in inputs.items() if name != "input_ids"}
    output = model(inputs_embeds=poisoned, **rest).last_hidden_state
    assert torch.allclose(output, before, atol=1e-6)
    output.sum().backward()
    assert embeds.grad.isfinite().all()
    assert (embeds.grad[inputs["attention_mask"] == 0] == 0).all()


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.float32])
def test_masks_of_any_number_type(model, inputs, dtype):
    mw.pack(model)
    expected = model(**inputs).last_hidden_state
    inputs["attention_mask"] = inputs["attention_mask"].to(dtype)
    assert torch.equal(model(**inputs).last_hidden_state, expected)


def test_positional_arguments_and_tuples(model, inputs):
    mw.pack(model)
    expected = model(**inputs)
    output = model(inputs["input_ids"], inputs["attention_mask"], inputs["token_type_ids"], return_dict=False)
    assert isinstance(output, tuple)
    assert torch.equal(output[0], expected.last_hidden_state)
    assert torch.equal(output[1], expected.pooler_output)


def test_no_mask_means_all_tokens(model):
    ids = torch.randint(6, zoo.VOCAB, (3, 11))
    stock = model(ids).last_hidden_state
    assert torch.allclose(mw.pack(model)(ids).last_hidden_state, stock, atol=1e-5)


def test_given_positions_are_kept(model, inputs):
    inputs["position_ids"] = (torch.arange(13) * 3 % 13).expand(7, -1).clone()
    keep = inputs["attention_mask"].bool()
    stock = model(**inputs).last_hidden_state
    assert torch.allclose(mw.pack(model)(**inputs).last_hidden_state[keep], stock[keep], atol=1e-5)
    one_row = inputs | {"position_ids": inputs["position_ids"][:1]}
    assert torch.allclose(model(**one_row).last_hidden_state[keep], stock[keep], atol=1e-5)


@pytest.mark.parametrize(
    ("model_type", "reentrant"),
    [(name, reentrant) for name in ("bert", "modernbert", "rembert", "t5") for reentrant in (False, True)]
    + [("deberta-v2", False)],  # stock DeBERTa-v2 itself fails under reentrant checkpointing
)
def test_gradient_checkpointing(model_type, reentrant):
    model = zoo.encoder(model_type).train()
    inputs = zoo.ragged(model_type)
    keep = inputs["attention_mask"].bool()

    def gradients():
        model.zero_grad()
        first, second = model(**inputs)[0], model(**{k: v[:3] for k, v in inputs.items()})[0]  # two batches alive
        (first[keep].square().sum() + second[keep[:3]].square().sum()).backward()
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    mw.pack(model)
    plain = gradients()
    model.activation_checkpointing_enable({"use_reentrant": reentrant})
    checkpointed = gradients()
    for name in plain.keys() & checkpointed.keys():
        assert torch.allclose(plain[name], checkpointed[name], rtol=1e-4, atol=1e-3 * plain[name].abs().max()), name
    assert len(checkpointed) >= len(plain) - (3 if reentrant else 0)  # reentrant needs inputs with gradients


def test_half_precision(model, inputs):
    keep = inputs["attention_mask"].bool()
    for cast in (torch.bfloat16, torch.float16):
        half = copy.deepcopy(model).to(cast)
        stock = half(**inputs).last_hidden_state
        packed = mw.pack(half)(**inputs).last_hidden_state
        assert packed.dtype == cast
        truth = model(**inputs).last_hidden_state
        error, stock_error = ((x.float() - truth)[keep].abs().mean() for x in (packed, stock))
        assert error <= 1.2 * stock_error + 1e-4


@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_autocast_trains_with_and_without_attention_dropout(rate):
    model = mw.pack(zoo.encoder("bert", attention_probs_dropout_prob=rate)).train()
    inputs = zoo.ragged()
    torch.manual_seed(0)
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(**inputs).last_hidden_state.float().square().mean()
    loss.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


def test_as_many_tokens_as_the_model_is_wide():
    """A pooler output [1, D] must not be taken for states [1, T, D]."""
    model = zoo.encoder("bert")
    ids = torch.randint(6, zoo.VOCAB, (3, 13))
    mask = (torch.arange(13) < torch.tensor([[13], [10], [zoo.WIDTH - 23]])).long()
    assert mask.sum() == zoo.WIDTH
    stock = model(ids, attention_mask=mask)
    assert torch.allclose(mw.pack(model)(ids, attention_mask=mask).pooler_output, stock.pooler_output, atol=1e-5)


def test_saved_files_are_stock(model, tmp_path, inputs):
    model.save_pretrained(tmp_path / "stock")
    mw.pack(model, drop_rate=0.1, special_ids=[1]).save_pretrained(tmp_path / "packed")
    names = {p.name for p in (tmp_path / "stock").iterdir()}
    assert names == {p.name for p in (tmp_path / "packed").iterdir()}
    for name in names:
        assert (tmp_path / "stock" / name).read_bytes() == (tmp_path / "packed" / name).read_bytes(), name
    again = AutoModel.from_pretrained(tmp_path / "packed")
    assert packing_of(again) is None
    keep = inputs["attention_mask"].bool()
    assert torch.allclose(again(**inputs)[0][keep], model(**inputs)[0][keep], atol=1e-5)


@pytest.mark.parametrize("model_type", ["bert", "rembert", "deberta-v2"])
def test_copies_are_packed_and_independent(model_type):
    model, inputs = mw.pack(zoo.encoder(model_type)), zoo.ragged(model_type)
    expected = model(**inputs)[0]
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(twin(**inputs)[0], expected)
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(1.5)
        assert torch.equal(twin(**inputs)[0], expected), "the copy computes with its own weights"
        with torch.no_grad():
            for p in model.parameters():
                p.div_(1.5)
        mw.unpack(twin)
        assert packing_of(twin) is None
        assert packing_of(model) is not None


def test_state_dict_is_untouched(model):
    names = list(model.state_dict())
    assert list(mw.pack(model).state_dict()) == names


def test_packed_states_are_the_kept_ones(model, inputs):
    mw.pack(model)
    states, layout = packed_states(model, **inputs)
    keep = inputs["attention_mask"].bool()
    assert states.shape == (int(keep.sum()), zoo.WIDTH)
    assert torch.equal(states, model(**inputs).last_hidden_state[keep])
    assert layout.row_lengths == keep.sum(1).tolist()
    with pytest.raises(InputError, match=r"call maskwright\.pack"):
        packed_states(mw.unpack(model), **inputs)


def test_pipeline(letters, tmp_path):
    model = AutoModelForSequenceClassification.from_config(zoo.config_of("bert", num_labels=3, vocab_size=1009)).eval()
    texts = ["a b c", "d", "e f g h i j k"]
    task = pipeline("text-classification", model=model, tokenizer=letters, batch_size=3)
    stock = task(texts)
    mw.pack(model)
    packed = task(texts)
    assert [r["label"] for r in packed] == [r["label"] for r in stock]
    assert [r["score"] for r in packed] == pytest.approx([r["score"] for r in stock], abs=1e-5)


def test_transformers_trainer_trains_a_packed_model_alike(tmp_path):
    rows = zoo.ragged()["input_ids"].tolist()
    rows = [{"input_ids": row[:n], "labels": n % 3} for row, n in zip(rows, (13, 9, 4, 11, 2, 7, 5), strict=True)]

    def collate(batch):
        longest = max(len(row["input_ids"]) for row in batch)
        ids = [row["input_ids"] + [zoo.PAD] * (longest - len(row["input_ids"])) for row in batch]
        mask = [[1] * len(row["input_ids"]) + [0] * (longest - len(row["input_ids"])) for row in batch]
        labels = [row["labels"] for row in batch]
        return {
            name: torch.tensor(value)
            for name, value in zip(("input_ids", "attention_mask", "labels"), (ids, mask, labels), strict=True)
        }

    weights = []
    for prepare in (mw.unpack, mw.pack):
        torch.manual_seed(0)
        model = AutoModelForSequenceClassification.from_config(
            zoo.config_of("bert", num_labels=3, classifier_dropout=0.0)
        )
        options = {
            "max_steps": 3,
            "per_device_train_batch_size": 3,
            "report_to": [],
            "use_cpu": True,
            "disable_tqdm": True,
        }
        arguments = TrainingArguments(str(tmp_path), save_strategy="no", dataloader_pin_memory=False, **options)
        Trainer(prepare(model), arguments, train_dataset=rows, data_collator=collate).train()
        weights.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert (weights[0] - weights[1]).abs().max() < 1e-5


def test_empty_row_is_named(model, inputs):
    inputs["attention_mask"][3] = 0
    with pytest.raises(EmptyRowError, match="row 3") as error:
        mw.pack(model)(**inputs)
    assert error.value.rows == [3]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"output_attentions": True}, PackingError, "no attention matrix"),
        ({"encoder_hidden_states": torch.zeros(7, 13, zoo.WIDTH)}, PackingError, "encoder_hidden_states"),
        ({"attention_mask": torch.ones(7, 1, 13, 13)}, MaskError, "4-D masks"),
        ({"attention_mask": torch.full((7, 13), -1e4)}, MaskError, "only 0 and 1"),
        ({"attention_mask": torch.ones(7, 11)}, PackingError, "does not fit the inputs"),
        ({"token_type_ids": torch.zeros(13, 7, dtype=torch.long)}, PackingError, "token_type_ids"),
    ],
)
def test_calls_that_cannot_be_exact_are_refused(model, inputs, change, error, message):
    with pytest.raises(error, match=message):
        mw.pack(model)(**(inputs | change))


def test_forward_is_packed_too(model, inputs):
    """Some callers (sentence-transformers) bypass the module's call, and with it every hook."""
    mw.pack(model)
    assert torch.equal(model.forward(**inputs)[0], model(**inputs)[0])
    assert (
        list(inspect.signature(model.forward).parameters) == list(inspect.signature(type(model).forward).parameters)[1:]
    )


def test_layers_called_alone_are_refused(model):
    with pytest.raises(PackingError, match="without a packed batch"):
        mw.pack(model).encoder(torch.zeros(2, 3, zoo.WIDTH))


def test_decoders_and_strangers_are_refused():
    with pytest.raises(UnsupportedModelError, match="is_decoder"):
        mw.pack(AutoModel.from_config(zoo.config_of("bert", is_decoder=True)))
    with pytest.raises(UnsupportedModelError, match="encoder-decoder"):
        mw.pack(AutoModel.from_config(zoo.config_of("t5")))
    with pytest.raises(UnsupportedModelError, match="ConvLayer"):
        mw.pack(zoo.encoder("deberta-v2", conv_kernel_size=3, conv_act="gelu"))
    with pytest.raises(UnsupportedModelError, match="no transformers model"):
        mw.pack(torch.nn.Linear(3, 5))


@pytest.mark.parametrize("model_type", ["bert", "roberta", "modernbert", "esm", "layoutlm", "rembert", "eurobert"])
def test_a_batch_without_masked_slots(model_type):
    model = zoo.encoder(model_type)
    batch = {name: value[:5] for name, value in zoo.ragged(model_type).items()}
    batch["attention_mask"] = torch.ones_like(batch["attention_mask"])
    stock = model(**batch)[0]
    mw.pack(model)
    assert torch.allclose(model(**batch)[0], stock, atol=1e-5)
    assert torch.allclose(packed_states(model, **batch)[0], stock.flatten(0, 1), atol=1e-5)
