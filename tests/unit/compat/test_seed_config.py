"""The classic configs, read by the modern verbs."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from gpufleet.api import plan_serve
from gpufleet.cli import main
from gpufleet.compat.classic.fragments import shipped_folder
from gpufleet.compat.seed_config import CLOUD, seed_catalog, seed_request
from gpufleet.errors import GpufleetError

TODAY = date(2026, 1, 1)
ROW = {
    "name": "Mine (H100)", "family": "P", "gpu_type": "NVIDIA H100", "vcpus": 192, "gpu_memory_gb": 80,
    "gpus_per_instance": 8, "compute_tflops": 2000, "interconnect_type": "NVSwitch", "interconnect_bandwidth_gbps": 900,
    "spot_cost_per_hour": 16, "memory_bandwidth_factor": 0.9, "interconnect_multiplier": 1, "description": "",
}  # fmt: skip


def test_a_price_of_a_gpu_counts_for_each_and_that_of_a_machine_once() -> None:
    """$50 is what all eight GPUs of a p5.48xlarge cost; $3.50 is what one of the eight of a g6e.48xlarge costs."""
    found = seed_catalog(shipped_folder(), TODAY)
    prices = {(o.instance, o.price_kind.value): o.price_per_instance_usd_per_hour for o in found.catalog.offers}
    machines = {"P4d": 32, "P4de": 40, "P5": 50, "P5e": 55, "P6": 60}
    assert {key: prices[key, "on_demand"] for key in machines} == machines
    assert prices["P5", "spot"] == 16
    assert (prices["G6e", "on_demand"], prices["G6e", "spot"]) == (28, 14)
    assert prices["G4dn", "spot"] == 0.21
    assert found.catalog.clouds == (CLOUD,)
    assert any("that of the whole machine for P4d, P4de, P5, P5e, P6, by" in note for note in found.notes)


@pytest.mark.parametrize("usd_per_hour", [45.0, 98.32])
def test_a_machines_price_of_ones_own_is_not_multiplied_by_its_gpus(tmp_path: Path, usd_per_hour: float) -> None:
    own = {"P5": {"on_demand_cost_per_hour": usd_per_hour}, "Mine": {**ROW, "on_demand_cost_per_hour": usd_per_hour}}
    (tmp_path / "gpu_instances.json").write_text(json.dumps(own), encoding="utf-8")
    offers = seed_catalog(tmp_path, TODAY).catalog.offers
    dear = {o.instance: o.price_per_instance_usd_per_hour for o in offers if o.price_kind.value == "on_demand"}
    assert (dear["P5"], dear["Mine"]) == (usd_per_hour, usd_per_hour)


def test_a_gpu_that_the_catalog_does_not_know_is_left_out_and_told(tmp_path: Path) -> None:
    (tmp_path / "gpu_instances.json").write_text('{"P6": {"gpu_type": "NVIDIA CustomGPU"}}', encoding="utf-8")
    found = seed_catalog(tmp_path, TODAY)
    assert (CLOUD, "P6") not in found.catalog.instances
    assert any("P6 (NVIDIA CustomGPU)" in note for note in found.notes)


def test_a_workload_of_the_config_is_planned_on_the_machines_of_the_config() -> None:
    request = seed_request(shipped_folder(), "inference_small_p5", 1.0, 1000, 200)
    plan = plan_serve(request, seed_catalog(shipped_folder(), TODAY).catalog)
    assert plan.model == "llama-2-13b"
    assert {d.cloud for d in plan.deployments} == {CLOUD}
    with pytest.raises(GpufleetError, match="an inference workload"):
        seed_request(shipped_folder(), "training_large_p4d", 1.0, 1000, 200)


def test_the_flag_of_plan_serve_takes_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "gpu_instances.json").write_text('{"P5": {"on_demand_cost_per_hour": 0.5}}', encoding="utf-8")
    words = ("plan", "serve", "llama-2-13b", "--rate", "1/s", "--in", "1000", "--out", "200", "--seed-config")
    assert main([*words, str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "1x seed-config P5 (8x H100-SXM)" in shown
    assert "~$4.0/h" in shown
    assert main([*words, "nowhere"]) == 5
