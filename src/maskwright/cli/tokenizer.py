"""`maskwright tokenizer`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from jsonargparse import Namespace

from maskwright.cli.options import Parser
from maskwright.cli.terminal import show, working
from maskwright.errors import InputError

if TYPE_CHECKING:
    from maskwright.data.corpus import Corpus, Report


def build_parser() -> Parser:
    """OUT, the corpus and the kind of vocabulary."""
    parser = Parser("tokenizer")
    parser.usage = "maskwright tokenizer OUT --corpus FILE [FILE ...] [options]"
    add = parser.add_argument
    add("output", metavar="OUT", type=str, help="a new folder")
    add("--corpus", nargs="+", type=str, required=True, help="text, JSONL or Parquet: files, globs, folders")
    add("--kind", choices=["wordpiece", "bpe", "unigram"], default="wordpiece", help="kind of vocabulary")
    add("--vocab_size", type=int, default=30000, help="pieces at most, special tokens included")
    add("--max_length", type=int, default=512, help="the tokenizer's own limit, in tokens")
    add("--text_column", type=str, default="text", help="column of the text, in JSONL and Parquet")
    add("--boundary", choices=["blank_line", "line", "file"], default="blank_line", help="where documents end")
    add("--json", action="store_true", help="print the result as JSON on stdout, all else on stderr")
    return parser


def run(options: Namespace) -> int:
    """Train, save, and say what came of it."""
    folder = Path(options.output)
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty", "OUT")
    with working():
        from maskwright.data.corpus import Corpus, find_files
        from maskwright.training.vocabulary import train_tokenizer

        documents = _Documents(Corpus(find_files(options.corpus), options.text_column, options.boundary))
        tokenizer = train_tokenizer(documents, options.kind, options.vocab_size, options.max_length)
        tokenizer.save_pretrained(folder)
    report = documents.report
    assert report is not None
    rows = {
        "kind": options.kind,
        "vocabulary": f"{len(tokenizer):,} pieces",
        "documents": f"{report.n_documents:,}",
        "written to": str(folder),
    }
    if report.n_bad:
        where, reason = report.bad[0]
        rows["lines left out"] = f"{report.n_bad:,}, the first {where}: {reason}"
    result = {"kind": options.kind, "vocab_size": len(tokenizer), "n_documents": report.n_documents}
    show("tokenizer", rows, as_json=options.json, result=result | {"n_bad_lines": report.n_bad, "output": str(folder)})
    return 0


class _Documents:
    """A corpus that may be read several times, progress shown; `report` is that of the last time."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self.report: Report | None = None

    def __iter__(self) -> Iterator[str]:
        from tqdm.auto import tqdm

        from maskwright.data.corpus import Report

        self.report = Report()
        yield from tqdm(self.corpus.documents(self.report), unit="document", delay=2)
