"""The three JSON files as one checked `Config`: fragments of a user's folder are laid over the shipped rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from gpufleet.compat.classic import schema
from gpufleet.compat.classic.faults import OWN_FOLDER
from gpufleet.compat.classic.fragments import Fragment, fragments_of, overlaid, shipped_folder
from gpufleet.compat.classic.json_text import Value
from gpufleet.compat.classic.names import Goal, ModelSize, WorkloadType, canonical, member_named
from gpufleet.compat.classic.records import GpuInstance, PrecisionFormat, Scenario, SizeClass, Workload
from gpufleet.compat.classic.removed import without_orphans
from gpufleet.errors import UnknownName, UsageError
from gpufleet.files import named_path
from gpufleet.records import dataclass

FOLDER_VARIABLE = "GPUFLEET_CLASSIC_CONFIG"
LONGEST_NAME, MOST_NAMED = 60, 20
Row = TypeVar("Row")


@dataclass(frozen=True)
class Config:
    """Everything that the files say; rows are found by their name in any capitals."""

    instances: Mapping[str, GpuInstance]
    sizes: Mapping[str, SizeClass]
    precisions: Mapping[str, PrecisionFormat]
    overheads: Mapping[str, float]
    workloads: Mapping[str, Workload]
    sets: Mapping[str, tuple[str, ...]]
    folder: Path
    notes: tuple[str, ...] = ()

    def instance(self, name: object) -> GpuInstance:
        """The GPU instance of that name."""
        return named(self.instances, name, "GPU instance")

    def size(self, name: object) -> SizeClass:
        """The size class of a member of `ModelSize` or of a name."""
        return named(self.sizes, name.value if isinstance(name, ModelSize) else name, "model size")

    def precision(self, name: object) -> PrecisionFormat:
        """The precision of that name."""
        return named(self.precisions, name, "precision")

    def workload(self, name: object) -> Workload:
        """The workload of that id."""
        return named(self.workloads, name, "workload")

    def set_of(self, name: object) -> tuple[str, ...]:
        """The workload ids of a set."""
        return named(self.sets, name, "workload set")


def named(rows: Mapping[str, Row], name: object, what: str) -> Row:
    """The row of that name, or an error with the nearest names."""
    if isinstance(name, str) and canonical(name) in rows:
        return rows[canonical(name)]
    known = [str(getattr(row, "key", key)) for key, row in rows.items()]
    few = f"Known: {', '.join(known)}." if len(known) <= MOST_NAMED else None
    raise UnknownName(what, name, known, hint=few if known else f"The configuration has none. {OWN_FOLDER}")


def chosen_folder(config_dir: str | os.PathLike[str] | None) -> Path:
    """The folder given, else that of the environment variable, else the shipped one."""
    named_folder = config_dir or os.environ.get(FOLDER_VARIABLE) or None
    return named_path(named_folder) if named_folder else shipped_folder()


def load_config(config_dir: str | os.PathLike[str] | None = None) -> Config:
    """The configuration of a folder, laid over the shipped one; its sizes become members of `ModelSize`.

    >>> load_config().instance("p5").on_demand_cost_per_hour
    50
    """
    folder = chosen_folder(config_dir)
    return config_of(fragments_of(folder), folder)


def config_of(fragments: Iterable[Fragment], folder: Path) -> Config:
    """Fragments, each laid over those before it, as one checked configuration."""
    parts = tuple(fragments)
    sections, left_out = without_orphans(overlaid(parts))
    rules = _Rows(
        instances=_rows(sections, "gpu_instances", schema.INSTANCE, GpuInstance),
        sizes=_rows(sections, "model_sizes", schema.SIZE, SizeClass),
        precisions=_rows(sections, "precision_formats", schema.PRECISION, PrecisionFormat),
    )
    overheads = _overheads(sections["overhead_multipliers"])
    workloads = _workloads(sections["workloads"], rules)
    sets = {key: _set(value, workloads) for key, value in _named_rows(sections["workload_sets"], "workload set")}
    for size in rules.sizes.values():
        ModelSize.learn(size.key)
    notes = [note for part in parts for note in part.notes] + left_out + odd_prices(rules.instances.values())
    return Config(*rules, overheads, workloads, sets, folder, tuple(notes))


class _Rows(NamedTuple):
    """What workloads refer to."""

    instances: Mapping[str, GpuInstance]
    sizes: Mapping[str, SizeClass]
    precisions: Mapping[str, PrecisionFormat]


def _rows(
    sections: Mapping[str, Value], section: str, fields: Mapping[str, schema.Field], make: Callable[..., Row]
) -> dict[str, Row]:
    what = section.rstrip("s").replace("_", " ")
    given = _named_rows(sections[section], what)
    names = [value.key for _, value in given]
    rows = {k: make(key=v.key, **schema.record(v, f"{what} {v.key}", fields, names)) for k, v in given}
    if not rows:
        raise UsageError(f"{sections[section].place}: {section!r} is empty", expected="one row at least")
    return rows


def _named_rows(section: Value, what: str) -> list[tuple[str, Value]]:
    """Rows by their comparable names; two that differ in capitals or separators alone are refused."""
    rows: dict[str, Value] = {}
    for value in schema.entries(section, section.key).values():
        key = canonical(value.key)
        if not key or len(value.key) > LONGEST_NAME or not value.key.isprintable():
            raise UsageError(f"{value.place}: not a name", found=value.key, expected=f"up to {LONGEST_NAME} letters")
        if key in rows:
            raise UsageError(f"{value.place}: a second {what} {value.key!r}", found=f"first at {rows[key].place}")
        rows[key] = value
    return list(rows.items())


def _overheads(section: Value) -> dict[str, float]:
    fields = {kind.value: schema.Field(schema.number(0, 100)) for kind in WorkloadType}
    return schema.record(section, "overhead_multipliers", fields)


def _workloads(section: Value, rows: _Rows) -> dict[str, Workload]:
    return {key: _workload(value, rows) for key, value in _named_rows(section, "workload")}


def _workload(value: Value, rows: _Rows) -> Workload:
    names: dict[str, Callable[[str], str]] = {
        "current_instance": lambda name: named(rows.instances, name, "GPU instance").key,
        "model_size": lambda name: canonical(named(rows.sizes, name, "model size").key),
        "precision": lambda name: named(rows.precisions, name, "precision").key,
        "workload_type": lambda name: member_named(WorkloadType, name, "workload type").value,
        "goal": lambda name: member_named(Goal, name, "goal").value,
    }
    what = f"workload {value.key}"
    known = {
        field: schema.Field(_name_in(find, what), schema.SCENARIO[field].required) for field, find in names.items()
    }
    scenario = {**schema.SCENARIO, **known}
    fields = {**schema.WORKLOAD, "scenario": schema.Field(partial(schema.record, fields=scenario))}
    read = schema.record(value, what, fields)
    return Workload(key=value.key, scenario=Scenario(**read.pop("scenario")), **read)


def _name_in(find: Callable[[str], str], what: str) -> Callable[[Value, str], str]:
    """Reads a name that must be one of a table's."""

    def read(value: Value, field: str) -> str:
        try:
            return find(schema.text(value, field))
        except UnknownName as error:
            raise UsageError(f"{value.place}: {what}: {error.problem}", hint=error.hint) from None

    return read


def _set(value: Value, workloads: Mapping[str, Workload]) -> tuple[str, ...]:
    names = schema.texts(value, f"workload set {value.key}")
    if not names:
        raise schema.fault(value, f"workload set {value.key}", "at least one workload id")
    for name, item in zip(names, value.content, strict=True):
        try:
            named(workloads, name, "workload")
        except UnknownName as error:
            raise UsageError(f"{item.place}: set {value.key}: {error.problem}", hint=error.hint) from None
    return tuple(named(workloads, name, "workload").key for name in names)


def odd_prices(instances: Iterable[GpuInstance]) -> list[str]:
    """Rows whose spot price is above the one on demand: possible on a market, more often a slip."""
    return [
        f"{i.key}: its spot price ${i.spot_cost_per_hour:g} is above ${i.on_demand_cost_per_hour:g} on demand."
        for i in instances
        if i.spot_cost_per_hour > i.on_demand_cost_per_hour
    ]
