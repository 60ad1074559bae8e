"""The loss and weights of a pretraining step do not depend on batches, accumulation or ranks."""

from __future__ import annotations

import one_pretraining_step as one
import one_sharded_step
import one_step
import one_timed_step
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
    out = tmp_path / "weights.safetensors"
    one_step.run_on_two_ranks(one.__file__, str(out), kind, "max_tokens=40", "accumulate=99")
    found, whole = load_file(out), one.step(tmp_path, kind)
    assert_same(found, weights(whole))
    assert int(found["n_tokens"]) == whole.throughput.n_tokens == sum(map(len, whole.train_dataset["input_ids"]))


@every_kind
def test_sharded_weights_make_the_step_of_one(kind, tmp_path):
    out = tmp_path / "weights.safetensors"
    one_step.run_on_two_ranks(one_sharded_step.__file__, str(out), kind)
    assert_same(load_file(out), weights(one.step(tmp_path, kind)))


@every_kind
def test_a_state_gathered_from_shards_is_saved_as_the_model_itself(kind, tmp_path):
    trainer = one.step(tmp_path, kind)
    trainer._save(str(tmp_path / "own"))
    gathered = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    trainer._save(str(tmp_path / "gathered"), state_dict=gathered)
    files = ["model.safetensors"] + (["decoder.safetensors"] if kind == "mae" else [])
    for file in files:
        one_by_one, whole = load_file(tmp_path / "own" / file), load_file(tmp_path / "gathered" / file)
        assert one_by_one.keys() <= whole.keys()  # gathered weights no longer share memory, so tied ones come twice
        assert all(torch.equal(one_by_one[name], whole[name]) for name in one_by_one)
    assert (tmp_path / "gathered" / "decoder.safetensors").exists() == (kind == "mae")


def test_ranks_agree_on_when_time_is_over(tmp_path):
    one_step.run_on_two_ranks(one_timed_step.__file__, str(tmp_path))


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
