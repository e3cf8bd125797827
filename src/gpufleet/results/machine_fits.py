"""What machines of one's own can serve."""

from __future__ import annotations

from gpufleet.results.base import SCHEMA_VERSION, Result


class ModelOnMachines(Result):
    """One model on the machines: `users` of the asked context on all of them together.

    `is_stored_format`: the weights are those of the checkpoint; else a lower format that fits.
    """

    model: str
    num_parameters: int
    num_active_parameters: int
    weight_format: str
    is_stored_format: bool
    layout: str
    copies_per_machine: int
    users_per_machine: float
    users: float


class MachineFits(Result):
    """Every model of `num_models` that fits one of the machines, the largest first."""

    schema_version: str = SCHEMA_VERSION
    owned: str
    gpu: str
    num_machines: int
    gpus_per_machine: int
    context_tokens: float
    engine: str
    num_models: int
    rows: list[ModelOnMachines]
    notes: list[str] = []

    @property
    def is_feasible(self) -> bool:
        """Whether any model fits."""
        return bool(self.rows)
