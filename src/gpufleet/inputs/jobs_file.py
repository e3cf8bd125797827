"""Jobs and pools as users write them in YAML; each fault has one message that says where it is."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from gpufleet.errors import UnknownName, UsageError, named
from gpufleet.files import read_text_file
from gpufleet.inputs.yaml_mapping import Value, parse_yaml_mapping
from gpufleet.questions.schedule import (
    MODELLED,
    MOST_JOBS,
    MOST_OPTIONS,
    MOST_OUTAGES,
    MOST_POOLS,
    FileWords,
    JobsFile,
    JobWords,
    OutageWords,
    PoolWords,
    StatedJob,
    StatedPool,
    WayWords,
    a_name,
    hours_of_day,
    usd_per_hour,
)
from gpufleet.questions.words import Request, Word, refuse_out_of_range, words_of
from gpufleet.units import MB

WHAT, LARGEST_BYTES, MOST_NODES = "a file of jobs", 20 * MB, 1_000_000
R = TypeVar("R", bound=Request)
POOLS_LIKE = "'pools:' with a name for each, below it 'gpu: A100-80GB' and 'gpus: 16'"
JOBS_LIKE = "'jobs:' with '- name: NAME' for each, below it 'work: 6h', 'gpus: 2' and 'deadline: 24h'"


def read_jobs_file(path: str | Path, *, pools_alone: bool = False) -> JobsFile:
    """The jobs and pools of a file, or its pools alone."""
    with named(f"{WHAT} {str(path)!r}"):
        return parse_jobs_file(read_text_file(path, WHAT, LARGEST_BYTES), pools_alone=pools_alone)


def parse_jobs_file(text: str, *, pools_alone: bool = False) -> JobsFile:
    """The jobs and pools of a text.

    >>> found = parse_jobs_file("pools: {a: {gpu: L4, gpus: 2}}\\njobs: [{name: x, work: 1h, deadline: 3h}]")
    >>> found.jobs[0].words.work_s, found.pools[0].words.gpus
    (3600.0, 2)
    """
    given = parse_yaml_mapping(text, WHAT, MOST_NODES)
    refuse_unknown(given, [*words_of(FileWords), "pools", "jobs"], "key")
    pools = pools_of(given.get("pools"))
    jobs = () if pools_alone else jobs_of(given.get("jobs"))
    return JobsFile(words_in(FileWords, given, ("pools", "jobs")), pools, jobs)


def refuse_unknown(given: Mapping[str, Value], known: Collection[str], kind: str) -> None:
    """A key that nobody reads would be a wish that is not heard."""
    for key in given:
        if key not in known:
            raise UnknownName(kind, key, known, hint=f"Keys: {', '.join(known)}.")


def words_in(kind: type[R], given: Mapping[str, Value], beside: Collection[str] = ()) -> R:
    """The words that a mapping says."""
    rows = words_of(kind)
    values = {rows[key].field: value_of(key, value, rows[key]) for key, value in given.items() if key not in beside}
    request = kind(**values)  # type: ignore[arg-type]
    refuse_out_of_range(request)
    return request


def value_of(key: str, value: Value, row: Word[Any]) -> object:
    """One word, read."""
    if isinstance(value, list) and not value:
        raise UsageError(f"{key!r} is empty", expected="a value, or the key left out")
    if row.kind.takes is list and isinstance(value, list):
        return tuple(scalar(key, item) for item in value)
    said = scalar(key, value)
    if row.kind.takes is list:
        return tuple(part.strip() for part in said.split(","))
    with named(key):
        return row.value_of(said)


def scalar(key: str, value: Value) -> str:
    """A single value that is not empty."""
    if not isinstance(value, str):
        raise UsageError(f"{key!r} has several values", found=value, expected="one value")
    if not value.strip():
        raise UsageError(f"{key!r} has no value", expected="a value, or the key left out")
    return value.strip()


def mapping(key: str, value: Value, expected: str) -> dict[str, Value]:
    """A mapping with anything in it."""
    if not isinstance(value, dict) or not value:
        raise UsageError(f"{key} says nothing", expected=expected)
    return value


def items(key: str, value: Value, most: int, expected: str) -> list[Value]:
    """A list with anything in it, and not too much."""
    if not isinstance(value, list) or not value:
        raise UsageError(f"{key!r} is no list", expected=expected)
    if len(value) > most:
        raise UsageError(f"{key!r} holds {len(value):,}", expected=f"at most {most:,}")
    return value


def pools_of(value: Value | None) -> tuple[StatedPool, ...]:
    """The pools of a file."""
    if value is None:
        raise UsageError(f"{WHAT} has no pools", expected=POOLS_LIKE)
    given = mapping("'pools'", value, POOLS_LIKE)
    if len(given) > MOST_POOLS:
        raise UsageError(f"'pools' holds {len(given)}", expected=f"at most {MOST_POOLS}")
    return tuple(pool_of(name, entry) for name, entry in given.items())


def pool_of(name: str, value: Value) -> StatedPool:
    """One pool."""
    a_name(name, "the name of a pool")
    with named(f"pool {name!r}"):
        given = mapping("it", value, "its keys, such as 'gpu: A100-80GB' and 'gpus: 16'")
        refuse_unknown(given, [*words_of(PoolWords), "maintenance"], f"key of pool {name!r}:")
        priced = given.get("price")
        apart = ("maintenance", *(["price"] if isinstance(priced, dict) else []))
        words = words_in(PoolWords, given, apart)
        if words.gpu is None or words.gpus is None:
            raise UsageError("it has no type or no number of GPUs", expected="'gpu: A100-80GB' and 'gpus: 16'")
        prices = tuple(price_of(*pair) for pair in priced.items()) if isinstance(priced, dict) else ()
        outages = given.get("maintenance")
        return StatedPool(name, words, prices, () if outages is None else outages_of(outages))


def price_of(hours: str, value: Value) -> tuple[tuple[int, int], float]:
    """The price of some hours of the day."""
    return hours_of_day(hours, "the hours of a price"), usd_per_hour(scalar("price", value), "the price")


def outages_of(value: Value) -> tuple[OutageWords, ...]:
    """The maintenance windows of a pool."""
    like = "'- {from: 12h, to: 16h}' for each window"
    found = []
    for item in items("maintenance", value, MOST_OUTAGES, like):
        words = words_of_item(OutageWords, "a window", item, like, "key of a maintenance window:")
        if words.from_ is None or words.to is None:
            raise UsageError("a maintenance window has no start or no end", expected=like)
        found.append(words)
    return tuple(found)


def words_of_item(kind: type[R], what: str, item: Value, like: str, key: str) -> R:
    """The words of an item that has no others."""
    given = mapping(what, item, like)
    refuse_unknown(given, words_of(kind), key)
    return words_in(kind, given)


def jobs_of(value: Value | None) -> tuple[StatedJob, ...]:
    """The jobs of a file, each with a name of its own."""
    if value is None:
        raise UsageError(f"{WHAT} has no jobs", expected=JOBS_LIKE)
    found = tuple(job_of(number, item) for number, item in enumerate(items("jobs", value, MOST_JOBS, JOBS_LIKE), 1))
    seen: set[str] = set()
    for job in found:
        if job.name in seen:
            raise UsageError(f"two jobs are called {job.name!r}", expected="a name of its own for each")
        seen.add(job.name)
    return found


def job_of(number: int, value: Value) -> StatedJob:
    """One job."""
    given = mapping(f"job {number}", value, JOBS_LIKE)
    name = given.get("name")
    place = f"job {name!r}" if isinstance(name, str) else f"job {number}"
    with named(place):
        refuse_unknown(given, [*words_of(JobWords), *MODELLED, "options"], f"key of {place}:")
        words = words_in(JobWords, given, (*MODELLED, "options"))
        if words.name is None:
            raise UsageError("it has no name", expected=JOBS_LIKE)
        asked = [key for key in MODELLED if key in given]
        told = [*asked, *(["work"] if words.work_s is not None else [])]
        if len(told) > 1:
            raise UsageError("it is of several kinds", found=", ".join(told), expected="one of them")
        question = {k: asked_text(k, v) for key in asked for k, v in mapping(key, given[key], "its words").items()}
        options = given.get("options")
        ways = () if options is None else options_of(options)
        if words.work_s is None and not asked and not (ways and all(way.work_s is not None for way in ways)):
            raise UsageError("nothing says how long it takes", expected=f"'work: 6h', or one of {', '.join(MODELLED)}")
        return StatedJob(words, ways, asked[0] if asked else "", question)


def asked_text(key: str, value: Value) -> str:
    """A word of the question that tells a duration, as it would be typed."""
    return ",".join(scalar(key, item) for item in value) if isinstance(value, list) else scalar(key, value)


def options_of(value: Value) -> tuple[WayWords, ...]:
    """Further ways to run a job."""
    like = "'- {gpus: 8, on: a100, work: 5h}' for each way"
    found = items("options", value, MOST_OPTIONS, like)
    return tuple(words_of_item(WayWords, "an option", item, like, "key of an option:") for item in found)
