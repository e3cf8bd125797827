"""Random bodies for every route of `gpufleet serve`, by its own description: none may be answered by a fault of ours.

    make fuzz-web CASES=9000 SEED=2

It runs in an environment of its own, since Schemathesis brings many packages. 503 with the code took_too_long is the
only reply above 499 that counts as an answer; any other is printed with the body that repeats it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode

FIRST_FAULT = 500
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
LONGEST_S = 60


@contextmanager
def serving(gpufleet: str) -> Iterator[str]:
    """The address of a server that ends with the block; an answer takes five seconds at most."""
    command = [gpufleet, "serve", "--port", "0", "--seconds", "5"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            yield server.stderr.readline().split()[0].rstrip("/")
        finally:
            server.terminate()


def is_fault(reply: Any) -> bool:
    """Whether a reply says that the server failed."""
    if reply.status_code < FIRST_FAULT:
        return False
    return reply.status_code != 503 or reply.json().get("code") != "took_too_long"


def faults(operation: Any, address: str, cases: int, number: int, counts: Counter[int]) -> list[str]:
    """What a route answered with a fault of ours."""
    found: list[str] = []

    def tried(case: Any) -> None:
        if case.query and counts.total() % 2:
            case.query.pop("as", None)  # else half of all answers would be jobs
        reply = case.call(base_url=address, timeout=LONGEST_S)
        counts[reply.status_code] += 1
        if is_fault(reply):
            found.append(f"{reply.status_code} {case.method} {case.path} {json.dumps(case.body, default=repr)[:2000]}")

    for mode in MODES:
        try:
            strategy = operation.as_strategy(generation_mode=mode)
        except Exception as error:  # a route of which nothing can be wrong
            print(f"{operation.label}: no {mode.value} case: {error}", file=sys.stderr)
            continue
        given_cases = settings(
            max_examples=max(cases // len(MODES), 1),
            phases=[Phase.generate],
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )(seed(number)(given(case=strategy)(tried)))
        try:
            given_cases()
        except Exception as error:
            print(f"{operation.label}: {mode.value}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("gpufleet", help="the command that is tried")
    parser.add_argument("--cases", type=int, default=1800)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    counts: Counter[int] = Counter()
    found: list[str] = []
    with serving(asked.gpufleet) as address:
        schema = schemathesis.openapi.from_url(f"{address}/api/v1/openapi.json")
        operations = [each.ok() for each in schema.get_all_operations()]
        for operation in operations:
            found += faults(operation, address, -(-asked.cases // len(operations)), asked.seed, counts)
    print(*found, sep="\n")
    shares = ", ".join(f"{status}: {count}" for status, count in sorted(counts.items()))
    print(f"{counts.total():,} cases of seed {asked.seed}, {len(found)} faults. Replies: {shares}.")
    return 1 if found or counts.total() < asked.cases / 2 else 0


if __name__ == "__main__":
    sys.exit(main())
