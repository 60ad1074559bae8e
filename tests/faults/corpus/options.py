"""Options that should only say what is given back, and change what is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from .case import Case, fault
from .models import attention, named, on
from .plant import change_output, drop_mask, wrap

RULES = "options"
CHANGES = "option-changes-path"


def where(option: str, plant: Callable[[nn.Module], None], value: bool = True) -> Callable[[nn.Module], None]:
    """A plant: another one works only in calls that have this option."""

    def planted(model: Any) -> None:
        parts = [part for part in model.modules() if part is not model]
        right = {part: part.forward for part in parts}
        plant(model)
        wrong = {part: part.forward for part in parts if part.forward != right[part]}
        for part in wrong:
            del part.forward

        def around(forward: Callable[..., Any], given: dict[str, Any]) -> Any:
            if bool(given.get(option)) != value:
                return forward(**given)
            for part, changed in wrong.items():
                part.forward = changed
            try:
                return forward(**given)
            finally:
                for part in wrong:
                    del part.forward

        wrap(model, around)

    return planted


def not_causal(model: nn.Module) -> None:
    module = attention(model, 1)

    def around(forward: Callable[..., Any], given: dict[str, Any]) -> Any:
        module.is_causal = False
        try:
            return forward(**{**given, "attention_mask": None})
        finally:
            module.is_causal = True

    wrap(module, around)


def moved_positions(model: nn.Module) -> None:
    """Positions start at one, as if a token were in the cache."""
    change_output(model.wpe, lambda hidden, _: hidden.roll(1, -2))


def unscaled(model: nn.Module) -> None:
    """The slow path forgets the square root of the width."""
    module = attention(model, 1)

    def around(forward: Callable[..., Any], given: dict[str, Any]) -> Any:
        usual = module.scaling
        module.scaling = 1.0
        try:
            return forward(**given)
        finally:
            module.scaling = usual

    wrap(module, around)


def normalised_twice(model: nn.Module) -> None:
    """The states that are collected are normalised in place."""
    change_output(model.encoder.layer[1], lambda hidden, _: (hidden - hidden.mean(-1, keepdim=True)) * 1.01)


def rounded_keys(model: nn.Module) -> None:
    """Keys are kept in a cache of 8 bits, and read back from it."""
    change_output(model.layers[0].self_attn.k_proj, lambda key, _: (key * 20).round() / 20)


def stock(name: str, kind: str, option: str, plant: Callable[[Any], None], module: str, report: str) -> Case:
    build = on(kind, where(option, plant))
    return fault(name, kind, "options", report, build, rules=RULES, module=module, cause=CHANGES)


SLOW = "the path that gives attentions back"
CASES = [
    stock("bert-attentions-unscaled", "bert", "output_attentions", unscaled, named("bert", 1), SLOW),
    stock(
        "distilbert-attentions-without-mask",
        "distilbert",
        "output_attentions",
        drop_mask(0),
        named("distilbert", 0),
        SLOW,
    ),
    stock(
        "roberta-hidden-states-normalised",
        "roberta",
        "output_hidden_states",
        normalised_twice,
        r"encoder\.layer\.1",
        "an operation in place",
    ),
    stock(
        "gpt2-cache-moves-positions", "gpt2", "use_cache", moved_positions, "wpe", "positions counted from the cache"
    ),
    stock("llama-cache-drops-causality", "llama", "use_cache", not_causal, named("llama", 1), "transformers 48745"),
    stock(
        "mistral-cache-in-eight-bits",
        "mistral",
        "use_cache",
        rounded_keys,
        r"layers\.0\.self_attn(\.k_proj)?",
        "a rounded cache",
    ),
]
