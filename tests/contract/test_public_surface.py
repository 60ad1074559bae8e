"""The names users may rely on, and what every one of them carries."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import maskwright as mw

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = [
    "Layout",
    "MaskedAutoencoder",
    "MaskedCorruption",
    "__version__",
    "correct_embeddings",
    "masked_log_softmax",
    "masked_softmax",
    "masks",
    "pack",
    "pooling",
    "predict",
    "run_audit",
    "unpack",
]


def test_public_names_are_pinned() -> None:
    assert mw.__all__ == PUBLIC


@pytest.mark.parametrize("name", [name for name in PUBLIC if name != "__version__"])
def test_every_public_name_is_documented_by_a_runnable_example(name: str) -> None:
    assert ">>> " in (getattr(mw, name).__doc__ or "")


@pytest.mark.parametrize("module", ["masks", "pooling"])
def test_the_public_names_of_a_module_are_documented_by_a_runnable_example(module: str) -> None:
    home = getattr(mw, module)
    bare = [name for name in home.__all__ if ">>> " not in (getattr(home, name).__doc__ or "")]
    assert bare == (["CONVENTIONS"] if module == "masks" else [])


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'packk'"):
        mw.packk  # noqa: B018


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import sys, maskwright; print(sorted({'torch', 'transformers', 'datasets', 'pyarrow'} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_changelog_and_version_are_in_step() -> None:
    top = re.search(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert top is not None
    assert top.group(1) == mw.__version__
