"""`maskwright correct`."""

from __future__ import annotations

from jsonargparse import Namespace

from maskwright.cli.options import Parser
from maskwright.cli.terminal import show, working

_HELP = """MODEL is copied to OUT with its input embeddings replaced by what masked pretraining saw on average:

  E[i] <- (1 - r) E[i] + r (a E[mask] + b E[i] + c mean(E))      mean over all rows

Special tokens ([CLS], [SEP], [PAD], [UNK], [MASK]) keep their rows: pretraining never chooses them. The vocabulary head
keeps its old values; where it shared the table it gets a copy (tie_word_embeddings becomes false)."""


def build_parser() -> Parser:
    """MODEL, OUT, rate and shares."""
    parser = Parser("correct")
    parser.usage = "maskwright correct MODEL OUT [options]"
    parser.description = f"{parser.description}\n\n{_HELP}"
    add = parser.add_argument
    add("model", metavar="MODEL", type=str, help="a masked language model: local folder or hub name")
    add("output", metavar="OUT", type=str, help="a new folder")
    own = "(default: the run's own, if maskwright pretrained it; else"
    add("--rate", type=float, help=f"r: share of tokens that pretraining chose {own} 0.15)")
    add("--shares", type=float, nargs=3, help=f"a b c: became [MASK], stayed, became random {own} 0.8 0.1 0.1)")
    add("--json", action="store_true", help="print the result as JSON on stdout, all else on stderr")
    return parser


def run(options: Namespace) -> int:
    """Correct, and say what changed."""
    with working():
        from maskwright.training.correct import correct_embeddings

        shares = None if options.shares is None else tuple(options.shares)
        done = correct_embeddings(options.model, options.output, rate=options.rate, shares=shares)
    rows = {
        "rate, shares": f"{done.rate:g}, {' '.join(f'{share:g}' for share in done.shares)}",
        "table": done.table,
        "rows changed": f"{done.changed:,}, moved by {done.moved:.4g} on average",
        "rows kept": f"{done.kept} of special tokens",
        "vocabulary head": "kept, in a copy of its own" if done.untied else "not shared with the table",
        "written to": done.output,
    }
    show("embedding correction", rows, as_json=options.json, result=done.to_dict())
    return 0
