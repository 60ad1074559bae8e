"""Predictions as a file: one record a row, in JSON Lines or CSV."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def write_records(path: Path, records: Iterable[dict[str, Any]]) -> None:
    """Write records such as a kind of task gives; the file's ending, .jsonl or .csv, says the format.

    JSONL keeps probabilities, and their spread, as an object; CSV has a column `p(LABEL)`, and `spread(LABEL)`, each,
    and joins several labels by "|".
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        if path.suffix == ".jsonl":
            file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
            return
        flat = [_flat(record) for record in records]
        columns = dict.fromkeys(name for record in flat for name in record)
        writer = csv.DictWriter(file, fieldnames=list(columns))
        writer.writeheader()
        writer.writerows(flat)


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    flat = {name: value for name, value in record.items() if not isinstance(value, dict)}
    if "labels" in flat:
        flat["labels"] = "|".join(flat["labels"])
    for field, short in (("probabilities", "p"), ("spread", "spread")):
        if isinstance(record.get(field), dict):
            flat |= {f"{short}({name})": value for name, value in record[field].items()}
    return flat
