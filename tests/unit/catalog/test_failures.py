"""Counted failures of GPUs, and the prior of those that nobody counted."""

from __future__ import annotations

import pytest

from gpufleet.catalog.failures import load_failures
from gpufleet.catalog.load import load_catalog
from gpufleet.units import DAY, HOUR

PER_1000_NODE_DAYS = 1000 * 8 * DAY / HOUR


def test_hopper_fails_as_often_as_it_did_under_llama_3() -> None:
    """arXiv:2407.21783, table 5: 419 stops in 54 days on 16,384 GPUs."""
    assert load_failures().per_gpu_hour("Hopper").expected == pytest.approx(419 / (16_384 * 54 * 24))


def test_ampere_fails_as_often_as_in_the_clusters_of_meta() -> None:
    """arXiv:2410.21680: 6.5 and 2.34 failures in 1,000 node-days of 16,000 and 8,000 GPUs."""
    found = load_failures().per_gpu_hour("Ampere")
    assert found.low * PER_1000_NODE_DAYS == pytest.approx(2.34)
    assert found.expected * PER_1000_NODE_DAYS == pytest.approx((16 * 6.5 + 8 * 2.34) / 24, rel=1e-3)
    assert 1 / (1024 * found.high) == pytest.approx(7.9, rel=1e-3)


def test_what_nobody_counted_is_a_prior_as_wide_as_all_counts() -> None:
    failures = load_failures()
    prior = failures.per_gpu_hour("Blackwell")
    assert not failures.is_counted("Blackwell")
    assert failures.source_of("Blackwell") == failures.source_of_unknown
    for counted in failures.per_gpu_hour_of_generation.values():
        assert prior.low <= counted.low
        assert counted.high <= prior.high


def test_counted_generations_are_those_of_accelerators() -> None:
    failures = load_failures()
    generations = {accelerator.generation for accelerator in load_catalog().accelerators.values()}
    assert failures.per_gpu_hour_of_generation.keys() <= generations
    assert all(failures.is_counted(generation) for generation in failures.per_gpu_hour_of_generation)
    assert failures.source_of("Hopper") == "llama-3-interruptions"


@pytest.mark.parametrize(
    ("count", "gpu_hours"),
    [
        ("llama-3", 50_677),
        ("llama-3-gpus-alone", 79_230),
        ("crusoe", 22_482),
        ("rsc-2", 82_051),
        ("bloom", 43_008),
        ("rsc-1024", 8_090),
    ],
)
def test_each_source_says_how_many_gpu_hours_lie_between_failures(count: str, gpu_hours: float) -> None:
    assert load_failures().counts[count].mtbf_gpu_hours == pytest.approx(gpu_hours, rel=1e-4)


def test_what_a_small_cluster_counted_lies_within_what_is_taken() -> None:
    """BLOOM: 384 A100, one to two failed GPUs a week."""
    ampere = load_failures().per_gpu_hour("Ampere")
    assert ampere.low <= load_failures().counts["bloom"].per_gpu_hour <= ampere.high
