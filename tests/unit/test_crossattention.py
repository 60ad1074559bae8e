"""MAE's cross-attention decoder against complex numbers in NumPy, and what its positions are for."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import BertConfig, BertForMaskedLM

import maskwright as mw
from maskwright.core.layout import Layout
from maskwright.objectives.crossattention import CrossDecoder

WIDTH, HEADS, INNER = 22, 2, 37  # 11 numbers a head: five pairs and one left over
VISIBLE = torch.tensor([[1, 0, 1, 1, 0, 0, 1], [0, 1, 0, 0, 1, 0, 0]]).bool()
TARGETS = torch.tensor([[0, 1, 0, 0, 0, 1, 0], [1, 0, 1, 1, 0, 0, 0]]).bool()


def new_decoder(n_layers: int) -> CrossDecoder:
    torch.manual_seed(3)
    decoder = CrossDecoder(WIDTH, HEADS, INNER, n_layers).double()
    for parameter in decoder.parameters():
        nn.init.normal_(parameter, std=0.7)
    return decoder


def inputs() -> tuple[Tensor, Tensor]:
    torch.manual_seed(5)
    return torch.randn(WIDTH).double(), torch.randn(int(VISIBLE.sum()), WIDTH).double()


def test_it_is_attention_with_turned_pairs() -> None:
    decoder, (mask, states) = new_decoder(n_layers=3), inputs()
    found = decoder(mask, states, Layout.from_mask(VISIBLE), Layout.from_mask(TARGETS))
    expected = []
    for row, seen in zip((0, 1), np.split(states.numpy(), [int(VISIBLE[0].sum())]), strict=True):
        places = np.flatnonzero(VISIBLE[row])
        expected += [by_numpy(decoder, mask.numpy(), seen, places, at) for at in np.flatnonzero(TARGETS[row])]
    np.testing.assert_allclose(found.detach().numpy(), np.stack(expected), rtol=0, atol=1e-5)


def test_distances_count_and_places_do_not() -> None:
    decoder, (mask, states) = new_decoder(n_layers=2), inputs()
    visible, targets = (nn.functional.pad(keep, (0, 59)) for keep in (VISIBLE, TARGETS))
    here = decoder(mask, states, Layout.from_mask(visible), Layout.from_mask(targets))
    later = decoder(mask, states, Layout.from_mask(visible.roll(53, 1)), Layout.from_mask(targets.roll(53, 1)))
    torch.testing.assert_close(here, later, rtol=0, atol=1e-5)
    apart = decoder(mask, states, Layout.from_mask(visible.roll(53, 1)), Layout.from_mask(targets))
    assert (here - apart).abs().max() > 0.1


def test_a_hidden_token_is_told_from_its_neighbours() -> None:
    """Texts that count upwards: whoever knows which visible token is where knows the hidden ones."""
    n_words, length, n_rows = 29, 17, 23
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 61, "num_hidden_layers": 1}
    config = BertConfig(vocab_size=n_words, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **sizes)
    mae = mw.MaskedAutoencoder(BertForMaskedLM(config))
    optimizer = torch.optim.AdamW([p for p in mae.parameters() if p.requires_grad], lr=5e-3)
    losses = []
    for _ in range(200):
        ids = (torch.randint(n_words, (n_rows, 1)) + torch.arange(length)) % n_words
        loss, n_targets = mae(ids, torch.rand(n_rows, length).argsort(1) < 3)
        loss = loss / n_targets
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(math.log(n_words), rel=0.1)
    assert np.mean(losses[-10:]) < 0.3 * losses[0]  # with learned positions it stays at 1.0


def by_numpy(
    decoder: CrossDecoder, query: NDArray[np.float64], seen: NDArray[np.float64], places: NDArray[np.int_], at: int
) -> NDArray[np.float64]:
    """One target of one row."""
    width = WIDTH // HEADS
    speeds = np.array([10_000 ** (-2 * i / (width - 1)) for i in range(width // 2)])

    def linear(layer: nn.Module, x: NDArray[np.float64]) -> NDArray[np.float64]:
        return x @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()  # type: ignore[union-attr, operator]

    def norm(layer: nn.Module, x: NDArray[np.float64]) -> NDArray[np.float64]:
        scaled = (x - x.mean()) / np.sqrt(x.var() + 1e-5)
        return scaled * layer.weight.detach().numpy() + layer.bias.detach().numpy()  # type: ignore[union-attr, operator]

    def pairs(x: NDArray[np.float64], place: int) -> NDArray[np.complex128]:
        half = width // 2
        return (x[:half] + 1j * x[half : 2 * half]) * np.exp(1j * place * speeds)

    for layer in decoder.layers:
        q, kv = linear(layer.query, query), linear(layer.key_value, seen)
        mixed = []
        for head in range(HEADS):
            part = slice(head * width, (head + 1) * width)
            keys, values = kv[:, :WIDTH][:, part], kv[:, WIDTH:][:, part]
            turned = pairs(q[part], at)
            scores = [
                (turned * pairs(key, place).conj()).real.sum() + q[part][-1] * key[-1]
                for key, place in zip(keys, places, strict=True)
            ]
            weights = np.exp(np.array(scores) / math.sqrt(width))
            mixed.append(weights @ values / weights.sum())
        query = norm(layer.after_attention, query + linear(layer.out, np.concatenate(mixed)))
        inner = linear(layer.up, query)
        inner = inner * 0.5 * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
        query = norm(layer.after_feed_forward, query + linear(layer.down, inner))
    return query
