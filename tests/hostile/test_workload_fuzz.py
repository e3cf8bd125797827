"""Workload files that nobody meant: thousands of them, and never a traceback."""

from __future__ import annotations

import random
import time

from tests.effort import cases
from tests.hostile.mutations import mangled, other_lines, other_number
from tests.hostile.valid_questions import CLASSES, FLEET, SERVICE

from gpufleet.api.demands import demand_of, purse_of
from gpufleet.catalog.models import shipped_architecture
from gpufleet.cli.plan_answers import fleet_requests, serve_request
from gpufleet.cli.plan_words import ServeFlags
from gpufleet.errors import GpufleetError
from gpufleet.inputs.workload import WorkloadFile, parse_workload

SEEDS = (SERVICE, CLASSES, FLEET)
LLAMA = shipped_architecture("llama-3.1-8b")
NUM_FILES, MOST_SECONDS = cases(2_500, 10_000), 60.0


def mangled_often(dice: random.Random) -> str:
    """One of the seeds with a few pieces cut out, put in, doubled or swapped."""
    text = dice.choice(SEEDS)
    for _ in range(dice.randint(1, 5)):
        text = dice.choice((mangled, mangled, mangled, other_lines, other_number))(text, dice)
    return text


def test_a_workload_file_mangled_thousands_of_times_never_gives_a_traceback() -> None:
    """Up to the question that is put to the planner; a message is one line with what was found."""
    dice, start, asked = random.Random(20260801), time.process_time(), 0
    flags, messages = ServeFlags(), []
    for _ in range(NUM_FILES):
        text = mangled_often(dice)
        try:
            written = parse_workload(text)
            for request in requests_of(written, flags):
                assert demand_of(request, LLAMA).workload.rate_requests_per_s > 0
                assert purse_of(request).most_usd_per_hour > 0
            asked += 1
        except GpufleetError as error:
            messages.append(str(error))
    assert asked + len(messages) == NUM_FILES
    assert asked > NUM_FILES / 100
    assert len(messages) > NUM_FILES / 3
    assert all(10 < len(message) < 1000 for message in messages)
    assert time.process_time() - start < MOST_SECONDS


def requests_of(written: WorkloadFile, flags: ServeFlags) -> list:
    """What a file asks; traces are not looked for."""
    if written.text("trace") is not None or any(c.text("trace") for c in written.classes or ()):
        return []
    if written.models is not None:
        return fleet_requests(WorkloadFile(), written, WorkloadFile(), flags)
    return [serve_request(WorkloadFile(), written, WorkloadFile(), flags)]
