"""The algebra of mask rules: what a rule is, how rules combine, and what they say of every pair."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import torch
from torch import Tensor

from maskwright.errors import EmptyRowError, MaskError

Predicate = Callable[[Tensor, Tensor, Tensor], Tensor]
EmptyQueries = Literal["raise", "open"]


@dataclass(frozen=True, eq=False)
class Rule:
    """Of every (row, query, key), whether the query may attend to the key; `Mask` is this with its lowerings.

    Attributes:
        predicate: (row, query, key), int64 tensors that broadcast -> bool, True = may attend.
        legend: the rule in words, for pictures and errors.
        n_rows, n_queries, n_keys: sizes the rule is bound to; None = it holds for any.
        uses_query: whether the answer depends on the query; if not, the rule is about keys alone, as padding is.
        absent: bool `[B, K]`, True = the slot holds no token (padding, a hidden column). As queries of self-attention
            such slots may attend to nothing without that being a mistake. None = not known.
        document_ids: `[B, L]` or `[L]` where the rule is "the same document" and nothing else.
        device: where the rule's own tensors are; None = it has none.
    """

    predicate: Predicate
    legend: str
    n_rows: int | None = None
    n_queries: int | None = None
    n_keys: int | None = None
    uses_query: bool = True
    absent: Tensor | None = None
    document_ids: Tensor | None = None
    device: torch.device | None = None

    def __and__(self, other: Self) -> Self:
        """Both rules allow it."""
        return self._combined(other, "&", torch.logical_and)

    def __or__(self, other: Self) -> Self:
        """Either rule allows it."""
        return self._combined(other, "|", torch.logical_or)

    def __invert__(self) -> Self:
        """The opposite rule."""
        ask = self.predicate
        return replace(
            self, predicate=lambda b, q, k: ~ask(b, q, k), legend=f"~({self.legend})", absent=None, document_ids=None
        )

    def __bool__(self) -> bool:
        raise MaskError("a Mask has no truth value: combine rules with & | ~, not with and, or, not")

    def _combined(self, other: object, sign: str, operation: Callable[[Tensor, Tensor], Tensor]) -> Self:
        if not isinstance(other, Rule):
            raise MaskError(
                f"cannot combine a Mask with a {type(other).__name__} by {sign}: a bare tensor does not say what its "
                "values mean; maskwright.masks.read(tensor, convention=...) makes a Mask of it"
            )
        agreed = {name: _agreed(name, self, other) for name in ("n_rows", "n_queries", "n_keys", "device")}
        one, two = self.predicate, other.predicate
        # A slot is absent from `a & b` if it is from either; from `a | b` only if it is from both.
        known = [rule.absent for rule in (self, other) if rule.absent is not None]
        absent = None
        if sign == "&" and known:
            absent = torch.stack(known).any(0)
        elif len(known) == 2:
            absent = torch.stack(known).all(0)
        return type(self)(
            lambda b, q, k: operation(one(b, q, k), two(b, q, k)),
            f"{_bracketed(self.legend, sign)} {sign} {_bracketed(other.legend, sign)}",
            uses_query=self.uses_query or other.uses_query,
            absent=absent,
            **agreed,
        )

    def bound(self, n_queries: int | None = None, n_keys: int | None = None) -> Self:
        """The same rule for that many queries and keys; what is left out is as many as the other (self-attention).

        Raises:
            MaskError: the rule is bound to other sizes, or to none and none is given.
        """
        sizes = {"n_queries": n_queries, "n_keys": n_keys}
        for name, wanted in sizes.items():
            own = getattr(self, name)
            if own is not None and wanted not in (None, own):
                raise MaskError(f"the rule '{self.legend}' is for {own} {name[2:]}, asked for {wanted}")
            sizes[name] = own if own is not None else wanted
        queries, keys = sizes["n_queries"], sizes["n_keys"]
        if queries is None and keys is None:
            raise MaskError(f"the rule '{self.legend}' holds for any length: say which, with n_queries= and n_keys=")
        return replace(self, n_queries=keys if queries is None else queries, n_keys=queries if keys is None else keys)

    def to_bool(self, n_queries: int | None = None, n_keys: int | None = None) -> Tensor:
        """The rule written out: bool `[B, Q, K]`, or `[Q, K]` where all rows are alike. True = may attend.

        The plain truth, queries that may attend to nothing included.
        """
        rule = self.bound(n_queries, n_keys)
        rows, queries, keys = (
            torch.arange(n or 1, device=self.device) for n in (rule.n_rows, rule.n_queries, rule.n_keys)
        )
        if rule.n_rows is None:
            return self.predicate(rows, queries[:, None], keys).expand(len(queries), len(keys)).contiguous()
        allowed = self.predicate(rows[:, None, None], queries[:, None], keys)
        return allowed.expand(len(rows), len(queries), len(keys)).contiguous()

    def allowed(self, n_queries: int | None = None, n_keys: int | None = None, empty: EmptyQueries = "raise") -> Tensor:
        """`to_bool` for a softmax that is not ours: queries with nothing to attend to may attend to everything.

        What they then compute is finite and means nothing. For slots that hold no token that is as good as anything;
        for real tokens it is a mistake, unless `empty="open"` says otherwise.

        Raises:
            EmptyRowError: a query that holds a token, or every query of a row, may attend to nothing.
        """
        allowed = self.to_bool(n_queries, n_keys)
        nothing = ~allowed.any(-1, keepdim=True)
        if empty == "raise":
            self.check_queries(nothing.squeeze(-1))
        elif empty != "open":
            raise MaskError(f"empty must be 'raise' or 'open', got {empty!r}")
        return allowed | nothing

    def check_queries(self, nothing: Tensor) -> None:
        """Refuse queries that hold a token and may attend to nothing; `nothing` is bool `[B, Q]` or `[Q]`.

        Raises:
            EmptyRowError: there are some.
        """
        if self.absent is not None and self.absent.shape == nothing.shape:
            nothing = nothing & ~(self.absent & ~self.absent.all(-1, keepdim=True))
        if not bool(nothing.any()):
            return
        by_row = nothing.view(-1, nothing.shape[-1])
        rows = by_row.any(1).nonzero().flatten().tolist()
        queries = by_row[rows[0]].nonzero().flatten().tolist()
        more = int(by_row.sum()) - 1
        raise EmptyRowError(
            rows,
            "drop such rows, or say with empty= what to do",
            f"under '{self.legend}' query {queries[0]}{f' (and {more} more)' if more else ''} may attend to nothing",
        )


def _bracketed(legend: str, sign: str) -> str:
    return f"({legend})" if f" {'|' if sign == '&' else '&'} " in legend else legend


def _agreed(name: str, one: Rule, two: Rule) -> Any:
    mine, yours = getattr(one, name), getattr(two, name)
    if mine is not None and yours is not None and mine != yours:
        what = name.removeprefix("n_")
        raise MaskError(f"cannot combine '{one.legend}' ({mine} {what}) with '{two.legend}' ({yours} {what})")
    return yours if mine is None else mine
