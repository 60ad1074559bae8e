"""A Transformer in plain torch that reverses rows of different lengths, with every mask it needs and none it does not.

    python examples/encoder_decoder.py

Three masks: padding in the encoder; padding and the causal mask in the decoder; the encoder's padding once more where
the decoder looks at the encoder. Leave one out, and watch the share of right rows fall.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from maskwright import masks

PAD, START, STOP, FIRST, VOCAB, LONGEST = 0, 1, 2, 3, 13, 8


def batch(n_rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Ids of random rows `[B, L]` and of the same rows reversed, between START and STOP `[B, L + 2]`."""
    lengths = torch.randint(2, LONGEST + 1, (n_rows,), generator=generator).tolist()
    rows = [torch.randint(FIRST, VOCAB, (n,), generator=generator) for n in lengths]
    ends = torch.tensor([START]), torch.tensor([STOP])
    reversed_rows = [torch.cat([ends[0], row.flip(0), ends[1]]) for row in rows]
    pad = nn.utils.rnn.pad_sequence
    return pad(rows, batch_first=True), pad(reversed_rows, batch_first=True)


class Reverser(nn.Module):
    """An encoder-decoder of one layer each."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, width, padding_idx=PAD)
        self.positions = nn.Embedding(LONGEST + 2, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)  # torch's nested tensors are a prototype
        self.transformer = nn.Transformer(width, 4, 1, 1, 2 * width, 0.0, custom_encoder=encoder, batch_first=True)
        self.head = nn.Linear(width, VOCAB)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Ids `[B, S]` and `[B, T]` -> scores of the next id `[B, T, V]`."""
        of_source = masks.padding(ids=source, pad_id=PAD, batch_first=True).to_key_padding()
        of_target = masks.padding(ids=target, pad_id=PAD, batch_first=True).to_key_padding()
        states = self.transformer(
            self.tokens(source) + self.positions(torch.arange(source.shape[1])),
            self.tokens(target) + self.positions(torch.arange(target.shape[1])),
            tgt_mask=masks.causal().to_attn_mask(n_queries=target.shape[1]),
            src_key_padding_mask=of_source,
            tgt_key_padding_mask=of_target,
            memory_key_padding_mask=of_source,
        )
        return self.head(states)


def main(n_steps: int = 600) -> float:
    """Train, and return the share of new rows whose every token is right."""
    torch.manual_seed(0)
    generator, model = torch.Generator().manual_seed(0), Reverser()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(n_steps):
        source, target = batch(64, generator)
        scores = model(source, target[:, :-1])
        loss = cross_entropy(scores.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step:3}  loss {loss.item():.3f}")
    model.eval()
    with torch.no_grad():
        source, target = batch(256, generator)
        right = model(source, target[:, :-1]).argmax(-1) == target[:, 1:]
    share = (right | (target[:, 1:] == PAD)).all(1).float().mean().item()
    print(f"rows reversed without a mistake: {share:.1%}")
    return share


if __name__ == "__main__":
    main()
