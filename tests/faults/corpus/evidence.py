"""Direct calls of a model that show whether a law holds, by other means than the audit's.

Each function gives a number that is zero where the law holds.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .calls import (
    LENGTH,
    NO_FOUR_DIMENSIONS,
    OTHER,
    WIDE,
    counts_itself,
    gap,
    is_causal,
    laid,
    padding_id,
    positions,
    read,
    takes,
    text,
    vocabulary,
)


def padded(model: nn.Module, side: str = "right") -> float:
    """How much a text differs between a row of its own and a padded row beside a longer one.

    A pooled vector counts with padding on the right, and of models without positions on the left too.
    """
    row, other = text(model), text(model, OTHER, seed=1)
    rows = [laid(part, WIDE, side, padding_id(model)) for part in (row, other)]
    ids, keep = (torch.stack(parts) for parts in zip(*rows, strict=True))
    tokens, pooled = read(model, ids, keep, **positions(model, keep))
    alone = torch.ones(1, LENGTH, dtype=torch.long)
    lone_tokens, lone_pooled = read(model, row[None], alone, **positions(model, alone))
    if tokens is not None:
        tokens = tokens[:1, :LENGTH] if side == "right" else tokens[:1, -LENGTH:]
    of_first_slot = side == "left" and hasattr(model, "config") and not model.config.is_encoder_decoder
    return max(gap(tokens, lone_tokens), 0.0 if of_first_slot or pooled is None else gap(pooled[:1], lone_pooled))


def padded_left(model: nn.Module) -> float:
    """The same with padding on the left, where positions can be told or do not exist."""
    absolute = hasattr(model, "config") and not takes(model, "position_ids") and model.config.model_type != "t5"
    return 0.0 if absolute else padded(model, "left")


def content(model: nn.Module) -> float:
    """How much a padded row's tokens depend on the ids in its padding."""
    rows = [laid(text(model), WIDE, "right", filler) for filler in (7, 8)]
    found = [read(model, ids[None], keep[None])[0] for ids, keep in rows]
    return 0.0 if found[0] is None else gap(found[0][:, :LENGTH], found[1][:, :LENGTH])


def later_token(model: nn.Module) -> float:
    """How much the other tokens change with the last one."""
    row = text(model)
    changed = torch.cat([row[:-1], (row[-1:] + 1) % vocabulary(model)])
    keep = torch.ones(1, LENGTH, dtype=torch.long)
    (before, _), (after, _) = read(model, row[None], keep), read(model, changed[None], keep)
    return gap(after[:, :-1], before[:, :-1])


def later_token_padded(model: nn.Module) -> float:
    """The same in a padded row."""
    row = text(model)
    changed = torch.cat([row[:-1], (row[-1:] + 1) % vocabulary(model)])
    found = []
    for one in (row, changed):
        ids, keep = laid(one, WIDE, "right", padding_id(model))
        found.append(read(model, ids[None], keep[None])[0][:, : LENGTH - 1])
    return gap(found[1], found[0])


def decoder_future(model: nn.Module) -> float:
    """How much a decoder's earlier tokens change with its last one."""
    found = []
    for last in (7, 8):
        decoder = torch.tensor([[2, 9, 10, 11, last]])
        keep = torch.ones(1, LENGTH, dtype=torch.long)
        out = model(input_ids=text(model)[None], attention_mask=keep, decoder_input_ids=decoder)
        found.append(out.last_hidden_state[:, :-1])
    return gap(*found)


def neighbours(model: nn.Module) -> float:
    """How much a row depends on the other one, nothing being padded, and on their order."""
    row, one, two = text(model), text(model, seed=1), text(model, seed=2)
    keep = torch.ones(3, LENGTH, dtype=torch.long)
    alone = read(model, row[None], keep[:1])
    worst = 0.0
    for ids, place in (([row, one, two], 0), ([row, two, one], 0), ([one, row, two], 1), ([two, one, row], 2)):
        found = read(model, torch.stack(ids), keep)
        for mine, lone in zip(found, alone, strict=True):
            worst = max(worst, gap(None if mine is None else mine[place : place + 1], lone))
    return worst


def uneven_neighbours(model: nn.Module) -> float:
    """How much a full row depends on how much of its neighbour is padding."""
    row = text(model)
    alone = read(model, row[None], torch.ones(1, LENGTH, dtype=torch.long))
    worst = 0.0
    for short in (2, 5):
        other, keep = laid(text(model, short, seed=4), LENGTH, "right", padding_id(model))
        found = read(model, torch.stack([other, row]), torch.stack([keep, torch.ones_like(keep)]))
        worst = max([worst, *(gap(None if m is None else m[1:], a) for m, a in zip(found, alone, strict=True))])
    return worst


def deaf(model: nn.Module) -> float:
    """1 where the tokens do not hear the last one, padded or not; else how much padding changes."""
    return 1.0 if min(later_token(model), later_token_padded(model)) < 1e-9 else padded(model)


def repeated(model: nn.Module) -> float:
    """How much two equal calls differ."""
    ids, keep = text(model)[None], torch.ones(1, LENGTH, dtype=torch.long)
    first, *more = (read(model, ids, keep) for _ in range(4))
    return max(gap(mine, its) for found in more for mine, its in zip(found, first, strict=True))


def blocks(row_a: int, row_b: int, causal: bool) -> Tensor:
    """A 4-D bool mask that keeps two texts in one row apart, True = may attend."""
    allowed = torch.block_diag(torch.ones(row_a, row_a), torch.ones(row_b, row_b)).bool()
    return (allowed.tril() if causal else allowed)[None, None]


def packed(model: nn.Module) -> float:
    """How much two texts in one row, kept apart by a 4-D mask, differ from rows of their own."""
    if not takes(model, "position_ids"):
        return 0.0
    row, other = text(model), text(model, OTHER, seed=1)
    offset = model.config.pad_token_id + 1 if counts_itself(model) else 0
    place = torch.cat([torch.arange(LENGTH), torch.arange(OTHER)])[None] + offset
    mask = blocks(LENGTH, OTHER, is_causal(model))
    if model.config._attn_implementation == "eager":
        dtype = next(model.parameters()).dtype
        mask = torch.zeros(mask.shape, dtype=dtype).masked_fill(~mask, torch.finfo(dtype).min)
    if model.config.model_type == "modernbert":  # which takes a mask for each kind of layer
        near = (place[0][:, None] - place[0][None]).abs() <= model.config.sliding_window
        mask = {"full_attention": mask, "sliding_attention": mask & near}
    both, _ = read(model, torch.cat([row, other])[None], mask, position_ids=place)
    first, _ = read(model, row[None], torch.ones(1, LENGTH, dtype=torch.long))
    second, _ = read(model, other[None], torch.ones(1, OTHER, dtype=torch.long))
    return max(gap(both[:, :LENGTH], first), gap(both[:, LENGTH:], second))


def empty_row(model: nn.Module) -> float:
    """Infinite where a row of padding alone is no number, else how much it changes the other row."""
    row = text(model)
    ids = torch.stack([row, torch.full((LENGTH,), padding_id(model))])
    keep = torch.stack([torch.ones(LENGTH, dtype=torch.long), torch.zeros(LENGTH, dtype=torch.long)])
    found = read(model, ids, keep)
    if any(part is not None and not part.isfinite().all() for part in found):
        return float("inf")
    alone = read(model, row[None], keep[:1])
    return max(gap(None if m is None else m[:1], a) for m, a in zip(found, alone, strict=True))


def narrow(model: nn.Module) -> float:
    """Infinite where a padded row is no number in float16 or bfloat16."""
    worst = 0.0
    for dtype in (torch.float16, torch.bfloat16):
        model.to(dtype)
        for side in ("right", "left"):
            ids, keep = laid(text(model), WIDE, side, padding_id(model))
            place = slice(0, LENGTH) if side == "right" else slice(WIDE - LENGTH, WIDE)
            found = read(model, ids[None], keep[None])
            finite = all(p is None or p[:, place].isfinite().all() for p in found[:1]) and (
                found[1] is None or bool(found[1].isfinite().all())
            )
            worst = worst if finite else float("inf")
    return worst


def options(model: nn.Module) -> float:
    """How much a result depends on options that only say what is given back."""
    if not hasattr(model, "config"):
        return 0.0
    ids, keep = laid(text(model), WIDE, "right", padding_id(model))
    worst = 0.0
    for name in ("use_cache", "output_attentions", "output_hidden_states"):
        if name == "use_cache" and not takes(model, "use_cache"):
            continue
        off, on = (read(model, ids[None], keep[None], **{name: value})[0] for value in (False, True))
        worst = max(worst, gap(on[:, :LENGTH], off[:, :LENGTH]))
    return worst


def forms(model: nn.Module) -> float:
    """How much a result depends on the dtype of a mask, or on none standing for ones."""
    ids, keep = laid(text(model), WIDE, "right", padding_id(model))
    expected, _ = read(model, text(model)[None], torch.ones(1, LENGTH, dtype=torch.long))
    worst = gap(read(model, text(model)[None], None)[0], expected)
    for dtype in (torch.long, torch.bool, torch.float32):
        worst = max(worst, gap(read(model, ids[None], keep[None].to(dtype))[0][:, :LENGTH], expected))
    return worst


def four_dimensions(model: nn.Module) -> float:
    """How much an additive or boolean 4-D mask differs from the 2-D one that it spells out, where one is taken."""
    config = getattr(model, "config", None)
    if config is None or config.is_encoder_decoder or config.model_type in NO_FOUR_DIMENSIONS.split():
        return 0.0
    ids, keep = laid(text(model), WIDE, "right", padding_id(model))
    expected, _ = read(model, ids[None], keep[None])
    allowed = keep.bool()[None, None, None].expand(-1, -1, WIDE, -1)
    if is_causal(model):
        allowed = allowed.tril()
    additive = torch.zeros(allowed.shape, dtype=expected.dtype).masked_fill(~allowed, torch.finfo(expected.dtype).min)
    found = [read(model, ids[None], mask)[0][:, :LENGTH] for mask in (additive, allowed)]
    return max(gap(one, expected[:, :LENGTH]) for one in found)


def gradient(model: nn.Module) -> float:
    """The share of the gradient of the real tokens' sum of squares that the embeddings of padded slots receive."""
    ids, keep = laid(text(model), WIDE, "right", padding_id(model))
    embedded: list[Tensor] = []

    def note(module: nn.Module, given: Any, found: Tensor) -> None:
        if isinstance(given[0], Tensor) and given[0].shape == (1, WIDE) and torch.equal(given[0][0], ids):
            found.requires_grad_().retain_grad()
            embedded.append(found)

    hooks = [module.register_forward_hook(note) for module in model.modules() if isinstance(module, nn.Embedding)]
    tokens, _ = read(model, ids[None], keep[None])
    for hook in hooks:
        hook.remove()
    tokens[:, :LENGTH].square().sum().backward()
    into = embedded[0].grad[0].abs()
    return float(into[LENGTH:].max() / into.max())


def without_dropout(model: nn.Module) -> None:
    """Set every probability of dropping something to 0."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name, value in vars(module).items():
            if isinstance(value, float) and "drop" in name:
                setattr(module, name, 0.0)


def training(model: nn.Module) -> float:
    """How much training mode, all dropout being 0, differs from evaluation on a padded row."""
    without_dropout(model)
    ids, keep = laid(text(model), WIDE, "right", padding_id(model))
    found = [read(model.train(mode), ids[None], keep[None])[0][:, :LENGTH] for mode in (False, True)]
    model.eval()
    return gap(found[1], found[0])


def checkpointing(model: nn.Module) -> float:
    """How much gradient checkpointing changes in training, all dropout being 0."""
    if not getattr(model, "supports_gradient_checkpointing", False):
        return 0.0
    without_dropout(model)
    ids, keep = laid(text(model), WIDE, "right", padding_id(model))
    model.train()
    with torch.enable_grad():
        plain = read(model, ids[None], keep[None], **_no_cache(model))[0][:, :LENGTH].detach()
        model.activation_checkpointing_enable()
        saved = read(model, ids[None], keep[None], **_no_cache(model))[0][:, :LENGTH].detach()
    model.activation_checkpointing_disable()
    model.eval()
    return gap(saved, plain)


def _no_cache(model: nn.Module) -> dict[str, bool]:
    return {"use_cache": False} if takes(model, "use_cache") else {}


def decoder_padding(model: nn.Module) -> float:
    """How much the ids in a decoder's left padding reach its tokens."""
    keep = torch.ones(1, LENGTH, dtype=torch.long)
    found = []
    for filler in (7, 8):
        decoder = torch.tensor([[filler, filler, 2, 9, 10, 11]])
        shown = torch.tensor([[0, 0, 1, 1, 1, 1]])
        out = model(
            input_ids=text(model)[None],
            attention_mask=keep,
            decoder_input_ids=decoder,
            decoder_attention_mask=shown,
        )
        found.append(out.last_hidden_state[:, 2:])
    return gap(*found)
