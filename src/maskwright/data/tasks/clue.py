"""CLUE's tasks, two from FewCLUE, and ChnSentiCorp: one row a task."""

from __future__ import annotations

from maskwright.data.tasks.choice import read_choices
from maskwright.data.tasks.cloze import read_blanks
from maskwright.data.tasks.coreference import marked_spans
from maskwright.data.tasks.keywords import keywords_and_abstract
from maskwright.data.tasks.reading import read_paragraphs
from maskwright.data.tasks.sentences import pair, sentence
from maskwright.data.tasks.spec import TaskSpec, by_row, json_lines, tab_table

# Unlabelled official tests come in two versions; a labelled one, where somebody has it, is worth more than both.
FILES = {
    "train": ("train.json",),
    "dev": ("dev.json",),
    "test": ("test_labeled.json", "test.json", "test1.1.json", "test1.0.json"),
}
# The older of two published tests, for those who want predictions for both.
TWO_TESTS = {**FILES, "test1.0": ("test1.0.json",)}
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
# C3 comes in halves, dialogues and mixed texts, which make up a split together.
C3_FILES = {
    "train": (("d-train.json", "m-train.json"),),
    "dev": (("d-dev.json", "m-dev.json"),),
    "test": (("d-test.json", "m-test.json"), "test1.1.json", "test.json", "test1.0.json"),
    "test1.0": ("test1.0.json",),
}
INFERENCE = ("entailment", "neutral", "contradiction")
NO_MAJORITY = frozenset({"-"})

CLUE = (
    TaskSpec(
        name="tnews",
        kind="sentence",
        language="zh",
        description="topic of a news headline",
        labels=tuple(str(label) for label in range(100, 117) if label not in (105, 111)),
        files=TWO_TESTS,
        reader=by_row(json_lines, sentence()),
        name_field="label_desc",
        submission="tnews11",
        older_submission="tnews10",
        sizes={"train": 53360, "dev": 10000, "test": 10000},
    ),
    TaskSpec(
        name="iflytek",
        kind="sentence",
        language="zh",
        description="kind of an app, from its long description",
        labels=tuple(str(label) for label in range(119)),
        files=FILES,
        reader=by_row(json_lines, sentence()),
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
        reader=by_row(json_lines, pair()),
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
        reader=by_row(json_lines, pair()),
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
        reader=by_row(json_lines, pair()),
        skip_labels=NO_MAJORITY,
        submission="ocnli_50k",
        sizes={"train": 50486, "dev": 3000, "test": 3000},
    ),
    TaskSpec(
        name="cluewsc2020",
        kind="coreference",
        language="zh",
        description="does the pronoun, marked [ ], refer to the noun, marked _ _?",
        labels=("false", "true"),
        files=TWO_TESTS,
        reader=by_row(json_lines, marked_spans),
        metrics=("accuracy", "f1"),
        submission="cluewsc11",
        older_submission="cluewsc10",
        sizes={"train": 1244, "dev": 304, "test": 290},
    ),
    TaskSpec(
        name="csl",
        kind="keywords",
        language="zh",
        description="are all keywords those of the abstract (1)?",
        labels=BINARY,
        files=FILES,
        reader=by_row(json_lines, keywords_and_abstract),
        metrics=("accuracy", "f1"),
        label_names={"0": "some are not", "1": "all are"},
        sizes={"train": 20000, "dev": 3000, "test": 3000},
    ),
    TaskSpec(
        name="cmrc2018",
        kind="reading",
        language="zh",
        description="which words of the paragraph answer the question?",
        files={**FILES, "test": ("test.json",), "trial": ("trial.json",)},
        reader=read_paragraphs,
        problem="question_answering",
        metrics=("em", "f1"),
        sizes={"train": 10142, "dev": 3219, "test": 2000, "trial": 1002},
    ),
    TaskSpec(
        name="chid",
        kind="cloze",
        language="zh",
        description="which of the candidate idioms fills the blank?",
        files=TWO_TESTS,
        reader=read_blanks,
        problem="multiple_choice",
        metrics=("accuracy",),
        submission="chid11",
        older_submission="chid10",
        sizes={"train": 84709, "dev": 3218, "test": 3231},
    ),
    TaskSpec(
        name="c3",
        kind="choice",
        language="zh",
        description="which of two to four choices answers the question about a dialogue or text?",
        files=C3_FILES,
        reader=read_choices,
        problem="multiple_choice",
        metrics=("accuracy",),
        submission="c311",
        older_submission="c310",
        sizes={"train": 11869, "dev": 3816, "test": 3892},
    ),
    TaskSpec(
        name="eprstmt",
        kind="sentence",
        language="zh",
        description="sentiment of a product review, few-shot",
        labels=("Negative", "Positive"),
        files=FEW_SHOT_FILES,
        reader=by_row(json_lines, sentence()),
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
        reader=by_row(json_lines, pair()),
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
        reader=by_row(tab_table, sentence("text_a")),
        metrics=("accuracy", "f1"),
        label_names={"0": "negative", "1": "positive"},
        sizes={"train": 9600, "dev": 1200, "test": 1200},
    ),
)
