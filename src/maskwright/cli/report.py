"""`maskwright report`."""

from __future__ import annotations

import sys
from dataclasses import asdict

from jsonargparse import Namespace

from maskwright.cli.options import Parser
from maskwright.cli.terminal import show


def build_parser() -> Parser:
    """Folders, and where the page goes."""
    parser = Parser("report")
    parser.usage = "maskwright report RUN [RUN ...] [options]"
    add = parser.add_argument
    add(
        "runs",
        metavar="RUN",
        nargs="+",
        type=str,
        help="folders of runs, sweeps, gaps, audits, or of such folders",
    )
    add("--output", type=str, default="report.html", help="the page to write")
    add("--title", type=str | None, default=None, help="title of the page (default: from the folders' names)")
    add("--json", action="store_true", help="print what was written as JSON on stdout")
    return parser


def run(options: Namespace) -> int:
    """Write the page, and say what is on it."""
    from maskwright.report.page import write_report
    from maskwright.report.values import count

    report = write_report(options.runs, options.output, title=options.title)
    records = ", ".join(count(n, name) for name, n in report.records.items())
    show("Report", {"shows": records, "written to": report.output}, as_json=options.json, result=asdict(report))
    for note in report.notes:
        print(f"maskwright: note: {note}", file=sys.stderr)
    return 0
