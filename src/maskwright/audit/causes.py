"""Why a law is broken: experiments that tell the usual causes apart, each with its fix."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import nn

from maskwright.audit.compare import LEAK64, Check, difference
from maskwright.audit.locate import recorded
from maskwright.audit.subject import Subject


@dataclass(frozen=True, slots=True)
class Cause:
    """A likely cause: `reason` says what is wrong, `fix` what to do."""

    name: str
    reason: str
    fix: str


UNKNOWN = Cause("unknown", "no known cause fits", "compare the module's inputs in the two calls of the script")
CAUSES = {
    cause.name: cause
    for cause in (
        UNKNOWN,
        Cause(
            "mask-never-arrives",
            "the outputs are the same with and without the attention mask: it is dropped on the way",
            "hand attention_mask on to every layer that mixes tokens",
        ),
        Cause(
            "polarity",
            "with the mask inverted the padded call agrees with the unpadded one: 1 and 0 are taken for each other",
            "1 means a token that takes part; nn.MultiheadAttention's key_padding_mask means the opposite",
        ),
        Cause(
            "softmax-over-nothing",
            "the outputs are not numbers: some query may attend to nothing, and softmax divides by zero",
            "give such rows zeros (maskwright.masked_softmax), or a finite bias",
        ),
        Cause(
            "pooling",
            "the tokens agree, their pooled vector does not: padded slots take part in the pooling",
            "pool by the mask (maskwright.pooling)",
        ),
        Cause(
            "random-in-evaluation",
            "two equal calls differ: dropout or another random choice is left on in evaluation mode",
            "pass self.training to functional dropout, and 0 as attention's dropout_p in evaluation",
        ),
        Cause(
            "batch-statistics",
            "a normalisation takes its statistics over the batch",
            "normalise over features (LayerNorm), or use running statistics",
        ),
        Cause(
            "causal-mask",
            "later tokens never reach earlier ones: attention runs with a causal mask",
            "set is_causal=False for encoders, also where no padding is given",
        ),
        Cause(
            "no-causal-mask",
            "later tokens reach earlier ones: attention runs without a causal mask",
            "build the causal mask from is_decoder, whatever the padding mask",
        ),
        Cause(
            "mixes-neighbours",
            "a convolution or transform mixes neighbouring slots without regard to the mask, by the model's design",
            "set masked slots to zero before it, or give rows of one length together",
        ),
        Cause(
            "border",
            "only the tokens beside the padding differ: a shift or convolution reads padded slots",
            "set masked slots to zero before it",
        ),
        Cause(
            "nan-times-zero",
            "attention multiplies what stands in padded slots by a probability of zero, and 0 x NaN is NaN",
            "keep padded slots finite, or select instead of multiplying (maskwright.pack never touches them)",
        ),
        Cause(
            "slots-counted",
            "positions or distances count slots instead of tokens, so that padding on the left moves the text",
            "hand over position_ids that count tokens, or pad on the right",
        ),
        Cause(
            "mask-form",
            "this form of the mask is taken for something else (a boolean one added as 1 and 0, a float one cast)",
            "check the mask's dtype where it arrives; convert by maskwright.masks",
        ),
        Cause(
            "packing-ignored",
            "texts that share a row see each other: nothing marks where one ends",
            "give a 4-D block mask, or run them in rows of their own (maskwright.pack)",
        ),
        Cause(
            "packing-leak",
            "texts that share a row see each other although a block mask keeps them apart",
            "hand the 4-D mask on to every layer that mixes tokens, and start positions anew with each text",
        ),
        Cause(
            "option-changes-path",
            "an option that should only change what is returned changes what is computed",
            "compare the code path that the option chooses with the usual one",
        ),
        Cause(
            "overflow",
            "a bias or score leaves the range of the narrow dtype",
            "fill with -inf or torch.finfo(dtype).min instead of adding to it; do softmax in float32",
        ),
        Cause(
            "gradient-into-padding",
            "padded slots receive a gradient although they should take no part",
            "select by the mask before the loss and in pooling; give nn.Embedding its padding_idx",
        ),
    )
}
"""Every cause by its name."""

DESIGNS = frozenset({"mixes-neighbours", "nan-times-zero", "slots-counted", "packing-ignored"})
"""Causes that are a model's design and not a fault in it: shown as a property."""

# What a rule's breaking can only mean.
_BY_RULE = {
    "repeatable": "random-in-evaluation",
    "future": "no-causal-mask",
    "backward-attention": "causal-mask",
    "padding-nan": "nan-times-zero",
    "mask-forms": "mask-form",
    "options": "option-changes-path",
    "packing-positions": "packing-ignored",
    "packing-blocks": "packing-leak",
}

# Encoders that mix slots by design, whatever the module where that shows first.
_MIXING = frozenset({"fnet", "canine", "convbert", "nystromformer", "big_bird", "reformer", "longformer", "funnel"})


def mixes(subject: Subject) -> bool:
    """Whether the family mixes slots by design."""
    return getattr(subject.config, "model_type", None) in _MIXING


def explain(check: Check, rule: str, subject: Subject, module: str | None) -> Cause:
    """The likeliest cause of a failed check; the subject is in float64."""
    if mixes(subject):
        return CAUSES["mixes-neighbours"]
    if (fixed := _BY_RULE.get(rule)) is not None:
        return CAUSES[fixed]
    a, b = subject(check.a), subject(check.b)
    if not difference(check, a, b).is_finite:
        return CAUSES["softmax-over-nothing"]
    found = dict(subject.model.named_modules()).get((module or "").split("#")[0])
    if isinstance(found, nn.modules.batchnorm._BatchNorm):
        return CAUSES["batch-statistics"]
    if isinstance(found, (nn.Conv1d, nn.Conv2d)):
        return CAUSES["mixes-neighbours"]
    if rule == "padding-side" and subject(check.a).n_values:
        right = replace(check, a=check.b.but(side="right"))
        if difference(right, subject(right.a), a).effect <= LEAK64 and not subject.takes("position_ids"):
            return CAUSES["slots-counted"]
    if rule.startswith("padding"):
        seen = difference(replace(check, outputs="tokens"), a, b)
        if seen.n_compared and seen.effect <= LEAK64:
            return CAUSES["pooling"]
        same = replace(check, pairs=[(second, second) for _, second in check.pairs])
        if difference(same, b, subject(check.b.but(mask="none"))).effect <= LEAK64:
            return CAUSES["mask-never-arrives"]
        if difference(check, a, subject(check.b.but(mask="inverted"))).effect <= LEAK64:
            return CAUSES["polarity"]
        if _at_the_border(check, subject, module):
            return CAUSES["border"]
    return UNKNOWN


def _at_the_border(check: Check, subject: Subject, module: str | None) -> bool:
    """Whether the module's outputs agree on all tokens but the last ones, which stand beside the padding."""
    ones, others = dict(recorded(subject, check.a)), dict(recorded(subject, check.b))
    if module not in ones or module not in others:
        return False
    shortest = min(len(check.a.sequences[first]) for first, _ in check.pairs)
    inner = replace(check, until=shortest // 2)
    found = difference(inner, ones[module], others[module])
    return bool(found.n_compared) and found.effect <= LEAK64
