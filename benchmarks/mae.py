"""Pretraining steps of BERT-base: stock masked LM, packed masked LM with its head on targets, and MAE.

    .venv/bin/python benchmarks/mae.py [--settings 128 512 bf16] [--rounds 3] [--tokens 2048] [--decoders ...]

Forward, backward and AdamW on rows that are full (as blocks of pretraining text are), all variants in turn in one
process, without dropout, as pretraining on much text goes. Stock computes logits of all positions. MAE hides 75%
and has a decoder of 1 or 2 layers over all tokens, or one cross-attention layer; it predicts all hidden tokens, or a
fifth of them (15% of all, as many as the masked LM).
"""

from __future__ import annotations

import argparse
import os

import torch
from harness import interleave, median, merge, publish, ratio, table
from transformers import BertConfig, BertForMaskedLM

from maskwright.objectives.corruption import Corruption, stream
from maskwright.objectives.mae import MaskedAutoencoder
from maskwright.objectives.units import choose, token_units
from maskwright.training.pretrain.objective import MaskedLanguageModel

SETTINGS = {"128": (128, 21128, False), "512": (512, 30522, False), "bf16": (128, 21128, True)}
LAYERS, WIDTH, INNER = 12, 768, 3072
DECODERS = {"2 layers": ("layers", 2), "1 layer": ("layers", 1), "cross-attention": ("cross_attention", 1)}
SHARES = {"all": 1.0, "a fifth": 0.2}


def new_model(length, vocab):
    torch.manual_seed(0)
    off = {"attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.0}
    config = BertConfig(vocab_size=vocab, max_position_embeddings=length, **off)
    return BertForMaskedLM(config).train()


def with_optimizer(loss_of, module, bf16):
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-5, fused=True)

    def step():
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss = loss_of()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def steps(length, vocab, bf16, n_tokens, decoders):
    """Every variant as a function that does one step."""
    ids = torch.randint(5, vocab, (n_tokens // length, length), generator=stream(0))
    everything = torch.ones_like(ids, dtype=torch.bool)
    corrupted, labels = Corruption(4, torch.arange(5, vocab), exact=True)(ids, everything, stream(1))
    hidden = choose(token_units(everything), 0.75, stream(2), exact=True)
    targets = {
        name: hidden if share == 1 else choose(token_units(hidden), share, stream(3), exact=True)
        for name, share in SHARES.items()
    }
    mask = everything.long()

    stock, packed = new_model(length, vocab), MaskedLanguageModel(new_model(length, vocab))
    variants = {
        "stock": with_optimizer(
            lambda: stock(input_ids=corrupted, attention_mask=mask, labels=labels).loss, stock, bf16
        ),
        "packed MLM": with_optimizer(lambda: mean(packed(corrupted, mask, labels)), packed, bf16),
    }
    for decoder in decoders:
        kind, n_layers = DECODERS[decoder]
        mae = MaskedAutoencoder(new_model(length, vocab), kind, n_layers)
        for share in SHARES:
            variants[f"MAE, {decoder}, {share}"] = with_optimizer(
                lambda mae=mae, share=share: ratio_of(mae(ids, hidden, mask, targets[share])), mae, bf16
            )
    return variants


def mean(outputs):
    return outputs["loss"] / outputs["n_targets"]


def ratio_of(pair):
    return pair[0] / pair[1]


def flops(length, vocab, n_tokens):
    """Of a step, forward and backward: products of the encoder, the decoder, attention and the head."""
    layer = 2 * (4 * WIDTH * WIDTH + 2 * WIDTH * INNER)
    n_hidden = 0.75 * n_tokens

    def head(n):
        return n * 2 * (WIDTH * WIDTH + WIDTH * vocab)

    def encoder(n, seen, layers=LAYERS):
        return layers * n * (layer + 4 * seen * WIDTH)

    n_targets = round(0.15 * n_tokens)
    found = {
        "stock": encoder(n_tokens, length) + head(n_tokens),
        "packed MLM": encoder(n_tokens, length) + head(n_targets),
    }
    for decoder, (kind, n_layers) in DECODERS.items():
        for share, part in SHARES.items():
            n = part * n_hidden
            if kind == "layers":
                light = encoder(n_tokens, length, n_layers)
            else:
                light = (
                    n * (2 * (2 * WIDTH * WIDTH + 2 * WIDTH * INNER) + length * WIDTH)
                    + n_tokens / 4 * 4 * WIDTH * WIDTH
                )
            found[f"MAE, {decoder}, {share}"] = encoder(n_tokens / 4, length / 4) + light + head(n)
    return {name: 3 * work for name, work in found.items()}


def products(vocab, n_tokens, dtype):
    """The very matrix products of a packed masked-LM step and nothing else, as a function; and their operations."""
    n_targets = round(0.15 * n_tokens)
    shapes = [(n_tokens, WIDTH, WIDTH)] * 4 * LAYERS + [(n_tokens, WIDTH, INNER), (n_tokens, INNER, WIDTH)] * LAYERS
    shapes += [(n_targets, WIDTH, WIDTH), (n_targets, WIDTH, vocab)]
    made = {
        shape: (torch.randn(shape[0], shape[1], dtype=dtype), torch.randn(shape[2], shape[1], dtype=dtype))
        for shape in set(shapes)
    }
    gradients = {shape: torch.randn(shape[0], shape[2], dtype=dtype) for shape in set(shapes)}

    def multiply():
        for shape in shapes:
            x, w = made[shape]
            torch.nn.functional.linear(x, w)
            gradients[shape] @ w  # gradient of the input
            gradients[shape].t() @ x  # gradient of the weight

    return multiply, 3 * sum(2 * n * k * m for n, k, m in shapes)


def measure(name, rounds, n_tokens, decoders):
    length, vocab, bf16 = SETTINGS[name]
    times = interleave(steps(length, vocab, bf16, n_tokens, decoders), rounds)
    work = flops(length, vocab, n_tokens)
    for variant in times:
        yield {
            "setting": name,
            "variant": variant,
            "tokens": n_tokens,
            "rounds": rounds,
            "ms": 1e3 * median(times[variant]),
            "against stock": ratio(times, "stock", variant),
            "against packed MLM": ratio(times, "packed MLM", variant),
            "FLOPs against stock": work["stock"] / work[variant],
            "FLOPs against packed MLM": work["packed MLM"] / work[variant],
        }


def measure_share(name, rounds, n_tokens):
    """The packed masked-LM step and its matrix products alone, in turn, with nothing else in memory."""
    length, vocab, bf16 = SETTINGS[name]
    multiply, n_operations = products(vocab, n_tokens, torch.bfloat16 if bf16 else torch.float32)
    packed = steps(length, vocab, bf16, n_tokens, ())["packed MLM"]
    times = interleave({"packed MLM": packed, "GEMM": multiply}, rounds)
    share = flops(length, vocab, n_tokens)["packed MLM"] / n_operations * ratio(times, "GEMM", "packed MLM")
    yield {"setting": name, "variant": "share of GEMM rate", "share": share, "rounds": rounds}


def report(records):
    parts = [
        "Forward, backward and fused AdamW, BERT-base without dropout; medians over rounds, ratios within a round, "
        "above 1 = faster."
    ]
    columns = ["variant", "ms", "against stock", "against packed MLM"]
    columns += ["FLOPs against stock", "FLOPs against packed MLM"]
    for name, (length, vocab, bf16) in SETTINGS.items():
        mine = [record for record in records if record["setting"] == name]
        rows = [[record[column] for column in columns] for record in mine if "ms" in record]
        if not rows:
            parts.append(f"{name}: not measured yet.")
            continue
        rows.sort(key=lambda row: -row[1])
        first, kind = next(record for record in mine if "ms" in record), "bfloat16" if bf16 else "float32"
        size = f"{first['tokens']} tokens a step, {first['rounds']} rounds"
        parts += [f"Length {length}, vocabulary {vocab}, {kind}, {size}:", table(columns, rows)]
        parts += [
            f"The packed masked-LM step reaches {record['share']:.2f} of the rate of its own matrix products alone "
            f"({record['rounds']} rounds in turn)."
            for record in mine
            if "share" in record
        ]
    return "\n\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=SETTINGS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--share_only", action="store_true", help="only the share of the GEMM rate, from 5 rounds")
    parser.add_argument("--tokens", type=int, default=2048, help="a step")
    parser.add_argument("--decoders", nargs="+", default=list(DECODERS), choices=DECODERS)
    options = parser.parse_args()
    torch.set_num_threads(os.cpu_count() or 1)
    for name in options.settings:
        found = [] if options.share_only else list(measure(name, options.rounds, options.tokens, options.decoders))
        found += measure_share(name, max(5, options.rounds), options.tokens)
        for record in found:
            print(record, flush=True)
        records = merge("mae", found, ("setting", "variant"))
        publish("mae", "Pretraining steps, masked LM against MAE", report(records), records)


if __name__ == "__main__":
    main()
