"""Parameters of AWS's API held to a table of their shapes; nothing here knows who writes them.

`aws_parameters.csv`: members of the operations that our files and commands ask for, as AWS's own client for Python
has them.
"""

from __future__ import annotations

import csv
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).parent / "aws_parameters.csv"
OF_THE_CLIENT = {"region", "query", "output", "profile", "max-items", "no-cli-pager"}
"""Words of every command, which no operation has."""
KINDS = {"string": str, "integer": int, "long": int, "double": (int, float), "boolean": bool, "list": list, "map": dict}
Row = Mapping[str, str]


@lru_cache
def shapes() -> dict[tuple[str, str], dict[str, Row]]:
    """Members of each shape of an API; that of an operation leads to its input."""
    found: dict[tuple[str, str], dict[str, Row]] = {}
    with TABLE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault((row["api"], row["shape"]), {})[row["member"]] = row
    return found


def input_of(api: str, operation: str) -> dict[str, Row]:
    """Members of what an operation is asked."""
    return shapes()[api, shapes()[api, operation][""]["of"]]


def problems(api: str, operation: str, said: Mapping[str, Any]) -> list[str]:
    """What an operation would refuse."""
    return list(shape_problems(api, input_of(api, operation), said))


def shape_problems(api: str, members: Mapping[str, Row], said: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{name} is missing" for name, row in members.items() if row["required"] == "yes" and name not in said)
    for name, value in said.items():
        row = members.get(name)
        if row is None:
            yield f"{name} is unknown"
        else:
            yield from value_problems(api, name, row, value)


def value_problems(api: str, name: str, row: Row, value: Any) -> Iterator[str]:
    if row["type"] == "structure":
        if isinstance(value, Mapping):
            yield from shape_problems(api, shapes()[api, row["of"]], value)
        else:
            yield f"{name} is {value!r}"
    elif row["type"] == "timestamp":
        if not isinstance(value, str):
            yield f"{name} is {value!r}"
    elif not isinstance(value, KINDS[row["type"]]) or (isinstance(value, bool) and row["type"] != "boolean"):
        yield f"{name} is {value!r}, not {row['type']}"
    elif row["type"] == "string" and row["of"] and value not in row["of"].split():
        yield f"{name} is {value!r}, none of {row['of']}"
    elif row["type"] == "list" and (api, row["of"]) in shapes():
        for one in value:
            yield from shape_problems(api, shapes()[api, row["of"]], one)


def command_problems(command: str) -> list[str]:
    """What `aws API OPERATION --words …` has that the operation does not know, or lacks."""
    words = shlex.split(command.replace("\\\n", " "))
    assert words[0] == "aws", command
    api, operation = words[1], "".join(part.title() for part in words[2].split("-"))
    if (api, operation) not in shapes():
        return [f"{api} {operation} is not in the table"]
    members = {dashed(name): row for name, row in input_of(api, operation).items()}
    said = {word[2:] for word in words[3:] if word.startswith("--")} - OF_THE_CLIENT
    missing = [name for name, row in members.items() if row["required"] == "yes" and name not in said]
    return [*(f"--{name} is unknown" for name in said - set(members)), *(f"--{name} is missing" for name in missing)]


def word_of(command: str, name: str) -> str:
    """What follows a word of a command."""
    words = shlex.split(command.replace("\\\n", " "))
    return words[words.index(f"--{name}") + 1]


def json_problems(command: str, member: str) -> list[str]:
    """What is wrong with a word that is JSON, by the member of the operation that it is."""
    words = shlex.split(command.replace("\\\n", " "))
    api, operation = words[1], "".join(part.title() for part in words[2].split("-"))
    row = input_of(api, operation)[member]
    return list(value_problems(api, member, row, json.loads(word_of(command, dashed(member)))))


def dashed(name: str) -> str:
    """A member as a word of the command line.

    >>> dashed("MetricName"), dashed("alarmNamePrefix")
    ('metric-name', 'alarm-name-prefix')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()
