"""Rows that name what no table holds: checked when a user's tables join the shipped ones, and in every build."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from gpufleet.catalog.tables import Catalog
from gpufleet.domain.offer import Offer


class Finding(NamedTuple):
    """One fault: the rule that is broken, the row that breaks it, how, and what the rule asks for."""

    rule: str
    row: str
    fault: str
    expected: str = ""


Rule = Callable[[Catalog], Iterable[Finding]]


def broken_references(catalog: Catalog) -> list[Finding]:
    """Rows that name a source, an accelerator or an instance that no table holds."""
    rules: tuple[Rule, ...] = (unknown_accelerators, unknown_instances, dangling_aliases, unknown_sources)
    return [finding for rule in rules for finding in rule(catalog)]


def label(offer: Offer) -> str:
    """An offer as a finding names it."""
    return f"{offer.cloud} {offer.region} {offer.instance} {offer.price_kind.value}"


def unknown_sources(catalog: Catalog) -> Iterator[Finding]:
    """Every figure names a source of sources.toml."""
    rows = [(gpu.name, gpu.source) for gpu in catalog.accelerators.values()]
    rows += [(f"{i.cloud} {i.name}", i.source) for i in catalog.described_instances]
    rows += [(label(offer), offer.source) for offer in catalog.offers]
    rows += [(f"{a.cloud} {a.region} {a.instance}", a.source) for a in catalog.availability]
    rows += [(f"{f.cloud} {f.region} {f.instance} {f.price_kind.value}", f.source) for f in catalog.foreign_offers]
    rows += [(f"bill line {line.name}", line.source) for line in catalog.bill_lines]
    rows += [(f"{d.cloud} {d.price_kind.value} discount", d.source) for d in catalog.typical_discounts]
    rows += [(f"moves of {move.price_kind} prices", move.source) for move in catalog.price_moves]
    for row, source in rows:
        if source not in catalog.sources:
            yield Finding("source exists", row, f"no source {source!r}")


def unknown_accelerators(catalog: Catalog) -> Iterator[Finding]:
    """Every instance holds an accelerator of the tables."""
    for instance in catalog.described_instances:
        if instance.accelerator not in catalog.accelerators:
            yield Finding("GPU exists", f"{instance.cloud} {instance.name}", f"no accelerator {instance.accelerator!r}")


def unknown_instances(catalog: Catalog) -> Iterator[Finding]:
    """Every offer and every availability row names an instance of the tables."""
    known = {*catalog.instances, *catalog.incomplete_instances}
    for offer in catalog.offers:
        if (offer.cloud, offer.instance) not in catalog.instances:
            yield Finding("instance exists", label(offer), "no such complete instance")
    for foreign in catalog.foreign_offers:
        if (foreign.cloud, foreign.instance) not in catalog.instances:
            row_name = f"{foreign.cloud} {foreign.region} {foreign.instance} {foreign.price_kind.value}"
            yield Finding("instance exists", row_name, "no such complete instance")
    for row in catalog.availability:
        if (row.cloud, row.instance) not in known:
            yield Finding("instance exists", f"{row.cloud} {row.region} {row.instance}", "no such instance")


def dangling_aliases(catalog: Catalog) -> Iterator[Finding]:
    """Every alias means an accelerator."""
    for alias, target in catalog.gpu_aliases.items():
        if target not in catalog.accelerators:
            yield Finding("alias means a GPU", alias, f"no accelerator {target!r}")
