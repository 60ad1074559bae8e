"""How far E[f(x_ε)] is from g(x), estimated from finitely many draws of ε without their noise counting as distance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from maskwright.errors import InputError

Scale = Literal["spread", "norm"]
_CONFIDENCE = 0.95
_ALIKE = 1e-9  # a spread below this share of the squared norms is rounding


class DrawSums:
    """Sums over draws of N random vectors, in float64: all that unbiased estimates about their expectations need.

    A vector may take part in some draws only; its expectation is then that over those draws.

    Shapes: `count` int64 `[N]`, `total` `[N, D]`, `squares` `[N]` (sums of squared norms).

    Example:
        >>> sums = DrawSums(n=2, width=1)
        >>> sums.add(torch.tensor([0, 0, 1, 1]), torch.tensor([[0.0], [2.0], [3.0], [3.0]]))
        >>> sums.mean.flatten()
        tensor([1., 3.], dtype=torch.float64)
        >>> sums.squared_distance(torch.tensor([[2.0], [2.0]]))  # 1 - 1 of noise; 1
        tensor([0., 1.], dtype=torch.float64)
    """

    def __init__(self, n: int, width: int, device: torch.device | None = None) -> None:
        self.count = torch.zeros(n, dtype=torch.int64, device=device)
        self.total = torch.zeros(n, width, dtype=torch.float64, device=device)
        self.squares = torch.zeros(n, dtype=torch.float64, device=device)

    def add(self, index: Tensor, vectors: Tensor) -> None:
        """One draw or several: `vectors` `[K, D]` are draws of the vectors that `index` int64 `[K]` names."""
        wide = vectors.double()
        self.count.index_add_(0, index, torch.ones_like(index))
        self.total.index_add_(0, index, wide)
        self.squares.index_add_(0, index, wide.square().sum(1))

    def __add__(self, other: DrawSums) -> DrawSums:
        """The sums over the draws of both."""
        both = DrawSums(0, self.total.shape[1], self.total.device)
        both.count, both.total = self.count + other.count, self.total + other.total
        both.squares = self.squares + other.squares
        return both

    @property
    def is_known(self) -> Tensor:
        """bool `[N]`: True = two draws or more, without which noise cannot be told from distance."""
        return self.count >= 2

    @property
    def mean(self) -> Tensor:
        """`[N, D]`: the mean over draws; zeros where there is none."""
        return self.total / self.count.clamp(min=1)[:, None]

    @property
    def noise(self) -> Tensor:
        """`[N]`: the mean squared distance of `mean` from the expectation, tr Cov / n, unbiased. NaN if not known."""
        n = self.count.double()
        deviations = self.squares - self.total.square().sum(1) / n
        return torch.where(self.is_known, deviations / (n * (n - 1)), torch.nan)

    def squared_distance(self, reference: Tensor) -> Tensor:
        """`[N, D]` -> `[N]`: unbiased estimates of ||E[y] - reference||². NaN if not known.

        The same as the mean of (y_s - g)·(y_t - g) over all pairs of different draws s, t: a U-statistic. It is below
        zero about as often as above where the true distance is 0.

        Source: Hoeffding 1948, A class of statistics with asymptotically normal distribution.
        """
        return (self.mean - reference.double()).square().sum(1) - self.noise


@dataclass(frozen=True)
class TextTerms:
    """What each of N texts adds to squared distances and to their scale.

    Shapes: `n` `[N]`, the vectors that count; `total` `[N, D]`, the sum of their means over draws; `squares` `[N]`,
    unbiased sums of ||E[y]||²; `noise` `[N]`; `gaps` by name of the reference, `[N]`, unbiased sums of ||E[y] - g||².
    """

    n: Tensor
    total: Tensor
    squares: Tensor
    noise: Tensor
    gaps: Mapping[str, Tensor]

    @classmethod
    def of(cls, sums: DrawSums, texts: Tensor, n_texts: int, references: Mapping[str, Tensor]) -> TextTerms:
        """Collected by text: `texts` int64 `[V]` says whose each of the V vectors is; references are `[V, D]`."""
        known = sums.is_known
        texts, noise, mean = texts[known], sums.noise[known], sums.mean[known]

        def by_text(values: Tensor) -> Tensor:
            return values.new_zeros(n_texts, *values.shape[1:]).index_add(0, texts, values).cpu()

        gaps = {name: by_text(sums.squared_distance(g)[known]) for name, g in references.items()}
        squares = by_text(mean.square().sum(1) - noise)
        return cls(by_text(torch.ones_like(noise)), by_text(mean), squares, by_text(noise), gaps)

    @classmethod
    def joined(cls, parts: Sequence[TextTerms]) -> TextTerms:
        """Further texts, one after another."""
        gaps = {name: torch.cat([part.gaps[name] for part in parts]) for name in parts[0].gaps}
        n, total, squares, noise = (
            torch.cat([getattr(part, field) for part in parts]) for field in ("n", "total", "squares", "noise")
        )
        return cls(n, total, squares, noise, gaps)

    @property
    def spread(self) -> Tensor:
        """`[N]`: sums of ||E[y] - c||², c the mean of all vectors."""
        n = self.n.sum()
        centre = self.total.sum(0) / n
        about = self.squares - 2 * self.total @ centre + self.n * centre.square().sum()
        return about + self.noise / n  # the centre shares the noise of what it is the mean of


class Estimate(NamedTuple):
    """A value and its interval of 95%."""

    value: float
    low: float
    high: float


def resample(n_texts: int, n_resamples: int, seed: int) -> Tensor:
    """float64 `[1 + R, N]`: how often each text occurs, once each in row 0, and in rows drawn with replacement.

    Raises:
        InputError: fewer than two texts, which tell nothing of how texts differ.

    Example:
        >>> resample(3, 1000, seed=0).sum(1).unique()
        tensor([3.], dtype=torch.float64)

    Source: Efron 1979, Bootstrap methods.
    """
    if n_texts < 2:
        raise InputError(f"an interval over texts needs two at least, got {n_texts}", "texts")
    drawn = torch.randint(n_texts, (n_resamples, n_texts), generator=torch.Generator().manual_seed(seed))
    counts = torch.zeros(n_resamples, n_texts, dtype=torch.float64)
    counts.scatter_add_(1, drawn, torch.ones_like(counts))
    return torch.cat([torch.ones(1, n_texts, dtype=torch.float64), counts])


def distances(terms: TextTerms, weights: Tensor, scale: Scale = "spread") -> dict[str, Tensor]:
    """Relative distances of the expectation from each reference, `[1 + R]`, of the texts and of their resamples.

    Units: sqrt(sum ||E[y] - g||² / sum ||E[y] - c||²), c the mean of all E[y]: 1 = as far from g as the vectors are,
    root mean square, from their common mean. Vectors of transformers share a large common part, beside which every
    distance would look small; `scale="norm"` sets c to 0 all the same. Estimates below 0 are given as 0; NaN where the
    vectors are all alike, so that there is no scale.

    Args:
        terms: of N texts.
        weights: `[1 + R, N]`, as `resample` gives them.

    Example:
        >>> terms = TextTerms(*torch.tensor([[1.0, 1.0]]), torch.tensor([[3.0], [5.0]]), torch.tensor([9.0, 25.0]),
        ...     torch.zeros(2), {"plain": torch.tensor([0.25, 0.25])})
        >>> distances(terms, torch.ones(1, 2))
        {'plain': tensor([0.5000])}
    """
    per_text = terms.spread if scale == "spread" else terms.squares
    below = weights @ per_text
    below = torch.where(below > _ALIKE * (weights @ terms.squares).abs(), below, torch.nan)
    return {name: (weights @ gap / below).clamp(min=0).sqrt() for name, gap in terms.gaps.items()}


def interval(values: Tensor) -> Estimate:
    """`[1 + R]` -> the first value, and the middle 95% of the others.

    Example:
        >>> interval(torch.tensor([5.0, *range(0, 1001)]))
        Estimate(value=5.0, low=25.0, high=975.0)
    """
    tails = torch.tensor([(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2], dtype=values.dtype)
    low, high = torch.quantile(values[1:], tails).tolist()
    return Estimate(values[0].item(), low, high)
