"""A check as a script in plain torch and transformers, to run and to send to a maintainer."""

from __future__ import annotations

import torch

from maskwright.audit.compare import Check
from maskwright.audit.subject import Subject, mask_of
from maskwright.audit.trial import Trial, lay


def script_of(check: Check, subject: Subject) -> str:
    """Python source that makes both calls and prints how far their outputs are apart."""
    pairs = [f"    ({a}, {b})," for a, b in _slices(check, subject)]
    verb = "should differ" if check.must == "differ" else "should agree"
    return f"""# {check.name}: these two calls {verb} on the same tokens
import torch
{_model(subject)}
model.eval()
with torch.no_grad():
    a = model({_call(check.a, subject)})[0]
    b = model({_call(check.b, subject)})[0]
for one, other in [
{chr(10).join(pairs)}
]:
    print((a[one] - b[other]).abs().max().item())
"""


def _model(subject: Subject) -> str:
    if subject.inner is None:
        return "model = ...  # your model"
    name, config = type(subject.inner).__name__, subject.config
    folder = getattr(config, "_name_or_path", "")
    if folder:
        return f"from transformers import {name}\n\nmodel = {name}.from_pretrained({folder!r})"
    kind = type(config).__name__
    changed = {key: value for key, value in config.to_diff_dict().items() if _is_plain(key, value)}
    arguments = ", ".join(f"{key}={value!r}" for key, value in changed.items())
    return f"from transformers import {kind}, {name}\n\ntorch.manual_seed(0)\nmodel = {name}({kind}({arguments}))"


def _slices(check: Check, subject: Subject) -> list[tuple[str, str]]:
    found = []
    for first, second in check.pairs:
        sides = []
        for trial, sequence in ((check.a, first), (check.b, second)):
            laid = lay(trial, subject.pad_id)
            row, start = laid.places[sequence]
            n = len(trial.sequences[sequence]) if check.until is None else check.until
            sides.append(f"({row}, slice({start}, {start + n}))")
        found.append((sides[0], sides[1]))
    return found


def _call(trial: Trial, subject: Subject) -> str:
    laid = lay(trial, subject.pad_id)
    arguments = [f"input_ids=torch.tensor({laid.ids.tolist()})"]
    if trial.mask != "none":
        given = mask_of(laid, trial.mask, torch.float32, causal=subject.direction == "causal")
        arguments.append(f"attention_mask=torch.tensor({given.tolist()})")
    if trial.positions == "of tokens":
        arguments.append(f"position_ids=torch.tensor({(laid.position + subject.first_position).tolist()})")
    arguments += [f"{name}={value!r}" for name, value in trial.options.items()]
    return ", ".join(arguments)


def _is_plain(key: str, value: object) -> bool:
    hidden = key.startswith("_") or key in ("transformers_version", "model_type", "architectures", "dtype")
    return not hidden and isinstance(value, (int, float, str, bool))
