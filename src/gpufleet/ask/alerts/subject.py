"""What is watched: a plan of a service, its law of scaling, or a job."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from os import PathLike

from gpufleet.api.rented_groups import Rented, groups_of, rented_of
from gpufleet.api.watched_plans import watched_plan
from gpufleet.catalog.tables import Catalog
from gpufleet.errors import UsageError
from gpufleet.inputs.plan_file import holds_job, read_job_plan
from gpufleet.monitor.watched import WatchedPlan
from gpufleet.records import dataclass
from gpufleet.results.autoscale import AutoscaleResult
from gpufleet.results.encoders import EncoderBatchPlan
from gpufleet.results.job import BatchPlan
from gpufleet.results.training import TrainingPlan

Watchable = Rented | AutoscaleResult | BatchPlan | TrainingPlan
"""What rules are written for."""
JOBS = "gpufleet.api.watched_jobs"
"""What is watched of jobs is loaded where one is."""
SCALED = "the law of scaling, with the plan"


@dataclass(frozen=True, eq=False)
class Subject:
    """A plan as it is watched, the answer that is kept beside the rules and what that is."""

    watched: WatchedPlan
    plan: Rented | BatchPlan | TrainingPlan
    kept: Watchable
    what: str = "the plan"

    @property
    def is_job(self) -> bool:
        """Whether it ends by itself."""
        return any(each.job is not None for each in self.watched.copies)


def subject_of(said: str | PathLike[str] | Watchable, own: Sequence[float | str | None], tables: Catalog) -> Subject:
    """What is to be watched, of a file or an answer; `own` is what users say of a metric of their own."""
    if isinstance(said, (str, PathLike)) and holds_job(str(said)):
        found = read_job_plan(str(said))
        if isinstance(found, EncoderBatchPlan):
            raise UsageError("plans of encoders are not watched yet", expected="plans of models that write")
        said = found
    if isinstance(said, (BatchPlan, TrainingPlan)):
        return Subject(import_module(JOBS).watched_job(said, tables, *own), said, said)
    if any(word is not None for word in own):
        raise UsageError("engines measure their own work", expected="--throughput-metric for plans of training")
    read, scaled = rented_of(said)
    watched = watched_plan(read, groups_of(read, "watched"), tables, scaled)
    return Subject(watched, read, read) if scaled is None else Subject(watched, read, scaled, SCALED)
