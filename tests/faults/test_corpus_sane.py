"""Every planted fault is real and its twin is not, every control is right: shown by direct calls, without the audit."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from corpus import CONTROLS, FAULTS, Case, evidence, function_evidence
from corpus.calls import LENGTH, gap, is_causal, read, text
from torch import nn

from maskwright.audit.causes import CAUSES
from maskwright.audit.rules import RULES

PADDING = (evidence.padded, evidence.padded_left, evidence.content)
LAWS = {
    "padding": PADDING,
    "polarity": PADDING,
    "content": PADDING,
    "future": (evidence.later_token, evidence.later_token_padded),
    "backward": (evidence.deaf,),
    "decoder": (evidence.padded, evidence.decoder_future, evidence.decoder_padding),
    "packing": (evidence.packed,),
    "positions": (evidence.padded, evidence.padded_left, evidence.packed),
    "empty": (evidence.empty_row, evidence.padded, evidence.padded_left),
    "precision": (evidence.narrow,),
    "rows": (evidence.neighbours, evidence.uneven_neighbours, evidence.padded),
    "random": (evidence.repeated,),
    "options": (evidence.options,),
    "modes": (evidence.training, evidence.checkpointing),
    "forms": (evidence.forms, evidence.four_dimensions),
    "gradient": (evidence.gradient,),
    "pooled": (evidence.padded,),
    "pooling": (function_evidence.pooling,),
    "collator": (function_evidence.collator,),
    "loss": (function_evidence.loss,),
}
"""What shows a fault of each kind: a number that is zero where nothing is wrong."""
SILENT = {"precision", "gradient", "options", "modes"}
"""Kinds of fault that change no number of an ordinary call."""
ALWAYS = (*PADDING, evidence.neighbours, evidence.uneven_neighbours, evidence.repeated, evidence.empty_row)
FORMS = (evidence.options, evidence.forms, evidence.four_dimensions)
RIGHT = (*ALWAYS, *FORMS, evidence.gradient, evidence.training, evidence.checkpointing, evidence.narrow)
SEEN, NOT_SEEN = 2e-4, 1e-9


def laws_for(case: Case) -> tuple:
    if case.kind == "mask":
        causal = case.audit.get("direction") == "causal"
        return (lambda build: function_evidence.masks(build, causal),)
    own = case.architecture == "own module"
    return (*LAWS[case.kind], *((evidence.padded_left,) if case.kind == "pooled" and own else ()))


def broken(case: Case, faulty: bool) -> float:
    """How much the worst of its kind's laws is broken."""
    subject = case.make() if faulty else case.twin()
    if isinstance(subject, nn.Module) and case.kind != "precision":
        subject.double()
    worst = 0.0
    for law in laws_for(case):
        with torch.set_grad_enabled(law is evidence.gradient or case.kind in ("pooling", "loss")):
            found = law(subject)
        assert not math.isnan(found), law  # no comparison says anything about a NaN
        worst = max(worst, found)
    return worst


def by_name(cases):
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


@by_name(FAULTS)
def test_a_fault_is_real_and_its_twin_is_right(case):
    assert broken(case, faulty=True) > SEEN
    assert broken(case, faulty=False) <= NOT_SEEN


@by_name([case for case in FAULTS if case.kind in SILENT])
def test_what_is_silent_by_kind_is_silent(case):
    with torch.no_grad():
        assert max(evidence.padded(case.make().double()), evidence.repeated(case.make().double())) <= NOT_SEEN


@by_name([case for case in FAULTS if case.kind != "random" and case.audit.get("kind", "model") == "model"])
def test_a_model_is_the_same_each_time_it_is_made(case):
    keep = torch.ones(1, LENGTH, dtype=torch.long)
    first, second = case.make(), case.make().double().float()
    with torch.no_grad():
        ids = text(first)[None]
        for one, other in zip(read(first, ids, keep), read(second, ids, keep), strict=True):
            assert gap(one, other) == 0


MODELS = [case for case in CONTROLS if case.audit.get("kind", "model") == "model"]
ROUGH = ("noise-", "float64-only-")


@by_name([case for case in MODELS if not case.name.startswith(ROUGH)])
def test_a_control_is_right(case):
    model = case.make().double()
    found = {}
    for law in RIGHT:
        with torch.set_grad_enabled(law in (evidence.checkpointing, evidence.gradient)):
            found[law.__name__] = law(model)
    assert {name: value for name, value in found.items() if not value <= NOT_SEEN} == {}
    with torch.no_grad():
        hears = evidence.later_token(case.make().double())
    assert hears == 0 if is_causal(model) or case.audit.get("direction") == "causal" else hears > SEEN


TWO_SIDES = [f"right-{kind}" for kind in ("bart", "mbart", "mt5", "t5", "umt5")]


@by_name([case for case in MODELS if case.name in TWO_SIDES])
def test_a_decoder_that_is_a_control_is_right(case):
    with torch.no_grad():
        model = case.make().double()
        for law in (evidence.decoder_future, evidence.decoder_padding):
            assert law(model) <= NOT_SEEN


@by_name([case for case in MODELS if case.name.startswith("noise-")])
def test_noise_is_there_in_float32_and_vanishes_in_float64(case):
    with torch.no_grad():
        rough = max(law(case.make()) for law in ALWAYS)
        exact = max(law(case.make().double()) for law in ALWAYS)
    assert rough > 1e-7
    assert exact < 2e-7


@by_name([case for case in MODELS if case.name.startswith("float64-only-")])
def test_what_breaks_in_float64_alone_is_right_in_float32(case):
    with torch.no_grad():
        assert max(law(case.make()) for law in ALWAYS) < 1e-5
        assert max(law(case.make().double()) for law in ALWAYS) == float("inf")


@by_name([case for case in CONTROLS if case.audit.get("kind", "model") != "model"])
def test_a_function_that_is_a_control_is_right(case):
    kind = case.audit["kind"]
    laws = laws_for(Case(case.name, kind, kind, "", case.make, audit=case.audit))
    assert max(law(case.make()) for law in laws) <= NOT_SEEN


def test_sizes_of_the_corpus():
    names = [case.name for case in (*FAULTS, *CONTROLS)]
    assert len(set(names)) == len(names)
    assert len(FAULTS) >= 40
    assert len({case.architecture for case in FAULTS}) >= 8
    assert len([case for case in CONTROLS if case.report == "a type that is right"]) >= 30


def test_both_halves_hold_every_kind():
    halves = Counter((case.kind, case.half) for case in (*FAULTS, *CONTROLS))
    for kind in {case.kind for case in (*FAULTS, *CONTROLS)}:
        assert halves[kind, "tune"] > 0
        assert abs(halves[kind, "tune"] - halves[kind, "report"]) <= 1


@by_name(FAULTS)
def test_what_is_expected_of_the_audit_exists(case):
    assert case.rules
    assert case.rules <= set(RULES)
    assert case.cause <= set(CAUSES)
    assert 1 <= len(case.cause) <= 2
    assert (case.module is None) or "tokenizer" not in case.audit
    assert "tokenizer" not in case.arguments() or case.arguments()["tokenizer"].pad_token_id == 1
