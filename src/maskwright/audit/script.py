"""A check as a script in plain torch and transformers, to run and to send to a maintainer."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from maskwright.audit.compare import Check, difference
from maskwright.audit.subject import Outputs, Subject
from maskwright.audit.trial import Trial, lay

_WITHOUT_DROPOUT = """for part in (*model.modules(), model.config):
        rates = [k for k, v in vars(part).items() if isinstance(v, float) and ("drop" in k or k == "p")]
        vars(part).update(dict.fromkeys(rates, 0.0))"""
_SETTINGS = {
    "attn_implementation": "model.set_attn_implementation({!r})",
    "training": "model.train({})",
    "no_dropout": _WITHOUT_DROPOUT,
    "packed": "maskwright.pack(model)",
}
_EMBEDDED = """
def embedded(ids, keep, value):
    states = model.get_input_embeddings()(torch.tensor(ids))
    return torch.where(torch.tensor(keep)[..., None], states, value)

"""


def script_of(check: Check, subject: Subject) -> str:
    """Python source that makes both calls and prints how far their outputs are apart."""
    verb = "should differ" if check.must == "differ" else "should agree"
    output, by_row = _output(check, subject)
    pairs = [f"    ({a}, {b})," for a, b in _places(check, subject, by_row=by_row)]
    lines = [line for name in ("a", "b") for line in _call(name, getattr(check, name), subject)]
    packs = any(trial.settings.get("packed") for trial in (check.a, check.b))
    imports = "import maskwright\nimport torch" if packs else "import torch"
    embeds = check.a.pad_value is not None or check.b.pad_value is not None
    return f"""# {check.name}: these two calls {verb} on the same {"rows" if by_row else "tokens"}
{imports}
{_model(subject)}
model.eval()
{_EMBEDDED if embeds else ""}with torch.no_grad():
{chr(10).join("    " + line for line in lines)}
for one, other in [
{chr(10).join(pairs)}
]:
    print((a{output}[one] - b{output}[other]).abs().max().item())
"""


def _model(subject: Subject) -> str:
    if subject.takes_features:
        name = "from sentence_transformers import SentenceTransformer"
        return f"{name}\n\nmodel = SentenceTransformer({subject.name!r}, device='cpu')"
    if subject.inner is None or subject.model is not subject.inner:
        return "\nmodel = ...  # your model"
    name, config = type(subject.inner).__name__, subject.config
    folder = getattr(config, "_name_or_path", "")
    if folder:
        return f"from transformers import {name}\n\nmodel = {name}.from_pretrained({folder!r})"
    kind = type(config).__name__
    changed = {key: value for key, value in config.to_diff_dict().items() if _is_plain(key, value)}
    arguments = ", ".join(f"{key}={value!r}" for key, value in changed.items())
    return f"from transformers import {kind}, {name}\n\ntorch.manual_seed(0)\nmodel = {name}({kind}({arguments}))"


def _output(check: Check, subject: Subject) -> tuple[str, bool]:
    """How the output that differs most is got from what the model gives back, and whether it is one by row."""
    try:
        a = subject(check.a)
        name = difference(check, a, subject(check.b)).output
    except Exception:  # the script is to show what the call raises
        return "[0]", False
    name = name or next(iter(a.tokens if check.outputs != "rows" else a.rows), "0")
    return _path(name, a), name in a.rows


def _path(name: str, outputs: Outputs) -> str:
    if name == "output" and outputs.n_values == 1:
        return ""
    return "".join(f"[{part}]" if part.isdigit() else f"[{part!r}]" for part in name.split("."))


def _places(check: Check, subject: Subject, *, by_row: bool) -> list[tuple[str, str]]:
    return [
        (_place(check.a, first, check, subject, by_row=by_row), _place(check.b, second, check, subject, by_row=by_row))
        for first, second in check.pairs
    ]


def _place(trial: Trial, sequence: int, check: Check, subject: Subject, *, by_row: bool) -> str:
    laid = lay(trial, subject.pad_id)
    row, start = laid.places[sequence]
    if by_row:
        return str(row)
    slots = laid.slots(sequence)[: check.until].tolist()
    is_run = slots == list(range(start, start + len(slots)))
    return f"({row}, slice({start}, {start + len(slots)}))" if is_run else f"({row}, {slots})"


def _call(name: str, trial: Trial, subject: Subject) -> list[str]:
    laid = lay(trial, subject.pad_id)
    given = subject.given(laid, trial)
    if "inputs_embeds" in given:
        words = f"model.get_input_embeddings()(torch.tensor({laid.ids.tolist()}))"
        given["inputs_embeds"] = _Source(words)
    if trial.pad_value is not None:
        words = f"{laid.ids.tolist()}, {laid.keep.tolist()}, float('{trial.pad_value}')"
        given["inputs_embeds"] = _Source(f"embedded({words})")
    places, named = subject.bound(given, laid, trial.part)
    arguments = [_source(value) for value in places] + [f"{key}={_source(value)}" for key, value in named.items()]
    known = [_SETTINGS[key].format(value) for key, value in trial.settings.items() if value and key in _SETTINGS]
    return [*known, f"{name} = model({', '.join(arguments)})"]


class _Source(str):
    """An argument that is source text already."""


def _source(value: Any) -> str:
    if isinstance(value, _Source):
        return str(value)
    if isinstance(value, Tensor):
        dtype = "" if value.dtype in (torch.int64, torch.bool, torch.float32) else f", dtype={value.dtype}"
        return f"torch.tensor({value.tolist()}{dtype})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_source(part)}" for key, part in value.items()) + "}"
    return repr(value)


def _is_plain(key: str, value: object) -> bool:
    if key.startswith("_") or key in ("transformers_version", "model_type", "architectures", "dtype"):
        return False
    try:
        return value is not None and bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError):
        return False
