"""Raw text from a dataset: of the hub, or a folder that `datasets` loads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets import Dataset, IterableDataset, load_dataset

from maskwright.errors import InputError


@dataclass(frozen=True)
class HubCorpus:
    """A `TextSource` over `datasets.load_dataset`; a row is a document.

    Attributes:
        name: hub name, or a local folder of data files.
        config_name: which configuration, where there are several.
        split: which split; datasets' slices such as "train[:10%]" too, unless it is streamed.
        text_column: column of the text.
    """

    name: str
    config_name: str | None = None
    split: str = "train"
    text_column: str = "text"

    def table(self, cache: Path | None = None) -> Dataset:
        """See `TextSource`."""
        rows = self._load(streaming=False, cache_dir=None if cache is None else str(cache))
        return rows.map(self._checked, with_indices=True, remove_columns=rows.column_names, desc="reading")

    def stream(self) -> IterableDataset:
        """See `TextSource`."""
        rows = self._load(streaming=True).filter(self._has_text)
        return rows.map(self._text, remove_columns=rows.column_names)

    def _load(self, **options: Any) -> Any:
        try:
            rows = load_dataset(self.name, self.config_name, split=self.split, **options)
        except (OSError, ValueError, RuntimeError) as error:
            reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
            raise InputError(f"cannot load {self.name}: {reason}", "dataset_name") from error
        if rows.column_names is not None and self.text_column not in rows.column_names:
            raise InputError(
                f"{self.name} has no column '{self.text_column}', only {', '.join(rows.column_names)}", "text_column"
            )
        return rows

    def _has_text(self, row: dict[str, Any]) -> bool:
        text = row[self.text_column]
        return isinstance(text, str) and bool(text.strip())

    def _text(self, row: dict[str, Any]) -> dict[str, str]:
        return {"text": row[self.text_column]}

    def _checked(self, row: dict[str, Any], index: int) -> dict[str, Any]:
        if self._has_text(row):
            return {"text": row[self.text_column], "bad": None}
        return {"text": "", "bad": [f"{self.name}:{index + 1}", f"no text in column '{self.text_column}'"]}
