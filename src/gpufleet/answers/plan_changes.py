"""What changed between a plan of some day and the same question now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpufleet.results.plan import ConsideredPrice
from gpufleet.results.plan_changes import (
    DigestChange,
    PriceChange,
    TypeKey,
)


def key_of_price(price: ConsideredPrice) -> TypeKey:
    """The row of the ranking that a price belongs to."""
    return price.cloud, price.instance, price.price_kind


def cheapest_by_key(prices: Iterable[ConsideredPrice]) -> dict[TypeKey, ConsideredPrice]:
    """The cheapest region of each row of the ranking."""
    dearest_first = sorted(prices, key=lambda p: -p.usd_per_hour)
    return {key_of_price(p): p for p in dearest_first}


def price_changes(
    was: list[ConsideredPrice], now: list[ConsideredPrice], alone: Mapping[TypeKey, TypeKey], chosen: TypeKey | None
) -> list[PriceChange]:
    """Every machine type whose cheapest price changed, came or went; what each `alone` gives, `chosen` today."""
    then, today = cheapest_by_key(was), cheapest_by_key(now)
    changed = (key for key in sorted({*then, *today}) if usd(then.get(key)) != usd(today.get(key)))
    return [price_change(key, then.get(key), today.get(key), alone.get(key), chosen) for key in changed]


def usd(price: ConsideredPrice | None) -> float | None:
    """The figure of a price that may be unknown."""
    return None if price is None else price.usd_per_hour


def price_change(
    key: TypeKey,
    was: ConsideredPrice | None,
    now: ConsideredPrice | None,
    gives: TypeKey | None,
    chosen: TypeKey | None,
) -> PriceChange:
    """One row of the price list, then and now; alone it `gives` another choice, or none."""
    return PriceChange(
        cloud=key[0],
        instance=key[1],
        price_kind=key[2],
        was_usd_per_hour=usd(was),
        now_usd_per_hour=usd(now),
        was_region=None if was is None else was.region,
        now_region=None if now is None else now.region,
        was_as_of=None if was is None else was.as_of,
        now_as_of=None if now is None else now.as_of,
        is_decisive=gives is not None and gives == chosen,
        alone_gives="" if gives is None else " ".join(gives[:2]),
    )


def digest_changes(
    was: dict[str, str], now: dict[str, str], old: list[ConsideredPrice], machines_now: dict[tuple[str, str], str]
) -> list[DigestChange]:
    """Digests that differ, and machine types whose figures differ."""
    found = [
        DigestChange(what=name, was=was.get(name), now=now.get(name))
        for name in {**was, **now}
        if was.get(name) != now.get(name)
    ]
    machines = {(p.cloud, p.instance): p.machine for p in old}
    found += [
        DigestChange(what=f"{cloud} {name}", was=machine, now=machines_now.get((cloud, name)))
        for (cloud, name), machine in machines.items()
        if machines_now.get((cloud, name)) != machine
    ]
    return found
