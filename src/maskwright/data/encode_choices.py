"""Texts with choices to token ids: one row of ids a choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from datasets import Dataset

from maskwright.data.encode import EncodedSplit, chunks_of
from maskwright.data.tasks.base import ChoiceExample, Example
from maskwright.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Pair = tuple[str, str]


def encode_choices(examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, max_length: int) -> EncodedSplit:
    """Tokenise examples, each choice with the text it belongs to, none padded.

    A choice that answers a question is encoded as (text, question [SEP] choice). A choice for a blank is encoded as
    (choice, text), the blank the tokenizer's mask token and other blanks its unknown token, as CLUE's baselines do.
    Choices over `max_length` tokens are cut ("longest first"; a text with a blank evenly around it) and their examples
    counted.

    Columns: `input_ids`, a list of token ids a choice; `token_type_ids` where the tokenizer's model takes them;
    `length`, the tokens of all choices together; `n_choices`; and, where examples carry labels, `labels`.

    Raises:
        InputError: no examples, only some of them labelled, something other than a `ChoiceExample`, a choice without
            two tokens, a `max_length` without room, or blanks and a tokenizer with neither mask nor unknown token.
    """
    if not examples:
        raise InputError("no examples to encode", "examples")
    if max_length <= tokenizer.num_special_tokens_to_add(pair=True) + 1:
        raise InputError(f"{max_length} leaves no room beside the special tokens; raise it", "max_length")
    is_labelled = examples[0].label is not None
    columns = [name for name in ("input_ids", "token_type_ids") if name in tokenizer.model_input_names]
    chunks: dict[str, list[pa.Array]] = {name: [] for name in columns}
    lengths: list[int] = []
    n_truncated = 0
    for unchecked in chunks_of(examples):
        chunk = [_checked(example, is_labelled) for example in unchecked]
        pairs = [_pairs(example, tokenizer) for example in chunk]
        encoded = _tokenise(pairs, tokenizer, None)
        too_long = [i for i, found in enumerate(encoded["input_ids"]) if max(map(len, found)) > max_length]
        n_truncated += len(too_long)
        if too_long:
            cut = _tokenise([_pairs(chunk[i], tokenizer, max_length) for i in too_long], tokenizer, max_length)
            for name in columns:
                for i, found in zip(too_long, cut[name], strict=True):
                    encoded[name][i] = found
        for example, found in zip(chunk, encoded["input_ids"], strict=True):
            if min(map(len, found)) < 2:
                raise InputError("the tokenizer makes no two tokens of a choice; remove the example", example.where)
        for name in columns:
            chunks[name].append(pa.array(encoded[name], pa.list_(pa.list_(pa.int32()))))
        lengths += [sum(map(len, choices)) for choices in encoded["input_ids"]]

    data: dict[str, pa.Array | pa.ChunkedArray] = {name: pa.chunked_array(chunks[name]) for name in columns}
    data["length"] = pa.array(lengths, pa.int32())
    data["n_choices"] = pa.array([len(cast(ChoiceExample, example).choices) for example in examples], pa.int32())
    if is_labelled:
        data["labels"] = pa.array([example.label for example in examples], pa.int64())
    return EncodedSplit(Dataset.from_dict(data), n_truncated, sum(lengths))


def _checked(example: Example, is_labelled: bool) -> ChoiceExample:
    if not isinstance(example, ChoiceExample) or not example.choices:
        raise InputError("an example with choices is expected", example.where)
    if (example.label is not None) != is_labelled:
        raise InputError("only some examples of this split have a label; all or none must have", example.where)
    return example


def _pairs(example: ChoiceExample, tokenizer: PreTrainedTokenizerBase, max_length: int | None = None) -> list[Pair]:
    if example.blank is None:
        between = tokenizer.sep_token or " "
        return [(example.text, f"{example.text_pair or ''}{between}{choice}") for choice in example.choices]
    passage = _passage(example, tokenizer, max_length)
    return [(choice, passage) for choice in example.choices]


def _passage(example: ChoiceExample, tokenizer: PreTrainedTokenizerBase, max_length: int | None) -> str:
    """The text with its blanks as tokens; cut around the one asked for where `max_length` says so."""
    assert example.blank is not None
    mark = tokenizer.mask_token or tokenizer.unk_token
    if mark is None:
        raise InputError("it has neither a mask nor an unknown token to stand for a blank", "tokenizer")
    start, end = example.blank
    left, right = example.text[:start], example.text[end:]
    for first, last in sorted(example.other_blanks, reverse=True):
        other = tokenizer.unk_token or mark
        if last <= start:
            left = left[:first] + other + left[last:]
        else:
            right = right[: first - end] + other + right[last - end :]
    if max_length is not None:
        longest = max(len(ids) for ids in _ids(list(example.choices), tokenizer)["input_ids"])
        keep = max(0, max_length - tokenizer.num_special_tokens_to_add(pair=True) - longest - 1)
        before, after = _ids([left, right], tokenizer)["offset_mapping"]
        n_before = min(len(before), max(keep // 2, keep - len(after)))
        n_after = min(len(after), keep - n_before)
        left = left[before[-n_before][0] :] if n_before else ""
        right = right[: after[n_after - 1][1]] if n_after else ""
    return f"{left}{mark}{right}"


def _ids(texts: list[str], tokenizer: PreTrainedTokenizerBase) -> Any:
    if not tokenizer.is_fast:
        raise InputError("it cannot map tokens to characters; a fast tokenizer (tokenizer.json) is needed", "tokenizer")
    return tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True, verbose=False)


def _tokenise(
    pairs: Sequence[Sequence[Pair]], tokenizer: PreTrainedTokenizerBase, max_length: int | None
) -> dict[str, list[list[list[int]]]]:
    flat = [pair for choices in pairs for pair in choices]
    encoding = tokenizer(
        [first for first, _ in flat],
        [second for _, second in flat],
        truncation=False if max_length is None else "longest_first",
        max_length=max_length,
        return_attention_mask=False,
        verbose=False,
    )
    grouped: dict[str, list[list[list[int]]]] = {}
    for name, column in encoding.items():
        found = iter(column)
        grouped[name] = [[next(found) for _ in choices] for choices in pairs]
    return grouped
