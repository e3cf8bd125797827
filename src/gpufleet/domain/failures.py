"""How often something fails under a training run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from gpufleet.domain.interruption import Spread
from gpufleet.records import dataclass


@dataclass(frozen=True)
class CountedFailures:
    """Failures per GPU-hour as one source counted them; `mtbf_gpu_hours` is the same turned over."""

    per_gpu_hour: float
    source: str
    evidence: str

    @property
    def mtbf_gpu_hours(self) -> float:
        """GPU-hours between two failures."""
        return 1.0 / self.per_gpu_hour


@dataclass(frozen=True)
class Failures:
    """Failures per GPU-hour, by the generation of the accelerator, and of those that nobody counted.

    `source_of_generation` and `source_of_unknown` name the sources of the expected rates, `sources` those of all.
    `counts`: what each source counted, by name.
    """

    per_gpu_hour_of_generation: Mapping[str, Spread]
    per_gpu_hour_unknown: Spread
    source_of_generation: Mapping[str, str]
    source_of_unknown: str
    sources: tuple[str, ...] = ()
    counts: Mapping[str, CountedFailures] = field(default_factory=dict)

    def is_counted(self, generation: str) -> bool:
        """Whether somebody counted failures of this generation; else a prior is taken."""
        return generation in self.per_gpu_hour_of_generation

    def per_gpu_hour(self, generation: str) -> Spread:
        """Failures per GPU-hour that stop a run on accelerators of this generation."""
        return self.per_gpu_hour_of_generation.get(generation, self.per_gpu_hour_unknown)

    def source_of(self, generation: str) -> str:
        """The source of the expected rate."""
        return self.source_of_generation.get(generation, self.source_of_unknown)
