"""A time-major RNN over rows of different lengths, pooled without its padding.

    python examples/time_major_rnn.py

RNNs of torch take `[L, B, D]` by default. Say so once, and pool in `[B, L, D]`: the mean is then each row's own,
whatever stands beside it in the batch.
"""

import torch
from torch import nn

from maskwright import masks, pooling

PAD, VOCAB, WIDTH = 0, 13, 6


def main() -> None:
    """Print each row's mean state alone and in a batch, plain and masked."""
    torch.manual_seed(0)
    rows = [torch.tensor([3, 1, 7]), torch.tensor([3, 4, 5, 6, 7]), torch.tensor([8])]
    ids = nn.utils.rnn.pad_sequence(rows)  # [L, B], time-major
    embed, rnn = nn.Embedding(VOCAB, WIDTH, padding_idx=PAD), nn.GRU(WIDTH, WIDTH)

    keep = masks.padding(ids=ids, pad_id=PAD, batch_first=False).to_attention_mask()  # [B, L]
    states = rnn(embed(ids))[0].transpose(0, 1)  # [B, L, D]
    plain, masked = states.mean(1), pooling.mean(states, keep)
    last = pooling.last(states, keep)

    for row, own in enumerate(rows):
        alone = rnn(embed(own[:, None]))[0].transpose(0, 1)  # this row by itself: nothing to mask
        for name, pooled, wanted in (
            ("plain mean", plain, alone.mean(1)),
            ("masked mean", masked, alone.mean(1)),
            ("last state", last, alone[:, -1]),
        ):
            print(
                f"row {row}: {name:<11} differs from the row alone by {(pooled[row] - wanted).abs().max().item():.3f}"
            )
    torch.testing.assert_close(masked[2], rnn(embed(rows[2][:, None]))[0][:, 0].mean(0))


if __name__ == "__main__":
    main()
