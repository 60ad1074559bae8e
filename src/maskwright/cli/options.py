"""Command-line options from a config dataclass, with YAML files, dotted overrides and helpful mistakes."""

from __future__ import annotations

import dataclasses
import difflib
import re
from argparse import RawDescriptionHelpFormatter
from typing import Any, NoReturn, TypeVar, get_args, get_type_hints

from jsonargparse import ActionConfigFile, ArgumentParser, DefaultHelpFormatter, Namespace

from maskwright.cli.verbs import VERBS
from maskwright.errors import InputError

Config = TypeVar("Config")


class _HelpFormatter(DefaultHelpFormatter, RawDescriptionHelpFormatter):
    """Types and defaults after every option; examples left as they are written."""


class Parser(ArgumentParser):
    """A parser of one verb, whose mistakes are one-line errors that suggest the option meant."""

    def __init__(self, verb: str) -> None:
        row = next(row for row in VERBS if row.name == verb)
        super().__init__(
            prog=f"maskwright {verb}",
            usage=f"maskwright {verb} [options]",
            description=f"{row.summary[0].upper()}{row.summary[1:]}.\n\nexample: {row.example}",
            formatter_class=_HelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Raises: InputError with the message in one line."""
        text = " ".join(message.split())
        unknown = re.search(r"unrecognized arguments: (?:--?)?([^\s=]+)", text) or re.search(r"Option '([^']+)'", text)
        if unknown is not None:
            text = f"unknown option '{unknown[1]}'{self._suggestion(unknown[1])}"
        raise InputError(f"{text} (see {self.prog} --help)") from ex

    def _suggestion(self, name: str) -> str:
        names = [option[2:] for action in self._actions for option in action.option_strings if option[:2] == "--"]
        close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        return f"; did you mean '--{close[0]}'?" if close else ""


def config_parser(verb: str, config: type[Any], parser_type: type[Parser] = Parser) -> Parser:
    """A parser with one option a field of `config`, besides `--config FILE.yaml`, `--print_config` and `--json`."""
    parser = parser_type(verb)
    parser.add_argument("--config", action=ActionConfigFile, help="YAML file of options; later options override it")
    parser.add_argument("--json", action="store_true", help="print the result as JSON on stdout, all else on stderr")
    hints = get_type_hints(config)
    for field in dataclasses.fields(config):
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        kind: dict[str, Any] = {"type": hints[field.name]}
        if field.metadata["many"]:
            kind = {"type": get_args(hints[field.name])[0], "nargs": "+"}
        parser.add_argument(f"--{field.name}", default=default, help=field.metadata["help"], **kind)
    return parser


def read_config(config: type[Config], options: Namespace) -> Config:
    """The parsed options as a checked config.

    Raises:
        InputError: options that contradict one another.
    """
    names = [field.name for field in dataclasses.fields(config)]  # type: ignore[arg-type]
    return config(**{name: options[name] for name in names})
