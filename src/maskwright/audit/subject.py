"""What is audited: a model that takes trials and gives back its outputs sequence by sequence."""

from __future__ import annotations

import inspect
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from maskwright.audit.trial import Laid, MaskForm, Trial, lay
from maskwright.errors import InputError

Direction = Literal["bidirectional", "causal", "encoder-decoder"]
DECODER_LENGTH = 3  # tokens on an encoder-decoder's other side, the same in every call


@dataclass(frozen=True, eq=False)
class Outputs:
    """A call's outputs by name and sequence: `tokens[name][i]` is `[n, ...]`, `rows[name][i]` is `[...]`."""

    tokens: Mapping[str, Mapping[int, Tensor]] = field(default_factory=dict)
    rows: Mapping[str, Mapping[int, Tensor]] = field(default_factory=dict)

    @property
    def n_values(self) -> int:
        """How many named outputs there are."""
        return len(self.tokens) + len(self.rows)


class Subject:
    """A model in evaluation mode with what is known about its ids.

    Args:
        model: any module; transformers and sentence-transformers models are called as they want to be, others as
            `model(input_ids, attention_mask)`.
        name: for the reports.
        direction: what attention is meant to be; None = as the configuration says, where it does.
        vocab_size, pad_id, special_ids: where the configuration does not say.

    Raises:
        InputError: a model whose vocabulary is not known.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        name: str = "",
        direction: Direction | None = None,
        vocab_size: int | None = None,
        pad_id: int | None = None,
        special_ids: frozenset[int] = frozenset(),
    ) -> None:
        self.model = model.eval()
        self.name = name or type(model).__name__
        self.inner: Any = next((m for m in model.modules() if hasattr(m, "config") and hasattr(m, "dtype")), None)
        self.config: Any = getattr(self.inner, "config", None)
        self.vocab_size = vocab_size or of_config(self.config, "vocab_size")
        if not self.vocab_size:
            raise InputError("its vocabulary is not known: give vocab_size", self.name)
        known = [
            of_config(self.config, f"{kind}_token_id") for kind in ("pad", "bos", "eos", "cls", "sep", "mask", "unk")
        ]
        listed = {i for i in known if isinstance(i, int)}
        self.has_pad = pad_id is not None or isinstance(known[0], int)
        self.pad_id: int = pad_id if pad_id is not None else (known[0] if isinstance(known[0], int) else 0)
        self.special_ids = special_ids | listed | {self.pad_id}
        self.direction = direction or _direction(self.inner, self.config)
        self._shapes: dict[str, int] | None = None  # second sizes of outputs by row
        self.takes_features = hasattr(model, "tokenize") or hasattr(model, "encode")  # a SentenceTransformer

    @property
    def longest(self) -> int:
        """The longest row in tokens that the model has positions for, at most 512."""
        limit = of_config(self.config, "max_position_embeddings") or 512
        return max(1, min(512, limit - 2 - max(self.pad_id, 0) if limit < 10**6 else 512))

    def sequences(self, *lengths: int, seed: int = 0) -> tuple[Tensor, ...]:
        """Random ordinary ids, int64 `[n]` each; the same for a seed."""
        ordinary = torch.tensor([i for i in range(min(self.vocab_size, 30000)) if i not in self.special_ids])
        if not len(ordinary):
            raise InputError("has no ordinary token", self.name)
        generator = torch.Generator().manual_seed(seed)
        return tuple(ordinary[torch.randint(len(ordinary), (n,), generator=generator)] for n in lengths)

    def __call__(self, trial: Trial) -> Outputs:
        """Run a trial, without gradients."""
        with torch.no_grad(), self.set_to(trial.settings):
            laid = lay(trial, self.pad_id)
            return self.sorted_out(self.raw(laid, trial), laid, trial, self._named_rows(laid.ids.shape[1]))

    def raw(self, laid: Laid, trial: Trial) -> dict[str, Tensor]:
        """The outputs as the model gives them, by name."""
        given: dict[str, Any] = {"input_ids": laid.ids}
        if trial.pad_value is not None:
            states = self.embedded(laid.ids)
            given = {"inputs_embeds": torch.where(laid.keep[..., None], states, trial.pad_value)}
        if trial.mask != "none":
            given["attention_mask"] = mask_of(laid, trial.mask, self.dtype, causal=self.direction == "causal")
        if trial.positions == "of tokens":
            given["position_ids"] = laid.position + self.first_position
        return self.called(given | dict(trial.options), laid)

    def embedded(self, ids: Tensor) -> Tensor:
        """Token embeddings `[B, L, D]`.

        Raises:
            InputError: the model's own table gives something else.
        """
        states = self.inner.get_input_embeddings()(ids)
        if not isinstance(states, Tensor):
            raise InputError("its token embeddings are no plain table", self.name)
        return states

    def called(self, given: dict[str, Any], laid: Laid) -> dict[str, Tensor]:
        """The outputs for these arguments, and what else the model wants."""
        if self.takes_features:
            return named_tensors(self.model(given))
        if self.direction == "encoder-decoder":
            given = given | {"decoder_input_ids": laid.ids.new_full((len(laid.ids), DECODER_LENGTH), self.pad_id)}
        if self.inner is None:
            return named_tensors(self.model(*given.values()))
        return named_tensors(self.model(**given))

    def _named_rows(self, width: int) -> set[str]:
        """Outputs by row whose second size happens to be this width: it stays where the width is another."""
        other = Trial(self.sequences(width + 1 if width < self.longest else max(1, width - 1)))
        laid = lay(other, self.pad_id)
        if self._shapes is None or width in self._shapes.values():
            found = self.raw(laid, other)
            self._shapes = {name: value.shape[1] for name, value in found.items() if value.ndim >= 2}
            self._shapes = {name: n for name, n in self._shapes.items() if n != laid.ids.shape[1]}
        return {name for name, n in self._shapes.items() if n == width}

    def sorted_out(self, outputs: dict[str, Tensor], laid: Laid, trial: Trial, by_row: Container[str] = ()) -> Outputs:
        """Outputs `[B, L, ...]` cut to their sequences, `[B, ...]` and those named `by_row` by row."""
        tokens: dict[str, dict[int, Tensor]] = {}
        rows: dict[str, dict[int, Tensor]] = {}
        n_rows, width = laid.ids.shape
        for name, value in outputs.items():
            if value.ndim >= 2 and value.shape[:2] == (n_rows, width) and name not in by_row:
                tokens[name] = {
                    sequence: value[row, start : start + len(trial.sequences[sequence])]
                    for sequence, (row, start) in laid.places.items()
                }
            elif value.ndim >= 1 and value.shape[0] == n_rows:
                rows[name] = {row[0]: value[number] for number, row in enumerate(trial.rows) if len(row) == 1}
        return Outputs(tokens, rows)

    def takes(self, argument: str) -> bool:
        """Whether a transformers model's forward has an argument of that name."""
        return self.inner is not None and argument in inspect.signature(type(self.inner).forward).parameters

    @property
    def first_position(self) -> int:
        """Where the family counts positions from: behind the pad id (RoBERTa), or where its buffer starts."""
        for name, module in self.model.named_modules():
            if (
                name.endswith("position_embeddings")
                and isinstance(module, nn.Embedding)
                and module.padding_idx is not None
            ):
                return module.padding_idx + 1
        buffers = (b for name, b in self.model.named_buffers() if name.endswith("position_ids") and b.numel())
        return next((int(buffer.flatten()[0]) for buffer in buffers), 0)

    @property
    def dtype(self) -> torch.dtype:
        """Of the parameters."""
        return next((p.dtype for p in self.model.parameters() if p.is_floating_point()), torch.float32)

    @contextmanager
    def cast_to(self, wanted: torch.dtype | None) -> Iterator[None]:
        """Weights and buffers in another dtype for a while; in place, for a copy would lose patches made to a model."""
        if wanted is None:
            yield
            return
        held = [t for t in (*self.model.parameters(), *self.model.buffers()) if t.is_floating_point()]
        before = [t.data for t in held]
        for tensor in held:
            tensor.data = tensor.data.to(wanted)
        try:
            yield
        finally:
            for tensor, data in zip(held, before, strict=True):
                tensor.data = data

    @contextmanager
    def set_to(self, settings: Mapping[str, Any]) -> Iterator[None]:
        """Change the model for a call: `attn_implementation`, `training` mode, or `dtype`."""
        before = of_config(self.config, "_attn_implementation")
        wanted = settings.get("attn_implementation")
        if wanted is not None and self.inner is not None:
            self.inner.set_attn_implementation(wanted)
        self.model.train(bool(settings.get("training", False)))
        try:
            with self.cast_to(settings.get("dtype")):
                yield
        finally:
            self.model.eval()
            if wanted is not None and self.inner is not None:
                self.inner.set_attn_implementation(before)


def of_config(config: Any, name: str) -> Any:
    """A value of a configuration, or of its text part; None where there is none."""
    if config is None:
        return None
    for part in (config, config.get_text_config() if hasattr(config, "get_text_config") else None):
        try:
            value = getattr(part, name, None)
        except Exception:  # configurations of layers that differ refuse to answer for all
            continue
        if value is not None:
            return value
    return None


def _direction(inner: Any, config: Any) -> Direction | None:
    from transformers.models.auto import modeling_auto as auto

    if config is None:
        return None
    if getattr(config, "is_encoder_decoder", False):
        return "encoder-decoder" if not type(inner).__name__.endswith("EncoderModel") else "bidirectional"
    if getattr(config, "is_decoder", False) or type(inner).__name__.endswith(("ForCausalLM", "LMHeadModel")):
        return "causal"
    if config.model_type in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        return "bidirectional"
    return "causal" if config.model_type in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES else None


def mask_of(laid: Laid, form: MaskForm, dtype: torch.dtype, *, causal: bool) -> Tensor:
    """The keep mask in a form: `[B, L]` of a dtype, or `[B, 1, L, L]`, bool or additive."""
    if not form.startswith("4d"):
        keep = ~laid.keep if form == "inverted" else laid.keep
        return keep.to({"bool": torch.bool, "float": torch.float32}.get(form, torch.int64))
    allowed = laid.blocks[:, None]
    if causal:
        allowed = allowed.tril()
    if form == "4d bool":
        return allowed
    return torch.zeros(allowed.shape, dtype=dtype).masked_fill(~allowed, torch.finfo(dtype).min)


def named_tensors(outputs: Any) -> dict[str, Tensor]:
    """Floating-point tensors of whatever a model gives back, by name or number; tuples within are numbered."""
    if isinstance(outputs, Tensor):
        return {"output": outputs} if outputs.is_floating_point() else {}
    if isinstance(outputs, Mapping):
        pairs = list(outputs.items())
    elif isinstance(outputs, (tuple, list)):
        pairs = [(str(number), value) for number, value in enumerate(outputs)]
    else:
        return {}
    found: dict[str, Tensor] = {}
    for name, value in pairs:
        for inner, tensor in named_tensors(value).items():
            found[str(name) if inner == "output" else f"{name}.{inner}"] = tensor
    return found
