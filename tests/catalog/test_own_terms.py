"""What users agreed on, own, or are held to: contracts, quotas, reservations, their machines, other currencies."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from gpufleet.api.plans import plan_serve
from gpufleet.catalog.listing import list_prices
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.own_terms import BILL_COLUMNS, CONTRACT_COLUMNS, FOREIGN_COLUMNS, QUOTA_COLUMNS, RATE_COLUMNS
from gpufleet.catalog.query import OfferFilter
from gpufleet.catalog.schema import OFFER_COLUMNS
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.offer import Offer, PriceBasis, PriceKind
from gpufleet.errors import UsageError
from gpufleet.questions.fields import ServeRequest
from gpufleet.report.catalog_pages import price_page
from gpufleet.report.plan import plan_page
from gpufleet.report.text import page_as_text
from gpufleet.results.plan import ServePlan

pytestmark = pytest.mark.usefixtures("rows_alone")

TODAY = date(2026, 11, 21)
SHIPPED = load_catalog()
ASKED = ServeRequest("llama-3.1-8b", 5.0, 1000, 200, "tpot.p95<50ms")
CONTRACT = "aws,all,all,on_demand,0.1,,2026-10-01\n"
P5_CONTRACT = "aws,us-east-1,p5.48xlarge,on_demand,0.7,,2026-10-01\n"
QUOTA = "gcp,all,all,all,2\n"
RACK = """
[workstation]
accelerator = "RTX-4090"
gpu_count = 2
num_machines = 3
link_kind = "pcie"
link_gb_per_s_per_direction = 16
purchase_usd = 7000
years = 3
power_watts = 1000
electricity_usd_per_kwh = 0.3
cooling_ratio = 1.2
other_usd_per_year = 438
as_of = 2026-10-01
"""


def write(directory: Path, name: str, columns: tuple[str, ...], *lines: str) -> Path:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(",".join(columns) + "\n" + "".join(lines), encoding="utf-8")
    return directory


def prices(catalog: Catalog, **wanted: str) -> list[Offer]:
    return [o for o in catalog.offers if all(getattr(o, name) == value for name, value in wanted.items())]


def refused(directory: Path) -> str:
    with pytest.raises(UsageError) as refusal:
        load_catalog(directory, TODAY)
    return str(refusal.value)


# --- contracts -------------------------------------------------------------------------------------------------------


def test_a_contract_takes_its_share_off_every_price_that_it_names_and_leaves_the_others(tmp_path: Path) -> None:
    catalog = load_catalog(write(tmp_path, "contracts.csv", CONTRACT_COLUMNS, CONTRACT), TODAY)
    listed = {(o.cloud, o.region, o.instance, o.price_kind): o for o in SHIPPED.offers}
    for offer in catalog.offers:
        before = listed[offer.cloud, offer.region, offer.instance, offer.price_kind]
        share = 0.9 if (offer.cloud, offer.price_kind) == ("aws", PriceKind.ON_DEMAND) else 1.0
        ratio = offer.price_per_instance_usd_per_hour / before.price_per_instance_usd_per_hour
        assert ratio == pytest.approx(share)
        assert (offer.source == "your-tables") == (share < 1)


def test_the_contract_that_names_most_counts_however_deep_its_discount(tmp_path: Path) -> None:
    catalog = load_catalog(write(tmp_path, "contracts.csv", CONTRACT_COLUMNS, CONTRACT, P5_CONTRACT), TODAY)
    [p5] = prices(catalog, cloud="aws", region="us-east-1", instance="p5.48xlarge", price_kind=PriceKind.ON_DEMAND)
    assert p5.price_per_instance_usd_per_hour == pytest.approx(55.04 * 0.3)
    assert (p5.basis, p5.as_of) == (PriceBasis.OBSERVED, date(2026, 10, 1))


def test_a_negative_discount_is_a_surcharge(tmp_path: Path) -> None:
    catalog = load_catalog(write(tmp_path, "contracts.csv", CONTRACT_COLUMNS, CONTRACT.replace("0.1", "-0.2")), TODAY)
    place = {"cloud": "aws", "region": "us-east-1", "instance": "p5.48xlarge", "price_kind": PriceKind.ON_DEMAND}
    [dear], [listed] = prices(catalog, **place), prices(SHIPPED, **place)  # type: ignore[arg-type]
    assert dear.price_per_instance_usd_per_hour == pytest.approx(1.2 * listed.price_per_instance_usd_per_hour)


def test_an_own_price_is_not_discounted_again(tmp_path: Path) -> None:
    row = "aws,us-east-1,p5.48xlarge,on_demand,0,40,observed,your-tables,2026-10-01,\n"
    write(tmp_path, "offers/x.csv", OFFER_COLUMNS, row)
    catalog = load_catalog(write(tmp_path, "contracts.csv", CONTRACT_COLUMNS, CONTRACT), TODAY)
    [p5] = prices(catalog, cloud="aws", region="us-east-1", instance="p5.48xlarge", price_kind=PriceKind.ON_DEMAND)
    assert p5.price_per_instance_usd_per_hour == 40


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            (CONTRACT.replace("aws", "asw"),),
            "line 2: no price matches; found 'asw all all on_demand'; expected a known cloud. Did you mean aws",
        ),
        (
            (CONTRACT.replace("on_demand", "commit_3y"),),
            "line 2: no such price is known here; found 'aws all all commit_3y'",
        ),
        ((P5_CONTRACT.replace("us-east-1", "us-west-99"),), "expected a known region. Did you mean us-west-"),
        ((P5_CONTRACT.replace("us-east-1", "eu-west-1"),), "no such price is known here"),
        ((CONTRACT, CONTRACT.replace("0.1", "0.2")), "line 3: two discounts"),
        ((CONTRACT.replace("0.1", "10"),), "a share between 0 and 1"),
        ((CONTRACT.replace("0.1", "1"),), "a share between 0 and 1"),
        ((CONTRACT.replace("0.1", "nan"),), "cannot read discount_ratio"),
        ((CONTRACT.replace("0.1", "0"),), "cannot read discount_ratio"),
        ((CONTRACT.replace("0.1", "-20"),), "-0.2 for prices 20 % higher"),
        ((CONTRACT.replace("on_demand", "ondemand"),), "cannot read price_kind"),
    ],
)
def test_a_contract_that_says_nothing_clear_is_refused(tmp_path: Path, rows: tuple[str, ...], said: str) -> None:
    assert said in refused(write(tmp_path, "contracts.csv", CONTRACT_COLUMNS, *rows))


# --- quotas and reservations -----------------------------------------------------------------------------------------


def many(clouds: tuple[str, ...] = ("gcp",)) -> ServeRequest:
    return replace(ASKED, rate=60.0, clouds=clouds, gpus=("L4",))


def test_what_a_quota_does_not_hold_is_not_planned_and_is_said(tmp_path: Path) -> None:
    free = plan_serve(many(), SHIPPED)
    assert free.answer.instance_count > 2
    held = plan_serve(many(), load_catalog(write(tmp_path, "quotas.csv", QUOTA_COLUMNS, QUOTA), TODAY))
    assert len(held.deployments) < len(free.deployments)
    assert all(d.instance_count <= 2 for d in held.deployments)
    [reason] = [r for r in held.rejections if "quota" in r.reason]
    assert reason.count > 0
    assert free.input_hash != held.input_hash


def test_a_quota_of_none_leaves_the_other_clouds(tmp_path: Path) -> None:
    none = write(tmp_path, "quotas.csv", QUOTA_COLUMNS, "gcp,all,all,all,0\n")
    plan = plan_serve(many(("gcp", "aws")), load_catalog(none, TODAY))
    assert {d.cloud for d in plan.deployments} == {"aws"}


def test_the_smallest_of_several_quotas_counts(tmp_path: Path) -> None:
    rows = (QUOTA, "gcp,us-central1,g2-standard-4,all,7\n", "gcp,us-central1,g2-standard-4,spot,1\n")
    catalog = load_catalog(write(tmp_path, "quotas.csv", QUOTA_COLUMNS, *rows), TODAY)
    found = prices(catalog, cloud="gcp", region="us-central1", instance="g2-standard-4")
    assert {o.price_kind: o.max_instances for o in found} == {PriceKind.ON_DEMAND: 2, PriceKind.SPOT: 1}
    elsewhere = prices(catalog, cloud="aws")
    assert len(elsewhere) > 100
    assert all(o.max_instances is None for o in elsewhere)


def test_a_quota_for_what_nobody_sells_is_refused(tmp_path: Path) -> None:
    said = refused(write(tmp_path, "quotas.csv", QUOTA_COLUMNS, "gcp,us-central1,g2-standard-5,all,2\n"))
    assert "quotas.csv line 2: no price matches" in said


def test_a_reservation_wins_while_it_suffices(tmp_path: Path) -> None:
    columns = (*OFFER_COLUMNS, "max_instances")
    row = "gcp,us-east4,g2-standard-48,commit_1y,0,3.0,observed,your-tables,2026-10-01,,{}\n"
    asked = replace(many(), pricing=("on_demand", "commit_1y"))
    kinds = {}
    for held in (1, 100):
        catalog = load_catalog(write(tmp_path / str(held), "offers/x.csv", columns, row.format(held)), TODAY)
        kinds[held] = plan_serve(asked, catalog).answer.price_kind
    assert kinds == {1: "on_demand", 100: "commit_1y"}


# --- own machines ----------------------------------------------------------------------------------------------------


def rack(directory: Path, text: str = RACK) -> Path:
    (directory / "owned.toml").write_text(text, encoding="utf-8")
    return directory


def test_an_own_machine_costs_its_purchase_power_cooling_and_the_rest_by_the_hour(tmp_path: Path) -> None:
    [offer] = prices(load_catalog(rack(tmp_path), TODAY), cloud="own")
    by_hand = 7000 / (3 * 8760) + 1.0 * 1.2 * 0.3 + 438 / 8760
    assert offer.price_per_instance_usd_per_hour == pytest.approx(by_hand)
    assert (offer.price_kind, offer.max_instances, offer.region) == (PriceKind.OWNED, 3, "home")


def test_own_machines_are_planned_beside_rented_ones_without_a_word(tmp_path: Path) -> None:
    asked = replace(ASKED, rate=1.0, clouds=("own", "aws"))
    plan = plan_serve(asked, load_catalog(rack(tmp_path), TODAY))
    assert (plan.answer.cloud, plan.answer.instance, plan.answer.price_kind) == ("own", "workstation", "owned")
    assert {i.name: i.value for i in plan.inputs}["price kinds"] == "on_demand, owned"


def test_of_three_machines_four_cannot_be_planned(tmp_path: Path) -> None:
    plan = plan_serve(replace(ASKED, min_replicas=7), load_catalog(rack(tmp_path), TODAY))
    assert plan.deployments
    assert all(d.cloud != "own" for d in plan.deployments)
    [rack_full] = [r for r in plan.rejections if "rack" in r.reason]
    assert rack_full.best.startswith("4x own workstation: 3 available; 4 would cost $")


@pytest.mark.parametrize(
    ("line", "instead", "said"),
    [
        ('accelerator = "RTX-4090"', 'accelerator = "RTX-4091"', "no accelerator 'RTX-4091'"),
        ("purchase_usd = 7000\n", "", "purchase_usd is missing"),
        ("purchase_usd = 7000", "purchase_usd = nan", "cannot read purchase_usd"),
        ("years = 3", "years = 0", "cannot read years"),
        ("years = 3\n", "", "cannot read years"),
        ("years = 3", "years = 3\npurchased = 2026-11-22", "purchased lies in the future"),
        ("years = 3", "years = 3\npurchased = 2026", "cannot read purchased"),
        ("electricity_usd_per_kwh = 0.3\n", "", "electricity_usd_per_kwh is missing"),
        ("cooling_ratio = 1.2", "cooling_ratio = 0.2", "the PUE"),
        ('link_kind = "pcie"\n', "", "link_kind does not suit 2 GPUs"),
        ("link_gb_per_s_per_direction = 16\n", "", "link_gb_per_s_per_direction is missing"),
        ("power_watts", "power_wats", "Did you mean power_watts"),
        ("as_of = 2026-10-01", "as_of = 2027-10-01", "'not in the future'"),
    ],
)
def test_an_own_machine_that_is_not_clear_is_named(tmp_path: Path, line: str, instead: str, said: str) -> None:
    assert said in refused(rack(tmp_path, RACK.replace(line, instead)))


def own_offer(directory: Path, old: str, new: str, today: date = TODAY) -> Offer:
    directory.mkdir(exist_ok=True)
    [offer] = prices(load_catalog(rack(directory, RACK.replace(old, new)), today), cloud="own")
    return offer


def test_a_purchase_that_is_spent_is_stated_as_nothing_and_electricity_is_left(tmp_path: Path) -> None:
    offer = own_offer(tmp_path, "purchase_usd = 7000\nyears = 3", "purchase_usd = 0")
    assert offer.price_per_instance_usd_per_hour == pytest.approx(1.0 * 1.2 * 0.3 + 438 / 8760)


def test_a_machine_that_costs_nothing_at_all_is_refused(tmp_path: Path) -> None:
    free = RACK.replace("7000", "0").replace("per_kwh = 0.3", "per_kwh = 0").replace("other_usd_per_year = 438\n", "")
    assert "a machine that costs nothing cannot be ranked" in refused(rack(tmp_path, free))


def test_after_its_years_a_machine_is_written_off_and_before_it_costs_the_same_each_hour(tmp_path: Path) -> None:
    said = "years = 3\npurchased = 2024-06-01"
    new, old, done = (
        own_offer(tmp_path / str(at), "years = 3", said, at).price_per_instance_usd_per_hour
        for at in (date(2026, 10, 2), date(2027, 5, 30), date(2027, 6, 2))
    )
    assert new == pytest.approx(old)
    assert new - done == pytest.approx(7000 / (3 * 8760))


def test_a_plan_of_own_machines_shows_running_beside_full_cost_and_their_stated_power(tmp_path: Path) -> None:
    plan = plan_serve(replace(ASKED, rate=1.0, min_replicas=3, gpus=["RTX-4090"]), load_catalog(rack(tmp_path), TODAY))
    d = plan.answer
    assert (d.instance, d.instance_count) == ("workstation", 2)
    assert d.running_usd_per_hour == pytest.approx(2 * 1.0 * 1.2 * 0.3)
    assert d.running_usd_per_hour < d.usd_per_hour
    kwh = d.energy.kwh_per_hour
    assert kwh.value == pytest.approx(2 * 1.0 * 1.2)
    assert kwh.value * 0.3 == pytest.approx(d.running_usd_per_hour)
    text = page_as_text(plan_page(plan, explain=True), 200)
    assert "2 machines x 1,000 W x 1.2 (PUE)" in text
    assert "without hosts and cooling" not in text
    assert "$0.72/h of the $1.35/h is electricity" in text


def test_rented_machines_have_no_running_cost_of_their_own() -> None:
    assert plan_serve(ASKED, SHIPPED).answer.running_usd_per_hour is None


# --- the rest of the bill --------------------------------------------------------------------------------------------

BILL = (
    "disk,all,all,500,instance,GiB,0.08,\n",
    "load balancer,all,all,1,service,balancer,16.43,\n",
    "egress,all,all,2,million_requests,GB,0.09,\n",
    "CPU nodes,nebius,all,2,service,node,140,\n",
)


def billed(tmp_path: Path) -> ServePlan:
    catalog = load_catalog(write(tmp_path, "bill_lines.csv", BILL_COLUMNS, *BILL), TODAY)
    return plan_serve(replace(ASKED, clouds=("gcp",)), catalog)


def test_stated_lines_are_added_up_beside_the_ranking(tmp_path: Path) -> None:
    plan = billed(tmp_path)
    costs = {cost.line: cost.usd_per_month for cost in plan.rest_of_bill}
    requests_a_month = 5.0 * 3600 * 730
    assert costs == pytest.approx(
        {
            "disk": 500 * 0.08 * plan.answer.instance_count,
            "load balancer": 16.43,
            "egress": 2 * 0.09 * requests_a_month / 1e6,
        }
    )
    assert plan.answer.usd_per_hour == plan_serve(replace(ASKED, clouds=("gcp",)), SHIPPED).answer.usd_per_hour


def test_the_page_shows_the_whole_bill_only_where_lines_are_stated(tmp_path: Path) -> None:
    assert "The whole bill" in page_as_text(plan_page(billed(tmp_path)), 80)
    assert "The whole bill" not in page_as_text(plan_page(plan_serve(replace(ASKED, clouds=("gcp",)), SHIPPED)), 80)


@pytest.mark.parametrize(("cell", "said"), [("nan", "cannot read"), ("-1", "cannot read"), ("free", "cannot read")])
def test_a_line_without_a_sound_price_is_refused(tmp_path: Path, cell: str, said: str) -> None:
    assert said in refused(write(tmp_path, "bill_lines.csv", BILL_COLUMNS, f"disk,all,all,5,instance,GiB,{cell},\n"))


# --- currencies ------------------------------------------------------------------------------------------------------

EURO = "aws,eu-west-1,p5.48xlarge,on_demand,0,60,EUR,observed,your-tables,2026-10-01,\n"
RATE = "EUR,1.1,,2026-09-01\n"


def test_euros_without_a_rate_never_stand_beside_dollars(tmp_path: Path) -> None:
    catalog = load_catalog(write(tmp_path, "foreign_offers/x.csv", FOREIGN_COLUMNS, EURO), TODAY)
    assert prices(catalog, region="eu-west-1", instance="p5.48xlarge", price_kind=PriceKind.ON_DEMAND) == []
    assert [o.price_per_instance_per_hour for o in catalog.foreign_offers if o.currency == "EUR"] == [60]


def test_a_price_in_euros_may_leave_out_its_source(tmp_path: Path) -> None:
    write(tmp_path, "exchange_rates.csv", RATE_COLUMNS, RATE)
    sourceless = EURO.replace("your-tables", "")
    catalog = load_catalog(write(tmp_path, "foreign_offers/x.csv", FOREIGN_COLUMNS, sourceless), TODAY)
    [offer] = prices(catalog, region="eu-west-1", instance="p5.48xlarge", price_kind=PriceKind.ON_DEMAND)
    assert (offer.source, offer.currency) == ("your-tables", "EUR")


def test_a_column_under_the_name_of_another_table_is_told_its_own(tmp_path: Path) -> None:
    columns = tuple("upfront_usd" if column == "upfront" else column for column in FOREIGN_COLUMNS)
    assert "upfront_usd is called upfront here" in refused(write(tmp_path, "foreign_offers/x.csv", columns, EURO))


def test_the_mark_of_an_estimate_says_how_it_was_estimated(tmp_path: Path) -> None:
    write(rack(tmp_path), "exchange_rates.csv", RATE_COLUMNS, RATE)
    catalog = load_catalog(write(tmp_path, "foreign_offers/x.csv", FOREIGN_COLUMNS, EURO), TODAY)
    legends = {
        cloud: page_as_text(price_page(list_prices(catalog, OfferFilter(**wanted)), None, show_unpriced=False), 300)
        for cloud, wanted in {
            "own": {"clouds": {"own"}},
            "euro": {"clouds": {"aws"}, "regions": {"eu-west-1"}, "price_kinds": {PriceKind.ON_DEMAND}},
            "spot": {"clouds": {"aws"}, "price_kinds": {PriceKind.SPOT}},
        }.items()
    }
    assert "'~' is an estimate: what you stated of your own machines, by the hour." in legends["own"]
    assert "'~' is an estimate: a price in EUR at your exchange rate." in legends["euro"]
    assert "'~' is an estimate: on-demand less the average spot saving." in legends["spot"]


def test_euros_at_a_stated_rate_are_an_estimate_as_old_as_the_older_of_both(tmp_path: Path) -> None:
    write(tmp_path, "exchange_rates.csv", RATE_COLUMNS, RATE)
    catalog = load_catalog(write(tmp_path, "foreign_offers/x.csv", FOREIGN_COLUMNS, EURO), TODAY)
    [offer] = prices(catalog, region="eu-west-1", instance="p5.48xlarge", price_kind=PriceKind.ON_DEMAND)
    assert offer.price_per_instance_usd_per_hour == pytest.approx(66)
    assert (offer.basis, offer.as_of) == (PriceBasis.ESTIMATED, date(2026, 9, 1))


def test_a_currency_among_dollar_prices_is_refused(tmp_path: Path) -> None:
    row = "aws,us-east-1,p5.48xlarge,on_demand,0,40,observed,your-tables,2026-10-01,,EUR\n"
    said = refused(write(tmp_path, "offers/x.csv", (*OFFER_COLUMNS, "currency"), row))
    assert "cannot read currency; found 'EUR'; expected USD; other currencies go into foreign_offers/" in said


def test_dollars_among_foreign_prices_are_refused(tmp_path: Path) -> None:
    said = refused(write(tmp_path, "foreign_offers/x.csv", FOREIGN_COLUMNS, EURO.replace("EUR", "usd")))
    assert "dollars stand in offers/" in said
