"""Jobs with deadlines on shared GPUs, in words: those of the question, and those of its file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime

from gpufleet.domain.schedule import KINDS, OWNED, WHOLE_MILLI
from gpufleet.errors import UnknownName, UsageError
from gpufleet.questions.fields import NamedPath
from gpufleet.questions.mix import SEARCH_TIME
from gpufleet.questions.words import (
    BESIDE,
    COUNT,
    INTEGER,
    LOAD,
    NUMBER,
    PERIOD,
    RENTED,
    SHARE,
    SLACK,
    USD_AT_ALL,
    WHOLE,
    Kind,
    Request,
    file,
    flag,
    names,
    optional,
    text,
    usual,
)
from gpufleet.records import dataclass
from gpufleet.units import DAY, HOUR, KILO, Bounds, parse_duration, parse_usd_per_hour

MOST_STEPS, LONGEST_LIMIT_S, MOST_WORKERS, MOST_SEED = 10_000_000, 24 * HOUR, 64, 2**31 - 1
STEPS_PER_JOB, FEWEST_STEPS, ENOUGH_STEPS, STEPS_ONLINE = 25, 2500, 12_500, 100
"""By default: for each job, and so many at least and at most; of a replay at each arrival and each end."""
MOST_POOLS, MOST_JOBS, MOST_OPTIONS, MOST_GPUS, MOST_OUTAGES = 40, 20_000, 20, 100_000, 200
LONGEST_JOB_S, HOURS_OF_DAY = 366 * DAY, round(DAY / HOUR)
A_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2})?)?")
A_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,61}[A-Za-z0-9]|[A-Za-z0-9]")
YES, NO = ("yes", "on", "true"), ("no", "off", "false")
NAMES_ARE = "up to 63 of a-z, A-Z, 0-9, '.', '_' and '-', a letter or digit at both ends"
Moment = float | datetime
"""Seconds from the start of the schedule, or a date."""


FIRST_YEAR, LAST_YEAR = 2000, 2200
NOW = ("0", "0h", "0s", "0min")


def moment(said: str, what: str) -> Moment:
    """A time from the start of the schedule, or a date.

    >>> moment("12h", ""), moment("2026-12-04 18:00", "")
    (43200.0, datetime.datetime(2026, 12, 4, 18, 0))
    """
    if A_DATE.fullmatch(said.strip()):
        try:
            found = datetime.fromisoformat(said.strip())
        except ValueError:
            raise UsageError(f"{what} is no date", found=said, expected="a day of the calendar") from None
        if not FIRST_YEAR <= found.year <= LAST_YEAR:
            raise UsageError(f"{what} is far away", found=said, expected=f"a year from {FIRST_YEAR} to {LAST_YEAR}")
        return found
    return 0.0 if said.strip() in NOW else parse_duration(said, "'36h' from the start, or '2026-12-04 18:00'")


def date(said: str, what: str) -> datetime:
    """A date alone."""
    found = moment(said, what) if A_DATE.fullmatch(said.strip()) else None
    if not isinstance(found, datetime):
        raise UsageError(f"{what} is no date", found=said, expected="one such as '2026-11-30 08:00'")
    return found


def yes_or_no(said: str, what: str) -> bool:
    """Whether something is so."""
    if said.strip().lower() not in (*YES, *NO):
        raise UsageError(f"cannot read {what}", found=said, expected="yes or no")
    return said.strip().lower() in YES


def milli_gpus(said: str, what: str) -> int:
    """Whole GPUs, or a share of one, in thousandths.

    >>> milli_gpus("8", ""), milli_gpus("0.25", "")
    (8000, 250)
    """
    try:
        number = float(said)
    except ValueError:
        number = -1.0
    milli = round(number * WHOLE_MILLI) if 0 < number <= MOST_GPUS else 0
    if milli < 1 or (milli > WHOLE_MILLI and not number.is_integer()):
        raise UsageError(
            f"cannot read {what}",
            found=said,
            expected=f"a whole number up to {MOST_GPUS:,}, or a share of one GPU: 0.5",
        )
    return milli


def power_watts(said: str, what: str) -> float:
    """Power: '6kW', '700W', in watts.

    >>> power_watts("6.5kW", "")
    6500.0
    """
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*(k|m)?w", said.strip().lower())
    found = float(match[1]) * {None: 1.0, "k": KILO, "m": KILO**2}[match[2]] if match else 0.0
    if found <= 0:
        raise UsageError(f"cannot read {what}", found=said, expected="a power such as '700W' or '6kW'")
    return found


def usd_per_hour(said: str, what: str) -> float:
    """A price of one GPU; nothing is free, and free is said as 0."""
    return 0.0 if said.strip() in ("0", "0/h") else parse_usd_per_hour(said, "a price")


def hours_of_day(said: str, what: str) -> tuple[int, int]:
    """Hours of the day from one to another: '8-24'.

    >>> hours_of_day("22-6", "")
    (22, 6)
    """
    match = re.fullmatch(r"([0-9]{1,2})\s*-\s*([0-9]{1,2})", said.strip())
    if not match or max(int(match[1]), int(match[2])) > HOURS_OF_DAY or match[1] == match[2]:
        raise UsageError(f"cannot read {what}", found=said, expected="two hours of the day such as '8-24' or '22-6'")
    return int(match[1]), int(match[2])


def kind_of_pool(said: str, _: str) -> str:
    """Owned or rented."""
    found = said.strip().lower().replace(" ", "-").replace("_", "-")
    if found not in KINDS:
        raise UnknownName("kind of pool", said, KINDS)
    return found


def a_name(said: str, what: str) -> str:
    """A name that every tool takes which a schedule is handed to."""
    if not A_NAME.fullmatch(said):
        raise UsageError(f"{what} is not one", found=said, expected=NAMES_ARE)
    return said


MOMENT = Kind("TIME|DATE", moment)
POWER = Kind("W", power_watts)


@dataclass(frozen=True, kw_only=True)
class ScheduleRequest(Request):
    """The file of jobs and pools, and how much is searched.

    Work is counted in steps, so the same question has the same answer everywhere. With `time_limit_s` the search goes
    on until then, or until `steps` are made; one that the limit cut says so.
    """

    jobs: str | NamedPath = field(kw_only=False)
    steps: int | None = optional(
        WHOLE,
        f"Search so many steps; default {FEWEST_STEPS:,} to {ENOUGH_STEPS:,}, by jobs; of --online {STEPS_ONLINE} at "
        "each arrival and end.",
        BESIDE, what="the number of steps", bounds=Bounds(0, MOST_STEPS, ""), label="steps",
    )  # fmt: skip
    time_limit_s: float | None = optional(
        SEARCH_TIME, "Search until then at most: 30s; without --steps as many steps as fit; 0: as --at-once.", BESIDE,
        name="time_limit", what="the time limit", bounds=Bounds(0, LONGEST_LIMIT_S, "seconds"), label="time limit",
    )  # fmt: skip
    workers: int = usual(
        1, WHOLE, "Of --time-limit: processors that the solver may use; default 1.", BESIDE,
        what="the number of workers", bounds=Bounds(1, MOST_WORKERS, ""), label="workers",
    )  # fmt: skip
    seed: int = usual(
        0, INTEGER, "Of the search; default 0.", BESIDE, what="the seed", bounds=Bounds(0, MOST_SEED, ""), label="seed"
    )
    at_once: bool = flag("Earliest deadline first with holes filled, and no search.", BESIDE)
    online: Sequence[str] | None = optional(
        names("POLICY,..."),
        "Replay the jobs as they arrive, under fifo, sjf, edf, las, backfill, ours, or all.",
        BESIDE,
    )
    trace: str | NamedPath | None = optional(
        file("FILE.csv"), "Of --online: these jobs in place of the file's, by arrival_s, gpus, duration_s.", LOAD
    )
    spread: float = usual(
        0.0, SHARE, "Of --online: jobs take up to so much less or more than expected; default 0.", SLACK,
        what="the spread", bounds=Bounds(0, 0.99, ""), label="spread",
    )  # fmt: skip
    burst: bool = flag("Of --online: rent for jobs that would be late otherwise.", RENTED)

    def __post_init__(self) -> None:
        if self.workers > 1 and not self.time_limit_s:
            raise UsageError(
                "--workers are of --time-limit: without one, steps are counted on one processor",
                hint="Say --time-limit with them, such as 30s.",
            )

    @property
    def is_at_once(self) -> bool:
        """Whether what is found at once is the answer: nothing is searched."""
        return self.at_once or self.time_limit_s == 0


def usual_steps(jobs: int) -> int:
    """Steps that a search of so many jobs has by default.

    >>> usual_steps(40), usual_steps(200), usual_steps(10_000)
    (2500, 5000, 12500)
    """
    return min(max(STEPS_PER_JOB * jobs, FEWEST_STEPS), ENOUGH_STEPS)


@dataclass(frozen=True, kw_only=True)
class FileWords(Request):
    """What a file of jobs says of all of them."""

    start: datetime | None = optional(Kind("DATE", date), "When the schedule begins.", LOAD, what="the start")
    slot_s: float | None = optional(
        PERIOD, "Times are rounded to slots of so long.", LOAD, name="slot", what="the slot", bounds=Bounds(1, DAY, "s")
    )
    budget: float | None = optional(USD_AT_ALL, "All that may be spent on rented GPUs.", RENTED, what="the budget")


@dataclass(frozen=True, kw_only=True)
class PoolWords(Request):
    """What a file says of one pool."""

    gpu: str | None = optional(text("NAME"), "The type of its GPUs.", RENTED)
    gpus: int | None = optional(
        WHOLE, "How many.", RENTED, what="the number of GPUs of a pool", bounds=Bounds(1, MOST_GPUS, "")
    )
    kind: str = usual(OWNED, Kind("NAME", kind_of_pool), "owned, on-demand or spot.", RENTED)
    price: float | None = optional(Kind("USD/TIME", usd_per_hour), "Of one GPU.", RENTED)
    watts: float | None = optional(POWER, "What a GPU at work draws.", RENTED, what="the power of a GPU")
    power_cap: float | None = optional(POWER, "Of all GPUs at once.", RENTED, what="the power cap")


@dataclass(frozen=True, kw_only=True)
class OutageWords(Request):
    """What a file says of a maintenance window."""

    from_: Moment | None = optional(MOMENT, "When it begins.", SLACK, name="from", what="the start of an outage")
    to: Moment | None = optional(MOMENT, "When it ends.", SLACK, what="the end of an outage")
    gpus: int | None = optional(
        WHOLE,
        "GPUs that are missing; default all.",
        SLACK,
        what="the GPUs of an outage",
        bounds=Bounds(1, MOST_GPUS, ""),
    )


@dataclass(frozen=True, kw_only=True)
class WayWords(Request):
    """What a file says of one way to run a job."""

    work_s: float | None = optional(
        PERIOD, "How long it takes.", LOAD, name="work", what="the work", bounds=Bounds(1, LONGEST_JOB_S, "seconds")
    )
    gpus: Sequence[str] | None = optional(names("N,..."), "GPUs at once, or several numbers to choose from.", LOAD)
    on: Sequence[str] | None = optional(names("NAME,..."), "Pools or types of GPUs.", RENTED)
    watts: float | None = optional(POWER, "What one of its GPUs draws.", RENTED, what="the power of a GPU")


@dataclass(frozen=True, kw_only=True)
class JobWords(WayWords):
    """What a file says of one job."""

    name: str | None = optional(Kind("NAME", a_name), "What it is called.", LOAD, what="the name of a job")
    earliest: Moment | None = optional(MOMENT, "Not before.", LOAD, what="the earliest start")
    deadline: Moment | None = optional(MOMENT, "Done by.", LOAD, what="the deadline")
    priority: float = usual(
        1.0, NUMBER, "What an hour too late counts; default 1.", LOAD, what="the priority", bounds=Bounds(0, 1e6, "")
    )
    after: Sequence[str] | None = optional(names("NAME,..."), "Jobs that must be done before.", LOAD)
    preemptible: bool | None = optional(
        Kind("yes|no", yes_or_no), "It writes checkpoints: it may pause, and run on spot.", SLACK, what="preemptible"
    )
    restart_s: float | None = optional(
        PERIOD, "What a pause costs.", SLACK, name="restart", what="the restart", bounds=Bounds(0, DAY, "seconds")
    )
    user: str | None = optional(text("NAME"), "Whose it is, for fairness between users.", LOAD)
    command: str | None = optional(text("TEXT"), "What it runs, for files of other tools.", LOAD)
    image: str | None = optional(text("NAME"), "Its container, for files of other tools.", LOAD)


STREAM = "stream"
MODELLED = ("train", "finetune", "batch", "evaluate", STREAM)
"""Keys of a job whose duration our own models tell: below each the words of that question."""


@dataclass(frozen=True, kw_only=True)
class StreamWords(Request):
    """What a stream of batch jobs says beside the words of a batch: requests gather, and become a job each period."""

    requests_per_hour: float = usual(0.0, COUNT, "Requests that come in an hour.", LOAD, what="the requests an hour")
    every_s: float = usual(
        HOUR,
        PERIOD,
        "A job each period; default 1h.",
        LOAD,
        name="every",
        what="the period",
        bounds=Bounds(60, DAY, "s"),
    )
    within_s: float | None = optional(
        PERIOD, "Done so long after its period; default never.", LOAD, name="within", what="the time within"
    )
    lasts_s: float = usual(
        DAY, PERIOD, "How long requests come; default 1day.", LOAD, name="lasts", what="how long the stream lasts",
        bounds=Bounds(60, LONGEST_JOB_S, "s"),
    )  # fmt: skip


@dataclass(frozen=True)
class StatedPool:
    """A pool of a file; `prices` are by hours of the day where there are several."""

    name: str
    words: PoolWords
    prices: tuple[tuple[tuple[int, int], float], ...] = ()
    outages: tuple[OutageWords, ...] = ()


@dataclass(frozen=True)
class StatedJob:
    """A job of a file: its words, its further ways, and the question that tells its duration."""

    words: JobWords
    options: tuple[WayWords, ...] = ()
    kind: str = ""
    asked: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What it is called."""
        return self.words.name or ""


@dataclass(frozen=True)
class JobsFile:
    """Everything that a file of jobs says."""

    words: FileWords
    pools: tuple[StatedPool, ...]
    jobs: tuple[StatedJob, ...]
