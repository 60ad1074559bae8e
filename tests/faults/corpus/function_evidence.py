"""Direct calls of functions that show whether a law holds, by other means than the audit's."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

INF = float("inf")


def _apart(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max().nan_to_num(nan=INF, posinf=INF))


def pooling(pool: Callable[[Tensor, Tensor], Tensor]) -> float:
    """The worst of: padding on any side and in holes, NaN in it, an empty row, neighbours, gradients, half."""
    torch.manual_seed(0)
    tokens = torch.randn(5, 7, dtype=torch.float64) - 4
    alone = pool(tokens[None], torch.ones(1, 5, dtype=torch.bool))[0]
    worst = 0.0
    for slots in ([0, 1, 2, 3, 4], [6, 7, 8, 9, 10], [2, 3, 4, 5, 6], [0, 2, 5, 6, 9]):
        for filler in (0.0, 3.0, 1e6, math.nan):
            hidden = torch.full((2, 11, 7), filler, dtype=torch.float64)
            keep = torch.zeros(2, 11, dtype=torch.bool)
            hidden[0, slots], keep[0, slots] = tokens, True
            hidden[1], keep[1] = torch.randn(11, 7, dtype=torch.float64) * 3, True
            worst = max(worst, _apart(pool(hidden, keep)[0], alone))
    hidden = torch.stack([tokens, tokens.flip(0)])
    nothing = torch.tensor([[True] * 5, [False] * 5])
    if not pool(hidden, nothing).isfinite().all():
        worst = INF
    hidden = torch.randn(1, 11, 7, dtype=torch.float64).requires_grad_()
    keep = (torch.arange(11) < 5)[None]
    pool(hidden, keep).square().sum().backward()
    worst = max(worst, float(hidden.grad[:, 5:].abs().max()))
    long = torch.rand(1, 2003, 7) + 1
    exact = pool(long.bfloat16().double(), torch.ones(1, 2003, dtype=torch.bool))
    rough = pool(long.bfloat16(), torch.ones(1, 2003, dtype=torch.bool)).double()
    return worst if _apart(rough / exact, torch.ones(())) < 0.02 else max(worst, 1.0)


def loss(compute: Callable[[Tensor, Tensor], Tensor]) -> float:
    """The worst of: ignored logits and their gradient, NaN in them, padding, parts that add up, order, no target."""
    torch.manual_seed(0)
    logits = torch.randn(3, 5, 7, dtype=torch.float64)
    labels = torch.randint(0, 7, (3, 5))
    labels[0, 1:] = labels[1, 3:] = labels[2, :1] = -100
    ignored = labels == -100
    whole = compute(logits, labels)
    worst = 0.0
    for filler in (100.0, math.nan):
        worst = max(worst, _apart(compute(logits.masked_fill(ignored[..., None], filler), labels), whole))
    wider = torch.nn.functional.pad(logits, (0, 0, 0, 4)), torch.nn.functional.pad(labels, (0, 4), value=-100)
    worst = max(worst, _apart(compute(*wider), whole), _apart(compute(logits.flip(0), labels.flip(0)), whole))
    counts = (~ignored).sum(1)
    parts = torch.stack([compute(logits[i : i + 1], labels[i : i + 1]) * counts[i] for i in range(3)])
    worst = max(worst, _apart(parts.sum() / counts.sum(), whole))
    leaf = logits.clone().requires_grad_()
    compute(leaf, labels).backward()
    worst = max(worst, float(leaf.grad[ignored].abs().max()))
    if not compute(logits, torch.full_like(labels, -100)).isfinite():
        worst = INF
    if not compute((logits * 60).half(), labels).isfinite():
        worst = INF
    return worst


def masks(build: Callable[..., Tensor], causal: bool) -> float:
    """The worst share of attention that a mask gives to a slot it must not, softmax taken of scores up to 20."""
    torch.manual_seed(0)
    keep = torch.zeros(4, 7, dtype=torch.bool)
    keep[0, :3] = keep[1, 4:] = keep[2] = True
    worst = 0.0
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        try:
            mask = build(keep, dtype=dtype)
        except TypeError:
            mask = build(keep)
        scores = (torch.randn(4, 1, 7, 7) * 5 - 10).to(dtype)
        scores[..., 3] += 9
        scored = scores.masked_fill(~mask, -INF) if mask.dtype == torch.bool else scores + mask.to(dtype)
        given = scored.softmax(-1).float()
        if not given.isfinite().all():
            return INF
        right = keep[:, None, None].expand(-1, 1, 7, -1)
        right = right.tril() if causal else right
        meant = right & right.any(-1, keepdim=True)
        given = given * right.any(-1, keepdim=True)
        expected = scores.float().masked_fill(~meant, -1e4).softmax(-1) * right.any(-1, keepdim=True)
        worst = max(worst, float((given - expected).abs().max()) - 0.02)
    return max(worst, 0.0)


def _seeded(seed: int) -> None:
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)


def collator(collate: Any) -> float:
    """How many of ten laws are broken."""
    tokenizer = collate.tokenizer
    special = torch.tensor(sorted(tokenizer.all_special_ids))
    generator = torch.Generator().manual_seed(5)
    rows = []
    for length in (5, 11, 17, 23) * 60:
        words = torch.randint(5, len(tokenizer), (length,), generator=generator).tolist()
        rows.append([tokenizer.cls_token_id, *words, tokenizer.sep_token_id])
    examples = [{"input_ids": row} for row in rows]
    _seeded(1)
    try:
        batch = collate(examples)
    except Exception:  # whatever it raises on rows of different lengths is the fault
        return INF
    again = collate(examples)
    _seeded(1)
    same = collate(examples)
    ids, labels, keep = batch["input_ids"], batch["labels"], batch["attention_mask"].bool()
    width = max(map(len, rows))
    if ids.shape != (len(rows), width):
        return INF
    original = torch.tensor([row + [tokenizer.pad_token_id] * (width - len(row)) for row in rows])
    right = torch.arange(width)[None] < torch.tensor([len(row) for row in rows])[:, None]
    ordinary = right & ~torch.isin(original, special)
    target = labels != -100
    masked, unchanged = ids == tokenizer.mask_token_id, ids == original
    replaced = target & ~masked & ~unchanged

    def off(found: Tensor, among: Tensor, rate: float) -> bool:
        n = int(among.sum())
        return abs(int((found & among).sum()) - rate * n) > 6 * math.sqrt(n * rate * (1 - rate)) + 1

    short = (right.sum(1) == 7)[:, None] & ordinary
    broken = [
        not torch.equal(keep, right),
        bool((ids[~right] != tokenizer.pad_token_id).any()),
        bool((target & ~ordinary).any()),
        bool((labels[target] != original[target]).any()),
        bool((~target & ~unchanged).any()),
        off(target, ordinary, 0.15) or off(target, short, 0.15),
        off(masked, target, 0.8) or off(replaced, target, 0.1),
        bool(torch.isin(ids[replaced], special).any()),
        torch.equal(batch["labels"], again["labels"]),
        not torch.equal(batch["labels"], same["labels"]) and collate.generator is None,
        collate.generator is not None,  # the case of a generator that workers copy
    ]
    return float(sum(broken))
