"""What the distances come to, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maskwright.training.gap.report import Comparison, GapRow

PLACES = {"mean": "Mean over tokens", "cls": "[CLS]"}
_NOISE = {"mlm": "replaced", "mae": "hidden", "droptoken": "dropped"}


def summary(rows: Sequence[GapRow], comparisons: Sequence[Comparison]) -> list[str]:
    """What is measured; for mlm, how often the correction helps; then the last layer and the pooled vectors in turn."""
    if not rows:
        return ["Nothing could be measured: the averaged states are too much alike."]
    told = [
        f"How far the model without noise is from its own average over texts with tokens {_NOISE[rows[0].noise]}, in "
        "units of the spread of the averaged states, with 95% intervals."
    ]
    if comparisons:
        told.append(_overall([one for one in comparisons if one.tokens == "all"]))
    layers = [row.where for row in rows if row.where.startswith("layer")]
    wanted = [(layers[-1], "all", "Last layer")] if layers else []
    wanted += [(layers[-1], "intact", "Last layer, tokens that a draw leaves as they are")] if layers else []
    wanted += [(where, "all", name) for where, name in PLACES.items()]
    for where, tokens, name in wanted:
        plain = [r for r in rows if (r.where, r.tokens, r.reference) == (where, tokens, "plain")]
        paired = [one for one in comparisons if (one.where, one.tokens) == (where, tokens)]
        if plain:
            told.append(f"{name}: {_distances(plain)}{_correction(paired, plain)}.")
    return told


def verdict(one: Comparison) -> str:
    """ "closer", "farther", or "no different" where the interval holds 0.

    Example:
        >>> from maskwright.training.gap.report import Comparison
        >>> verdict(Comparison(0.15, "cls", "all", difference=-0.1, low=-0.2, high=0.1))
        'no different'
    """
    if one.low <= 0 <= one.high:
        return "no different"
    return "closer" if one.difference < 0 else "farther"


def number(value: float, low: float, high: float) -> str:
    """A distance with its interval.

    Example:
        >>> number(0.25, 0.2, 0.3)
        '0.250 (0.200 to 0.300)'
    """
    return f"{value:.3f} ({low:.3f} to {high:.3f})"


def _overall(comparisons: Sequence[Comparison]) -> str:
    found = [verdict(one) for one in comparisons]
    counts = {word: found.count(word) for word in ("closer", "farther", "no different")}
    return (
        f"With corrected embeddings the model is closer in {counts['closer']}, farther in {counts['farther']} and no "
        f"different beyond the interval in {counts['no different']} of {len(found)} comparisons (all layers and pooled "
        "vectors, all rates)."
    )


def _distances(plain: Sequence[GapRow]) -> str:
    at = ", ".join(f"{number(row.distance, row.low, row.high)} at a rate of {row.rate:g}" for row in plain)
    zero = [f"{row.rate:g}" for row in plain if row.low == 0]
    return f"{at}{f' (no distance beyond the interval at {_list(zero)})' if zero else ''}"


def _correction(comparisons: Sequence[Comparison], plain: Sequence[GapRow]) -> str:
    by_rate = {row.rate: row.distance for row in plain}
    said: dict[str, list[str]] = {"closer": [], "farther": [], "no different": []}
    for one in comparisons:
        kind, own = verdict(one), by_rate[one.rate]
        share = f" (by {abs(one.difference) / own:.0%})" if own and kind != "no different" else ""
        said[kind].append(f"{one.rate:g}{share}")
    parts = [f"{kind} at {_list(rates)}" for kind, rates in said.items() if rates]
    return f"; with corrected embeddings {', '.join(parts)}" if parts else ""


def _list(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
