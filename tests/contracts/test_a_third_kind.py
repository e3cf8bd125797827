"""A kind of model that nobody has built yet is planned as a service and as a job by what one copy of it sustains."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from gpufleet.answers.job_plan import ANY_JOB, JobContext
from gpufleet.answers.plan_parts import Asked
from gpufleet.answers.service_plan import ANY_SERVICE, Context
from gpufleet.api.answered import answered_job, answered_service
from gpufleet.api.demands import purse_of, with_slack
from gpufleet.api.jobs import job_of
from gpufleet.api.market import market_of
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.interruptions import load_interruptions
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.domain.arrays import FloatArray, IntArray
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.instance import Instance
from gpufleet.domain.slo import Limit, Slo
from gpufleet.domain.workload import Workload
from gpufleet.optimize.copies.protocol import WorkRates
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.flips import Standing, cheap_flips
from gpufleet.optimize.job import BatchQuestion, solve_batch
from gpufleet.optimize.replicas import Rejections
from gpufleet.optimize.service import ServeQuestion, solve_serve
from gpufleet.optimize.size import LOAD, Capacity, capacity_within
from gpufleet.performance.uncertainty import Bounds
from gpufleet.provenance import Grade
from gpufleet.questions.fields import JobRequest, ServiceRequest
from gpufleet.report import job_page as job_pages
from gpufleet.report import service_page as service_pages
from gpufleet.report.text import page_as_text
from gpufleet.units import HOUR

GPUS = ("L4", "L40S", "H100-SXM")
REQUESTS_PER_S = np.array([2.0, 5.0, 20.0])


@dataclass(frozen=True)
class Painter:
    """A made-up model that paints so many pictures a second on each GPU, one after another."""

    name: str = "painter"
    num_parameters: int = 10**9
    inputs_per_request: float = 1.0

    def copies(
        self, instances: tuple[Instance, ...], demand: Demand, calibration: Calibration, rejections: Rejections
    ) -> Painters:
        return Painters(demand)


@dataclass(frozen=True)
class Curve:
    """Rates at one picture at a time, from an idle copy to a full one."""

    batch: FloatArray
    requests_per_s: FloatArray
    largest_batch: FloatArray


@dataclass(frozen=True)
class Painters:
    """One copy on each GPU: a pass takes 1 / rate, and waits as in M/M/1."""

    demand: Demand
    num_layouts: int = len(GPUS)

    def __len__(self) -> int:
        return len(GPUS)

    @property
    def num_devices(self) -> IntArray:
        return np.ones(len(GPUS), dtype=np.int64)

    @property
    def largest_batch(self) -> FloatArray:
        return np.ones(len(GPUS))

    @property
    def grades(self) -> Sequence[Grade]:
        return [Grade.TRANSFERRED] * len(GPUS)

    def on(self, instance: Instance) -> IntArray:
        return np.flatnonzero([gpu == instance.accelerator for gpu in GPUS])

    def label(self, row: int) -> str:
        return GPUS[row]

    def engine(self, row: int) -> str:
        return "brush"

    def weights(self, row: int) -> str:
        return "bf16"

    def limit_name(self, row: int, limit: str) -> str:
        return limit

    def floors_s(self, row: int) -> Mapping[str, float]:
        return {}

    def capacity(self) -> Capacity:
        load = np.linspace(0.02, 0.98, 49)
        sustained = REQUESTS_PER_S[:, None]
        objectives = {x.label: 1 / (sustained * (1 - load)) for x in self.demand.workload.slo.limits}
        strains = {x.label: objectives[x.label] / x.limit_s for x in self.demand.workload.slo.limits}
        strains[LOAD] = np.broadcast_to(load / 0.95, (len(GPUS), len(load)))
        return capacity_within(Curve(load, load * sustained, np.ones(3)), objectives, strains, REQUESTS_PER_S)

    def work_rates(self) -> WorkRates:
        return WorkRates(np.array([1.0]), REQUESTS_PER_S[:, None], len(GPUS))

    def time_ratios(self, batch: FloatArray) -> Mapping[str, Bounds]:
        return {"latency": Bounds(np.full(len(GPUS), 0.9), np.full(len(GPUS), 1.2))}


@dataclass(frozen=True)
class Service(ServiceRequest):
    """A rate of pictures."""

    model: str = "painter"


@dataclass(frozen=True)
class Job(JobRequest):
    """A number of pictures."""

    model: str = "painter"


@pytest.fixture(scope="module")
def tables() -> Catalog:
    return load_catalog()


def test_a_third_kind_is_planned_as_a_service(tables: Catalog) -> None:
    request = Service(gpus=GPUS, clouds=("aws",))
    market = market_of(request, tables)
    workload = Workload(1.0, 1.0, 30.0, Slo((Limit("latency", "mean", 0.5),)))
    question = ServeQuestion(
        Painter(), market.instances, market.offers, with_slack(request, workload), purse_of(request)
    )
    solution = solve_serve(question, calibration_of(tables))
    asked = Asked([], "hash", [], tables.sources)
    plan = answered_service(ANY_SERVICE, Context.of(question, solution), asked, request, tables)
    answer = plan.deployments[0]
    assert answer.requests_per_s_capacity.value >= 30.0 * 1.2
    assert answer.latency["latency.mean"].value < 0.5
    each = {i: solution.found.requests_per_s[GPUS.index(i.accelerator)] * i.gpu_count for i in market.instances}
    assert answer.usd_per_hour == pytest.approx(
        min(
            math.ceil(30.0 * 1.2 / each[tables.instance_of(offer)]) * offer.price_per_instance_usd_per_hour
            for offer in market.offers
            if each[tables.instance_of(offer)]
        )
    )
    page = page_as_text(service_pages.service_page(plan, service_pages.ANY_SERVICE, explain=True), 80)
    assert page.startswith("painter at 30 requests/s: ")
    assert "How it is computed" in page
    assert {flip.quantity for flip in cheap_flips(Standing.of(question, solution))} >= {"price", "rate"}


def test_a_limit_that_no_copy_keeps_is_said_with_what_it_would_have_to_be(tables: Catalog) -> None:
    request = Service(gpus=GPUS, clouds=("aws",))
    market = market_of(request, tables)
    workload = Workload(1.0, 1.0, 30.0, Slo((Limit("latency", "mean", 0.01),)))
    question = ServeQuestion(Painter(), market.instances, market.offers, with_slack(request, workload))
    context = Context.of(question, solve_serve(question, calibration_of(tables)))
    plan = answered_service(ANY_SERVICE, context, Asked([], "", [], tables.sources), request, tables)
    assert not plan.is_feasible
    [relaxation] = plan.relaxations
    assert relaxation.needed_s == pytest.approx(1 / (20.0 * 0.98))
    assert "The smallest change that helps" in page_as_text(
        service_pages.service_page(plan, service_pages.ANY_SERVICE), 80
    )


def test_a_third_kind_is_planned_as_a_job(tables: Catalog) -> None:
    request = Job(gpus=GPUS, clouds=("aws",))
    market, requests = market_of(request, tables), 1e6
    service = ServeQuestion(Painter(), market.instances, market.offers, Demand(Workload(1.0, 1.0, 1.0)))
    job = job_of(request, requests, 12 * HOUR, headroom_ratio=0.2)
    question = BatchQuestion(service, job, load_interruptions())
    context = JobContext.of(question, solve_batch(question, calibration_of(tables)))
    plan = answered_job(ANY_JOB, context, Asked([], "hash", [], tables.sources), tables)
    answer = plan.deployments[0]
    per_copy = REQUESTS_PER_S[GPUS.index(answer.gpu)]
    assert answer.work_s == pytest.approx(np.ceil(requests / answer.replicas) / per_copy)
    assert answer.finish_s.value < 12 * HOUR
    page = page_as_text(job_pages.job_page(plan, job_pages.ANY_JOB, explain=True), 80)
    assert page.startswith("1,000,000 requests of painter within 12.0 h: ")
