"""Which tokens make a word: from a tokenizer's own marks, and for Chinese from a word segmenter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from maskwright.errors import InputError

Segment = Callable[[str], Sequence[str]]


class Words:
    """Word ids of token ids: tokens of one word carry one number, rising along the row; special tokens carry -1.

    WordPiece marks what continues a word (`##`), SentencePiece and byte-level BPE what begins one. Chinese is written
    without spaces, and BERT's tokenizers make every character a word; `segment` joins them again.

    Args:
        tokenizer: a transformers tokenizer.
        segment: text -> words that join up to the text, as `jieba.lcut` does; None leaves characters alone.

    Example:
        >>> from transformers import BertTokenizer
        >>> vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing", "中", "国", "人"]
        >>> tokenizer = BertTokenizer(vocab={token: i for i, token in enumerate(vocabulary)})
        >>> ids = tokenizer("playing 中国人")["input_ids"]
        >>> Words(tokenizer)(ids)
        [-1, 0, 0, 1, 2, 3, -1]
        >>> Words(tokenizer, segment=lambda text: [text[:2], text[2:]])(ids)
        [-1, 0, 0, 1, 1, 2, -1]
    """

    def __init__(self, tokenizer: Any, segment: Segment | None = None) -> None:
        self.tokenizer, self.segment = tokenizer, segment
        self.special = set(tokenizer.all_special_ids)

    def __call__(self, ids: Sequence[int]) -> list[int]:
        """Word ids of one row."""
        words, word = [], -1
        continues = self._continues
        previous_special = True
        for token in ids:
            if token in self.special:
                words.append(-1)
                previous_special = True
                continue
            if previous_special or not continues[token]:
                word += 1
            previous_special = False
            words.append(word)
        return words if self.segment is None else self._joined(list(ids), words)

    def _joined(self, ids: list[int], words: list[int]) -> list[int]:
        """Single Chinese characters joined as the segmenter does, a run of them at a time."""
        tokens = self.tokenizer.convert_ids_to_tokens(ids)
        joined, shift, i = list(words), 0, 0
        while i < len(ids):
            run = i
            while run < len(ids) and words[run] >= 0 and _is_chinese(tokens[run]):
                run += 1
            if run == i:
                joined[i] = words[i] - shift if words[i] >= 0 else -1
                i += 1
                continue
            pieces = [piece for piece in self.segment("".join(tokens[i:run])) if piece]  # type: ignore[misc]
            if sum(map(len, pieces)) != run - i:
                raise InputError("must give back every character of its text, and nothing else", "segment")
            first = words[i] - shift
            for number, piece in enumerate(pieces):
                joined[i : i + len(piece)] = [first + number] * len(piece)
                i += len(piece)
            shift = words[run - 1] - (first + len(pieces) - 1)
        return joined

    @cached_property
    def _continues(self) -> list[bool]:
        """Of every token id, whether it continues the word before it."""
        size = len(self.tokenizer)
        tokens: list[str] = self.tokenizer.convert_ids_to_tokens(list(range(size)))
        for mark in ("▁", "Ġ"):
            if sum(token.startswith(mark) for token in tokens if token) > size / 100:
                return [not token.startswith(mark) for token in tokens]
        return [token.startswith("##") for token in tokens]


def chinese_words() -> Segment:
    """jieba's segmenter, for `Words`.

    Raises:
        InputError: jieba is not installed.
    """
    try:
        import jieba
    except ImportError:
        raise InputError("Chinese words need jieba: pip install 'maskwright[chinese]'", "segment") from None
    jieba.setLogLevel("ERROR")
    segment: Segment = jieba.lcut
    return segment


def ordinary_ids(tokenizer: Any) -> Tensor:
    """int64, ascending: the ids of a tokenizer that stand for text, neither special nor `[unused1]` and its like."""
    special = set(tokenizer.all_special_ids)
    tokens = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    keep = [i for i, token in enumerate(tokens) if i not in special and token is not None and not _is_unused(token)]
    return torch.tensor(keep, dtype=torch.long)


def _is_unused(token: str) -> bool:
    inner = token.strip("[]<>|").lower()
    return token != inner and inner.startswith(("unused", "reserved"))


def _is_chinese(token: str) -> bool:
    return len(token) == 1 and ("\u4e00" <= token <= "\u9fff" or "\u3400" <= token <= "\u4dbf")
