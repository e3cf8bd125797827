"""How long one more replica takes to start, and how often its machine fails."""

from __future__ import annotations

from gpufleet.results.base import SCHEMA_VERSION, Figure, Input, Result


class StartStageResult(Result):
    """One stage of a start, and what its length rests on."""

    name: str
    seconds: Figure
    source: str


class ColdStartResult(Result):
    """From the request for a machine until a replica answers: stages one after the other, and all together."""

    schema_version: str = SCHEMA_VERSION
    model: str
    gpus: str
    engine: str
    storage: str
    weights_bytes: float
    stages: list[StartStageResult]
    seconds: Figure
    inputs: list[Input] = []


class MachineFailures(Result):
    """Mean hours between failures of one machine; `is_counted`: on its generation, else a prior."""

    schema_version: str = SCHEMA_VERSION
    gpu: str
    generation: str
    gpus_per_machine: int
    mtbf_hours: Figure
    is_counted: bool
    source_id: str
