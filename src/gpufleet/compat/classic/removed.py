"""Rows that a `null` removes, and the workloads and sets that are left out with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpufleet.compat.classic.json_text import Value
from gpufleet.compat.classic.names import canonical

REFERENCES = {"current_instance": "gpu_instances", "model_size": "model_sizes", "precision": "precision_formats"}
WORKLOADS, SETS = "workloads", "workload_sets"
Sections = Mapping[str, Value]


def without_orphans(sections: Sections) -> tuple[Sections, list[str]]:
    """Without workloads that name a removed row and sets that lose every member; and a note on what is left out."""
    gone = {name: removed(section) for name, section in sections.items()}
    workloads = rows(sections[WORKLOADS])
    orphans = {key: row for key, row in workloads.items() if names_removed_row(row, gone)}
    absent = gone[WORKLOADS] | {canonical(row.key) for row in orphans.values()}
    sets = {key: without_members(row, absent) for key, row in rows(sections[SETS]).items()}
    emptied = [row.key for key, row in sets.items() if row.content is None is not rows(sections[SETS])[key].content]
    left = {**workloads, **{key: replace(row, content=None) for key, row in orphans.items()}}
    names = [row.key for row in orphans.values()] + emptied
    note = [f"Left out, as they name rows that null removes: {', '.join(names)}."] if names else []
    return {**sections, **with_rows(sections, WORKLOADS, left), **with_rows(sections, SETS, sets)}, note


def rows(section: Value) -> Mapping[str, Value]:
    """The rows of a section; none where it is no object, which is refused later."""
    return section.content if section.is_object else {}


def with_rows(sections: Sections, name: str, changed: Mapping[str, Value]) -> Sections:
    """A section with other rows."""
    return {name: replace(sections[name], content=changed)} if sections[name].is_object else {}


def removed(section: Value) -> set[str]:
    """Names of the rows that are null."""
    return {canonical(row.key) for row in rows(section).values() if row.content is None}


def names_removed_row(workload: Value, gone: Mapping[str, set[str]]) -> bool:
    """Whether its scenario names an instance, a size or a precision that is removed."""
    scenario = rows(workload).get("scenario")
    words = {} if scenario is None else rows(scenario)
    named = ((words[field].content, gone[section]) for field, section in REFERENCES.items() if field in words)
    return any(isinstance(word, str) and canonical(word) in names for word, names in named)


def without_members(chosen: Value, absent: set[str]) -> Value:
    """A set without the workloads that are absent; null where none is left."""
    if not absent or not isinstance(chosen.content, list) or not chosen.content:
        return chosen
    kept = [i for i in chosen.content if not (isinstance(i.content, str) and canonical(i.content) in absent)]
    return replace(chosen, content=kept or None)
