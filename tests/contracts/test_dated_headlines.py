"""A headline rests on a price with a date; a cheaper one that nobody dates, or a missing one, is a line below it."""

from __future__ import annotations

import csv
import io
import json
import random
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from gpufleet.api.batches import BatchRequest, plan_batch
from gpufleet.api.comparisons import compare
from gpufleet.api.encoder_services import EncoderServeRequest, plan_encoder_serve
from gpufleet.api.plans import plan_serve
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.schema import OFFER_COLUMNS
from gpufleet.catalog.tables import Catalog
from gpufleet.cli import main
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.questions.fields import ServeRequest
from gpufleet.report.plan import plan_page
from gpufleet.report.text import page_as_text

CATALOG = load_catalog()
ASKED = ServeRequest("llama-3.1-8b", 20.0, 1000, 200)
SEEN = date(2026, 11, 22)


def undated_at(share: float, chosen: Offer) -> Catalog:
    """One offer at a share of its price, in a copy that nobody dates."""
    cheap = replace(chosen.at_price_ratio(share), first_seen=SEEN)
    return replace(CATALOG, offers=tuple(cheap if o is chosen else o for o in CATALOG.offers))


def offer(cloud: str, region: str, instance: str) -> Offer:
    key = (cloud, region, instance, PriceKind.ON_DEMAND)
    return next(o for o in CATALOG.offers if (o.cloud, o.region, o.instance, o.price_kind) == key)


def lines_of(plan: object) -> str:
    return " ".join(page_as_text(plan_page(plan), 200).split())  # type: ignore[arg-type]


@pytest.mark.parametrize("number", range(8))
def test_a_planted_undated_price_never_stands_in_the_headline(number: int) -> None:
    """Whichever row it is in, and however cheap: the answer stays what it was, and the page tells of it."""
    dice = random.Random(number)
    sound = plan_serve(ASKED, CATALOG)
    gpus = ("L4", "L40S", "H100-SXM", "A10G")
    rows = [o for o in CATALOG.offers if o.price_kind is PriceKind.ON_DEMAND and o.is_dated]
    rows = [o for o in rows if CATALOG.is_open(o.cloud, o.region) and o.instance != sound.answer.instance]
    whole = [o for o in rows if CATALOG.instance_of(o).gpu_count >= 1]
    wrong = dice.choice([o for o in whole if CATALOG.instance_of(o).accelerator in gpus])
    plan = plan_serve(ASKED, undated_at(1 / 100, wrong))
    assert plan.answer.price_first_seen is None
    assert plan.answer.usd_per_hour == sound.answer.usd_per_hour
    beside = plan.undated_alternative
    assert beside is not None
    assert (beside.cloud, beside.region, beside.instance) == (wrong.cloud, wrong.region, wrong.instance)
    page = lines_of(plan)
    assert page.index("Cheaper if still true: ") < page.index("Why this one")
    assert "undated copy, first seen 2026-11-22" in page


def test_a_dearer_undated_price_is_not_told() -> None:
    plan = plan_serve(ASKED, undated_at(100, offer("aws", "us-east-1", "g6e.xlarge")))
    assert plan.undated_alternative is None or plan.undated_alternative.cloud != "aws"


def test_where_nothing_is_dated_the_undated_price_answers() -> None:
    plan = plan_serve(replace(ASKED, clouds=["nebius"], gpus=["L40S"]), CATALOG)
    assert plan.answer.price_first_seen is not None
    assert plan.undated_alternative is None


def test_what_no_dated_price_serves_an_undated_one_may() -> None:
    """GPUs of Nebius and L4 of GCP: a limit that L4 cannot keep leaves the undated machines."""
    asked = replace(ASKED, slo="tpot.p95<25ms", clouds=["gcp", "nebius"], gpus=["L4", "H100"], regions=["eu-north1"])
    plan = plan_serve(asked, CATALOG)
    assert (plan.answer.cloud, plan.undated_alternative) == ("nebius", None)


def test_one_s_own_price_is_dated_enough(tmp_path: Path) -> None:
    """Even where its row names the source of an undated copy."""
    (tmp_path / "offers").mkdir()
    row = "nebius,eu-north1,gpu-h100-sxm_1gpu-16vcpu-200gb,on_demand,0,1.8,observed,nebius-price-list,2026-10-01,\n"
    (tmp_path / "offers" / "mine.csv").write_text(",".join(OFFER_COLUMNS) + "\n" + row, encoding="utf-8")
    plan = plan_serve(replace(ASKED, rows=40), load_catalog(tmp_path, date(2026, 11, 22)))
    ranked = {(d.cloud, d.gpu): d.price_per_instance_usd_per_hour for d in plan.deployments}
    assert ranked["nebius", "H100-SXM"] == 1.8


def test_jobs_and_encoders_and_comparisons_rest_on_dated_prices_too() -> None:
    cheap = undated_at(1 / 50, offer("aws", "us-east-1", "g6e.xlarge"))
    job = plan_batch(BatchRequest("llama-3.1-8b", 1e6, 1000, 200, 86_400.0, pricing=["on_demand"]), cheap)
    service = plan_encoder_serve(EncoderServeRequest("bge-base-en-v1.5", 300.0, input_tokens=128), cheap)
    for plan in (job, service):
        assert plan.deployments[0].price_first_seen is None
        assert plan.undated_alternative is not None
        assert plan.undated_alternative.instance == "g6e.xlarge"
    side = compare(ASKED, "L40S", "H100", cheap).first.deployment
    assert side is not None
    assert side.price_first_seen is None


def test_json_and_csv_say_null_for_a_day_that_nobody_knows(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "serve", "llama-3.1-8b", "--rate", "20/s", "--in", "1000", "--out", "200", "--clouds", "nebius"]
    words += ["--gpus", "L40S"]
    assert main([*words, "-o", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert rows
    assert {row["price_as_of"] for row in rows} == {""}
    assert main([*words, "-o", "json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert {(d["price_as_of"], d["price_first_seen"]) for d in plan["deployments"]} == {(None, "2026-11-21")}


def test_a_type_without_a_price_that_could_have_won_is_named_with_the_price_that_wins() -> None:
    """A3 Ultra is sold, and no table holds what it costs; a part of an A3 is not sold on demand."""
    plan = plan_serve(replace(ASKED, clouds=["gcp"], gpus=["H100", "H200"]), CATALOG)
    missing = {m.instance: m for m in plan.missing_prices}
    assert "a3-highgpu-1g" not in missing
    ultra = missing["a3-ultragpu-8g"]
    assert ultra.wins_below_usd_per_hour == plan.answer.usd_per_hour / ultra.instance_count
    assert ultra.least_known_usd_per_hour < ultra.wins_below_usd_per_hour
    page = lines_of(plan)
    assert page.index("Price unknown: ") < page.index("Why this one")
    first = plan.missing_prices[0]
    assert f"{first.instance} ({8 * first.instance_count}x {first.gpu}) wins below $88.49/h each" in page


def test_at_the_price_that_wins_it_is_the_answer() -> None:
    asked = replace(ASKED, clouds=["gcp"], gpus=["H100", "H200"])
    plan = plan_serve(asked, CATALOG)
    [ultra] = [m for m in plan.missing_prices if m.instance == "a3-ultragpu-8g"]
    like = offer("gcp", "us-central1", "a3-highgpu-8g")
    for ratio, wins in ((0.999, True), (1.001, False)):
        price = ratio * ultra.wins_below_usd_per_hour
        quoted = replace(like, instance=ultra.instance, price_per_instance_usd_per_hour=price)
        then = plan_serve(asked, replace(CATALOG, offers=(*CATALOG.offers, quoted)))
        assert (then.answer.instance == ultra.instance) is wins


def test_a_type_that_no_price_asked_for_its_gpus_would_make_win_is_not_named() -> None:
    assert plan_serve(ASKED, CATALOG).missing_prices == []


def test_a_type_that_is_priced_elsewhere_is_missing_only_where_it_is_known_to_be_sold() -> None:
    """Verda sells in Finland alone; L40S is sold in Osaka, at a price that no table holds."""
    frankfurt = plan_serve(replace(ASKED, regions=["eu-central-1"]), CATALOG)
    assert not [m for m in frankfurt.missing_prices if m.cloud != "aws"]
    osaka = plan_serve(replace(ASKED, clouds=["aws"], regions=["ap-northeast-3"]), CATALOG)
    assert {m.gpu for m in osaka.missing_prices} == {"L40S"}
