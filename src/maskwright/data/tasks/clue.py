"""CLUE's classification tasks, two from FewCLUE, and ChnSentiCorp: one row a task."""

from __future__ import annotations

from maskwright.data.tasks.coreference import marked_spans
from maskwright.data.tasks.keywords import keywords_and_abstract
from maskwright.data.tasks.sentences import pair, sentence
from maskwright.data.tasks.spec import TaskSpec, json_lines, tab_table

# Unlabelled official tests come in two versions; a labelled one, where somebody has it, is worth more than both.
FILES = {
    "train": ("train.json",),
    "dev": ("dev.json",),
    "test": ("test_labeled.json", "test.json", "test1.1.json", "test1.0.json"),
}
OCNLI_FILES = {
    **FILES,
    "train": ("train.50k.json", "train.json", "train.30k.json", "train.10k.json", "train.3k.json"),
}
FEW_SHOT_FILES = {
    "train": ("train_few_all.json",),
    "dev": ("dev_few_all.json",),
    "test": ("test_public.json",),
}
BINARY = ("0", "1")
INFERENCE = ("entailment", "neutral", "contradiction")
NO_MAJORITY = frozenset({"-"})

CLUE = (
    TaskSpec(
        name="tnews",
        kind="sentence",
        language="zh",
        description="topic of a news headline",
        labels=tuple(str(label) for label in range(100, 117) if label not in (105, 111)),
        files=FILES,
        texts=sentence(),
        read=json_lines,
        name_field="label_desc",
        sizes={"train": 53360, "dev": 10000, "test": 10000},
    ),
    TaskSpec(
        name="iflytek",
        kind="sentence",
        language="zh",
        description="kind of an app, from its long description",
        labels=tuple(str(label) for label in range(119)),
        files=FILES,
        texts=sentence(),
        read=json_lines,
        name_field="label_des",
        sizes={"train": 12133, "dev": 2599, "test": 2600},
    ),
    TaskSpec(
        name="afqmc",
        kind="pair",
        language="zh",
        description="do two questions to a payment service mean the same (1)?",
        labels=BINARY,
        files=FILES,
        texts=pair(),
        read=json_lines,
        metrics=("accuracy", "f1"),
        label_names={"0": "different", "1": "same"},
        sizes={"train": 34334, "dev": 4316, "test": 3861},
    ),
    TaskSpec(
        name="cmnli",
        kind="pair",
        language="zh",
        description="does sentence 1 entail sentence 2? Translated from English",
        labels=INFERENCE,
        files=FILES,
        texts=pair(),
        read=json_lines,
        skip_labels=NO_MAJORITY,
        sizes={"train": 391783, "dev": 12426, "test": 13880},
    ),
    TaskSpec(
        name="ocnli",
        kind="pair",
        language="zh",
        description="does sentence 1 entail sentence 2? Written in Chinese; the largest training set present is used",
        labels=INFERENCE,
        files=OCNLI_FILES,
        texts=pair(),
        read=json_lines,
        skip_labels=NO_MAJORITY,
        sizes={"train": 50486, "dev": 3000, "test": 3000},
    ),
    TaskSpec(
        name="cluewsc2020",
        kind="coreference",
        language="zh",
        description="does the pronoun, marked [ ], refer to the noun, marked _ _?",
        labels=("false", "true"),
        files=FILES,
        texts=marked_spans,
        read=json_lines,
        metrics=("accuracy", "f1"),
        sizes={"train": 1244, "dev": 304, "test": 290},
    ),
    TaskSpec(
        name="csl",
        kind="keywords",
        language="zh",
        description="are all keywords those of the abstract (1)?",
        labels=BINARY,
        files=FILES,
        texts=keywords_and_abstract,
        read=json_lines,
        metrics=("accuracy", "f1"),
        label_names={"0": "some are not", "1": "all are"},
        sizes={"train": 20000, "dev": 3000, "test": 3000},
    ),
    TaskSpec(
        name="eprstmt",
        kind="sentence",
        language="zh",
        description="sentiment of a product review, few-shot",
        labels=("Negative", "Positive"),
        files=FEW_SHOT_FILES,
        texts=sentence(),
        read=json_lines,
        metrics=("accuracy", "f1"),
        sizes={"train": 160, "dev": 160, "test": 610},
    ),
    TaskSpec(
        name="bustm",
        kind="pair",
        language="zh",
        description="do two short utterances mean the same (1)? Few-shot",
        labels=BINARY,
        files=FEW_SHOT_FILES,
        texts=pair(),
        read=json_lines,
        metrics=("accuracy", "f1"),
        label_names={"0": "different", "1": "same"},
        sizes={"train": 160, "dev": 160, "test": 1772},
    ),
    TaskSpec(
        name="chnsenticorp",
        kind="sentence",
        language="zh",
        description="sentiment of a hotel, book or laptop review",
        labels=BINARY,
        files={split: (f"{split}.tsv",) for split in ("train", "dev", "test")},
        texts=sentence("text_a"),
        read=tab_table,
        metrics=("accuracy", "f1"),
        label_names={"0": "negative", "1": "positive"},
        sizes={"train": 9600, "dev": 1200, "test": 1200},
    ),
)
