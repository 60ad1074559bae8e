"""Bad input to the data layer: one line that says what is wrong, where, and what to do; or a counted skip."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from transformers import BertTokenizer

from maskwright.data.archive import open_folder
from maskwright.data.budget import TokenBudgetBatches, padding_stats
from maskwright.data.collate import PaddingCollator
from maskwright.data.encode import encode_examples
from maskwright.data.rows import read_rows
from maskwright.data.table import load_table
from maskwright.data.tasks.base import Example
from maskwright.data.tasks.registry import load_task
from maskwright.errors import EmptyRowError, InputError


def message(call: Callable[[], object]) -> str:
    """The one line an InputError prints."""
    with pytest.raises(InputError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "a.jsonl",
            b'{"text": "a"}\n{"text": }\n',
            "{}:2: malformed JSON: Expecting value at column 10; one JSON object a line is expected",
        ),
        (
            "a.jsonl",
            rb'{"text": "\ud83d\ude00"}' + b"\n" + rb'{"text": "\ud83d"}',
            "{}:2: an escape like \\ud83d is half a character, which is no text; remove it",
        ),
        ("a.json", b'["a", "b"]', "{}:1: one JSON object a line is expected, this line holds a list"),
        (
            "a.json",
            b'[\n  {"text": "a"}\n]',
            "{}:1: malformed JSON: Expecting value at column 2; one JSON object a line is expected",
        ),
        ("a.csv", b"text,label\na,b\na,b,c\n", "{}:3: 3 fields where 2 are expected (text, label)"),
        ("a.tsv", b"text\tlabel\nonly text\n", "{}:2: 1 fields where 2 are expected (text, label)"),
        ("a.csv", b'text,label\n"a,b\nc,d\n', "{}:2: malformed CSV: unexpected end of data"),
        ("a.csv", b"text,text\na,b\n", "{}:1: the header names a column twice: text, text"),
        ("a.jsonl", b"", "{}: the file is empty"),
        ("a.csv", b"", "{}: the file is empty"),
        ("a.csv", b"text,label\n", "{}: the file holds no rows"),
        ("a.jsonl", b"\n\n", "{}: the file holds no rows"),
        ("a.parquet", b"", "{}: the file is empty"),
        ("a.parquet", b"PAR", "{}: not a Parquet file, or a damaged one"),
        ("a.docx", b"", "{}: unknown kind of file; the supported endings are .jsonl, .json, .csv, .tsv, .parquet"),
        (
            "a.jsonl",
            '{"text": "好"}\n{"text": "坏"}\n'.encode("gb18030"),
            "{}:1: byte 0xba at offset 10 is not UTF-8; save the file as UTF-8",
        ),
        (
            "a.csv",
            b"\xef\xbb\xbftext\nab\xff\n",
            "{}:2: byte 0xff at offset 10 is not UTF-8; save the file as UTF-8",
        ),
        ("a.tsv", "text\n".encode("utf-16"), "{}:1: byte 0xff at offset 0 is not UTF-8; save the file as UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str, content: bytes, expected: str):
    file = tmp_path / name
    file.write_bytes(content)
    assert message(lambda: list(read_rows(file))) == expected.format(file)


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet"])
def test_a_missing_file(tmp_path: Path, name: str):
    assert message(lambda: list(read_rows(tmp_path / name))) == f"{tmp_path / name}: no such file"


ROW = {"text": "a", "label": "x"}


@pytest.mark.parametrize(
    ("row", "options", "expected"),
    [
        ({"txt": "a", "label": "x"}, {}, "no column 'text'; the columns are txt, label"),
        ({"text": "a"}, {}, "no column 'label'; the columns are text"),
        (ROW, {"text_pair_column": "pair"}, "no column 'pair'; the columns are text, label"),
        ({"text": " ", "label": "x"}, {}, "column 'text' holds an empty text; remove the row or fill it in"),
        ({"text": None, "label": "x"}, {}, "column 'text' holds an empty text; remove the row or fill it in"),
        ({"text": 3, "label": "x"}, {}, "column 'text' holds a int, text is expected"),
        ({"text": "a", "label": None}, {}, "no label; only the splits test and predict may lack labels"),
        ({"text": "a", "label": ""}, {}, "no label; only the splits test and predict may lack labels"),
        (
            {"text": "a", "label": ["x"]},
            {"problem": "single_label_classification"},
            "the label is ['x'], one label is expected in single-label-classification",
        ),
        (
            ROW,
            {"problem": "multi_label_classification"},
            "the label is 'x', a list of labels (JSON Lines or Parquet) is expected in multi-label-classification",
        ),
        (ROW, {"problem": "regression"}, "the label is 'x', a finite number is expected in regression"),
        (
            {"text": "a", "label": float("nan")},
            {"problem": "regression"},
            "the label is nan, a finite number is expected in regression",
        ),
        (ROW, {"labels": ["y", "z"]}, "unknown label 'x'; the labels are y, z"),
    ],
)
def test_a_row_of_a_users_table(tmp_path: Path, row: dict, options: dict, expected: str):
    file = tmp_path / "a.jsonl"
    good = {"text": "a", "text_pair": "b", "label": "x"}
    file.write_text("\n" + json.dumps(row) + "\n" + json.dumps(good), encoding="utf-8")
    assert message(lambda: load_table(file, **options)) == f"{file}:2: {expected}"


def test_a_dev_label_that_train_does_not_know(tmp_path: Path):
    (tmp_path / "train.csv").write_text("text,label\na,x\nb,y\n", encoding="utf-8")
    (tmp_path / "dev.csv").write_text("text,label\na,x\nb,Y\n", encoding="utf-8")
    files = {"train": tmp_path / "train.csv", "dev": tmp_path / "dev.csv"}
    assert message(lambda: load_table(files)) == f"{tmp_path / 'dev.csv'}:3: unknown label 'Y'; the labels are x, y"


def test_a_problem_that_does_not_exist(tmp_path: Path):
    (tmp_path / "a.csv").write_text("text,label\na,x\n", encoding="utf-8")
    expected = "problem: 'ranking' is none of auto, single_label_classification, multi_label_classification, regression"
    assert message(lambda: load_table(tmp_path / "a.csv", problem="ranking")) == expected  # type: ignore[arg-type]


PAIR = {"sentence1": "a", "sentence2": "b", "label": "0"}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            '{"sentence1": "a"',
            "malformed JSON: Expecting ',' delimiter at column 18; one JSON object a line is expected",
        ),
        (json.dumps({**PAIR, "label": "2"}), "unknown label '2'; the labels are 0, 1"),
        (json.dumps({**PAIR, "label": "-"}), "unknown label '-'; the labels are 0, 1"),
        ('{"sentence1": "a", "label": "0"}', "no field 'sentence2'; the fields are sentence1, label"),
        (json.dumps({**PAIR, "sentence1": 1}), "field 'sentence1' holds a int, a str is expected"),
        ('{"sentence1": "a", "sentence2": "b"}', "no field 'label'; only the split 'test' may lack labels"),
    ],
)
def test_a_line_of_an_official_file(tmp_path: Path, line: str, expected: str):
    file = tmp_path / "train.json"
    file.write_text(json.dumps(PAIR) + "\n" + line + "\n", encoding="utf-8")
    assert message(lambda: load_task("afqmc", tmp_path)) == f"{file}:2: {expected}"
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.write(file, "train.json")
    assert message(lambda: load_task("afqmc", tmp_path / "z.zip")) == f"{tmp_path / 'z.zip'}!train.json:2: {expected}"


@pytest.mark.parametrize("task", ["ocnli", "cmnli"])
def test_the_label_for_no_majority_is_a_counted_skip(tmp_path: Path, task: str):
    rows = [{**PAIR, "label": label} for label in ("-", "neutral", "-")]
    (tmp_path / "dev.json").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    data = load_task(task, tmp_path)
    assert data.skipped == {"label '-'": 2}
    assert [example.label for example in data.splits["dev"]] == [1]


def test_a_span_record_that_is_none(tmp_path: Path):
    row = {"text": "abc", "label": "true", "target": "a"}
    (tmp_path / "train.json").write_text(json.dumps(row), encoding="utf-8")
    expected = f"{tmp_path / 'train.json'}:1: field 'target' holds a str, a dict is expected"
    assert message(lambda: load_task("cluewsc2020", tmp_path)) == expected


def test_keywords_that_are_no_strings(tmp_path: Path):
    (tmp_path / "train.json").write_text('{"abst": "a", "keyword": [1], "label": "0"}', encoding="utf-8")
    expected = f"{tmp_path / 'train.json'}:1: field 'keyword' holds something other than strings"
    assert message(lambda: load_task("csl", tmp_path)) == expected


def test_a_line_without_a_label_in_front(tmp_path: Path):
    (tmp_path / "stsa.binary.dev").write_text("0 fine\nfine\n", encoding="utf-8")
    expected = f"{tmp_path / 'stsa.binary.dev'}:2: a label, a space and a sentence are expected"
    assert message(lambda: load_task("sst2", tmp_path)) == expected


def test_a_task_that_is_not_there(tmp_path: Path):
    assert message(lambda: load_task("tnewz", tmp_path)).startswith(
        "name: unknown task 'tnewz'; the known ones are tnews, "
    )
    assert message(lambda: load_task("afqmc", tmp_path)) == (
        f"{tmp_path}: no file of the task 'afqmc'; looked for train.json, dev.json, test_labeled.json, test.json, "
        "test1.1.json, test1.0.json, here and in afqmc/, afqmc_public/ and afqmc_public.zip"
    )
    assert message(lambda: load_task("afqmc", tmp_path / "none")) == f"{tmp_path / 'none'}: no such file or folder"


def test_a_split_that_is_not_there(tmp_path: Path):
    (tmp_path / "train.json").write_text(json.dumps(PAIR), encoding="utf-8")
    assert message(lambda: load_task("afqmc", tmp_path, splits=["valid"])) == (
        "splits: task 'afqmc' has no split 'valid', only train, dev, test"
    )
    assert message(lambda: load_task("afqmc", tmp_path, splits=["dev"])) == (
        f"{tmp_path}: no file of the split 'dev'; looked for dev.json"
    )
    assert message(lambda: load_task("afqmc", tmp_path, limit=0)) == (
        "limit: at least 1 example a split is needed, not 0"
    )


@pytest.mark.parametrize(
    "member", ["../evil.json", "a/../../evil.json", "/etc/evil.json", "C:\\evil.json", "..\\evil.json", "\\evil.json"]
)
def test_a_zip_with_an_escaping_path(tmp_path: Path, member: str):
    path = tmp_path / "afqmc_public.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("train.json", json.dumps(PAIR))
        archive.writestr(member, "x")
    expected = f"{path}: member {member!r} points outside the archive; refused, do not trust this file"
    assert message(open_folder(path).__enter__) == expected
    assert message(lambda: load_task("afqmc", tmp_path)) == expected


def test_a_file_that_is_no_zip(tmp_path: Path):
    path = tmp_path / "afqmc_public.zip"
    path.write_bytes(b"PK no")
    assert message(lambda: load_task("afqmc", path)) == f"{path}: neither a folder nor a zip archive"


def test_a_damaged_zip(tmp_path: Path):
    path = tmp_path / "afqmc_public.zip"
    line = json.dumps(PAIR).encode()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("train.json", line)
    path.write_bytes(path.read_bytes().replace(line, line.replace(b"a", b"b", 1)))
    expected = f"{path}!train.json: cannot be read: Bad CRC-32 for file 'train.json'"
    assert message(lambda: load_task("afqmc", path)) == expected


def example(text: str = "a", label: int | None = 0, where: str = "a:1") -> Example:
    return Example(text, None, label, where)


def test_encoding_what_cannot_be(letters: BertTokenizer):
    def encode(examples: list[Example], max_length: int = 8) -> object:
        return encode_examples(examples, letters, max_length, "single_label_classification", 2)

    assert message(lambda: encode([])) == "examples: no examples to encode"
    assert message(lambda: encode([example()], 2)) == (
        "max_length: 2 leaves no room beside the special tokens; raise it"
    )
    assert message(lambda: encode([example(), example(label=None, where="a:7")])) == (
        "a:7: no label, though other rows of this split have one; label all of them or none"
    )


def test_a_text_without_any_token(letters: BertTokenizer):
    letters.backend_tokenizer.post_processor = None  # without [CLS] and [SEP]
    texts = [example("a"), example("\u200b", where="a:2")]
    expected = "a:2: the tokenizer makes no token of this text; remove the row"
    assert message(lambda: encode_examples(texts, letters, 8, "regression", 1)) == expected


def test_collating_what_cannot_be(letters: BertTokenizer):
    with pytest.raises(EmptyRowError, match=r"no token is kept in row 1: every row needs at least one token"):
        PaddingCollator(letters)([{"input_ids": [5]}, {"input_ids": []}])
    letters.pad_token = None
    expected = "tokenizer: the tokenizer has no pad token; set tokenizer.pad_token"
    assert message(lambda: PaddingCollator(letters)) == expected


@pytest.mark.parametrize(
    ("lengths", "options", "expected"),
    [
        ([], {}, "lengths: there are no rows to batch"),
        ([3, 0], {}, "lengths: row 1 has no token"),
        ([3], {"max_tokens": 0}, "max_tokens: at least 1 token is needed, not 0"),
        ([3], {"max_rows": 0}, "max_rows: at least 1 row is needed, not 0"),
        ([3], {"rank": 2, "world_size": 2}, "rank: rank 2 is not one of 2"),
        (
            [3],
            {"world_size": 2, "drop_last": True},
            "max_tokens: 1 batches do not reach all 2 ranks; lower max_tokens",
        ),
    ],
)
def test_budgets_that_cannot_be(lengths: list[int], options: dict, expected: str):
    assert message(lambda: TokenBudgetBatches(lengths, **{"max_tokens": 9, **options})) == expected


def test_padding_of_nothing():
    assert message(lambda: padding_stats([], 2)) == "lengths: there are no rows to batch"
    assert message(lambda: padding_stats([1], 0)) == "batch_size: at least 1 row is needed, not 0"
