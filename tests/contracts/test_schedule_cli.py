"""`gpufleet schedule` as it is typed: a page, a picture, files of three tools, one message for every mistake."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conftest import REPOSITORY

import gpufleet
from gpufleet.api.encoder_batches import plan_encoder_batch
from gpufleet.cli import main
from gpufleet.errors import UsageError
from gpufleet.results.schedule import ScheduledRun, SchedulePlan

LAB = REPOSITORY / "examples" / "jobs" / "lab-week.yaml"
SMALL = """
start: 2026-11-30 08:00
slot: 30min
pools:
  lab: {gpu: A100-80GB, gpus: 4, maintenance: [{from: 4h, to: 6h}]}
  cloud: {gpu: H100, gpus: 16, kind: spot, price: 2.00/h}
jobs:
  - {name: train, work: 4h, gpus: 4, on: lab, deadline: 5h, command: "python train.py --lr '1e-4' $HOME"}
  - {name: urgent, work: 2h, gpus: 2, on: lab, deadline: 2h, priority: 5}
  - {name: eval, work: 1h, gpus: 0.5, on: lab, after: [train], deadline: 2026-11-30 22:00, image: registry/eval:1}
  - name: wide
    options: [{gpus: 16, on: cloud, work: 2h}, {gpus: 4, on: lab, work: 9h}]
    deadline: 6h
    preemptible: yes
"""
ONE = "pools: {a: {gpu: L4, gpus: 2}}\njobs:\n"
STEPS = ("--steps", "500")
Ask = Callable[..., "tuple[int, str, str]"]


@pytest.fixture
def ask_of(capsys: pytest.CaptureFixture[str]) -> Ask:
    """The exit code, what is printed and what is said of a file."""

    def asked(file: Path, *words: str) -> tuple[int, str, str]:
        code = main(["schedule", str(file), *words])
        told = capsys.readouterr()
        return code, told.out, told.err

    return asked


@pytest.fixture
def ask(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    """The exit code, what is printed and what is said of a text of jobs."""

    def asked(text: str, *words: str) -> tuple[int, str, str]:
        file = tmp_path / "jobs.yaml"
        file.write_text(text, encoding="utf-8")
        code = main(["schedule", str(file), *STEPS, *words])
        told = capsys.readouterr()
        return code, told.out, told.err

    return asked


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> SchedulePlan:
    """The small question answered in Python."""
    file = tmp_path_factory.mktemp("jobs") / "jobs.yaml"
    file.write_text(SMALL, encoding="utf-8")
    return gpufleet.plan_schedule(file, steps=500)


def run_of(plan: SchedulePlan, job: str) -> ScheduledRun:
    return next(run for run in plan.runs if run.job == job)


def test_the_page_has_bars_reasons_and_what_a_gpu_more_is_worth_at_eighty_columns(ask: Ask) -> None:
    code, said, complaint = ask(SMALL)
    assert (code, complaint) == (0, "")
    lines = said.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("1 of 4 jobs late, by ")
    said = " ".join(said.split())
    for part in (
        "█",
        "Proven: no schedule",
        "maintenance of lab ends then",
        "one GPU more saves",
        "train is done then",
    ):
        assert part in said


def test_what_counts_most_is_in_time_and_every_run_says_why(plan: SchedulePlan) -> None:
    assert plan.is_optimal
    assert run_of(plan, "urgent").late_s == 0
    assert run_of(plan, "train").late_s == pytest.approx(5 * 3600)
    assert run_of(plan, "train").why_now.code == "schedule_maintenance"
    assert run_of(plan, "eval").start_s >= run_of(plan, "train").end_s
    assert run_of(plan, "wide").why_there.code == "schedule_others_late"
    assert (run_of(plan, "wide").pool, run_of(plan, "wide").usd) == ("cloud", pytest.approx(16 * 2 * 2.5, rel=0.21))


def test_a_gpu_more_is_worth_what_it_saves(plan: SchedulePlan, tmp_path: Path) -> None:
    file = tmp_path / "more.yaml"
    text = SMALL.replace("gpus: 4, maintenance", "gpus: 6, maintenance")
    file.write_text(text, encoding="utf-8")
    assert gpufleet.plan_schedule(file, steps=500).late_weighted_hours == 0.0
    lab = next(pool for pool in plan.pools if pool.pool == "lab")
    assert lab.one_more is not None
    assert lab.one_more.is_sure
    assert lab.one_more.late_weighted_hours == 0.0  # five GPUs do not hold a gang of four beside two either


def test_a_gpu_more_is_not_priced_where_a_longer_search_may_save_as_much(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the solver nothing proves that the jobs must be late."""
    monkeypatch.setattr("gpufleet.optimize.schedule.best.is_installed", lambda: False)
    _, said, _ = ask(SMALL, "-o", "json")
    unproved = SchedulePlan.model_validate_json(said)
    assert unproved.late_weighted_hours > unproved.least_late_weighted_hours
    assert all(pool.one_more is None for pool in unproved.pools)
    _, page, _ = ask(SMALL)
    assert "late hours (as found)" not in page
    assert "One GPU more is not priced, as the search is not done: --time-limit 60s" in " ".join(page.split())


def test_the_answer_is_read_back_from_its_json(ask: Ask, plan: SchedulePlan) -> None:
    _, said, _ = ask(SMALL, "-o", "json")
    assert SchedulePlan.model_validate_json(said) == plan


def test_at_once_is_earliest_deadline_first(ask: Ask) -> None:
    _, said, _ = ask(SMALL, "--at-once", "-o", "json")
    told = json.loads(said)
    assert told["late_weighted_hours"] == told["edf_late_weighted_hours"]
    assert told["found_by"] == "edf"


def test_the_picture_has_a_bar_for_each_job(ask: Ask) -> None:
    _, said, _ = ask(SMALL, "-o", "svg")
    space = "{http://www.w3.org/2000/svg}"
    bars = [r for r in ElementTree.fromstring(said).iter(f"{space}rect") if r.get("class") in ("run", "late")]
    assert len(bars) == 4


def test_a_picture_of_thousands_is_refused_for_what_it_is(ask: Ask) -> None:
    many = ONE + "".join(f"  - {{name: x{n}, work: 1h}}\n" for n in range(401))
    code, _, complaint = ask(many, "--at-once", "-o", "svg")
    assert code == 2
    assert "too many bars for a picture; found '401 jobs'; expected up to 400" in " ".join(complaint.split())


def test_a_page_says_its_month_and_one_of_weeks_the_month_of_every_day(ask: Ask) -> None:
    start = "start: 2026-11-30 08:00\n" + ONE
    _, week, _ = ask(start + "  - {name: x, work: 30h, gpus: 2}")
    assert "done Tue 01 Dec 2026 14:00" in week
    assert "Jobs from Mon 30 Nov 2026 08:00" in week
    _, months, _ = ask(start + "".join(f"  - {{name: x{n}, work: 20d, gpus: 2}}\n" for n in range(2)))
    assert "20 Dec 08:00" in months


def test_deadlines_that_nobody_could_keep_are_named(ask: Ask) -> None:
    jobs = "  - {name: past, work: 1h, deadline: 2020-01-01}\n  - {name: early, work: 1h, earliest: 9h, deadline: 2h}"
    _, page, _ = ask("start: 2026-11-30 08:00\n" + ONE + jobs)
    page = " ".join(page.split())
    assert "Due before the schedule begins, so late in any case: past." in page
    assert "Due before they may begin, by 'earliest', so late in any case: early." in page


def test_a_page_shows_some_jobs_and_csv_all(ask: Ask) -> None:
    many = ONE + "".join(f"  - {{name: x{n}, work: 1h, deadline: {n + 1}h}}\n" for n in range(70))
    _, page, _ = ask(many, "--at-once")
    assert "10 further jobs" in page
    _, rows, _ = ask(many, "--at-once", "-o", "csv")
    assert len(rows.splitlines()) == 71


def test_without_the_solver_a_search_answers_and_says_what_to_install(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpufleet.api.schedule.is_installed", lambda: False)
    code, said, _ = ask(SMALL)
    assert code == 0
    assert "OR-Tools is not installed" in said
    assert "pip install 'gpu-fleet-optimizer[solve]'" in " ".join(said.split())


SKY_RESOURCES = {"accelerators": dict, "use_spot": bool}


def test_tasks_of_skypilot_have_every_way_as_any_of(ask: Ask) -> None:
    """Fields and types as its schema has them; its own parser reads them too where it is installed."""
    _, said, _ = ask(SMALL, "-o", "sky")
    tasks = {task["name"]: task for task in yaml.safe_load_all(said)}
    assert set(tasks) == {"train", "urgent", "eval", "wide"}
    for task in tasks.values():
        assert set(task) == {"name", "num_nodes", "resources", "run"}
        assert set(task["resources"]) <= {"any_of", "image_id"}
        for option in task["resources"]["any_of"]:
            assert {key: type(value) for key, value in option.items()} == SKY_RESOURCES
    assert tasks["wide"] == {
        "name": "wide",
        "num_nodes": 2,
        "resources": {"any_of": [{"accelerators": {"H100": 8}, "use_spot": True}]},
        "run": "echo 'Put the command of wide here'",
    }
    assert tasks["train"]["run"] == "python train.py --lr '1e-4' $HOME"
    _, alone, _ = ask(SMALL, "-o", "sky", "--job", "eval")
    assert yaml.safe_load(alone) == tasks["eval"]


def test_skypilot_itself_reads_its_tasks(ask: Ask) -> None:
    sky = pytest.importorskip("sky")
    _, said, _ = ask(SMALL, "-o", "sky")
    assert len([sky.Task.from_yaml_config(task) for task in yaml.safe_load_all(said)]) == 4


KUEUE = "kueue.x-k8s.io/v1beta2"
NAMES = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
SPECS = {
    "ResourceFlavor": {"nodeLabels"},
    "ClusterQueue": {"namespaceSelector", "queueingStrategy", "resourceGroups"},
    "LocalQueue": {"clusterQueue"},
    "Job": {"suspend", "parallelism", "completions", "completionMode", "template"},
}


def test_manifests_of_kueue_fit_each_other_and_the_documentation(ask: Ask) -> None:
    """kueue.sigs.k8s.io: flavours that the queue names, quotas in the order of what is covered, suspended jobs."""
    _, said, _ = ask(SMALL, "-o", "kueue")
    assert said.startswith("# Kueue keeps no times")
    manifests = list(yaml.safe_load_all(said))
    of = {kind: [m for m in manifests if m["kind"] == kind] for kind in [*SPECS, "WorkloadPriorityClass"]}
    assert sum(map(len, of.values())) == len(manifests)
    for manifest in manifests:
        assert NAMES.fullmatch(manifest["metadata"]["name"])
        assert manifest["apiVersion"] == ("batch/v1" if manifest["kind"] == "Job" else KUEUE)
        assert set(manifest.get("spec", {})) == SPECS.get(manifest["kind"], set())
    [queue], [local] = of["ClusterQueue"], of["LocalQueue"]
    [group] = queue["spec"]["resourceGroups"]
    assert [flavour["name"] for flavour in group["flavors"]] == [m["metadata"]["name"] for m in of["ResourceFlavor"]]
    for flavour in group["flavors"]:
        assert [resource["name"] for resource in flavour["resources"]] == group["coveredResources"]
    assert local["spec"]["clusterQueue"] == queue["metadata"]["name"]
    classes = {m["metadata"]["name"]: m["value"] for m in of["WorkloadPriorityClass"]}
    assert group["coveredResources"] == ["nvidia.com/gpu"]  # of CPUs and memory nothing is known
    for job in of["Job"]:
        labels, spec = job["metadata"]["labels"], job["spec"]
        assert labels["kueue.x-k8s.io/queue-name"] == local["metadata"]["name"]
        assert labels["kueue.x-k8s.io/priority-class"] in classes
        [container] = spec["template"]["spec"]["containers"]
        assert set(container["resources"]["requests"]) == set(group["coveredResources"])
        assert spec["suspend"] is True
    wide = next(job for job in of["Job"] if job["metadata"]["name"] == "wide")
    [container] = wide["spec"]["template"]["spec"]["containers"]
    assert wide["spec"]["parallelism"] * container["resources"]["requests"]["nvidia.com/gpu"] == 16


def sbatch() -> argparse.ArgumentParser:
    """The options of slurm.schedmd.com/sbatch.html that are used, with the values that it takes."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("--parsable", action="store_true", required=True)
    requeue = parser.add_mutually_exclusive_group()
    requeue.add_argument("--requeue", action="store_true")
    requeue.add_argument("--no-requeue", action="store_true")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--gpus-per-node", type=int)
    where.add_argument("--gres", type=matching(r"shard:\d+"))
    parser.add_argument("--time", type=matching(r"\d+-\d\d:\d\d:\d\d"), required=True)
    parser.add_argument("--begin", type=matching(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|now\+\d+seconds"), required=True)
    parser.add_argument("--dependency", type=matching(r"afterok(:\$\{id_\d+\})+"))
    for option in ("--nodes", "--ntasks-per-node"):
        parser.add_argument(option, type=int, required=True)
    for option in ("--job-name", "--partition", "--wrap"):
        parser.add_argument(option, required=True)
    return parser


def matching(pattern: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(text)
        return text

    return read


def test_lines_of_sbatch_have_the_options_that_it_documents(ask: Ask, tmp_path: Path) -> None:
    _, said, _ = ask(SMALL, "-o", "slurm")
    jobs: dict[str, Any] = {}
    ids = set()
    for line in [line for line in said.splitlines() if "sbatch" in line and not line.startswith("#")]:
        held = re.fullmatch(r"(id_\d+)=\$\((.*)\)", line)
        ids |= {held[1]} if held else set()
        words = shlex.split(held[2] if held else line)
        assert words[0] == "sbatch"
        told = sbatch().parse_args(words[1:])
        jobs[told.job_name] = told
        assert told.dependency is None or set(re.findall(r"id_\d+", told.dependency)) <= ids
    assert set(jobs) == {"train", "urgent", "eval", "wide"}
    assert jobs["train"].wrap == "python train.py --lr '1e-4' $HOME"
    assert (jobs["eval"].gres, jobs["eval"].nodes) == ("shard:50", 1)
    wide = jobs["wide"]
    assert (wide.nodes, wide.ntasks_per_node, wide.gpus_per_node, wide.requeue) == (2, 1, 8, True)
    assert shlex.split(wide.wrap) == ["srun", "sh", "-c", "echo 'Put the command of wide here'"]
    script = tmp_path / "jobs.sh"
    script.write_text(said, encoding="utf-8")
    assert subprocess.run([shutil.which("sh") or "sh", "-n", str(script)], check=False).returncode == 0


def test_a_limit_of_slurm_ends_where_maintenance_begins(ask: Ask, ask_of: Ask, tmp_path: Path) -> None:
    """Slurm begins no job whose limit reaches into a reservation: a high end of a duration would keep it waiting."""
    _, said, _ = ask(SMALL, "-o", "json")
    answer = json.loads(said)
    urgent = next(run for run in answer["runs"] if run["job"] == "urgent")
    urgent["work"]["high"] = 9 * 3600.0
    file = tmp_path / "answer.json"
    file.write_text(json.dumps(answer), encoding="utf-8")
    _, script, _ = ask_of(file, "-o", "slurm")
    line = next(line for line in script.splitlines() if "--job-name=urgent" in line)
    assert "--time=0-04:00:00" in line
    assert urgent["pieces"][0]["start_s"] == 0


def test_a_saved_answer_is_written_for_a_tool_without_another_search(ask: Ask, ask_of: Ask, tmp_path: Path) -> None:
    _, said, _ = ask(SMALL, "-o", "json")
    _, direct, _ = ask(SMALL, "-o", "slurm")
    file = tmp_path / "answer.json"
    file.write_text(said, encoding="utf-8")
    code, script, _ = ask_of(file, "-o", "slurm")
    assert (code, script) == (0, direct)
    file.write_text(json.dumps(json.loads(said) | {"exit_code": 10**15, "verdict": "x"}), encoding="utf-8")
    code, again, _ = ask_of(file, "-o", "json")
    assert (code, json.loads(again)) == (0, json.loads(said)), "how it ends is judged anew"
    broken = said.replace('"slot_s"', '"slot"', 1)
    file.write_text(broken, encoding="utf-8")
    code, _, complaint = ask_of(file, "-o", "slurm")
    assert code == 2
    assert "is not a schedule: slot_s" in " ".join(complaint.split())


WRONG = [
    ("", 2, "cannot read a file of jobs"),
    ("jobs: []", 2, "has no pools"),
    ("pools: {a: {gpu: L4, gpus: 2}}", 2, "has no jobs"),
    ("pools: {a: {gpu: L4, gpus: 2}}\njobs: []", 2, "expected 'jobs:'"),
    (ONE + "  - {name: x, work: 1h", 2, "cut off"),
    (ONE + "  - {name: x, wrok: 1h}", 2, "Did you mean work"),
    ("pols: {}\n" + ONE + "  - {name: x, work: 1h}", 2, "Did you mean pools"),
    (ONE + "  - {name: x, work: 0h}", 2, "must be positive"),
    (ONE + "  - {name: x}", 2, "nothing says how long it takes"),
    (ONE + "  - {name: x, work: 1h, gpus: 1.5}", 2, "a whole number"),
    (ONE + "  - {name: x, batch: {model: llama-3.1-8b, requests: 3k, in: 400}}", 2, "'out' is missing; expected 'out:"),
    (ONE + "  - {name: x, work: 1h, on: b}", 2, "unknown pool or type of GPU 'b'"),
    (ONE + "  - {name: x, work: 1h}\n  - {name: x, work: 1h}", 2, "two jobs are called 'x'"),
    (ONE + "  - {name: x, work: 1h, after: [yy]}", 2, "unknown job to come after"),
    (ONE + "  - {name: x, work: 1h, deadline: 2026-12-01 08:00}", 2, "has no start"),
    (ONE + "  - {name: x, work: 1h, priority: -1}", 2, "the priority is out of range"),
    ("pools: {a: {gpu: L4, gpus: 2, kind: spot, price: -1/h}}\njobs: [{name: x, work: 1h}]", 2, "a price must be"),
    ("pools: {a: {gpu: L4, gpus: 2, kind: on-demand}}\njobs: [{name: x, work: 1h}]", 2, "has no price"),
    ("pools: {a: {gpu: L4, gpus: 2, price: {0-8: 1/h}}}\njobs: [{name: x, work: 1h}]", 2, "have no price"),
    ("pools: {a: {gpu: L5, gpus: 2}}\njobs: [{name: x, work: 1h}]", 2, "unknown GPU"),
    ("pools: {a: {gpu: L4, gpus: 0}}\njobs: [{name: x, work: 1h}]", 2, "out of range"),
    (ONE + "  - {name: x, work: 1h, gpus: 8}", 3, "It can with 8 GPUs in a"),
    (ONE + "  - {name: x, work: 1h, after: [y]}\n  - {name: y, work: 1h, after: [x]}", 3, "without 'after: y' of x"),
    (ONE + "  - {name: x, work: 1h, after: [x]}", 3, "waits for itself"),
    ("pools: {a: {gpu: L4, gpus: 2, power_cap: 100W, watts: 72W}}\njobs: [{name: x, work: 1h, gpus: 2}]", 3, "144 W"),
    ("pools: {a: {gpu: L4, gpus: 2, kind: spot, price: 1/h}}\njobs: [{name: x, work: 1h}]", 3, "'preemptible: yes'"),
    ("budget: 1\npools: {a: {gpu: L4, gpus: 2, kind: on-demand, price: 1/h}}\njobs: [{name: x, work: 3h}]", 3, "$3.00"),
]


@pytest.mark.parametrize(("text", "code", "said"), WRONG)
def test_a_mistake_is_told_in_one_sentence(ask: Ask, text: str, code: int, said: str) -> None:
    found, out, err = ask(text)
    told = " ".join((out + err).split())
    assert found == code, told
    assert said in told
    assert "Traceback" not in told


def test_a_deadline_that_is_past_makes_a_job_late_and_nothing_worse(ask: Ask) -> None:
    text = "start: 2026-11-30 08:00\n" + ONE + "  - {name: x, work: 1h, deadline: 2026-11-29 08:00}"
    code, said, _ = ask(text, "-o", "json")
    assert (code, json.loads(said)["late_weighted_hours"]) == (0, pytest.approx(25.0))


def test_a_pause_straddles_maintenance(ask: Ask) -> None:
    pools = "pools: {a: {gpu: L4, gpus: 1, maintenance: [{from: 2h, to: 3h}]}}\n"
    text = pools + "slot: 30min\njobs: [{name: x, work: 4h, deadline: 6h, preemptible: yes, restart: 30min}]"
    _, said, _ = ask(text, "-o", "json")
    [run] = json.loads(said)["runs"]
    assert run["pieces"] == [{"start_s": 0.0, "end_s": 7200.0}, {"start_s": 10800.0, "end_s": 19800.0}]
    assert run["late_s"] == 0


def test_models_tell_how_long_jobs_take_on_each_number_of_gpus() -> None:
    plan = gpufleet.plan_schedule(LAB, at_once=True)
    tune, label = run_of(plan, "tune-8b-support"), run_of(plan, "label-mon")
    by_gpus = {option.gpus: option.work_s for option in tune.options}
    assert by_gpus[2] > by_gpus[4] > by_gpus[8]
    direct = gpufleet.plan_finetune("llama-3.1-8b", tokens="400M", gpus=["A100-80GB:4"]).answer.finish_s
    assert by_gpus[4] == pytest.approx(direct.value)
    assert tune.work.low is not None
    assert label.work.high is not None
    assert label.work.high > label.work.value
    assert len(plan.runs) == 40


def test_a_job_of_an_encoder_takes_as_long_as_its_plan_says(tmp_path: Path) -> None:
    """One replica takes what the plan says that it works, after its start; two share the inputs."""
    file = tmp_path / "jobs.yaml"
    text = ONE + "  - {name: x, batch: {model: bge-base-en-v1.5, requests: 1M, in: 400}, gpus: [1, 2]}"
    file.write_text(text, encoding="utf-8")
    by_gpus = {o.gpus: o.work_s for o in run_of(gpufleet.plan_schedule(file, at_once=True), "x").options}
    asked = {"requests": "1M", "input_tokens": "400", "deadline": "365d", "gpus": ["L4"]}
    direct = plan_encoder_batch("bge-base-en-v1.5", **asked)
    work_s = direct.answer.work_s * direct.answer.replicas
    assert by_gpus[1] == pytest.approx(direct.startup_s + work_s)
    assert by_gpus[2] == pytest.approx(direct.startup_s + work_s / 2)


def test_no_time_to_search_is_what_is_found_at_once_and_workers_need_a_limit() -> None:
    jobs = str(REPOSITORY / "examples" / "jobs" / "lab-week.yaml")
    none, at_once = (gpufleet.plan_schedule(jobs, **said) for said in ({"time_limit_s": "0"}, {"at_once": True}))
    assert [run.start_s for run in none.runs] == [run.start_s for run in at_once.runs]
    with pytest.raises(UsageError, match="--workers are of --time-limit"):
        gpufleet.plan_schedule(jobs, workers=4)
