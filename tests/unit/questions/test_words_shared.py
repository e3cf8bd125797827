"""Words that several questions have are one row."""

from __future__ import annotations

from gpufleet.ask.spot.words import SpotRequest
from gpufleet.questions.autoscale import AutoscaleRequest
from gpufleet.questions.simulation import SimulationRequest
from gpufleet.questions.words import EDITED, words_of


def test_verbs_that_read_a_plan_ask_for_edited_ones_in_one_row() -> None:
    rows = [words_of(question)["edited"] for question in (AutoscaleRequest, SimulationRequest, SpotRequest)]
    assert {(row.says, row.heading, row.kind) for row in rows} == {(EDITED.says, EDITED.heading, EDITED.kind)}
