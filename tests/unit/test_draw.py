"""Pictures of masks: what is on the axes, which font, which files, and the form for a terminal."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
import torch
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib.backends.backend_agg import FigureCanvasAgg

from maskwright import masks
from maskwright.cli.main import main
from maskwright.errors import InputError, MaskError
from maskwright.masks.draw import ATTENDS, BLOCKED

TOKENS = ["[CLS]", "the", "cat", "$at", "[PAD]"]
BOTH = masks.padding(lengths=[4, 5]) & masks.causal()


@pytest.fixture(scope="module")
def chinese_font(tmp_path_factory):
    """A font of two characters, each a square: what a system without Chinese fonts lacks."""
    path = tmp_path_factory.mktemp("font") / "two.ttf"
    builder = FontBuilder(1000)
    builder.setupGlyphOrder([".notdef", "uni6211", "uni4EEC"])
    builder.setupCharacterMap({0x6211: "uni6211", 0x4EEC: "uni4EEC"})
    pen = TTGlyphPen(None)
    for point, move in (((0, 0), pen.moveTo), ((800, 0), pen.lineTo), ((800, 800), pen.lineTo), ((0, 800), pen.lineTo)):
        move(point)
    pen.closePath()
    square = pen.glyph()
    builder.setupGlyf(dict.fromkeys((".notdef", "uni6211", "uni4EEC"), square))
    builder.setupHorizontalMetrics(dict.fromkeys((".notdef", "uni6211", "uni4EEC"), (1000, 0)))
    builder.setupHorizontalHeader(ascent=900, descent=-100)
    builder.setupNameTable({"familyName": "Two Characters", "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(path)
    return str(path)


def labels(axis):
    return [tick.get_text() for tick in axis.get_ticklabels()]


def test_rows_attend_to_columns_with_tokens_on_both_axes():
    figure = BOTH.draw(TOKENS, row=0)
    (axes,) = figure.axes
    (image,) = axes.images
    assert np.array_equal(np.asarray(image.get_array()), BOTH.to_bool()[0].numpy())
    assert labels(axes.xaxis) == labels(axes.yaxis) == ["[CLS]", "the", "cat", r"\$at", "[PAD]"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("attended to (key)", "attending (query)")
    assert axes.get_ylim()[0] > axes.get_ylim()[1], "query 0 is on top"
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["True: row may attend to column", "False: blocked"]
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[..., :3].reshape(-1, 3)
    for colour in (ATTENDS, BLOCKED):
        wanted = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
        assert (pixels == wanted).all(1).any()


def test_several_side_by_side_and_files(tmp_path):
    panels = [
        masks.Panel("padding", masks.padding(lengths=[3, 5]), TOKENS),
        masks.Panel("causal", masks.causal(), TOKENS),
    ]
    for name, magic in (("m.png", b"\x89PNG"), ("m.svg", b"<?xml"), ("m.pdf", b"%PDF")):
        figure = masks.draw(panels, tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(magic)
    assert [axes.get_title() for axes in figure.axes] == ["padding", "causal"]
    with pytest.raises(InputError, match=r"m\.gif: a picture is"):
        masks.draw(panels, tmp_path / "m.gif")
    with pytest.raises(MaskError, match="nothing to draw"):
        masks.draw([])
    with pytest.raises(MaskError, match="row 2 of a mask of 2 rows"):
        BOTH.draw(row=2)
    with pytest.raises(MaskError, match="is for 5 keys, asked for 3"):
        BOTH.draw(["a", "b", "c"])


@pytest.mark.parametrize("n", [8, 128])
def test_labels_do_not_touch(n):
    figure = masks.causal().draw([f"token{i}" for i in range(n)])
    FigureCanvasAgg(figure).draw()
    (axes,) = figure.axes
    boxes = [tick.get_window_extent() for tick in axes.yaxis.get_ticklabels()]
    heights = sorted((box.y0, box.y1) for box in boxes)
    assert all(low[1] <= high[0] for low, high in pairwise(heights))
    assert len(boxes) == 8 if n == 8 else 20 < len(boxes) < 128
    if n == 128:
        assert re.fullmatch(r"\d+ token\d+", labels(axes.yaxis)[1]), "a label out of many says which slot it is"


def test_characters_without_a_font_are_named(monkeypatch):
    from matplotlib import font_manager

    manager = font_manager.fontManager
    monkeypatch.setattr(manager, "ttflist", [entry for entry in manager.ttflist if entry.name.startswith("DejaVu")])
    with pytest.raises(InputError, match="no installed font has the characters 们我; install one"):
        masks.causal().draw(["我", "们"])
    assert "我 0 █ ·" in masks.causal().text(["我", "们"])


def test_a_font_that_has_the_characters_is_used(chinese_font):
    figure = masks.causal().draw(["我", "们"], font=chinese_font)
    FigureCanvasAgg(figure).draw()  # a missing glyph would warn, and warnings fail the test
    assert labels(figure.axes[0].yaxis) == ["我", "们"]
    with pytest.raises(InputError, match="no such font file"):
        masks.causal().draw(["我"], font="none.ttf")


def test_the_form_for_a_terminal_keeps_its_columns():
    rule = masks.padding(lengths=[11], length=13)
    lines = rule.text([*"abcdefghi", "词语", "k", "[PAD]", "[PAD]"], title="t").splitlines()
    assert lines[0] == "t (row attends to column: █ yes, · no)"
    assert lines[1].split() == ["1", "1", "1"], "tens above the units"
    assert lines[2].split() == [str(i % 10) for i in range(13)]
    from rich.cells import cell_len

    assert len({cell_len(line) for line in lines[2:]}) == 1
    assert lines[3 + 9].startswith("词语   9 █")
    assert lines[3 + 9].count("█") == 11


def test_draw_prints_texts_with_chinese_characters(capsys):
    assert main(["draw", "我们 are here", "hi", "--masks", "both", "documents", "mae", "window"]) == 0
    out = capsys.readouterr().out
    assert "padding & causal (row attends" in out
    assert out.count("[PAD]") == 3 * 3, "the row with most padding, in all but the packed documents"
    assert re.search("我 +0 █ █ █ █ ·", out), "documents do not see one another"


def test_draw_writes_a_picture_from_lengths(tmp_path, capsys):
    path = tmp_path / "m.svg"
    assert main(["draw", "--lengths", "5", "3", "--side", "left", "--output", str(path)]) == 0
    assert capsys.readouterr().out == f"wrote {path}: row 1 of a batch of 2\n"
    assert path.read_text(encoding="utf-8").startswith("<?xml")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give texts or --lengths"),
        (["a", "--lengths", "3"], "give texts or --lengths"),
        (["--lengths", "0"], "must be 1 or more"),
        (["a", ""], "text 1: has no tokens"),
        (["a", "--row", "1"], "there is no row 1, only 0 to 0"),
        (["a", "--masks", "mae", "--hide", "1.5"], "--hide: must be at least 0 and below 1"),
        (["a", "--output", "x.gif"], "a picture is .png, .svg or .pdf"),
    ],
)
def test_draw_says_what_is_wrong(words, message, capsys):
    assert main(["draw", *words]) == 2
    assert message in capsys.readouterr().err


def test_hidden_columns_are_hidden_from_everybody():
    rule = masks.hide_columns(torch.tensor([[False, True, False]]))
    assert [line.split()[-3:] for line in rule.text().splitlines()[2:]] == [["█", "·", "█"]] * 3
