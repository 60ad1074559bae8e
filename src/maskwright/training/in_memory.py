"""Predictions for texts at hand, without files."""

from __future__ import annotations

from collections.abc import Sequence

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from maskwright.data.encode import encode_examples
from maskwright.data.tasks.base import Example
from maskwright.errors import InputError
from maskwright.objectives.averaging import Averaged
from maskwright.training.average import average_probabilities
from maskwright.training.config import Averaging, Noise
from maskwright.training.models import resolve_max_length
from maskwright.training.predict import problem_of


def predict(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str] | Sequence[tuple[str, str]],
    *,
    averaging: Averaging = "weight",
    samples: int = 16,
    noise: Noise = "dropout",
    drop_rate: float = 0.1,
    seed: int = 0,
    max_length: int | None = None,
    max_tokens: int = 4096,
    bf16: bool = False,
) -> Averaged:
    """Probabilities (or values) of a fine-tuned model for N texts or pairs, with how sure it is of them.

    `mean` and `spread` are `[N, C]`, in the order of `model.config.id2label`; `mutual_information` is `[N]`, in nats.

    Args:
        model: a classifier or regressor, packed or not; it stays in the mode it is in.
        tokenizer: its tokenizer.
        texts: texts, or pairs of texts.
        averaging: "weight": one pass in evaluation mode; "model": the mean over `samples` noisy passes.
        samples: noisy passes over every text, 2 or more.
        noise: "dropout": the model's own, attention dropout included; or "droptoken": tokens left out.
        drop_rate: share of tokens left out of every pass, with "droptoken".
        seed: of the noise.
        max_length: longest text in tokens; default: the model's.
        max_tokens: padded slots in a batch at most.
        bf16: compute in bfloat16.

    Raises:
        InputError: no texts, texts mixed with pairs, or an option out of range.

    Example:
        >>> import maskwright as mw
        >>> from transformers import BertConfig, BertForSequenceClassification, BertTokenizer
        >>> tokenizer = BertTokenizer(vocab={t: i for i, t in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"])})
        >>> config = BertConfig(vocab_size=5, hidden_size=22, num_attention_heads=2, num_labels=3)
        >>> model = mw.pack(BertForSequenceClassification(config))
        >>> found = mw.predict(model, tokenizer, ["a a", "a"], averaging="model", samples=5)
        >>> found.mean.shape, found.mutual_information.shape
        ((2, 3), (2,))
    """
    if isinstance(texts, str):
        raise InputError("give a list of texts, not one text", "texts")
    rows = [(text,) if isinstance(text, str) else tuple(text) for text in texts]
    if {len(row) for row in rows} not in ({1}, {2}):
        raise InputError("give one or more texts, or pairs of texts, not both", "texts")
    examples = [Example(row[0], row[1] if len(row) == 2 else None, None, f"texts[{i}]") for i, row in enumerate(rows)]
    limit = resolve_max_length(max_length, model, tokenizer)
    problem = problem_of(model)
    encoded = encode_examples(examples, tokenizer, limit, problem, model.config.num_labels)
    return average_probabilities(
        model,
        tokenizer,
        encoded.dataset,
        problem,
        averaging=averaging,
        samples=samples,
        noise=noise,
        drop_rate=drop_rate,
        seed=seed,
        max_tokens=max_tokens,
        bf16=bf16,
    )
