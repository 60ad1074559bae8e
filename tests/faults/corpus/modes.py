"""Training mode and gradient checkpointing, which should compute what evaluation computes, dropout aside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from .case import Case, fault
from .models import attention, named, on
from .own import OWN, WIDTH, Encoder
from .plant import change_argument, change_output, wrap


def mask_only_in_evaluation(layer: int) -> Callable[[nn.Module], None]:
    def plant(model: nn.Module) -> None:
        module = attention(model, layer)
        change_argument(module, "attention_mask", lambda mask: None if module.training else mask)

    return plant


def other_scale(model: nn.Module) -> None:
    """Attention in training forgets its scale."""
    module = attention(model, 0)

    def around(forward: Callable[..., Any], given: dict[str, Any]) -> Any:
        usual = module.scaling
        module.scaling = usual * (2 if module.training else 1)
        try:
            return forward(**given)
        finally:
            module.scaling = usual

    wrap(module, around)


def checkpointed_without_mask(model: nn.Module) -> None:
    """A layer that is checkpointed gets its hidden states and nothing else."""
    layer = model.encoder.layer[1]
    module = attention(model, 1)

    def masked(mask: Tensor | None) -> Tensor | None:
        return None if layer.gradient_checkpointing and layer.training else mask

    change_argument(module, "attention_mask", masked)


def checkpointed_twice(model: nn.Module) -> None:
    """The residual is added once more where a layer is checkpointed."""
    layer = model.layers[0]

    def doubled(hidden: Tensor, given: dict[str, Any]) -> Tensor:
        return hidden * 1.02 if layer.gradient_checkpointing and layer.training else hidden

    change_output(layer.mlp, doubled)


class OverBatch(nn.Module):
    """Batch normalisation: running statistics in evaluation, and in training those of the batch with its padding."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, hidden: Tensor, keep: Tensor) -> Tensor:
        return self.norm(hidden.flatten(0, 1)).view_as(hidden)


class Running(nn.Module):
    """The same with running statistics in both modes."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH).eval()

    def forward(self, hidden: Tensor, keep: Tensor) -> Tensor:
        return nn.functional.batch_norm(
            hidden.flatten(0, 1), self.norm.running_mean, self.norm.running_var, self.norm.weight, self.norm.bias
        ).view_as(hidden)


TRAINING = {"rules": "training-mode", "cause": "training-path"}
CHECKPOINTING = {"rules": "checkpointing", "cause": "checkpointing-path"}
CASES: list[Case] = [
    fault(
        "bert-mask-only-in-evaluation",
        "bert",
        "modes",
        "a mask that training forgets",
        on("bert", mask_only_in_evaluation(1)),
        module=named("bert", 1),
        **TRAINING,
    ),
    fault(
        "roberta-scale-only-in-evaluation",
        "roberta",
        "modes",
        "another kernel in training",
        on("roberta", other_scale),
        module=named("roberta", 0),
        **TRAINING,
    ),
    fault(
        "electra-checkpointed-without-mask",
        "electra",
        "modes",
        "checkpointing drops keyword arguments",
        on("electra", checkpointed_without_mask),
        module=named("electra", 1),
        **CHECKPOINTING,
    ),
    fault(
        "llama-checkpointed-otherwise",
        "llama",
        "modes",
        "checkpointing computes something else",
        on("llama", checkpointed_twice),
        module=r"layers\.0(\.mlp)?",
        **CHECKPOINTING,
    ),
    fault(
        "own-batch-norm-in-training",
        "own module",
        "modes",
        "statistics of the batch",
        lambda faulty: Encoder(middle=OverBatch if faulty else Running),
        rules="training-mode",
        module=r"middle(\.norm)?",
        cause="training-path batch-statistics",
        audit=OWN,
    ),
]
