"""Answers in another currency, at a rate that the user states: all of the money in it, none of it mixed."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from tests.conftest import REPOSITORY, RunGpufleet

from gpufleet.domain.currency import Currency
from gpufleet.report.money import in_words, page_in_shown_currency
from gpufleet.report.numbers import roughly, show_money_in, usd, usd_per_hour, usd_per_month
from gpufleet.report.page import Page

LOAD = ("--rate", "5/s", "--in", "1000", "--out", "200")
SERVE = ("plan", "serve", "llama-3.1-8b", *LOAD, "--clouds", "aws,gcp")
BATCH = ("plan", "batch", "llama-3.1-8b", "--requests", "1M", "--in", "1000", "--out", "200", "--deadline", "24h",
         "--clouds", "aws,gcp")  # fmt: skip
ENCODER = ("plan", "serve", "bert-base-uncased", "--rate", "500/s", "--in", "100")
ENCODER_BATCH = ("plan", "batch", "bert-base-uncased", "--requests", "1M", "--in", "100", "--deadline", "24h",
                 "--clouds", "aws,gcp")  # fmt: skip
COMPARE = ("compare", "L4", "L40S", "--model", "llama-3.1-8b", *LOAD)
CATALOG = ("catalog", "prices", "--gpu", "H100", "--limit", "3")
EVERY = {
    "serve": (*SERVE, "--explain", "--flips", "--pareto", "--why-not", "H100:8", "--budget", "500/d"),
    "spot": (*SERVE, "--pricing", "on_demand,spot", "--max-spot", "50%", "--show", "rejected"),
    "too little money": (*SERVE, "--budget", "0.1/h"),
    "batch": (*BATCH, "--explain", "--budget", "500"),
    "encoder": (*ENCODER, "--explain"),
    "encoder batch": (*ENCODER_BATCH, "--explain"),
    "compare": COMPARE,
    "catalog": CATALOG,
    "gpus": ("catalog", "gpus", "--gpu", "H100"),
    "instances": ("catalog", "instances", "--gpu", "H100"),
    "regions": ("catalog", "regions", "--gpu", "H100"),
    "several models": ("plan", "serve", "--workload", str(REPOSITORY / "examples" / "three-models.yaml")),
}
EURO = ("--currency", "EUR@0.92")


pytestmark = pytest.mark.usefixtures("planned_once")


def amounts(page: str, pattern: str) -> list[float]:
    return [float(text.replace(",", "")) for text in re.findall(pattern, page)]


@pytest.mark.parametrize("words", EVERY.values(), ids=EVERY)
def test_no_dollar_is_left_and_the_rate_is_said(words: tuple[str, ...], ask_gpufleet: RunGpufleet) -> None:
    done, plain = ask_gpufleet(*words, *EURO), ask_gpufleet(*words)
    assert done.returncode == plain.returncode in (0, 3), done.stderr
    assert "$" in plain.stdout
    assert "$" not in done.stdout
    said = " ".join(done.stdout.split())
    assert "Money is in EUR at 0.92 EUR per USD, as you state; prices are held in USD." in said
    assert "USD" not in said.replace("EUR per USD, as you state; prices are held in USD.", "")


@pytest.mark.parametrize("words", [SERVE, BATCH, CATALOG], ids=["serve", "batch", "catalog"])
def test_the_first_amount_of_a_page_is_that_in_dollars_at_the_rate(
    words: tuple[str, ...], ask_gpufleet: RunGpufleet
) -> None:
    dollars = amounts(ask_gpufleet(*words).stdout, r"\$([\d,]+\.\d\d)\b")
    euros = amounts(ask_gpufleet(*words, *EURO).stdout, r"([\d,]+\.\d\d) EUR")
    assert euros[0] == pytest.approx(0.92 * dollars[0], abs=0.0101)


def test_json_stays_in_dollars_and_names_the_currency(ask_gpufleet: RunGpufleet) -> None:
    """Fields say usd, and a plan in another currency has the hash of the same plan in dollars."""
    plain, shown = (json.loads(ask_gpufleet(*SERVE, *words, "-o", "json").stdout) for words in ((), EURO))
    assert shown.pop("currency") == {"code": "EUR", "per_usd": 0.92}
    assert shown == plain


def test_csv_names_its_columns_after_the_currency(ask_gpufleet: RunGpufleet) -> None:
    plain, shown = (
        next(csv.DictReader(StringIO(ask_gpufleet(*SERVE, *words, "-o", "csv").stdout))) for words in ((), EURO)
    )
    assert not [key for key in shown if "usd" in key.replace("eur_per_usd", "")]
    assert float(shown["eur_per_usd"]) == 0.92
    for key in ("usd_per_hour", "usd_per_month", "usd_per_million_output_tokens", "price_per_instance_usd_per_hour"):
        assert float(shown[key.replace("usd", "eur")]) == pytest.approx(0.92 * float(plain[key]))


def test_a_plan_in_another_currency_can_be_explained(ask_gpufleet: RunGpufleet, tmp_path: Path) -> None:
    assert ask_gpufleet(*SERVE, *EURO, "--out-file", "plan.json").returncode == 0
    done = ask_gpufleet("explain", "plan.json", "--check", *EURO)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "$" not in done.stdout


def test_a_picture_and_the_page_around_it_are_in_the_currency_too(ask_gpufleet: RunGpufleet, tmp_path: Path) -> None:
    ask_gpufleet(*SERVE, *EURO, "--picture", "front.svg")
    ask_gpufleet(*SERVE, *EURO, "--out-file", "page.html")
    for name in ("front.svg", "page.html"):
        shown = (tmp_path / name).read_text(encoding="utf-8")
        assert "EUR per hour" in shown
        assert "$" not in shown


@pytest.mark.parametrize("said", ["20 EUR/h", "EUR 20/h", "20EUR/h", "€20/h"])
def test_a_budget_may_be_typed_in_the_currency(said: str, ask_gpufleet: RunGpufleet) -> None:
    typed = ask_gpufleet(*SERVE, *EURO, "--budget", said, "-o", "json")
    budget = next(i for i in json.loads(typed.stdout)["inputs"] if i["name"] == "budget")
    assert budget["value"] == "$21.74/h"
    assert "20.00 EUR/h" in ask_gpufleet(*SERVE, *EURO, "--budget", said, "--explain").stdout


def test_a_bare_budget_is_in_dollars_as_ever(ask_gpufleet: RunGpufleet) -> None:
    typed = ask_gpufleet(*SERVE, *EURO, "--budget", "20/h", "-o", "json")
    budget = next(i for i in json.loads(typed.stdout)["inputs"] if i["name"] == "budget")
    assert budget["value"] == "$20.00/h"


def test_a_token_price_may_be_typed_in_the_currency(ask_gpufleet: RunGpufleet) -> None:
    """46 cents of an euro are 50 cents of a dollar."""
    done = ask_gpufleet(*SERVE, *EURO, "--token-price", "0.46/0.92 EUR", "-o", "json")
    even = json.loads(done.stdout)["break_even"]
    assert even["usd_per_million_input_tokens"] == pytest.approx(0.5)
    assert even["usd_per_million_output_tokens"] == pytest.approx(1.0)


def test_flag_before_file_before_preference(ask_gpufleet: RunGpufleet, tmp_path: Path) -> None:
    (tmp_path / "asked.yaml").write_text("currency: CHF@0.80\n")
    preferred = ask_gpufleet(*SERVE, GPUFLEET_CURRENCY="GBP@0.75").stdout
    written = ask_gpufleet(*SERVE, "--workload", "asked.yaml", GPUFLEET_CURRENCY="GBP@0.75").stdout
    typed = ask_gpufleet(*SERVE, "--workload", "asked.yaml", *EURO, GPUFLEET_CURRENCY="GBP@0.75").stdout
    back = ask_gpufleet(*SERVE, "--currency", "USD", GPUFLEET_CURRENCY="GBP@0.75").stdout
    assert ["GBP/h" in preferred, "CHF/h" in written, "EUR/h" in typed, "$" in back] == [True] * 4


@pytest.mark.parametrize(
    "said",
    [
        "EUR",
        "EUR@",
        "EUR@0",
        "EUR@-1",
        "EUR@nan",
        "EUR@inf",
        "EURO@1",
        "@1",
        "USD@2",
        "EUR@0,92",
        "EUR@1@2",
        "EUR@1e300",
    ],
)
def test_what_is_no_currency_or_no_rate_is_refused_with_an_example(said: str, ask_gpufleet: RunGpufleet) -> None:
    for words in (SERVE, BATCH, COMPARE, CATALOG):
        done = ask_gpufleet(*words, "--currency", said)
        assert (done.returncode, done.stdout) == (2, "")
        assert "EUR@0.92" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("budget", ["20 EUR/h", "20 CHF/h", "EUR/h", "20 EUR EUR/h"])
def test_an_amount_in_a_currency_without_its_rate_is_refused(budget: str, ask_gpufleet: RunGpufleet) -> None:
    words = () if budget.startswith("20 EUR/h") else EURO
    done = ask_gpufleet(*SERVE, *words, "--budget", budget)
    assert (done.returncode, done.stdout) == (2, "")


@pytest.fixture
def in_yen() -> Iterator[None]:
    show_money_in(Currency("JPY", 150.0))
    yield
    show_money_in(None)


@pytest.mark.usefixtures("in_yen")
def test_a_currency_of_small_units_keeps_its_digits() -> None:
    """The rate is applied before anything is rounded: 0.4232 dollars are 63.48 yen, not 42 cents at 150."""
    assert usd(0.4232) == "63.48 JPY"
    assert usd_per_hour(-2.5) == "-375.00 JPY/h"
    assert roughly(usd_per_month, 131_225.0) == "~20,000,000 JPY/mo"
    assert in_words("at $/h: $2.50/h, -$1,000") == "at JPY/h: 375.00 JPY/h, -150,000 JPY"


def test_in_dollars_a_page_stays_what_it_is() -> None:
    page = Page("$2.50/h")
    assert page_in_shown_currency(page) is page


def test_a_rate_that_never_was_is_refused(ask_gpufleet: RunGpufleet) -> None:
    """A slip of two places would make every amount of the answer a hundred times what it is."""
    refused = ask_gpufleet(*SERVE, "--currency", "EUR@92")
    assert (refused.returncode, "not a rate of EUR" in refused.stderr) == (2, True)
    assert ask_gpufleet(*SERVE, "--currency", "JPY@150").returncode == 0


def test_the_rate_of_the_answer_and_that_of_the_price_list_agree(run_gpufleet: RunGpufleet, tmp_path: Path) -> None:
    rates = tmp_path / "exchange_rates.csv"
    rates.write_text("currency,usd_per_unit,source_id,as_of\nEUR,1.087,,2026-10-01\n", encoding="utf-8")
    asked = (*SERVE, "--catalog", str(tmp_path), "--currency")
    assert run_gpufleet(*asked, "EUR@0.92").returncode == 0
    refused = run_gpufleet(*asked, "EUR@0.80")
    assert (refused.returncode, "two rates of EUR" in refused.stderr, "EUR@0.92" in refused.stderr) == (2, True, True)
    rates.write_text("currency,usd_per_unit,source_id,as_of\nEUR,0.0092,,2026-10-01\n", encoding="utf-8")
    assert "dollars for one EUR" in run_gpufleet(*asked, "EUR@0.92").stderr
