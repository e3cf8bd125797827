"""A page of text: no line is wider than the screen, whatever letters names are written in."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from gpufleet.report.page import Column, Page, Table
from gpufleet.report.text import page_as_text

NAME = "計算資源第一号機の夜間学習ジョブ" * 2


@pytest.mark.parametrize("letters", [80, 57, 58])
def test_letters_that_take_two_places_are_counted_twice(letters: int) -> None:
    columns = [Column("name", "名前"), Column("hours", "hours", align="right"), Column("why", "why", wraps=True)]
    rows = [{"name": NAME, "hours": "12", "why": f"{NAME} は早く終わる"}, {"name": "eval", "hours": "3", "why": "a"}]
    page = page_as_text(Page(f"{NAME} 遅れ", [Table(columns, rows, NAME)], (NAME,)), letters)
    assert max(map(cell_len, page.splitlines())) <= letters
    assert NAME[:3] in page
    lines = page.splitlines()
    ends = {
        cell_len(next(line for line in lines if mark in line).partition(mark)[0] + mark) for mark in ("hours", " 12")
    }
    assert len(ends) == 1  # columns stay aligned
