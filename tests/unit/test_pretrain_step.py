"""The loss and weights of a pretraining step do not depend on batches, accumulation or ranks."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import one_pretraining_step as one
import pytest
import torch
from safetensors.torch import load_file

every_kind = pytest.mark.parametrize("kind", ["mlm", "mae"])


def weights(trainer):
    return {name: value.detach() for name, value in trainer.model.named_parameters()}


def assert_same(found, expected):
    start = dict(one.objective("mae" if any("decoder.layers" in n for n in expected) else "mlm").named_parameters())
    for name, want in expected.items():
        torch.testing.assert_close(found[name], want, rtol=0, atol=1e-6, msg=name)
    assert max(float((expected[name] - start[name].detach()).abs().max()) for name in start) > 1e-3


@every_kind
def test_one_big_batch_and_accumulated_small_ones_agree(kind, tmp_path):
    whole = one.step(tmp_path, kind)
    for cut in ({"max_tokens": 60, "accumulate": 99}, {"rows": 6, "accumulate": 4}):
        cut_up = one.step(tmp_path, kind, **cut)
        loss = whole.state.log_history[0]["loss"]
        assert cut_up.state.log_history[0]["loss"] == pytest.approx(loss, abs=1e-5)
        assert cut_up.state.global_step == 1
        assert_same(weights(cut_up), weights(whole))


@every_kind
def test_two_ranks_make_the_step_of_one(kind, tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    out = tmp_path / "weights.safetensors"
    command = [sys.executable, one.__file__, str(out), kind, "max_tokens=40", "accumulate=99"]
    ranks = []
    for rank in range(2):
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        env = {**os.environ, **{key: str(value) for key, value in place.items()}, "OMP_NUM_THREADS": "1"}
        ranks.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    logs = [rank.communicate(timeout=180)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(logs)
    assert_same(load_file(out), weights(one.step(tmp_path, kind)))


def test_what_is_masked_follows_from_seed_step_and_rank(tmp_path):
    trainer = one.step(tmp_path, "mlm")
    trainer.draw = trainer.draw.draw
    batch = trainer.data_collator([trainer.train_dataset[i] for i in range(7)])

    def masked(seed, step):
        trainer.args.seed, trainer.state.global_step = seed, step
        return next(trainer._masked(iter([batch])))["labels"]

    assert torch.equal(masked(42, 5), masked(42, 5))
    assert not torch.equal(masked(42, 5), masked(42, 6))
    assert not torch.equal(masked(42, 5), masked(43, 5))
