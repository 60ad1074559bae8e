"""Why a law is broken: experiments that tell the usual causes apart, each with its fix."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import nn

from maskwright.audit.compare import LEAK64, Check, difference
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
            "a convolution or transform mixes neighbouring slots without regard to the mask",
            "set masked slots to zero before it",
        ),
    )
}
"""Every cause by its name."""


def explain(check: Check, rule: str, subject: Subject, module: str | None) -> Cause:
    """The likeliest cause of a failed check; the subject is in float64."""
    if rule == "repeatable":
        return CAUSES["random-in-evaluation"]
    if rule in ("future", "backward-attention"):
        return CAUSES["no-causal-mask" if rule == "future" else "causal-mask"]
    a, b = subject(check.a), subject(check.b)
    if not difference(check, a, b).is_finite:
        return CAUSES["softmax-over-nothing"]
    found = dict(subject.model.named_modules()).get((module or "").split("#")[0])
    if isinstance(found, nn.modules.batchnorm._BatchNorm):
        return CAUSES["batch-statistics"]
    if isinstance(found, (nn.Conv1d, nn.Conv2d)):
        return CAUSES["mixes-neighbours"]
    if rule.startswith("padding"):
        same = replace(check, pairs=[(second, second) for _, second in check.pairs])
        if difference(same, b, subject(check.b.but(mask="none"))).effect <= LEAK64:
            return CAUSES["mask-never-arrives"]
        if difference(check, a, subject(check.b.but(mask="inverted"))).effect <= LEAK64:
            return CAUSES["polarity"]
        seen = difference(replace(check, outputs="tokens"), a, b)
        if seen.n_compared and seen.effect <= LEAK64:
            return CAUSES["pooling"]
    return UNKNOWN
