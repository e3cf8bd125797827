"""A quota of GPUs bounds all machine types that hold them: of one plan, of several models, of a job."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from gpufleet.api import BatchRequest, ServeRequest, plan_batch, plan_serve
from gpufleet.api.fleets import plan_fleet
from gpufleet.api.plan_changes import explain_plan
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.own_terms import GPU_QUOTA_COLUMNS, QUOTA_COLUMNS
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.offer import PriceKind
from gpufleet.errors import UsageError
from gpufleet.report.fleet_plan import fleet_page
from gpufleet.report.formats import as_json
from gpufleet.report.text import page_as_text
from gpufleet.results.fleet import FleetPlan
from gpufleet.units import HOUR

pytestmark = pytest.mark.usefixtures("rows_alone")

TODAY = date(2026, 11, 21)
CHAT = ServeRequest(
    "llama-3.1-8b", 300.0, 800, 200, "tpot.p95<40ms", clouds=("aws",), gpus=("H100",), regions=("us-east-1",)
)
LARGE = replace(
    CHAT, model="llama-3.3-70b", rate=15.0, input_tokens=1000, output_tokens=300, slo="tpot.p95<40ms,ttft.p95<1s"
)


def within(directory: Path, *rows: str) -> Catalog:
    """The shipped tables under these quotas; every folder is read once."""
    folder = directory / f"{len(list(directory.iterdir()))}"
    folder.mkdir()
    text = "\n".join([",".join(GPU_QUOTA_COLUMNS), *rows, ""])
    (folder / "gpu_quotas.csv").write_text(text, encoding="utf-8")
    return load_catalog(folder, TODAY)


def gpus_used(fleet: FleetPlan) -> float:
    tenants = {tenant.plan for s in fleet.shared for tenant in s.tenants}
    own = [plan.answer for index, plan in enumerate(fleet.plans) if index not in tenants]
    return sum(d.instance_count * d.gpus_per_instance for d in (*own, *fleet.shared))


@pytest.mark.slow
def test_machine_types_of_one_gpu_share_its_quota_in_the_plan_of_several_models(tmp_path: Path) -> None:
    free = gpus_used(plan_fleet([CHAT, LARGE]))
    quota = int(free) + 8
    roomy = plan_fleet([CHAT, LARGE], catalog=within(tmp_path, f"aws,us-east-1,H100,all,{quota}"))
    assert roomy.is_feasible
    assert gpus_used(roomy) <= quota
    none = plan_fleet([CHAT, LARGE], catalog=within(tmp_path, "aws,us-east-1,H100,all,16"))
    assert all(plan.deployments for plan in none.plans), "each alone is within the quota"
    assert not none.is_feasible
    [missing] = none.missing
    assert (missing.gpu_quota, missing.can_be_had) == ("aws us-east-1 H100-SXM", 16)
    assert missing.needed > 16
    assert f"{missing.needed} GPUs, the quota is 16: aws us-east-1 H100-SXM" in page_as_text(fleet_page(none), 200)


@pytest.mark.slow
def test_no_row_of_a_plan_and_no_two_offers_together_take_more(tmp_path: Path) -> None:
    for quota in (8, 20, 40):
        plan = plan_serve(LARGE, within(tmp_path, f"aws,us-east-1,H100,all,{quota}"))
        rows = [d.instance_count * d.gpus_per_instance for d in plan.deployments]
        parts = [part.deployment for part in plan.mix.parts] if plan.mix else []
        rows += [sum(d.instance_count * d.gpus_per_instance for d in parts)] if parts else []
        assert all(gpus <= quota for gpus in rows)
        assert bool(rows) == (quota > 8)


def test_a_job_keeps_to_it(tmp_path: Path) -> None:
    job = BatchRequest("llama-3.1-8b", 3e6, 1000, 200, HOUR, clouds=("aws",), gpus=("H100",), regions=("us-east-1",))
    most = max(d.instance_count * d.gpus_per_instance for d in plan_batch(job).deployments)
    plan = plan_batch(job, within(tmp_path, "aws,us-east-1,H100,all,8"))
    assert most > 8
    assert all(d.instance_count * d.gpus_per_instance <= 8 for d in plan.deployments)


def test_all_is_each_region_and_each_price_kind_that_is_named_has_its_own(tmp_path: Path) -> None:
    catalog = within(tmp_path, "aws,all,H100,on_demand,16", "aws,us-east-1,h100 sxm,all,40")
    quotas = {
        (o.region, o.price_kind): {q.name: q.max_gpus for q in o.gpu_quotas}
        for o in catalog.offers
        if (o.cloud, o.instance) == ("aws", "p5.48xlarge")
    }
    both = {"aws us-east-1 H100-SXM, on demand": 16, "aws us-east-1 H100-SXM": 40}
    assert quotas["us-east-1", PriceKind.ON_DEMAND] == both
    assert quotas["us-east-1", PriceKind.SPOT] == {"aws us-east-1 H100-SXM": 40}
    others = {region for region, kind in quotas if kind is PriceKind.ON_DEMAND} - {"us-east-1"}
    assert all(quotas[region, PriceKind.ON_DEMAND] == {f"aws {region} H100-SXM, on demand": 16} for region in others)
    [p5] = {o.most_instances for o in catalog.offers if o.instance == "p5.48xlarge" and o.price_kind == "on_demand"}
    assert p5 == 2


def test_the_smaller_of_two_rows_counts_and_a_quota_of_machines_beside(tmp_path: Path) -> None:
    machines = ",".join(QUOTA_COLUMNS) + "\naws,all,p5.48xlarge,all,1\n"
    gpus = ",".join(GPU_QUOTA_COLUMNS) + "\naws,us-east-1,H100,all,40\naws,us-east-1,H100,all,12\n"
    for name, text in (("quotas", machines), ("gpu_quotas", gpus)):
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")
    catalog = load_catalog(tmp_path, TODAY)
    most = {o.instance: o.most_instances for o in catalog.offers if o.region == "us-east-1" and o.cloud == "aws"}
    assert (most["p5.4xlarge"], most["p5.48xlarge"], most["g6e.xlarge"]) == (12, 1, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("aws,us-east-1,H1000,all,16", "no price matches"),
        ("aws,us-east-1,all,all,16", "a row for each"),
        ("aws,us-east-9,H100,all,16", "regions with a price of it: "),
        ("aws,us-east-1,H100,all,", "a number of GPUs"),
        ("aws,us-east-1,H100,sometimes,4", "price_kind"),
    ],
)
def test_a_row_that_speaks_of_nothing_is_refused(tmp_path: Path, row: str, said: str) -> None:
    with pytest.raises(UsageError, match=r"gpu_quotas\.csv line 2") as caught:
        within(tmp_path, row)
    assert said in str(caught.value)


def test_a_gpu_among_the_machine_types_is_told_where_it_belongs(tmp_path: Path) -> None:
    (tmp_path / "quotas.csv").write_text(",".join(QUOTA_COLUMNS) + "\naws,us-east-1,H100,all,16\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"a row of gpu_quotas\.csv"):
        load_catalog(tmp_path, TODAY)


@pytest.mark.slow
def test_the_hash_and_the_explained_plan_know_the_quota(tmp_path: Path) -> None:
    small = [replace(CHAT, rate=30.0), replace(LARGE, rate=3.0)]
    market = within(tmp_path, "aws,us-east-1,H100,all,16")
    fleet = plan_fleet(small, catalog=market)
    assert fleet.input_hash != plan_fleet(small).input_hash
    path = tmp_path.parent / "fleet.json"
    path.write_text(as_json(fleet), encoding="utf-8")
    changes = explain_plan(path, market)
    assert changes.stands
    tighter = explain_plan(path, within(tmp_path, "aws,us-east-1,H100,all,4"))
    moved = {(q.instance, q.was, q.now) for model in tighter.models for q in model.quota_changes}
    assert {("p5.4xlarge", 16, 4), ("p5.48xlarge", 2, 0)} <= moved


# --- what more of it would bring --------------------------------------------------------------------------------------

BUSY = ServeRequest("llama-3.1-8b", 300.0, 800, 200, "tpot.p95<40ms", clouds=("aws",))


def held_to(directory: Path, machines: int) -> Catalog:
    rows = f"{','.join(QUOTA_COLUMNS)}\naws,all,p5.4xlarge,all,{machines}\n"
    (directory / "quotas.csv").write_text(rows, encoding="utf-8")
    return load_catalog(directory, TODAY)


@pytest.mark.slow
@pytest.mark.parametrize("machines", [0, 6])
def test_why_not_says_how_many_are_needed_how_many_there_are_and_what_they_cost(tmp_path: Path, machines: int) -> None:
    free = plan_serve(BUSY).answer
    assert free.instance == "p5.4xlarge"
    [refused] = plan_serve(BUSY, held_to(tmp_path, machines)).why_not("p5.4xlarge").refused
    assert refused.candidate == f"{free.instance_count}x aws p5.4xlarge"
    had = machines or "none"
    assert refused.detail == f"{had} available; {free.instance_count} would cost ${free.usd_per_hour:,.2f}/h"


@pytest.mark.slow
@pytest.mark.parametrize("machines", [0, 6])
def test_the_quota_that_flips_the_choice_does(tmp_path: Path, machines: int) -> None:
    free = plan_serve(BUSY).answer
    [flip, *_] = [f for f in plan_serve(BUSY, held_to(tmp_path, machines)).what_flips() if f.unit == "machines"]
    assert (flip.of, flip.now, flip.value) == ("aws p5.4xlarge", machines, free.instance_count)
    assert flip.winner is not None
    assert flip.winner.usd_per_hour == pytest.approx(free.usd_per_hour)
    assert (flip.change_ratio is None) == (machines == 0)
    for more, wins in ((free.instance_count - 1, False), (free.instance_count, True)):
        folder = tmp_path / f"{more}"
        folder.mkdir()
        assert (plan_serve(BUSY, held_to(folder, more)).answer.instance == "p5.4xlarge") == wins


@pytest.mark.slow
def test_without_quotas_none_flips_anything() -> None:
    assert not [f for f in plan_serve(BUSY).what_flips() if f.unit == "machines"]
