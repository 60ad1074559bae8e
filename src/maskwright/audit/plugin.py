"""The pytest plugin: the fixture `maskwright_audit`, and an audit without any test file by `--maskwright-model`.

pytest loads this in every run where maskwright is installed, so it imports torch only once an audit is asked for.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from maskwright.audit.allow import read_allowed
from maskwright.errors import InputError

if TYPE_CHECKING:
    from maskwright.audit.finding import Finding, Findings

_ALLOWED = pytest.StashKey[dict[str, str]]()
_SCRIPTS = pytest.StashKey[Path]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, all of which name what to audit and how."""
    group = parser.getgroup("maskwright", "mask audits (maskwright)")
    add = group.addoption
    add("--maskwright-model", action="append", default=[], metavar="MODEL", help="audit a model folder or hub name")
    add("--maskwright-arch", action="append", default=[], metavar="TYPE", help="audit a tiny model of that type")
    add("--maskwright-allow", metavar="FILE", help="YAML file of {rule: reason}: broken with a reason, no failure")
    add("--maskwright-output", metavar="FOLDER", help="where scripts of failures go (default: a temporary folder)")


def pytest_configure(config: pytest.Config) -> None:
    """Read what is allowed; without a path on the command line, the models are all there is to test."""
    path = config.getoption("maskwright_allow")
    try:
        config.stash[_ALLOWED] = {} if path is None else read_allowed(path)
    except InputError as error:
        raise pytest.UsageError(str(error)) from None
    if _subjects(config) and config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = []


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test for every rule and model that the options name; first, so that -k chooses among them."""
    for name, make in _subjects(config):
        items += _Audit.from_parent(session, name=name, nodeid=name, make=make).collect()


@pytest.fixture
def maskwright_audit(request: pytest.FixtureRequest) -> Callable[..., Findings]:
    """A function that audits a model and fails the test where the model breaks a rule.

    It takes what `maskwright.run_audit` takes: `(model, tokenizer=None, **options)`. With `check=False` the test goes
    on, and the findings are there to be looked at. Rules in the file of `--maskwright-allow` may be broken.
    """

    def audit(model: Any, tokenizer: Any = None, *, check: bool = True, **options: Any) -> Findings:
        from maskwright.audit.runner import run_audit

        options["allow"] = request.config.stash[_ALLOWED] | dict(options.get("allow") or {})
        found = run_audit(model, tokenizer, **options)
        if check and not found.is_clean:
            pytest.fail(_summary(found, _folder(request.config, request.node.nodeid)), pytrace=False)
        return found

    return audit


class _Audit(pytest.Collector):
    """One model, with a test for every rule."""

    def __init__(self, *, make: Callable[[], Any], **known: Any) -> None:
        super().__init__(**known)
        self._make = make
        self.allow = self.config.stash[_ALLOWED]

    @cached_property
    def model(self) -> Any:
        """Made when the first of its tests runs."""
        return self._make()

    def collect(self) -> list[pytest.Item]:
        """The rules for models that are checked by default."""
        from maskwright.audit.rules import RULES

        # A worker of pytest-xdist loses an error of collection: there the tests themselves report it.
        if not (self.config.option.collectonly or hasattr(self.config, "workerinput")):
            if unknown := next((rule for rule in self.allow if rule not in RULES), None):
                raise pytest.UsageError(f"no rule is called '{unknown}', which --maskwright-allow names")
            try:
                _ = self.model
            except InputError as error:
                raise pytest.UsageError(str(error)) from None
        wanted = [name for name, rule in RULES.items() if rule.kind == "model" and rule.by_default]
        return [_RuleItem.from_parent(self, name=name) for name in wanted]


class _RuleItem(pytest.Item):
    """One rule against one model."""

    parent: _Audit

    def runtest(self) -> None:
        """Fail with a summary; skip where the rule does not bind the model, xfail where breaking it is allowed."""
        from maskwright.audit.runner import run_audit

        subject = self.parent
        found = run_audit(subject.model, name=subject.name, rules=[self.name], allow=subject.allow)
        if not found.is_clean:
            pytest.fail(_summary(found, _folder(self.config, self.nodeid)), pytrace=False)
        if reason := next((finding.allowed for finding in found if finding.allowed), None):
            pytest.xfail(reason)
        if all(finding.verdict == "not applicable" for finding in found):
            pytest.skip(found[0].reason if found else "nothing to check")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """A line for bad use; pytest's own way for all else."""
        return str(excinfo.value) if excinfo.errisinstance(InputError) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """How a report calls it."""
        return self.config.rootpath, None, f"{self.parent.name}: {self.name}"


def _subjects(config: pytest.Config) -> list[tuple[str, Callable[[], Any]]]:
    def load(name: str) -> Any:
        from maskwright.audit.load import load_model

        return load_model(name)

    def build(name: str) -> Any:
        from maskwright.audit.tiny import tiny_model

        return tiny_model(name)

    wanted = [(name, load) for name in config.getoption("maskwright_model")]
    wanted += [(name, build) for name in config.getoption("maskwright_arch")]
    return [(name, partial(make, name)) for name, make in wanted]


def _folder(config: pytest.Config, test: str) -> Path:
    """Where a test's scripts go."""
    if _SCRIPTS not in config.stash:
        given = config.getoption("maskwright_output")
        config.stash[_SCRIPTS] = Path(given or tempfile.mkdtemp(prefix="maskwright-")).absolute()
    folder = config.stash[_SCRIPTS] / "".join(c if c.isalnum() or c in "-_." else "-" for c in test).strip("-.")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _summary(found: Findings, folder: Path) -> str:
    """What failed, where, why and what to do; scripts are written into the folder."""
    from maskwright.audit.formats import worst_by_rule

    failed = [finding for finding in worst_by_rule(found).values() if finding in found.failures]
    head = f"{found.subject} breaks {', '.join(finding.rule for finding in failed)}"
    return "\n\n".join([head, *(_described(finding, folder) for finding in failed)])


def _described(finding: Finding, folder: Path) -> str:
    script = None
    if finding.script:
        script = folder / f"{finding.rule}.py"
        script.write_text(finding.script.rstrip() + "\n", encoding="utf-8")
    lines = {
        "check": finding.check,
        "effect": None if finding.effect is None else f"{finding.effect:.1e} of the outputs' size",
        "module": finding.module,
        "cause": finding.cause and f"{finding.cause}: {finding.why}",
        "error": finding.reason if finding.verdict == "error" else None,
        "fix": finding.fix,
        "script": script,
    }
    return "\n".join([finding.rule, *(f"  {name + ':':<8}{value}" for name, value in lines.items() if value)])
