"""What in a user's tables puts a price in doubt: every answer that rests on it says so.

A slip that nothing explains is refused (`own_prices.py`, `own_terms.py`, `own_machines.py`). What somebody may mean is
taken and told: another machine under a shipped name, a price far from the market, a machine that costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from gpufleet.catalog.own_prices import most_saved
from gpufleet.catalog.references import label
from gpufleet.catalog.schema import Place
from gpufleet.catalog.tables import Catalog
from gpufleet.catalog.usual_prices import GpuKey, is_usual, times_words, usual_per_gpu
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.pricing.commitment import offer_usd_per_hour
from gpufleet.units import GIB, GIGA, TERA

MOST_CORRECTED_RATIO = 0.1
LEAST_OWN_RATIO = 0.01
MOST_BEYOND_ANY, USUAL_GPUS = 3.0, 8
HOST_FIGURES = {
    "network_gbit_per_s": "Gbit/s of network",
    "vcpus": "vCPUs",
    "memory_gib": "GiB of host memory",
}


def with_doubts(catalog: Catalog, listed: Catalog, places: Mapping[str, Place]) -> Catalog:
    """The catalog with its doubted prices marked; `listed` is without the user's rows, which stand at `places`."""
    held = Held(listed, places)
    offers = tuple(marked(offer, "; ".join(doubts_about(offer, catalog, held))) for offer in catalog.offers)
    return replace(catalog, offers=offers)


def marked(offer: Offer, why: str) -> Offer:
    """The offer with one doubt more, where there is one."""
    return offer.in_doubt(why) if why else offer


@dataclass
class Held:
    """What a user's rows are held to: the tables without them."""

    listed: Catalog
    places: Mapping[str, Place]
    usual_of: dict[str, Mapping[GpuKey, float]] = field(default_factory=dict)
    most_of: dict[str, float] = field(default_factory=dict)
    of_machine: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def prices(self) -> Mapping[str, float]:
        """Listed prices by the words of their rows. [USD/hour]"""
        return {label(offer): offer_usd_per_hour(offer) for offer in self.listed.offers}

    def most(self, name: str) -> float:
        """The most that any listed machine of eight GPUs or fewer has of something."""
        if name not in self.most_of:
            few = (i for i in self.listed.instances.values() if i.gpu_count <= USUAL_GPUS)
            self.most_of[name] = max((getattr(i, name) or 0.0 for i in few), default=0.0)
        return self.most_of[name]

    def usual(self, cloud: str) -> Mapping[GpuKey, float]:
        """What clouds other than this one ask for one GPU. [USD/hour]"""
        if cloud not in self.usual_of:
            elsewhere = [offer for offer in self.listed.offers if offer.cloud != cloud and not offer.doubt]
            self.usual_of[cloud] = usual_per_gpu(self.listed, elsewhere)
        return self.usual_of[cloud]


def doubts_about(offer: Offer, catalog: Catalog, held: Held) -> Iterator[str]:
    """Why an offer is in doubt: its machine is another one than is shipped, its price is far from what others ask."""
    instance = catalog.instance_of(offer)
    key = instance.cloud, instance.name
    if key not in held.of_machine:
        held.of_machine[key] = tuple(doubts_about_machine(instance, catalog, held))
    yield from held.of_machine[key]
    if offer_usd_per_hour(offer) != held.prices.get(label(offer)) and instance.gpu_count >= 1:
        yield from far_from_market(offer, instance, held)


def doubts_about_machine(instance: Instance, catalog: Catalog, held: Held) -> Iterator[str]:
    """Why all prices of a machine are in doubt: it, its host or its GPU is another one than is shipped."""
    yield from other_machine(instance, held)
    yield from other_host(instance, held)
    yield from other_accelerator(catalog.accelerators[instance.accelerator], held)


def other_machine(instance: Instance, held: Held) -> Iterator[str]:
    """That the user's tables put other GPUs, or other links, under a shipped name."""
    shipped = held.listed.instances.get((instance.cloud, instance.name))
    if shipped is None or is_like(instance, shipped):
        return
    place = held.places[f"{instance.cloud} {instance.name}"]
    yield f"{place.short} says {machine_words(instance)}, the shipped tables {machine_words(shipped)}"


def other_host(instance: Instance, held: Held) -> Iterator[str]:
    """That the user's tables say much else of a machine's network, CPUs and memory than is known of it, or of any."""
    shipped = held.listed.instances.get((instance.cloud, instance.name))
    if shipped is instance or (place := held.places.get(f"{instance.cloud} {instance.name}")) is None:
        return
    for name, words in HOST_FIGURES.items():
        own, known = getattr(instance, name), None if shipped is None else getattr(shipped, name)
        if own is None:
            continue
        if known is not None:
            if not is_corrected(own, known):
                yield f"{place.short} says {own:,g} {words}, the shipped tables {known:,g}"
        elif not is_possible(own, held.most(name), instance.gpu_count):
            yield f"{place.short} says {own:,g} {words}, no machine that is known more than {held.most(name):,g}"


def is_possible(own: float, most: float, gpu_count: float) -> bool:
    """Whether a machine with so many GPUs may have so much more than any that is known; more GPUs may have more.

    >>> is_possible(400, 3_200, 8), is_possible(40_000, 3_200, 8)
    (True, False)
    """
    return own <= MOST_BEYOND_ANY * most * max(gpu_count / USUAL_GPUS, 1.0)


def is_like(instance: Instance, shipped: Instance) -> bool:
    """Whether a machine holds the same GPUs, linked alike but for a correction."""
    alike = [
        (i.accelerator, i.gpu_count, i.fabric.with_peers.kind if i.gpu_count > 1 else "") for i in (instance, shipped)
    ]
    rates = [i.fabric.bytes_per_s or 0.0 for i in (instance, shipped)]
    return alike[0] == alike[1] and is_corrected(*rates)


def is_corrected(own: float, shipped: float) -> bool:
    """Whether a figure is near the shipped one.

    >>> is_corrected(80.0, 79.6), is_corrected(796.0, 79.6)
    (True, False)
    """
    return abs(own - shipped) <= MOST_CORRECTED_RATIO * shipped


def machine_words(instance: Instance) -> str:
    """GPUs of a machine and how they are linked."""
    rate = instance.fabric.bytes_per_s
    link = f", {instance.fabric.kind}" + ("" if rate is None else f" at {rate / GIGA:g} GB/s")
    return f"{instance.gpu_count:g}x {instance.accelerator}{link if instance.gpu_count > 1 else ''}"


def other_accelerator(gpu: Accelerator, held: Held) -> Iterator[str]:
    """That the user's tables say much else of a shipped GPU."""
    shipped = held.listed.accelerators.get(gpu.name)
    if shipped is None or shipped is gpu:
        return
    own, known = figures(gpu), figures(shipped)
    for name in (name for name in own if not is_corrected(own[name], known.get(name, 0.0))):
        place = held.places[gpu.name]
        yield f"{place.short} says {own[name]:.3g} {name}, the shipped tables {known.get(name, 0.0):.3g}"


def figures(gpu: Accelerator) -> dict[str, float]:
    """What a plan rests on, by its name with its unit."""
    peaks = {f"{kind} TFLOP/s": peak / TERA for kind, peak in gpu.peak_flop_per_s.items()}
    return {"GiB of memory": gpu.memory_bytes / GIB, "GB/s": gpu.bandwidth_bytes_per_s / GIGA, **peaks}


def far_from_market(offer: Offer, instance: Instance, held: Held) -> Iterator[str]:
    """That a price of the user's is far from what other clouds ask for such GPUs, where the listed one is not."""
    usual, per_gpu = held.usual(offer.cloud), offer_usd_per_hour(offer) / instance.gpu_count
    alike = usual.get((instance.accelerator, offer.price_kind))
    listed = held.prices.get(label(offer))
    if alike is not None and not is_usual(per_gpu, alike):
        if listed is None or is_usual(listed / instance.gpu_count, alike):
            yield f"{times_words(per_gpu / alike)} what other clouds ask per GPU"
        return
    on_demand = usual.get((instance.accelerator, PriceKind.ON_DEMAND))
    if on_demand is not None and per_gpu < on_demand * least_ratio(offer, instance):
        yield f"{times_words(per_gpu / on_demand)} what clouds ask per GPU on demand"


def least_ratio(offer: Offer, instance: Instance) -> float:
    """The least share of an on-demand price that a price may be; one's own machine costs some per cent to run."""
    if offer.price_kind is PriceKind.OWNED:
        return LEAST_OWN_RATIO
    return 1 - most_saved(offer.price_kind, instance.gpu_count)
