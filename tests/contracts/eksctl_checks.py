"""What is wrong with a cluster that eksctl would make: fields by eksctl_schema.csv, from its own schema (v1alpha5)."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

KINDS: dict[str, type] = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
MOST_OF_A_NAME = 63
PINNED_TO_ITS_NUMBER = ("minSize", "desiredCapacity", "maxSize")


@lru_cache
def schema() -> dict[str, dict[str, Mapping[str, str]]]:
    """Fields of each object."""
    found: dict[str, dict[str, Mapping[str, str]]] = {}
    with Path(__file__).with_name("eksctl_schema.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["object"], {})[row["field"]] = row
    return found


def cluster_problems(cluster: Mapping[str, Any]) -> list[str]:
    """All that is wrong with it."""
    formal = list(object_problems("ClusterConfig", cluster))
    return formal or list(sense_problems(cluster))


def object_problems(kind: str, value: Mapping[str, Any]) -> Iterator[str]:
    """Fields that an object has not, or lacks, and values of another type."""
    fields = schema()[kind]
    for key, inner in value.items():
        if key not in fields:
            yield f"{kind} has no {key}"
            continue
        row = fields[key]
        if not isinstance(inner, KINDS[row["type"]]) or (row["type"] == "integer" and isinstance(inner, bool)):
            yield f"{key} is {inner!r}, not {row['type']}"
        elif row["type"] == "string" and row["of"] and inner not in row["of"].split():
            yield f"{key} is {inner!r}, none of {row['of']}"
        else:
            for one in inner if isinstance(inner, list) else [inner]:
                if row["of"] in schema() and isinstance(one, dict):
                    yield from object_problems(row["of"], one)
                elif row["type"] == "array" and row["of"] and not isinstance(one, str):
                    yield f"{one!r} in {key} is of another type"
    yield from (f"{kind} lacks {key}" for key, row in fields.items() if row["required"] == "yes" and key not in value)


def sense_problems(cluster: Mapping[str, Any]) -> Iterator[str]:
    """What the schema allows and no cluster runs with."""
    groups = cluster.get("managedNodeGroups", [])
    names = [group["name"] for group in groups]
    if len(set(names)) < len(names) or any(len(name) > MOST_OF_A_NAME for name in names):
        yield "names of groups"
    if all(group.get("taints") for group in groups):
        yield "no node for what the cluster runs of its own"
    for group in groups:
        if any(taint.get("effect") not in ("NoSchedule", "NoExecute") for taint in group.get("taints", [])):
            yield "a taint that keeps nothing away"
        if group.get("taints") and len({group.get(key) for key in PINNED_TO_ITS_NUMBER}) > 1:
            yield "a number of nodes that is not the plan's"
        if group.get("taints") and group.get("volumeSize", 80) < 40:
            yield "a disk that holds no engine"
