"""The cheapest pools of a plan, as users get them."""

from __future__ import annotations

from gpufleet.optimize.copies.decoder import Replicas
from gpufleet.optimize.pools_plan import PlacedPool, PooledPlacement
from gpufleet.pricing.effective_price import usd_per_month
from gpufleet.results.pools import PooledDeployment, PooledMachines


def pooled_deployment(copies: Replicas, found: PooledPlacement, answer_usd_per_hour: float | None) -> PooledDeployment:
    """Both pools with their machines and price, beside the price of the plan's own answer."""
    shared = found.machines[1] == 0
    prefill = pooled_machines(copies, found.prefill, found.machines[0], found.carried_per_s[0])
    decode = pooled_machines(copies, found.decode, None if shared else found.machines[1], found.carried_per_s[1])
    row = found.decode.row
    return PooledDeployment(
        prefill=prefill,
        decode=decode,
        engine=copies.engine(row),
        weight_format=copies.weights(row),
        kv_precision=copies.kv_precision(row),
        usd_per_hour=found.usd_per_hour,
        usd_per_month=float(usd_per_month(found.usd_per_hour)),
        cost_ratio=None if answer_usd_per_hour is None else found.usd_per_hour / answer_usd_per_hour,
        planned_s=dict(found.planned_s),
        handover_s=found.handover_s,
    )


def pooled_machines(copies: Replicas, pool: PlacedPool, machines: int | None, carried_per_s: float) -> PooledMachines:
    """The copies of one pool and what they stand on."""
    layout, offer = copies.layout(pool.row), pool.offer
    return PooledMachines(
        copies=pool.copies,
        gpu=copies.gpu(pool.row).name,
        num_gpus=layout.num_devices,
        layout=layout.label,
        cloud=offer.cloud,
        region=offer.region,
        instance=offer.instance,
        machines=machines,
        price_kind=offer.price_kind.value,
        price_source=offer.source,
        price_as_of=offer.as_of if offer.is_dated else None,
        carried_requests_per_s=carried_per_s,
    )
