"""What is watched: a plan of a service, its law of scaling, or a job."""

from __future__ import annotations

from os import PathLike

from gpufleet.api.rented_groups import Rented, groups_of, rented_of
from gpufleet.api.watched_jobs import OwnMetric, watched_job
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


def subject_of(said: str | PathLike[str] | Watchable, own: OwnMetric, tables: Catalog) -> Subject:
    """What is to be watched, of a file or an answer."""
    if isinstance(said, (str, PathLike)) and holds_job(str(said)):
        found = read_job_plan(str(said))
        if isinstance(found, EncoderBatchPlan):
            raise UsageError("plans of encoders are not watched yet", expected="plans of models that write")
        said = found
    if isinstance(said, (BatchPlan, TrainingPlan)):
        return Subject(watched_job(said, own, tables), said, said)
    own.refuse_on("")
    read, scaled = rented_of(said)
    watched = watched_plan(read, groups_of(read, "watched"), tables, scaled)
    return Subject(watched, read, read) if scaled is None else Subject(watched, read, scaled, SCALED)
