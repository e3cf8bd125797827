"""Figures of a job on machines of one offer: when it is done and what it costs, with ranges and words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpufleet.domain.arrays import FloatArray
from gpufleet.optimize.batch import Job, JobPlacement, machine_choices
from gpufleet.optimize.size import effective_price
from gpufleet.pricing.effective_price import usd_per_month
from gpufleet.pricing.spot import reclaimed_per_month_ratio
from gpufleet.provenance import Source
from gpufleet.results.base import Figure
from gpufleet.results.job import RentedJob
from gpufleet.results.plan import PriceSource
from gpufleet.results.rented import machines_of
from gpufleet.units import HOUR, KILO

ONE_MACHINE, DEADLINE, STARTUP = "one machine is enough", "the deadline", "starting machines"


@dataclass(frozen=True, eq=False)
class JobRanges:
    """A job of `requests` requests, and how far each candidate's time may lie from what is expected."""

    job: Job
    requests: float
    low_ratio: FloatArray
    high_ratio: FloatArray
    grades: Sequence[str]


def rented_job(ranges: JobRanges, p: JobPlacement) -> dict[str, Any]:
    """What every deployment of a job says of machines, price, finish and cost."""
    offer, used, paid, finish = p.offer, used_s(ranges, p), paid_s(ranges, p), finish_s(ranges, p)
    return {
        **machines_of(offer, p.instance, p.machines),
        "usd_per_hour": p.machines * effective_price(offer),
        "replicas": p.replicas,
        "requests_per_replica": p.requests_per_replica,
        "wave_s": p.wave_s,
        "work_s": p.work_s,
        "finish_s": finish,
        "used_s": used,
        "paid_s": paid,
        "usd": in_usd(p, paid, 1.0),
        "running_usd": p.running_usd(used.value),
        "usd_per_month": usd_per_month_of(p.usd(paid.value), ranges.job),
        "usd_per_thousand_requests": in_usd(p, paid, ranges.requests / KILO),
        "reclaimed_per_month_ratio": reclaimed_per_month_ratio(p.per_hour.expected),
        "interruptions": p.machines * p.per_hour.expected * p.work_s / HOUR,
        "repeated_ratio": 1 - (ranges.job.startup_s + p.work_s) / used.value,
        "binding_limit": what_binds(ranges.job, p),
        "is_tight": (finish.high or finish.value) > ranges.job.deadline_s,
        "grade": ranges.grades[p.row],
    }


def usd_per_month_of(usd: float, job: Job) -> float | None:
    """What a month of jobs costs; None where the job runs once."""
    return None if job.period_s is None else float(usd_per_month(usd / (job.period_s / HOUR)))


def used_s(ranges: JobRanges, p: JobPlacement) -> Figure:
    """What each machine runs: fast and rarely interrupted, as expected, slow and often interrupted."""
    return over_speeds(ranges, p, p.used_s)


def paid_s(ranges: JobRanges, p: JobPlacement) -> Figure:
    """What each machine is paid for, over the same speeds."""
    return over_speeds(ranges, p, p.paid_s)


def over_speeds(ranges: JobRanges, p: JobPlacement, time_s: Callable[[float, float, float], float]) -> Figure:
    """A time at the fastest and the fewest interruptions, as expected, and at the slowest and the most."""
    startup, row = ranges.job.startup_s, p.row
    low = time_s(startup, p.work_s * float(ranges.low_ratio[row]), p.per_hour.low)
    high = time_s(startup, p.work_s * float(ranges.high_ratio[row]), p.per_hour.high)
    return seconds(ranges, row, low, time_s(startup, p.work_s, p.per_hour.expected), high)


def finish_s(ranges: JobRanges, p: JobPlacement) -> Figure:
    """When all is done, the waits for other machines included."""
    startup, row = ranges.job.startup_s, p.row
    low = p.elapsed_s(startup, p.work_s * float(ranges.low_ratio[row]), p.per_hour.low, p.wait_s.low)
    high = p.elapsed_s(startup, p.work_s * float(ranges.high_ratio[row]), p.per_hour.high, p.wait_s.high)
    expected = p.elapsed_s(startup, p.work_s, p.per_hour.expected, p.wait_s.expected)
    return seconds(ranges, row, low, expected, high)


def seconds(ranges: JobRanges, row: int, low: float, expected: float, high: float) -> Figure:
    """A time with its range."""
    return Figure(value=expected, unit="s", low=low, high=high, grade=ranges.grades[row])


def in_usd(p: JobPlacement, paid: Figure, units: float) -> Figure:
    """What a unit of the job costs."""
    low, high = (p.usd(end if end is not None else paid.value) / units for end in (paid.low, paid.high))
    return Figure(value=p.usd(paid.value) / units, unit="USD", low=low, high=high, grade=paid.grade)


def rate_figure(ranges: JobRanges, row: int, expected: float) -> Figure:
    """A rate moves against the time that it is made of."""
    return Figure(
        value=expected,
        unit="1/s",
        low=expected / float(ranges.high_ratio[row]),
        high=expected / float(ranges.low_ratio[row]),
        grade=ranges.grades[row],
    )


def what_binds(job: Job, p: JobPlacement) -> str:
    """Why not fewer machines: one fewer would be late, or it is one already; else starting them costs least so."""
    if p.machines == 1:
        return ONE_MACHINE
    fewer = p.work_s * p.machines / next_fewer(p.machines) * (1 + job.headroom_ratio)
    late = p.elapsed_s(job.startup_s, fewer, p.per_hour.expected, p.wait_s.expected) > job.deadline_s
    return DEADLINE if late else STARTUP


def next_fewer(machines: int) -> float:
    """The next smaller number of machines that was tried."""
    return float(machine_choices(machines)[-2])


def job_sources(deployments: Iterable[RentedJob], sources: Mapping[str, Source]) -> list[PriceSource]:
    """Each source and date that a shown price comes from, once."""
    used = sorted({(d.price_source, d.price_as_of) for d in deployments})
    return [PriceSource(id=id_, title=sources[id_].title, as_of=day) for id_, day in used]
