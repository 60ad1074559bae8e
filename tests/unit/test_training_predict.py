"""Predictions and vectors: row for row, whatever the batches, and as sentence-transformers gives them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertConfig, BertModel

import tiny_run
from maskwright.data.table import load_table
from maskwright.encoders.pack import pack
from maskwright.errors import InputError
from maskwright.training.config import EmbedConfig, PredictConfig
from maskwright.training.embed import embed_texts, run_embed
from maskwright.training.finetune import run_finetune
from maskwright.training.models import load_encoder, load_tokenizer
from maskwright.training.ordering import batches_by_length
from maskwright.training.predict import run_predict

TEXTS = [" ".join(tiny_run.WORDS[(i * j) % 8] for j in range(1, 2 + i % 13)) for i in range(29)]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_run.fine_tuned(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def sentence_folder(tmp_path_factory: pytest.TempPathFactory, run_folder: Path) -> Path:
    """A sentence-transformers folder: max pooling, a Dense layer, normalised, a default prompt, 11 tokens at most."""
    folder = tmp_path_factory.mktemp("sentences")
    torch.manual_seed(5)
    tokenizer = AutoTokenizer.from_pretrained(run_folder)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=22,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=37,
        max_position_embeddings=32,
        initializer_range=0.3,
    )
    BertModel(config).save_pretrained(folder / "plain")
    tokenizer.save_pretrained(folder / "plain")
    encoder = Transformer(str(folder / "plain"), max_seq_length=11)
    modules = [encoder, Pooling(22, pooling_mode="max"), Dense(22, 13), Normalize()]
    prompts = {"query": "red: ", "document": "blue: "}
    model = SentenceTransformer(modules=modules, prompts=prompts, default_prompt_name="query", device="cpu")
    model.save(str(folder / "full"))
    return folder / "full"


def write(path: Path, rows: list[dict[str, object]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def stock_logits(folder: Path, text: str) -> torch.Tensor:
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        return model(**AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")).logits[0]


@pytest.mark.parametrize("packed", [True, False])
def test_rows_keep_their_order_and_agree_with_stock_one_by_one(packed: bool, run_folder: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "in.jsonl", [{"text": text, "label": "abc"[i % 3]} for i, text in enumerate(TEXTS)])
    out = tmp_path / "out.jsonl"
    options = {"model": str(run_folder), "input": file, "output": str(out), "packed": packed}
    result = run_predict(PredictConfig(**options, max_tokens_per_batch=40))
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [row["id"] for row in rows] == list(range(29))
    for row, text in zip(rows, TEXTS, strict=True):
        shares = stock_logits(run_folder, text).softmax(-1).tolist()
        assert list(row["probabilities"].values()) == pytest.approx(shares, abs=2e-6)
        assert row["label"] == "abc"[int(np.argmax(shares))]
    right = sum(row["label"] == "abc"[i % 3] for i, row in enumerate(rows))
    assert result.metrics["accuracy"] == pytest.approx(right / 29)


def test_without_gold_labels_there_are_no_metrics_and_csv_has_a_column_per_class(
    run_folder: Path, tmp_path: Path
) -> None:
    file = write(tmp_path / "in.jsonl", [{"id": f"r{i}", "text": text} for i, text in enumerate(TEXTS)])
    out = tmp_path / "out.csv"
    result = run_predict(PredictConfig(model=str(run_folder), input=file, output=str(out)))
    assert result.metrics == {}
    with out.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == ["id", "label", "p(a)", "p(b)", "p(c)"]
    assert [row["id"] for row in rows] == [f"r{i}" for i in range(29)]


@pytest.mark.parametrize(
    ("labels", "answer"),
    [([[], ["x"], ["x", "y"]], "labels"), ([0.5, 1.25, -3.0], "value")],
    ids=["multi-label", "regression"],
)
def test_other_problems_go_from_file_to_file(
    labels: list[object], answer: str, run_folder: Path, tmp_path: Path
) -> None:
    rows: list[dict[str, object]] = [{"text": text, "label": labels[i % 3]} for i, text in enumerate(TEXTS)]
    file = write(tmp_path / "in.jsonl", rows)
    root = run_folder.parent
    run_finetune(tiny_run.config(root, output_dir=str(tmp_path / "run"), max_steps=3), load_table(file))
    result = run_predict(
        PredictConfig(model=str(tmp_path / "run"), input=file, output=str(tmp_path / "out.jsonl"), threshold=0.4)
    )
    assert result.metrics
    for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        if answer == "labels":
            assert row["labels"] == [name for name, share in row["probabilities"].items() if share >= 0.4]
        else:
            assert isinstance(row["value"], float)
            assert "probabilities" not in row


def test_a_label_the_model_does_not_know_is_an_error(run_folder: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "in.jsonl", [{"text": "red", "label": "zz"}])
    with pytest.raises(InputError, match=r"in\.jsonl:1: unknown label 'zz'"):
        run_predict(PredictConfig(model=str(run_folder), input=file, output=str(tmp_path / "o.csv")))


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_a_sentence_transformers_folder_is_honoured(
    suffix: str, packed: bool, sentence_folder: Path, tmp_path: Path
) -> None:
    expected = SentenceTransformer(str(sentence_folder), device="cpu").encode(TEXTS, show_progress_bar=False)
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    out = tmp_path / f"vectors{suffix}"
    config = EmbedConfig(
        model=str(sentence_folder),
        input=str(tmp_path / "texts.txt"),
        output=str(out),
        packed=packed,
        max_tokens_per_batch=50,
    )
    result = run_embed(config)
    found = np.load(out) if suffix == ".npy" else np.array(pq.read_table(out)["embedding"].to_pylist())
    assert found.shape == (29, 13)
    assert result.n_truncated > 0
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_prompt_counts(sentence_folder: Path, tmp_path: Path) -> None:
    model = SentenceTransformer(str(sentence_folder), device="cpu")
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    files = {"model": str(sentence_folder), "input": str(tmp_path / "texts.txt"), "output": str(tmp_path / "v.npy")}
    run_embed(EmbedConfig(**files, prompt_name="document"))
    document = model.encode(TEXTS, prompt_name="document", show_progress_bar=False)
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), document, atol=1e-6)
    assert np.abs(document - model.encode(TEXTS, show_progress_bar=False)).max() > 1e-3
    with pytest.raises(InputError, match="no prompt 'passage'; it has document, query"):
        run_embed(EmbedConfig(**files, prompt_name="passage"))


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_pooling_agrees_with_float64_loops(pooling: str, sentence_folder: Path) -> None:
    tokenizer, model = load_tokenizer(str(sentence_folder)), load_encoder(str(sentence_folder))
    expected = []
    with torch.inference_mode():
        for text in TEXTS:
            states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].double().numpy()
            vector = {"mean": states.mean(0), "cls": states[0], "max": states.max(0)}[pooling]
            expected.append(vector / np.sqrt((vector**2).sum()))
    found = embed_texts(pack(model), tokenizer, TEXTS, pooling=pooling, normalize=True, max_tokens=33, max_length=32)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_no_texts_are_no_vectors(sentence_folder: Path) -> None:
    model = load_encoder(str(sentence_folder))
    assert embed_texts(model, load_tokenizer(str(sentence_folder)), []).shape == (0, 22)


def test_batches_hold_every_index_once_within_the_budget() -> None:
    lengths = np.random.default_rng(0).integers(1, 40, 101)
    batches = list(batches_by_length(lengths, 64))
    assert sorted(np.concatenate(batches).tolist()) == list(range(101))
    assert all(len(batch) * lengths[batch].max() <= 64 for batch in batches)


def test_a_text_over_the_budget_is_a_batch_of_its_own() -> None:
    assert [batch.tolist() for batch in batches_by_length([3, 100, 2], 64)] == [[1], [0, 2]]
