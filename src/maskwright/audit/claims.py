"""What a masked-LM collator says of itself."""

from __future__ import annotations

import copy
from dataclasses import dataclass, is_dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Claims:
    """What a collator says of itself, under the names of transformers' collator or of maskwright's; else as BERT's.

    Attributes:
        rate: of ordinary tokens that become targets.
        mask, random: shares of targets that become [MASK], or random tokens.
        whole_words: words become targets as a whole.
        by_similar: similar words take [MASK]'s share.
    """

    rate: float = 0.15
    mask: float = 0.8
    random: float = 0.1
    whole_words: bool = False
    by_similar: bool = False


def claims_of(collator: Any) -> Claims:
    """From `mlm_probability`, `mask_replace_prob`, `random_replace_prob` and `whole_word_mask`, or a `corruption`.

    Example:
        >>> def collate(examples): ...
        >>> collate.mlm_probability = 0.4
        >>> claims_of(collate).rate
        0.4
    """
    ours = getattr(collator, "corruption", None)
    if ours is not None and hasattr(ours, "shares"):
        shares = ours.shares
        return Claims(ours.rate, shares[0], shares[2], ours.unit != "token", ours.similar is not None)
    plain = Claims()
    return Claims(
        getattr(collator, "mlm_probability", plain.rate),
        getattr(collator, "mask_replace_prob", plain.mask),
        getattr(collator, "random_replace_prob", plain.random),
        bool(getattr(collator, "whole_word_mask", False)),
    )


def all_random(collator: Any) -> Any:
    """A copy that makes every token a random target, where such a copy can be had; else the collator itself.

    Example:
        >>> class Collator:
        ...     mlm_probability, mask_replace_prob, random_replace_prob = 0.15, 0.8, 0.1
        >>> all_random(Collator()).random_replace_prob
        1.0
    """
    copied = copy.copy(collator)
    if copied is collator:  # a function
        return collator
    ours = getattr(collator, "corruption", None)
    if is_dataclass(ours) and not isinstance(ours, type) and hasattr(ours, "shares"):
        copied.corruption = replace(ours, rate=1.0, shares=type(ours.shares)(0.0, 0.0, 1.0))
    elif all(hasattr(collator, name) for name in ("mlm_probability", "mask_replace_prob", "random_replace_prob")):
        copied.mlm_probability, copied.mask_replace_prob, copied.random_replace_prob = 1.0, 0.0, 1.0
    return copied
