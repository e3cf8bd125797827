"""Which copies of which models serve a replay: one kind, a small model beside a large one, or two pools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpufleet.answers.simulation import ReplicaPrice
from gpufleet.api.planned_replicas import Replicas, cheapest_price
from gpufleet.api.pools import AskedPools, PoolSetup, link_between, pool_setup
from gpufleet.api.simulated_copies import CopyQuestion, FoundCopy, copy_of, engine_of
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.arrays import BoolArray
from gpufleet.domain.pool_request import PoolRequest
from gpufleet.domain.requests import Requests
from gpufleet.errors import UsageError
from gpufleet.optimize.pools import DECODE, PREFILL
from gpufleet.performance.pools import handed_over_bytes, handover_s
from gpufleet.performance.step import StepModel
from gpufleet.records import dataclass
from gpufleet.results.base import Input
from gpufleet.simulate.cluster import Cluster, Copy, Member
from gpufleet.simulate.front import told_apart

SMALL = "small"
PREFILLS, DECODES = 1, 2


@dataclass(frozen=True, eq=False)
class SimulatedFleet:
    """Copies and replicas of a replay, its requests as they are told apart, and what is said of both.

    `found` is the copy that the answer is about, `beside` the others in words; `handover`: seconds that KV takes to
    move, fixed and per token.
    """

    found: FoundCopy
    copies: tuple[Copy, ...]
    members: tuple[Member, ...]
    requests: Requests
    price: ReplicaPrice | None
    inputs: tuple[Input, ...] = ()
    copy_of_class: tuple[int, ...] = ()
    handover: tuple[float, float] = (0.0, 0.0)
    beside: str = ""
    place: int = 0

    @property
    def num_alike(self) -> int:
        """Replicas of the copy that the answer is about, which stands at `place` among the copies."""
        return sum(member.copy == self.place for member in self.members)

    def cluster(self, how: Mapping[str, Any]) -> Cluster:
        """The same behind a router."""
        fixed_s, token_s = self.handover
        return Cluster(
            self.copies,
            self.members,
            copy_of_class=self.copy_of_class,
            transfer_fixed_s=fixed_s,
            transfer_s_per_token=token_s,
            **how,
        )


def fleet_of_one_kind(planned: Replicas, requests: Requests, tables: Catalog) -> SimulatedFleet:
    """Replicas of one kind."""
    found = copy_of(planned.copy, requests, catalog=tables)
    return SimulatedFleet(found, (found.copy,), (Member(),) * planned.count, requests, planned.price)


def fleet_of_two_models(
    large: Replicas, small: Replicas, share: float, is_small: BoolArray, requests: Requests,
    tables: Catalog,
) -> SimulatedFleet:  # fmt: skip
    """A large model, and a small one that gets its own share of the requests."""
    found = [copy_of(side.copy, requests, catalog=tables) for side in (large, small)]
    members = (*(Member(0),) * large.count, *(Member(1),) * small.count)
    told = told_apart(requests, is_small, SMALL)
    half = len(told.class_names) // 2
    said = f"{share:.0%} of them to {small.arch.name} on {small.count}x {found[1].gpus}"
    return SimulatedFleet(
        found[0],
        tuple(one.copy for one in found),
        members,
        told,
        joint_price([(large.price, large.count), (small.price, small.count)]),
        (Input(name="small model", value=said, origin="given"),),
        copy_of_class=(0,) * half + (1,) * half,
        beside=said,
    )


def joint_price(parts: list[tuple[ReplicaPrice | None, int]]) -> ReplicaPrice | None:
    """The mean price of replicas that are not all alike; unknown where one of them is."""
    known = [(price, count) for price, count in parts if price is not None]
    if len(known) < len(parts):
        return None
    usd = sum(price.usd_per_hour * count for price, count in known) / sum(count for _, count in known)
    machines = " + ".join(dict.fromkeys(price.machine for price, _ in known))
    return replace(known[0][0], usd_per_hour=usd, machine=machines)


def fleet_of_pools(
    asked: AskedPools, copy: CopyQuestion, planned: Replicas, requests: Requests, tables: Catalog
) -> SimulatedFleet:
    """Copies that prefill and copies that decode, and what their hand-over takes."""
    if planned.workload is not None:
        raise UsageError("a plan has replicas that do both", found="a plan and pools", expected="MODEL and both pools")
    both = {PREFILL: asked.prefill, DECODE: asked.decode}
    setups = [set_up(name, pool, copy, planned, tables) for name, pool in both.items()]
    found = [copy_of(question_of(pool, copy), requests, catalog=tables) for pool in both.values()]
    link, link_bytes_per_s = link_between(tables, setups[0], setups[1], copy.instance)
    members = (*(Member(0, PREFILLS),) * asked.prefill.copies, *(Member(1, DECODES),) * asked.decode.copies)
    prices = [(cheapest_price(tables, pool.name, pool.number, None), pool.copies) for pool in both.values()]
    rows = [(f"{name} pool", s.pool.label) for name, s in zip(both, setups, strict=True)]
    return SimulatedFleet(
        found[1],
        tuple(one.copy for one in found),
        members,
        requests,
        joint_price(prices),
        tuple(Input(name=name, value=value, origin="given") for name, value in (*rows, ("link between pools", link))),
        handover=handover_of(setups, planned, link_bytes_per_s, tables),
        place=1,
        beside=f"prefilled by {setups[0].pool.label}",
    )


def set_up(name: str, pool: PoolRequest, copy: CopyQuestion, planned: Replicas, tables: Catalog) -> PoolSetup:
    """A pool as the closed form has it."""
    formats = (copy.precision, copy.kv_precision)
    return pool_setup(tables, planned.arch, engine_of(copy, planned.arch), name, pool, formats, copy.instance)


def question_of(pool: PoolRequest, copy: CopyQuestion) -> CopyQuestion:
    """One copy of a pool."""
    return replace(
        copy,
        gpus=(pool.name, pool.number),
        tp=pool.tp,
        pp=pool.pp or 1,
        ep=pool.ep,
        attention_dp=pool.attention_dp or 1,
        max_batch=pool.max_batch or copy.max_batch,
        max_step_tokens=pool.max_step_tokens or copy.max_step_tokens,
        instance=None,
    )


def handover_of(
    setups: list[PoolSetup], planned: Replicas, link_bytes_per_s: float, tables: Catalog
) -> tuple[float, float]:
    """Seconds that the KV of a prompt takes from one pool to the other: fixed, and per token."""
    calibration = calibration_of(tables)
    formula = calibration.formulas.handover
    models = [StepModel.build(planned.arch, s.pool.candidates, calibration) for s in setups]
    fixed, one = (handed_over_bytes(models[0], models[1], tokens) for tokens in (0.0, 1.0))
    ratios = formula.link_ratio.value, formula.overlap_ratio.value
    first_s, both_s = (float(handover_s(moved, link_bytes_per_s, *ratios)[0]) for moved in (fixed, one))
    return first_s, both_s - first_s
