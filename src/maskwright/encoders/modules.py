"""Families whose attention does not go through transformers' attention interface.

Their stock attention module runs once per bucket of rows of similar length instead of once over the padded batch:
same code, same parameters, fewer slots; the rest of the model sees only the packed tokens. A rule may also replace
methods of the instance that would prepare positions for the packed row as if it were one text.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor, nn

from maskwright.attention.buckets import Bucket, Buckets
from maskwright.attention.register import plan_of
from maskwright.encoders.override import override, restore, stock

# (encoder, bucket, hidden states of the bucket) -> further arguments of the attention module.
Extra = Callable[[nn.Module, Bucket, Tensor], dict[str, Any]]


@dataclass(frozen=True)
class ModuleRule:
    """How to run one family's attention modules per bucket.

    Attributes:
        classes: names of the attention classes.
        mask: the argument that holds the mask, and what the module expects in it: "additive" (0 / -inf,
            `[n, 1, 1, L]`), "keep" (True = may attend, `[n, 1, 1, L]`) or "keep-2d" (`[n, L]`).
        rows: "compact" where positions arrive with the inputs; "span" where the module counts slots, so that holes
            must keep theirs (they then cost their share of the attention, and nothing else).
        extra: arguments to compute per bucket, such as a relative position bias.
        replaced: (submodule path, method, replacement) of what would compute positions for the packed row as one text.
    """

    classes: tuple[str, ...]
    mask: tuple[str, Literal["additive", "keep", "keep-2d"]] = ("attention_mask", "additive")
    rows: Literal["compact", "span"] = "compact"
    extra: Extra | None = None
    replaced: tuple[tuple[str, str, Callable[..., Any]], ...] = ()


def install(base: nn.Module, rule: ModuleRule) -> int:
    """Replace `forward` of the rule's modules; returns how many there are."""
    found = list(_attention_modules(base, rule))
    for module in found:
        override(module, _forward, base, rule)
    for path, method, replacement in rule.replaced:
        setattr(base.get_submodule(path), method, replacement)
    return len(found)


def remove(base: nn.Module, rule: ModuleRule) -> None:
    """Put the stock methods back."""
    for module in _attention_modules(base, rule):
        restore(module)
    for path, method, _ in rule.replaced:
        base.get_submodule(path).__dict__.pop(method, None)


def _attention_modules(base: nn.Module, rule: ModuleRule) -> Iterator[nn.Module]:
    return (module for module in base.modules() if type(module).__name__ in rule.classes)


@cache
def _signature(forward: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(forward)


def _forward(module: nn.Module, base: nn.Module, rule: ModuleRule, *args: Any, **kwargs: Any) -> Any:
    """The module's stock forward, bucket by bucket; takes and returns packed `[1, T, ...]` tensors."""
    bound = _signature(type(module).forward).bind_partial(module, *args, **kwargs)
    given = dict(bound.arguments)
    given.update(given.pop("kwargs", {}))
    given.pop("self")
    name, kind = rule.mask
    plan = plan_of(given.pop(name, None), module)
    given.pop("cache", None)  # encoders may make one by default; it would join the buckets' keys
    n_tokens = plan.layout.n_tokens
    packed = {
        key: value[0]
        for key, value in given.items()
        if isinstance(value, Tensor) and value.ndim >= 2 and value.shape[:2] == (1, n_tokens)
    }
    buckets = plan.spans if rule.rows == "span" else plan.buckets
    spread = {key: buckets.spread(value) for key, value in packed.items()}
    results = []
    for bucket in buckets.items:
        blocks = {key: bucket.block(value) for key, value in spread.items()}
        hidden = next(iter(blocks.values()))
        inputs = given | blocks | {name: _mask(bucket, kind, hidden)}
        if rule.extra is not None:
            inputs |= rule.extra(base, bucket, hidden)
        results.append(stock(module, **inputs))
    return _join(results, buckets)


def _mask(bucket: Bucket, kind: str, hidden: Tensor) -> Tensor | None:
    if kind == "additive":
        return bucket.bias(hidden.dtype)
    valid = bucket.valid
    if valid is None:
        valid = torch.ones(bucket.n, bucket.length, dtype=torch.bool, device=hidden.device)
    return valid if kind == "keep-2d" else valid[:, None, None, :]


def _join(results: list[Any], buckets: Buckets) -> Any:
    """Put the buckets' results, alike in structure, into packed order; what is not one value a token becomes None."""
    if isinstance(results[0], tuple):
        return tuple(_join(list(parts), buckets) for parts in zip(*results, strict=True))
    shapes = [(bucket.n, bucket.length) for bucket in buckets.items]
    if not all(isinstance(r, Tensor) and r.shape[:2] == shape for r, shape in zip(results, shapes, strict=True)):
        return None
    return buckets.collect(torch.cat([result.flatten(0, 1) for result in results]))[None]
