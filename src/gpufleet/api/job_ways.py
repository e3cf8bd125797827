"""What a plan of a job says that holds wherever its machines stand: how long they work, and what bytes it moves."""

from __future__ import annotations

from collections.abc import Iterable

from gpufleet.catalog.failures import load_failures
from gpufleet.catalog.query import resolve_instance
from gpufleet.catalog.sites import spread_of
from gpufleet.catalog.tables import Catalog
from gpufleet.catalog.training_runs import load_training_runs
from gpufleet.domain.encoder import Takes
from gpufleet.domain.instance import Instance
from gpufleet.domain.interruption import Spread
from gpufleet.domain.offer import PriceKind
from gpufleet.domain.precision import BF16, PRECISIONS
from gpufleet.errors import Infeasible, UsageError
from gpufleet.optimize.job_regions import BatchRun, JobWay, Run, TrainingRun
from gpufleet.optimize.training import MOST_SPOT_MACHINES
from gpufleet.pricing.energy import kwh_per_hour
from gpufleet.results.base import Figure
from gpufleet.results.encoders import EncoderBatchPlan
from gpufleet.results.job import BatchPlan, JobPlan, RentedJob
from gpufleet.results.training import TrainingDeployment, TrainingPlan
from gpufleet.units import HOUR

OF_PLANS = (
    *("num_parameters", "num_trained_parameters", "requests", "tokens", "input_tokens", "output_tokens"),
    *("deadline_s", "startup_s", "period_s", "headroom_wanted_ratio"),
)
OF_ROWS = (
    *("instance_count", "gpus_per_instance", "idle_gpus", "work_s", "wave_s", "paid_s", "requests_per_s"),
    *("checkpoint_write_s", "energy_kwh"),
)
MAY_BE_NONE = ("startup_s", "headroom_wanted_ratio", "output_tokens", "idle_gpus", "checkpoint_write_s", "energy_kwh")
WayKey = tuple[str, str, int]


def ways_of(plan: JobPlan, tables: Catalog) -> list[JobWay]:
    """The machines of every row of a plan, each once: rows that differ in their price alone are one.

    Machines of one's own stand where they stand.
    """
    refuse_nonsense(plan, OF_PLANS, "")
    for at, row in enumerate(plan.deployments):
        refuse_nonsense(row, OF_ROWS, f"deployments.{at}.")
    rented = [row for row in plan.deployments if row.price_kind != PriceKind.OWNED.value]
    if not rented:
        raise Infeasible(f"the plan for {plan.model} rents nothing: machines of your own stand where they stand")
    on_spot = {key_of(row) for row in rented if row.price_kind == PriceKind.SPOT.value}
    rows: dict[WayKey, RentedJob] = {}
    for row in rented:
        rows.setdefault(key_of(row), row)
    return [way_of(plan, row, key in on_spot, tables) for key, row in rows.items()]


def refuse_nonsense(held: JobPlan | RentedJob, names: Iterable[str], where: str) -> None:
    """Refuse what a file says of a job that no job can be: negative times and amounts, or none where there are some."""
    for name in names:
        said = getattr(held, name, None)
        figures = [said.low, said.value, said.high] if isinstance(said, Figure) else [said]
        known = [each for each in figures if each is not None]
        if any(each < 0 or (each == 0 and name not in MAY_BE_NONE) for each in known):
            raise UsageError(f"a plan of a job says {where}{name}", found=min(known), expected="a number above 0")


def key_of(row: RentedJob) -> WayKey:
    """So many machines of a type."""
    return row.cloud, row.instance, row.instance_count


def way_of(plan: JobPlan, row: RentedJob, is_on_spot: bool, tables: Catalog) -> JobWay:
    """One row of a plan as machines that may stand anywhere; many at once train on spot only where the plan says so."""
    instance = resolve_instance(tables, f"{row.cloud}:{row.instance}")
    (low, high), training = row.work_ratios, row if isinstance(row, TrainingDeployment) else None
    return JobWay(
        instance=instance,
        machines=row.instance_count,
        work_s=Spread(row.work_s * min(low, 1.0), row.work_s, row.work_s * max(high, 1.0)),
        run=run_of(plan, row, tables),
        startup_s=plan.startup_s,
        write_s=0.0 if training is None else training.checkpoint_write_s,
        checkpoint_every_s=row.wave_s if training is None else None,
        kwh_per_hour=drawn_kwh_per_hour(row, instance, tables),
        may_be_on_spot=training is None or is_on_spot or row.instance_count <= MOST_SPOT_MACHINES,
        grade=row.finish_s.grade,
    )


def run_of(plan: JobPlan, row: RentedJob, tables: Catalog) -> Run:
    """How the work of a row becomes time."""
    if not isinstance(row, TrainingDeployment):
        return BatchRun(plan.startup_s, row.wave_s)
    failures = load_failures().per_gpu_hour(tables.accelerators[row.gpu].generation)
    gpus = row.instance_count * row.gpus_per_instance
    recovery_s = spread_of(load_training_runs().recovery_s)
    return TrainingRun(plan.startup_s, row.checkpoint_write_s, recovery_s, gpus, row.instance_count, failures)


def drawn_kwh_per_hour(row: RentedJob, instance: Instance, tables: Catalog) -> float | None:
    """What the GPUs of all machines draw while they run: as a plan of training says, else those that hold replicas."""
    if isinstance(row, TrainingDeployment):
        return None if row.energy_kwh is None else row.energy_kwh.value / row.paid_s.value * HOUR
    watts = tables.accelerators[instance.accelerator].board_power_watts
    gpus = row.instance_count * instance.gpu_count - row.idle_gpus
    return None if watts is None else float(kwh_per_hour(watts, gpus, 1.0))


def weights_bytes(plan: JobPlan) -> float:
    """Bytes of the weights that a job begins with."""
    stored = BF16 if isinstance(plan, TrainingPlan) else PRECISIONS.get(plan.deployments[0].weight_format, BF16)
    return plan.num_parameters * stored.bytes_per_element


def data_bytes(plan: JobPlan, bytes_per_token: float) -> float | None:
    """Bytes of what a job reads, as the text of its tokens; None of images and audio."""
    if isinstance(plan, TrainingPlan):
        return plan.tokens * bytes_per_token
    if isinstance(plan, BatchPlan):
        return plan.requests * plan.input_tokens * bytes_per_token
    if isinstance(plan, EncoderBatchPlan) and plan.unit == Takes.TEXT.value:
        return plan.requests * plan.input_tokens * bytes_per_token
    return None


def results_bytes(plan: JobPlan, bytes_per_token: float) -> float:
    """Bytes of what a job leaves: weights that were trained, or answers as text; vectors of encoders count none."""
    if isinstance(plan, TrainingPlan):
        return plan.num_trained_parameters * BF16.bytes_per_element
    written = plan.output_tokens if isinstance(plan, (BatchPlan, EncoderBatchPlan)) else None
    return plan.requests * (written or 0.0) * bytes_per_token
