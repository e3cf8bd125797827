"""Workload files that nobody meant: ten thousand of them, and never a traceback."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from gpufleet.api.demands import demand_of, purse_of
from gpufleet.cli import main
from gpufleet.cli.plan_answers import ServeFlags, fleet_requests, serve_request
from gpufleet.errors import GpufleetError
from gpufleet.inputs.workload import WorkloadFile, parse_workload

SEEDS = (
    """model: llama-3.1-8b
rate: 20/s
in: {mean: 1000, p95: 4000}
out: 300
slo: [ttft.p95<500ms, "tpot.p95<40ms"]
precision: [fp8, bf16]
clouds: aws, gcp
regions: [us-east-1]
gpus: [H100, L40S]
pricing: [on_demand, spot]
headroom: 20%
min_replicas: 2
spare_machines: 1
prefix_cache: 30%
prefix_kv: 10%
off_peak: 5/s
peak_hours: 10h
budget: 60/h
max_spot: 50%
""",
    """model: llama-3.1-8b
rate: 20/s
zones: 3
classes:
  chat: {share: 80%, in: 1000, out: 300, slo: "ttft.p95<500ms", prefix_cache: 30%}
  long: {share: 20%, in: {p50: 6000, p95: 20000}, out: {p50: 300, p95: 900}, slo: latency.p95<60s}
""",
    """clouds: [aws]
budget: 100/h
engine: vllm
models:
  - {model: llama-3.1-8b, rate: 5/s, in: 1000, out: 200}
  - model: qwen3-32b
    classes: {a: {rate: 2/s, in: 8k, out: 1k}, b: {rate: 1/min, in: 1, out: 1}}
""",
)
PIECES = (
    "", " ", "\n", "  ", ":", ",", "-", "[", "]", "{", "}", "'", '"', "%", "#", "&a", "*a", "!x", "|", ">", "?", "\x00",
    "\t", "null", "~", "0", "-1", "1e999", "nan", "inf", "1_0", "1,5", "é", "½", "\u202e", "model", "classes", "models",
    "trace", "in", "share", "rate", "mean=", "p95", "<", "=", "/s", "/", "h", "999999999999", "0.0000001", "100%",
)  # fmt: skip
NUM_FILES, NUM_ASKED, MOST_SECONDS = 10_000, 120, 30.0


def mangled(dice: random.Random) -> str:
    """One of the seeds with a few pieces cut out, put in, doubled or swapped."""
    text = dice.choice(SEEDS)
    for _ in range(dice.randint(1, 5)):
        at, length = dice.randrange(len(text) + 1), dice.randint(0, 12)
        what = dice.random()
        if what < 0.5:
            text = text[:at] + dice.choice(PIECES) + text[at + length // 3 :]
        elif what < 0.7:
            text = text[:at] + text[at + length :]
        elif what < 0.85:
            text = text[:at] + text[at : at + length] * dice.randint(2, 4) + text[at + length :]
        else:
            lines = text.splitlines(keepends=True)
            dice.shuffle(lines)
            text = "".join(lines)
    return text


def test_a_workload_file_mangled_10_000_times_never_gives_a_traceback() -> None:
    """Up to the question that is put to the planner; a message is one line with what was found."""
    dice, start, asked = random.Random(20260801), time.process_time(), 0
    flags, messages = ServeFlags(None, False, 10), []
    for _ in range(NUM_FILES):
        text = mangled(dice)
        try:
            written = parse_workload(text)
            for request in requests_of(written, flags):
                assert demand_of(request).workload.rate_requests_per_s > 0
                assert purse_of(request).most_usd_per_hour > 0
            asked += 1
        except GpufleetError as error:
            messages.append(str(error))
    assert asked + len(messages) == NUM_FILES
    assert asked > NUM_FILES / 100
    assert len(messages) > NUM_FILES / 3
    assert all(10 < len(message) < 1000 for message in messages)
    assert time.process_time() - start < MOST_SECONDS


def test_what_a_mangled_file_asks_is_answered_or_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dice, path = random.Random(7), tmp_path / "mangled.yaml"
    codes = set()
    for _ in range(NUM_ASKED):
        path.write_bytes(mangled(dice).encode("utf-8"))
        codes.add(code := main(["plan", "serve", "--workload", str(path)]))
        said = capsys.readouterr().err
        assert "our bug" not in said
        assert said.count("\n") == (0 if code in (0, 3) and not said else 1)
    assert codes <= {0, 2, 3, 5}
    assert codes >= {0, 2}


def requests_of(written: WorkloadFile, flags: ServeFlags) -> list:
    """What a file asks; traces are not looked for."""
    if written.trace is not None or any(c.trace for c in written.classes or ()):
        return []
    if written.models is not None:
        return fleet_requests(WorkloadFile(), written, WorkloadFile(), flags)
    return [serve_request(WorkloadFile(), written, WorkloadFile(), flags)]
