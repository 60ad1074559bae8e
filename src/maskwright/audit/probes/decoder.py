"""The other side of encoder-decoders: what the decoder sees of itself, and of the encoder."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from maskwright.audit.compare import Check
from maskwright.audit.contents import two_contents, two_endings
from maskwright.audit.rule import Rule, encoder_decoder, takes_decoder_mask
from maskwright.audit.subject import Subject
from maskwright.audit.trial import Trial

LENGTH, CHANGED = 7, 5  # tokens from CHANGED on are other ones
LENGTHS = (7, 5)
PAIRS = [(0, 0), (1, 1)]


def future(subject: Subject) -> Iterator[Check]:
    """Earlier tokens of the decoder do not change with later ones."""
    row, changed = two_endings(subject, LENGTH, CHANGED)
    if torch.equal(row, changed):  # a vocabulary without a choice
        return
    for given in ("none", "int") if subject.takes("decoder_attention_mask") else ("none",):
        one, two = (Trial((ids,), part="decoder", mask=given) for ids in (row, changed))
        name = f"other later tokens in the decoder, {'a' if given == 'int' else 'no'} mask"
        yield Check(name, one, two, [(0, 0)], until=CHANGED, cause="no-causal-mask")


def padding(subject: Subject) -> Iterator[Check]:
    """Padded slots of the decoder: how many at the end, and other ids at the start."""
    ids = subject.sequences(*LENGTHS)
    plain = Trial(ids, part="decoder")
    yield Check("3 padded slots of the decoder against none", plain, plain.but(n_pads=3), PAIRS)
    ones, others = two_contents(subject, plain.but(n_pads=3, side="left"))
    name = "another token in padded slots on the decoder's left"
    yield Check(name, ones, others, PAIRS, outputs="tokens", cause="mask-never-arrives")


def cross(subject: Subject) -> Iterator[Check]:
    """What the decoder gives does change with the encoder's tokens, and not with its padded slots."""
    ours, others = subject.sequences(*LENGTHS), subject.sequences(*LENGTHS, seed=3)
    padded = Trial(ours, n_pads=3)
    other = int(subject.sequences(1, seed=5)[0][0])
    yield Check("padded slots that the decoder could see", padded, padded.but(fill=other), PAIRS, outputs="rows")
    for n_pads in (0, 3):
        one, two = Trial(ours, n_pads=n_pads), Trial(others, n_pads=n_pads)
        name = f"other encoder tokens must reach the decoder, {n_pads} padded slots"
        yield Check(name, one, two, PAIRS, must="differ", outputs="rows", cause="no-cross-attention")


RULES = (
    Rule(
        "decoder-future",
        "A decoder's tokens do not change with what follows them.",
        "huggingface/transformers 48745: several families see the future",
        future,
        encoder_decoder,
    ),
    Rule(
        "decoder-padding",
        "Padded slots of a decoder change none of its tokens.",
        "decoder_attention_mask that is taken and dropped",
        padding,
        takes_decoder_mask,
        may_refuse=True,
    ),
    Rule(
        "cross-attention",
        "A decoder sees the encoder's tokens and not its padded slots.",
        "encoder_attention_mask left out in generation",
        cross,
        encoder_decoder,
    ),
)
