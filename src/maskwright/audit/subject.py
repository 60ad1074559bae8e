"""What is audited: a model that takes trials and gives back its outputs sequence by sequence."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from maskwright.audit.calling import Calling, InapplicableError
from maskwright.audit.configured import Direction, direction_of, of_config, special_ids_of, vocab_size_of
from maskwright.audit.settings import changed_by
from maskwright.audit.trial import Laid, MaskForm, Part, Trial, lay
from maskwright.errors import InputError

LONGEST = 512  # tokens in a row, whatever a model has positions for
OTHER_LENGTH = 3  # tokens on an encoder-decoder's other side, the same in every call


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
    """A model, put into evaluation mode, with what is known about its ids.

    Args:
        model: any module; transformers and sentence-transformers models are called as they want to be, others as
            `model(input_ids, attention_mask)`, by these names where their forward has them, else by place.
        name: for the reports.
        direction: what attention is meant to be; None = as the configuration says, where it does.
        vocab_size, pad_id, special_ids: where the configuration does not say.

    Raises:
        InputError: a model whose vocabulary is not known, or a pad id outside of it.
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
        self.model = model
        model.eval()
        self.name = name or type(model).__name__
        self.inner: Any = next((m for m in model.modules() if isinstance(m, PreTrainedModel)), None)
        self.config: Any = getattr(model if self.inner is None else self.inner, "config", None)
        self.calling = Calling(model, by_name=self.inner is not None)
        self.vocab_size = vocab_size_of(self.inner, self.config) if vocab_size is None else vocab_size
        if self.vocab_size < 1:
            raise InputError("its vocabulary is not known: give vocab_size", self.name)
        known = special_ids_of(self.config)
        if pad_id is not None and not 0 <= pad_id < self.vocab_size:
            raise InputError(f"must be an id of the vocabulary of {self.vocab_size}, got {pad_id}", "pad_id")
        padding = known.get("pad") if pad_id is None else pad_id
        self.has_pad = padding is not None and 0 <= padding < self.vocab_size
        self.pad_id: int = padding if padding is not None and self.has_pad else 0
        self.special_ids = special_ids | set(known.values()) | {self.pad_id}
        self.direction = direction or direction_of(self.inner, self.config)
        self._shapes: dict[Part, dict[str, int]] = {}  # second sizes of outputs by row
        self.takes_features = any(base.__name__ == "SentenceTransformer" for base in type(model).__mro__)
        self.longest = self._n_positions()

    def _n_positions(self) -> int:
        """The longest row in tokens that the configuration has positions for."""
        limit = of_config(self.config, "max_position_embeddings")
        if not isinstance(limit, int) or not 0 < limit < 10**6:
            return LONGEST
        return max(1, min(LONGEST, limit - self.first_position))

    @cached_property
    def ordinary(self) -> Tensor:
        """int64 `[n]`, the ids of ordinary tokens; of a vocabulary that has none, all but padding."""
        ids = range(min(self.vocab_size, 30000))
        found = [i for i in ids if i not in self.special_ids] or [i for i in ids if i != self.pad_id]
        return torch.tensor(found or [self.pad_id])

    def sequences(self, *lengths: int, seed: int = 0) -> tuple[Tensor, ...]:
        """Random ordinary ids, int64 `[n]` each, none twice in a row while they last; the same for a seed."""
        generator = torch.Generator().manual_seed(seed)
        n_ids = len(self.ordinary)
        orders = [torch.randperm(n_ids, generator=generator).repeat(-(-n // n_ids))[:n] for n in lengths]
        return tuple(self.ordinary[order] for order in orders)

    def __call__(self, trial: Trial) -> Outputs:
        """Run a trial, without gradients."""
        with torch.no_grad(), self.set_to(trial.settings):
            laid = lay(trial, self.pad_id)
            return self.sorted_out(self.raw(laid, trial), laid, trial, self._named_rows(laid.ids.shape[1], trial.part))

    def raw(self, laid: Laid, trial: Trial) -> dict[str, Tensor]:
        """The outputs as the model gives them, by name."""
        return self.called(self.given(laid, trial), laid, trial.part)

    def given(self, laid: Laid, trial: Trial) -> dict[str, Any]:
        """What a trial hands over, by the names that transformers has for it.

        Raises:
            InapplicableError: more slots than the model has positions for.
        """
        if (width := laid.ids.shape[1]) > self.longest:
            raise InapplicableError(f"{width} slots are needed, and the model has {self.longest}", "positions")
        given: dict[str, Any] = {"input_ids": laid.ids}
        if trial.as_embeddings:
            given = {"inputs_embeds": self.embedded(laid.ids)}
        if trial.pad_value is not None:
            states = self.embedded(laid.ids)
            keep = laid.keep[..., None].to(states.device)
            given = {"inputs_embeds": torch.where(keep, states, trial.pad_value)}
        if trial.mask != "none":
            given["attention_mask"] = mask_of(laid, trial.mask, self.dtype, causal=self.direction == "causal")
        if trial.positions == "of tokens":
            given["position_ids"] = laid.position + self.first_position
        return given | dict(trial.options)

    def embedded(self, ids: Tensor) -> Tensor:
        """Token embeddings `[B, L, D]`.

        Raises:
            InputError: the model's own table gives something else.
        """
        states = self.inner.get_input_embeddings()(ids.to(self.device))
        if not isinstance(states, Tensor):
            raise InputError("its token embeddings are no plain table", self.name)
        return states

    def called(self, given: dict[str, Any], laid: Laid, part: Part = "input") -> dict[str, Tensor]:
        """The outputs for these arguments and what else the model wants, on the CPU."""
        return self._answer(*self.bound(given, laid, part))

    def bound(self, given: dict[str, Any], laid: Laid, part: Part = "input") -> tuple[list[Any], dict[str, Any]]:
        """Those arguments and what else the model wants, by place and by name as it takes them."""
        if self.takes_features:
            return [given], {}
        if part == "decoder":
            given = {f"decoder_{name}" if name in _BOTH_SIDES else name: value for name, value in given.items()}
            given["input_ids"] = self.sequences(OTHER_LENGTH)[0].expand(len(laid.ids), -1)
        elif self.direction == "encoder-decoder":
            given = {"decoder_input_ids": laid.ids.new_full((len(laid.ids), OTHER_LENGTH), self.pad_id)} | given
        return self.calling.bound(given, laid)

    def _on_device(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: self._on_device(part) for name, part in value.items()}
        return value.to(self.device) if isinstance(value, Tensor) else value

    def _answer(self, places: list[Any], named: dict[str, Any]) -> dict[str, Tensor]:
        outputs = self.model(*map(self._on_device, places), **self._on_device(named))
        return {name: value.cpu() for name, value in named_tensors(outputs).items()}

    def _named_rows(self, width: int, part: Part) -> set[str]:
        """Outputs by row whose second size happens to be this width: it stays where the width is another."""
        other = Trial(self.sequences(width + 1 if width < self.longest else max(1, width - 1)), part=part)
        laid = lay(other, self.pad_id)
        if part not in self._shapes or width in self._shapes[part].values():
            sizes = {name: value.shape[1] for name, value in self.raw(laid, other).items() if value.ndim >= 2}
            self._shapes[part] = {name: n for name, n in sizes.items() if n != laid.ids.shape[1]}
        return {name for name, n in self._shapes[part].items() if n == width}

    def sorted_out(self, outputs: dict[str, Tensor], laid: Laid, trial: Trial, by_row: Container[str] = ()) -> Outputs:
        """Outputs `[B, L, ...]` cut to their sequences, `[B, ...]` and those named `by_row` by row."""
        tokens: dict[str, dict[int, Tensor]] = {}
        rows: dict[str, dict[int, Tensor]] = {}
        n_rows, width = laid.ids.shape
        for name, value in outputs.items():
            if value.ndim >= 2 and value.shape[:2] == (n_rows, width) and name not in by_row:
                tokens[name] = {
                    sequence: value[row][laid.slots(sequence)] for sequence, (row, _) in laid.places.items()
                }
            elif value.ndim >= 1 and value.shape[0] == n_rows:
                rows[name] = {row[0]: value[number].clone() for number, row in enumerate(trial.rows) if len(row) == 1}
        return Outputs(tokens, rows)

    def takes(self, argument: str) -> bool:
        """Whether a transformers model's forward has an argument of that name, and what wraps it hands it on."""
        if self.inner is None or argument not in signature(type(self.inner).forward).parameters:
            return False
        return self.model is self.inner or self.takes_features or self.calling.names(argument)

    @property
    def first_position(self) -> int:
        """Where the family counts positions from: behind the pad id (RoBERTa), or where its buffer starts."""
        for name, module in self.model.named_modules():
            index = getattr(module, "padding_idx", None)
            if name.endswith("position_embeddings") and isinstance(index, int):
                return index + 1
        buffers = (b for name, b in self.model.named_buffers() if name.endswith("position_ids") and b.numel())
        return next((int(buffer.flatten()[0]) for buffer in buffers), 0)

    @property
    def dtype(self) -> torch.dtype:
        """Of the parameters."""
        return next((p.dtype for p in self.model.parameters() if p.is_floating_point()), torch.float32)

    @property
    def device(self) -> torch.device:
        """Where inputs go."""
        return next((t.device for t in (*self.model.parameters(), *self.model.buffers())), torch.device("cpu"))

    @contextmanager
    def cast_to(self, wanted: torch.dtype | None) -> Iterator[None]:
        """Weights and buffers in another dtype for a while; in place, for a copy would lose patches made to a model."""
        if wanted is None:
            yield
            return
        held = [t for t in (*self.model.parameters(), *self.model.buffers()) if t.is_floating_point()]
        before = [t.data for t in held]
        try:
            for tensor in held:
                tensor.data = tensor.data.to(wanted)
            yield
        finally:
            for tensor, data in zip(held, before, strict=True):
                tensor.data = data

    @contextmanager
    def set_to(self, settings: Mapping[str, Any]) -> Iterator[None]:
        """Change the model for a call: `attn_implementation`, `training` mode, `dtype`, or as `changed_by` knows."""
        before = of_config(self.config, "_attn_implementation")
        wanted = settings.get("attn_implementation")
        try:
            if wanted is not None and self.inner is not None:
                self.inner.set_attn_implementation(wanted)
            self.model.train(bool(settings.get("training", False)))
            with self.cast_to(settings.get("dtype")), changed_by(self.model, settings):
                yield
        finally:
            self.model.eval()
            if wanted is not None and self.inner is not None:
                self.inner.set_attn_implementation(before)


_BOTH_SIDES = ("input_ids", "attention_mask", "inputs_embeds", "position_ids")  # what a decoder_ of its own exists of


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
    elif is_dataclass(outputs) and not isinstance(outputs, type):
        pairs = [(one.name, getattr(outputs, one.name)) for one in fields(outputs)]
    else:
        return {}
    found: dict[str, Tensor] = {}
    for name, value in pairs:
        for inner, tensor in named_tensors(value).items():
            found[str(name) if inner == "output" else f"{name}.{inner}"] = tensor
    return found
