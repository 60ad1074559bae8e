"""One vector a text: tokenise all, sort by length, compute real tokens only, pool without unpacking."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from maskwright import pooling as pools
from maskwright.core.layout import Layout
from maskwright.data.rows import read_lines, read_rows
from maskwright.encoders.pack import pack, packed_states, packing_of
from maskwright.errors import InputError
from maskwright.training.config import EmbedConfig, Pooling
from maskwright.training.models import load_encoder, load_tokenizer, resolve_max_length
from maskwright.training.ordering import batches_by_length
from maskwright.training.recipe import apply_head, read_recipe

_POOLS: dict[Pooling, Callable[[Tensor, Layout], Tensor]] = {"mean": pools.mean, "cls": pools.first, "max": pools.max}
_CHUNK = 16384  # texts tokenised at once: bounds the memory that token lists take


@dataclass(frozen=True, slots=True)
class EmbedResult:
    """What an embedding run came to; `n_tokens` counts real tokens, special tokens included."""

    output: str
    n_texts: int
    width: int
    n_tokens: int
    n_truncated: int
    pooling: Pooling
    normalize: bool


@dataclass(frozen=True)
class TokenIds:
    """The token ids of N texts, laid end to end: text i is `ids[ends[i] - lengths[i]:ends[i]]`."""

    ids: NDArray[np.int64]
    lengths: NDArray[np.int64]
    n_truncated: int

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """Where each text ends, `[N]`."""
        return np.cumsum(self.lengths)

    def batch(self, rows: NDArray[np.int64], pad_id: int) -> dict[str, Tensor]:
        """Right-padded `input_ids` and `attention_mask`, both int64 `[B, L]`."""
        lengths = self.lengths[rows]
        keep = np.arange(lengths.max()) < lengths[:, None]
        input_ids = np.full(keep.shape, pad_id, dtype=np.int64)
        spans = zip(self.ends[rows] - lengths, self.ends[rows], strict=True)
        input_ids[keep] = np.concatenate([self.ids[start:end] for start, end in spans])
        return {"input_ids": torch.from_numpy(input_ids), "attention_mask": torch.from_numpy(keep.astype(np.int64))}


@dataclass(frozen=True, slots=True)
class Pooler:
    """From the states of real tokens to one vector a text."""

    pooling: Pooling = "mean"
    normalize: bool = False
    head: tuple[nn.Module, ...] = ()

    def __call__(self, states: Tensor, layout: Layout) -> Tensor:
        """`[T, D]` -> float32 `[B, D]` (or `[B, E]` after a head)."""
        pooled = apply_head(_POOLS[self.pooling](states.float(), layout), self.head)
        return F.normalize(pooled, dim=-1) if self.normalize else pooled


def tokenize(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], max_length: int) -> TokenIds:
    """Token ids of every text, special tokens added, cut to `max_length` tokens."""
    chunks = [_tokenize(tokenizer, texts[start : start + _CHUNK], max_length) for start in range(0, len(texts), _CHUNK)]
    ids, lengths, n_truncated = zip(*chunks, strict=True)
    return TokenIds(np.concatenate(ids), np.concatenate(lengths), sum(n_truncated))


def _tokenize(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], max_length: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    options = {"return_attention_mask": False, "return_token_type_ids": False, "verbose": False}
    found = tokenizer(list(texts), truncation=True, max_length=max_length, **options)["input_ids"]
    lengths = np.fromiter(map(len, found), dtype=np.int64, count=len(found))
    ids = np.fromiter(chain.from_iterable(found), dtype=np.int64, count=int(lengths.sum()))
    full = [texts[i] for i in np.flatnonzero(lengths == max_length).tolist()]
    n_cut = sum(len(row) > max_length for row in tokenizer(full, **options)["input_ids"]) if full else 0
    return ids, lengths, n_cut


def embed_texts(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    *,
    pooling: Pooling = "mean",
    normalize: bool = False,
    max_tokens: int = 4096,
    max_length: int | None = None,
    head: tuple[nn.Module, ...] = (),
    progress: bool = False,
) -> NDArray[np.float32]:
    """Embed texts with a packed (or stock) encoder: float32 `[N, D]`, in the texts' order.

    Args:
        model: an encoder without task head, in evaluation mode; bfloat16 weights compute in bfloat16.
        tokenizer: its tokenizer.
        texts: N texts.
        pooling: "mean" over real tokens, "cls" (the first token), or "max".
        normalize: scale every vector to length 1.
        max_tokens: padded slots in a batch at most.
        max_length: longest text in tokens, special tokens included; default: the model's.
        head: dense layers after pooling.
        progress: show a bar, once it takes more than two seconds.

    Raises:
        InputError: `max_length` is more than the model has positions for.
    """
    if not texts:
        return np.zeros((0, model.config.hidden_size), dtype=np.float32)
    tokens = tokenize(tokenizer, texts, resolve_max_length(max_length, model, tokenizer))
    pooler = Pooler(pooling, normalize, head)
    return embed_tokens(model, tokens, pooler, tokenizer.pad_token_id or 0, max_tokens, progress=progress)


def embed_tokens(
    model: PreTrainedModel,
    tokens: TokenIds,
    pooler: Pooler,
    pad_id: int,
    max_tokens: int,
    *,
    progress: bool = False,
) -> NDArray[np.float32]:
    """Embed tokenised texts: float32 `[N, D]`, in their order; see `embed_texts`."""
    vectors: NDArray[np.float32] | None = None
    bar = tqdm(total=int(tokens.lengths.sum()), unit="token", unit_scale=True, delay=2, disable=not progress)
    with bar, torch.inference_mode():
        for rows in batches_by_length(tokens.lengths, max_tokens):
            inputs = {name: part.to(model.device) for name, part in tokens.batch(rows, pad_id).items()}
            pooled = pooler(*_states(model, inputs)).cpu().numpy()
            if vectors is None:
                vectors = np.empty((len(tokens.lengths), pooled.shape[1]), dtype=np.float32)
            vectors[rows] = pooled
            bar.update(int(tokens.lengths[rows].sum()))
    assert vectors is not None
    return vectors


def run_embed(config: EmbedConfig) -> EmbedResult:
    """Embed the texts of a file into a file, as told.

    Raises:
        InputError: a model, file or option that cannot be used, in one line.
    """
    recipe = read_recipe(config.model)
    texts = read_texts(config.input, config.text_column)
    tokenizer = load_tokenizer(recipe.folder)
    model = load_encoder(recipe.folder, torch.bfloat16 if config.bf16 else torch.float32)
    if torch.cuda.is_available():
        model.cuda()
    if config.packed:
        pack(model)
    prompt = recipe.prompt(config.prompt_name)
    shown = [prompt + text for text in texts]
    max_length = resolve_max_length(config.max_length or recipe.max_length, model, tokenizer)
    tokens = tokenize(tokenizer, [text.lower() for text in shown] if recipe.lower_case else shown, max_length)
    normalize = recipe.normalize if config.normalize is None else config.normalize
    pooler = Pooler(config.pooling or recipe.pooling, normalize, recipe.head)
    pad_id = tokenizer.pad_token_id or 0
    vectors = embed_tokens(model, tokens, pooler, pad_id, config.max_tokens_per_batch, progress=True)
    write_vectors(Path(config.output), vectors, texts)
    return EmbedResult(
        output=config.output,
        n_texts=len(texts),
        width=vectors.shape[1],
        n_tokens=int(tokens.lengths.sum()),
        n_truncated=tokens.n_truncated,
        pooling=pooler.pooling,
        normalize=normalize,
    )


def read_texts(file: str, column: str = "text") -> list[str]:
    """The texts of a table's column, or of a plain text file, one a line.

    Raises:
        InputError: the file cannot be read, the column is missing, or a text is empty; with file and line.
    """
    if Path(file).suffix in {".jsonl", ".json", ".csv", ".tsv", ".parquet"}:
        found = [(where, row.get(column)) for where, row in read_rows(file) if _has_column(row, column, where)]
    else:
        found = [(f"{file}:{number}", line) for number, line in enumerate(read_lines(Path(file)), 1)]
    for where, text in found:
        if not isinstance(text, str) or not text.strip():
            raise InputError("empty text; remove the row or fill it in", where)
    return [str(text) for _, text in found]


def write_vectors(path: Path, vectors: NDArray[np.float32], texts: Sequence[str]) -> None:
    """`.npy`: the matrix `[N, D]`; `.parquet`: a row a text with columns `text` and `embedding`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".npy":
        np.save(path, vectors)
        return
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])
    pq.write_table(pa.table({"text": pa.array(texts, pa.string()), "embedding": column}), path)


def _has_column(row: dict[str, object], column: str, where: str) -> bool:
    if column not in row:
        raise InputError(f"no column {column!r}; the columns are {', '.join(row)}", where)
    return True


def _states(model: PreTrainedModel, inputs: dict[str, Tensor]) -> tuple[Tensor, Layout]:
    if packing_of(model) is not None:
        return packed_states(model, **inputs)
    layout = Layout.from_mask(inputs["attention_mask"])
    return layout.pack(model(**inputs).last_hidden_state), layout
