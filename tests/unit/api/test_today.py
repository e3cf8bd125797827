"""What runs today beside a plan: shrink, grow, replace or keep, each from figures that are derived again here."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import pytest

from gpufleet.api import ServeRequest, explain_plan, plan_serve
from gpufleet.api.answers import ServeAnswer
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.schema import OFFER_COLUMNS
from gpufleet.domain.offer import PriceKind
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.errors import DataMissing, UnknownName, UsageError
from gpufleet.inputs.plan_file import read_plan
from gpufleet.report.formats import as_json
from gpufleet.report.plan import plan_page, plan_rows_page
from gpufleet.report.plan_changes import changes_page
from gpufleet.report.text import page_as_text
from gpufleet.report.today import verdict_line
from gpufleet.results.plan import Deployment
from gpufleet.results.plan_changes import PlanChanges
from gpufleet.results.today import Today

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
HOURS_PER_MONTH = 730
CHAT = ServeRequest(
    "llama-3.3-70b", 45.0, TokenCounts(1000.0), TokenCounts(300.0), "ttft.p95<500ms,tpot.p95<40ms", confidence=0.5
)


@lru_cache(maxsize=32)
def planned(fleet: str, **words: object) -> ServeAnswer:
    return plan_serve(replace(CHAT, fleet_today=fleet, **words))  # type: ignore[arg-type]


def judged(fleet: str, **words: object) -> Today:
    today = planned(fleet, **words).today
    assert today is not None
    return today


def alone_on(machine: str, usd: float, **words: object) -> Deployment:
    """What a plan takes where nothing but one machine type is on sale."""
    tables = load_catalog()
    cloud, name = machine.split(":")
    offers = [o for o in tables.offers if (o.cloud, o.instance, o.price_kind) == (cloud, name, PriceKind.ON_DEMAND)]
    one = replace(offers[0], price_per_instance_usd_per_hour=usd)
    return plan_serve(replace(CHAT, **words), replace(tables, offers=(one,))).answer  # type: ignore[arg-type]


def list_usd_per_hour(cloud: str, name: str) -> float:
    """The cheapest on-demand price of the tables."""
    return min(
        o.price_per_instance_usd_per_hour
        for o in load_catalog().offers
        if (o.cloud, o.instance, o.price_kind) == (cloud, name, PriceKind.ON_DEMAND)
    )


def said(plan: ServeAnswer) -> str:
    return " ".join(page_as_text(plan_page(plan), 80).split())


def test_too_many_machines_shrink_to_what_a_plan_of_them_alone_takes() -> None:
    """Nine machines at a good price where five do: four are idle, and four prices are saved."""
    plan, today = planned("9 aws:p5.48xlarge@20/machine/h"), judged("9 aws:p5.48xlarge@20/machine/h")
    needed = alone_on("aws:p5.48xlarge", 20.0).instance_count
    assert today.machines[0].needed_count == needed < 9
    assert (today.step, today.is_close, today.serves) == ("shrink", False, True)
    assert today.usd_per_hour == pytest.approx(9 * 20)
    assert today.saving_usd_per_month is not None
    assert today.saving_usd_per_month.value == pytest.approx((9 - needed) * 20 * HOURS_PER_MONTH)
    assert today.saving_ratio == pytest.approx((9 - needed) / 9)
    assert today.idle_count == 9 - needed
    assert f"Shrink to {needed} of 9 machines: saves" in said(plan)
    assert f"{needed} of 9; {9 - needed} idle and can be shut down" in said(plan)


def test_what_remains_after_shrinking_is_kept() -> None:
    """The verdict is stable: follow it, ask again, and nothing is left to do."""
    needed = judged("9 aws:p5.48xlarge@20/machine/h").machines[0].needed_count
    again = judged(f"{needed} aws:p5.48xlarge@20/machine/h")
    assert (again.step, again.serves, again.idle_count) == ("keep", True, 0)
    one_less = judged(f"{(needed or 0) - 1} aws:p5.48xlarge@20/machine/h")
    assert (one_less.step, one_less.serves) == ("grow", False)
    assert one_less.machines[0].needed_count == needed


@pytest.mark.slow
def test_a_saving_that_the_slow_end_takes_back_is_too_close_to_call() -> None:
    """One machine too many as expected; at the slow end of the range it is needed."""
    needed = alone_on("aws:p5.48xlarge", 20.0, rate=49.5).instance_count
    slow = alone_on("aws:p5.48xlarge", 20.0, rate=49.5, confidence=0.9).instance_count
    assert slow > needed
    today = judged(f"{slow} aws:p5.48xlarge@20/machine/h", rate=49.5)
    assert today.needed_machines is not None
    assert (today.needed_machines.value, today.needed_machines.high) == (needed, slow)
    assert (today.step, today.is_close) == ("shrink", True)
    assert said(planned(f"{slow} aws:p5.48xlarge@20/machine/h", rate=49.5)).count("Too close to call") >= 1
    assert today.saving_usd_per_month is not None
    assert today.saving_usd_per_month.low == pytest.approx(0.0)


def test_too_few_machines_grow_by_what_is_missing() -> None:
    today = judged("2 aws:p5.48xlarge@20/machine/h")
    needed = alone_on("aws:p5.48xlarge", 20.0).instance_count
    assert (today.step, today.is_close, today.serves) == ("grow", False, False)
    assert today.machines[0].needed_count == needed
    assert today.saving_usd_per_month is not None
    assert today.saving_usd_per_month.value == pytest.approx((2 - needed) * 20 * HOURS_PER_MONTH)
    service = today.machines[0].service
    assert service is not None
    assert (service.load_ratio > 1, service.latency) == (True, {})
    assert "queues grow without end at this rate" in said(planned("2 aws:p5.48xlarge@20/machine/h"))


@pytest.mark.slow
def test_dear_machines_are_replaced_and_the_saving_is_bill_less_bill() -> None:
    plan, today = planned("9 aws:p5.48xlarge@98.32/h"), judged("9 aws:p5.48xlarge@98.32/h")
    answer = plan.answer
    price = list_usd_per_hour(answer.cloud, answer.instance)
    assert today.step == "replace"
    assert today.usd_per_hour == pytest.approx(9 * 98.32)
    assert today.saving_usd_per_month is not None
    exact = (9 * 98.32 - answer.instance_count * price) * HOURS_PER_MONTH
    assert today.saving_usd_per_month.value == pytest.approx(exact)
    slow = alone_on(f"{answer.cloud}:{answer.instance}", price, confidence=0.9)
    assert today.saving_usd_per_month.low == pytest.approx((9 * 98.32 - slow.usd_per_hour) * HOURS_PER_MONTH)
    assert f"Replace by {answer.instance_count}x {answer.cloud}" in said(plan)


def test_without_a_price_the_list_price_of_the_cheapest_region_counts_and_is_dated() -> None:
    plan, today = planned("9 aws:p5.48xlarge"), judged("9 aws:p5.48xlarge")
    price = today.machines[0].price
    assert price.usd_per_hour == pytest.approx(list_usd_per_hour("aws", "p5.48xlarge"))
    assert (price.origin, price.source in {s.id for s in plan.price_sources}) == ("list", True)
    assert f"list price on demand in {price.region} ({price.source}, {price.as_of})" in said(plan)


OWN_P5 = "aws,us-east-1,p5.48xlarge,{kind},0,{usd},observed,your-tables,2026-10-01,\n"


def test_without_a_price_ones_own_contract_goes_before_the_list(tmp_path: Path) -> None:
    (tmp_path / "offers").mkdir()
    rows = [OWN_P5.format(kind=kind, usd=usd) for kind, usd in (("commit_1y", 40.0), ("spot", 20.0))]
    (tmp_path / "offers" / "own.csv").write_text("".join([",".join(OFFER_COLUMNS) + "\n", *rows]), encoding="utf-8")
    plan = plan_serve(replace(CHAT, fleet_today="9 aws:p5.48xlarge"), load_catalog(tmp_path))
    assert plan.today is not None
    assert plan.today.usd_per_hour == pytest.approx(9 * 40.0)
    assert "$40.00/h, your own price, commit 1y in us-east-1 (your-tables, 2026-10-01)" in said(plan)


def test_without_a_price_that_of_the_regions_asked_for_counts() -> None:
    """The same machine costs more in one region than in another; where it has no price the cheapest is named."""
    machine = "azure:Standard_ND96isr_H100_v5"
    prices = {o.region: o.price_per_instance_usd_per_hour for o in load_catalog().offers
              if (o.cloud, o.instance, o.price_kind) == (*machine.split(":"), PriceKind.ON_DEMAND)}  # fmt: skip
    dear = max(prices, key=prices.__getitem__)
    assert prices[dear] > min(prices.values())
    [there] = judged(f"9 {machine}", regions=(dear,)).machines
    assert (there.price.region, there.price.usd_per_hour) == (dear, pytest.approx(prices[dear]))
    [away] = judged("9 aws:p5.48xlarge", regions=("eu-west-1",)).machines
    assert away.price.region == "us-east-1"


@pytest.mark.slow
def test_what_is_paid_beyond_the_list_is_said() -> None:
    """$98.32 was the price of a p5.48xlarge once; $55.04 is known here: 1.8 times."""
    told = said(planned("9 aws:p5.48xlarge@98.32/h"))
    assert "you pay 1.8x the list price known here: $55.04/h on demand in us-east-1 (" in told
    assert "the list price known here" in said(planned("9 aws:p5.48xlarge, 600,000/mo"))
    assert "the list price known here" not in said(planned("9 aws:p5.48xlarge@60/h"))


def test_a_list_price_that_is_too_old_ends_the_question() -> None:
    """The plan's own price is newer: it is that of today's machines which is refused."""
    tables = load_catalog()
    old = [
        o.as_of
        for o in tables.offers
        if (o.cloud, o.instance, o.price_kind.value) == ("aws", "p5.48xlarge", "on_demand")
    ]
    asked = replace(CHAT, clouds=["gcp"], max_price_age_s=10 * 86_400.0, today=max(old) + timedelta(days=20))
    fresh = [replace(o, as_of=max(old) + timedelta(days=15)) if o.cloud == "gcp" else o for o in tables.offers]
    tables = replace(tables, offers=tuple(fresh))
    assert plan_serve(asked, tables).deployments
    with pytest.raises(DataMissing, match="older than"):
        plan_serve(replace(asked, fleet_today="3 aws:p5.48xlarge"), tables)


def test_an_unknown_price_is_never_nothing() -> None:
    """Machines of an unknown provider: the need is told, a saving is not."""
    plan, today = planned("9 H100:8"), judged("9 H100:8")
    assert (today.usd_per_hour, today.usd_per_month, today.saving_usd_per_month) == (None, None, None)
    assert today.machines[0].price.origin == "unknown"
    assert today.step == "shrink"
    assert "what it saves is unknown" in said(plan)
    assert "no saving is shown" in said(plan)


@pytest.mark.slow
def test_a_bill_stands_for_prices() -> None:
    by_bill, by_price = judged("9 aws:p5.48xlarge, 131,400/mo"), judged("9 aws:p5.48xlarge@20/machine/h")
    assert by_bill.usd_per_hour == pytest.approx(by_price.usd_per_hour)
    assert by_bill.saving_usd_per_month == by_price.saving_usd_per_month
    assert by_bill.bill_origin == "bill"


def test_what_moving_saves_leads_where_a_bill_of_several_types_hides_what_fewer_save() -> None:
    """A bill says what all machines cost together, so what the plan saves is known and what shrinking saves is not."""
    fleet = "9 aws:p5.48xlarge + 2 gcp:a2-highgpu-8g, 900,000/mo"
    plan, today = planned(fleet), judged(fleet)
    assert (today.step, today.own_saving_usd_per_month) == ("replace", None)
    assert today.saving_usd_per_month is not None
    assert today.saving_usd_per_month.value == pytest.approx(900_000 - plan.answer.usd_per_hour * HOURS_PER_MONTH)
    assert "would be enough too; the saving is unknown" in verdict_line(plan, today)
    assert "unknown until each type has its price" in verdict_line(plan, today)


@pytest.mark.slow
def test_a_bill_less_the_prices_that_are_stated_is_the_rest() -> None:
    today = judged("9 aws:p5.48xlarge@98/h + 2 gcp:a2-highgpu-8g, 700,000/mo")
    rest = (700_000 / HOURS_PER_MONTH - 9 * 98) / 2
    assert [m.price.usd_per_hour for m in today.machines] == pytest.approx([98, rest])
    assert [m.price.origin for m in today.machines] == ["stated", "bill"]
    with pytest.raises(UsageError, match="leave nothing of the bill"):
        judged("9 aws:p5.48xlarge@98/h + 2 gcp:a2-highgpu-8g, 500,000/mo")


def test_of_several_types_the_dear_one_is_given_back() -> None:
    today = judged("5 H100:8@20/machine/h + 3 H200:8@60/h")
    assert [m.idle_count for m in today.machines] == [0, 3]
    assert today.step == "shrink"
    assert today.saving_usd_per_month is not None
    assert today.saving_usd_per_month.value == pytest.approx(3 * 60 * HOURS_PER_MONTH)
    rates = [m.service.requests_per_s for m in today.machines if m.service]
    assert sum(rates) == pytest.approx(CHAT.rate)


def test_one_type_bought_in_two_ways_gives_back_the_dearer() -> None:
    today = judged("5 aws:p5.48xlarge@20/machine/h, 3 aws:p5.48xlarge@55.04/h")
    assert [m.idle_count for m in today.machines] == [0, 3]


def test_machines_that_cannot_serve_say_what_they_lack() -> None:
    """The reasons of --why-not, and no number of them helps."""
    plan, today = planned("2 aws:g6e.48xlarge"), judged("2 aws:g6e.48xlarge")
    [machines] = today.machines
    assert (today.step, today.serves, machines.needed_count, machines.service) == ("replace", False, None, None)
    other = {(r.candidate, r.reason, r.detail) for r in plan.why_not("aws:g6e.48xlarge").refused}
    assert {(r.candidate, r.reason, r.detail) for r in machines.refused} == other
    assert "Today's fleet does not serve this" in said(plan)
    assert today.saving_usd_per_month is not None
    assert today.saving_usd_per_month.value < 0
    assert f"${-today.saving_usd_per_month.value:,.0f}/mo more than today" in said(plan)


@pytest.mark.parametrize(("count", "step"), [(5, "keep"), (8, "shrink")])
def test_nobody_moves_to_the_machines_that_run_but_their_lower_list_price_is_said(count: int, step: str) -> None:
    asked = replace(CHAT, fleet_today=f"{count} aws:p5.48xlarge@98.32/h", gpus=["H100"], clouds=["aws"])
    plan, listed = plan_serve(asked), list_usd_per_hour("aws", "p5.48xlarge")
    assert plan.today is not None
    assert (plan.answer.instance, plan.answer.instance_count, plan.today.step) == ("p5.48xlarge", 5, step)
    assert plan.today.saving_usd_per_month is not None
    assert plan.today.saving_usd_per_month.value == pytest.approx((count - 5) * 98.32 * HOURS_PER_MONTH)
    all_saved = (count * 98.32 - 5 * listed) * HOURS_PER_MONTH
    words = said(plan)
    assert f"You pay $98.32/h for one aws p5.48xlarge; its list price is ${listed:.2f}/h in us-east-1" in words
    assert f"5 machines would save ${all_saved:,.0f}/mo" in words
    assert "Replace" not in words


def test_a_machine_that_is_priced_as_listed_has_no_line_on_its_price() -> None:
    plan = plan_serve(replace(CHAT, fleet_today="7 aws:p5.48xlarge", gpus=["H100"], clouds=["aws"]))
    assert "You pay" not in said(plan)


@pytest.mark.slow
def test_a_cheaper_plan_that_may_turn_out_dearer_leaves_the_fleet_as_it_is() -> None:
    """A bill a little above the plan's: cheaper as expected, dearer at the slow end."""
    answer = plan_serve(CHAT).answer
    needed = alone_on("aws:p5.48xlarge", 20.0).instance_count
    fleet = f"{needed} aws:p5.48xlarge, {answer.usd_per_hour * 1.02:.2f}/h"
    plan, today = planned(fleet), judged(fleet)
    assert (today.step, today.is_close) == ("keep", True)
    assert verdict_line(plan, today).startswith("Too close to call: ")
    assert today.plan_saving_usd_per_month is not None
    low, value = today.plan_saving_usd_per_month.low, today.plan_saving_usd_per_month.value
    assert low is not None
    assert low < 0 < value


@pytest.mark.slow
def test_machines_alone_are_judged_where_nothing_is_on_offer() -> None:
    """GPUs that serve and that no cloud asked for sells: keep them; exit code 3 stays the plan's own."""
    slo = {"slo": "ttft.p95<500ms,tpot.p95<12ms", "rate": 1.0, "gpus": ["L4"]}
    plan = plan_serve(replace(CHAT, fleet_today="1 H200:8@30/h", **slo))  # type: ignore[arg-type]
    assert plan.today is not None
    assert (plan.is_feasible, plan.today.step, plan.today.serves) == (False, "keep", True)
    assert "Nothing on offer serves this" in said(plan)
    neither = plan_serve(replace(CHAT, fleet_today="1 L4:8@5/machine/h", **slo))  # type: ignore[arg-type]
    assert neither.today is not None
    assert neither.today.step == "nothing fits"
    assert "Nothing fits: neither" in said(neither)


def test_two_offers_together_as_the_answer_have_a_bill_and_no_known_range() -> None:
    """Quotas leave no offer enough machines alone; the pair has a bill, and nobody says how sure that is."""
    tables = load_catalog(EXAMPLES / "tables" / "quotas-of-two")
    asked = ServeRequest("llama-3.3-70b", 30.0, 1000, 300, "ttft.p95<1s,tpot.p95<50ms", clouds=["azure"],
                         gpus=["MI300X", "H100-NVL"], fleet_today="9 aws:p5.48xlarge@98.32/h")  # fmt: skip
    plan = plan_serve(asked, tables)
    assert plan.today is not None
    assert plan.mix is not None
    assert plan.today.plan_usd_per_month is not None
    assert plan.today.plan_usd_per_month.value == pytest.approx(plan.mix.usd_per_month)
    assert (plan.today.plan_usd_per_month.low, plan.today.plan_usd_per_month.high) == (None, None)
    assert plan.today.step == "shrink"
    assert "two offers together" in said(plan)


@pytest.mark.slow
def test_headroom_alone_may_be_missing() -> None:
    """More than the rate and less than what was wanted beyond it: the fleet grows, and says so."""
    slack = judged("4 aws:p5.48xlarge@20/machine/h").headroom_ratio or 0.0
    rate = CHAT.rate * (1 + slack) / 1.1
    today, plan = (ask("4 aws:p5.48xlarge@20/machine/h", rate=rate) for ask in (judged, planned))
    assert (today.step, today.serves) == ("grow", False)
    assert today.headroom_ratio == pytest.approx(0.1)
    assert today.is_close or "with 10% headroom of 20% wanted" in said(plan)


@pytest.mark.slow
def test_a_verdict_is_written_and_read_again_and_explained(tmp_path: Path) -> None:
    for fleet in ("9 aws:p5.48xlarge@20/machine/h", "5 H100:8 + 3 H200:8, 100,000/mo", "2 aws:g6e.48xlarge"):
        path = tmp_path / "plan.json"
        path.write_text(as_json(planned(fleet)))
        read = read_plan(path)
        assert as_json(read) == path.read_text()
        changes = explain_plan(read)
        assert isinstance(changes, PlanChanges)
        assert changes.is_reproduced
        assert changes.was_today == changes.now_today == judged(fleet)
        assert f"still {judged(fleet).step}" in page_as_text(changes_page(changes), 80).replace("\n", " ")


def test_an_unlimited_need_survives_the_file(tmp_path: Path) -> None:
    """Where no number of machines is enough at the slow end, the high end is unlimited, in JSON too."""
    tight = plan_serve(replace(CHAT, slo="tpot.p95<12ms", rate=2.0, fleet_today="9 aws:p5.48xlarge@20/machine/h"))
    assert tight.today is not None
    assert tight.today.needed_machines is not None
    assert tight.today.needed_machines.high == math.inf
    assert tight.today.is_close
    path = tmp_path / "plan.json"
    path.write_text(as_json(tight))
    assert as_json(read_plan(path)) == path.read_text()
    assert "no number of them is enough" in said(tight)


def test_every_row_of_the_ranking_says_what_it_saves() -> None:
    plan, today = planned("9 aws:p5.48xlarge@20/machine/h"), judged("9 aws:p5.48xlarge@20/machine/h")
    rows = plan_rows_page(plan).tables[0].rows
    bill = today.usd_per_month or 0.0
    left = [pytest.approx(bill - d.usd_per_month) for d in plan.deployments]
    assert [row["saved_usd_per_month"] for row in rows] == left
    plain = plan_rows_page(plan.model_copy(update={"today": None})).tables[0]
    assert "saved_usd_per_month" not in {c.key for c in plain.columns}


@pytest.mark.slow
def test_more_load_never_needs_fewer_machines() -> None:
    verdicts = [judged("9 aws:p5.48xlarge@20/machine/h", rate=rate) for rate in (5.0, 50.0, 120.0)]
    needed = [today.machines[0].needed_count or 0 for today in verdicts]
    assert all(few <= many for few, many in pairwise(needed))


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        {"zones": 2}, {"spare_machines": 1}, {"off_peak_rate": 5.0, "peak_hours": 10.0},
        {"budget_usd_per_hour": 500.0}, {"max_spot": 0.0}, {"price_change": 0.1},
    ],
    ids=lambda words: next(iter(words)),
)  # fmt: skip
def test_what_a_verdict_does_not_know_yet_is_refused(words: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="cannot be combined with these yet"):
        plan_serve(replace(CHAT, fleet_today="3 H100:8", **words))  # type: ignore[arg-type]


NAMES = {
    "3 aws:p5.49xlarge": (UnknownName, "p5.48xlarge"),
    "3 H1O0:8": (UnknownName, "unknown"),
    "3 H100": (UsageError, "'3 H100:8' for machines of 8 GPUs"),
    "3 H100:16": (UsageError, "at most 8 GPUs"),
    "3 gcp:n1-standard-8": (UnknownName, "unknown"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fleet", NAMES)
def test_names_that_mean_no_machine_are_refused(fleet: str) -> None:
    error, told = NAMES[fleet]
    with pytest.raises(error) as refused:
        plan_serve(replace(CHAT, fleet_today=fleet))
    assert told in str(refused.value)


@pytest.mark.slow
def test_the_price_of_one_gpu_is_not_taken_for_that_of_a_machine() -> None:
    """98.32 / 8 = 12.29: an eighth of the bill would turn every verdict."""
    with pytest.raises(UsageError, match="is that the price of one GPU") as refused:
        plan_serve(replace(CHAT, fleet_today="3 aws:p5.48xlarge@12.29/h"))
    assert "$98.32/h of a machine" in str(refused.value)
    assert judged("3 aws:p5.48xlarge@12.29/gpu/h").usd_per_hour == pytest.approx(3 * 98.32)
    assert judged("3 aws:p5.48xlarge@12.29/machine/h").usd_per_hour == pytest.approx(3 * 12.29)
    assert judged("2 H100:8@25/h").usd_per_hour == pytest.approx(50.0)


def test_the_price_of_all_machines_is_warned_of() -> None:
    told = said(planned("3 aws:p5.48xlarge@294.96/h"))
    assert re.search(r"Warning: 3 aws:p5\.48xlarge@294\.96/h is [45]\.\dx the usual price", told)


@pytest.mark.slow
def test_a_bill_that_no_saving_explains_is_refused_and_one_far_off_is_warned_of() -> None:
    """388,000 a month read as 388: five machines that cost $200,000 a month at the least."""
    with pytest.raises(
        UsageError, match=r"too low for these machines; found '\$388\.00/mo.*usually cost \$2\d\d,\d{3}/mo"
    ):
        plan_serve(replace(CHAT, fleet_today="5 aws:p5.48xlarge, 388/mo"))
    assert "Warning: the bill is 0.16x the usual price" in said(planned("5 aws:p5.48xlarge, 40000/mo"))
    assert "Warning: the bill" not in said(planned("5 aws:p5.48xlarge, 200000/mo"))


@pytest.mark.slow
def test_machines_of_ones_own_save_their_electricity_alone_and_end_with_the_rack() -> None:
    """1 kW at $0.30/kWh and a PUE of 1.2 is $0.36 an hour; what was paid for the machine is spent already."""
    tables = load_catalog(EXAMPLES / "own-tables")
    small = ServeRequest("llama-3.1-8b", 0.5, 1000, 200, clouds=("own", "aws"), fleet_today="2 own:workstation")
    plan = plan_serve(small, tables)
    assert plan.today is not None
    assert plan.today.step == "shrink"
    assert plan.today.saving_usd_per_month is not None
    assert plan.today.saving_usd_per_month.value == pytest.approx(0.36 * HOURS_PER_MONTH)
    assert "$0.36/h to run your own" in said(plan)
    assert "bill_lines.csv" in said(plan)
    busy = plan_serve(replace(small, rate=60.0, clouds=None), tables)
    assert busy.today is not None
    assert (busy.today.machines[0].needed_count, busy.today.step) == (None, "replace")
