"""`maskwright embed`."""

from __future__ import annotations

from dataclasses import asdict

from jsonargparse import Namespace

from maskwright.cli.options import Parser, config_parser, read_config
from maskwright.cli.terminal import show, working
from maskwright.training.config import EmbedConfig


def build_parser() -> Parser:
    """One option a field of `EmbedConfig`."""
    return config_parser("embed", EmbedConfig)


def run(options: Namespace) -> int:
    """Embed as told, then print the summary."""
    config = read_config(EmbedConfig, options)
    with working():
        from maskwright.training.embed import run_embed

        result = run_embed(config)
    rows = {
        "texts": f"{result.n_texts:,}",
        "vectors": f"{result.width} wide, {result.pooling} pooling{', length 1' if result.normalize else ''}",
        "real tokens": f"{result.n_tokens:,}",
        "cut to fit": f"{result.n_truncated:,}",
        "written to": result.output,
    }
    show("Embedded", rows, as_json=options.json, result=asdict(result))
    return 0
