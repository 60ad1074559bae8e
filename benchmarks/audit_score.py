"""How well a tool finds the faults of the corpus: recall, false alarms, right module and cause, by half and kind."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness import merge, publish, table

Record = Mapping[str, Any]
KEY = ("tool", "name", "role")
OURS = "maskwright audit"
TITLE = "maskwright audit on a corpus of planted faults"
HALVES = ("tune", "report")


def of(records: Iterable[Record], **wanted: Any) -> list[Record]:
    """The records with these values."""
    return [record for record in records if all(record.get(name) == value for name, value in wanted.items())]


def share(hits: Iterable[bool]) -> str:
    """`19 of 20 (95%)`."""
    known = list(hits)
    return f"{sum(known)} of {len(known)} ({sum(known) / len(known):.0%})" if known else "–"


def scores(records: Sequence[Record]) -> dict[str, str]:
    """Our scores over some records: a quantity and its value."""
    faults, sound = of(records, role="fault"), [record for record in records if record["role"] != "fault"]
    found = of(faults, found=True)
    return {
        "faults found (a rule that fits fails)": share(record["found"] for record in faults),
        "twins that fail": share(bool(record["failed"]) for record in of(sound, role="twin")),
        "controls that fail": share(bool(record["failed"]) for record in of(sound, role="control")),
        "right module, of those found where one is asked for": share(_known(found, "module_right")),
        "right module in any finding of a rule that fits": share(_known(found, "module_in_any")),
        "right cause, of those found": share(_known(found, "cause_right")),
        "right cause in any finding of a rule that fits": share(_known(found, "cause_in_any")),
        "seconds an audit, median": f"{statistics.median(record['seconds'] for record in records):.1f}",
        "seconds an audit, most": f"{max(record['seconds'] for record in records):.1f}",
    }


def _known(records: Iterable[Record], name: str) -> list[bool]:
    return [record[name] for record in records if record.get(name) is not None]


def summary(records: Sequence[Record]) -> str:
    """Markdown tables of our scores: by half, by kind, and what went wrong."""
    parts = {half: part for half in HALVES if (part := of(records, half=half))}
    columns = {half: list(scores(part).items()) for half, part in parts.items()}
    names = [name for name, _ in next(iter(columns.values()))]
    rows = [[name, *(column[i][1] for column in columns.values())] for i, name in enumerate(names)]
    counted = [f"{half}: {len({record['name'] for record in part})} cases" for half, part in parts.items()]
    blocks = [table(["", *counted], rows)]
    faults = of(records, role="fault")
    kinds = sorted({record["kind"] for record in faults})
    rows = []
    for kind in kinds:
        mine = of(faults, kind=kind)
        found = of(mine, found=True)
        right = [share(_known(found, name)) for name in ("module_right", "cause_right")]
        rows.append([kind, share(record["found"] for record in mine), *right])
    blocks.append("## By kind of fault\n\n" + table(["kind", "found", "right module", "right cause"], rows))
    for half, part in parts.items():
        blocks.append(f"## What went wrong: {half}\n\n" + ("\n".join(_wrong(part)) or "Nothing."))
    return "\n\n".join(blocks)


def _wrong(records: Sequence[Record]) -> list[str]:
    lines = []
    for record in records:
        named = f"- `{record['name']}` ({record['architecture']}, {record['kind']})"
        if record["role"] != "fault":
            if record["failed"]:
                lines.append(f"{named}, a {record['role']}: fails {', '.join(record['failed'])}")
        elif not record["found"]:
            others = f"; fails {', '.join(record['failed'])}" if record["failed"] else ""
            lines.append(f"{named}: missed{others}")
        else:
            if record["module_right"] is False:
                lines.append(f"{named}: module {record['module']}, not {record['module_wanted']}")
            if record["cause_right"] is False:
                lines.append(f"{named}: cause {record['cause']}, not {' or '.join(record['cause_wanted'])}")
    return lines


def contest(records: Sequence[Record]) -> str:
    """A Markdown table of all tools: what each can be applied to, any alarm on faults, alarms on what is sound."""
    rows = []
    for tool in dict.fromkeys(record["tool"] for record in records):
        mine = of(records, tool=tool)
        able = [record for record in mine if record.get("cannot") is None]
        faults, alarmed = of(able, role="fault"), [record for record in able if record["failed"]]
        by_place = {(record["name"], record["role"]): set(record["failed"]) for record in able}
        apart = [
            bool(by_place[record["name"], "fault"] - by_place.get((record["name"], "twin"), set())) for record in faults
        ]
        sound = [record for record in able if record["role"] != "fault"]
        everything = len(of(mine, role="fault"))
        rows.append(
            [
                tool,
                share(bool(record["failed"]) for record in faults),
                share(apart),
                everything - len(faults),
                f"{sum(apart)} of {everything} ({sum(apart) / everything:.0%})" if everything else "–",
                share(record in alarmed for record in sound),
                f"{statistics.median(record['seconds'] for record in able):.1f}" if able else "–",
            ]
        )
    head = [
        "tool",
        "any alarm",
        "told from the twin",
        "not applicable",
        "told apart, of all",
        "false alarms",
        "s",
    ]
    return table(head, rows)


def write(new: Sequence[Record], names: Iterable[str]) -> None:
    """Publish records, in place of those of the same tool and case; cases that are no more are dropped."""
    kept = set(names)
    records = [_short(record) for record in merge("audit", new, KEY) if record["name"] in kept]
    body = [EXPLAINED, summary(of(records, tool=OURS))] if of(records, tool=OURS) else [EXPLAINED]
    if len({record["tool"] for record in records}) > 1:
        body.append(f"## Against other tools\n\n{contest(records)}\n\n{RIVALS}")
    publish("audit", TITLE, "\n\n".join(body), records)


def _short(record: Record) -> Record:
    """What is worth publishing: of other tools only what their table rests on."""
    ours = record["tool"] == OURS
    wanted = {name: value for name, value in record.items() if ours or name in (*KEY, "failed", "cannot", "seconds")}
    return wanted | {"seconds": round(record["seconds"], 2)}


EXPLAINED = """Every case of `tests/faults/corpus` is a model or function with a fault planted in it, written from a
public report, and its twin without the fault; or a control that is right. The half "tune" was looked at while the
audit was being written, the half "report" only counted. A fault is found if one of the rules that the case names
fails. Module and cause are those of the first such rule (in the catalogue's order) that names a module. A twin or
control that fails is an alarm where nothing was planted. Controls were chosen because they are right. Twins were not:
some have a fault of transformers' own (a boolean 4-D mask on eager attention, a head that looks for the pad id where
there is a mask), which the audit must find; each is listed."""

RIVALS = """The same cases through other tools, by `benchmarks/audit_rivals.py` with the settings named there. "Any
alarm" counts every failed check, whatever it says. "Told from the twin" counts faults on which a check fails that
passes on the twin; "told apart, of all" is the same out of all faults. "Not applicable" are faults of things that the
tool has no way to call: collators, losses and builders of masks. "False alarms" are twins and controls on which any
check fails. "s" is the median of seconds a case."""
