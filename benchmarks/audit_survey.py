"""The audit of every encoder type of the installed transformers, and of some decoders, tiny and random.

    python benchmarks/audit_survey.py                 # all of them
    python benchmarks/audit_survey.py bert mobilebert # these anew, the others as published

Every failure's script is run as well: plain transformers, nothing of ours.
"""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from typing import Any

import torch
import transformers
from harness import merge, publish, table
from torch import nn

from maskwright.audit.rules import RULES
from maskwright.audit.runner import run_audit
from maskwright.audit.tiny import masked_lm_types, tiny_model
from maskwright.errors import InputError

OTHER_ENCODERS = ["bros", "canine", "lilt", "markuplm", "splinter", "xlnet"]
BOTH = ["blenderbot", "fsmt", "m2m_100", "marian", "mt5", "pegasus", "t5", "umt5"]
DECODERS = [
    "bloom",
    "codegen",
    "ernie4_5",
    "falcon",
    "gemma2",
    "gpt2",
    "gpt_neo",
    "gpt_neox",
    "gptj",
    "granite",
    "llama",
    "mistral",
    "olmo2",
    "opt",
    "phi",
    "qwen2",
    "qwen3",
    "stablelm",
]
TORCH = "torch.nn.MultiheadAttention"
OTHERS = [TORCH, *OTHER_ENCODERS, *BOTH, *DECODERS]
WANTED = [
    name for name, rule in RULES.items() if rule.kind == "model" and (rule.by_default or name == "implementations")
]


class TorchAttention(nn.Module):
    """`nn.MultiheadAttention` over embeddings, called as its documentation says."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(97, 32)
        self.attention = nn.MultiheadAttention(32, 2, batch_first=True)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        """States `[B, L, D]`."""
        states = self.embed(input_ids)
        drop = None if attention_mask is None else ~attention_mask.bool()
        return self.attention(states, states, states, key_padding_mask=drop, need_weights=False)[0]


def made(family: str) -> nn.Module:
    """A tiny random model."""
    if family != TORCH:
        return tiny_model(family)
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        return TorchAttention()


def surveyed(family: str) -> dict:
    """One record: verdict, failures by rule and cause, properties by cause."""
    try:
        model = made(family)
    except InputError as error:
        return {"family": family, "verdict": "not built", "why": str(error).partition(": ")[2]}
    direction: Any = "bidirectional" if family in (*OTHER_ENCODERS, TORCH) else None
    sizes: Any = {"vocab_size": 97, "pad_id": 1} if family == TORCH else {}
    found = run_audit(model, name=family, rules=WANTED, direction=direction, **sizes)
    failures: dict[tuple, dict] = {}
    for finding in found.failures:
        # One failure for each rule and cause: its worst.
        held = failures.setdefault((finding.rule, finding.cause), {"effect": -1.0})
        if (effect := finding.effect or 0.0) > held["effect"]:
            held |= {"rule": finding.rule, "cause": finding.cause, "check": finding.check, "effect": effect}
            held |= {"module": finding.module, "reason": finding.reason, "script": finding.script}
    for failure in failures.values():
        failure["plain transformers"] = None if family == TORCH else shown_by(failure["script"])
        del failure["script"]
    designs: dict[str, list[str]] = {}
    for finding in found:
        if finding.verdict == "architectural" and finding.rule not in designs.setdefault(finding.cause, []):
            designs[finding.cause].append(finding.rule)
    refused = sorted({f.rule for f in found if f.verdict == "not applicable" and f.reason.startswith("it refuses")})
    verdict = "faults" if failures else "mixes slots" if "mixes-neighbours" in designs else "clean"
    record = {"family": family, "verdict": verdict, "failures": list(failures.values()), "designs": designs}
    return record | {"refused": refused, "seconds": round(found.seconds, 2)}


def shown_by(script: str) -> float | None:
    """The largest difference that a failure's own script prints; None = it has no script."""
    if not script:
        return None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(script, "script", "exec"), {})
    return max(float(line) for line in printed.getvalue().split())


def is_bool_mask(failure: dict) -> bool:
    """The fault that eager attention has everywhere: a 4-D boolean mask is added as 1 and 0."""
    return "4d bool" in failure["check"] and failure["rule"] in ("implementations", "mask-forms", "packing-blocks")


def report(records: list[dict]) -> str:
    """Faults of a family's own, the one that all share, what mixes slots, what is clean."""
    records = sorted(records, key=lambda record: record["family"])
    built = [record for record in records if record["verdict"] != "not built"]
    faults = [(r, own) for r in built if (own := [f for f in r["failures"] if not is_bool_mask(f)])]
    mixing = [record for record in built if record["verdict"] == "mixes slots"]
    shared = {r["family"]: {f["rule"] for f in r["failures"] if is_bool_mask(f)} for r in built}
    on_eager = [family for family, rules in shared.items() if rules == {"implementations"}]
    by_default = [family for family, rules in shared.items() if rules - {"implementations"}]
    touched = [record["family"] for record, _ in faults] + on_eager + by_default
    clean = [r["family"] for r in built if r not in mixing and r["family"] not in touched]
    left_out = [f"{record['family']} ({record['why']})" for record in records if record["verdict"] == "not built"]
    rows = [row(record, failure) for record, own in faults for failure in own]
    lines = [
        f"{len(records)} types, tiny and random: {len(faults)} with faults of their own, {len(mixing)} that mix slots "
        f"by design, {len(set(on_eager + by_default))} that take a 4-D boolean mask for numbers, {len(clean)} without "
        f"any of this, {len(left_out)} that cannot be built.",
        "## Faults of a family's own",
        "Effect: the largest difference on real tokens over the root mean square of the outputs. Plain: the largest "
        "absolute one that the failure's own script prints, in transformers and without maskwright; empty where no two "
        "calls are compared (a gradient, numbers that are none).",
        table(["family", "rule", "what is compared", "effect", "plain", "module", "cause"], rows),
        "## 4-D boolean masks",
        f"Added as 1 and 0 on eager attention, right on sdpa: {', '.join(on_eager)}.",
        f"The same, where eager attention is what the type has or begins with: {', '.join(by_default)}.",
        "## Mixes slots by design",
        table(
            ["family", "rules that see it"],
            [[r["family"], ", ".join(r["designs"]["mixes-neighbours"])] for r in mixing],
        ),
        "## Without any of this",
        f"{', '.join(clean)}.",
        "## Properties",
        "No failures, but to be known.",
        table(["property", "seen by", "types"], properties(built)),
    ]
    return "\n\n".join(lines + ([f"Cannot be built: {'; '.join(left_out)}."] if left_out else []))


def row(record: dict, failure: dict) -> list[str]:
    """A line of the table of faults."""
    plain, module = failure["plain transformers"], failure["module"]
    return [
        record["family"],
        failure["rule"],
        failure["check"],
        f"{failure['effect']:.0e}",
        "" if plain is None else f"{plain:.0e}",
        f"`{module}`" if module else "",
        failure["cause"] or failure["reason"],
    ]


def properties(built: list[dict]) -> list[list[str]]:
    """Cause, the rules that see it, and the types that have it."""
    found = []
    for cause in sorted({cause for record in built for cause in record["designs"]} - {"mixes-neighbours"}):
        holders = [record for record in built if cause in record["designs"]]
        rules = sorted({rule for record in holders for rule in record["designs"][cause]})
        found.append([cause, ", ".join(rules), ", ".join(record["family"] for record in holders)])
    return found


def main() -> None:
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    wanted = sys.argv[1:] or [
        *masked_lm_types(),
        *(name for name in OTHERS if name in {TORCH, *transformers.CONFIG_MAPPING}),
    ]
    records: list[dict] = []
    for family in wanted:
        records.append(surveyed(family))
        print(family, records[-1]["verdict"], flush=True)
    if sys.argv[1:]:
        records = merge("audit_survey", records, ["family"])
    publish("audit_survey", "Survey of transformers", report(records), records)


if __name__ == "__main__":
    main()
