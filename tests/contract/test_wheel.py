"""What a user installs: the wheel built from the sdist, away from the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env={**os.environ, **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT)
    return out


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    return next(dist.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel alone; on PYTHONPATH it comes before the checkout, and the dependencies after it."""
    target = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", target, wheel)
    return target


def test_wheel_holds_the_licence_the_notice_and_the_type_marker(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    info = wheel.name.split("-py3")[0] + ".dist-info"
    assert {"maskwright/py.typed", f"{info}/licenses/LICENSE", f"{info}/licenses/NOTICE"} <= set(names)
    assert {name.split("/")[0] for name in names} == {"maskwright", info}


def test_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    package = ROOT / "src" / "maskwright"
    here = {path.relative_to(package.parent).as_posix() for path in package.rglob("*") if path.is_file()}
    here = {name for name in here if "__pycache__" not in name}
    assert here
    assert here - set(zipfile.ZipFile(wheel).namelist()) == set()


def test_sdist_holds_tests_docs_and_the_makefile(dist: Path) -> None:
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {
        "Makefile",
        "CHANGELOG.md",
        "docs/index.md",
        "tests/contract/test_wheel.py",
        "requirements-dev.lock",
    } <= names


def test_installed_wheel_prints_its_help(installed: Path) -> None:
    out = run(installed / "bin" / "maskwright", "--help", PYTHONPATH=str(installed))
    assert "finetune" in out


def test_installed_wheel_packs_a_model_and_reads_its_sample(installed: Path, tmp_path: Path) -> None:
    script = tmp_path / "smoke.py"
    script.write_text(SMOKE, encoding="utf-8")
    out = run(sys.executable, "-P", script, PYTHONPATH=str(installed))
    home, difference, n_examples = out.split("\n")[:3]
    assert Path(home).is_relative_to(installed)
    assert float(difference) <= 1e-5
    assert int(n_examples) > 1000


SMOKE = """
import maskwright as mw
import torch
from maskwright.data.sample import load_sample
from transformers import BertConfig, BertModel

torch.manual_seed(0)
sizes = dict(vocab_size=53, hidden_size=22, num_hidden_layers=2, num_attention_heads=2, intermediate_size=31)
model = BertModel(BertConfig(**sizes)).eval()
ids = torch.randint(1, 53, (3, 7))
keep = torch.arange(7)[None] < torch.tensor([[7], [2], [5]])
with torch.no_grad():
    stock = model(ids, attention_mask=keep.long()).last_hidden_state
    packed = mw.pack(model)(ids, attention_mask=keep.long()).last_hidden_state
print(mw.__file__)
print((stock - packed)[keep].abs().max().item())
print(len(load_sample().splits["train"]))
"""
