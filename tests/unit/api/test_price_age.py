"""Prices that are too old end the question, and the answer can be had as of an earlier day."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import pytest

from gpufleet.api.plans import plan_serve
from gpufleet.catalog.load import load_catalog
from gpufleet.cli import main
from gpufleet.errors import DataMissing
from gpufleet.questions.fields import ServeRequest
from gpufleet.units import DAY

ASKED = ServeRequest("llama-3.1-8b", 5.0, 1000, 200, "tpot.p95<50ms", clouds=["azure"], today=date(2026, 11, 21))
PLAN = ["plan", "serve", "llama-3.1-8b", "--rate", "5/s", "--in", "1000", "--out", "200"]


def test_prices_of_the_last_day_allowed_pass_and_a_day_later_they_do_not() -> None:
    days = (date(2026, 11, 21) - date(2026, 6, 18)).days
    assert plan_serve(replace(ASKED, max_price_age_s=days * DAY)).is_feasible
    with pytest.raises(DataMissing, match=r"azure 2026-06-18 \(156 days\).*2026-06-19 or later.*catalog update"):
        plan_serve(replace(ASKED, max_price_age_s=(days - 1) * DAY))


def test_one_old_price_among_fresh_ones_ends_the_question() -> None:
    tables = load_catalog()
    fresh = tuple(replace(o, as_of=date(2026, 11, 20)) for o in tables.offers if o.cloud == "azure")
    today = replace(ASKED, max_price_age_s=2 * DAY)
    assert plan_serve(today, replace(tables, offers=fresh)).is_feasible
    stale = next(n for n, o in enumerate(fresh) if o.price_kind.value == "on_demand")
    mixed = (*fresh[:stale], replace(fresh[stale], as_of=date(2026, 11, 18)), *fresh[stale + 1 :])
    with pytest.raises(DataMissing, match=r"^1 of the "):
        plan_serve(today, replace(tables, offers=mixed))


def test_an_age_beyond_all_calendars_refuses_nothing() -> None:
    assert plan_serve(replace(ASKED, max_price_age_s=1e12 * DAY)).is_feasible


def test_old_prices_are_exit_code_5(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PLAN, "--max-age", "1d"]) == 5
    assert "older than 1 days" in capsys.readouterr().err


@pytest.mark.parametrize(("age", "said"), [("90", "a duration"), ("5s", "dated by the day"), ("-3d", "positive")])
def test_an_age_is_a_duration_in_days(capsys: pytest.CaptureFixture[str], age: str, said: str) -> None:
    assert main([*PLAN, "--max-age", age]) == 2
    assert said in capsys.readouterr().err


def test_as_of_a_day_only_prices_known_then_count(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PLAN, "--as-of", "2026-06-01", "--clouds", "azure"]) == 5
    assert "No on_demand price of azure is dated up to 2026-06-01" in capsys.readouterr().err
    assert main([*PLAN, "--as-of", "2026-06-18", "--clouds", "azure"]) == 0


def test_the_age_of_a_price_is_counted_to_the_day_that_is_asked_about() -> None:
    day = str(date(2026, 6, 18) + timedelta(days=5))
    assert main([*PLAN, "--as-of", day, "--clouds", "azure", "--max-age", "6d"]) == 0


def test_a_day_that_is_none_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PLAN, "--as-of", "yesterday"]) == 2
    assert "a day such as 2026-11-21" in capsys.readouterr().err
