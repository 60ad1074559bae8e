"""Pictures of a run folder are shown without anything in them that runs, moves or loads."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

import html_tree
import made_records
from maskwright.errors import InputError
from maskwright.report.page import write_report
from maskwright.report.pictures import MOST_PICTURES, clean_svg

MASKS = Path(__file__).resolve().parents[2] / "docs" / "images" / "masks.svg"
SVG = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" {}>{}<path d="M1 2"/></svg>'


@pytest.mark.parametrize(
    ("attributes", "content"),
    [
        ("", "<script>evil()</script>"),
        ("", '<x:script xmlns:x="http://www.w3.org/2000/svg">evil()</x:script>'),
        ("", '<script xmlns="http://www.w3.org/1999/xhtml">evil()</script>'),
        ('onload="evil()"', ""),
        ('ONLOAD="evil()"', ""),
        ("", '<a href="javascript:evil()"><text>evil</text></a>'),
        ("", '<image xlink:href="https://evil.example/x.png"/>'),
        ("", '<image href="data:image/svg+xml;base64,evil"/>'),
        ("", '<use href="evil.svg#x"/>'),
        ("", '<rect style="fill: url(https://evil.example/)"/>'),
        ("", "<rect style=\"fill: url( 'evil.svg#x')\"/>"),
        ("", '<rect fill="u\\72l(evil)"/>'),
        ("", "<style>@import 'evil.css';</style>"),
        ("", "<style>rect { fill: URL(//evil) }</style>"),
        ("", "<foreignObject><iframe xmlns='http://www.w3.org/1999/xhtml' src='evil'/></foreignObject>"),
        ("", '<animate attributeName="href" to="javascript:evil()"/>'),
        ("", '<set attributeName="href" to="evil"/>'),
        ("", "<!-- evil --><?evil evil?>"),
        ('xml:base="https://evil.example/"', ""),
    ],
)
def test_what_runs_or_loads_is_taken_out(attributes: str, content: str) -> None:
    clean = clean_svg(SVG.format(attributes, content).encode()).decode()
    assert "evil" not in clean
    assert 'd="M1 2"' in clean


@pytest.mark.parametrize(
    "content",
    [
        '<use href="#a"/>',
        '<rect style="fill: url(#a); stroke: #fff"/>',
        "<rect clip-path=\"url('#a')\"/>",
        '<image xlink:href="data:image/png;base64,iVBORw0KGgo="/>',
        "<style>rect { fill: #fff }</style>",
        "<text>1 &lt; 2, 我们</text>",
    ],
)
def test_what_a_drawing_needs_stays(content: str) -> None:
    clean = clean_svg(SVG.format("", content).encode())
    assert re.sub(rb"\s|<svg.*?>", b"", clean) == re.sub(
        rb"\s|<svg.*?>", b"", clean_svg(clean)
    )  # nothing is left to take out
    value = re.search(r'"([^"]*)"|>([^<]+)<', content)
    assert value is not None
    assert (value[1] or value[2]).replace("&lt;", "<") in clean.decode().replace("&lt;", "<").replace(
        "&#25105;&#20204;", "我们"
    )


@pytest.mark.parametrize(
    "content", [b"", b"<svg/>", b"<html></html>", b"\x89PNG", b"<svg xmlns='http://www.w3.org/2000/svg'><g></svg>"]
)
def test_what_is_no_svg_is_refused(content: bytes) -> None:
    with pytest.raises(InputError, match="no SVG"):
        clean_svg(content)


def test_entities_are_refused_before_they_are_expanded() -> None:
    bomb = b'<!DOCTYPE svg [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><svg xmlns="http://www.w3.org/2000/svg">&b;</svg>'
    with pytest.raises(InputError, match="entities"):
        clean_svg(bomb)


def test_mask_pictures_are_shown_whole(tmp_path: Path) -> None:
    folder = made_records.finetuning(tmp_path / "run")
    drawn = MASKS.read_text(encoding="utf-8")
    (folder / "masks.svg").write_text(drawn, encoding="utf-8")
    (folder / "broken.svg").write_text("<svg", encoding="utf-8")
    report = write_report([folder], tmp_path / "page.html")
    (picture,) = html_tree.parse((tmp_path / "page.html").read_text(encoding="utf-8")).all("img")
    assert "run: masks" in picture.attributes["alt"]
    shown = base64.b64decode(picture.attributes["src"].partition(",")[2]).decode()
    for tag in ("path", "use", "image", "clipPath"):
        assert len(re.findall(rf"<{tag}\b", shown)) == len(re.findall(rf"<{tag}\b", drawn)) > 0
    assert [note for note in report.notes if "broken.svg is not shown: it is no SVG" in note]


def test_pictures_beyond_a_number_or_size_are_counted(tmp_path: Path) -> None:
    folder = made_records.finetuning(tmp_path / "run")
    for i in range(MOST_PICTURES + 2):
        (folder / f"{i:02}.svg").write_text(SVG.format("", ""), encoding="utf-8")
    (folder / "00.svg").write_text(SVG.format("", " " * 2_000_001), encoding="utf-8")
    report = write_report([folder], tmp_path / "page.html")
    assert report.notes == ["run: 00.svg is not shown: is larger than 2 MB.", "run: 2 of 14 pictures are not shown."]
