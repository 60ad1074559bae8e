"""Encoders without a row in the family table: accepted only if they prove exact on random tokens."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from maskwright.attention import register
from maskwright.encoders.families import Family
from maskwright.errors import MaskwrightError, UnsupportedModelError

_TOLERANCE = 1e-4  # relative to the largest state; float32 rounding stays two orders below


def probe_family(base: PreTrainedModel) -> Family:
    """A Family for an unknown model type, or a refusal that says what went wrong.

    A copy of the encoder runs stock and packed, in evaluation mode, on rows with right padding, left padding and holes.
    Accepted is the way of numbering positions under which every attention layer went through packed attention and the
    kept tokens' states agree.

    Raises:
        UnsupportedModelError: no way did.
    """
    from maskwright.encoders.pack import pack_as  # packing asks this module about unknown families

    model_type = base.config.model_type
    if getattr(base.config, "vocab_size", None) is None:
        raise UnsupportedModelError(f"{model_type} cannot be packed: it reads no token ids")
    twin = copy.deepcopy(base).float().eval()  # in half precision rounding could hide a leak, or look like one
    inputs = _random_batch(twin)
    failures = []
    try:
        with torch.no_grad():
            stock = twin(**inputs).last_hidden_state
    except Exception as error:
        raise UnsupportedModelError(
            f"{model_type} is unknown, and a probe of the stock model failed: {error}"
        ) from error
    for positions in ("slots", "from_pad"):
        family = Family(model_type, "exact", "proved exact when probed", positions=positions)
        try:
            with torch.no_grad(), register.counting() as calls:
                packed = pack_as(family, copy.deepcopy(twin))(**inputs).last_hidden_state
        except (MaskwrightError, RuntimeError, ValueError, TypeError, IndexError, AttributeError, KeyError) as error:
            failures.append(str(error))
            continue
        if calls[0] < getattr(base.config, "num_hidden_layers", 1):
            failures.append("its attention does not go through transformers' attention interface")
        elif not _agree(stock, packed, inputs["attention_mask"]):
            failures.append("its states differ from the stock model's on kept tokens")
        else:
            return family
    raise UnsupportedModelError(
        f"{model_type} is not in the family table and did not prove exact: {failures[-1]} (see `maskwright families`)"
    )


def _random_batch(base: PreTrainedModel) -> dict[str, Tensor]:
    """Five rows of up to 11 random tokens: full, right-padded, left-padded, with a hole, and of one token."""
    generator = torch.Generator().manual_seed(0)
    config: Any = base.config
    pad = config.pad_token_id if getattr(config, "pad_token_id", None) is not None else 0
    ids = torch.randint(0, config.vocab_size, (5, 11), generator=generator)
    ids[ids == pad] = (pad + 1) % config.vocab_size
    mask = torch.ones_like(ids)
    mask[1, 7:], mask[2, :3], mask[3, 4:6], mask[4, 1:] = 0, 0, 0, 0
    ids[1, 7:], ids[2, :3], ids[4, 1:] = pad, pad, pad
    device = next(base.parameters()).device
    return {"input_ids": ids.to(device), "attention_mask": mask.to(device)}


def _agree(stock: Tensor, packed: Tensor, mask: Tensor) -> bool:
    keep = mask.bool()
    difference = (stock - packed)[keep].abs().max()
    return bool(difference <= _TOLERANCE * stock[keep].abs().max())
