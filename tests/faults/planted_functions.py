"""Pooling functions, losses and mask builders with one fault each, and beside each the same without it."""

from __future__ import annotations

import torch
from torch.nn.functional import cross_entropy, log_softmax, nll_loss

INFINITY = float("inf")


# Pooling, written out: `k` is the keep mask, bool [B, L].
def mean(h, k):
    return h.masked_fill(~k[..., None], 0).sum(1) / k.sum(1, keepdim=True).clamp(min=1)


def first(h, k):
    return h[torch.arange(len(h)), k.long().argmax(1)]


def last(h, k):
    return h[torch.arange(len(h)), (k * torch.arange(k.shape[1])).argmax(1)]


def maximum(h, k):
    found = h.masked_fill(~k[..., None], -INFINITY).amax(1)
    return found.masked_fill(~k.any(1, keepdim=True), 0)


def inverted_mean(h, k):
    return mean(h, ~k)


def rounded_mean(h, k):
    total = torch.zeros_like(h[:, 0])
    for slot in range(h.shape[1]):
        total = total + torch.where(k[:, slot, None], h[:, slot], 0)
    return total / k.sum(1, keepdim=True).clamp(min=1)


def wide_mean(h, k):
    return rounded_mean(h.double(), k).to(h.dtype)


def leaky_gradient(h, k):
    return mean(h, k) + (h - h.detach()).sum(1)


def weighted_by_slot(h, k):
    weights = k * torch.arange(1, k.shape[1] + 1)
    return (h.masked_fill(~k[..., None], 0) * weights[..., None]).sum(1) / weights.sum(1, keepdim=True).clamp(min=1)


def multiplied_mean(h, k):
    return (h * k[..., None]).sum(1) / k.sum(1, keepdim=True).clamp(min=1)


def plain_division(h, k):
    return h.masked_fill(~k[..., None], 0).sum(1) / k.sum(1, keepdim=True)


POOLING = {
    "pooling-amount": (lambda h, k: h.mean(1), mean, "pooling"),
    "pooling-side": (lambda h, k: h[:, 0], first, "first-slot"),
    "pooling-holes": (lambda h, k: h[torch.arange(len(h)), k.sum(1) - 1], last, "row-selection"),
    "pooling-content": (lambda h, k: (h - 1e9 * (~k)[..., None]).amax(1), maximum, "bias-overcome"),
    "pooling-negative": (lambda h, k: (h * k[..., None]).amax(1), maximum, "zero-wins-max"),
    "pooling-nan": (
        lambda h, k: (h * k[..., None]).sum(1) / k.sum(1, keepdim=True).clamp(min=1),
        mean,
        "zero-times-nan",
    ),
    "pooling-neighbours": (lambda h, k: mean(h, k) - mean(h, k).mean(0), mean, "rows-mixed"),
    "pooling-tokens": (inverted_mean, mean, "polarity"),
    "pooling-gradient": (leaky_gradient, mean, "gradient-into-padding"),
    "pooling-empty-row": (plain_division, mean, "empty-row"),
    "pooling-narrow-dtypes": (rounded_mean, wide_mean, "narrow-sum"),
}


# Losses: `x` logits [B, L, V], `y` labels [B, L].
def token_mean(x, y):
    chosen = y != -100
    return cross_entropy(x[chosen].float() if x.dtype.itemsize < 4 else x[chosen], y[chosen], reduction="sum") / max(
        1, int(chosen.sum())
    )


def over_slots(x, y):
    return cross_entropy(x.flatten(0, 1), y.flatten(), reduction="none").mean()


def of_rows(x, y):
    return torch.stack([token_mean(one, label) for one, label in zip(x, y, strict=True)]).mean()


def ignores_zero(x, y):
    return cross_entropy(x.flatten(0, 1), y.flatten().clamp(min=0))


def multiplied(x, y):
    each = cross_entropy(x.flatten(0, 1), y.flatten().clamp(min=0), reduction="none")
    return (each * (y.flatten() != -100)).sum() / (y != -100).sum().clamp(min=1)


def takes_zero_for_padding(x, y):
    return token_mean(x, y.masked_fill(y == 0, -100))


def takes_the_last_for_padding(x, y):
    return token_mean(x, y.masked_fill(y == x.shape[-1] - 1, -100))


def transposed(x, y):
    return token_mean(x, y) * (1 + (y[0] != -100).sum())


def plain(x, y):
    return cross_entropy(x.flatten(0, 1), y.flatten())


def smoothed_where_ignored(x, y):
    return token_mean(x, y) * (1.25 if bool((y == -100).any()) else 1)


def log_of_softmax(x, y):
    chosen = y != -100
    return nll_loss(x[chosen].softmax(-1).log(), y[chosen], reduction="sum") / chosen.sum().clamp(min=1)


def from_log_softmax(x, y):
    chosen = y != -100
    logs = log_softmax(x[chosen].float() if x.dtype.itemsize < 4 else x[chosen], -1)
    return nll_loss(logs, y[chosen], reduction="sum") / chosen.sum().clamp(min=1)


LOSSES = {
    "loss-ignored": (ignores_zero, token_mean, "ignored-counted"),
    "loss-nan": (multiplied, token_mean, "zero-times-nan"),
    "loss-padding": (over_slots, token_mean, "slots-in-the-mean"),
    "loss-mean": (of_rows, token_mean, "mean-of-means"),
    "loss-order": (transposed, token_mean, "rows-mixed"),
    "loss-nothing": (plain, token_mean, "mean-over-nothing"),
    "loss-cross-entropy": (smoothed_where_ignored, token_mean, "not-cross-entropy"),
    "loss-range": (log_of_softmax, from_log_softmax, "unstable-loss"),
}


# Masks, from `k`, bool [B, L].
def keys(k):
    return k[:, None, None, :]


def lowest(k, dtype=torch.float32):
    return torch.zeros(k.shape, dtype=dtype).masked_fill(~k, torch.finfo(dtype).min)[:, None, None, :]


def roomy(k, dtype=torch.float32):
    return torch.zeros(k.shape, dtype=dtype).masked_fill(~k, torch.finfo(dtype).min / 4)[:, None, None, :]


def triangle(k):
    return torch.ones(k.shape[1], k.shape[1], dtype=torch.bool).tril()


MASKS = {
    "mask-values": (lambda k: k.float()[:, None, None, :], keys, "mask-form"),
    "mask-keys": (lambda k: ~keys(k), keys, "polarity"),
    "mask-strength": (lambda k: -100.0 * (~keys(k)), lambda k: -1e4 * (~keys(k)), "bias-overcome"),
    "mask-empty-row": (lambda k: roomy(k).masked_fill(~keys(k), -INFINITY), roomy, "softmax-over-nothing"),
    "mask-narrow-dtypes": (lowest, roomy, "overflow"),
}


def named(value: object) -> str:
    """A test's name: without addresses, which differ from process to process."""
    return value if isinstance(value, str) else getattr(value, "__name__", type(value).__name__).strip("<>")
