"""The `maskwright` command: finds the verb, runs it, and turns every failure into one line and an exit code."""

from __future__ import annotations

import difflib
import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from maskwright._version import __version__
from maskwright.cli.verbs import VERBS, Verb
from maskwright.errors import InputError, MaskwrightError

OK, FINDINGS, BAD_USE, INTERRUPTED = 0, 1, 2, 130
_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM}


def main(argv: Sequence[str] | None = None) -> int:
    """Run `maskwright VERB ...`; returns 0 (done), 1 (findings), 2 (bad use or input) or 130 (Ctrl-C)."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in {"-h", "--help", "help"}:
        print(overview())
        return OK
    if words[0] == "--version":
        print(f"maskwright {__version__}")
        return OK
    try:
        verb = find_verb(words[0])
        module = import_module(verb.module)
        return module.run(module.build_parser().parse_args(words[1:]))
    except MaskwrightError as error:
        print(f"maskwright: error: {' '.join(str(error).split())}", file=sys.stderr)
        return BAD_USE
    except BrokenPipeError:  # `maskwright ... | head`: nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except OSError as error:
        if error.errno not in _DISK:
            raise
        place = f"{error.filename}: " if error.filename else ""
        print(f"maskwright: error: {place}cannot be written: {error.strerror}", file=sys.stderr)
        return BAD_USE
    except KeyboardInterrupt:
        resumable = words[0] in {"finetune", "pretrain"}
        resume = "; the same command with --resume_from_checkpoint true goes on" if resumable else ""
        print(f"\nmaskwright: stopped{resume}", file=sys.stderr)
        return INTERRUPTED


def find_verb(name: str) -> Verb:
    """The verb of that name.

    Raises:
        InputError: there is none; the nearest one is suggested.
    """
    for verb in VERBS:
        if verb.name == name:
            return verb
    close = difflib.get_close_matches(name, [verb.name for verb in VERBS], n=1)
    hint = f"did you mean '{close[0]}'?" if close else "`maskwright --help` lists them"
    raise InputError(f"unknown verb '{name}'; {hint}")


def overview() -> str:
    """The text of `maskwright --help`."""
    width = max(len(verb.name) for verb in VERBS)
    verbs = "\n".join(f"  {verb.name:<{width}}  {verb.summary}" for verb in VERBS)
    return f"""usage: maskwright VERB [options]

BERT-like encoders in which a padded, masked or dropped token changes nothing and costs nothing.

verbs:
{verbs}

Every verb has its own help: maskwright VERB --help
example: {VERBS[0].example}"""


if __name__ == "__main__":
    sys.exit(main())
