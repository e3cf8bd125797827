"""GPUs as users type them: 'L40S:4'; and copies of one pool: '2x H100:4 TP4'."""

from __future__ import annotations

import re
from typing import NamedTuple

from gpufleet.domain.pool_request import PoolRequest as PoolRequest
from gpufleet.errors import UsageError

MOST_GPUS = 1024
COUNT_ALONE = re.compile(r"[+-]?[0-9]{1,3}")
COUNT_FIRST = re.compile(r"(?P<number>\d{1,6})\s*[xX×*]\s*(?P<name>[^:]+)")
MOST_COPIES = 1024
COPIES = re.compile(r"(?P<copies>[0-9]{1,6})\s*[xX]\s*(?P<copy>\S.*)")
RANKS = re.compile(r"(?P<name>tp|pp|ep|dp)(?P<parts>[0-9]{1,4})", re.IGNORECASE)
NAMES = {"tp": "tp", "pp": "pp", "ep": "ep", "dp": "attention_dp"}
EXPECTED = "copies, a GPU with how many, and a layout, such as '2x H100:4 TP4' or 'H200:8 DP8 EP8'"


class GpuRequest(NamedTuple):
    """A GPU name and how many of them."""

    name: str
    number: int


def parse_gpus(text: object) -> GpuRequest:
    """A name and a whole number after a colon; a bare name is one GPU.

    >>> parse_gpus("L40S:4")
    GpuRequest(name='L40S', number=4)
    """
    refuse_count_first(str(text).strip())
    refuse_count_alone(str(text).strip())
    name, colon, number = str(text).strip().rpartition(":")
    if not colon:
        name, number = str(text).strip(), "1"
    if not name.strip() or not re.fullmatch(r"[0-9]{1,6}", number.strip()) or not 1 <= int(number) <= MOST_GPUS:
        expected = f"a name and a number from 1 to {MOST_GPUS}, such as 'L40S:4'"
        raise UsageError("cannot read a set of GPUs", found=text, expected=expected)
    return GpuRequest(name.strip(), int(number))


def gpus_said(gpus: str | tuple[str, int] | None) -> GpuRequest:
    """A name and a number as they are, or read."""
    return GpuRequest(*gpus) if isinstance(gpus, tuple) else parse_gpus(gpus or "")


def gpus_asked(text: str | None) -> GpuRequest:
    """The same of a question that cannot do without them."""
    if text is None:
        raise UsageError("the GPUs are missing", expected="a GPU and how many, such as 'L40S:4'")
    return parse_gpus(text)


def refuse_count_first(text: str) -> None:
    """'4xH100' is understood and refused: one spelling of a count is enough."""
    match = COUNT_FIRST.fullmatch(text)
    if match:
        hint = f"Write {match['name'].strip()}:{int(match['number'])}."
        raise UsageError("the number of GPUs comes after the name", found=text, hint=hint)


def refuse_count_alone(text: str) -> None:
    """'8' says how many and not of which GPU, and so does '-3'."""
    if COUNT_ALONE.fullmatch(text):
        expected = f"a name before it, and a number from 1: H100:{max(abs(int(text)), 1)}"
        hint = "'gpufleet catalog gpus' lists the names."
        raise UsageError("the GPU's name is missing", found=text, expected=expected, hint=hint)


def parse_pool(text: object, pool: str = "a pool") -> PoolRequest:
    """How many copies, on which GPUs and how many each, then the ranks of a copy: TP, PP, EP and (attention-)DP.

    >>> parse_pool("2x H100:4 TP4")[:4]
    (2, 'H100', 4, 4)
    >>> parse_pool("H200:8 DP8 EP8").copies
    1
    """
    words = str(text).split()
    ranks = ranks_of(words, text, pool)
    copies, gpus = copies_of(" ".join(words[: len(words) - len(ranks)]))
    if not gpus or not 1 <= copies <= MOST_COPIES:
        raise UsageError(f"cannot read {pool}", found=text, expected=EXPECTED, hint=f"Copies: 1 to {MOST_COPIES:,}.")
    try:
        request = parse_gpus(gpus)
    except UsageError as error:
        raise UsageError(f"cannot read {pool}", found=text, expected=EXPECTED, hint=error.hint) from error
    return PoolRequest(copies, request.name, request.number, **ranks)


def copies_of(text: str) -> tuple[int, str]:
    """The number of copies before the GPUs, one where none stands there, and the rest."""
    match = COPIES.fullmatch(text)
    return (int(match["copies"]), match["copy"]) if match else (1, text)


def ranks_of(words: list[str], text: object, pool: str) -> dict[str, int]:
    """The parts of a layout at the end of a pool, each once."""
    found: dict[str, int] = {}
    for word in reversed(words):
        match = RANKS.fullmatch(word)
        if match is None:
            return found
        name = NAMES[match["name"].lower()]
        if name in found:
            raise UsageError(f"{pool} states {match['name'].upper()} twice", found=text)
        found[name] = int(match["parts"])
    return found
