"""The fleet of today and what it runs, as a file: machines as `plan serve --today` reads them, one kind a row.

    fleet:
      - machines: 4 aws:g5.xlarge@1.01/h
        runs: service
      - machines: 1 aws:p4d.24xlarge
        runs: training
        work: 40h
        deadline: 3d

`name` and `checkpoints: off` may be said, and the words of `gpufleet spot`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpufleet.ask.spot.words import SpotRequest
from gpufleet.errors import UsageError
from gpufleet.files import read_text_file
from gpufleet.inputs.fleet_today import TypedMachines, parse_fleet
from gpufleet.inputs.yaml_mapping import Value, parse_yaml_mapping
from gpufleet.questions.words import SWITCH, Said, words_of
from gpufleet.records import dataclass

WHAT, FLEET, MOST_ROWS = "the fleet", "fleet", 50
SERVICE, TRAINING, BATCH = "service", "training", "batch"
RUNS = (SERVICE, TRAINING, BATCH)
MACHINES, NAME, KIND, CHECKPOINTS = "machines", "name", "runs", "checkpoints"
NOT_OF_A_ROW = frozenset({"machine", "machines", "fleet", "seed", "draws"})


@dataclass(frozen=True)
class FleetRow:
    """Machines of one type, what they run, and words of `gpufleet spot` about it."""

    name: str
    machines: TypedMachines
    runs: str
    has_checkpoints: bool
    words: Mapping[str, Said]


def read_spot_fleet(path: str | Path) -> list[FleetRow]:
    """The rows of a file."""
    content = parse_yaml_mapping(read_text_file(path, WHAT), WHAT)
    rows = content.get(FLEET)
    if set(content) != {FLEET} or not isinstance(rows, list) or not 0 < len(rows) <= MOST_ROWS:
        found = ", ".join(map(str, content)) or "nothing"
        raise UsageError(f"cannot read {WHAT}", found=found, expected=f"'fleet:' and 1 to {MOST_ROWS} rows below it")
    read = [fleet_row(row, number) for number, row in enumerate(rows, 1)]
    named = [str(row[NAME]).strip() for row in rows if isinstance(row, dict) and NAME in row]
    twice = next((name for i, name in enumerate(named) if name in named[:i]), None)
    if twice is not None:
        raise UsageError(f"{WHAT} has two rows of one name", found=twice, expected="a name of its own for each row")
    return read


def fleet_row(row: Value, number: int) -> FleetRow:
    """One row."""
    where = f"{WHAT}, row {number}"
    if not isinstance(row, dict):
        raise UsageError(f"{where} is no list of words", expected="'machines: 4 aws:g5.xlarge' and 'runs: service'")
    known = {name for name, word in words_of(SpotRequest).items() if word.is_in_files} - NOT_OF_A_ROW
    unknown = [key for key in row if key not in known | {MACHINES, NAME, KIND, CHECKPOINTS}]
    if unknown:
        expected = ", ".join([NAME, MACHINES, KIND, CHECKPOINTS, *sorted(known)])
        raise UsageError(f"{where} has an unknown word", found=unknown[0], expected=expected)
    runs, checkpoints = said(row, KIND, where), said(row, CHECKPOINTS, where, "on")
    if runs not in RUNS or checkpoints not in SWITCH:
        expected = f"runs: {', '.join(RUNS)}; checkpoints: on or off"
        raise UsageError(f"{where} cannot be read", found=f"runs {runs}, checkpoints {checkpoints}", expected=expected)
    machines = one_type(said(row, MACHINES, where), where)
    words = {key: listed(value, where) for key, value in row.items() if key in known}
    return FleetRow(said(row, NAME, where, machines.asked), machines, runs, SWITCH[checkpoints], words)


def one_type(text: str, where: str) -> TypedMachines:
    """Machines of a single type."""
    fleet = parse_fleet(text)
    if len(fleet.machines) > 1 or fleet.bill_usd_per_hour is not None:
        raise UsageError(f"{where} names several types, or a bill", found=text, expected="one type a row")
    return fleet.machines[0]


def said(row: Mapping[str, Value], key: str, where: str, default: str | None = None) -> str:
    """The text of a word that must be there, unless it has a default."""
    value = row.get(key, default)
    if not isinstance(value, str):
        raise UsageError(f"{where} does not say {key}", expected=f"'{key}: ...'")
    return value


def listed(value: Value, where: str) -> Said:
    """A text, or a list of them."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(map(str, value))
    if not isinstance(value, str):
        raise UsageError(f"{where} has words below a word", expected="'key: value'")
    return value
