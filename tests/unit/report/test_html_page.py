"""The page of HTML: read with every kind of eyes, on a phone and on paper, and nobody's text is its markup."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.report import cost_plot, measured_plot, page_style, roofline_svg
from gpufleet.report.cost_plot import NARROW, WIDE, CostPlot, CostPoint, cost_picture, undominated
from gpufleet.report.html import SCREEN_CHARACTERS, page_as_html
from gpufleet.report.page import Column, Fact, Page, Table
from gpufleet.report.palette import READ_ON, SEEN_ON
from gpufleet.report.range_bars import LimitedRange, range_bars
from gpufleet.report.rented import verdict, verdict_fact

SVG = "{http://www.w3.org/2000/svg}"
READABLE, VISIBLE = 4.5, 3.0  # WCAG 2.2, AA: 1.4.3 text, 1.4.11 graphics
BLOCK = re.compile(r"\{([^{}]*--page:[^{}]*)\}")
VARIABLE = re.compile(r"--([a-z-]+):(#[0-9a-f]{3,6})\b")
HOSTILE = "</style></title><script>alert(1)</script><img src=x onerror=alert(1)>\"'&"


def luminance(colour: str) -> float:
    """Relative luminance of WCAG 2.2."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    channels = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def themes(style: str) -> list[dict[str, str]]:
    """The colours that a style names, in the light, in the dark and where it says so on paper."""
    return [dict(VARIABLE.findall(block)) for block in BLOCK.findall(style)]


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777", "#fff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize(("style", "num_themes"), [(page_style.STYLE, 3), (cost_plot.STYLE, 3)])
def test_text_can_be_read_and_marks_be_seen_in_the_light_in_the_dark_and_on_paper(style: str, num_themes: int) -> None:
    found = themes(style)
    assert len(found) == num_themes
    for theme in found:
        pairs = [(a, b, least) for of, least in ((READ_ON, READABLE), (SEEN_ON, VISIBLE)) for a, b in of]
        checked = {(a, b): contrast(theme[a], theme[b]) - least for a, b, least in pairs if {a, b} <= theme.keys()}
        assert len(checked) >= 4
        assert min(checked.values()) >= 0, checked


@pytest.mark.parametrize("style", [roofline_svg.STYLE, measured_plot.STYLE])
def test_words_of_other_pictures_can_be_read_too(style: str) -> None:
    for theme in themes(style):
        words = [name for name in theme if name in ("ink", "soft") or name.endswith("-text")]
        assert min(contrast(theme[name], theme["page"]) for name in words) >= READABLE


def test_no_colour_escapes_the_check() -> None:
    for style in (page_style.STYLE, cost_plot.STYLE):
        assert re.findall(r"#[0-9a-fA-F]{3,8}\b", BLOCK.sub("", style)) == []


class Seen(HTMLParser):
    """Elements with what they carry, and the text within each kind."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.within: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.within.append(tag)

    def handle_data(self, data: str) -> None:
        if self.within:
            self.texts.setdefault(self.within[-1], []).append(data)

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.elements if name == tag]


def plot(*points: CostPoint, limit_s: float | None = None, has_steps: bool = True) -> CostPlot:
    return CostPlot("per hour", "ttft.p95", points, ["bars: ranges"], limit_s, has_steps)


@pytest.mark.parametrize("first_usd", [1.02, 1.1, 1.3])
def test_no_range_strikes_the_words_of_a_limit(first_usd: float) -> None:
    at = (1.0, first_usd, 2.4, 4.0)
    drawn = cost_picture(plot(*(CostPoint(x, 1.0, None, (0.3, 4.0), str(x), str(x), True) for x in at), limit_s=2.0))
    assert drawn is not None
    for svg in (drawn.wide, drawn.narrow):
        [(left, bottom)] = re.findall(r'<text x="([\d.]+)" y="([\d.]+)"[^>]*>limit ', svg)
        ranges = re.findall(r'<path class="range best" d="M([\d.]+) ([\d.]+)V([\d.]+)', svg)
        assert len(ranges) == len(at)
        right = float(left) + cost_plot.LETTER_PX * len("limit 2.00 s")
        assert not any(
            float(left) < float(x) < right and float(top) < float(bottom) < float(low) for x, low, top in ranges
        )


def whole_page(name: str) -> str:
    """A page that says `name` wherever a page of HTML says anything."""
    columns = [Column(f"c{i}", name, priority=i) for i in range(12)]
    row = {column.key: name for column in columns}
    bars = range_bars([LimitedRange(name, 0.3, 0.2, 0.6, 0.5)])
    picture = cost_picture(plot(CostPoint(1.0, 2.0, None, (1.0, 3.0), name, name, True), limit_s=4.0))
    table = Table(columns, [row], name, [name, f"  {name}"], 0, drawing=[name], picture=picture, bars=bars,
                  bars_header=name)  # fmt: skip
    listed = Table([], [], name, [f"  {name}"], empty="", listing=[[[name]]])
    folded = Table(columns, [], name, empty=name, folded=True)
    return page_as_html(Page(name, [table, listed, folded], [name], [name], [Fact(name, name, name, "good")]))


def test_text_of_others_is_never_markup() -> None:
    harmless, hostile = Seen(whole_page("a name of a machine")), Seen(whole_page(HOSTILE))
    assert {tag for tag, _ in hostile.elements} == {tag for tag, _ in harmless.elements}
    assert hostile.count("script") == hostile.count("img") == 0
    assert not [name for _, attrs in hostile.elements for name in attrs if name.startswith("on")]


@given(st.text(max_size=60))
def test_no_text_changes_what_a_page_is_made_of(name: str) -> None:
    usual, other = Seen(whole_page("a name " * 9)), Seen(whole_page(f"a {name}"))
    assert set(dict(other.elements)) == set(dict(usual.elements))


def test_a_page_needs_nothing_from_elsewhere_and_runs_nothing() -> None:
    seen = Seen(whole_page("a"))
    assert not {"script", "link", "iframe", "object", "a"} & {tag for tag, _ in seen.elements}
    assert not [attrs for _, attrs in seen.elements if {"src", "href", "style"} & attrs.keys()]
    assert "url(" not in page_style.STYLE + cost_plot.STYLE
    assert "@import" not in page_style.STYLE


def test_a_page_is_read_aloud_in_order() -> None:
    seen = Seen(whole_page("a name of a machine"))
    assert seen.of("html") == [{"lang": "en"}]
    assert seen.count("h1") == seen.count("main") == 1
    assert seen.count("caption") == seen.count("thead") == 2
    assert {attrs.get("scope") for attrs in seen.of("th")} == {"col"}
    assert all(attrs["role"] == "img" for attrs in seen.of("svg"))
    assert len(seen.of("svg")) == 3
    levels = [int(tag[1]) for tag, _ in seen.elements if tag in ("h1", "h2", "h3")]
    assert max(after - before for before, after in pairwise([0, *levels])) == 1


def test_columns_without_room_are_in_a_fold_that_holds_all() -> None:
    columns = [Column(f"c{i}", f"column {i}", priority=i) for i in range(40)]
    page = page_as_html(Page("many", [Table(columns, [{c.key: f"cell {c.key}" for c in columns}])]))
    first, fold = page.split("<details>")
    assert 3 < first.count("<td") < SCREEN_CHARACTERS / len("column 1")
    assert fold.count("<td") == 40
    assert "All 40 columns" in fold
    assert "cell c0<" in first


def test_a_narrow_table_has_neither_fold_nor_cards() -> None:
    page = page_as_html(Page("few", [Table([Column("a", "a"), Column("b", "b")], [{"a": "1", "b": "2"}])]))
    assert "<details>" not in page
    assert 'class="cards"' not in page.split("</style>")[1]


@dataclass(frozen=True)
class Plan:
    confidence: float
    missed_confidence: float | None


@pytest.mark.parametrize(
    ("missed", "is_tight", "fact"),
    [
        (None, False, Fact("Verdict", "Holds at 80% confidence", "at 90% too", "good")),
        (None, True, Fact("Verdict", "Holds at 80% confidence", "at 90% breaks", "tight")),
        (0.8, True, Fact("Verdict", "As expected only",
                         "No plan of sensible size holds at 80% confidence: this one holds as expected.", "bad")),
    ],
)  # fmt: skip
def test_a_verdict_is_a_word_and_what_it_rests_on(missed: float | None, is_tight: bool, fact: Fact) -> None:
    plan = Plan(0.8, missed)
    assert verdict_fact(plan, is_tight, verdict(plan, is_tight)) == fact


def shares(bar: str, look: str) -> tuple[float, float]:
    """Where a part of a bar begins and ends, in percent."""
    part = next(e for e in ElementTree.fromstring(bar).iter("rect") if e.get("class") == look)
    begin, size = (float((part.get(name) or "").rstrip("%")) for name in ("x", "width"))
    return begin, begin + size


def begins(bar: str, look: str) -> float:
    part = next(e for e in ElementTree.fromstring(bar).iter("rect") if e.get("class") == look)
    return float((part.get("x") or "").rstrip("%"))


def test_the_part_of_a_range_above_its_limit_has_a_colour_of_its_own() -> None:
    broken, kept, unlimited = range_bars([
        LimitedRange("ttft.p95", 0.3, 0.2, 0.516, 0.5), LimitedRange("tpot.p95", 0.02, 0.015, 0.03, 0.04), None,
    ])  # fmt: skip
    assert unlimited == ""
    assert begins(broken, "limit") == begins(kept, "limit")
    assert shares(broken, "kept")[1] == pytest.approx(shares(broken, "over")[0], abs=0.01)
    assert shares(broken, "over")[0] == pytest.approx(begins(broken, "limit"), abs=0.01)
    assert shares(kept, "kept")[1] / begins(kept, "limit") == pytest.approx(0.03 / 0.04, abs=0.001)
    assert '"over"' not in kept
    assert "broken at the high end" in broken
    assert "40.0 ms, kept" in kept


def texts(svg: str) -> list[str]:
    return [e.text or "" for e in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_every_row_is_a_point_with_its_range_on_a_page_and_on_a_phone() -> None:
    best = CostPoint(1.0, 9.0, None, (5.0, 12.0), "1", "8x L4, aws", True)
    other = CostPoint(2.0, 9.5, (1.5, 2.5), (6.0, 11.0), "2", "4x L4, gcp")
    picture = cost_picture(plot(best, other, limit_s=10.0))
    assert picture is not None
    for svg, canvas in ((picture.wide, WIDE), (picture.narrow, NARROW)):
        root = ElementTree.fromstring(svg)
        looks = [e.get("class") for e in root.iter()]
        assert root.get("viewBox") == f"0 0 {canvas.width} {canvas.height}"
        assert (looks.count("best"), looks.count("other"), looks.count("limit")) == (1, 1, 1)
        assert (looks.count("range best"), looks.count("range")) == (1, 2)
        assert "limit 10.0 s" in texts(svg)
    assert "1: 8x L4, aws" in texts(picture.wide)
    assert "1" in texts(picture.narrow)


def test_no_label_lies_on_the_limit_or_on_its_words() -> None:
    under = CostPoint(1.0, 9.0, None, (8.8, 9.2), "A", "45x B300, verda", True)
    picture = cost_picture(plot(under, CostPoint(3.0, 2.0, None, None, "B", "8x L4, aws", True), limit_s=10.0))
    assert picture is not None
    (limit,) = [e for e in ElementTree.fromstring(picture.wide).iter(f"{SVG}path") if e.get("class") == "limit"]
    limit_y = float((limit.get("d") or "").split()[1].split("h")[0])
    (label,) = [e for e in ElementTree.fromstring(picture.wide).iter(f"{SVG}text") if e.text == "A: 45x B300, verda"]
    assert not limit_y - 2 < float(label.get("y") or 0) < limit_y + cost_plot.LINE_PX


def test_no_name_lies_on_a_range_across_or_on_the_border_of_the_possible() -> None:
    points = [
        CostPoint(x, y, (x / 2, x * 2), (y / 2, y * 2), str(i), "45x B300, verda", True)
        for i, (x, y) in enumerate([(1.0, 9.0), (1.3, 8.0), (3.0, 2.0), (3.2, 1.9)])
    ]
    picture = cost_picture(plot(*points))
    assert picture is not None
    root = ElementTree.fromstring(picture.wide)
    level = [float(at[1]) for e in root.iter(f"{SVG}path") if e.get("class") == "range best"
             for at in [re.findall(r"[0-9.]+", e.get("d") or "")] if "H" in (e.get("d") or "")]  # fmt: skip
    ups = [float(e.get("y") or 0) for e in root.iter(f"{SVG}text") if (e.text or "").endswith("verda")]
    assert level
    assert ups
    assert not [(y, up) for y in level for up in ups if up - 9 < y < up]


def test_what_has_no_place_on_a_logarithmic_plane_is_not_drawn() -> None:
    assert cost_picture(plot(CostPoint(0.0, 1.0))) is None
    free_and_paid = cost_picture(plot(CostPoint(0.0, 1.0), CostPoint(1.0, 1.0, None, (0.5, float("inf")))))
    assert free_and_paid is not None
    assert free_and_paid.wide.count("<circle") == 1
    assert 'class="range"' not in free_and_paid.wide


@given(st.lists(st.tuples(st.floats(0.01, 1e4), st.floats(0.01, 1e4)), min_size=1, max_size=30))
def test_a_crowd_of_points_is_drawn_within_its_picture(places: list[tuple[float, float]]) -> None:
    best = undominated(places)
    assert best[min(range(len(places)), key=lambda i: places[i])]
    points = [
        CostPoint(x, y, None, (y / 2, y * 2), str(i), f"{i}x A100-SXM4-80GB, nebius", b)
        for i, ((x, y), b) in enumerate(zip(places, best, strict=True))
    ]
    picture = cost_picture(plot(*points))
    assert picture is not None
    assert picture.wide.count("<circle") == len(places)
    for svg, canvas in ((picture.wide, WIDE), (picture.narrow, NARROW)):
        for circle in ElementTree.fromstring(svg).iter(f"{SVG}circle"):
            assert canvas.left <= float(circle.get("cx") or 0) <= canvas.width - canvas.right
            assert canvas.top <= float(circle.get("cy") or 0) <= canvas.height - canvas.bottom
