"""Score `maskwright audit` on the corpus of planted faults, their clean twins and the controls.

    .venv/bin/python benchmarks/audit.py [--half tune|report|both] [--only NAME ...]

Results of each case are kept under `build/audit-corpus` for as long as the audit and the corpus stay as they are, so
that a run that was stopped goes on. Only a run of both halves, without --only, is published (results/audit.md).
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import audit_score
import torch
from tqdm import tqdm

from maskwright.audit.finding import Finding, Findings
from maskwright.audit.formats import worst_by_rule
from maskwright.audit.runner import run_audit

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT / "tests" / "faults"
sys.path.insert(0, str(CORPUS))


def subjects(half: str, only: list[str]) -> list[tuple[Any, str]]:
    """(case, role) of everything to be looked at."""
    from corpus import CONTROLS, FAULTS

    wanted = [case for case in (*FAULTS, *CONTROLS) if half in ("both", case.half) and (not only or case.name in only)]
    roles = {case.name: ("control",) if case.twin is None else ("fault", "twin") for case in wanted}
    return [(case, role) for case in wanted for role in roles[case.name]]


def folder_for(*sources: Path) -> Path:
    """Where results are kept, by a hash of the code they rest on."""
    digest = hashlib.sha256()
    for source in sources:
        for path in sorted(source.rglob("*.py")) if source.is_dir() else [source]:
            digest.update(path.read_bytes())
    folder = ROOT / "build" / "audit-corpus" / digest.hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def kept(folder: Path, name: str, make: Any) -> Any:
    """The result of that name, made and kept if it is not there."""
    path = folder / f"{name}.json"
    if not path.exists():
        part = path.with_suffix(".part")
        part.write_text(json.dumps(make()), encoding="utf-8")
        part.rename(path)
    return json.loads(path.read_text(encoding="utf-8"))


def described(case: Any, role: str, tool: str) -> dict[str, Any]:
    """What a record says of its case."""
    told = {"tool": tool, "name": case.name, "role": role, "half": case.half}
    return told | {"kind": case.kind, "architecture": case.architecture}


def audited(case: Any, role: str) -> dict[str, Any]:
    """Audit one subject and score what was found."""
    torch.manual_seed(0)
    began = time.perf_counter()
    try:
        found = run_audit((case.twin if role == "twin" else case.make)(), name=case.name, **case.arguments())
    except Exception as error:  # the audit must not raise: an alarm that says nothing
        found = Findings(case.name, [Finding("crash", type(error).__name__, "error", "high", reason=str(error))])
    seconds = time.perf_counter() - began
    worst = [finding for finding in worst_by_rule(found).values() if finding in found.failures]
    fitting = [finding for finding in worst if finding.rule in case.rules]
    head = next((finding for finding in fitting if finding.module), fitting[0] if fitting else None)
    every = [finding for finding in found.failures if finding.rule in case.rules]
    asked = None if case.module is None else re.compile(case.module)
    return described(case, role, audit_score.OURS) | {
        "failed": [finding.rule for finding in worst],
        "found": bool(fitting),
        "module": head and head.module,
        "cause": head and head.cause,
        "module_wanted": case.module,
        "cause_wanted": sorted(case.cause),
        "module_right": None if asked is None or head is None else _fits(asked, head),
        "module_in_any": None if asked is None or head is None else any(_fits(asked, finding) for finding in every),
        "cause_right": None if not case.cause or head is None else head.cause in case.cause,
        "cause_in_any": None if not case.cause or head is None else any(f.cause in case.cause for f in every),
        "seconds": seconds,
    }


def _fits(asked: re.Pattern[str], finding: Finding) -> bool:
    """Whether the module is the right one; `name#2` is its second call."""
    return asked.fullmatch((finding.module or "").split("#")[0]) is not None


def main() -> None:
    """Run, print, publish."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=[*audit_score.HALVES, "both"], default="both")
    parser.add_argument("--only", nargs="+", default=[], help="names of cases")
    options = parser.parse_args()
    folder = folder_for(ROOT / "src" / "maskwright" / "audit", CORPUS / "corpus", Path(__file__))
    records = []
    for case, role in tqdm(subjects(options.half, options.only), unit="audit"):
        records.append(kept(folder, f"{case.name}.{role}", lambda case=case, role=role: audited(case, role)))
        gc.collect()
    if not records:
        raise SystemExit("no case has such a name")
    print(audit_score.summary(records))
    if options.half == "both" and not options.only:
        audit_score.write(records, [record["name"] for record in records])


if __name__ == "__main__":
    main()
