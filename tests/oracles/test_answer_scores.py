"""EM, F1 and the best span against slow formulas of another kind, and hand-made cases worked out on paper."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskwright.training.answers import exact_match, overlap_f1, segments
from maskwright.training.kinds.span import best_span

TEXTS = st.text(alphabet="北京大学，《》 ab1", max_size=9)
MARKS = set("，《》")


def slow_segments(text: str) -> list[str]:
    """By padding: spaces around every Chinese character, marks to nothing, then split."""
    kept = "".join(c for c in text.lower() if c not in MARKS)
    return "".join(f" {c} " if "\u4e00" <= c <= "\u9fa5" else c for c in kept).split()


def slow_f1(gold: str, guess: str) -> float:
    """By enumeration of all runs of both, as precision and recall."""
    first, second = slow_segments(gold), slow_segments(guess)
    runs = [
        {tuple(words[i:j]) for i, j in itertools.combinations(range(len(words) + 1), 2)} for words in (first, second)
    ]
    shared = max((len(run) for run in runs[0] & runs[1]), default=0)
    if not shared:
        return 0.0
    precision, recall = shared / len(second), shared / len(first)
    return 2 * precision * recall / (precision + recall)


@given(TEXTS, TEXTS)
def test_f1_is_that_of_the_longest_shared_run(gold: str, guess: str):
    assert overlap_f1([gold], guess) == pytest.approx(slow_f1(gold, guess), rel=1e-12)


@given(st.lists(TEXTS, min_size=1, max_size=3), TEXTS)
def test_several_accepted_answers_count_by_the_best(accepted: list[str], guess: str):
    assert overlap_f1(accepted, guess) == max(overlap_f1([text], guess) for text in accepted)
    assert exact_match(accepted, guess) == max(exact_match([text], guess) for text in accepted)


@pytest.mark.parametrize(
    ("accepted", "guess", "em", "f1"),
    [
        (["光荣和ω-force"], "光荣和ω-force", 1, 1),
        (["光荣和ω-force"], "光荣", 0, 2 * 2 / (4 + 2)),  # 光 荣 和 ωforce
        (["《红楼梦》"], "红楼梦", 1, 1),
        (["1995年8月24日"], "1995年", 0, 2 * 2 / (6 + 2)),
        (["北京大学"], "大学北京", 0, 2 * 2 / (4 + 4)),  # a run, not a subsequence: the order counts
        (["甲乙丙丁"], "甲X丙X丁", 0, 2 * 1 / (4 + 5)),  # a subsequence would have 3
        (["Windows 95"], "windows 95。", 1, 1),
        (["Windows 95"], "windows", 0, 2 * 1 / (2 + 1)),
        (["3.5%"], "3.5", 0, 2 * 1 / (2 + 1)),
        (["1,000人"], "1,000", 0, 2 * 1 / (2 + 1)),
        (["上海"], "北京", 0, 0),
        (["上海"], "", 0, 0),
        (["上海", "上海市"], "上海市", 1, 1),
    ],
)
def test_hand_made_cases(accepted: list[str], guess: str, em: float, f1: float):
    assert exact_match(accepted, guess) == em
    assert overlap_f1(accepted, guess) == pytest.approx(f1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("don't", ["do", "n't"]),
        ("Tom's", ["tom", "'s"]),
        ("a, b; c (d)", ["a", ",", "b", ";", "c", "(", "d", ")"]),
        ("3.14 and 1,000", ["3.14", "and", "1,000"]),
        ("The end.", ["the", "end", "."]),
        ("v1.0在", ["v1.0", "在"]),
        ("$5", ["$", "5"]),
        ("wait...", ["wait", "..."]),
    ],
)
def test_other_writing_is_cut_as_the_penn_treebank_does(text: str, expected: list[str]):
    assert segments(text) == expected


@given(st.integers(1, 13), st.integers(1, 17), st.integers(0, 2**31))
def test_the_best_span_is_the_best_of_all(n: int, max_tokens: int, seed: int):
    rng = np.random.default_rng(seed)
    start, end = rng.integers(-5, 5, n).astype(float), rng.integers(-5, 5, n).astype(float)
    spans = [(i, j) for i in range(n) for j in range(i, n) if j - i < max_tokens]
    first, last, score = best_span(start, end, max_tokens)
    assert (first, last) in spans
    assert score == start[first] + end[last] == max(start[i] + end[j] for i, j in spans)
