"""Random mask rules beside their meaning as plain Python, for the laws of maskwright.masks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from hypothesis import strategies as st

from maskwright import masks
from oracles import masks as oracle

B, L, H, D = 3, 5, 2, 7  # distinct primes: no axis can stand in for another


@dataclass
class Case:
    """A rule and, independently, who may attend to whom: bool `[B, L, L]`."""

    rule: masks.Mask
    may: oracle.MayAttend
    about_keys: bool = False

    @property
    def table(self) -> np.ndarray:
        return oracle.table(self.may, B, L, L)

    def __repr__(self) -> str:
        return f"{self.rule.legend}\n{self.table.astype(int)}"


def _bools():
    return st.lists(st.lists(st.booleans(), min_size=L, max_size=L), min_size=B, max_size=B)


@st.composite
def paddings(draw, least=0):
    lengths = draw(st.lists(st.integers(least, L), min_size=B, max_size=B))
    side = draw(st.sampled_from(["right", "left"]))
    rule = masks.padding(lengths=lengths, length=L, side=side)
    return Case(rule, oracle.padding(lengths, L, side), True)


@st.composite
def hidden_columns(draw):
    columns = draw(_bools())
    return Case(masks.hide_columns(torch.tensor(columns)), oracle.hidden(columns), True)


@st.composite
def windows(draw):
    left, right = draw(st.integers(0, L)), draw(st.integers(0, L))
    return Case(masks.sliding_window(left, right), oracle.window(left, right))


@st.composite
def document_sets(draw):
    ids = draw(st.lists(st.lists(st.integers(0, 2), min_size=L, max_size=L), min_size=B, max_size=B))
    return Case(masks.documents(ids=torch.tensor(ids)), oracle.documents(ids))


def leaves():
    return st.one_of(
        paddings(),
        hidden_columns(),
        st.just(Case(masks.causal(), oracle.causal)),
        st.integers(0, L).map(lambda n: Case(masks.prefix(n), oracle.prefix(n))),
        windows(),
        document_sets(),
    )


def _combined(children):
    def make(parts):
        sign, one, two = parts
        if sign == "&":
            return Case(one.rule & two.rule, lambda b, q, k: one.may(b, q, k) and two.may(b, q, k))
        if sign == "|":
            return Case(one.rule | two.rule, lambda b, q, k: one.may(b, q, k) or two.may(b, q, k))
        return Case(~one.rule, lambda b, q, k: not one.may(b, q, k))

    return st.tuples(st.sampled_from("&|~"), children, children).map(make)


def rules():
    return st.recursive(leaves(), _combined, max_leaves=4)


def written_out(rule: masks.Mask) -> torch.Tensor:
    """bool `[B, L, L]`, rules that are alike for all rows repeated."""
    return rule.to_bool(n_keys=L).expand(B, L, L)


def states(seed=0):
    """Queries, keys and values `[B, H, L, D]` in float64."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(B, H, L, D, generator=generator, dtype=torch.float64) for _ in range(3)]
