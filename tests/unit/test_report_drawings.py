"""Curves and charts: which points are kept, and where ticks stand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from maskwright.report.blocks import Chart, Point, Series
from maskwright.report.charts import draw, labels
from maskwright.report.curves import MOST_POINTS, curve


def test_the_last_of_two_values_at_a_step_counts_and_infinities_are_left_out() -> None:
    logged = [{"step": 1, "y": 2.0}, {"step": 1, "y": 3.0}, {"step": 2, "y": math.inf}, {"step": 3, "y": True}]
    assert curve("a", logged, "y").points == [Point(1.0, 3.0)]


def test_a_long_curve_keeps_a_spike_of_one_step() -> None:
    logged = [{"step": i, "y": 100.0 if i == 6007 else -50.0 if i == 9001 else 1 / i} for i in range(1, 10007)]
    thin = curve("a", logged, "y")
    assert len(thin.points) <= MOST_POINTS
    assert thin.thinned == 10006
    assert {Point(1.0, 1.0), Point(6007.0, 100.0), Point(9001.0, -50.0), Point(10006.0, 1 / 10006)} <= set(thin.points)


@pytest.mark.parametrize(
    "values",
    [[0.0], [5.0], [-3.0, -3.0], [0.57, 0.571], [1e-9, 3e-9], [1e9, 7e9], [-0.2, 0.9], [0, 2], [12345.0, 987654.0]],
)
def test_ticks_are_inside_rise_evenly_and_are_labelled_with_their_value(values: list[float]) -> None:
    drawing = draw(Chart("t", "x", "y", [Series("a", [Point(float(i), y) for i, y in enumerate(values)])]))
    places = [tick.at for tick in drawing.y_ticks]
    assert 2 <= len(places) <= 8
    assert all(drawing.top <= place <= drawing.bottom for place in places)
    assert np.diff(places) == pytest.approx(np.full(len(places) - 1, places[1] - places[0]), abs=0.02)
    assert len({tick.label for tick in drawing.y_ticks}) == len(places)


def test_whole_numbers_have_no_ticks_between_them() -> None:
    drawing = draw(Chart("t", "layer", "y", [Series("a", [Point(0, 0.1), Point(1, 0.2), Point(2, 0.3)])]))
    assert [tick.label for tick in drawing.x_ticks] == ["0", "1", "2"]


def test_an_axis_does_not_blow_up_a_difference_of_no_account() -> None:
    one = Series("a", [Point(0.0, 0.57), Point(0.1, 0.571)])
    (line,) = [shape.line for shape in draw(Chart("t", "rate", "accuracy", [one])).shapes]
    (_, first), (_, second) = [map(float, pair.split()) for pair in line[1:].split("L")]
    assert abs(first - second) < 0.05 * 190


def test_labels_name_large_values_shortly() -> None:
    assert labels([0, 200000.0, 400000.0]) == ["0", "200k", "400k"]
    assert labels([2.5e6, 5e6]) == ["2.5M", "5M"]
