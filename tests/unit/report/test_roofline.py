"""The roofline as characters and as a picture: everything inside of the frame, nothing over anything."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from functools import lru_cache

import pytest

from gpufleet.api.estimates import estimate
from gpufleet.report.estimate import estimate_page, estimate_roofline_svg
from gpufleet.report.formats import page_as_markdown
from gpufleet.report.page import Column, Page, Table
from gpufleet.report.roofline import Chart, chart_of, drawn_lines, roofline_table
from gpufleet.report.text import page_as_text
from gpufleet.results.estimate import ServingEstimate

SVG = "{http://www.w3.org/2000/svg}"
QUESTIONS = [
    ("llama-3.3-70b", "H100:8", 1000, 64),
    ("deepseek-v3", "H200:8", 1000, 64),
    ("llama-3.1-8b", "H100:1", 8000, 1),
    ("gpt-oss-20b", "L40S:1", 100, 8),
    ("gemma-3-12b-text", "A100:2", 30000, 4),
]
each_question = pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: f"{q[0]} on {q[1]}")


@lru_cache
def explained(question: tuple[str, str, int, int]) -> ServingEstimate:
    model, gpus, tokens, clients = question
    return estimate(model, gpus, input_tokens=tokens, output_tokens=500, concurrency=clients, explain=True)


def chart(question: tuple[str, str, int, int]) -> Chart:
    explanation = explained(question).explanation
    assert explanation is not None
    return chart_of(explanation)


@pytest.mark.slow
@each_question
def test_no_operation_stands_above_its_roof(question: tuple) -> None:
    drawn = chart(question)
    assert drawn.points
    assert all(p.flop_per_s <= drawn.roof(p.flop_per_byte) * (1 + 1e-9) for p in drawn.points)
    assert all(0 <= drawn.across.position(p.flop_per_byte) <= 1 for p in drawn.points)
    assert all(0 <= drawn.upwards.position(p.flop_per_s) <= 1 for p in drawn.points)


@pytest.mark.parametrize("width", [40, 60, 80, 200])
@each_question
def test_the_drawing_in_characters_shows_every_operation_once(question: tuple, width: int) -> None:
    drawn = chart(question)
    lines = drawn_lines(drawn, width)
    assert max(map(len, lines)) <= min(width, 78)
    letters = [c for line in lines for c in line if c.isalpha()]
    assert sorted(letters) == sorted(p.mark for p in drawn.points)
    assert len(roofline_table(drawn, width).rows) == len(drawn.points)


@pytest.mark.parametrize("width", [40, 80, 200])
@each_question
def test_an_explained_page_keeps_to_its_width(question: tuple, width: int) -> None:
    text = page_as_text(estimate_page(explained(question), explain=True, roofline=True, width=width), width)
    assert max(map(len, text.splitlines())) <= width


def numbers(element: ElementTree.Element, *names: str) -> list[float]:
    return [float(element.attrib[name]) for name in names]


@each_question
def test_the_picture_is_xml_and_holds_a_mark_for_every_operation(question: tuple) -> None:
    root = ElementTree.fromstring(estimate_roofline_svg(explained(question)))
    assert root.tag == f"{SVG}svg"
    marks = [e for e in root.iter() if e.attrib.get("class") in ("decode", "prefill") and list(e)]
    assert len(marks) == len(chart(question).points)
    assert all(next(iter(mark)).tag == f"{SVG}title" for mark in marks)


@each_question
def test_no_label_of_the_picture_lies_on_another(question: tuple) -> None:
    root = ElementTree.fromstring(estimate_roofline_svg(explained(question)))
    labels = [e for e in root.iter(f"{SVG}text") if e.attrib.get("class", "").startswith("of-")]
    boxes = [label_box(label) for label in labels]
    assert boxes
    assert all(left >= 80 and right <= 870 for left, right, _ in boxes)
    for i, (left, right, y) in enumerate(boxes):
        assert not any(abs(y - y2) < 13 and left < r2 and l2 < right for l2, r2, y2 in boxes[:i])


def label_box(label: ElementTree.Element) -> tuple[float, float, float]:
    """Left, right and base line at the width of a common sans-serif face."""
    (x, y), width = numbers(label, "x", "y"), 7.0 * len(label.text or "")
    return (x - width, x, y) if label.attrib["class"].endswith(" end") else (x, x + width, y)


def test_a_hostile_name_stays_text() -> None:
    found = explained(QUESTIONS[2]).model_copy(update={"model": '<script>"&\x1b[31m' + "x" * 300})
    root = ElementTree.fromstring(estimate_roofline_svg(found))
    assert not list(root.iter(f"{SVG}script"))
    assert len(root.findtext(f"{SVG}title") or "") < 100


def test_markdown_keeps_the_columns_of_the_drawing() -> None:
    page = estimate_page(explained(QUESTIONS[0]), explain=True, roofline=True)
    fenced = page_as_markdown(page).split("```text\n")[1].split("\n```")[0]
    assert fenced.splitlines() == drawn_lines(chart(QUESTIONS[0]), 80)


def test_a_cell_below_its_row_has_lines_of_its_own_in_text_and_a_column_in_markdown() -> None:
    columns = [Column("name", "name"), Column("detail", "detail", below=True)]
    page = Page(
        "", [Table(columns, [{"name": "a", "detail": "x " * 30}, {"name": "b", "detail": ""}], drawing=["` |"])]
    )
    text = page_as_text(page, 40).splitlines()
    assert text == ["` |", "name", "----", "a", "  " + " ".join("x" * 19), "  " + " ".join("x" * 11), "b"]
    assert "| name | detail |" in page_as_markdown(page)
    assert "' |" in page_as_markdown(page)
