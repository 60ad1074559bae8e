"""Scores of an answer against the accepted ones, as the evaluation of CMRC2018 computes them for Chinese."""

from __future__ import annotations

import re
from collections.abc import Sequence

_PUNCTUATION = frozenset("-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
_HAN = re.compile("[\u4e00-\u9fa5]")
# A run of other writing by the rules of the Penn Treebank that concern answers: marks stand alone, but for the commas,
# colons and points within a number or name, and clitics such as 's are cut off.
_WORD = re.compile(
    r"\.\.\.|--|[;@#$%&?!()\[\]{}<>\"]|n't\b|'(?:s|m|d|ll|re|ve)\b|[,:](?!\d)"
    r"|(?:(?!n't\b|'(?:s|m|d|ll|re|ve)\b|\.\.\.|--|[,:](?!\d))[^\s;@#$%&?!()\[\]{}<>\"])+"
)


def segments(text: str) -> list[str]:
    """Lower case, without punctuation; a segment for each Chinese character and for each word of other writing.

    Example:
        >>> segments("《Windows 95》于1995年8月发行。")
        ['windows', '95', '于', '1995', '年', '8', '月', '发', '行']
    """
    found: list[str] = []
    run = ""
    for character in text.lower().strip():
        if character in _PUNCTUATION:
            continue
        if _HAN.match(character):
            found += [*_words(run), character]
            run = ""
        else:
            run += character
    return found + _words(run)


def exact_match(accepted: Sequence[str], answer: str) -> float:
    """1.0 if the answer is one of the accepted ones, but for case and punctuation; else 0.0.

    Example:
        >>> exact_match(["《红楼梦》"], "红楼梦。")
        1.0
    """
    return float(any(_bare(text) == _bare(answer) for text in accepted))


def overlap_f1(accepted: Sequence[str], answer: str) -> float:
    """F1 of the longest run of segments that answer and accepted answer share; the best over the accepted ones.

    Precision is the run's length over the answer's segments, recall over the accepted answer's.

    Example:
        >>> overlap_f1(["北京大学"], "在北京"), overlap_f1(["北京"], "上海")
        (0.5714285714285714, 0.0)

    Source: Cui et al. 2019, A Span-Extraction Dataset for Chinese Machine Reading Comprehension, and its evaluation
        script (which speaks of a longest common subsequence, but takes the longest common run).
    """
    guess = segments(answer)
    return max((_f1(segments(text), guess) for text in accepted), default=0.0)


def _f1(gold: Sequence[str], guess: Sequence[str]) -> float:
    shared = _longest_run(gold, guess)
    return 2 * shared / (len(gold) + len(guess)) if shared else 0.0


def _longest_run(first: Sequence[str], second: Sequence[str]) -> int:
    """Length of the longest run of elements that both have."""
    longest, ending = 0, [0] * (len(second) + 1)  # ending[j + 1]: the run that ends at the current element and j
    for element in first:
        ending = [0] + [ending[j] + 1 if element == other else 0 for j, other in enumerate(second)]
        longest = max(longest, *ending)
    return longest


def _bare(text: str) -> str:
    return "".join(character for character in text.lower().strip() if character not in _PUNCTUATION)


def _words(run: str) -> list[str]:
    words = _WORD.findall(run)
    if words and len(words[-1]) > 1 and words[-1].endswith(".") and words[-1] != "...":
        words[-1:] = [words[-1][:-1], "."]
    return words
