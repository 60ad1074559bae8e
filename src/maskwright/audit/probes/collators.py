"""What a masked-LM collator must do: which tokens it makes targets, what it puts in their place, and how often.

Shares are taken over many rows. One is wrong if it is off by more than a margin, and by more than chance makes it in
one of a million audits; rows are the independent draws, so that tokens that are chosen together do no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice

import torch
from torch import Tensor

from maskwright.audit.claims import all_random, claims_of
from maskwright.audit.compare import Difference, Measure
from maskwright.audit.corrupted import (
    N_BATCHES,
    ROWS,
    Batch,
    collated,
    drawn,
    examples_of,
    given,
    seeded,
)
from maskwright.audit.function import Function, amount
from maskwright.audit.rule import rules_of

BESIDE = 97  # words of a long row
LONG = 97  # words of the examples that are drawn on and on
MOST_BATCHES = 200  # of them, where special tokens are rare among random replacements
ENOUGH = 7.0  # specials to be expected among random replacements, were they drawn from the whole vocabulary
SIGMAS = 4.9  # of a normal distribution, exceeded either way with a probability of 1e-6
MARGIN = 0.01


def ragged(function: Function) -> Iterator[Measure]:
    """Rows of different lengths, and the attention mask that says so."""
    yield Measure("no row is cut", _cut, "rows-cut")
    yield Measure("rows of different lengths", _ragged, "padding-of-collator")
    yield Measure("attention_mask is 1 on tokens and 0 on padding", _mask_is_right, "attention-mask-of-collator")
    yield Measure("there is an attention_mask", _no_mask, "no-attention-mask")


def targets(function: Function) -> Iterator[Measure]:
    """Targets stand on ordinary tokens."""
    batches = _batches(function)
    special = partial(_share, batches, lambda b: b.special, lambda b: b.special & b.is_target)
    padding = partial(_share, batches, lambda b: ~b.keep, lambda b: ~b.keep & b.is_target)
    # Where most labels are of other tokens, so are their places, and where targets were drawn cannot be told.
    moved = "labels-not-original" if _share(batches, _asked, _mislabelled, function).effect > 0.5 else ""
    yield Measure("special tokens are no targets", special, moved or "targets-on-specials")
    yield Measure("padded slots are no targets", padding, moved or "targets-on-padding")


def labels(function: Function) -> Iterator[Measure]:
    """Labels are the original ids, and all else stays as it is."""
    batches = _batches(function)
    right = partial(_share, batches, _asked, _mislabelled)
    left = partial(_share, batches, lambda b: ~b.is_target, lambda b: ~b.is_target & (b.inputs != b.original))
    yield Measure("labels are the original ids", right, "labels-not-original")
    yield Measure("tokens that are no targets stay as they are", left, "others-changed")


def rate(function: Function) -> Iterator[Measure]:
    """How many tokens become targets, also beside much longer rows."""
    claimed = claims_of(function.call).rate
    batches = _batches(function)
    cause = "wrong-rate" if _is_wrong_without_padding(batches(), claimed) else "rate-counts-padding"
    name = f"{claimed:g} of the ordinary tokens become targets"
    yield Measure(name, partial(_rate, batches, claimed), cause)
    yield Measure(f"{name}, beside a long row", partial(_rate, _batches(function, beside=BESIDE), claimed), cause)


def shares(function: Function) -> Iterator[Measure]:
    """What becomes of targets."""
    batches, claims, mask_id = _batches(function), claims_of(function.call), function.tokenizer.mask_token_id
    by_chance = claims.random / max(len(function.tokenizer) - len(function.tokenizer.all_special_ids), 1)
    kinds = {
        "[MASK]": (claims.mask, lambda b: b.inputs == mask_id),
        "themselves": (1 - claims.mask - claims.random + by_chance, lambda b: b.inputs == b.original),
        "random tokens": (
            claims.random - by_chance,
            lambda b: (b.inputs != b.original) & (b.inputs != mask_id),
        ),
    }
    for kind, (share, is_so) in kinds.items():
        yield Measure(
            f"{share:.3g} of the targets become {kind}", partial(_fate, batches, share, is_so), "wrong-shares"
        )


def random_ids(function: Function) -> Iterator[Measure]:
    """What random replacements are drawn from."""
    yield Measure("no random replacement is a special token", _special_replacements, "random-specials")


def words(function: Function) -> Iterator[Measure]:
    """Words become targets as a whole."""
    yield Measure("words become targets as a whole", partial(_torn, _batches(function)), "words-torn")


def _batches(function: Function, beside: int = 0) -> Callable[[], list[Batch]]:
    """Drawn when first asked for."""
    return partial(drawn, function, beside)


def _asked(batch: Batch) -> Tensor:
    return batch.is_target & batch.keep


def _mislabelled(batch: Batch) -> Tensor:
    return _asked(batch) & (batch.labels != batch.original)


def _share(
    batches: Callable[[], list[Batch]],
    among: Callable[[Batch], Tensor],
    wrong: Callable[[Batch], Tensor],
    function: Function,
) -> Difference:
    """How many slots are wrong, among those that there are."""
    n = sum(int(among(batch).sum()) for batch in batches())
    return amount(sum(int(wrong(batch).sum()) for batch in batches()) / max(n, 1), n)


def _off(hits: Tensor, totals: Tensor, share: float) -> Difference:
    """By how much a share of hits is off, 0 = within its bounds; hits and totals are of independent rows."""
    deviations = hits.double() - share * totals.double()
    n = int(totals.sum())
    off = abs(float(deviations.sum())) / max(n, 1)
    sigmas = abs(float(deviations.sum())) / max(float(deviations.square().sum().sqrt()), 1e-12)
    # A collator that fixes the number of targets in a row rounds it.
    is_rounding = bool((deviations.abs() <= 1).all())
    return amount(off if off > MARGIN and sigmas > SIGMAS and not is_rounding else 0.0, n)


def _rate(batches: Callable[[], list[Batch]], claimed: float, function: Function) -> Difference:
    rows = [(b.is_target & b.ordinary, b.ordinary) for b in batches()]
    # A long row beside the others does not count.
    hits, totals = (torch.cat([pair[which][:ROWS].sum(1) for pair in rows]) for which in (0, 1))
    return _off(hits, totals, claimed)


def _is_wrong_without_padding(batches: list[Batch], claimed: float) -> bool:
    """Whether rows that fill their batch are off by about as much as the rest."""
    sums = torch.zeros(2, 2)  # padded rows, full ones; targets, ordinary tokens
    for batch in batches:
        full = batch.keep.all(1).long()
        counts = torch.stack([(batch.is_target & batch.ordinary).sum(1), batch.ordinary.sum(1)], 1)
        sums.index_add_(0, full, counts.float())
    padded, full_rate = (sums[:, 0] / sums[:, 1].clamp(min=1)).tolist()
    return abs(padded - full_rate) < max(abs(padded - claimed) / 2, MARGIN)


def _fate(
    batches: Callable[[], list[Batch]], share: float, is_so: Callable[[Batch], Tensor], function: Function
) -> Difference:
    hits = torch.cat([(_asked(batch) & is_so(batch)).sum(1) for batch in batches()])
    return _off(hits, torch.cat([_asked(batch).sum(1) for batch in batches()]), share)


def _special_replacements(function: Function) -> Difference:
    found: Difference = function.once("special replacements", partial(_drawn_specials, function))
    return found


def _drawn_specials(function: Function) -> Difference:
    """Draws until special ids would have been seen, if they could be."""
    tokenizer = function.tokenizer
    keen = Function(all_random(function.call), "collator", function.name, tokenizer)
    special = torch.tensor([i for i in tokenizer.all_special_ids if i != tokenizer.mask_token_id])
    n_replaced = n_special = 0
    enough = ENOUGH * len(tokenizer) / max(len(special), 1)
    with seeded(2):
        more = (collated(keen, rows) for rows in given(function, shortest=LONG, longest=LONG))
        for number, batch in enumerate(chain(drawn(function), islice(more, MOST_BATCHES))):
            replaced = batch.is_target & (batch.inputs != batch.original) & (batch.inputs != tokenizer.mask_token_id)
            n_replaced += int(replaced.sum())
            n_special += int((torch.isin(batch.inputs, special) & replaced).sum())
            if number + 1 >= N_BATCHES and (n_replaced >= enough or not n_replaced):
                break
    return amount(n_special / max(n_replaced, 1), n_replaced)


def _uneven(function: Function) -> Batch:
    examples = examples_of(function)
    with seeded(1):
        return collated(function, examples(3, 1, 2) + examples(2, 7, 7))


def _cut(function: Function) -> Difference:
    batch = _uneven(function)
    return amount(batch.n_cut / (batch.n_cut + int(batch.keep.sum())))


def _ragged(function: Function) -> Difference:
    batch = _uneven(function)
    wrong = batch.inputs[~batch.keep] != function.tokenizer.pad_token_id
    return amount(float(wrong.double().sum()) / max(wrong.numel(), 1), wrong.numel())


def _mask_is_right(function: Function) -> Difference:
    masks = [(batch.attention_mask, batch.keep) for batch in drawn(function)[:3]]
    wrong = [(given != keep).double().mean() for given, keep in masks if given is not None]
    return amount(float(torch.stack(wrong).mean()) if wrong else 0.0, len(wrong))


def _no_mask(function: Function) -> Difference:
    return amount(float(drawn(function)[0].attention_mask is None))


def _torn(batches: Callable[[], list[Batch]], function: Function) -> Difference:
    n = n_torn = 0
    for batch in batches():
        length = batch.words.shape[1]
        word = torch.where(batch.words >= 0, batch.words + length * torch.arange(len(batch.words))[:, None], -1)
        _, number = word[batch.ordinary & (word >= 0)].unique(return_inverse=True)
        hit = batch.is_target[batch.ordinary & (word >= 0)].double()
        sizes = torch.bincount(number)
        hits = torch.bincount(number, hit)
        n += int((sizes > 1).sum())
        n_torn += int(((hits > 0) & (hits < sizes)).sum())
    return amount(n_torn / max(n, 1), n)


def _claims_words(function: Function) -> str | None:
    if not claims_of(function.call).whole_words:
        return "it does not claim to mask whole words"
    return None if function.tokenizer.is_fast else "its tokenizer does not say where words begin"


def _claims_shares(function: Function) -> str | None:
    return "similar words stand in the place of [MASK]" if claims_of(function.call).by_similar else None


_rule = rules_of("collator")

RULES = (
    _rule(
        "ragged",
        "Rows of different lengths are padded and not cut, and the attention mask says where.",
        "huggingface/transformers 12998, 18681: no attention mask; offsets that are not padded",
        ragged,
    ),
    _rule(
        "labels",
        "Labels are the original ids, and what is no target stays as it is.",
        "labels taken from ids that are corrupted already",
        labels,
    ),
    _rule("targets", "Special tokens and padding are never targets.", "targets on [CLS], [SEP] and padding", targets),
    _rule(
        "rate",
        "The claimed share of ordinary tokens become targets, however much padding there is (15% if none is claimed).",
        "numbers of targets computed from the padded length",
        rate,
    ),
    _rule(
        "shares",
        "The claimed shares of targets become [MASK], themselves, random tokens (80, 10 and 10% if none is claimed).",
        "0.1 of what is left instead of half of it: 80, 18 and 2%",
        shares,
        _claims_shares,
    ),
    _rule(
        "random-ids",
        "Random replacements are never special tokens.",
        "huggingface/transformers 15342: drawn from the whole vocabulary",
        random_ids,
    ),
    _rule("words", "Where whole words are claimed, no word is torn.", "words split at ## pieces", words, _claims_words),
)
