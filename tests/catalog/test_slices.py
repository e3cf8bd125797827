"""A slice of a GPU is planned at its share, borrows its kernels, and is asked for by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpufleet.api.plans import plan_serve
from gpufleet.catalog.calibration import loan_for
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.slices import with_slices
from gpufleet.provenance import Grade
from gpufleet.questions.fields import ServeRequest

CATALOG = load_catalog()
SLICED = with_slices(CATALOG)
SMALL = ServeRequest("qwen2.5-0.5b", 0.2, 200, 50, "tpot.p95<100ms", clouds=["aws"])


def test_a_slice_holds_its_share_of_everything() -> None:
    whole, eighth = CATALOG.accelerators["L4"], SLICED.accelerators["L4 (1/8)"]
    for name in ("memory_bytes", "bandwidth_bytes_per_s", "board_power_watts", "l2_bytes"):
        assert getattr(eighth, name) == pytest.approx(getattr(whole, name) / 8)
    assert all(eighth.peak_flop_per_s[kind] == peak / 8 for kind, peak in whole.peak_flop_per_s.items())
    assert SLICED.instances["aws", "g6f.large"].gpu_count == 1
    assert CATALOG.instances["aws", "g6f.large"].gpu_count == 0.125


def test_a_slice_borrows_the_kernels_of_its_gpu_and_is_no_longer_measured() -> None:
    loan, whole = loan_for(SLICED.accelerators["L4 (1/4)"]), loan_for(CATALOG.accelerators["L4"])
    assert (loan.donor, loan.slowdown) == (whole.donor, whole.slowdown)
    of_measured = replace(CATALOG.accelerators["H100-SXM"], name="half", slice_of="H100-SXM", slice_ratio=0.5)
    assert (loan_for(of_measured).donor, loan_for(of_measured).grade) == ("H100-SXM", Grade.TRANSFERRED)


def test_a_small_load_is_served_by_a_slice_only_when_slices_are_asked_for() -> None:
    on_l4 = replace(SMALL, gpus=["L4"])
    whole, sliced = plan_serve(on_l4), plan_serve(replace(on_l4, fractions=True))
    assert "(" not in whole.answer.gpu
    assert sliced.answer.gpu.startswith("L4 (1/")
    assert sliced.answer.usd_per_hour < whole.answer.usd_per_hour
    assert sliced.answer.grade == "transferred"
    assert any("nobody measured" in note for note in sliced.notes)


def test_slices_of_a_named_gpu_are_meant_too() -> None:
    plan = plan_serve(replace(SMALL, fractions=True, gpus=["L4"]))
    assert {d.gpu.split(" ")[0] for d in plan.deployments} == {"L4"}
    assert plan.answer.gpu != "L4"


def test_a_slice_is_never_faster_than_its_whole() -> None:
    plan = plan_serve(replace(SMALL, fractions=True, gpus=["L4"], rows=50))
    by_gpu = {d.gpu: d.latency["tpot.p95"].value for d in reversed(plan.deployments)}
    assert by_gpu["L4"] < by_gpu["L4 (1/2)"] < by_gpu["L4 (1/4)"]


def test_a_model_that_does_not_fit_a_slice_is_not_put_on_one() -> None:
    plan = plan_serve(replace(SMALL, model="llama-3.1-8b", fractions=True))
    assert "(" not in plan.answer.gpu
