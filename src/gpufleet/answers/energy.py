"""Electricity of a deployment, as users get it."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.domain.offer import OwnPower
from gpufleet.pricing.energy import busy_ratio, kg_co2_per_hour, kwh_per_hour, kwh_per_million_tokens
from gpufleet.pricing.owned import own_kwh_per_hour
from gpufleet.provenance import Grade
from gpufleet.records import dataclass
from gpufleet.results.base import Figure
from gpufleet.results.plan import Deployment, Energy


@dataclass(frozen=True)
class Hours:
    """A share of the day: GPUs that are paid for, those of replicas, sequences on each replica, and its load."""

    time_ratio: float
    num_gpus: float
    working_gpus: float
    batch: float
    load_ratio: float

    @property
    def utilisation_ratio(self) -> float:
        """The share of the time in which a replica has work."""
        return float(busy_ratio(self.batch))


def working_ratio(hours: Sequence[Hours]) -> float:
    """The share of the time of all GPUs that are paid for in which they have work."""
    working = sum(h.time_ratio * h.working_gpus * h.utilisation_ratio for h in hours)
    return working / sum(h.time_ratio * h.num_gpus for h in hours)


def energy_of_gpus(
    *, board_power_watts: float | None, hours: Sequence[Hours], output_tokens_per_s: float
) -> Energy | None:
    """Board power x share of time with work, between the load factor and all of the time; None: power not known.

    A mean over the hours of a day; idle GPUs count at the high end alone.
    """
    if board_power_watts is None:
        return None
    num_gpus = sum(h.time_ratio * h.num_gpus for h in hours)
    working = working_ratio(hours) * num_gpus
    loaded = sum(h.time_ratio * h.working_gpus * h.utilisation_ratio * min(h.load_ratio, 1.0) for h in hours)
    hourly = tuple(float(kwh_per_hour(board_power_watts, gpus, 1.0)) for gpus in (loaded, working, num_gpus))
    per_million = tuple(float(kwh_per_million_tokens(kwh, output_tokens_per_s)) for kwh in hourly)
    return Energy(
        board_power_watts=board_power_watts,
        num_gpus=num_gpus,
        utilisation_ratio=working_ratio(hours),
        kwh_per_hour=stated(hourly, "kWh/h"),
        kwh_per_million_output_tokens=stated(per_million, "kWh"),
    )


def energy_of_own(
    power: OwnPower, *, num_gpus: float, num_machines: float, working_ratio: float, output_tokens_per_s: float
) -> Energy:
    """What machines of one's own draw at the meter, always on as they are charged; low: while replicas have work."""
    always = float(own_kwh_per_hour(power, num_machines))
    hourly = (always * working_ratio, always, always)
    per_million = tuple(float(kwh_per_million_tokens(kwh, output_tokens_per_s)) for kwh in hourly)
    return Energy(
        machine_watts=power.machine_watts,
        num_machines=num_machines,
        cooling_ratio=power.cooling_ratio,
        num_gpus=num_gpus,
        utilisation_ratio=working_ratio,
        kwh_per_hour=stated(hourly, "kWh/h"),
        kwh_per_million_output_tokens=stated(per_million, "kWh"),
    )


def stated(values: tuple[float, ...], unit: str) -> Figure:
    """A figure of (low, value, high) that follows from a rule of thumb."""
    low, value, high = values
    return Figure(value=value, unit=unit, low=low, high=high, grade=Grade.ROOFLINE.label)


def with_grid(deployment: Deployment, grid_g_co2_per_kwh: float) -> Deployment:
    """The same deployment on a grid of this intensity, which the user gave."""
    energy = deployment.energy
    if energy is None:
        return deployment
    kwh = energy.kwh_per_hour
    hourly = tuple(float(kg_co2_per_hour(x or 0.0, grid_g_co2_per_kwh)) for x in (kwh.low, kwh.value, kwh.high))
    emitted = {"grid_g_co2_per_kwh": grid_g_co2_per_kwh, "kg_co2_per_hour": stated(hourly, "kg/h")}
    return deployment.model_copy(update={"energy": energy.model_copy(update=emitted)})
