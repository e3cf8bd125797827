"""The page of a mix: what to rent, what is proved, who gets what, and what gives way."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from gpufleet.api.mixes import plan_mix
from gpufleet.questions.fields import ServeRequest
from gpufleet.report.fleet_mix import Held, fleet_mix_page, given_way_line, headline, held_facts, letter
from gpufleet.report.numbers import usd_per_hour
from gpufleet.report.text import page_as_text
from gpufleet.results.base import Figure
from gpufleet.results.mix import BindingLimit, FleetMix, GivenWay

CHAT = ServeRequest(
    "llama-3.1-8b", 40.0, 700, 150, slo="ttft.p95<1s,tpot.p95<50ms", clouds=["aws"], gpus=["H100", "L40S"]
)


@pytest.fixture(scope="module")
def mix() -> FleetMix:
    return plan_mix(CHAT)


def text(mix: FleetMix, width: int = 80) -> str:
    return page_as_text(fleet_mix_page(mix), width)


@pytest.mark.slow
def test_a_page_of_eighty_columns_cuts_no_cell(mix: FleetMix) -> None:
    page = text(mix)
    assert max(map(len, page.splitlines())) <= 80
    assert "…" not in page
    assert "up to " in page
    assert "over " in page


def test_the_headline_says_the_machines_the_cost_what_is_proved_and_what_is_saved(mix: FleetMix) -> None:
    said = headline(mix)
    assert said.startswith("Rent 1x aws p5.4xlarge + 2x aws g6e.xlarge: $10.60/h")
    assert "Proved cheapest among" in said
    assert "One machine type for each service costs $" in said
    assert "% saved" in said


def test_a_page_of_html_shows_each_row_of_the_mix_and_every_other_choice_that_is_known(mix: FleetMix) -> None:
    page = fleet_mix_page(mix)
    (picture,) = page.pictures
    for svg in (picture.wide, picture.narrow):
        texts = [e.text for e in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
        assert [text for text in texts if text in ("A", "B")] == ["A", "B"]
        others = [mix.usd_per_hour_one_type, *(m.usd_per_hour_without for m in mix.machines)]
        assert all(usd_per_hour(cost) in texts for cost in (mix.usd_per_hour, *others) if cost is not None)
    assert page.title.count("AWS") == 1
    assert not [fact for fact in page.facts if fact.value in page.title and len(fact.value) > 1]


def test_the_limit_that_is_broken_first_at_the_high_end_is_named() -> None:
    near, far = (Figure(value=0.8, low=0.5, high=high, unit="s") for high in (1.1, 1.4))
    kept = Held("tpot.p95 of row 1", Figure(value=0.01, low=0.01, high=0.02, unit="s"), 0.05)
    (fact,) = held_facts([kept, Held("ttft.p95 of row 1", near, 1.0), Held("ttft.p95 of row 2", far, 1.0)])
    assert fact.look == "tight"
    assert fact.note.startswith("ttft.p95 of row 2 is 1.40 s of 1.00 s")
    assert held_facts([kept])[0].look == "good"
    assert held_facts([]) == []


def test_what_is_not_proved_is_said(mix: FleetMix) -> None:
    cost = mix.usd_per_hour or 0.0
    assert "10% less" in headline(mix.model_copy(update={"least_usd_per_hour": 0.9 * cost}))
    assert "not proved" in headline(mix.model_copy(update={"least_usd_per_hour": None}))


def test_one_type_is_compared_whichever_way_it_comes_out(mix: FleetMix) -> None:
    cost = mix.usd_per_hour or 0.0
    for one, said in ((None, "No single machine type"), (cost, "costs as much"), (cost - 1, "Without the limits")):
        assert said in headline(mix.model_copy(update={"usd_per_hour_one_type": one}))


def test_machines_of_a_type_are_named_once_whatever_their_regions(mix: FleetMix) -> None:
    elsewhere = mix.machines[0].model_copy(update={"region": "us-west-2", "instance_count": 3})
    several = mix.model_copy(update={"machines": [*mix.machines, elsewhere]})
    assert headline(several).count("p5.4xlarge") == 1
    assert "4x aws p5.4xlarge" in headline(several)


def test_a_row_whose_range_breaks_its_limit_is_called_tight(mix: FleetMix) -> None:
    strict = mix.services[0].model_copy(update={"objectives": {"tpot.p95": 0.03}})
    page = text(mix.model_copy(update={"services": [strict]}))
    assert "tight: holds as planned, breaks its limit at the high end of its range" in page
    loose = mix.services[0].model_copy(update={"objectives": {"tpot.p95": 9.0}})
    assert "tight" not in text(mix.model_copy(update={"services": [loose]}))


def test_a_binding_quota_says_what_more_of_it_saves(mix: FleetMix) -> None:
    bound = BindingLimit(name="aws:H100=2", most=2, more=1, usd_per_hour_with_more=(mix.usd_per_hour or 0) - 1.5)
    page = text(mix.model_copy(update={"binding": [bound]}))
    assert "aws:H100=2 is used up (2): 1 more would save $1.50/h" in page


def test_shares_stand_beside_what_was_asked_with_what_they_cost(mix: FleetMix) -> None:
    update = {
        "asked_shares": {"aws": 0.6, "gcp": 0.4},
        "cloud_shares": {"aws": 0.65, "gcp": 0.35},
        "usd_per_hour_free": (mix.usd_per_hour or 0) - 2.0,
    }
    page = text(mix.model_copy(update=update))
    assert "within one machine of the cloud" in page
    assert "the shares cost $2.00/h more" in page
    free = text(mix.model_copy(update={**update, "usd_per_hour_free": mix.usd_per_hour}))
    assert "the shares cost nothing more" in free


def test_reasons_stand_beside_their_services(mix: FleetMix) -> None:
    assert "because of" not in text(mix)
    pinned = mix.services[0].model_copy(update={"reason": "compliance", "clouds": ["aws"]})
    page = text(mix.model_copy(update={"services": [pinned]}))
    assert "because of" in page
    assert "compliance" in page


def test_without_the_solver_the_page_warns_and_names_the_command(mix: FleetMix) -> None:
    page = text(mix.model_copy(update={"is_greedy": True, "least_usd_per_hour": None}))
    assert "Warning: OR-Tools is not installed" in page
    assert "gpu-fleet-optimizer[solve]" in page


def test_what_gives_way_is_told_in_its_unit() -> None:
    assert given_way_line(GivenWay(name="H100=8", limit=8, needed=12)) == "quota H100=8 from 8 to 12"
    assert given_way_line(GivenWay(name="budget", limit=0.5, needed=4.58)) == "budget from $0.50/h to $4.58/h"
    spot = GivenWay(name="spot share", is_share=True, limit=0.0, needed=1.0)
    assert given_way_line(spot) == "spot share from 0% to 100%"
    assert given_way_line(GivenWay(name="x", limit=1, needed=2)) == "quota x from 1 to 2"


def test_where_no_mix_keeps_all_limits_there_are_no_machines_on_the_page() -> None:
    none = plan_mix(CHAT, budget_usd_per_hour=0.5)
    page = text(none)
    assert page.startswith("No mix keeps all limits.")
    assert "budget from $0.50/h to $" in page
    assert "What to rent" not in page


def test_rows_have_letters_beyond_the_alphabet() -> None:
    assert [letter(at) for at in (0, 25, 26)] == ["A", "Z", "AA"]
