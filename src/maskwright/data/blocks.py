"""Documents to rows of token ids for pretraining, cut to a length; and which documents are held out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from maskwright.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

WordIds = Callable[[Sequence[int]], list[int]]


class Blocks:
    """Cuts a batch of documents into rows of at most `max_length` tokens, special tokens included.

    Without `cross_documents` a row never holds two documents, and rows are as short as their texts: packing makes that
    free. With it, documents are joined by the tokenizer's separator and every row but the last of a batch is full.

    Args:
        word_ids: ids of a row -> its word ids, stored beside it for whole-word masking.
        shortest: rows with fewer ordinary tokens are left out.

    Raises:
        InputError: a `max_length` that the special tokens fill.

    Example:
        >>> from transformers import BertTokenizer
        >>> tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c"]
        >>> tokenizer = BertTokenizer(vocab={token: i for i, token in enumerate(tokens)})
        >>> Blocks(tokenizer, max_length=4)({"text": ["a b c", "c"]})["input_ids"]
        [[2, 5, 6, 3], [2, 7, 3], [2, 7, 3]]
        >>> Blocks(tokenizer, max_length=5, cross_documents=True)({"text": ["a b c", "c"]})["input_ids"]
        [[2, 5, 6, 7, 3], [2, 7, 3]]
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        max_length: int,
        *,
        cross_documents: bool = False,
        word_ids: WordIds | None = None,
        shortest: int = 1,
    ) -> None:
        self.room = max_length - tokenizer.num_special_tokens_to_add(pair=False)
        if self.room < 1:
            raise InputError(f"{max_length} leaves no room beside the special tokens; raise it", "max_length")
        plain, whole = (tokenizer("a", add_special_tokens=special)["input_ids"] for special in (False, True))
        at = next(i for i in range(len(whole)) if whole[i : i + len(plain)] == plain)
        self.before, self.after = whole[:at], whole[at + len(plain) :]
        self.tokenizer, self.cross_documents = tokenizer, cross_documents
        self.word_ids, self.shortest = word_ids, shortest

    def __call__(self, batch: dict[str, list[str]]) -> dict[str, list[list[int]]]:
        """Texts -> rows: `input_ids` and, if asked for, `word_ids`."""
        encoded = self.tokenizer(
            batch["text"],
            add_special_tokens=False,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,
        )
        texts: list[list[int]] = encoded["input_ids"]
        if self.cross_documents:
            between = [self.tokenizer.sep_token_id] if self.tokenizer.sep_token_id is not None else []
            joined: list[int] = []
            for ids in texts:
                joined += ids if not joined else between + ids
            texts = [joined]
        rows = []
        for ids in texts:
            for start in range(0, len(ids), self.room):
                part = ids[start : start + self.room]
                if self.cross_documents and part[0] == self.tokenizer.sep_token_id:
                    part = part[1:]  # nothing stands before it
                if len(part) >= self.shortest:
                    rows.append([*self.before, *part, *self.after])
        columns = {"input_ids": rows}
        if self.word_ids is not None:
            columns["word_ids"] = [self.word_ids(ids) for ids in rows]
        return columns


def held_out(text: str, share: float, seed: int = 0) -> bool:
    """Whether a document belongs to the held-out split: by its content alone, so that equal documents never part.

    Example:
        >>> sum(held_out(str(i), 0.1) for i in range(1000))
        103
    """
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=seed.to_bytes(8, "little"))
    return int.from_bytes(digest.digest(), "little") < share * 2**64
