"""What lies outside of GPUs has to fit the machine: host memory in plans, in `fit` and in what is said to help."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from gpufleet.api import plan_finetune
from gpufleet.api.training_fits import fit_training
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.training_constants import load_training_memory_constants
from gpufleet.domain.training import TrainingLayouts
from gpufleet.memory.training import host_need_bytes
from gpufleet.optimize.training_machines import HostMemory, rising_memory
from gpufleet.results.training import TrainingPlan
from gpufleet.units import GB, GIB

SYSTEM_BYTES, PROCESS_BYTES = 2 * GB, 3 * GB
MODELS = ("llama-3.2-3b", "llama-3.1-8b", "qwen3-14b", "qwen2.5-72b")
OFFLOADS = (("optimizer",), ("activations",), ("optimizer", "activations"))


def with_host_memory(tables: Catalog, ratio: float | None) -> Catalog:
    """Machines with so many times their memory; none states it where the ratio is None."""
    moved = {
        key: replace(i, memory_gib=None if ratio is None or i.memory_gib is None else i.memory_gib * ratio)
        for key, i in tables.instances.items()
    }
    return replace(tables, instances=moved)


def asked(index: int, tables: Catalog) -> TrainingPlan:
    dice = random.Random(index)
    gpus = [f"{dice.choice(['L40S', 'A100-SXM4-80GB', 'H100-SXM'])}:{dice.choice([1, 2, 8])}"]
    return plan_finetune(
        dice.choice(MODELS), tables, tokens="10M", method=dice.choice(["full", "lora", "qlora"]), gpus=gpus,
        sequence_tokens=float(dice.choice([2048, 8192, 24576])), offload=list(dice.choice(OFFLOADS)), rows=30,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("index", range(8))
def test_no_machine_of_a_plan_has_less_memory_than_lies_there(index: int) -> None:
    """Counted again from what lies there of each GPU; more memory never costs more, what is unknown refuses none."""
    tables = load_catalog()
    plan, roomy, unknown = (asked(index, with_host_memory(tables, ratio)) for ratio in (1.0, 4.0, None))
    for d in plan.deployments:
        on_machine = min(d.layout.num_gpus, d.gpus_per_instance)
        need_bytes = SYSTEM_BYTES + on_machine * (PROCESS_BYTES + d.memory.host_bytes)
        has_bytes = tables.instances[d.cloud, d.instance].memory_gib * GIB
        assert need_bytes <= has_bytes * (1 + 1e-9)
        assert (d.memory.host_need_bytes, d.memory.host_memory_bytes) == pytest.approx((need_bytes, has_bytes))
    costs = [p.answer.usd.value if p.is_feasible else np.inf for p in (plan, roomy, unknown)]
    assert costs[0] >= costs[1] * (1 - 1e-6)
    assert costs[1] >= costs[2] * (1 - 1e-6)
    assert not any(r.code == "training_host_too_small" for r in unknown.rejections)
    assert all(d.memory.host_memory_bytes is None for d in unknown.deployments)


def test_a_machine_of_32_gib_is_not_rented_for_states_of_36() -> None:
    plan = plan_finetune(
        "llama-3.2-3b", tokens="10M", method="full", gpus=["L40S:1"], sequence_tokens=2048.0, offload=["optimizer"]
    )
    assert plan.answer.instance != "g6e.xlarge"
    assert plan.answer.memory.host_bytes > 32 * GIB
    [refused] = [r for r in plan.rejections if r.code == "training_host_too_small"]
    assert refused.count > 0
    assert "on a machine of 32.0 GiB" in refused.best


def test_where_no_machine_has_the_memory_the_page_says_how_much_would_do() -> None:
    tables = with_host_memory(load_catalog(), 0.01)
    plan = plan_finetune(
        "llama-3.2-3b", tables, tokens="10M", method="full", gpus=["L40S:1"], sequence_tokens=2048.0,
        offload=["optimizer"],
    )  # fmt: skip
    assert not plan.is_feasible
    [said] = [note for note in plan.notes if "of host memory" in note]
    assert "no machine of these GPUs has more than" in said


@pytest.mark.parametrize(
    ("model", "gpus", "method", "offload"),
    [
        ("qwen2.5-72b", "A100-SXM4-80GB:1", "qlora", ["activations"]),
        ("llama-3.1-70b", "L40S:8", "full", ["optimizer"]),
        ("llama-3.1-8b", "RTX-4090:1", "full", ["optimizer"]),
    ],
)
def test_fit_says_fits_only_where_a_machine_has_the_memory(
    model: str, gpus: str, method: str, offload: list[str]
) -> None:
    found, tables = fit_training(model, gpus, method, offload=offload, sequence_tokens=4096.0), load_catalog()
    memory_of = {f"{i.cloud} {i.name}": (i.memory_gib or 0.0) * GIB for i in tables.instances.values()}
    if found.fits:
        assert memory_of[found.host_machine] >= found.estimate.memory.host_need_bytes
    for change in (c for c in found.changes if c.host_machine):
        assert memory_of[change.host_machine] >= change.host_need_bytes


def test_fit_refuses_what_no_machine_holds_beside_its_gpus() -> None:
    found = fit_training(
        "llama-3.2-3b", "L40S:1", "full", offload=["optimizer"], catalog=with_host_memory(load_catalog(), 0.001)
    )
    assert found.estimate.memory.fits_gpu
    assert not found.fits
    assert found.estimate.memory.verdict == "does not fit"
    assert not any("optimizer" in change.flag.split("--offload ")[-1] for change in found.changes if change.host_bytes)


def test_one_gpu_takes_a_machine_of_one_where_a_layout_fits_there() -> None:
    """Activations of 800 GiB would be fastest, beside one of eight GPUs that are all paid for."""
    found = fit_training("qwen2.5-72b", "A100-SXM4-80GB", "qlora", offload=["activations"], sequence_tokens=24576.0)
    [machine] = [i for i in load_catalog().instances.values() if f"{i.cloud} {i.name}" == found.host_machine]
    assert machine.gpu_count == 1


@pytest.mark.parametrize(
    ("model", "gpus", "method", "offload"),
    [
        ("llama-3.1-70b", "A100-SXM4-40GB:8", "full", ["optimizer", "weights"]),
        ("llama-3.2-3b", "A100-SXM4-80GB:1", "full", ["activations"]),
        ("llama-2-70b", "A100-SXM4-80GB:2", "qlora", ["weights"]),
    ],
)
def test_runs_that_people_measured_with_offload_are_not_refused_for_it(
    model: str, gpus: str, method: str, offload: list[str]
) -> None:
    """Rows of torchtune and PEFT in measurements/training_memory.csv."""
    precision = "bf16" if method == "full" else None
    found = fit_training(model, gpus, method, offload=offload, precision=precision, sequence_tokens=2048.0)
    assert found.estimate.memory.fits_host


@pytest.mark.parametrize(("parameters", "measured_gb"), [(2.85e9, 17.8), (7.07e9, 35.0), (12.92e9, 52.0)])
def test_published_host_memory_of_weights_that_lie_there(parameters: float, measured_gb: float) -> None:
    """LoRA of T0_3B, bloomz-7b1 and mt0-xxl with fp32 weights in host memory: huggingface/peft, README.md."""
    one = TrainingLayouts(
        **{name: np.array([1]) for name in TrainingLayouts.__dataclass_fields__ if name != "sequence_parallel"},
        sequence_parallel=np.array([False]),
    )
    need = host_need_bytes(np.array([4 * parameters]), one, load_training_memory_constants())
    assert float(need[0]) / GB == pytest.approx(measured_gb, rel=0.1)


def test_smaller_machines_come_first_and_larger_ones_only_for_more_memory() -> None:
    hosts = [HostMemory("a", 1, 100.0), HostMemory("b", 1, 200.0), HostMemory("c", 2, 150.0), HostMemory("d", 8, 900.0)]
    assert [host.name for host in rising_memory(hosts)] == ["b", "d"]


def test_every_machine_has_a_core_and_the_memory_of_a_process_for_each_gpu() -> None:
    """So that neither refuses a machine where nothing is offloaded: a row of the catalog that does needs a rule."""
    for machine in load_catalog().instances.values():
        num_gpus = max(machine.gpu_count, 1.0)
        assert machine.vcpus is None or machine.vcpus >= 2 * num_gpus, machine.name
        if machine.memory_gib is not None:
            assert machine.memory_gib * GIB >= SYSTEM_BYTES + num_gpus * PROCESS_BYTES, machine.name
