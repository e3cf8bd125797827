"""What a schedule must keep, checked by going from moment to moment; it shares nothing with what makes schedules."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from gpufleet.domain.schedule import Pool, Run, ScheduledJob

NEARLY = 1e-6


def violations(
    pools: Sequence[Pool],
    jobs: Sequence[ScheduledJob],
    runs: Sequence[Run],
    budget_usd: float = math.inf,
    most_pieces: int = 2,
) -> list[str]:
    """Everything that is wrong, in words."""
    by_job = {run.job: run for run in runs}
    if sorted(by_job) != sorted(job.name for job in jobs) or len(runs) != len(jobs):
        return ["not every job runs once"]
    found = [wrong for job in jobs for wrong in wrong_with(job, by_job, pools, most_pieces)]
    for pool in pools:
        here = [(job, by_job[job.name]) for job in jobs if job.ways[by_job[job.name].way].pool == pool.name]
        found += wrong_on(pool, here)
    rent = sum(usd_of(job, by_job[job.name], pools) for job in jobs)
    if rent > budget_usd + 0.001 * len(jobs):
        found.append(f"rent of {rent} over the budget of {budget_usd}")
    return found


def wrong_with(job: ScheduledJob, runs: dict[str, Run], pools: Sequence[Pool], most_pieces: int) -> Iterator[str]:
    run = runs[job.name]
    way = job.ways[run.way]
    [pool] = [pool for pool in pools if pool.name == way.pool]
    took = sum(piece.end_s - piece.start_s for piece in run.pieces)
    needed = way.work_s + sum(min(way.restart_s, piece.end_s - piece.start_s) for piece in run.pieces[1:])
    if took < needed - NEARLY:
        yield f"{job.name} runs {took} s of {needed}"
    if not 1 <= len(run.pieces) <= most_pieces or (len(run.pieces) > 1 and (not job.can_pause or way.is_share)):
        yield f"{job.name} runs in {len(run.pieces)} pieces"
    if any(piece.end_s <= piece.start_s for piece in run.pieces):
        yield f"{job.name} has an empty piece"
    if any(first.end_s >= then.start_s for first, then in itertools.pairwise(run.pieces)):
        yield f"{job.name} runs twice at once"
    if run.pieces[0].start_s < job.earliest_s - NEARLY:
        yield f"{job.name} begins too early"
    for other in job.after:
        if runs[other].pieces[-1].end_s > run.pieces[0].start_s + NEARLY:
            yield f"{job.name} begins before {other} is done"
    if pool.kind == "spot" and not job.can_pause:
        yield f"{job.name} cannot pause and runs on spot"
    if way.is_share != (run.shared_gpu is not None):
        yield f"{job.name} has no shared GPU, or one that it needs not"


def wrong_on(pool: Pool, here: Sequence[tuple[ScheduledJob, Run]]) -> Iterator[str]:
    """At every moment at which something begins: whole GPUs, shared GPUs and missing ones, and power."""
    edges = {piece.start_s for _, run in here for piece in run.pieces} | {o.start_s for o in pool.outages}
    for moment in sorted(edges):
        at_work = [
            (job.ways[run.way], run.shared_gpu)
            for job, run in here
            if any(piece.start_s <= moment < piece.end_s - NEARLY for piece in run.pieces)
        ]
        missing = sum(o.gpus for o in pool.outages if o.start_s <= moment < o.end_s)
        whole = sum(way.milli_gpus for way, _ in at_work if not way.is_share) / 1000
        lanes: dict[int | None, int] = {}
        for way, lane in at_work:
            if way.is_share:
                lanes[lane] = lanes.get(lane, 0) + way.milli_gpus
        if at_work and whole + len(lanes) + missing > pool.gpus:
            yield f"{pool.name} at {moment}: {whole} whole, {len(lanes)} shared, {missing} missing of {pool.gpus}"
        if any(milli > 1000 for milli in lanes.values()):
            yield f"{pool.name} at {moment}: a GPU is shared by more than one"
        watts = sum((pool.watts if w.watts_per_gpu is None else w.watts_per_gpu) * w.gpus for w, _ in at_work)
        if watts > pool.power_cap_watts + NEARLY:
            yield f"{pool.name} at {moment}: {watts} W"


def usd_of(job: ScheduledJob, run: Run, pools: Sequence[Pool]) -> float:
    """Rent minute by minute."""
    way = job.ways[run.way]
    [pool] = [pool for pool in pools if pool.name == way.pool]
    if pool.kind == "owned":
        return 0.0
    minutes = [
        piece.start_s + 60.0 * m for piece in run.pieces for m in range(int((piece.end_s - piece.start_s) // 60))
    ]
    return sum(pool.prices.at(minute) for minute in minutes) / 60 * way.gpus
