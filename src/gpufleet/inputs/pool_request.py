"""Copies of one pool as users type them: '2x H100:4 TP4'."""

from __future__ import annotations

import re

from gpufleet.domain.pool_request import PoolRequest as PoolRequest
from gpufleet.errors import UsageError
from gpufleet.inputs.gpu_request import parse_gpus

MOST_COPIES = 1024
COPIES = re.compile(r"(?P<copies>[0-9]{1,6})\s*[xX]\s*(?P<copy>\S.*)")
RANKS = re.compile(r"(?P<name>tp|pp|ep|dp)(?P<parts>[0-9]{1,4})", re.IGNORECASE)
NAMES = {"tp": "tp", "pp": "pp", "ep": "ep", "dp": "attention_dp"}
EXPECTED = "copies, a GPU with how many, and a layout, such as '2x H100:4 TP4' or 'H200:8 DP8 EP8'"


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
