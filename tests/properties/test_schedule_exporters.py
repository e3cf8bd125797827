"""Files for Slurm, SkyPilot and Kueue say what the schedule says: read back here as those tools would read them."""

from __future__ import annotations

import math
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import yaml
from tests.effort import cases

import gpufleet
from gpufleet.catalog.load import load_catalog
from gpufleet.deploy.kueue_jobs import kueue_manifests
from gpufleet.deploy.skypilot_jobs import sky_tasks
from gpufleet.deploy.slurm_jobs import slurm_script
from gpufleet.inputs.schedule_file import broken_laws
from gpufleet.results.schedule import SchedulePlan

SCHEDULES = cases(120, 300)
NASTY = ["a", "A", "a.b", "a-b", "a_b", "A.B", "a--b", "a..b", "a.-b", "a___b", "a-._b", "9", "no"]
LONG = ["x" * 63, "x" * 62 + "y", "X" * 63]
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
"""RFC 1123; host names of pods of an indexed job add their number (kubernetes.io, Job, completion mode)."""
PARTITION = re.compile(r"[A-Za-z0-9_-]+")
TASK = re.compile(r"[a-zA-Z0-9]+(?:[._-]{1,2}[a-zA-Z0-9]+)*")
"""sky/task.py, `_VALID_NAME_REGEX`."""
COMMAND = """torchrun train.py --name '{}' "$HOME" """


class Told(NamedTuple):
    """What a file says of one job: GPUs of each machine are thousandths."""

    nodes: int
    milli_gpus: int
    command: str
    after: frozenset[str]


def random_question(rng: np.random.Generator) -> dict[str, Any]:
    """Pools and jobs of names that other tools do not take as they are."""
    names = [*NASTY, *LONG, *(random_name(rng) for _ in range(6))]
    pools = rng.choice(sorted(set(names)), int(rng.integers(1, 5)), replace=False).tolist()
    jobs = rng.choice(sorted(set(names)), int(rng.integers(1, 9)), replace=False).tolist()
    return {
        "pools": {name: {"gpu": "L4", "gpus": int(rng.choice([16, 32]))} for name in pools},
        "jobs": [random_job(rng, jobs, number, pools) for number in range(len(jobs))],
    }


def random_name(rng: np.random.Generator) -> str:
    middle = "".join(rng.choice(list("aAb9._-"), int(rng.integers(0, 62))))
    return f"{rng.choice(list('aA9'))}{middle}{rng.choice(list('aA9'))}"


def random_job(rng: np.random.Generator, names: list[str], number: int, pools: list[str]) -> dict[str, Any]:
    gpus, on = float(rng.choice([0.07, 0.25, 0.28, 0.57, 1, 3, 8, 10, 12, 16])), str(rng.choice(pools))
    options = [{"gpus": 9, "on": on, "work": "99h"}, {"gpus": gpus, "on": on, "work": f"{rng.integers(1, 9)}h"}]
    job: dict[str, Any] = {"name": names[number], "options": options}
    if rng.random() < 0.7:
        job["command"] = COMMAND.format(number)
    after = [name for name in names[:number] if rng.random() < 0.2]
    return {**job, "after": after} if after else job


def scheduled(plan: SchedulePlan) -> dict[str, tuple[str, Told]]:
    """By job: its pool, and what each file has to say of it."""
    found = {}
    for run in plan.runs:
        nodes = math.ceil(run.gpus / 8)
        command = run.command or f"echo 'Put the command of {run.job} here'"
        found[run.job] = run.pool, Told(nodes, round(run.gpus * 1000) // nodes, command, frozenset(run.after))
    return found


def read_slurm(text: str, pools: list[str]) -> dict[str, tuple[str, Told]]:
    """Lines of sbatch, and the comments that say which partition a pool is."""
    partitions = {pool: pool for pool in pools}
    partitions |= dict(re.findall(r"^# Pool (\S+) is partition (\S+)\.$", text, re.MULTILINE))
    assert len({name.lower() for name in partitions.values()}) == len(pools)
    assert all(PARTITION.fullmatch(name) for name in partitions.values())
    pool_of = {name: pool for pool, name in partitions.items()}
    found, ids = {}, dict[str, str]()
    for line in [line for line in text.splitlines() if "sbatch" in line and not line.startswith("#")]:
        held = re.fullmatch(r"(id_\d+)=\$\((.*)\)", line)
        words = shlex.split(held[2] if held else line)
        options = dict(word.removeprefix("--").split("=", 1) for word in words if "=" in word)
        assert options["ntasks-per-node"] == "1"
        nodes, wrap = int(options["nodes"]), options["wrap"]
        if nodes > 1:
            *starts, wrap = shlex.split(wrap)
            assert starts == ["srun", "sh", "-c"]
        shards = int(options.get("gres", "shard:0").removeprefix("shard:"))
        milli = 10 * shards or 1000 * int(options["gpus-per-node"])
        after = frozenset(ids[number] for number in re.findall(r"\$\{(id_\d+)\}", options.get("dependency", "")))
        assert options["job-name"] not in found
        found[options["job-name"]] = pool_of[options["partition"]], Told(nodes, milli, wrap, after)
        ids |= {held[1]: options["job-name"]} if held else {}
    return found


def read_kueue(text: str, pools: dict[str, int]) -> dict[str, tuple[str, Told]]:
    """Jobs, whose pool is the one that labels the nodes of a flavour with its quota."""
    manifests = list(yaml.safe_load_all(text))
    keys = [(m["kind"], m["metadata"]["name"]) for m in manifests]
    assert len(set(keys)) == len(keys)
    flavours = {
        m["metadata"]["name"]: m["spec"]["nodeLabels"]["gpufleet/pool"]
        for m in manifests
        if m["kind"] == "ResourceFlavor"
    }
    [queue] = [m for m in manifests if m["kind"] == "ClusterQueue"]
    [group] = queue["spec"]["resourceGroups"]
    quotas = {flavours[f["name"]]: f["resources"][0]["nominalQuota"] for f in group["flavors"]}
    assert quotas == pools
    found = {}
    for job in [m for m in manifests if m["kind"] == "Job"]:
        spec, about = job["spec"], job["metadata"]["annotations"]
        pod = spec["template"]["spec"]
        [container] = pod["containers"]
        name, nodes = job["metadata"]["name"], spec["parallelism"]
        assert spec["completions"] == nodes
        assert LABEL.fullmatch(f"{name}-{nodes - 1}")
        assert len(f"{name}-{nodes - 1}") <= 63
        asked = container["resources"]["limits"]["nvidia.com/gpu"]
        share = float(about["gpufleet/gpus"])
        milli = round(share * 1000) if share < 1 else 1000 * asked
        assert asked == 1 or share >= 1
        after = frozenset(filter(None, about.get("gpufleet/after", "").split(",")))
        told = Told(nodes, milli, container["command"][2], after)
        found[about["gpufleet/job"]] = pod["nodeSelector"]["gpufleet/pool"], told
    assert all(LABEL.fullmatch(flavour) for flavour in flavours)
    return found


def read_sky(text: str) -> dict[str, Told]:
    """Tasks, with the comments that say what they are and come after."""
    found, names = {}, set[str]()
    for part in text.split("---\n"):
        if not part.startswith("# Launch"):
            part = "# Launch" + part.split("# Launch", 1)[1]
        task = yaml.safe_load(part)
        spelt = re.search(r"^# It is (\S+) of the schedule\.$", part, re.MULTILINE)
        after = re.search(r"^# Launch it .* schedule, after (.*): sky", part)
        [(gpu, gpus)] = task["resources"]["any_of"][0]["accelerators"].items()
        assert gpu == "L4"
        assert TASK.fullmatch(task["name"])
        assert task["name"].lower() not in names
        names.add(task["name"].lower())
        told = frozenset(after[1].split(", ")) if after else frozenset[str]()
        found[spelt[1] if spelt else task["name"]] = Told(task["num_nodes"], round(1000 * gpus), task["run"], told)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_machines_gpus_and_names_read_back_from_three_tools_are_those_of_the_schedule(
    part: int, tmp_path: Path
) -> None:
    catalog, file = load_catalog(), tmp_path / "jobs.yaml"
    wide = 0
    for seed in range(part, SCHEDULES, 3):
        question = random_question(np.random.default_rng(seed))
        file.write_text(yaml.safe_dump(question), encoding="utf-8")
        plan = gpufleet.plan_schedule(file, catalog=catalog, at_once=True)
        assert list(broken_laws(plan)) == []
        expected, pools = scheduled(plan), {pool.pool: pool.gpus for pool in plan.pools}
        assert set(expected) == {job["name"] for job in question["jobs"]}
        assert read_slurm(slurm_script(plan), list(pools)) == expected, seed
        assert read_kueue(kueue_manifests(plan), pools) == expected, seed
        assert read_sky(sky_tasks(plan)) == {name: told for name, (_, told) in expected.items()}, seed
        wide += sum(told.nodes > 1 for _, told in expected.values())
    assert wide > SCHEDULES / 3


def test_a_name_does_not_change_with_the_order_of_jobs(tmp_path: Path) -> None:
    def names(jobs: list[str]) -> dict[str, str]:
        file = tmp_path / "jobs.yaml"
        said = {"pools": {"p": {"gpu": "L4", "gpus": 8}}, "jobs": [{"name": name, "work": "1h"} for name in jobs]}
        file.write_text(yaml.safe_dump(said), encoding="utf-8")
        told = yaml.safe_load_all(kueue_manifests(gpufleet.plan_schedule(file, at_once=True)))
        return {m["metadata"]["annotations"]["gpufleet/job"]: m["metadata"]["name"] for m in told if m["kind"] == "Job"}

    found = names(["a.b", "A.B", "a-b", "train"])
    assert found == names(["train", "a-b", "A.B", "a.b"])
    assert (found["a-b"], found["train"]) == ("a-b", "train")
    assert len(set(found.values())) == 4
