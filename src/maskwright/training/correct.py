"""Write a checkpoint again with corrected input embeddings, and everything else as it was."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
import yaml
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from maskwright.errors import InputError
from maskwright.objectives.correction import expected_embeddings
from maskwright.objectives.corruption import BERT_SHARES, Shares
from maskwright.training.models import load_tokenizer
from maskwright.training.recipe import download

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"


@dataclass(frozen=True, slots=True)
class Correction:
    """What was done to a checkpoint. `changed` and `kept` count rows of the table; `moved` is their mean distance."""

    source: str
    output: str
    table: str
    rate: float
    shares: tuple[float, float, float]
    changed: int
    kept: int
    moved: float
    untied: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def correct_embeddings(
    model: str | Path,
    output: str | Path,
    *,
    rate: float | None = None,
    shares: tuple[float, float, float] | None = None,
) -> Correction:
    """Copy a masked language model's folder, its input embeddings replaced by what pretraining saw on average.

    `E[i] <- (1 - r) E[i] + r (a E[mask] + b E[i] + c mean(E))`, for all tokens but the special ones ([CLS], [PAD],
    [MASK], ...), which pretraining never chooses. The vocabulary head keeps its old values: where it shared the table,
    it gets a copy, and `tie_word_embeddings` becomes false. Only safetensors are read and written.

    Args:
        model: a local folder or hub name.
        output: a new folder.
        rate: r, the share of tokens that pretraining chose. By default what the folder's own `config.yaml` says, if
            `maskwright pretrain` wrote it (the mean, if it changed); else 0.15.
        shares: (a, b, c): of the chosen tokens, the shares that became [MASK], stayed, became a random token. By
            default the run's own; else BERT's, (0.8, 0.1, 0.1).

    Raises:
        InputError: no safetensors, no [MASK] token, a table that is not found, an output folder that is not empty, or
            a run that put no [MASK] in its encoder's input and so leaves nothing to correct.

    Example:
        >>> import tempfile, torch
        >>> from transformers import BertConfig, BertForMaskedLM, BertTokenizer
        >>> tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]
        >>> folder = tempfile.mkdtemp()
        >>> config = BertConfig(vocab_size=7, hidden_size=22, num_attention_heads=2, num_hidden_layers=1)
        >>> BertForMaskedLM(config).save_pretrained(folder)
        >>> _ = BertTokenizer(vocab={token: i for i, token in enumerate(tokens)}).save_pretrained(folder)
        >>> done = correct_embeddings(folder, folder + "/corrected", rate=0.15)
        >>> done.changed, done.kept, done.untied
        (2, 5, True)

    Source: masked language modelling seen as Dropout; reported without significant effect on CLUE at base size.
    """
    source, folder = _folder(str(model)), Path(output)
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty", "output")
    tokenizer = load_tokenizer(str(source))
    if tokenizer.mask_token_id is None:
        raise InputError(f"{model} has no [MASK] token, so its embeddings were never mixed with one", "model")
    own_rate, own_shares = _pretraining_of(source) if rate is None or shares is None else (0.0, BERT_SHARES)
    rate, shares = own_rate if rate is None else rate, own_shares if shares is None else shares
    config = AutoConfig.from_pretrained(source)
    shards = _shards(source)
    table_names, head_name, aliases = _names(config)
    name, file = _find(table_names, shards, str(model))
    weights = load_file(source / file)
    keep = torch.tensor(sorted(tokenizer.all_special_ids))
    keep = keep[keep < len(weights[name])]
    old = weights[name]
    weights[name] = expected_embeddings(old, tokenizer.mask_token_id, rate, Shares(*shares), keep)
    untied = head_name is not None
    if head_name is not None:
        weights[head_name] = old.clone()
        weights |= _copies_of(aliases, source, shards, weights)
    _write(source, folder, file, weights, untied=untied)
    moved = (weights[name].double() - old.double()).norm(dim=1).mean().item()
    mask, kept, random = shares
    done = Correction(
        str(model),
        str(folder),
        name,
        rate,
        (mask, kept, random),
        len(old) - len(keep),
        len(keep),
        moved,
        untied,
    )
    _write_card(folder, done)
    return done


def correct_in_memory(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, source: str) -> None:
    """Replace a loaded model's input embeddings by what pretraining saw on average, as `correct_embeddings` would.

    Rate and shares are those of the run that made `source`, or BERT's. A head that shares the table keeps the old one.

    Args:
        model: just loaded from `source`, with any head.
        tokenizer: its tokenizer; special tokens stay as they are.
        source: a local folder or hub name.

    Raises:
        InputError: no [MASK] token, or a run that put no [MASK] in its encoder's input.
    """
    if tokenizer.mask_token_id is None:
        raise InputError(f"{source} has no [MASK] token, so its embeddings were never mixed with one", "model")
    rate, shares = _pretraining_of(Path(source).expanduser())
    embeddings, head = model.get_input_embeddings(), model.get_output_embeddings()
    special = torch.tensor(sorted(tokenizer.all_special_ids))
    old = embeddings.weight
    if head is not None and head.weight is old:
        model.config.tie_word_embeddings = False
    keep = special[special < len(old)]
    embeddings.weight = nn.Parameter(expected_embeddings(old, tokenizer.mask_token_id, rate, shares, keep))


def _folder(name: str) -> Path:
    folder = Path(name).expanduser()
    return folder if folder.is_dir() else download(name)


def _pretraining_of(source: Path) -> tuple[float, Shares]:
    """Rate and shares of a folder that `maskwright pretrain` wrote; BERT's for any other.

    Raises:
        InputError: a run that put no [MASK] in its encoder's input.
    """
    path = source / "config.yaml"
    run = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else None
    if not isinstance(run, dict) or "objective" not in run:
        return 0.15, BERT_SHARES
    if run["objective"] != "mlm":
        raise InputError(f"was pretrained by {run['objective']}: its encoder never saw [MASK]", str(source))
    if run["thesaurus"] is not None or run["nearest"] is not None:
        raise InputError("was pretrained with similar words in the place of [MASK]: nothing to correct", str(source))
    final = run["rate"] if run["final_rate"] is None else run["final_rate"]
    return (run["rate"] + final) / 2, Shares(*run["shares"])


def _shards(source: Path) -> dict[str, str]:
    """The file of every weight."""
    if (source / INDEX).exists():
        files: dict[str, str] = json.loads((source / INDEX).read_text(encoding="utf-8"))["weight_map"]
        return files
    if not (source / WEIGHTS).exists():
        raise InputError(f"{source} has no {WEIGHTS}; only safetensors are read", "model")
    with safe_open(source / WEIGHTS, "pt") as file:
        return dict.fromkeys(file.keys(), WEIGHTS)


def _names(config: PreTrainedConfig) -> tuple[list[str], str | None, list[set[str]]]:
    """Names that the input embeddings may have in a file, that of a head that shares them, and other shared ones."""
    architecture = getattr(transformers, (config.architectures or [""])[0], None)
    with torch.device("meta"):
        model: nn.Module = AutoModel.from_config(config) if architecture is None else architecture(config)
    table, head = model.get_input_embeddings().weight, model.get_output_embeddings()  # type: ignore[operator]
    prefix = f"{model.base_model_prefix}."
    names = [name for name, value in model.named_parameters(remove_duplicate=False) if value is table]
    head_name = None
    if head is not None and head.weight is table:
        head_name = next(f"{name}.weight" for name, module in model.named_modules() if module is head)
        names = [name for name in names if name != head_name]
    sharing: dict[int, set[str]] = {}
    for name, value in model.named_parameters(remove_duplicate=False):
        if value is not table:
            sharing.setdefault(id(value), set()).add(name)
    aliases = [group for group in sharing.values() if len(group) > 1]
    return [*names, *(n.removeprefix(prefix) for n in names), *(prefix + n for n in names)], head_name, aliases


def _find(names: list[str], shards: dict[str, str], model: str) -> tuple[str, str]:
    for name in names:
        if name in shards:
            return name, shards[name]
    raise InputError(f"{model} holds no input embeddings under {', '.join(dict.fromkeys(names))}", "model")


def _copies_of(
    aliases: list[set[str]], source: Path, shards: dict[str, str], weights: dict[str, Tensor]
) -> dict[str, Tensor]:
    """What else was shared only because the table was (BERT's output bias): a copy under every name a file lacks."""
    copies: dict[str, Tensor] = {}
    for group in aliases:
        known = next((name for name in sorted(group) if name in shards), None)
        if known is not None:
            value = weights[known] if known in weights else load_file(source / shards[known])[known]
            copies |= {name: value.clone() for name in group if name not in shards}
    return copies


def _write(source: Path, folder: Path, file: str, weights: dict[str, Tensor], *, untied: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        if path.is_file() and path.name != file and path.suffix not in (".bin", ".pt", ".pth", ".h5", ".msgpack"):
            shutil.copyfile(path, folder / path.name)
    save_file(weights, folder / file, metadata={"format": "pt"})
    if untied:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        config["tie_word_embeddings"] = False
        _write_json(folder / "config.json", config)
    if (folder / INDEX).exists():
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        index["weight_map"] |= dict.fromkeys(weights, file)
        _write_json(folder / INDEX, index)


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def _write_card(folder: Path, done: Correction) -> None:
    path = folder / "README.md"
    before = path.read_text(encoding="utf-8").rstrip() + "\n\n" if path.exists() else ""
    mask, keep, random = done.shares
    head = "got a copy of the old table" if done.untied else "does not share the table"
    path.write_text(
        f"""{before}## Embedding correction

`{done.table}` was replaced by what masked pretraining saw on average (`maskwright correct {done.source}`):
`E[i] <- (1 - r) E[i] + r (a E[mask] + b E[i] + c mean(E))` with r = {done.rate}, a = {mask}, b = {keep}, c = {random}.
{done.changed} rows changed, by {done.moved:.4g} on average; {done.kept} rows of special tokens stayed. The vocabulary
head {head}. No benchmark has shown that this helps in general: compare with the original on your task.
""",
        encoding="utf-8",
    )
