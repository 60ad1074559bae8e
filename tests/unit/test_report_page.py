"""The report as HTML: every plotted number stands in a table, names are unique, text stays text."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import html_tree
import made_records
from html_tree import Node
from maskwright.cli.main import main
from maskwright.report.page import write_report

STYLE = Path(__file__).resolve().parents[2] / "src" / "maskwright" / "report" / "templates" / "style.css"


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Node:
    """A page with records of every kind, long curves and hostile names among them."""
    root = tmp_path_factory.mktemp("records")
    folders = [
        made_records.finetuning(root / "plain", n_logs=307),
        made_records.finetuning(root / "<b>bold", drop_rate=0.25, accuracy=0.625),
        made_records.finetuning(root / "again", drop_rate=0.25, accuracy=0.375),
        made_records.pretraining(root / "mae"),
        made_records.pretraining(root / "mlm", "mlm"),
        made_records.sweep(root / "sweep"),
        made_records.gap(root / "gap"),
        made_records.audit(root / "audit"),
    ]
    write_report(folders, root / "page.html", title=made_records.HOSTILE)
    return html_tree.parse((root / "page.html").read_text(encoding="utf-8"))


def charts(page: Node) -> list[Node]:
    return [figure for figure in page.all("figure") if list(figure.all("svg", "chart"))]


def scale(figure: Node, axis: str) -> tuple[float, float]:
    """Slope and offset from places to values, as a reader has them: from the labels of the ticks."""
    factor = {"k": 1e3, "M": 1e6}
    ticks = []
    for tick in figure.one("svg", "chart").all("text", "tick"):
        if axis in tick.attributes["class"].split():
            label = tick.text.replace(",", "")
            value = float(label.rstrip("kM")) * factor.get(label[-1], 1.0)
            ticks.append((float(tick.attributes["x"]) if axis == "x" else float(tick.attributes["y"]) - 4, value))
    (a, first), *_, (b, last) = ticks
    slope = (last - first) / (b - a)
    return slope, first - slope * a


def test_every_plotted_number_stands_in_the_table_below_its_chart(everything: Node) -> None:
    n_checked = 0
    for figure in charts(everything):
        rows = figure.rows()
        by_row = next(iter(figure.all("th"))).text == "variant"
        if by_row:
            continue
        (sx, ox), (sy, oy) = scale(figure, "x"), scale(figure, "y")
        names = list(dict.fromkeys(str(row[0]) for row in rows))
        groups = list(figure.one("svg", "chart").all("g"))
        assert len(groups) == len(names)
        for name, group in zip(names, groups, strict=True):
            told = [row[1:] for row in rows if row[0] == name]
            for line in group.all("path", "line"):
                places = [tuple(map(float, pair.split())) for pair in line.attributes["d"][1:].split("L")]
                drawn = [(sx * x + ox, sy * y + oy) for x, y in places]
                assert len(drawn) == len(told)
                for (x, y), row in zip(drawn, told, strict=True):
                    assert x == pytest.approx(row[0], abs=abs(sx) * 0.1)
                    assert y == pytest.approx(row[1], abs=abs(sy) * 0.1)
                    n_checked += 1
            bars = [re.findall(r"-?[\d.]+", bar.attributes["d"]) for bar in group.all("path", "bar")]
            for numbers, row in zip(bars, [row for row in told if row[2:] not in ([], ["", ""])], strict=True):
                assert sy * float(numbers[1]) + oy == pytest.approx(row[2], abs=abs(sy) * 0.1)
                assert sy * float(numbers[5]) + oy == pytest.approx(row[3], abs=abs(sy) * 0.1)
                n_checked += 1
    assert n_checked > 150


def test_rows_of_a_chart_by_variant_are_those_of_its_table(everything: Node) -> None:
    figures = [figure for figure in charts(everything) if "difference to plain" in figure.one("figcaption").text]
    assert len(figures) == 2
    slope, offset = scale(figures[0], "x")
    bars = [re.findall(r"-?[\d.]+", bar.attributes["d"]) for bar in figures[0].all("path", "bar")]
    ends = [[slope * float(numbers[0]) + offset, slope * float(numbers[5]) + offset] for numbers in bars]
    for end, row in zip(ends, figures[0].rows(), strict=True):
        assert end == pytest.approx(row[2:], abs=slope * 0.2)
    assert [row[:2] for row in figures[0].rows()] == [["tenth", pytest.approx(0.03)], ["half", pytest.approx(-0.03)]]


def test_ids_are_unique_and_every_reference_leads_to_one(everything: Node) -> None:
    ids = [node.attributes["id"] for node in everything.all() if "id" in node.attributes]
    assert len(ids) == len(set(ids))
    told = ("aria-labelledby", "aria-describedby")
    wanted = {node.attributes[name] for node in everything.all() for name in told if name in node.attributes}
    wanted |= {a.attributes["href"][1:] for a in everything.all("a")}
    assert wanted
    assert wanted <= set(ids)


def test_landmarks_headings_and_names_are_there(everything: Node) -> None:
    assert [everything.one(tag).tag for tag in ("main", "nav", "header", "footer", "h1")]
    assert everything.one("html").attributes["lang"] == "en"
    levels = [int(node.tag[1]) for node in everything.all() if re.fullmatch(r"h\d", node.tag)]
    assert all(b - a <= 1 for a, b in pairwise(levels))
    for figure in charts(everything):
        svg = figure.one("svg", "chart")
        assert svg.attributes["role"] == "img"
        (description,) = [p for p in figure.all("p") if p.attributes.get("id") == svg.attributes["aria-describedby"]]
        assert len(description.text) > 20
    assert all(th.attributes["scope"] in {"row", "col"} for th in everything.all("th"))
    assert all(table.one("caption").text for table in everything.all("table"))


def test_text_from_records_stays_text(everything: Node) -> None:
    assert everything.one("head").one("title").text == everything.one("h1").text == made_records.HOSTILE
    assert any(made_records.HOSTILE in cell.text for cell in everything.all("td"))
    assert any("<b>bold" == li.text.strip() for li in everything.all("li"))
    assert not list(everything.all("b"))
    assert len(list(everything.all("script"))) == 1


def test_the_page_asks_for_nothing_outside(everything: Node) -> None:
    for node in everything.all():
        assert node.tag not in {"link", "iframe", "object", "embed", "base", "form"}
        assert not [name for name in node.attributes if name.startswith("on") or name in {"style", "srcset", "action"}]
        for name in ("src", "href", "xlink:href"):
            assert node.attributes.get(name, "#").startswith(("#", "data:image/svg+xml;base64,"))
    policy = next(m.attributes["content"] for m in everything.all("meta") if "http-equiv" in m.attributes)
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'sha256-")
    assert "url(" not in everything.one("style").text


def test_curves_of_many_points_keep_their_highest_and_lowest_values_and_say_so(everything: Node) -> None:
    losses = [figure for figure in charts(everything) if figure.one("figcaption").text == "Training loss"]
    (figure,) = [figure for figure in losses if "bold" in figure.text]
    values = [row[2] for row in figure.rows() if row[0] == "plain"]
    assert len(values) <= 120
    assert (max(values), min(values)) == (3.0, 3.0 / 307)
    assert "highest and lowest" in figure.text


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["paper", "panel", "warn"])
def test_contrast_is_4_5_for_text_and_3_for_lines(theme: int, ground: str) -> None:
    pairs = re.findall(r"--(\w+): light-dark\((#\w{6}), (#\w{6})\)", STYLE.read_text(encoding="utf-8"))
    colours = {name: both[theme] for name, *both in pairs}
    behind = luminance(colours[ground])

    def contrast(name: str) -> float:
        dark, light = sorted((behind, luminance(colours[name])))
        return (light + 0.05) / (dark + 0.05)

    assert min(contrast(name) for name in ("ink", "soft", "link")) >= 4.5
    assert min(contrast(f"c{i}") for i in range(7)) >= 3


def test_the_page_is_made_without_torch(tmp_path: Path) -> None:
    made_records.sweep(tmp_path / "sweep")
    code = "import sys\nfrom maskwright.cli.main import main\nmain(sys.argv[1:])\n"
    code += "print(sorted({'torch', 'transformers', 'datasets', 'matplotlib'} & set(sys.modules)))"
    words = ["report", tmp_path / "sweep", "--output", tmp_path / "page.html", "--json"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    written, modules = done.stdout.splitlines()
    assert json.loads(written)["records"] == {"sweep": 1}
    assert modules == "[]"


def test_the_command_names_what_is_partial_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_records.finetuning(tmp_path / "one")
    (tmp_path / "one" / "results.json").unlink()
    assert main(["report", str(tmp_path / "one"), "--output", str(tmp_path / "page.html"), "--title", "T"]) == 0
    out = capsys.readouterr()
    assert "1 fine-tuning run" in out.out
    assert "one: results.json is missing" in out.err
    assert "<h1>T</h1>" in (tmp_path / "page.html").read_text(encoding="utf-8")
