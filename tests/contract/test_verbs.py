"""Every verb: help without torch, with an example that its own parser accepts."""

from __future__ import annotations

import shlex
import subprocess
import sys
from importlib import import_module

import pytest

from maskwright.cli.verbs import VERBS, Verb

every_verb = pytest.mark.parametrize("verb", VERBS, ids=[verb.name for verb in VERBS])

HELP = """
import sys
from maskwright.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as stop:
    assert stop.code in (0, None), stop.code
print(sorted({"torch", "transformers", "datasets", "pyarrow", "sklearn"} & set(sys.modules)))
"""


def help_of(*words: str) -> str:
    done = subprocess.run([sys.executable, "-c", HELP, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_overview_lists_every_verb_and_imports_no_heavy_library() -> None:
    out = help_of("--help")
    assert out.endswith("[]\n")
    assert all(f"  {verb.name} " in out and verb.summary in out for verb in VERBS)


@every_verb
def test_help_has_the_example_and_imports_no_heavy_library(verb: Verb) -> None:
    out = help_of(verb.name, "--help")
    assert verb.example in out
    assert out.endswith("[]\n")


@every_verb
def test_the_example_is_accepted_by_the_verbs_own_parser(verb: Verb) -> None:
    program, name, *words = shlex.split(verb.example)
    assert (program, name) == ("maskwright", verb.name)
    import_module(verb.module).build_parser().parse_args(words)
