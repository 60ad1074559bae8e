"""What a pretraining run says of its speed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertModel, TrainerControl, TrainerState, TrainingArguments

from maskwright.training.pretrain import progress
from maskwright.training.pretrain.progress import GemmShare, gemm_rate


def test_a_machine_busy_at_the_start_gives_no_share_above_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rates = iter([7.0, 7e9, 3e9, 5e9])  # the first was measured beside other work
    monkeypatch.setattr(progress, "gemm_rate", lambda *_: next(rates))
    sizes = {"num_hidden_layers": 2, "hidden_size": 26, "num_attention_heads": 2, "intermediate_size": 37}
    model = BertModel(BertConfig(vocab_size=97, **sizes))
    share, control = GemmShare(model), TrainerControl()
    args, state = TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to=[]), TrainerState()
    share.throughput.n_tokens, share.throughput.steps_s = 7919, 3.0  # of the run before an interruption
    share.on_train_begin(args, state, control)
    weights = sum(p.numel() for p in model.parameters()) - 97 * 26
    for tokens, seconds in ((1009, 2.0), (4001, 5.0), (503, 1.0)):
        share.throughput.n_tokens += tokens
        share.throughput.steps_s += seconds
        logs = {"loss": 1.0}
        share.on_log(args, state, control, logs)
        assert logs["tokens_per_s"] == round(tokens / seconds, 1)
        assert logs["gemm_share"] == pytest.approx(6 * weights * tokens / seconds / 7e9, rel=1e-2)


def test_measuring_leaves_the_generator_alone() -> None:
    before = torch.get_rng_state()
    assert gemm_rate(torch.float32, torch.device("cpu"), seconds=0.0, size=31) > 0
    assert torch.equal(before, torch.get_rng_state())
