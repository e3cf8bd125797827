"""What every offer costs at a rate, against the same question asked with other prices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpufleet.api.requests import ServeRequest
from gpufleet.api.serve_questions import architecture_of
from gpufleet.api.setups import narrowed, parse_setup
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.load import load_catalog
from gpufleet.optimize.contest import Contest, key_of
from gpufleet.optimize.serve import solve_serve

MIXED = ServeRequest("llama-3.1-8b", 40.0, 1000, 200, "tpot.p95<100ms", clouds=["aws"], max_spot=0.5)


@pytest.mark.parametrize("ratio", [0.5, 1.7])
@pytest.mark.parametrize("asked", [MIXED, replace(MIXED, max_spot=None, clouds=None)])
def test_a_dearer_type_costs_what_it_costs_where_its_prices_are_listed_so(asked: ServeRequest, ratio: float) -> None:
    """On demand it also stands beside spot machines, of which only a share may be had; all others cost the same."""
    tables = load_catalog()
    question, _ = narrowed(asked, architecture_of(asked), tables, parse_setup("L40S", tables))
    solution = solve_serve(question, calibration_of(tables))
    rates, contest = np.array([5.0, 40.0, 333.0]), Contest.of(question, solution)
    for key in {key_of(offer) for offer in contest.offers}:
        offers = tuple(o.at_price_ratio(ratio) if key_of(o) == key else o for o in question.offers)
        listed = Contest.of(replace(question, offers=offers), solution)
        there, here = (
            {
                (key_of(offer), offer.region): usd
                for offer, usd in zip(
                    x.offers, x.costs(solution.found.requests_per_s, question.demand, rates), strict=True
                )
            }
            for x in (listed, contest.at_price_ratio(key, ratio))
        )
        common = there.keys() & here.keys()
        assert key in {k for k, _ in common}
        for place in common:
            np.testing.assert_allclose(here[place], there[place])
