"""The demo's last step: an audit of the model that it trained, and of the same model with a fault planted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from maskwright.cli.audit import write_findings

if TYPE_CHECKING:
    from maskwright.audit.finding import Findings

# As text, for the script of the finding has to plant it, too.
_LAYER = "model.base_model.layers[1].attn"
_FAULT = (
    f"{_LAYER}.register_forward_pre_hook(lambda _, args, given: (args, {{**given, 'attention_mask': None}}), "
    "with_kwargs=True)  # planted: this layer forgets the mask"
)


def audit_demo(folder: Path) -> list[Findings]:
    """Audit `folder/packed`, packed, by all rules; and unpacked, with a layer that forgets the mask, by one rule.

    Both go to `folder/audit`, where `maskwright report` finds them beside the runs.
    """
    from maskwright.audit.runner import run_audit
    from maskwright.encoders.pack import pack
    from maskwright.training.models import load_fine_tuned, load_tokenizer

    trained = str(folder / "packed")
    tokenizer = load_tokenizer(trained)
    sound = run_audit(pack(load_fine_tuned(trained)), tokenizer, name="packed")
    faulty = load_fine_tuned(trained)
    exec(_FAULT, {"model": faulty})
    named = "packed, with a fault planted"
    found = run_audit(faulty, tokenizer, name=named, rules=["padding-amount"])
    shown = [replace(one, script=one.script.replace("model.eval()\n", f"{_FAULT}\nmodel.eval()\n")) for one in found]
    audits = [sound, replace(found, items=shown)]
    write_findings(folder / "audit", audits)
    return audits


def show_audits(console: Console, audits: list[Findings], folder: Path) -> None:
    """A line for each model, and what failed, where, why and what to do."""
    from maskwright.audit.formats import worst_by_rule

    console.print("\n[bold]Audit[/bold]")
    for found in audits:
        rules = worst_by_rule(found)
        broken = [finding for finding in rules.values() if finding in found.failures]
        said = f"[bold red]{len(broken)} broken[/bold red]" if broken else "[green]clean[/green]"
        checked = f"{len(rules)} rule{'' if len(rules) == 1 else 's'}"
        console.print(f"{escape(found.subject)}: {said}  ({checked}, {found.seconds:.1f} s)")
        for finding in broken:
            console.print(f"  [bold red]{finding.rule}[/bold red]: {escape(finding.check)}")
            for name, value in (("where", finding.module), ("why", finding.why), ("fix", finding.fix)):
                if value:
                    console.print(f"    {name}: {escape(value)}")
    console.print(f"A script that shows it is in {escape(str(folder / 'audit' / 'audit.md'))}.")
