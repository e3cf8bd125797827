"""A `ColdStartResult` from the stages of the core."""

from __future__ import annotations

from gpufleet.domain.cold_start import ColdStart, StartStage
from gpufleet.results.base import Figure, Input
from gpufleet.results.cold_start import ColdStartResult, StartStageResult


def cold_start_result(
    start: ColdStart, *, model: str, gpus: str, engine: str, storage: str, weights_bytes: float, inputs: list[Input]
) -> ColdStartResult:
    """The stages with their ranges and sources as users get them."""
    whole = Figure(value=start.seconds, unit="s", low=start.low_s, high=start.high_s, grade=start.grade.label)
    return ColdStartResult(
        model=model,
        gpus=gpus,
        engine=engine,
        storage=storage,
        weights_bytes=weights_bytes,
        stages=[stage_result(stage) for stage in start.stages],
        seconds=whole,
        inputs=inputs,
    )


def stage_result(stage: StartStage) -> StartStageResult:
    """One stage."""
    took = Figure(value=stage.seconds, unit="s", low=stage.low_s, high=stage.high_s, grade=stage.grade.label)
    return StartStageResult(name=stage.name, seconds=took, source=stage.source)
