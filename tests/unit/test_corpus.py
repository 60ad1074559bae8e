"""Corpora: every kind of file, packed or plain; documents and their borders; bad lines counted with their place."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from transformers import BertTokenizer

from maskwright.data.blocks import Blocks, encode_corpus, held_out, stream_corpus
from maskwright.data.corpus import Corpus, Report, find_files
from maskwright.errors import InputError
from maskwright.objectives.words import Words

TEXT = "one\nstill one\n\n\ntwo\n"
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz", "##b"]


@pytest.fixture
def tokenizer() -> BertTokenizer:
    return BertTokenizer(vocab={token: i for i, token in enumerate(TOKENS)})


def documents(path: Path, **options: str) -> tuple[list[str], Report]:
    report = Report()
    return list(Corpus(find_files([str(path)]), **options).documents(report)), report


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("ending", "pack"),
    [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress), (".zst", zstd)],
)
def test_text_plain_and_compressed(tmp_path, ending, pack):
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(pack(TEXT.encode()))
    assert documents(path)[0] == ["one\nstill one", "two"]
    assert documents(path, boundary="line")[0] == ["one", "still one", "two"]
    assert documents(path, boundary="file")[0] == ["one\nstill one\n\n\ntwo"]


def test_bad_lines_are_counted_with_their_place(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [b'{"text": "one"}', b'{"text": ', b"", b'{"other": 1}', b'{"text": "\xff"}', b"[1]", b'{"text": "two"}']
    path.write_bytes(b"\n".join(rows))
    found, report = documents(path)
    assert found == ["one", "two"]
    assert (report.n_documents, report.n_bad) == (2, 4)
    assert [where.rpartition(":")[2] for where, _ in report.bad] == ["2", "4", "5", "6"]
    reasons = " ".join(reason for _, reason in report.bad)
    assert "malformed JSON" in reasons
    assert "no text in column 'text'" in reasons
    assert "0xff is not UTF-8" in reasons


def test_parquet_rows(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"body": ["one", None, "two"]}), path)
    found, report = documents(path, text_column="body")
    assert found == ["one", "two"]
    assert report.bad == [(f"{path}:2", "no text in column 'body'")]
    with pytest.raises(InputError, match="has no column 'text', only body"):
        documents(path)


def test_files_globs_and_folders(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("b.txt", "a.jsonl", "sub/c.txt.gz", "notes.docx"):
        (tmp_path / name).write_bytes(b"")
    names = [path.name for path in find_files([str(tmp_path)])]
    assert names == ["a.jsonl", "b.txt", "c.txt.gz"]
    assert [path.name for path in find_files([str(tmp_path / "*.txt"), str(tmp_path / "b.txt")])] == ["b.txt"]
    for name, message in (("none.txt", "no such file"), ("notes.docx", "unknown kind of file")):
        with pytest.raises(InputError, match=message):
            find_files([str(tmp_path / name)])


def test_a_shard_that_cannot_be_unpacked_is_named(tmp_path):
    path = tmp_path / "a.txt.xz"
    path.write_bytes(lzma.compress(TEXT.encode() * 999)[:60])
    with pytest.raises(InputError, match=r"a\.txt\.xz: cannot be read"):
        documents(path)
    path.write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"a\.txt\.xz: cannot be read"):
        documents(path)


def test_rows_keep_to_their_documents_or_cross_them(tokenizer):
    texts = {"text": ["a b c d e f g", "h", "i j"]}
    apart = Blocks(tokenizer, max_length=5)(texts)["input_ids"]
    assert [tokenizer.decode(ids) for ids in apart] == [
        "[CLS] a b c [SEP]",
        "[CLS] d e f [SEP]",
        "[CLS] g [SEP]",
        "[CLS] h [SEP]",
        "[CLS] i j [SEP]",
    ]
    joined = Blocks(tokenizer, max_length=7, cross_documents=True)(texts)["input_ids"]
    assert [len(ids) for ids in joined] == [7, 7, 4]
    assert tokenizer.decode(joined[1]) == "[CLS] f g [SEP] h [SEP] [SEP]"
    long = Blocks(tokenizer, max_length=5, shortest=2)(texts)["input_ids"]
    assert [len(ids) for ids in long] == [5, 5, 4]
    with pytest.raises(InputError, match="no room"):
        Blocks(tokenizer, max_length=2)


def test_word_ids_stand_beside_the_ids(tokenizer):
    rows = Blocks(tokenizer, max_length=7, word_ids=Words(tokenizer))({"text": ["ab c"]})
    assert rows["word_ids"] == [[-1, 0, 0, 1, -1]]


def corpus_of(tmp_path, n=97):
    path = tmp_path / "c.jsonl"
    lines = [json.dumps({"text": " ".join("abcdefg"[: 1 + i % 7]) + f" {chr(97 + i % 26)}"}) for i in range(n)]
    path.write_text("\n".join([*lines, "{"]), encoding="utf-8")
    return Corpus(find_files([str(path)]))


def test_a_corpus_is_split_by_content_tokenised_and_kept(tmp_path, tokenizer):
    corpus, blocks = corpus_of(tmp_path), Blocks(tokenizer, max_length=11)
    train, held, report = encode_corpus(corpus, blocks, validation_share=0.2, cache=tmp_path / "cache")
    assert (report.n_documents, report.n_bad) == (97, 1)
    assert len(train) + len(held) == 97
    assert 5 < len(held) < 40
    assert {tuple(row) for row in train["input_ids"]}.isdisjoint(tuple(row) for row in held["input_ids"])
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.arrow")}
    again, _, report = encode_corpus(corpus, blocks, validation_share=0.2, cache=tmp_path / "cache")
    assert again["input_ids"] == train["input_ids"]
    assert report.n_bad == 1
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_every_bad_line_is_counted_though_only_the_first_are_named(tmp_path, tokenizer):
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(['{"text": "a b"}', *["{"] * 43, '{"text": "c"}', *["{"] * 4]), encoding="utf-8")
    _, _, report = encode_corpus(Corpus(find_files([str(path)])), Blocks(tokenizer, 11), cache=tmp_path / "cache")
    assert (report.n_documents, report.n_bad, len(report.bad)) == (2, 47, 20)
    assert report.bad[0][0] == f"{path}:2"


def test_changed_files_are_read_again(tmp_path, tokenizer):
    blocks = Blocks(tokenizer, max_length=11)
    assert len(encode_corpus(corpus_of(tmp_path), blocks, cache=tmp_path / "cache")[0]) == 97
    assert len(encode_corpus(corpus_of(tmp_path, 41), blocks, cache=tmp_path / "cache")[0]) == 41


def test_a_corpus_without_documents_says_so(tmp_path, tokenizer):
    path = tmp_path / "empty.txt"
    path.write_text("\n\n", encoding="utf-8")
    with pytest.raises(InputError, match="no document"):
        encode_corpus(Corpus(find_files([str(path)])), Blocks(tokenizer, 11), cache=tmp_path / "cache")


def test_streams_share_the_files_among_ranks(tmp_path, tokenizer):
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text("\n\n".join("abcdefg"[number] * 1 for _ in range(5)), encoding="utf-8")
    corpus, blocks = Corpus(find_files([str(tmp_path)])), Blocks(tokenizer, 11)
    seen = [[tuple(row["input_ids"]) for row in stream_corpus(corpus, blocks, rank=r, world_size=2)] for r in range(2)]
    assert [len(rows) for rows in seen] == [10, 5]
    assert set(seen[0]).isdisjoint(seen[1])
    with pytest.raises(InputError, match="3 files cannot be shared among 5"):
        stream_corpus(corpus, blocks, world_size=5)


def test_equal_texts_are_held_out_together():
    assert all(held_out("x", 0.5, seed) == held_out("x", 0.5, seed) for seed in range(7))
    assert 0.4 < sum(held_out("x", 0.5, seed) for seed in range(999)) / 999 < 0.6
    assert not any(held_out(str(i), 0.0) for i in range(99))
