"""How long one more replica takes to start, and how often its machine fails, as users ask."""

from __future__ import annotations

import pytest

from gpufleet.api.cold_starts import cold_start_of
from gpufleet.api.mishaps import machine_failures
from gpufleet.errors import GpufleetError
from gpufleet.results.cold_start import ColdStartResult


def test_a_cold_start_of_a_small_model_is_a_matter_of_minutes() -> None:
    found = cold_start_of("llama-3.1-8b", "H100")
    assert found.seconds.low is not None
    assert found.seconds.high is not None
    assert 120 < found.seconds.low < found.seconds.value < found.seconds.high < 1200
    assert [stage.name for stage in found.stages][:2] == ["machine", "image"]
    assert found.weights_bytes == pytest.approx(16.06e9, rel=1e-3)


def test_a_start_on_a_machine_that_runs_is_a_matter_of_a_minute() -> None:
    found = cold_start_of("llama-2-7b", "A100", warm_node=True)
    assert found.seconds.value == pytest.approx(44.95, rel=0.05)


def test_the_line_of_the_named_machine_counts_where_weights_are_streamed() -> None:
    """40 Gbit/s of g5.12xlarge: 4.88 s; a machine that nobody named has 25."""
    named, any_ = (
        cold_start_of("llama-3-8b", "A10G:1", instance=instance, storage="object-store-streamed")
        for instance in ("aws:g5.12xlarge", None)
    )
    weights = [next(stage for stage in found.stages if stage.name == "weights") for found in (named, any_)]
    assert weights[0].seconds.value == pytest.approx(4.88, rel=0.10)
    assert weights[1].seconds.value == pytest.approx(weights[0].seconds.value * 40 / 25)


def test_weights_of_more_gpus_than_a_machine_has_come_to_several_machines() -> None:
    found = cold_start_of("llama-3.1-405b", "H100:16", instance="p5.48xlarge")
    assert {row.name: row.value for row in found.inputs}["machines"] == "2 x p5.48xlarge"


def test_an_answer_is_read_back_from_its_file() -> None:
    found = cold_start_of("llama-3-8b", "L4", "sglang")
    assert ColdStartResult.model_validate_json(found.model_dump_json()) == found
    assert "compilation" not in {stage.name for stage in found.stages}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"storage": "netwrk-disk"}, "network-disk"),
        ({"compiled": "often"}, "cached, fresh, none"),
        ({"engine": "vlm"}, "vllm"),
        ({"instance": "g6.xlarge"}, "holds no A10G"),
        ({"image_bytes": -5.0}, "size of the image"),
        ({"image_bytes": float("nan")}, "size of the image"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_breath(words: dict[str, object], expected: str) -> None:
    with pytest.raises(GpufleetError, match=expected) as refused:
        cold_start_of("llama-3-8b", "A10G", **words)  # type: ignore[arg-type]
    assert refused.value.exit_code == 2


def test_a_machine_of_eight_h100_fails_every_nine_months_as_under_llama_3() -> None:
    """arXiv:2407.21783: 419 stops in 54 days on 16,384 GPUs are one in 50,677 GPU-hours."""
    found = machine_failures("H100")
    assert found.mtbf_hours.value == pytest.approx(50_677 / 8, rel=1e-4)
    assert found.mtbf_hours.low == pytest.approx(22_482 / 8, rel=1e-3)
    assert found.mtbf_hours.high == pytest.approx(79_230 / 8, rel=1e-4)
    assert (found.is_counted, found.source_id) == (True, "llama-3-interruptions")


def test_a_generation_that_nobody_counted_has_a_prior_and_says_so() -> None:
    found = machine_failures("B200")
    assert (found.is_counted, found.mtbf_hours.grade) == (False, "transferred")


def test_a_machine_of_one_gpu_fails_an_eighth_as_often() -> None:
    assert machine_failures("A100", 1).mtbf_hours.value == pytest.approx(8 * machine_failures("A100").mtbf_hours.value)


@pytest.mark.parametrize("gpus", [0, -1, 10**9])
def test_a_machine_has_gpus(gpus: int) -> None:
    with pytest.raises(GpufleetError, match="a machine has GPUs"):
        machine_failures("H100", gpus)
