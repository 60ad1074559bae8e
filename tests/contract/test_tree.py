"""Rules for the repository's own files: layers, sizes, and nothing in them that belongs to one machine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAX_LINES = 320
# An absolute path into someone's machine, or the host of a package index, which each user configures for themselves.
OF_A_MACHINE = re.compile(rb"(?<![\w.~}/$-])/(?:root|home|work|opt|Users|tmp)/\w|pypi\.org|pythonhosted\.org")


def tracked_files() -> list[Path]:
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [path for name in listed.decode().split("\0") if name and (path := ROOT / name).is_file()]


def test_imports_only_go_down() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_no_source_file_is_long() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / "src").rglob("*.py")}
    assert lengths
    assert {str(path.relative_to(ROOT)): n for path, n in lengths.items() if n > MAX_LINES} == {}


def test_no_tracked_file_names_a_machine() -> None:
    found = {
        str(path.relative_to(ROOT)): match.group().decode()
        for path in tracked_files()
        if (match := OF_A_MACHINE.search(path.read_bytes())) and path != Path(__file__).resolve()
    }
    assert found == {}


@pytest.mark.parametrize(
    "text", [b'open("/root/x")', b"see /home/me/file", b"(/work/main)", b"https://pypi.org/simple"]
)
def test_the_pattern_sees_a_planted_place(text: bytes) -> None:
    assert OF_A_MACHINE.search(text)


@pytest.mark.parametrize("text", [b"src/work/x", b"https://example.org/home/page", b"~/work/x", b"$HOME/tmp/x"])
def test_the_pattern_leaves_other_paths_alone(text: bytes) -> None:
    assert OF_A_MACHINE.search(text) is None


def test_every_link_between_documents_leads_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in tracked_files()
        if page.suffix == ".md"
        for target in re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert broken == []
