"""English tasks in the formats their files have long been passed around in: one row a task."""

from __future__ import annotations

from collections.abc import Callable

from maskwright.data.archive import Entry, location
from maskwright.data.rows import Rows, read_lines, tab_rows
from maskwright.data.tasks.sentences import pair, sentence
from maskwright.data.tasks.spec import TaskSpec, by_row, tab_table
from maskwright.errors import InputError


def labelled_lines(encoding: str = "utf-8") -> Callable[[Entry], Rows]:
    """Reader of lines that hold a label, a space, and the sentence."""

    def read(file: Entry) -> Rows:
        for number, line in enumerate(read_lines(file, encoding), 1):
            label, space, text = line.partition(" ")
            if not line.strip():
                continue
            if not space:
                raise InputError("a label, a space and a sentence are expected", f"{location(file)}:{number}")
            yield f"{location(file)}:{number}", {"label": label, "sentence": text}

    return read


def cola_lines(file: Entry) -> Rows:
    """Reader of CoLA's raw files: source, label, the author's mark, sentence; no header."""
    return tab_rows(read_lines(file), location(file), ("source", "label", "mark", "sentence"))


ENGLISH = (
    TaskSpec(
        name="sst2",
        kind="sentence",
        language="en",
        description="sentiment of a sentence from a film review",
        labels=("0", "1"),
        files={split: (f"stsa.binary.{split}",) for split in ("train", "dev", "test")},
        reader=by_row(labelled_lines(), sentence()),
        metrics=("accuracy", "f1"),
        label_names={"0": "negative", "1": "positive"},
        sizes={"train": 6920, "dev": 872, "test": 1821},
    ),
    TaskSpec(
        name="trec",
        kind="sentence",
        language="en",
        description="kind of answer a question asks for",
        labels=tuple("012345"),
        files={split: (f"TREC.{split}.all",) for split in ("train", "test")},
        reader=by_row(labelled_lines("latin-1"), sentence()),
        label_names={
            "0": "description",
            "1": "entity",
            "2": "abbreviation",
            "3": "human",
            "4": "location",
            "5": "number",
        },
        sizes={"train": 5452, "test": 500},
    ),
    TaskSpec(
        name="cola",
        kind="sentence",
        language="en",
        description="is the sentence grammatical? The test split is the labelled out-of-domain set",
        labels=("0", "1"),
        files={
            "train": ("cola_public_raw_in_domain_train.tsv", "in_domain_train.tsv"),
            "dev": ("cola_public_raw_in_domain_dev.tsv", "in_domain_dev.tsv"),
            "test": ("cola_public_raw_out_of_domain_dev.tsv", "out_of_domain_dev.tsv"),
        },
        reader=by_row(cola_lines, sentence()),
        metrics=("matthews_correlation", "accuracy"),
        label_names={"0": "unacceptable", "1": "acceptable"},
        sizes={"train": 8551, "dev": 527, "test": 516},
    ),
    TaskSpec(
        name="mrpc",
        kind="pair",
        language="en",
        description="is sentence 2 a paraphrase of sentence 1?",
        labels=("0", "1"),
        files={split: (f"msr_paraphrase_{split}.txt",) for split in ("train", "test")},
        reader=by_row(tab_table, pair("#1 String", "#2 String")),
        metrics=("f1", "accuracy"),
        label_field="Quality",
        label_names={"0": "different", "1": "paraphrase"},
        sizes={"train": 4076, "test": 1725},
    ),
)
