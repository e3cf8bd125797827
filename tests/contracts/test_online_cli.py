"""`gpufleet schedule --online` as it is typed: policies side by side, traces, streams, a message for each mistake."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import gpufleet
from gpufleet.cli import main
from gpufleet.results.schedule import OnlineSchedule

QUEUE = """
pools: {a: {gpu: L4, gpus: 2}, c: {gpu: L4, gpus: 4, kind: on-demand, price: 0.8/h}}
jobs:
- {name: x, work: 4h, gpus: 2, on: a, deadline: 5h, preemptible: yes, user: ann}
- {name: y, work: 1h, earliest: 1h, deadline: 2.5h, on: [a, c], user: ben}
- {name: z, work: 1h, earliest: 1h, deadline: 8h, on: [a, c], gpus: 2, user: ben}
"""
POOL = "pools: {a: {gpu: L4, gpus: 2}}\n"
TRACE = "arrival_s,gpus,duration_s,deadline_s,weight,user,preemptible\n100,1,3600,7300,2,ann,yes\n100,2,1800,,,ben,no\n"
PODS = (
    "name,num_gpu,gpu_milli,qos,creation_time,scheduled_time,deletion_time\n"
    "a,1,460,LS,50,60,3660\nb,0,0,LS,50,60,3660\nc,2,1000,BE,80,90,1890\nd,1,1000,BE,80,,\n"
)
Ask = Callable[..., "tuple[int, str, str]"]


@pytest.fixture
def ask(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    """The exit code, what is printed and what is said of a text of jobs."""

    def asked(text: str, *words: str, trace: str | None = None) -> tuple[int, str, str]:
        (tmp_path / "jobs.yaml").write_text(text, encoding="utf-8")
        more = []
        if trace is not None:
            (tmp_path / "trace.csv").write_text(trace, encoding="utf-8")
            more = ["--trace", str(tmp_path / "trace.csv")]
        code = main(["schedule", str(tmp_path / "jobs.yaml"), *more, *words])
        told = capsys.readouterr()
        return code, told.out, told.err

    return asked


def read(text: str) -> OnlineSchedule:
    return OnlineSchedule.model_validate_json(text)


def test_the_page_names_the_best_and_why_at_eighty_columns(ask: Ask) -> None:
    code, said, complaint = ask(QUEUE, "--online", "all")
    assert (code, complaint) == (0, "")
    lines = said.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("ours is best: 0.200 late hours by priority against 1.20 ")
    assert [line.split()[0] for line in lines if line.startswith("> ")] == [">"]
    assert "Jain's index of the slowdown of users" in " ".join(said.split())


def test_figures_are_those_computed_by_hand(ask: Ask) -> None:
    """x runs one hour, pauses for y and goes on with its restart of 12 min; z waits for it."""
    _, said, _ = ask(QUEUE, "--online", "fifo,ours", "-o", "json")
    replay = read(said)
    ours, fifo = replay.of("ours"), replay.of("fifo")
    assert (ours.preemptions, ours.late_weighted_hours) == (1, pytest.approx(0.2))
    assert ours.mean_completion_s == pytest.approx((5.2 + 1.0 + 5.2) / 3 * 3600)
    assert fifo.mean_completion_s == pytest.approx((4 + 4 + 5) / 3 * 3600)
    assert (fifo.late_weighted_hours, fifo.late_jobs, fifo.usd) == (2.5, 1, 0.0)
    assert fifo.used_ratio == pytest.approx((8 + 1 + 2) / 12)
    assert (replay.best, replay.runner_up, replay.users) == ("ours", "fifo", 2)


def test_who_bursts_rents_for_what_would_be_late(ask: Ask) -> None:
    _, said, _ = ask(QUEUE, "--online", "fifo", "--burst", "-o", "json")
    fifo = read(said).of("fifo")
    assert (fifo.late_jobs, fifo.usd) == (0, pytest.approx(0.8))
    _, page, _ = ask(QUEUE, "--online", "fifo", "--burst")
    assert "$0.80" in page


def test_csv_has_a_row_for_each_policy(ask: Ask) -> None:
    _, said, _ = ask(QUEUE, "--online", "sjf", "--online", "las", "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(said)))
    assert [row["policy"] for row in rows] == ["sjf", "las"]
    assert float(rows[0]["late_weighted_hours"]) == 2.5


def test_a_trace_takes_the_place_of_the_jobs(ask: Ask) -> None:
    _, said, _ = ask(POOL, "--online", "sjf", "-o", "json", trace=TRACE)
    short, long = read(said).of("sjf").runs[1], read(said).of("sjf").runs[0]
    assert (short.user, short.pieces[0].start_s, long.pieces[0].start_s) == ("ben", 0.0, 1800.0)
    assert (long.arrival_s, long.late_s) == (0.0, 0.0)  # from the first arrival on; due at 7,200 s


def test_pods_of_alibaba_are_read_as_they_are(ask: Ask) -> None:
    _, said, _ = ask(POOL, "--online", "fifo", "-o", "json", trace=PODS)
    runs = read(said).of("fifo").runs
    assert [(run.gpus, run.user, run.arrival_s) for run in runs] == [(0.46, "LS", 0.0), (2.0, "BE", 30.0)]
    assert runs[1].pieces[0].start_s == 3600.0


def test_jobs_take_less_or_more_than_expected_by_seed(ask: Ask) -> None:
    exact, wide, other = (
        read(ask(QUEUE, "--online", "fifo", "-o", "json", *words)[1]).of("fifo").makespan_s
        for words in ((), ("--spread", "20%"), ("--spread", "20%", "--seed", "1"))
    )
    assert len({exact, wide, other}) == 3
    assert max(abs(wide / exact - 1), abs(other / exact - 1)) <= 0.2


def test_a_stream_of_requests_is_a_job_each_period(tmp_path: Path) -> None:
    """10,000 requests an hour: as long as plan batch says of so many, arriving at the end of their hour."""
    stream = "{model: llama-3.1-8b, requests_per_hour: 10000, in: 500, out: 50, every: 1h, within: 2h, lasts: 3h}"
    file = tmp_path / "jobs.yaml"
    file.write_text(f"{POOL}jobs:\n- {{name: s, stream: {stream}, earliest: 6h}}\n", encoding="utf-8")
    replay = gpufleet.replay_schedule(file, online=["edf"])
    runs = replay.of("edf").runs
    assert [(run.job, run.arrival_s / 3600) for run in runs] == [("s-1", 7.0), ("s-2", 8.0), ("s-3", 9.0)]
    planned = gpufleet.plan_schedule(file, at_once=True)
    assert [run.deadline_s for run in planned.runs] == [9 * 3600.0, 10 * 3600.0, 11 * 3600.0]
    batch = gpufleet.plan_batch(
        "llama-3.1-8b", requests=10000, input_tokens=500, output_tokens=50, deadline="365d", gpus=["L4"]
    )
    one = batch.startup_s + batch.answer.work_s * batch.answer.replicas
    assert runs[0].completion_s == pytest.approx(one, rel=1e-6)


@pytest.mark.parametrize(
    ("text", "words", "trace", "part"),
    [
        (QUEUE, ("--online", "ejf"), None, "unknown policy"),
        (QUEUE, ("--spread", "20%"), None, "--spread is of --online alone"),
        (QUEUE, ("--burst",), None, "--burst is of --online alone"),
        (QUEUE, ("--online", "all", "-o", "slurm"), None, "no tool"),
        (QUEUE, ("--online", "all", "-o", "svg"), None, "drawn by nobody"),
        (POOL, ("--online", "all"), None, "has no jobs"),
        (POOL, ("--online", "all"), "a,b\n1,2\n", "lacks columns"),
        (POOL, ("--online", "all"), "arrival_s,gpus,duration_s\n", "holds 0 jobs"),
        (POOL, ("--online", "all"), "arrival_s,gpus,duration_s\n1,1\n", "wrong number of cells"),
        (POOL, ("--online", "all"), "arrival_s,gpus,duration_s\n1,1,-5\n", "duration_s cannot be read"),
        (POOL, ("--online", "all"), "arrival_s,gpus,duration_s\n1,1,nan\n", "duration_s cannot be read"),
        (POOL, ("--online", "all"), "arrival_s,gpus,duration_s\n1,8,60\n", "needs 8 GPUs"),
        (POOL + "jobs: [{name: s, stream: {model: llama-3.1-8b, in: 5, out: 5}}]", ("--online", "all"), None,
         "no requests"),
        (POOL + "jobs: [{name: x, work: 1h, after: [y]}, {name: y, work: 1h, after: [x]}]", ("--online", "all"), None,
         "wait for each other"),
    ],
)  # fmt: skip
def test_every_mistake_has_one_message(
    ask: Ask, text: str, words: tuple[str, ...], trace: str | None, part: str
) -> None:
    code, said, complaint = ask(text, *words, trace=trace)
    assert code in (2, 3)
    assert said == ""
    assert part.lower() in " ".join(complaint.lower().split())


def test_json_is_read_back_by_its_class(ask: Ask) -> None:
    _, said, _ = ask(QUEUE, "--online", "backfill", "-o", "json")
    assert json.loads(read(said).model_dump_json()) == json.loads(said)
