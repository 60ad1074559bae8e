"""Draws of noise through a packed model, many in one batch, summed as they come."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from maskwright.core.layout import Layout
from maskwright.errors import InputError
from maskwright.objectives.corruption import stream
from maskwright.objectives.gap import DrawSums, TextTerms
from maskwright.training.gap.noise import Drawn, Noise
from maskwright.training.gap.states import States, embedding_table, embeddings_replaced, states_of

Tokens = Literal["all", "intact"]
_DRAWS_A_BATCH = 8  # or more; bounds what the float64 sums of a group's tokens take beside a batch's states


class Place(NamedTuple):
    """What is compared: `where` is "layer 0" (the embeddings) to "layer n", "mean" or "cls"; at all tokens, or at those
    that a draw leaves as they are.
    """

    rate: float
    where: str
    tokens: Tokens


def measure(
    model: nn.Module,
    texts: Sequence[Sequence[int]],
    noise: Noise,
    rates: Sequence[float],
    *,
    n_draws: int,
    seed: int = 0,
    max_tokens: int = 4096,
    pad_id: int = 0,
    on_rows: Callable[[int], None] = lambda n: None,
) -> dict[Place, TextTerms]:
    """Sums for the distances of the average under noise from the model without noise ("plain"), and from the model
    with the embeddings that the noise shows on average ("corrected"), where there is noise in them.

    Under noise that replaces tokens, "all" tokens are compared, and those "intact" in a draw by themselves; under noise
    that removes tokens, each over the draws in which it is visible. Draws follow from the seed, a text's number and
    the rate alone; those of different rates are nested, which makes rates comparable.

    Args:
        model: packed, in evaluation mode.
        texts: token ids, special tokens included.
        noise: see `maskwright.training.gap.noise`.
        rates: of the noise.
        n_draws: S, for each text and rate; 2 or more.
        max_tokens: real tokens in a batch at most, as far as texts are short enough; changes speed and memory only.
        on_rows: told how many draws were computed, after each batch.

    Raises:
        InputError: fewer than two draws, a rate that makes no sense, or a model that is not packed.
    """
    if n_draws < 2:
        raise InputError(f"noise can be told from distance with two draws or more, not {n_draws}", "draws")
    if max_tokens < 1:
        raise InputError(f"must be 1 or more, got {max_tokens}", "max_tokens_per_batch")
    table = embedding_table(model).detach()
    tables = {rate: noise.expected(table, rate) for rate in rates}
    parts: dict[Place, list[TextTerms]] = defaultdict(list)
    with torch.inference_mode():
        for numbers in _groups([len(text) for text in texts], max_tokens // _DRAWS_A_BATCH):
            ids = _padded([torch.tensor(texts[i])[None] for i in numbers], pad_id)[0]
            keep = _padded([torch.ones(1, len(texts[i]), dtype=torch.bool) for i in numbers], False)[0]
            ids, keep = ids.to(table.device), keep.to(table.device)
            plain = states_of(model, ids, keep)
            for rate in rates:
                references = {"plain": plain}
                corrected = tables[rate]
                if corrected is not None:
                    with embeddings_replaced(model, corrected):
                        references["corrected"] = states_of(model, ids, keep)
                drawn = _draw([texts[i] for i in numbers], numbers, noise, rate, n_draws, seed, pad_id)
                sums = _sums(model, drawn, plain, max_tokens, on_rows)
                for place, terms in _terms(sums, references, rate, changes=corrected is not None):
                    parts[place].append(terms)
    return {place: TextTerms.joined(terms) for place, terms in parts.items()}


def _groups(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Texts, by number, that together hold at most `max_tokens` tokens."""
    group: list[int] = []
    n_tokens = 0
    for number, length in enumerate(lengths):
        if group and n_tokens + length > max_tokens:
            yield group
            group, n_tokens = [], 0
        group.append(number)
        n_tokens += length
    yield group


def _draw(
    texts: Sequence[Sequence[int]],
    numbers: Sequence[int],
    noise: Noise,
    rate: float,
    n_draws: int,
    seed: int,
    pad_id: int,
) -> Drawn:
    """S draws of each text of a group, all `[S, B, L]`."""
    drawn = [
        noise.draw(torch.tensor(text).expand(n_draws, -1), rate, stream(seed, number))
        for number, text in zip(numbers, texts, strict=True)
    ]
    fills = (pad_id, False, False)
    return Drawn(*(_padded(list(parts), fill) for parts, fill in zip(zip(*drawn, strict=True), fills, strict=True)))


def _padded(rows: Sequence[Tensor], fill: float) -> Tensor:
    """B tensors `[S, L_b]` as one `[S, B, L]`."""
    length = max(row.shape[1] for row in rows)
    return torch.stack([nn.functional.pad(row, (0, length - row.shape[1]), value=fill) for row in rows], 1)


class _Sums(NamedTuple):
    """Of each layer, over draws with the token intact and over the others; and of each pooled vector."""

    intact: list[DrawSums]
    changed: list[DrawSums]
    pooled: dict[str, DrawSums]


def _sums(model: nn.Module, drawn: Drawn, plain: States, max_tokens: int, on_rows: Callable[[int], None]) -> _Sums:
    layout, device = plain.layout, plain.layout.index.device
    n_draws, n_texts, _ = drawn.visible.shape

    def empty(states: Tensor) -> DrawSums:
        return DrawSums(len(states), states.shape[1], device)

    sums = _Sums(
        [empty(states) for states in plain.layers],
        [empty(states) for states in plain.layers],
        {name: empty(states) for name, states in plain.pooled.items()},
    )
    number_of_slot = layout.unpack(torch.arange(layout.n_tokens, device=device))
    step = max(1, max_tokens * n_draws // int(drawn.visible.sum()))
    for start in range(0, n_draws, step):
        ids, visible, intact = (part[start : start + step].to(device) for part in drawn)
        n = len(ids)
        states = states_of(model, ids.flatten(0, 1), visible.flatten(0, 1))
        token = number_of_slot.repeat(n, 1)[states.layout.keep]
        is_intact = intact.flatten(0, 1)[states.layout.keep]
        for layer, intact_sums, changed_sums in zip(states.layers, sums.intact, sums.changed, strict=True):
            intact_sums.add(token[is_intact], layer[is_intact])
            changed_sums.add(token[~is_intact], layer[~is_intact])
        text = torch.arange(n_texts, device=device).repeat(n)
        for name, vectors in states.pooled.items():
            sums.pooled[name].add(text, vectors)
        on_rows(n * n_texts)
    return sums


def _terms(
    sums: _Sums, references: dict[str, States], rate: float, *, changes: bool
) -> Iterator[tuple[Place, TextTerms]]:
    layout: Layout = references["plain"].layout
    for number, (intact, changed) in enumerate(zip(sums.intact, sums.changed, strict=True)):
        of_layer = {name: states.layers[number] for name, states in references.items()}
        where = f"layer {number}"
        yield Place(rate, where, "all"), TextTerms.of(intact + changed, layout.rows, layout.n_rows, of_layer)
        if changes:
            yield Place(rate, where, "intact"), TextTerms.of(intact, layout.rows, layout.n_rows, of_layer)
    texts = torch.arange(layout.n_rows, device=layout.index.device)
    for where, pooled in sums.pooled.items():
        of_texts = {name: states.pooled[where] for name, states in references.items()}
        yield Place(rate, where, "all"), TextTerms.of(pooled, texts, layout.n_rows, of_texts)
