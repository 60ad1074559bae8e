"""A future that leaks in causal models, and attention that is missing in bidirectional ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .case import fault
from .models import attention, named, on
from .own import OWN, OWN_CAUSAL, WIDTH, Attention, Encoder
from .plant import change_output, edit_mask, in_form, visible, wrap

FUTURE, BACKWARD = "future", "backward-attention padding-amount mask-forms"


def anything_goes(layer: int) -> Callable[[nn.Module], None]:
    """A plant: a layer's mask keeps padding out, and no longer the future."""

    def plant(model: nn.Module) -> None:
        attention(model, layer).is_causal = False
        edit_mask(model, layer, lambda allowed: allowed.any(-2, keepdim=True).expand_as(allowed))

    return plant


def only_where_nothing_is_padded(model: nn.Module) -> None:
    attention(model, 0).is_causal = False


def one_slot_ahead(model: nn.Module) -> None:
    """The diagonal is shifted: every token sees the one after it."""

    def shifted(mask: Tensor | None, hidden: Tensor) -> Tensor:
        length = hidden.shape[1]
        allowed = torch.ones(1, 1, length, length, dtype=torch.bool).tril(1)
        if mask is None:
            return allowed
        keys = visible(mask).any(-2, keepdim=True)
        return in_form(allowed & keys, mask)

    def around(forward: Callable[..., Any], given: dict[str, Any]) -> Any:
        return forward(**{**given, "attention_mask": shifted(given.get("attention_mask"), given["hidden_states"])})

    wrap(attention(model, 1), around)


def a_pinch_of_the_next(model: nn.Module) -> None:
    """A thousandth of the next slot is added to what the feed-forward part gives."""
    change_output(model.layers[0].mlp, lambda hidden, _: hidden + 2e-3 * nn.functional.pad(hidden, (0, 0, 0, 1))[:, 1:])


def built_as_for_an_encoder(model: nn.Module) -> None:
    """The mask is built bidirectional whatever `is_decoder` says."""
    for layer in (0, 1):
        anything_goes(layer)(model)


class CausalConvolution(nn.Module):
    def __init__(self, faulty: bool) -> None:
        super().__init__()
        self.faulty = faulty
        self.mix = nn.Conv1d(WIDTH, WIDTH, 3)

    def forward(self, hidden: Tensor, keep: Tensor) -> Tensor:
        hidden = hidden.masked_fill(~keep[..., None], 0).transpose(1, 2)
        return self.mix(nn.functional.pad(hidden, (1, 1) if self.faulty else (2, 0))).transpose(1, 2)


class RunningMean(nn.Module):
    """The mean of the tokens so far is subtracted, or that of the whole text if `faulty`."""

    def __init__(self, faulty: bool) -> None:
        super().__init__()
        self.faulty = faulty

    def forward(self, hidden: Tensor, keep: Tensor) -> Tensor:
        hidden = hidden.masked_fill(~keep[..., None], 0)
        sums, counts = hidden.cumsum(1), keep.cumsum(1)[..., None].clamp(min=1)
        if self.faulty:
            sums, counts = sums[:, -1:], counts[:, -1:]
        return hidden - sums / counts


class Transposed(Attention):
    def allowed(self, keep: Tensor) -> Tensor:
        return keep[:, None, :].expand(-1, keep.shape[1], -1).triu()


class OneSided(Attention):
    def allowed(self, keep: Tensor) -> Tensor:
        return super().allowed(keep).tril()


def causal_everywhere(model: nn.Module) -> None:
    """is_causal is left on, and counts where no mask is given."""
    for layer in range(model.config.num_hidden_layers):
        attention(model, layer).is_causal = True


def causal_in_layer_1(model: nn.Module) -> None:
    attention(model, 1).is_causal = True


def lower_triangle(model: nn.Module) -> None:
    """Causal with padding and without."""
    causal_everywhere(model)
    for layer in range(model.config.num_hidden_layers):
        edit_mask(model, layer, lambda allowed: allowed.expand(-1, -1, allowed.shape[-1], -1).tril())


def only_itself(model: nn.Module) -> None:
    """Every token attends to nothing but itself."""

    def around(forward: Callable[..., Any], given: dict[str, Any]) -> Any:
        itself = torch.eye(given["hidden_states"].shape[1], dtype=torch.bool)[None, None]
        return forward(**{**given, "attention_mask": itself})

    for layer in (0, 1):
        wrap(attention(model, layer), around)


def window_looks_back(model: nn.Module) -> None:
    """All layers are windows, and the window's right half is lost."""
    for layer in (0, 1):
        edit_mask(model, layer, lambda allowed: allowed.tril())


def own_causal(name: str, part: Callable[[bool], nn.Module], report: str) -> Any:
    return fault(
        name,
        "own module",
        "future",
        report,
        lambda faulty: Encoder(*[lambda: Attention(causal=True)] * 2, middle=lambda: part(faulty)),
        rules=FUTURE,
        module=r"middle(\.\w+)?",
        cause="no-causal-mask mixes-neighbours",
        audit=OWN_CAUSAL,
    )


def ahead(name: str, kind: str, plant: Callable[[nn.Module], None], report: str, layer: int, **options: Any) -> Any:
    build = on(kind, plant, **options)
    module = named(kind, layer)
    return fault(name, kind, "future", report, build, rules=FUTURE, module=module, cause="no-causal-mask")


def behind(name: str, kind: str, plant: Callable[[nn.Module], None], report: str, **options: Any) -> Any:
    build = on(kind, plant, **options)
    return fault(name, kind, "backward", report, build, rules=BACKWARD, cause="causal-mask")


CASES = [
    ahead("gpt2-layer-1-not-causal", "gpt2", anything_goes(1), "transformers 48745", 1),
    ahead("qwen2-layer-0-not-causal", "qwen2", anything_goes(0), "transformers 48745", 0),
    ahead("gpt2-not-causal-without-padding", "gpt2", only_where_nothing_is_padded, "transformers 42820, reversed", 0),
    ahead("llama-one-slot-ahead", "llama", one_slot_ahead, "a diagonal off by one", 1),
    ahead("bert-decoder-built-as-encoder", "bert", built_as_for_an_encoder, "transformers 48745", 0, is_decoder=True),
    ahead("roberta-decoder-layer-1", "roberta", anything_goes(1), "transformers 48745", 1, is_decoder=True),
    fault(
        "mistral-a-pinch-of-the-next-token",
        "mistral",
        "future",
        "a small leak",
        on("mistral", a_pinch_of_the_next),
        rules=FUTURE,
        module=r"layers\.0\.mlp",
        cause="no-causal-mask mixes-neighbours",
    ),
    own_causal("own-centred-convolution", CausalConvolution, "a convolution padded on both sides"),
    own_causal("own-mean-of-the-whole-text", RunningMean, "a statistic over the whole text"),
    fault(
        "own-triangle-transposed",
        "own module",
        "future",
        "triu for tril",
        lambda faulty: Encoder(
            lambda: Attention(causal=True), Transposed if faulty else (lambda: Attention(causal=True))
        ),
        rules=FUTURE,
        module=r"layers\.1\.attention",
        cause="no-causal-mask",
        audit=OWN_CAUSAL,
    ),
    behind("bert-causal-without-padding", "bert", causal_everywhere, "transformers 42820"),
    behind("distilbert-causal-without-padding", "distilbert", causal_everywhere, "transformers 42820"),
    behind("bert-layer-1-causal-without-padding", "bert", causal_in_layer_1, "transformers 42820"),
    behind("roberta-causal-always", "roberta", lower_triangle, "transformers 42820"),
    behind("esm-causal-always", "esm", lower_triangle, "transformers 42820"),
    behind(
        "modernbert-window-looks-back", "modernbert", window_looks_back, "half a window", global_attn_every_n_layers=99
    ),
    fault(
        "electra-attends-to-itself",
        "electra",
        "backward",
        "attention that is missing",
        on("electra", only_itself),
        rules=BACKWARD,
        cause="causal-mask unknown",
    ),
    fault(
        "own-encoder-made-causal",
        "own module",
        "backward",
        "transformers 42820",
        lambda faulty: Encoder(*[OneSided if faulty else Attention] * 2),
        rules=BACKWARD,
        cause="causal-mask",
        audit=OWN,
    ),
]
