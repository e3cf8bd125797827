"""Conditions of a measurement that are not the model's: which engine and version it ran on, in which layout."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpufleet.accuracy.benchmark_clients import launch_options
from gpufleet.catalog.engines import find_engine
from gpufleet.domain.engine import EngineProfile, MemoryEra
from gpufleet.errors import UsageError
from gpufleet.inputs.measurements import MeasurementRow
from gpufleet.records import dataclass

DATE = re.compile(r"\d{4}-\d{2}(?:-\d{2})?")
OLD_GENERATION = "V0"
GENERATION = re.compile(r"\bV[01]\b")
ISSUE = re.compile(r"github\.com/(?P<repository>[^/\s]+/[^/\s]+) (?:issues|pull)/(?P<number>\d+)")
DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
BEFORE_THE_CHANGE = re.compile(r"\bbefore PR\b", re.IGNORECASE)
SUMMED_GPUS = re.compile(r"\bsum over (\d+) GPUs\b")


@dataclass(frozen=True)
class EngineLabel:
    """An engine as a file names it: 'vLLM 0.11.0' is vllm in version 0.11.0."""

    name: str
    version: str | None = None


def engine_of(label: str) -> EngineLabel:
    """Name and version in a label, in the spelling of the engine tables.

    >>> engine_of("vLLM 0.11.0"), engine_of("vLLM (main, 2024-12-14)").name, engine_of("HF transformers").name
    (EngineLabel(name='vllm', version='0.11.0'), 'vllm', 'hf-transformers')
    """
    bare = re.sub(r"\([^)]*\)", "", label).strip()
    name, _, version = bare.rpartition(" ")
    if not re.fullmatch(r"v?\d+(\.\w+)+", version):
        name, version = bare, ""
    return EngineLabel(re.sub(r"\s+", "-", name.casefold()), version or None)


def engine_of_row(row: MeasurementRow) -> EngineLabel:
    """The engine that a row names; a column of its own for the version counts first."""
    if not row.text("engine"):
        raise UsageError("engine not stated")
    found = engine_of(row.text("engine"))
    return EngineLabel(found.name, row.text("engine_version") or found.version)


def memory_version_of(row: MeasurementRow, engine: EngineLabel) -> str | None:
    """The engine version whose memory rules a row ran under; None is today's engine.

    The version that the row states. Else the newest of the era that its date falls into: the day in the engine's label,
    the number of the issue or pull request in the engine's own repository that the row was taken from, or the month in
    the label.
    """
    if engine.version is not None:
        return engine.version
    label = row.text("engine")
    profile = find_engine(engine.name)
    eras = eras_of_generation(profile, label)
    date, number = DATE.search(label), own_issue(row, profile)
    if number is not None and not DAY.search(label):
        found = next((era for era in eras if number < era.until_issue), None)
    elif date is not None:
        found = next((era for era in eras if date.group() < era.until_date), None)
    else:
        found = None
    generation = GENERATION.search(label)
    if found is None and generation is not None and generation.group() == OLD_GENERATION:
        found = eras[-1]
    return None if found is None else found.newest


def own_issue(row: MeasurementRow, profile: EngineProfile) -> int | None:
    """The number of the issue or pull request of the engine's repository that a row was taken from.

    A pull request's own build holds its change; what it was compared with ('main before PR') is one number older.
    """
    issue = ISSUE.search(row.text("source"))
    if issue is None or issue.group("repository") != profile.repository:
        return None
    return int(issue.group("number")) - bool(BEFORE_THE_CHANGE.search(row.text("engine")))


def eras_of_generation(profile: EngineProfile, label: str) -> Sequence[MemoryEra]:
    """The memory eras of the engine generation that a label names ('vLLM (V0, 2025-04-02)'), else all of them."""
    generation = GENERATION.search(label)
    if generation is None:
        return profile.memory_eras
    return [era for era in profile.memory_eras if era.name.startswith(generation.group())]


@dataclass(frozen=True)
class StatedLayout:
    """TP, PP, EP and attention-DP of a row, and the GPU that it ran on."""

    gpu: str
    tp: int
    pp: int
    ep: int | None
    attention_dp: int

    @property
    def num_gpus(self) -> int:
        """GPUs of one replica."""
        return self.tp * self.pp * self.attention_dp


def layout_of(row: MeasurementRow, engine: str) -> StatedLayout:
    """The layout that a row states; GPUs without TP are a split by layer in engines that split so, else TP.

    TP and attention-DP over the same GPUs, as engines are started (--tp 8 --dp 8), are groups of fewer GPUs each.
    """
    gpu = row.text("gpu_id", "gpu")
    if not gpu:
        raise UsageError("GPU not stated")
    summed = SUMMED_GPUS.search(row.text("notes"))
    num_gpus = int(summed.group(1)) if summed else row.whole("num_gpus") or 1
    tp, pp, attention_dp = row.whole("tp"), row.whole("pp") or 1, row.whole("attention_dp") or 1
    if tp is None:
        by_layer = find_engine(engine).splits_by_layer and not launch_options(row, engine, num_gpus).splits_rows
        tp = 1 if by_layer else max(num_gpus // (pp * attention_dp), 1)
        pp = num_gpus if by_layer else pp
    if tp * pp == num_gpus and tp % attention_dp == 0:
        tp //= attention_dp
    layout = StatedLayout(gpu, tp, pp, expert_groups(row, engine, tp, attention_dp), attention_dp)
    if row.text("num_gpus") and not summed and layout.num_gpus != num_gpus:
        raise UsageError("the layout does not use the GPUs", found=f"{layout.num_gpus} of {num_gpus}")
    return layout


def expert_groups(row: MeasurementRow, engine: str, tp: int, attention_dp: int) -> int | None:
    """GPUs over which whole experts were spread: all of them where the row's script did so under a label of EP 1."""
    stated = row.whole("ep")
    if stated == 1 and launch_options(row, engine, tp).whole_experts:
        return tp * attention_dp
    return stated
