"""The report in a real browser: it draws, sorts and changes its theme, without a network or a complaint."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import made_records
from chromium import Browser, Page, browser, find
from maskwright.report.page import write_report

PROGRAM = find()
if PROGRAM is None:
    pytest.skip("no Chromium is installed (Debian: apt-get install chromium; .ci/run does)", allow_module_level=True)


@pytest.fixture(scope="module")
def running() -> Iterator[Browser]:
    with browser(str(PROGRAM)) as started:
        yield started


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of every kind; a task's name, an error and a picture hold scripts."""
    root = tmp_path_factory.mktemp("records")
    hostile = made_records.finetuning(root / "hostile", drop_rate=0.25, accuracy=0.625, n_logs=307)
    config = hostile / "config.yaml"
    told = f"task: {json.dumps(made_records.HOSTILE)}\ntext_column: {json.dumps('</script><img src=x onerror=x()>')}\n"
    config.write_text(config.read_text(encoding="utf-8").replace("task: tnews\n", told), encoding="utf-8")
    picture = '<svg xmlns="http://www.w3.org/2000/svg" onload="document.title=1"><rect width="7" height="5"/></svg>'
    (hostile / "masks.svg").write_text(picture, encoding="utf-8")
    folders = [
        hostile,
        made_records.finetuning(root / "plain"),
        made_records.finetuning(root / "half", drop_rate=0.5, accuracy=0.25),
        made_records.pretraining(root / "mae"),
        made_records.sweep(root / "sweep"),
        made_records.gap(root / "gap"),
        made_records.audit(root / "audit"),
    ]
    write_report(folders, root / "report.html", title="All kinds")
    return root / "report.html"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_no_complaint_no_request_no_sideways_scrolling(running: Browser, report: Path, width: int, dark: bool) -> None:
    page = Page(running, report, width=width, dark=dark)
    assert page.evaluate("document.querySelectorAll('svg.chart').length") > 10
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.complaints == []
    assert page.requests == []


def test_a_script_in_a_record_stays_text(running: Browser, report: Path) -> None:
    page = Page(running, report)
    assert page.evaluate("document.title") == "All kinds"
    assert page.evaluate("document.scripts.length") == 1
    assert made_records.HOSTILE in page.evaluate("document.body.textContent")
    assert page.evaluate("document.querySelector('img').naturalWidth > 0")


def test_even_a_script_that_got_into_the_page_does_not_run(running: Browser, report: Path, tmp_path: Path) -> None:
    html = report.read_text(encoding="utf-8")
    holed = html.replace(
        "<main", "<script>document.title = 'ran'</script><img src='https://evil.invalid/x.png'><main", 1
    )
    assert holed != html
    (tmp_path / "page.html").write_text(holed, encoding="utf-8")
    page = Page(running, tmp_path / "page.html")
    assert page.evaluate("document.title") == "All kinds"
    assert any("Content Security Policy" in complaint for complaint in page.complaints)


@pytest.mark.parametrize("width", [360, 1280])
def test_a_script_of_a_finding_unfolds_and_scrolls_inside_its_card(running: Browser, report: Path, width: int) -> None:
    page = Page(running, report, width=width)
    assert page.evaluate("document.querySelector('pre').checkVisibility()") is False
    page.evaluate("document.querySelector('details:has(pre) summary').focus()")
    page.press("Enter")
    assert page.evaluate("document.querySelector('pre').checkVisibility()") is True
    assert page.evaluate("document.querySelector('pre').textContent").startswith("import torch\nprint(")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate("document.querySelector('pre').clientWidth") < width


COLUMN = """(() => {
  const table = [...document.querySelectorAll("table")].find((t) => t.caption.textContent === "Scores");
  const at = [...table.tHead.rows[0].cells].findIndex((c) => c.textContent === "%s");
  return [...table.tBodies[0].rows].map((row) => row.cells[at].textContent);
})()"""
HEAD = """[...document.querySelectorAll("table")].find((t) => t.caption.textContent === "Scores")
  .querySelectorAll("thead th")[%d]"""
MEAN, DIFFERENCE, SECONDS = 3, 5, 10


def scores(page: Page, column: str) -> list[str]:
    return page.evaluate(COLUMN % column)


def test_a_table_sorts_from_the_keyboard(running: Browser, report: Path) -> None:
    page = Page(running, report)
    before = scores(page, "mean")
    page.evaluate(f"({HEAD % MEAN}).querySelector('button').focus()")
    page.press("Enter")
    assert page.evaluate(f"({HEAD % MEAN}).getAttribute('aria-sort')") == "ascending"
    assert scores(page, "mean") == sorted(before, key=float) != before
    page.press(" ")
    assert page.evaluate(f"({HEAD % MEAN}).getAttribute('aria-sort')") == "descending"
    assert scores(page, "mean") == sorted(before, key=float, reverse=True)
    page.press("Tab")
    page.press("Enter")
    assert page.evaluate("document.querySelectorAll('th[aria-sort]').length") == 1
    assert page.evaluate(f"({HEAD % (MEAN + 1)}).getAttribute('aria-sort')") == "ascending"


@pytest.mark.parametrize("reverse", [False, True], ids=["up", "down"])
def test_numbers_sort_by_value_and_empty_cells_last(running: Browser, report: Path, reverse: bool) -> None:
    page = Page(running, report)
    for at in (SECONDS, DIFFERENCE):
        for _ in range(1 + reverse):
            page.evaluate(f"({HEAD % at}).querySelector('button').click()")
        if at == SECONDS:
            times = ["9.5", "9.5", "81.9", "81.9", "100.0", "100.0"]
            assert scores(page, "training (s)") == (times[::-1] if reverse else times)
    values = scores(page, "difference")
    filled = [float(value) for value in values if value]
    assert filled == sorted(filled, reverse=reverse)
    assert len(filled) == 4
    assert values[4:] == ["", ""]


MARKS = """[...document.querySelectorAll("figure")].filter((f) => f.querySelector("svg.chart")).map((figure) => {
  const every = (selector, read, inside = figure) => [...inside.querySelectorAll(selector)].map(read);
  const centre = ({ x, y, width, height }) => [x + width / 2, y + height / 2];
  const ticks = (axis) => every(`text.${axis}.tick`, (tick) => [+tick.getAttribute(axis), tick.textContent]);
  return {
    title: figure.querySelector("figcaption").textContent,
    x: ticks("x"),
    y: ticks("y"),
    rows: every("tbody tr", (row) => [...row.cells].map((cell) => cell.dataset.value ?? cell.textContent)),
    marks: every(".chart g", (g) => g).flatMap((g, i) => every(".mark", (m) => [i, ...centre(m.getBBox())], g)),
  };
})"""


def test_markers_stand_where_the_axes_and_the_table_say(running: Browser, report: Path) -> None:
    n_checked = 0
    for chart in Page(running, report).evaluate(MARKS):
        by_row = any(label.strip("-0123456789.,kM") for _, label in chart["y"])
        x_of = _reading(chart["x"])
        names = list(dict.fromkeys(row[0] for row in chart["rows"]))
        for number, x, y in chart["marks"]:
            if by_row:
                place = min(range(len(chart["y"])), key=lambda i: abs(chart["y"][i][0] - 4 - y))
                told = [(float(row[1]), 0.0) for row in chart["rows"] if row[0] == chart["y"][place][1]]
                read, reach = (x_of(x), 0.0), (abs(x_of(1) - x_of(0)), 1.0)
            else:
                y_of = _reading([[at - 4, label] for at, label in chart["y"]])
                told = [(float(row[1]), float(row[2])) for row in chart["rows"] if row[0] == names[number]]
                read, reach = (x_of(x), y_of(y)), (abs(x_of(1) - x_of(0)), abs(y_of(1) - y_of(0)))
            assert any(all(abs(a - b) <= r for a, b, r in zip(read, pair, reach, strict=True)) for pair in told), (
                chart["title"],
                read,
                told,
            )
            n_checked += 1
    assert n_checked > 80


def _reading(ticks: list[list[Any]]) -> Any:
    factor = {"k": 1e3, "M": 1e6}
    values = [(at, float(label.replace(",", "").rstrip("kM")) * factor.get(label[-1], 1.0)) for at, label in ticks]
    (a, first), *_, (b, last) = values
    return lambda at: first + (at - a) * (last - first) / (b - a)


def test_without_scripts_there_is_no_button_that_would_do_nothing(running: Browser, report: Path) -> None:
    page = Page(running, report)
    page.send("Emulation.setScriptExecutionDisabled", value=True)
    running.events.clear()
    page.send("Page.reload")
    running.wait("Page.loadEventFired")
    answer = page.send("DOM.getDocument", depth=0)
    found = page.send(
        "DOM.querySelectorAll", nodeId=answer["root"]["nodeId"], selector="th button, #theme:not([hidden])"
    )
    assert found["nodeIds"] == []
