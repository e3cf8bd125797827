"""What is watched of a job: engines that answer a batch, or machines that train, by the plan of the job."""

from __future__ import annotations

from gpufleet.api.rented_groups import UNKNOWN_START_S
from gpufleet.api.watched_plans import NAMESPACE, range_of, version_of_image
from gpufleet.catalog.engine_metrics import metrics_of
from gpufleet.catalog.tables import Catalog
from gpufleet.catalog.xid_resolutions import xid_resolutions
from gpufleet.deploy.serving_copies import REACHED
from gpufleet.domain.engine_metrics import NAME, EngineMetrics
from gpufleet.errors import Infeasible, UsageError
from gpufleet.languages import MOST_OF_A_LABEL, distinct_names, label_name
from gpufleet.monitor.job_rules import TRAINING
from gpufleet.monitor.watched import Range, WatchedCopies, WatchedJob, WatchedPlan
from gpufleet.records import dataclass
from gpufleet.results.job import BatchPlan, JobDeployment
from gpufleet.results.training import TrainingDeployment, TrainingPlan
from gpufleet.units import parse_corpus

BATCH, TOKENS, SAMPLES = "batch", "tokens", "samples"
COUNTER = "_total"
"""Counters end so by the conventions of Prometheus; anything else is taken as a rate."""
BY_THE_HOUR = ("on_demand", "spot")
UNSEEN = EngineMetrics("trainer", "", {})
"""No metric of trainers is common."""


@dataclass(frozen=True)
class OwnMetric:
    """A metric of the user's own trainer: in `tokens` or `samples`, a second or, of a counter, in all; and an epoch."""

    name: str | None = None
    unit: str | None = None
    epoch_tokens: float | None = None

    def refuse_words(self, *, trains: bool) -> None:
        """Refuse words that have no meaning, and names that no metric can have."""
        if not trains and (self.name or self.unit or self.epoch_tokens is not None):
            raise UsageError("engines measure their own work", expected="--throughput-metric for plans of training")
        if self.name is None and (self.unit or self.epoch_tokens):
            raise UsageError("no metric is named", expected="--throughput-metric beside it")
        if self.name is not None and not NAME.fullmatch(self.name):
            raise UsageError("--throughput-metric is no metric's name", found=self.name, expected="train_tokens")
        if self.unit not in (None, TOKENS, SAMPLES):
            raise UsageError("--throughput-in is no unit", found=self.unit, expected="tokens, or samples")
        if self.epoch_tokens is not None and not self.epoch_tokens > 0:
            raise UsageError("--epoch-tokens is no number of tokens", found=self.epoch_tokens, expected="50M")


def watched_job(
    plan: BatchPlan | TrainingPlan, tables: Catalog, metric: str | None, unit: str | None, epoch: float | str | None
) -> WatchedPlan:
    """What is watched of a job: of a training by a metric of the user's own too, in `unit`s, and tokens of an epoch."""
    own = OwnMetric(metric, unit, None if epoch is None else parse_corpus(epoch, "--epoch-tokens"))
    if not plan.deployments:
        raise Infeasible(f"the plan of {plan.model} does no job", hint="The plan says why.")
    own.refuse_words(trains=isinstance(plan, TrainingPlan))
    name = distinct_names([plan.model], label_name, MOST_OF_A_LABEL)[plan.model]
    job = batch_job(plan) if isinstance(plan, BatchPlan) else training_job(plan, own)
    return WatchedPlan(
        name=plan.model,
        plan_hash=plan.input_hash,
        copies=[watched_machines(plan, name, job, tables)],
        gpu_metrics=metrics_of("dcgm-exporter"),
        cluster_metrics=metrics_of("kube-state-metrics"),
        xid_codes=xid_resolutions(),
    )


def watched_machines(plan: BatchPlan | TrainingPlan, name: str, job: WatchedJob, tables: Catalog) -> WatchedCopies:
    """The machines of a job and what runs on them."""
    d = plan.deployments[0]
    gpu, reached = tables.accelerators.get(d.gpu), REACHED.get(d.engine)
    held, vendor = d.requests_per_s, "nvidia" if gpu is None else gpu.vendor
    return WatchedCopies(
        name=name,
        namespace=NAMESPACE,
        model=plan.model,
        engine=d.engine,
        metrics=metrics_of(d.engine, version_of(d)) if isinstance(d, JobDeployment) else UNSEEN,
        gpu=d.gpu,
        power_limit_watts=None if gpu is None or gpu.slice_of else gpu.board_power_watts,
        replicas=d.replicas,
        machines=d.instance_count,
        gpus_per_machine=d.gpus_per_instance,
        gpus_per_replica=d.gpus_per_replica,
        usd_per_hour=d.price_per_instance_usd_per_hour,
        objectives={},
        latency={},
        requests_per_s=held.value,
        requests_per_s_capacity=range_of(held),
        input_tokens=plan.input_tokens if isinstance(plan, BatchPlan) else plan.sequence_tokens,
        output_tokens=plan.output_tokens if isinstance(plan, BatchPlan) else 0.0,
        most_running=d.batch,
        start_s=max(UNKNOWN_START_S, plan.startup_s),
        vendor=vendor,
        port=8000 if reached is None else reached.port,
        metrics_path="/metrics" if reached is None else reached.metrics,
        cloud=d.cloud,
        instance=d.instance,
        job=job,
    )


def version_of(d: JobDeployment) -> str | None:
    """The engine's version, of its image."""
    return None if d.launch is None else version_of_image(d.launch.image)


def gpus_of(d: JobDeployment | TrainingDeployment) -> int:
    """GPUs that work."""
    return d.replicas * d.gpus_per_replica


def batch_job(plan: BatchPlan) -> WatchedJob:
    """What a batch is to take, give and cost."""
    d = plan.deployments[0]
    return WatchedJob(
        kind=BATCH,
        num_gpus=gpus_of(d),
        usd=range_of(d.usd),
        is_paid_by_the_hour=d.price_kind in BY_THE_HOUR,
        finish_s=range_of(d.finish_s),
        deadline_s=plan.deadline_s,
        period_s=plan.period_s,
        tokens_per_s=range_of(d.output_tokens_per_s),
    )


def training_job(plan: TrainingPlan, own: OwnMetric) -> WatchedJob:
    """What a training is to take, give and cost, and the user's own metric of it."""
    d = plan.deployments[0]
    held: Range = range_of(d.tokens_per_s)
    return WatchedJob(
        kind=TRAINING,
        num_gpus=d.layout.num_gpus,
        usd=range_of(d.usd),
        is_paid_by_the_hour=d.price_kind in BY_THE_HOUR,
        finish_s=range_of(d.finish_s),
        deadline_s=plan.deadline_s,
        period_s=plan.period_s,
        tokens_per_s=held,
        step_tokens=plan.global_batch * plan.sequence_tokens,
        checkpoint_write_s=d.checkpoint_write_s,
        throughput_metric=own.name,
        tokens_of_one=plan.sequence_tokens if own.unit == SAMPLES else 1.0,
        is_counter=own.name is not None and own.name.endswith(COUNTER),
        epoch_tokens=own.epoch_tokens,
    )
