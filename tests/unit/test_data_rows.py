"""Rows out of files: formats, line numbers, encodings, folders and zips."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from maskwright.data.archive import find_file, location, open_folder
from maskwright.data.rows import read_lines, read_rows

ROWS = [{"text": "一，二", "label": "x"}, {"text": 'say "no"', "label": "y"}]


@pytest.mark.parametrize(
    ("name", "content", "lines"),
    [
        ("a.jsonl", '{"text": "一，二", "label": "x"}\n\n{"text": "say \\"no\\"", "label": "y"}', [1, 3]),
        ("a.json", '{"text": "一，二", "label": "x"}\r\n{"text": "say \\"no\\"", "label": "y"}\r\n', [1, 2]),
        ("a.csv", 'text,label\n"一，二",x\n\n"say ""no""",y\n', [2, 4]),
        ("a.tsv", 'text\tlabel\n一，二\tx\nsay "no"\ty\n', [2, 3]),
    ],
)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_every_text_format_gives_the_same_rows(tmp_path: Path, name: str, content: str, lines: list[int], mark: str):
    file = tmp_path / name
    file.write_bytes((mark + content).encode())
    assert list(read_rows(file)) == [(f"{file}:{n}", row) for n, row in zip(lines, ROWS, strict=True)]


def test_parquet_gives_the_same_rows(tmp_path: Path):
    file = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS), file)
    assert list(read_rows(str(file))) == [(f"{file}:{n}", row) for n, row in enumerate(ROWS, 1)]


def test_a_csv_row_stands_where_it_starts(tmp_path: Path):
    file = tmp_path / "a.csv"
    file.write_text('text,label\n"two\nlines",x\nafter,y\n', encoding="utf-8")
    assert list(read_rows(file)) == [
        (f"{file}:2", {"text": "two\nlines", "label": "x"}),
        (f"{file}:4", {"text": "after", "label": "y"}),
    ]


def test_the_format_may_be_named(tmp_path: Path):
    file = tmp_path / "a.dat"
    file.write_text('{"text": "a"}', encoding="utf-8")
    assert [row for _, row in read_rows(file, format="jsonl")] == [{"text": "a"}]


def test_only_line_feeds_end_lines(tmp_path: Path):
    file = tmp_path / "a.txt"
    file.write_bytes("a\u2028b\x0bc\nd\u0085e".encode())
    assert list(read_lines(file)) == ["a\u2028b\x0bc", "d\u0085e"]


def make_zip(path: Path, members: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("prefix", ["", "cmnli_public/"])
def test_a_zip_reads_like_a_folder(tmp_path: Path, prefix: str):
    members = {f"{prefix}train.json": '{"a": 1}\n', f"{prefix}README.md": "x", "__MACOSX/train.json": "x"}
    path = make_zip(tmp_path / "cmnli_public.zip", members)
    with open_folder(path) as folder:
        file = find_file(folder, ["train.50k.json", "train.json"])
        assert file is not None
        assert location(file) == f"{path}!{prefix}train.json"
        assert list(read_rows(file)) == [(f"{path}!{prefix}train.json:1", {"a": 1})]


def test_parquet_in_a_zip(tmp_path: Path):
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "a.parquet")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(tmp_path / "a.parquet", "a.parquet")
    with open_folder(tmp_path / "a.zip") as folder:
        assert [row for _, row in read_rows(folder / "a.parquet")] == ROWS


def test_find_file_takes_the_first_name_there_is(tmp_path: Path):
    (tmp_path / "b").touch()
    (tmp_path / "c").touch()
    with open_folder(tmp_path) as folder:
        assert find_file(folder, ["a", "b", "c"]) == tmp_path / "b"
        assert find_file(folder, ["a"]) is None
