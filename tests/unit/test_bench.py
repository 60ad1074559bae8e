"""`maskwright bench`: the report on a small model, and what it concludes."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path

import pytest
from transformers import BertConfig, BertModel

from maskwright.cli.main import main
from maskwright.training.bench.measure import VARIANTS, Subject
from maskwright.training.bench.report import BenchReport, describe, run_bench, verdict
from maskwright.training.models import load_tokenizer
from maskwright.training.wordpiece import train_wordpiece


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """53 texts of 1 to 97 words."""
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text("".join("word " * (1 + 31 * i % 97) + "\n" for i in range(53)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def model(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tokenizer = train_wordpiece(texts.read_text(encoding="utf-8").splitlines(), vocab_size=61)
    tokenizer.save_pretrained(folder)
    sizes = {"hidden_size": 22, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 31}
    BertModel(BertConfig(vocab_size=len(tokenizer), **sizes)).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def report(model: Path, texts: Path) -> BenchReport:
    return run_bench(str(model), str(texts), seconds=1, batch_size=5)


def test_report_is_consistent(report: BenchReport) -> None:
    lengths, measured = report.lengths, report.measurement
    assert lengths.n_texts == report.n_texts_in_data == sum(n for _, _, n in lengths.histogram) == 53
    assert lengths.longest == 97 + 2
    assert 0 < report.padding["grouped"] < report.padding["random"] < 1
    for figures in (measured.train, measured.embed):
        assert tuple(figures) == VARIANTS
        for row in figures.values():
            assert row.tokens_per_s == pytest.approx(measured.n_tokens / (row.step_s * measured.n_batches))
    assert min(measured.n_rounds.values()) >= 2
    for kind, figures in (("train", measured.train), ("embed", measured.embed)):
        for order in ("random", "grouped"):
            ratio = figures["packed"].tokens_per_s / figures[order].tokens_per_s
            assert report.speedup[kind][order] == pytest.approx(ratio)


def test_peak_memory_is_a_process_with_torch_in_it(report: BenchReport) -> None:
    for variant in VARIANTS:
        embed, train = report.measurement.embed[variant].peak_bytes, report.measurement.train[variant].peak_bytes
        assert 2**26 < embed <= train < 2**34


def bench(report: BenchReport, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """The command with its measurement replaced by one already made."""
    monkeypatch.setattr("maskwright.training.bench.report.run_bench", lambda *args, **options: report)
    return main(["bench", report.model, report.data, *words])


def test_json_is_the_report(
    report: BenchReport, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench(report, monkeypatch, "--json") == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(asdict(report)))


def test_words_name_the_conditions_and_the_conclusion(
    report: BenchReport, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert bench(replace(report, batch_size=999, load_before=3.0), monkeypatch) == 0
    out = " ".join(capsys.readouterr().out.split())
    for expected in (
        f"torch {version('torch')}",
        "53 from",
        "longest 99",
        "packed, random order",
        "in place of 999",
        "kept 3.0 threads busy",
        report.verdict,
    ):
        assert expected in out


def test_a_model_type_starts_at_random_with_the_tokenizers_vocabulary(model: Path) -> None:
    encoder = Subject("electra", load_tokenizer(str(model)), random_weights=True).load()
    assert encoder.config.model_type == "electra"
    assert encoder.get_input_embeddings().num_embeddings == len(load_tokenizer(str(model)))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["MODEL", "nowhere.txt"], "nowhere.txt: no such file"),
        (["MODEL", "one.txt"], "one.txt: at least two texts are needed"),
        (["MODEL", "empty.txt"], "empty.txt"),
        (["MODEL", "TEXTS", "--batch_size", "0"], "batch_size: must be positive"),
        (["MODEL", "TEXTS", "--seconds", "0"], "seconds: must be positive"),
        (["MODEL", "TEXTS", "--max_length", "1000"], "max_length: 1000 is more than the 512 positions"),
        (["./nothing", "TEXTS"], "model: no such folder"),
        (["squeezebert", "TEXTS"], "squeezebert cannot be packed exactly: attention runs"),
        (["MODEL", "TEXTS", "--secs", "3"], "unknown option 'secs'; did you mean '--seconds'?"),
    ],
)
def test_bad_use_is_one_line_and_exit_code_2(
    words: list[str],
    message: str,
    model: Path,
    texts: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "one.txt").write_text("a single text\n", encoding="utf-8")
    (tmp_path / "empty.txt").touch()
    monkeypatch.chdir(tmp_path)
    places = {"MODEL": str(model), "TEXTS": str(texts)}
    assert main(["bench", *(places.get(word, word) for word in words)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error


FASTER = {"random": 2.0, "grouped": 1.3}
AS_FAST = {"random": 2.0, "grouped": 1.0}
NO_FASTER = {"random": 1.01, "grouped": 0.99}


@pytest.mark.parametrize(
    ("speedup", "padding", "expected"),
    [
        (FASTER, 0.5, "Against batches grouped by length, it trains 1.30x as fast."),
        (AS_FAST, 0.5, "Batches grouped by length already avoid most padding"),
        (NO_FASTER, 0.02, "would not help here: the texts are so alike in length that only 2%"),
        (NO_FASTER, 0.5, "would not help here: 50% of the slots are padding, but"),
    ],
)
def test_verdict_says_what_the_figures_say(speedup: dict[str, float], padding: float, expected: str) -> None:
    assert expected in verdict({"train": speedup, "embed": speedup}, {"random": padding, "grouped": 0.0})


def test_histogram_counts_every_text_once() -> None:
    lengths = [3, 3, 5, 9, 17, 31, 97]
    rows = describe(lengths, 0, 512).histogram
    assert len(rows) <= 12
    assert [sum(low <= n <= high for n in lengths) for low, high, _ in rows] == [n for _, _, n in rows]
    assert sum(n for _, _, n in rows) == len(lengths)
