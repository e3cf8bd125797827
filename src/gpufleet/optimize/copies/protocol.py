"""What a kind of model gives to the questions: copies that run on machines, and what each of them sustains.

A new kind of model is one file beside this one. Services, jobs, rankings, flips, answers and pages ask nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np

from gpufleet.domain.arrays import FloatArray, IntArray
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.instance import Instance
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.placement import Hosted
from gpufleet.optimize.replicas import Rejections
from gpufleet.optimize.size import Capacity
from gpufleet.performance.uncertainty import Bounds
from gpufleet.provenance import Grade
from gpufleet.records import dataclass


@dataclass(frozen=True)
class WorkRates:
    """What one copy of each row gets done: [row, batch] over a shared grid, 0 where there is no room.

    `num_configurations`: pairs of copy and batch whose time was computed.
    """

    batch: FloatArray
    requests_per_s: FloatArray
    num_configurations: int

    @cached_property
    def best(self) -> IntArray:
        """The batch that gets most done, the smallest of equals."""
        return np.asarray(np.argmax(self.requests_per_s, axis=1))

    @cached_property
    def best_batch(self) -> FloatArray:
        """Requests together at the best batch."""
        return np.asarray(self.batch[self.best])

    @cached_property
    def best_per_s(self) -> FloatArray:
        """Requests per second at the best batch."""
        return np.asarray(self.requests_per_s[np.arange(len(self.best)), self.best])

    def wave_s(self, rows: IntArray) -> FloatArray:
        """Time of one full batch, from the first to the last of its requests."""
        return np.asarray(self.best_batch[rows] / self.best_per_s[rows])


class Copies(Hosted, Protocol):
    """The copies of a model that run under a demand; a row is a copy on some GPUs in some format and layout."""

    @property
    def num_layouts(self) -> int:
        """Copies that were looked at, those that do not run among them."""

    @property
    def largest_batch(self) -> FloatArray:
        """What each holds at most together."""

    @property
    def grades(self) -> Sequence[Grade]:
        """How each copy's times are known."""

    def __len__(self) -> int: ...

    def label(self, row: int) -> str:
        """A copy in words: 4x L40S TP4 bf16."""

    def engine(self, row: int) -> str:
        """What runs a copy."""

    def weights(self, row: int) -> str:
        """The weight format of a copy."""

    def limit_name(self, row: int, limit: str) -> str:
        """What a limit of a copy is called: room that its engine bounds is not memory."""

    def floors_s(self, row: int) -> Mapping[str, float]:
        """The time that no copy of this shape beats, by metric, where one is known."""

    def capacity(self) -> Capacity:
        """The highest rate of each copy that keeps every objective of the demand."""

    def work_rates(self) -> WorkRates:
        """What each copy gets done of a job."""

    def time_ratios(self, batch: FloatArray) -> Mapping[str, Bounds]:
        """How far times lie from what is expected, by metric, at a batch of each copy; `latency` is always there."""


C_co = TypeVar("C_co", bound=Copies, covariant=True)


class Model(Protocol[C_co]):
    """A model with what it may run as."""

    @property
    def name(self) -> str:
        """The name of the model."""

    @property
    def num_parameters(self) -> int:
        """All parameters."""

    @property
    def inputs_per_request(self) -> float:
        """What a copy works on of one request: windows of a recording, else 1."""

    def copies(
        self, instances: tuple[Instance, ...], demand: Demand, calibration: Calibration, rejections: Rejections
    ) -> C_co:
        """The copies that run on machine types under a demand; the others are counted with their reason."""
