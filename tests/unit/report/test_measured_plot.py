"""The picture of measured against predicted: well-formed, small, every dot where it belongs."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest

from gpufleet.report.measured_plot import DISC, INKS, PLOT_PX, SQUARE, STYLE, LogScale, Panel, Series, plot_as_svg

SVG = "{http://www.w3.org/2000/svg}"
STEADY = Series("vllm <&>: 3 points", "blue", DISC, [(1.0, 1.0), (10.0, 12.5), (100.0, 60.0)])
SPARSE = Series("sglang: 1 point", "vermilion", SQUARE, [(30.0, 30.0)])


def panel(*series: Series, title: str = "Time") -> Panel:
    return Panel(title, "points", series, str)


def dots(svg: str, look: str) -> list[tuple[float, float]]:
    """Places of the dots of a series (its legend mark has another size)."""
    paths = ElementTree.fromstring(svg).iter(f"{SVG}path")
    found = [p for p in paths if p.get("class") == f"dots {look}" and p.get("stroke-width") == "4"]
    text = "".join(path.get("d", "") for path in found)
    return [(float(x), float(y)) for x, y in re.findall(r"M([\d.]+) ([\d.]+)h0", text)]


def test_the_picture_is_well_formed_whatever_a_label_says() -> None:
    root = ElementTree.fromstring(plot_as_svg([panel(STEADY), panel(SPARSE, title="a < b & c")], "t > u"))
    said = {text.text for text in root.iter(f"{SVG}text")}
    assert {"vllm <&>: 3 points", "a < b & c", "measured", "predicted"} <= said
    assert [title.text for title in root.iter(f"{SVG}title")] == ["t > u"]


def test_equal_figures_lie_on_the_diagonal_and_all_dots_in_the_frame() -> None:
    places = dots(plot_as_svg([panel(STEADY, SPARSE)], ""), DISC)
    assert len(places) == 3
    assert places[0][0] == pytest.approx(PLOT_PX - places[0][1], abs=0.11)
    assert all(0 <= pixel <= PLOT_PX for place in places for pixel in place)
    assert places[1][0] < PLOT_PX - places[1][1]
    assert places[2][0] > PLOT_PX - places[2][1]


def test_dots_on_one_place_are_drawn_once_and_thousands_stay_a_small_file() -> None:
    assert len(dots(plot_as_svg([panel(Series("", "blue", DISC, [(1.0, 1.0)] * 99 + [(9.0, 9.0)]))], ""), DISC)) == 2
    many = [(1.0 + math.sin(n) ** 2 * n, 1.0 + math.cos(n) ** 2 * n) for n in range(6000)]
    assert len(plot_as_svg([panel(Series("", "blue", DISC, many))] * 3, "")) < 400_000


@pytest.mark.parametrize("values", [[5.0, 5.0], [0.1, 3e6], [999.0, 1001.0]])
def test_every_value_has_a_place_on_its_axis(values: list[float]) -> None:
    scale = LogScale.of(values)
    assert all(0 < scale.pixel(value) < PLOT_PX for value in values)
    assert all(0 <= scale.pixel(tick) <= PLOT_PX for tick in scale.ticks)


def test_every_ink_has_a_colour_on_light_and_on_dark_pages() -> None:
    assert all(STYLE.count(f"--{ink}:#") == 2 for ink in INKS)


def test_a_panel_without_points_keeps_its_headline() -> None:
    assert "Time" in plot_as_svg([panel()], "")
