"""From what a replica gets done to machines, interruptions and money."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.unit.performance.handmade_curves import curves_of

from gpufleet.api.configured import configured
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.engine_eras import load_engine
from gpufleet.catalog.interruptions import load_interruptions
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.confidence import EXPECTED
from gpufleet.domain.interruption import Spread
from gpufleet.domain.offer import PriceKind
from gpufleet.domain.workload import Workload
from gpufleet.optimize.copies.decoder import generation_rates
from gpufleet.optimize.copies.protocol import WorkRates
from gpufleet.optimize.job import MOST_MACHINES, Job, JobPlacement, machine_choices, work_s
from gpufleet.optimize.market import effective_price
from gpufleet.performance.load_curves import load_curves
from gpufleet.performance.serving import Lengths, full_queue
from gpufleet.performance.step import StepModel
from gpufleet.pricing.spot import elapsed_work_s, interruptions_per_hour, paid_work_s
from gpufleet.units import DAY, HOUR

BATCH = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
RATES = WorkRates(BATCH, np.array([[1.0, 1.8, 3.0, 4.0, 4.0], [1.0, 1.5, 0.0, 0.0, 0.0]]), 10)
FIRST = np.array([0])


def time_of(requests: float, longest_ratio: float = 1.0) -> float:
    return float(work_s(RATES, FIRST, np.array([[requests]]), longest_ratio)[0, 0])


def test_the_best_batch_is_the_smallest_that_gets_most_done() -> None:
    assert RATES.best_batch.tolist() == [8.0, 2.0]
    assert RATES.best_per_s.tolist() == [4.0, 1.5]


def test_full_waves_take_a_wave_each_and_the_rest_its_own_time() -> None:
    """8 requests at 4/s take 2 s; 4 more at 3/s another 4/3 s."""
    assert time_of(80) == pytest.approx(20.0)
    assert time_of(84) == pytest.approx(20.0 + 4 / 3)
    assert time_of(1) == pytest.approx(1.0)


def test_the_last_wave_waits_for_the_longest_answer() -> None:
    assert time_of(80, longest_ratio=3.0) == pytest.approx(20.0 + 2 * 2.0)
    assert time_of(4, longest_ratio=3.0) == pytest.approx(3 * 4 / 3)


@pytest.mark.parametrize("longest_ratio", [1.0, 2.5])
def test_more_requests_never_take_less(longest_ratio: float) -> None:
    times = [time_of(n, longest_ratio) for n in range(1, 60)]
    assert times == sorted(times)


def test_a_batch_that_memory_does_not_hold_gets_nothing_done() -> None:
    curves = curves_of(BATCH, np.ones((1, 5)), np.ones((1, 5)), largest_batch=np.array([8.0]))
    assert generation_rates(curves, 0.0).requests_per_s.tolist() == [[1, 1, 1, 1, 0]]
    assert generation_rates(curves, 1.0).requests_per_s.tolist() == [[1, 1, 1, 0, 0]]


def test_every_number_of_machines_is_tried_or_one_2_percent_above() -> None:
    tried = machine_choices(MOST_MACHINES)
    assert tried[0] == 1
    assert tried[-1] == MOST_MACHINES
    assert ((np.diff(tried) <= 1) | (tried[1:] / tried[:-1] < 1.025)).all()
    assert set(machine_choices(300)) <= set(tried)


def test_machines_that_are_never_taken_away_start_and_work() -> None:
    assert paid_work_s(3600.0, 0.0, 600.0, 30.0) == elapsed_work_s(3600.0, 0.0, 600.0, 30.0, 1e9) == 4200.0


def test_a_wait_delays_and_is_not_paid() -> None:
    paid, done = (paid_work_s(3600.0, 1 / 3600, 600.0, 30.0), elapsed_work_s(3600.0, 1 / 3600, 600.0, 30.0, 900.0))
    assert done - paid == pytest.approx(900.0)


BANDS = ("<5%", "5-10%", "10-15%", "15-20%", ">20%")


def test_the_bands_of_the_advisor_follow_each_other() -> None:
    bands = [load_interruptions().per_hour(band) for band in BANDS]
    assert [b.expected for b in bands] == sorted(b.expected for b in bands)
    assert [b.low for b in bands[1:]] == [interruptions_per_hour(share) for share in (0.05, 0.1, 0.15, 0.2)]


def test_a_band_says_not_how_long_its_machines_ran_so_that_a_day_each_is_the_high_end() -> None:
    band = load_interruptions().per_hour("10-15%")
    assert band.expected == pytest.approx(-math.log(1 - 0.125) / 730)
    assert band.high == pytest.approx(-math.log(1 - 0.15) / 24)


def test_what_no_cloud_publishes_is_a_prior_between_a_months_band_and_an_hours_trace() -> None:
    """AWS's lowest band, 5 to 15 % a day of Google's preemptible VMs, and 0.447 an hour of traces of 2022-2023."""
    table = load_interruptions()
    unknown, worst = table.per_hour(None), table.per_hour(">20%")
    assert unknown.low == pytest.approx(table.per_hour("<5%").expected, rel=0.01)
    assert unknown.expected == pytest.approx(-math.log(1 - 0.1) / 24, rel=0.01)
    assert unknown.high == worst.high == 0.447
    assert worst.expected < unknown.expected < worst.high
    assert table.per_hour("a band of tomorrow") == unknown
    assert (table.source_of("5-10%"), table.source_of(None)) == ("aws-spot-advisor", "gcp-preemption-rates")
    assert set(table.sources) <= set(load_catalog().sources)


def test_a_fifth_of_the_machines_a_month_is_one_interruption_in_4_5_months() -> None:
    assert 1 / (interruptions_per_hour(0.2) * 730) == pytest.approx(4.48, abs=0.01)


def test_a_spread_out_of_order_is_refused_at_birth() -> None:
    with pytest.raises(ValueError, match="out of order"):
        Spread(0.2, 0.1, 0.3)


@pytest.mark.parametrize("requests", [30, 100, 777, 5000])
def test_a_queue_that_ends_takes_what_the_serving_equations_say(requests: int) -> None:
    """The same replica by `performance.serving.full_queue`, which knows the last wave too."""
    arch = shipped_architecture("llama-3.1-8b")
    model = one_replica(arch)
    asked, calibration = Workload(1000.0, 200.0), calibration_of(load_catalog())
    curves = load_curves(arch, model.candidates, calibration, asked, np.array([150.0]))
    rates = generation_rates(curves, 0.0)
    took = float(work_s(rates, FIRST, np.array([[float(requests)]]), 1.0)[0, 0])
    queue = full_queue(model, rates.best_batch, Lengths(1000.0, 200.0), float(requests))
    assert took == pytest.approx(requests / float(queue.requests_per_s[0]), rel=0.03)


def one_replica(arch: Architecture) -> StepModel:
    """Llama 3.1 8B in bf16 on one H100 with vLLM."""
    read = load_catalog(), arch, "H100", load_engine("vllm"), (1, None, 1, None, 1), None, None, None
    return StepModel.build(arch, configured(*read).candidates, calibration_of(load_catalog()))


def test_an_interruption_costs_a_start_a_wait_and_on_average_half_of_a_wave() -> None:
    """Half an interruption an hour over two hours of work; what is in flight is anywhere between its begin and end."""
    catalog = load_catalog()
    offer = next(offer for offer in catalog.offers if offer.price_kind is PriceKind.SPOT)
    never = Spread(0.0, 0.0, 0.0)
    job = JobPlacement(
        catalog.instance_of(offer), offer, 0, 3, 3, 100.0, 2 * HOUR, 300.0, never, never, held_s=DAY, slow_ratio=1.0
    )
    lost_s = float(np.mean(np.linspace(0.0, job.wave_s, 1001)))
    calm, often = (job.used_s(600.0, job.work_s, per_hour) for per_hour in (0.0, 0.5))
    assert (calm, often - calm) == (600.0 + job.work_s, pytest.approx(600.0 + lost_s))
    waited_s = job.elapsed_s(600.0, job.work_s, 0.5, wait_s=900.0)
    assert waited_s - often == pytest.approx(900.0)
    planned = Job(1.0, DAY, 600.0, 0.2, 1.0, 10, math.inf, None, EXPECTED)
    assert replace(job, slow_ratio=1.5).planned_s(planned, 1000.0) == pytest.approx(600.0 + 1000.0 * 1.5)
    assert job.usd(job.paid_s(600.0, job.work_s, 0.5)) == pytest.approx(3 * effective_price(offer) * often / HOUR)
