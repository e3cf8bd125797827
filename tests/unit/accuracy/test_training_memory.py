"""Rows of training memory: peaks, parts, verdicts, and what is not scored."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.accuracy.own_file import scored

from gpufleet.units import GB, GIB

GOOD = {
    "source": "somebody",
    "model": "",
    "model_id": "llama-3.1-8b",
    "gpu": "",
    "gpu_id": "A100-SXM4-80GB",
    "num_gpus": "1",
    "method": "lora",
    "precision": "bf16",
    "seq_len": "2048",
    "micro_batch": "2",
    "recompute": "none",
    "sharding": "none",
    "peak_mem_gb": "40",
    "unit": "GiB",
    "status": "ok",
    "notes": "",
    "tp": "",
    "dp": "",
}
HOSTILE = {
    "a method of its own": ({"method": "adapter_v2"}, "training method 'adapter_v2' is not modelled"),
    "an unknown model": ({"model_id": "no-such-model"}, "unknown model"),
    "a layout of other GPUs": ({"tp": "3", "num_gpus": "8"}, "the layout does not use the GPUs"),
    "text for a number": ({"micro_batch": "two"}, "micro_batch is not a number"),
    "a negative number": ({"seq_len": "-1"}, "seq_len must be positive"),
    "a huge number": ({"seq_len": "1e30"}, ""),
}
LEFT_OUT = {
    "a formula": ({"status": "estimate"}, "states what a formula gives, not a run"),
    "a share": ({"status": "relative", "unit": "percent"}, "states a share, not an amount"),
    "no length": ({"seq_len": "", "micro_batch": ""}, "does not state sequence and micro-batch"),
    "no amount": ({"peak_mem_gb": ""}, "states no memory"),
    "another unit": ({"unit": "furlongs"}, "states another unit or part than those that are compared"),
    "zero": ({"peak_mem_gb": "0"}, "peak_mem_gb must be positive"),
}


def test_a_peak_is_predicted_in_the_unit_that_the_row_prints(tmp_path: Path) -> None:
    in_gib, in_gb, in_mib = scored(tmp_path, GOOD, {}, {"unit": "GB"}, {"unit": "MiB", "peak_mem_gb": "40960"}).figures
    assert (in_gib.quantity, in_gib.unit, in_gb.unit) == ("peak_memory", "GiB", "GB")
    assert (in_gb.predicted or 0) * GB == pytest.approx((in_gib.predicted or 0) * GIB)
    assert in_mib.predicted == pytest.approx((in_gib.predicted or 0) * 1024)
    assert (in_gib.low or 0) < (in_gib.predicted or 0) < (in_gib.high or 0)


def test_a_peak_that_is_reserved_has_fragmentation_too(tmp_path: Path) -> None:
    allocated, reserved = scored(tmp_path, GOOD, {}, {"notes": "peak reserved"}).figures
    assert (reserved.predicted or 0) > (allocated.predicted or 0)


def test_parts_that_a_paper_counts_are_quantities_of_their_own(tmp_path: Path) -> None:
    parts = [
        {"status": "component", "notes": "component: activations only", "method": "full"},
        {"status": "component", "notes": "component: parameters + gradients + optimizer states", "method": "full"},
        {"method": "full"},
    ]
    activations, states, peak = scored(tmp_path, GOOD, *parts).figures
    assert (activations.quantity, states.quantity) == ("activations", "states")
    assert (states.predicted or 0) * GIB == pytest.approx(8 * 8.03e9, rel=0.02)
    assert (activations.predicted or 0) + (states.predicted or 0) < 1.2 * (peak.predicted or 0)


def test_verdicts_count_runs_that_ran_and_runs_that_did_not(tmp_path: Path) -> None:
    oom = {"status": "OOM", "peak_mem_gb": "", "method": "full", "recompute": "none"}
    small = {"gpu_id": "", "gpu": "40GB GPU"}
    rows = [oom, {**oom, **small}, {**oom, "method": "qlora"}, {**GOOD, **small, "method": "full"}]
    verdicts = scored(tmp_path, GOOD, *rows).verdicts
    assert (verdicts.num_failed, verdicts.num_false_fits) == (3, 1)
    assert (verdicts.num_ran, verdicts.num_false_does_not_fit) == (1, 1)


def test_a_gpu_that_nobody_knows_takes_no_verdict_but_a_peak(tmp_path: Path) -> None:
    found = scored(tmp_path, GOOD, {"gpu_id": "", "gpu": "a card"}, {"gpu_id": "", "gpu": "", "status": "OOM"})
    assert found.figures[0].predicted is not None
    assert (found.verdicts.num_ran, found.verdicts.num_failed) == (0, 0)


def test_a_total_of_all_gpus_is_compared_as_such(tmp_path: Path) -> None:
    spread = {"num_gpus": "2", "sharding": "fsdp"}
    one, both = scored(tmp_path, GOOD, spread, {**spread, "notes": "total across GPUs"}).figures
    assert both.predicted == pytest.approx(2 * (one.predicted or 0))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_row_that_cannot_be_predicted_says_why_and_the_next_one_is_scored(tmp_path: Path, name: str) -> None:
    cells, words = HOSTILE[name]
    found = scored(tmp_path, GOOD, cells, {})
    refused, good = found.figures
    assert refused.predicted is None
    assert words in (refused.reason or "")
    assert good.predicted is not None


@pytest.mark.parametrize("name", LEFT_OUT)
def test_a_row_that_is_no_measured_run_is_not_scored(tmp_path: Path, name: str) -> None:
    cells, words = LEFT_OUT[name]
    found = scored(tmp_path, GOOD, cells, {})
    assert found.num_scored_rows == 1
    assert [reason.reason for reason in found.left_out] == [words]
