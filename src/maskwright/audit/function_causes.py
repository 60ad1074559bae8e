"""Causes that functions under audit have: pooling, collators, losses, builders of masks."""

from __future__ import annotations

FUNCTION_CAUSES = (
    (
        "raises",
        "the call raises an error that the law does not ask for",
        "make the call that the check describes, and mend what raises",
    ),
    (
        "zero-wins-max",
        "padded slots are set to 0 before a maximum, and 0 is more than a negative feature",
        "fill padded slots with -inf before the maximum (maskwright.pooling.max)",
    ),
    (
        "bias-overcome",
        "a finite number is added where nothing should count, and a larger one overcomes it",
        "fill (masked_fill, torch.where) instead of adding, or add far less than any value",
    ),
    (
        "zero-times-nan",
        "what should not count is multiplied by 0, and 0 x NaN is NaN",
        "select (masked_fill, torch.where) instead of multiplying; allow it where nothing else than numbers can come",
    ),
    (
        "nan-in-gradient",
        "a NaN where labels are -100 does not reach the loss, but its own gradient is NaN, as in torch's cross_entropy",
        "select the targets before the loss where logits of padded slots may be anything else than numbers",
    ),
    (
        "rows-mixed",
        "a row's result depends on the other rows of the batch, or on its place among them",
        "compute each row by itself: look for statistics and reshapes that run over the batch",
    ),
    (
        "tokens-ignored",
        "the tokens of a row change nothing in its vector",
        "look where the states are dropped, or overwritten by the mask",
    ),
    (
        "empty-row",
        "a row without tokens gives NaN or infinity: a division by no tokens, or the maximum of nothing",
        "raise an error that names the row, or give it zeros (maskwright.pooling, empty='zero')",
    ),
    (
        "narrow-sum",
        "a long sum is rounded at every step, or overflows, in float16 or bfloat16",
        "sum in float32 and cast the result",
    ),
    (
        "padding-of-collator",
        "padded slots hold another id than the tokenizer's pad token",
        "pad by the tokenizer (tokenizer.pad, or maskwright.MaskedCorruption)",
    ),
    (
        "rows-cut",
        "rows are cut to fewer slots than they have tokens",
        "pad to the longest row of the batch, not to the shortest or to a fixed length",
    ),
    (
        "attention-mask-of-collator",
        "attention_mask is not 1 on tokens and 0 on padding",
        "take it from the lengths of the examples, before anything is replaced",
    ),
    (
        "no-attention-mask",
        "the batch has no attention_mask, so that a model will attend to padding",
        "return the attention_mask that tokenizer.pad gives",
    ),
    (
        "targets-on-specials",
        "special tokens become targets: their labels are not -100",
        "leave out all of tokenizer.all_special_ids when targets are drawn",
    ),
    (
        "targets-on-padding",
        "padded slots become targets: their labels are not -100",
        "draw targets among tokens alone, and pad labels with -100",
    ),
    (
        "labels-not-original",
        "a target's label is not the id that stood there",
        "copy the ids before they are replaced",
    ),
    (
        "others-changed",
        "tokens are replaced that are no targets, so that nothing is learnt from them",
        "replace where labels are not -100, and nowhere else",
    ),
    (
        "wrong-rate",
        "more or fewer ordinary tokens become targets than claimed",
        "draw each ordinary token with the claimed rate, or say what is meant (mlm_probability on the collator)",
    ),
    (
        "rate-counts-padding",
        "how many tokens of a row become targets depends on how much padding it has",
        "compute the number of targets from a row's own tokens, not from the padded length",
    ),
    (
        "wrong-shares",
        "targets become [MASK], themselves and random tokens in other shares than claimed",
        "draw once for each target and cut at 0.8 and 0.9, or say what is meant (mask_replace_prob on it)",
    ),
    (
        "random-specials",
        "random replacements are drawn from the whole vocabulary, special tokens among it",
        "draw from ordinary ids only (maskwright.MaskedCorruption)",
    ),
    (
        "words-torn",
        "some tokens of a word become targets and others not, although whole words are claimed",
        "draw once for each word, by the tokenizer's word_ids",
    ),
    (
        "draws-repeat",
        "two calls choose the same targets: the stream of random numbers begins anew each time",
        "make the generator once, and seed it there and not in the call",
    ),
    (
        "seed-ignored",
        "equal seeds give different targets, so that no run can be repeated",
        "draw from torch's global stream, or from a generator made from a seed",
    ),
    (
        "workers-alike",
        "the workers of a data loader choose the same targets: each has a copy of one generator",
        "seed by torch.utils.data.get_worker_info() (maskwright.MaskedCorruption)",
    ),
    (
        "ignored-counted",
        "logits whose labels are -100 count in the loss",
        "select the targets before the loss, or pass ignore_index=-100",
    ),
    (
        "slots-in-the-mean",
        "the loss is divided by slots and not by targets: more padding makes it smaller",
        "divide by the number of labels that are not -100",
    ),
    (
        "mean-of-means",
        "means of rows or batches are averaged, so that a target in a short row counts for more",
        "sum over targets and divide once, by their number in all rows (and all accumulated batches)",
    ),
    (
        "mean-over-nothing",
        "a mean over no target at all divides by zero, as torch's own cross_entropy does",
        "divide the sum by max(number of targets, 1), or raise an error; allow it where every batch has a target",
    ),
    (
        "not-cross-entropy",
        "it is cross entropy on some batches, and something else where labels are -100, 0 or the last there is",
        "compare with torch.nn.functional.cross_entropy(..., ignore_index=-100): no other label is ignored",
    ),
    (
        "unstable-loss",
        "the loss is computed in a way that leaves the range of numbers, such as the logarithm of a softmax",
        "use log_softmax or cross_entropy, on float32 logits",
    ),
    (
        "bias-on-kept",
        "an additive mask adds something other than 0 to scores that it allows",
        "add 0 where attention is allowed, so that masks may be added to each other",
    ),
    (
        "mask-axis",
        "the mask blocks queries instead of keys, so that tokens attend to padding",
        "lay the keep mask along the last axis: keep[:, None, None, :]",
    ),
)
"""(name, what is wrong, what to do) of each."""
