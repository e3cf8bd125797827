"""Simulations of queues whose truth is known, as users get them."""

from __future__ import annotations

from datetime import date

from gpufleet.answers.serving_estimate import Replica
from gpufleet.answers.simulation import Replayed, ReplicaPrice, simulation_of
from gpufleet.domain.replay import Replay
from gpufleet.domain.slo import Slo
from gpufleet.results.base import Figure, Input, Ranks
from gpufleet.results.simulation import Simulation
from gpufleet.simulate.metrics import measured

REPLICA = Replica(
    model="llama-3.1-8b",
    gpu="H100",
    num_gpus=1,
    layout="TP1",
    ranks=Ranks(),
    engine="vllm",
    weight_format="bf16",
    kv_precision="bf16",
    grade="measured",
)
PRICE = ReplicaPrice(2.5, "aws p5.4xlarge us-east-1", "on_demand", "aws price list", date(2026, 10, 1))


def simulated(
    replay: Replay, slo: Slo | None = None, *, whole: bool = False, load: str = "Poisson, 0.8/s"
) -> Simulation:
    """The answer of a replay of one copy for each server of the queue."""
    told = Replayed(
        replica=REPLICA,
        replicas=len(replay.paid_s),
        load=load,
        inputs=[Input(name="rate", value="0.8/s", origin="given")],
        notes=["Lengths are those of a queue"],
        load_ratio=0.8,
        price=PRICE,
        closed_form={"latency.p95": Figure(value=15.0, unit="s", low=12.0, high=18.0)},
    )
    return simulation_of(replay, measured(replay, slo, whole=whole), told)
