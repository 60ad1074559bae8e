"""The catalogue of causes: what is usually wrong where a law is broken, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

from maskwright.audit.function_causes import FUNCTION_CAUSES


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
        Cause(
            "position-offset",
            "positions are counted from another number than the family's own",
            "count from padding_idx + 1 where the table of positions has a padding_idx, else from 0",
        ),
        Cause(
            "training-path",
            "training mode computes something else even with all dropout at 0",
            "let training mode differ in dropout alone; what else depends on self.training loses the mask",
        ),
        Cause(
            "checkpointing-path",
            "layers compute something else when they are checkpointed",
            "hand every argument of a layer on to the checkpointing function, the mask too",
        ),
        Cause(
            "compiled-otherwise",
            "the compiled model computes something else",
            "look for branches on values of the mask; rerun with backend='eager' to tell tracing from code generation",
        ),
        Cause(
            "no-cross-attention",
            "what the decoder gives does not depend on what the encoder read",
            "hand the encoder's states on to every decoder layer",
        ),
        Cause(
            "first-slot",
            "the row's result is read from slot 0, which is padding where padding stands on the left",
            "pad on the right, or take the first kept token (maskwright.pooling.first)",
        ),
        Cause(
            "row-selection",
            "the row's result is read from another slot than its own token's",
            "find the token by the mask (maskwright.pooling.first, last), not by slot number, mask sum or id",
        ),
        Cause(
            "eos-as-pad",
            "a kept token whose id is that of padding is taken for padding",
            "find the last token by the attention mask (maskwright.pooling.last), or pad with an id of its own",
        ),
        *(Cause(*row) for row in FUNCTION_CAUSES),
    )
}
"""Every cause by its name."""

DESIGNS = {
    "mixes-neighbours": ("model",),
    "nan-times-zero": ("model",),
    "slots-counted": ("model", "pooling"),
    "packing-ignored": ("model",),
    "first-slot": ("model",),
    "no-attention-mask": ("collator",),
    "nan-in-gradient": ("loss",),
}
"""Cause -> the kinds of subject whose design it may be: shown as a property, and no failure."""
