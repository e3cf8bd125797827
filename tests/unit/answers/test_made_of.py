"""Results take over by name what the parts of the core call the same."""

from __future__ import annotations

from enum import Enum
from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from gpufleet.domain.layout import Layout
from gpufleet.results.base import ExplainedTerm, Figure, Ranks


class Said(str, Enum):
    SECONDS = "s"


def test_the_first_part_that_has_a_name_gives_it_and_what_is_said_goes_before_all() -> None:
    one, other = SimpleNamespace(value=1.0, unit=Said.SECONDS), SimpleNamespace(value=2.0, low=0.5)
    found = Figure.made_of(one, other, grade="roofline")
    assert found == Figure(value=1.0, unit="s", low=0.5, grade="roofline")
    assert type(found.unit) is str
    assert Ranks.made_of(Layout(8, 2, 4, 1), ep=1) == Ranks(tp=8, pp=2, ep=1)


def test_a_field_that_no_part_has_is_refused_unless_it_has_a_default() -> None:
    with pytest.raises(ValidationError, match="formula"):
        ExplainedTerm.made_of(Figure(value=1.0, unit="s"), name="work")


def test_a_changed_figure_keeps_what_is_unknown() -> None:
    assert Figure(value=2.0, unit="s", high=3.0).changed(lambda s: s / 2, "h") == Figure(value=1.0, unit="h", high=1.5)
