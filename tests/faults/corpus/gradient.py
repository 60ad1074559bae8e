"""Padding that changes no number and receives a gradient."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from .case import Case, fault
from .models import on
from .own import OWN, Encoder
from .plant import change_output

RULES = "gradient"
INTO = "gradient-into-padding"


def free(value: Tensor) -> Tensor:
    """Zero, with the gradient of the value: what a straight-through trick leaves behind."""
    return value - value.detach()


def mean_of_slots(hidden: Tensor, _: Any) -> Tensor:
    return hidden + 0.3 * free(hidden.mean(1, keepdim=True))


def next_slot(hidden: Tensor, _: Any) -> Tensor:
    return hidden + 0.3 * free(nn.functional.pad(hidden, (0, 0, 0, 1))[:, 1:])


class Through(nn.Module):
    """A quantiser whose straight-through estimate sums over slots, or over the token itself."""

    def __init__(self, faulty: bool) -> None:
        super().__init__()
        self.faulty = faulty

    def forward(self, hidden: Tensor, keep: Tensor) -> Tensor:
        return hidden + free(hidden.mean(1, keepdim=True) if self.faulty else hidden)


def stock(name: str, kind: str, part: str, new: Any, report: str) -> Case:
    build = on(kind, lambda model: change_output(model.get_submodule(part), new))
    module = part.replace(".", r"\.") + r"(\.\w+)*|"
    return fault(name, kind, "gradient", report, build, rules=RULES, module=module, cause=INTO)


CASES = [
    stock("bert-gradient-of-the-mean", "bert", "encoder.layer.1", mean_of_slots, "straight-through over all slots"),
    stock(
        "modernbert-gradient-of-the-mean",
        "modernbert",
        "layers.0.mlp",
        mean_of_slots,
        "straight-through over all slots",
    ),
    stock(
        "electra-gradient-of-the-next-slot",
        "electra",
        "encoder.layer.0",
        next_slot,
        "a backward pass that forgets the mask",
    ),
    fault(
        "own-straight-through-over-slots",
        "own module",
        "gradient",
        "straight-through over all slots",
        lambda faulty: Encoder(middle=lambda: Through(faulty)),
        rules=RULES,
        module=r"middle|",
        cause=INTO,
        audit=OWN,
    ),
]
