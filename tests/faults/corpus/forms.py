"""Masks that mean another thing in another dtype or shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .case import Case, fault
from .models import attention, named, on
from .own import OWN, Encoder
from .plant import change_argument, wrap

RULES = "mask-forms padding-amount padding-side padding-content padding-values packing-blocks"
FORM = "mask-form"


def bool_is_added(model: nn.Module) -> None:
    """A boolean mask is added to the scores as ones and zeros."""
    for layer in (0, 1):

        def added(mask: Tensor | None) -> Tensor | None:
            if mask is None or mask.dtype != torch.bool:
                return mask
            return mask.to(next(model.parameters()).dtype)

        change_argument(attention(model, layer), "attention_mask", added)


def on_input(new: Callable[[Tensor], Tensor | None]) -> Callable[[nn.Module], None]:
    """A plant: the mask that the model is called with is changed."""
    return lambda model: change_argument(model, "attention_mask", lambda keep: None if keep is None else new(keep))


def float_is_bias(keep: Tensor) -> Tensor:
    """Ones and zeros in a float dtype are taken for a bias, which hides nothing."""
    return torch.ones_like(keep, dtype=torch.long) if keep.dim() == 2 and keep.is_floating_point() else keep


def bool_means_hidden(keep: Tensor) -> Tensor:
    return ~keep if keep.dim() == 2 and keep.dtype == torch.bool and not keep.all() else keep


def additive_is_cast(keep: Tensor) -> Tensor:
    """An additive 4-D mask is cast to bool, so that every large negative number means True."""
    return keep.bool() if keep.dim() == 4 and keep.is_floating_point() else keep


def four_dimensions_are_ones(keep: Tensor) -> Tensor | None:
    return None if keep.dim() == 4 else keep


def floats_are_truncated(keep: Tensor) -> Tensor:
    """A float mask is scaled to bytes and wraps round: 1.0 becomes 0."""
    if keep.dim() == 2 and keep.is_floating_point() and not (keep == 1).all():
        return (keep * 256).long() % 256 + (keep == 0).long()
    return keep


def none_means_guessed(model: nn.Module) -> None:
    """Where no mask is given, every id of less than 40 is taken for padding."""

    def around(forward: Callable[..., Any], given: dict[str, Any]) -> Any:
        if given.get("attention_mask") is None and given.get("input_ids") is not None:
            given["attention_mask"] = (given["input_ids"] >= 40).long()
        return forward(**given)

    wrap(model, around)


class Complemented(Encoder):
    """`~mask` is right for bool, and of an integer mask it is never zero."""

    def keep(self, input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        if attention_mask is None:
            return super().keep(input_ids, None)
        if attention_mask.is_floating_point():
            attention_mask = attention_mask.bool()
        hidden = (~attention_mask).bool()
        return ~hidden if attention_mask.dtype == torch.bool else hidden


class Indexed(Encoder):
    """Only an integer 1 counts: of a bool mask, which is compared with "is", nothing is masked."""

    def keep(self, input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        if attention_mask is not None and attention_mask.dtype == torch.bool:
            attention_mask = None
        return super().keep(input_ids, attention_mask)


def stock(name: str, kind: str, plant: Callable[[Any], None], layer: int, report: str, cause: str = FORM) -> Case:
    module = named(kind, layer) + r"|embeddings(\.\w+)?|"
    return fault(name, kind, "forms", report, on(kind, plant), rules=RULES, module=module, cause=cause)


def own(name: str, part: type[Encoder], report: str) -> Case:
    return fault(
        name,
        "own module",
        "forms",
        report,
        lambda faulty: (part if faulty else Encoder)(),
        rules=RULES,
        module=r"layers\.0\.attention|layers\.0|",
        cause="mask-form mask-never-arrives",
        audit=OWN,
    )


CASES = [
    stock("bert-bool-mask-added", "bert", bool_is_added, 0, "speculators 691", "mask-form mask-never-arrives"),
    stock("electra-float-mask-is-bias", "electra", on_input(float_is_bias), 0, "speculators 691"),
    stock(
        "distilbert-bool-means-hidden",
        "distilbert",
        on_input(bool_means_hidden),
        0,
        "transformers 38094",
        "mask-form polarity",
    ),
    stock(
        "roberta-additive-mask-cast",
        "roberta",
        on_input(additive_is_cast),
        0,
        "transformers 38094",
        "mask-form polarity",
    ),
    stock(
        "xlm-roberta-4-d-mask-is-ones",
        "xlm-roberta",
        on_input(four_dimensions_are_ones),
        0,
        "transformers 46634",
        "mask-form mask-never-arrives",
    ),
    stock(
        "albert-float-mask-wraps",
        "albert",
        on_input(floats_are_truncated),
        0,
        "transformers 38094",
        "mask-form polarity",
    ),
    stock("esm-none-means-guessed", "esm", none_means_guessed, 0, "a guess where no mask is given"),
    own("own-complement-of-integers", Complemented, "~ of an integer mask"),
    own("own-bool-mask-not-seen", Indexed, "a mask of another dtype is ignored"),
]
