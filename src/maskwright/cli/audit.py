"""`maskwright audit`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import Namespace
from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Table

from maskwright.audit.allow import read_allowed
from maskwright.cli.options import Parser
from maskwright.cli.terminal import working
from maskwright.errors import InputError

if TYPE_CHECKING:
    from maskwright.audit.finding import Findings

_COLOURS = {"fail": "bold red", "error": "bold red", "architectural": "yellow", "noise": "cyan", "pass": "green"}
_KINDS = ["model", "pooling", "collator", "loss", "mask"]
_HELP = """Padding that leaks, a future that leaks, texts in one row that see each other, embeddings that depend on the
batch: every rule is a law that two calls of the model must keep. A difference is repeated in float64 to tell rounding
from a leak, and traced to the module that makes it. Exit code: 0 clean, 1 findings, 2 could not run."""


def build_parser() -> Parser:
    """What to audit, which rules, where to write."""
    parser = Parser("audit")
    parser.usage = "maskwright audit [MODEL] [options]"
    parser.description = f"{parser.description}\n\n{_HELP}"
    add = parser.add_argument
    add("model", metavar="MODEL", nargs="?", type=str, help="a model or sentence-transformers folder, or a hub name")
    add("--arch", nargs="+", type=str, help="tiny random models of these transformers types, built offline")
    add("--all_archs", action="store_true", help="the same for every type that has a masked-LM form")
    add("--python", type=str, help="file.py:name of a torch module, or of a function without arguments that makes one")
    add("--kind", choices=_KINDS, default="model", help="what --python names, if it is a function and no model")
    add("--tokenizer", type=str, help="folder or hub name: where a collator's examples come from")
    add("--allow_pickle", action="store_true", help="read weights that are no safetensors, too (torch unpickles them)")
    add("--trust_remote_code", action="store_true", help="run the Python code that comes with MODEL")
    add("--direction", choices=["bidirectional", "causal", "encoder-decoder"], help="if not as its configuration says")
    add("--vocab_size", type=int, help="where the model has no configuration that says so")
    add("--pad_id", type=int, help="where the model has no configuration that says so")
    add("--rules", nargs="+", type=str, help="only these (default: all but 'implementations' and 'compile')")
    add("--allow", type=str, help="YAML file of {rule: reason}: broken with a reason, and so no failure")
    add("--output", type=str, help="folder for audit.json, audit.md and audit.sarif")
    add("--json", action="store_true", help="print the result as JSON on stdout, all else on stderr")
    return parser


def run(options: Namespace) -> int:
    """Audit, print, write; 1 where something failed."""
    if sum(map(bool, (options.model, options.arch, options.all_archs, options.python))) != 1:
        raise InputError("name one of MODEL, --arch, --all_archs and --python", "model")
    if options.kind != "model" and not options.python:
        raise InputError(f"'{options.kind}' is a kind of function: name it by --python file.py:name", "kind")
    allow = {} if options.allow is None else read_allowed(options.allow)
    screen = Console(stderr=True)
    with working(), screen.status("auditing") as status:
        from maskwright.audit.runner import run_audit

        tokenizer = _tokenizer(options.tokenizer)
        found = []
        for name, make in _subjects(options, tokenizer):
            try:
                model = make()
            except InputError as error:
                if not options.all_archs:
                    raise
                screen.print(f"{escape(name)}: left out ({escape(str(error))})")
                continue
            settings = {"direction": options.direction, "vocab_size": options.vocab_size, "pad_id": options.pad_id}
            found.append(
                run_audit(
                    model,
                    tokenizer,
                    kind=options.kind,
                    name=name,
                    rules=options.rules,
                    allow=allow,
                    tell=_Teller(status, name),
                    **settings,
                )
            )
    if options.output:
        names = write_findings(Path(options.output), found)
        print(f"written to {options.output}: {', '.join(names)}", file=sys.stderr)
    if options.json:
        print(json.dumps([findings.to_dict() for findings in found], ensure_ascii=False))
    else:
        for findings in found:
            _show(findings, only_failures=len(found) > 1)
    return 0 if all(findings.is_clean for findings in found) else 1


class _Teller:
    """Shows which rule is at work."""

    def __init__(self, status: Status, name: str) -> None:
        self.status, self.name = status, name

    def __call__(self, rule: str) -> None:
        self.status.update(f"auditing {escape(self.name)}: {rule}")


def _tokenizer(name: str | None) -> Any:
    if name is None:
        return None
    from maskwright.training.models import load_tokenizer

    return load_tokenizer(name)


def _subjects(options: Namespace, tokenizer: Any) -> list[tuple[str, Any]]:
    from maskwright.audit.load import load_callable, load_model
    from maskwright.audit.tiny import masked_lm_types, tiny_model

    if options.model:
        trust = {"allow_pickle": options.allow_pickle, "trust_remote_code": options.trust_remote_code}
        return [(options.model, lambda: load_model(options.model, **trust))]
    if options.python and options.kind != "model":
        return [(options.python, lambda: _function(load_callable(options.python), options, tokenizer))]
    if options.python:
        return [(options.python, lambda: _module(load_callable(options.python), options.python))]
    names = masked_lm_types() if options.all_archs else options.arch
    return [(name, lambda name=name: tiny_model(name)) for name in names]


def _function(found: Any, options: Namespace, tokenizer: Any) -> Any:
    """What is called; a class is made, a collator's with the tokenizer if there is one."""
    if not isinstance(found, type):
        return found
    try:
        return found(tokenizer) if options.kind == "collator" and tokenizer is not None else found()
    except Exception as error:  # it is somebody's code: whatever it raises belongs into the message
        reason = f"raises {type(error).__name__}: {' '.join(str(error).split())}"
        raise InputError(reason, options.python) from error


def _module(found: Any, where: str) -> Any:
    from torch import nn

    try:
        made = found if isinstance(found, nn.Module) else found()
    except Exception as error:  # it is somebody's code: whatever it raises belongs into the message
        raise InputError(f"raises {type(error).__name__}: {' '.join(str(error).split())}", where) from error
    if not isinstance(made, nn.Module):
        raise InputError(f"gives a {type(made).__name__}, not a torch module", where)
    return made


def _show(findings: Findings, *, only_failures: bool) -> None:
    from maskwright.audit.formats import worst_by_rule

    console = Console()
    verdict = "[green]clean[/green]" if findings.is_clean else "[bold red]findings[/bold red]"
    console.print(f"[bold]{escape(findings.subject)}[/bold]: {verdict}  ({findings.seconds:.1f} s)")
    rows = worst_by_rule(findings)
    if only_failures:
        rows = {rule: finding for rule, finding in rows.items() if finding in findings.failures}
    if not rows:
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("rule", "verdict", "effect", "where and why"):
        table.add_column(heading)
    for rule, finding in rows.items():
        shown = "allowed" if finding.allowed else finding.verdict
        effect = "" if finding.effect is None or finding.verdict == "pass" else f"{finding.effect:.0e}"
        where = f"{finding.module}: " if finding.module else ""
        why = finding.allowed or (finding.why and f"{where}{finding.why}")
        table.add_row(rule, f"[{_COLOURS.get(finding.verdict, 'dim')}]{shown}[/]", effect, escape(why))
    console.print(table)
    failed = [finding for finding in rows.values() if finding in findings.failures]
    for finding in failed:
        console.print(f"\n[bold red]{finding.rule}[/bold red]  {escape(finding.check)}")
        if finding.fix:
            console.print(f"  fix: {escape(finding.fix)}")
    if any(finding.script for finding in failed):
        console.print("\nWith --output FOLDER every finding comes with a script in plain torch that shows it.")


def write_findings(folder: Path, found: list[Findings]) -> list[str]:
    """Write `audit.json`, `audit.md` and `audit.sarif`; returns their names."""
    from maskwright.audit.formats import to_markdown, to_sarif

    folder.mkdir(parents=True, exist_ok=True)
    records = [findings.to_dict() for findings in found]
    texts = {
        "audit.json": json.dumps(records, ensure_ascii=False, indent=2),
        "audit.md": "\n".join(to_markdown(findings) for findings in found),
        "audit.sarif": json.dumps(to_sarif(found), ensure_ascii=False, indent=2),
    }
    for name, text in texts.items():
        (folder / name).write_text(text.rstrip() + "\n", encoding="utf-8")
    return list(texts)
