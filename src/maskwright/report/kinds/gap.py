"""Gap measurements: how far the network people fine-tune is from the average of those that were pretrained."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from maskwright.report.blocks import Chart, Part, Point, Section, Series, Table
from maskwright.report.curves import in_order
from maskwright.report.kinds.base import Kind, folded_values
from maskwright.report.kinds.runs import drawn
from maskwright.report.pictures import pictures
from maskwright.report.records import Reader, Source, rows_of, table_of
from maskwright.report.values import number, show

_POOLED = {"mean": "mean over tokens", "cls": "first token ([CLS])"}
_ERRORS = "the interval over texts and draws"
_COLUMNS = ("noise", "rate", "reference", "where", "tokens", "distance", "low", "high")


def section(sources: Sequence[Source]) -> Section:
    """All gap measurements of the page."""
    words, notes, parts = [], [], []
    for source in sources:
        reader = Reader(source)
        record = reader.json("gap.json")
        rows = [row for row in rows_of(record.get("rows")) if number(row.get("distance")) is not None]
        named = f"{source.name}: " if len(sources) > 1 else ""
        # The first sentence says whose the following ones are.
        words.append(
            f"{named}{show(record.get('model')) or 'A model'}, {show(record.get('n_texts'))} texts, "
            f"{show(record.get('n_draws'))} draws: relative distance between the mean output under noise and the "
            "output of the plain network, or of the one with corrected embeddings."
        )
        said = record.get("summary")
        words += [show(sentence) for sentence in (said if isinstance(said, list) else [])]
        used = [name for name in _COLUMNS if any(row.get(name) is not None for row in rows)]
        values = [[row.get(name) for name in used] for row in rows]
        table = Table("Distances", used, values, folded=True, note=f"From low to high: {_ERRORS}.")
        parts += [
            Part(f"{named}Distance by layer and rate", [*drawn(_charts(rows)), table]),
            Part(f"{named}Pictures", pictures(reader)),
            Part(f"{named}Environment", folded_values("Environment", table_of(record.get("environment")))),
        ]
        notes += reader.notes
    return Section("Gap between training and use", words, notes, parts)


def _charts(rows: Sequence[dict[str, Any]]) -> list[Chart]:
    charts = []
    for noise, tokens in dict.fromkeys(map(_what, rows)):
        own = [row for row in rows if _what(row) == (noise, tokens)]
        which = f" ({tokens} tokens)" if tokens else ""
        layers: dict[str, list[Point]] = defaultdict(list)
        pooled: dict[str, dict[str, list[Point]]] = {name: defaultdict(list) for name in _POOLED}
        for row in own:
            where, reference, rate = str(row.get("where")), show(row.get("reference")), number(row.get("rate"))
            layer = re.fullmatch(r"layer (\d+)", where)
            if layer:
                layers[f"{reference}, rate {show(row.get('rate'))}"].append(_point(float(layer[1]), row))
            elif where in pooled and rate is not None:
                pooled[where][reference].append(_point(rate, row))
        charts.append(_chart(f"{noise}: distance by layer{which}", "layer", layers))
        for where, lines in pooled.items():
            charts.append(_chart(f"{noise}: distance of the {_POOLED[where]}{which}", "rate", lines))
    return charts


def _what(row: Mapping[str, Any]) -> tuple[str, str]:
    return show(row.get("noise")), show(row.get("tokens"))


def _chart(title: str, x_label: str, lines: dict[str, list[Point]]) -> Chart:
    series = [Series(name, in_order(points)) for name, points in lines.items()]
    return Chart(title, x_label, "relative distance", series, errors=_ERRORS)


def _point(x: float, row: dict[str, Any]) -> Point:
    return Point(x, float(row["distance"]), number(row.get("low")), number(row.get("high")))


GAP = Kind("gap measurement", "gap.json", lambda folder: (folder / "gap.json").is_file(), section)
