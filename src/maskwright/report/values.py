"""Values of records: told apart, and written for people."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

# Decimals of a column's fractions, at most: of any, and where all are below 0.01.
_PLACES, _SMALL_PLACES = 4, 6


def number(value: Any) -> float | None:
    """The value where it is a finite number, else None; a record may hold anything.

    Example:
        >>> number(3), number("3"), number(float("nan")), number(True)
        (3.0, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def show(value: Any) -> str:
    """A value as a person reads it: whole numbers in groups of three, others to four digits.

    Example:
        >>> show(1234567), show(0.57123), show(0.00005), show(None), show(True), show([1, "我"])
        ('1,234,567', '0.5712', '5e-05', '', 'yes', '[1, "我"]')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if not math.isfinite(value):
            return "not a number" if math.isnan(value) else "infinite"
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def show_column(values: Sequence[Any]) -> list[str]:
    """A column as people read it: fractions with the same number of decimals, four at most, six if all are small.

    Example:
        >>> show_column([0.57, 0.57154, None, 0.01234, 2e-5]), show_column([1, "a"])
        (['0.5700', '0.5715', '', '0.0123', '2e-05'], ['1', 'a'])
        >>> show_column([0.00032949, -0.006])
        ['0.000329', '-0.006000']
    """
    texts = [show(value) for value in values]
    places = {
        i: len(texts[i].partition(".")[2])
        for i, value in enumerate(values)
        if isinstance(value, float) and re.fullmatch(r"-?\d{1,3}(\.\d+)?", texts[i])
    }
    limit = _SMALL_PLACES if all(abs(values[i]) < 0.01 for i in places) else _PLACES
    most = min(max(places.values(), default=0), limit)
    # Rounded alike, unless that would make a value 0.
    even = {i for i, n in places.items() if n <= most or abs(values[i]) >= 0.1**limit}
    return [f"{values[i]:.{most}f}" if i in even else text for i, text in enumerate(texts)]


def count(n: int, noun: str) -> str:
    """`1 run`, `2 runs`.

    Example:
        >>> count(1, "run"), count(2, "run")
        ('1 run', '2 runs')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def duration(seconds: float) -> str:
    """Seconds as people say them.

    Example:
        >>> duration(81.09), duration(5400), duration(0.4)
        ('1.4 min', '1.5 h', '0.4 s')
    """
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"
