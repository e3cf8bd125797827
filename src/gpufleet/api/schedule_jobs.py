"""From jobs and pools as they are written to those of a schedule: what may run where, and for how long."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from gpufleet.api.batches import plan_batch
from gpufleet.api.encoder_batches import plan_encoder_batch
from gpufleet.api.training import plan_finetune, plan_train
from gpufleet.catalog.interruptions import load_interruptions
from gpufleet.catalog.models import is_shipped_encoder
from gpufleet.catalog.pool_prices import doubts_about
from gpufleet.catalog.query import resolve_gpu
from gpufleet.catalog.spot_jobs import load_job_habits
from gpufleet.catalog.tables import Catalog
from gpufleet.catalog.usual_prices import usual_per_gpu
from gpufleet.domain.schedule import (
    SPOT,
    WHOLE_MILLI,
    BatchDuration,
    DayPrices,
    Duration,
    Outage,
    Pool,
    ScheduledJob,
    Way,
)
from gpufleet.errors import GpufleetError, Infeasible, UnknownName, UsageError, named
from gpufleet.inputs.model_config import is_encoder
from gpufleet.performance.restarts import checkpoint_interval_s, elapsed_run_s
from gpufleet.questions.schedule import (
    HOURS_OF_DAY,
    MOST_JOBS,
    STREAM,
    JobsFile,
    Moment,
    OutageWords,
    StatedJob,
    StatedPool,
    StreamWords,
    WayWords,
    milli_gpus,
)
from gpufleet.questions.words import refuse_out_of_range, words_of
from gpufleet.records import dataclass
from gpufleet.report.numbers import usd_per_hour
from gpufleet.results.job import JobPlan
from gpufleet.results.training import TrainingPlan
from gpufleet.units import HOUR

UNHURRIED = "365d"
"""A deadline with which a batch job takes the machines that do most for their price."""


def seconds_of(moment: Moment, start: datetime | None, what: str) -> float:
    """Seconds from the start of the schedule; negative where a date lies before it."""
    if not isinstance(moment, datetime):
        return moment
    if start is None:
        raise UsageError(
            f"{what} is a date, and the file has no start", expected="'start: 2026-11-30 08:00' at its top"
        )
    return (moment - start).total_seconds()


def pools_of(file: JobsFile, tables: Catalog) -> tuple[Pool, ...]:
    """All pools of a file."""
    found = []
    for stated in file.pools:
        with named(f"pool {stated.name!r}"):
            found.append(pool_of(stated, file.words.start, tables))
    return tuple(found)


def pool_of(stated: StatedPool, start: datetime | None, tables: Catalog) -> Pool:
    """One pool; a GPU draws what its board is built for unless somebody says less."""
    words = stated.words
    accelerator = resolve_gpu(tables, words.gpu or "").accelerator
    gpus = words.gpus or 0
    watts = accelerator.board_power_watts or 0.0 if words.watts is None else words.watts
    return Pool(
        name=stated.name,
        gpu=accelerator.name,
        gpus=gpus,
        kind=words.kind,
        prices=prices_of(stated, start),
        watts=watts,
        power_cap_watts=math.inf if words.power_cap is None else words.power_cap,
        outages=tuple(outage_of(outage, gpus, start) for outage in stated.outages),
    )


def prices_of(stated: StatedPool, start: datetime | None) -> DayPrices:
    """What a GPU costs by the hour of the day."""
    begins_s = 0.0 if start is None else (start - datetime.combine(start, datetime.min.time())).total_seconds()
    if not stated.prices:
        if stated.words.price is None and stated.words.kind != "owned":
            raise UsageError("it is rented and has no price", expected="'price: 2.10/h' of one GPU")
        return DayPrices((stated.words.price or 0.0,), begins_s)
    by_hour: dict[int, float] = {}
    for (first, last), usd in stated.prices:
        for hour in range(first, last if last > first else last + HOURS_OF_DAY):
            if by_hour.setdefault(hour % HOURS_OF_DAY, usd) != usd:
                raise UsageError("an hour of the day has two prices", found=f"{hour % HOURS_OF_DAY}:00")
    missing = [hour for hour in range(HOURS_OF_DAY) if hour not in by_hour]
    if missing:
        raise UsageError("some hours of the day have no price", found=f"none for {missing[0]}:00", expected="all 24")
    return DayPrices(tuple(by_hour[hour] for hour in range(HOURS_OF_DAY)), begins_s)


def outage_of(words: OutageWords, gpus: int, start: datetime | None) -> Outage:
    """One maintenance window; one that began before the schedule is cut."""
    begin = seconds_of(words.from_ or 0.0, start, "the start of a maintenance window")
    end = seconds_of(words.to or 0.0, start, "the end of a maintenance window")
    if end <= max(begin, 0.0):
        raise UsageError("a maintenance window ends before it begins, or before the schedule")
    if (words.gpus or gpus) > gpus:
        raise UsageError(
            "a maintenance window takes more GPUs than there are", found=words.gpus, expected=f"up to {gpus}"
        )
    return Outage(max(begin, 0.0), end, words.gpus or gpus)


class Durations:
    """How long jobs take on GPUs of a type: each question is asked once."""

    def __init__(self, tables: Catalog) -> None:
        self.tables = tables
        self.of_batch = cache(self._of_batch)
        self.of_training = cache(self._of_training)

    def of(self, job: StatedJob, gpu: str, gpus: int) -> Duration:
        """The duration that our models tell; refuses where they know none."""
        asked = tuple(sorted(job.asked.items()))
        if job.kind in ("train", "finetune"):
            return self.of_training(job.kind, asked, gpu, gpus)
        return self.of_batch(asked, gpu).on(gpus)

    def _of_training(self, kind: str, asked: tuple[tuple[str, str], ...], gpu: str, gpus: int) -> Duration:
        call = plan_train if kind == "train" else plan_finetune
        words: dict[str, Any] = dict(asked)
        plan: TrainingPlan = call(model_of(words, kind), self.tables, **{**words, "gpus": [f"{gpu}:{gpus}"], **ONE_ROW})
        if not plan.is_feasible:
            raise Infeasible(f"it does not run on {gpus}x {gpu}")
        finish = plan.answer.finish_s
        return Duration(finish.value, finish.low or finish.value, finish.high or finish.value, finish.grade)

    def _of_batch(self, asked: tuple[tuple[str, str], ...], gpu: str) -> BatchDuration:
        words: dict[str, Any] = {"deadline": UNHURRIED, **dict(asked)}
        words = {BATCH_WORDS.get(name, name): value for name, value in words.items()}
        model = model_of(words, "batch")
        plan = batch_plan(model, self.tables, {**words, "gpus": [gpu], **ONE_ROW})
        if not plan.is_feasible:
            raise Infeasible(f"it does not run on {gpu}")
        answer = plan.deployments[0]
        low, high = answer.work_ratios
        replica = max(round(answer.gpus_per_replica), 1)
        return BatchDuration(answer.work_s * answer.replicas, plan.startup_s, replica, low, high, answer.grade)


def batch_plan(model: str, tables: Catalog, words: Mapping[str, Any]) -> JobPlan:
    """The plan of a batch of any model; a word that it lacks is named as a file of jobs spells it."""
    if is_encoder(model, is_shipped_encoder):
        return plan_encoder_batch(model, tables, **words)
    for spelled, word in BATCH_WORDS.items():
        if word not in words:
            raise UsageError(f"{spelled!r} is missing", expected=f"'{spelled}: {USUAL_TOKENS[spelled]}', in tokens")
    return plan_batch(model, tables, **words)


def expanded(file: JobsFile) -> JobsFile:
    """A file whose streams are the batch jobs that they come to."""
    jobs = tuple(job for stated in file.jobs for job in batches_of(stated))
    if len(jobs) > MOST_JOBS:
        raise UsageError(f"its streams come to {len(jobs):,} jobs", expected=f"at most {MOST_JOBS:,}: a longer 'every'")
    return replace(file, jobs=jobs)


def batches_of(stated: StatedJob) -> Iterator[StatedJob]:
    """A job for the requests of each period, that arrives at its end; what is no stream stays as it is."""
    if stated.kind != STREAM:
        yield stated
        return
    with named(f"job {stated.name!r}"):
        words, asked = stream_of(stated)
    begins: Moment = stated.words.earliest or 0.0
    for number in range(1, math.ceil(words.lasts_s / words.every_s) + 1):
        arrival = after_s(begins, number * words.every_s)
        deadline = None if words.within_s is None else after_s(arrival, words.within_s)
        name = f"{stated.name}-{number}"
        of_period = replace(stated.words, name=name, earliest=arrival, deadline=deadline)
        yield StatedJob(of_period, stated.options, "batch", asked)


def after_s(moment: Moment, seconds: float) -> Moment:
    """So long after a moment."""
    return moment + timedelta(seconds=seconds) if isinstance(moment, datetime) else moment + seconds


def stream_of(stated: StatedJob) -> tuple[StreamWords, Mapping[str, str]]:
    """The words of a stream, and those of the batch that each of its jobs is."""
    rows = words_of(StreamWords)
    said = {rows[name].field: rows[name].value_of(text) for name, text in stated.asked.items() if name in rows}
    words = StreamWords(**said)
    refuse_out_of_range(words)
    requests = round(words.requests_per_hour * words.every_s / HOUR)
    if requests < 1:
        raise UsageError("its stream has no requests", expected="'requests_per_hour: 10000'")
    rest = {name: text for name, text in stated.asked.items() if name not in rows}
    return words, {**rest, "requests": str(requests)}


ONE_ROW = {"rows": 1}
"""Of a plan that tells how long a job takes, only the first row is read."""
BATCH_WORDS = {"in": "input_tokens", "out": "output_tokens"}
USUAL_TOKENS = {"in": 1000, "out": 200}


def model_of(words: dict[str, Any], kind: str) -> str:
    """The model of a question, taken out of its words."""
    if "model" not in words:
        raise UsageError(f"{kind!r} names no model", expected=f"'{kind}: {{model: llama-3.1-8b, ...}}'")
    return str(words.pop("model"))


@dataclass(frozen=True)
class Understood:
    """Jobs with all of their ways, and the range of each way's duration by job and way."""

    jobs: tuple[ScheduledJob, ...]
    durations: Mapping[str, Sequence[Duration]]


def jobs_of(file: JobsFile, pools: Sequence[Pool], tables: Catalog) -> Understood:
    """All jobs of a file."""
    durations, known = Durations(tables), {job.name for job in file.jobs}
    found: list[ScheduledJob] = []
    told: dict[str, Sequence[Duration]] = {}
    for stated in file.jobs:
        with named(f"job {stated.name!r}"):
            job, told[stated.name] = job_of(stated, file.words.start, pools, tables, durations)
            for other in job.after:
                if other not in known:
                    raise UnknownName("job to come after", other, known)
            found.append(job)
    return Understood(tuple(found), told)


def job_of(
    stated: StatedJob, start: datetime | None, pools: Sequence[Pool], tables: Catalog, durations: Durations
) -> tuple[ScheduledJob, Sequence[Duration]]:
    """One job with all of its ways."""
    words = stated.words
    if words.name in (words.after or ()):
        raise Infeasible("it waits for itself", hint="Leave it out of its own 'after'.")
    ways = list(ways_of(stated, pools, tables, durations))
    if not ways:
        raise Infeasible(
            "none of the pools runs it", hint="Our models find no layout that fits: more GPUs, or other ones."
        )
    deadline = math.inf if words.deadline is None else seconds_of(words.deadline, start, "the deadline")
    earliest = 0.0 if words.earliest is None else max(seconds_of(words.earliest, start, "the earliest start"), 0.0)
    job = ScheduledJob(
        name=stated.name,
        ways=tuple(way for way, _ in ways),
        earliest_s=earliest,
        deadline_s=deadline,
        weight=words.priority,
        after=tuple(words.after or ()),
        can_pause=bool(words.preemptible),
        user=words.user or "",
    )
    return job, [duration for _, duration in ways]


def ways_of(
    stated: StatedJob, pools: Sequence[Pool], tables: Catalog, durations: Durations
) -> Iterator[tuple[Way, Duration]]:
    """Every pool and number of GPUs that may run a job; options that fit none of our models are left out."""
    habits = load_job_habits()
    restart_s = habits.restart_s.expected if stated.words.restart_s is None else stated.words.restart_s
    own = stated.options or (stated.words,)
    for option in own:
        targets = targets_of(option.on or stated.words.on, pools, tables)
        counts = [milli_gpus(text, "the number of GPUs") for text in option.gpus or stated.words.gpus or ("1",)]
        work_s = stated.words.work_s if option.work_s is None else option.work_s
        if work_s is not None:
            refuse_ambiguous(targets, counts)
        for pool in targets:
            for milli in counts:
                duration = duration_of(stated, work_s, pool, milli, durations)
                if duration is not None:
                    here = on_kind(duration, pool, restart_s)
                    yield way_of(stated, option, pool, milli, restart_s, here), here


def way_of(stated: StatedJob, option: WayWords, pool: Pool, milli: int, restart_s: float, duration: Duration) -> Way:
    """One way to run a job."""
    watts = stated.words.watts if option.watts is None else option.watts
    return Way(pool.name, milli, duration.work_s, restart_s, watts)


def refuse_ambiguous(targets: Sequence[Pool], counts: Sequence[int]) -> None:
    """A time that somebody states is that of one number of GPUs of one type."""
    types = sorted({pool.gpu for pool in targets})
    if len(types) > 1:
        raise UsageError("its 'work' is a time on one type of GPU", found=", ".join(types), expected="'on: NAME'")
    if len(counts) > 1:
        raise UsageError(
            "its 'work' is a time on one number of GPUs", expected="'options:' with a time for each number"
        )


def duration_of(
    stated: StatedJob, work_s: float | None, pool: Pool, milli: int, durations: Durations
) -> Duration | None:
    """How long a job takes on GPUs of a pool; None where our models say that it does not run there."""
    if work_s is not None:
        return Duration(work_s, work_s, work_s)
    if milli % WHOLE_MILLI:
        raise UsageError("our models know no share of a GPU", expected="whole GPUs, or 'work: 6h'")
    try:
        return durations.of(stated, pool.gpu, milli // WHOLE_MILLI)
    except Infeasible:
        return None
    except GpufleetError as error:
        error.problem = f"{stated.kind}: {error.problem}"
        raise


def on_kind(duration: Duration, pool: Pool, restart_s: float) -> Duration:
    """On spot a job starts again now and then, and repeats what it had not saved."""
    if pool.kind != SPOT:
        return duration
    write_s = load_job_habits().checkpoint_write_s.expected
    per_s = load_interruptions().per_hour_unknown.expected / HOUR
    interval_s = checkpoint_interval_s(write_s, 1 / per_s)
    elapsed = float(elapsed_run_s(duration.work_s, per_s, write_s, restart_s, interval_s))
    scale = elapsed / duration.work_s
    return Duration(
        elapsed, min(duration.low_s * scale, elapsed), max(duration.high_s * scale, elapsed), duration.grade
    )


def targets_of(said: Sequence[str] | None, pools: Sequence[Pool], tables: Catalog) -> list[Pool]:
    """Pools by their names, or by the type of their GPUs; all of them where nothing is said."""
    if not said:
        return list(pools)
    found: dict[str, Pool] = {}
    for name in said:
        named_so = [pool for pool in pools if pool.name == name] or pools_of_type(name, pools, tables)
        if not named_so:
            raise UnknownName("pool or type of GPU", name, [*(p.name for p in pools), *(p.gpu for p in pools)])
        found.update((pool.name, pool) for pool in named_so)
    return list(found.values())


def pools_of_type(name: str, pools: Sequence[Pool], tables: Catalog) -> list[Pool]:
    """Pools of a type of GPU, by any of its names."""
    try:
        gpu = resolve_gpu(tables, name).accelerator.name
    except UsageError:
        return []
    return [pool for pool in pools if pool.gpu == gpu]


def price_doubts(pools: Sequence[Pool], tables: Catalog) -> list[str]:
    """A warning for each pool at a price that nobody asks for such GPUs."""
    usual = usual_per_gpu(tables, (offer for offer in tables.offers if not offer.doubt))
    return [
        f"Warning: pool {pool.name}: {usd_per_hour(usd)} for one {pool.gpu} is in doubt: {why}."
        for pool in pools
        for usd in dict.fromkeys((min(pool.prices.usd_per_hour), max(pool.prices.usd_per_hour)))
        for why in doubts_about(pool, usd, usual)
    ]
