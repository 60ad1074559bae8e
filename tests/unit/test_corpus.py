"""Corpora: every kind of file, packed or plain; documents and their borders; bad lines counted with their place."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from transformers import BertTokenizer

from maskwright.data.blocks import Blocks, held_out
from maskwright.data.corpus import Corpus, Report, find_files
from maskwright.data.encoded import encode_corpus
from maskwright.data.hub import HubCorpus
from maskwright.data.streaming import StreamedBatches, first_held_out, stream_corpus
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


def files_of(tmp_path, n_files=3, n_documents=5):
    for number in range(n_files):
        texts = [f"{'abcdefg'[number]} {'hijklmn'[i]}" for i in range(n_documents)]
        (tmp_path / f"{number}.txt").write_text("\n\n".join(texts), encoding="utf-8")
    return Corpus(find_files([str(tmp_path)]))


def rows_of_ranks(corpus, tokenizer, world_size):
    blocks = Blocks(tokenizer, 11)
    streams = [stream_corpus(corpus, blocks, rank=rank, world_size=world_size) for rank in range(world_size)]
    return [[tuple(row["input_ids"]) for row in stream] for stream in streams]


@pytest.mark.parametrize("world_size", [2, 3])
def test_streams_share_the_documents_among_ranks(tmp_path, tokenizer, world_size):
    corpus = files_of(tmp_path)
    seen = rows_of_ranks(corpus, tokenizer, world_size)
    assert sorted(len(rows) for rows in seen) == ([7, 8] if world_size == 2 else [5, 5, 5])
    assert sorted(row for rows in seen for row in rows) == sorted(*rows_of_ranks(corpus, tokenizer, 1))


def test_streamed_batches_are_endless_within_budget_and_the_same_each_time(tmp_path, tokenizer):
    corpus, blocks = files_of(tmp_path), Blocks(tokenizer, 11)

    def batches(n):
        rows = stream_corpus(corpus, blocks, seed=5, buffer=7)
        return list(islice(StreamedBatches(rows, 13, lambda rows: [tuple(row["input_ids"]) for row in rows]), n))

    found = batches(15)  # five a pass: rows have four tokens, so three to a batch
    assert [len(batch) for batch in found] == [3] * 15
    passes = [[row for batch in found[start : start + 5] for row in batch] for start in (0, 5, 10)]
    assert sorted(passes[0]) == sorted(passes[1]) == sorted(passes[2])
    assert passes[0] != passes[1] != passes[2]
    assert batches(15) == found


def test_a_stream_holds_out_what_a_table_does(tmp_path, tokenizer):
    corpus, blocks = files_of(tmp_path), Blocks(tokenizer, 11)
    train, held, _ = encode_corpus(corpus, blocks, validation_share=0.3, cache=tmp_path / "cache")
    assert sorted(first_held_out(corpus, blocks, validation_share=0.3)["input_ids"]) == sorted(held["input_ids"])
    streamed = [row["input_ids"] for row in stream_corpus(corpus, blocks, validation_share=0.3)]
    assert sorted(streamed) == sorted(train["input_ids"])
    assert first_held_out(corpus, blocks, validation_share=0.0) is None


def test_a_stream_without_documents_says_so(tmp_path, tokenizer):
    corpus = files_of(tmp_path, n_files=1, n_documents=0)
    with pytest.raises(InputError, match="no document"):
        next(iter(StreamedBatches(stream_corpus(corpus, Blocks(tokenizer, 11)), 13, list)))


def test_a_stream_names_the_lines_it_leaves_out(tmp_path, tokenizer, caplog):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a b"}\n{\n{"text": "c"}\n', encoding="utf-8")
    stream = stream_corpus(Corpus(find_files([str(path)])), Blocks(tokenizer, 11))
    assert len(list(stream)) == 2
    assert next(record.message for record in caplog.records if str(path) in record.message).startswith(f"{path}:2:")


def test_a_dataset_is_a_corpus_too(tmp_path, tokenizer):
    (tmp_path / "data").mkdir()
    lines = ['{"body": "a b", "x": 1}', '{"body": null, "x": 2}', '{"body": "c", "x": 3}']
    (tmp_path / "data" / "train.jsonl").write_text("\n".join(lines), encoding="utf-8")
    corpus, blocks = HubCorpus(str(tmp_path / "data"), text_column="body"), Blocks(tokenizer, 11)
    rows, _, report = encode_corpus(corpus, blocks, cache=tmp_path / "cache")
    assert (report.n_documents, report.n_bad, report.bad[0][0]) == (2, 1, f"{tmp_path / 'data'}:2")
    assert [row["input_ids"] for row in stream_corpus(corpus, blocks)] == rows["input_ids"]
    with pytest.raises(InputError, match="no column 'text', only body, x"):
        HubCorpus(str(tmp_path / "data")).table(tmp_path / "cache")
    with pytest.raises(InputError, match="dataset_name: cannot load"):
        HubCorpus(str(tmp_path / "nothing")).stream()


def test_equal_texts_are_held_out_together():
    assert all(held_out("x", 0.5, seed) == held_out("x", 0.5, seed) for seed in range(7))
    assert 0.4 < sum(held_out("x", 0.5, seed) for seed in range(999)) / 999 < 0.6
    assert not any(held_out(str(i), 0.0) for i in range(99))
