"""Models to plant faults in, tiny ones of transformers and one by hand, and what is asked of their audits."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModel

from maskwright.audit.runner import run_audit

SIZES = {"vocab_size": 61, "hidden_size": 28, "num_hidden_layers": 2, "num_attention_heads": 2}
SIZES |= {"intermediate_size": 37, "max_position_embeddings": 53, "pad_token_id": 1}
SEQ2SEQ = {"vocab_size": 61, "d_model": 28, "encoder_layers": 2, "decoder_layers": 2, "pad_token_id": 1}
SEQ2SEQ |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "max_position_embeddings": 53}
SEQ2SEQ |= {"encoder_ffn_dim": 37, "decoder_ffn_dim": 37}

V, D = 31, 7
IDS = {"vocab_size": V, "pad_id": 0}
"""What an audit of a `Plain` model must be told."""
QUICK = ["padding-amount", "padding-side", "padding-content", "empty-row", "neighbours", "repeatable", "row-order"]
"""Rules that hold for a `Plain` model, each by a call or two."""


def model_of(kind, auto=AutoModel, **options):
    """A tiny random model of a transformers type, in evaluation mode."""
    torch.manual_seed(0)
    sizes = SEQ2SEQ if kind == "bart" else SIZES
    return auto.from_config(AutoConfig.for_model(kind, **{**sizes, **options})).eval()


def change(module, **edits):
    """Edit keyword arguments of a module's forward: name -> function of the value."""
    forward = module.forward

    @functools.wraps(forward)
    def changed(*args, **kwargs):
        for name, edit in edits.items():
            if kwargs.get(name) is not None:
                kwargs[name] = edit(kwargs[name], module)
        return forward(*args, **kwargs)

    module.forward = changed


def as_tuple(states, pooled):
    return states, pooled


class Plain(nn.Module):
    """Each token's embedding plus the mean over the kept ones; `wrapped` makes of both what the model gives back."""

    def __init__(self, wrapped: Callable[..., Any] = as_tuple, n_positions: int = 0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(V, D)
        self.place = nn.Embedding(n_positions, D) if n_positions else None
        self.wrapped = wrapped

    def forward(self, input_ids, attention_mask=None):
        return self.wrapped(*self.states(input_ids, attention_mask))

    def states(self, ids, keep):
        states = self.embed(ids)
        if self.place is not None:
            states = states + self.place(torch.arange(ids.shape[1]))
        weight = torch.ones_like(ids) if keep is None else keep
        weight = weight[..., None].to(states.dtype)
        pooled = (states * weight).sum(1) / weight.sum(1).clamp(min=1)
        return states + pooled[:, None], pooled


def called(forward) -> nn.Module:
    """A `Plain` with another forward."""
    return type("Called", (Plain,), {"forward": forward})()


def audited(model, rule, **options):
    """The findings of an audit by one rule."""
    found = run_audit(model, rules=[rule], **options)
    assert {finding.rule for finding in found} == {rule}
    return found


def broken(found) -> set[str]:
    return {finding.rule for finding in found.failures}


def assert_fails(found, cause, module=None):
    assert not found.is_clean
    assert {failure.cause for failure in found.failures} == {cause}
    if module is not None:
        assert {failure.module for failure in found.failures} == {module}


def assert_passes(found, rules=()):
    """Nothing fails, something passes, and each of `rules` has been checked: what binds nothing proves nothing."""
    assert found.is_clean, [finding.to_dict() for finding in found.failures]
    assert "pass" in {finding.verdict for finding in found}
    assert {finding.rule for finding in found if finding.verdict in ("pass", "noise")} >= set(rules)
