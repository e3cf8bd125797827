"""How large and how settled providers are (providers.csv, provider_classes.toml): judgements; unknown is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from gpufleet.catalog.own_machines import OWN_CLOUD
from gpufleet.catalog.profiles import sourced
from gpufleet.catalog.query import resolve_cloud
from gpufleet.catalog.schema import Place, Row, choice, text
from gpufleet.catalog.table_files import SHIPPED, table_in, toml_of
from gpufleet.catalog.tables import Catalog
from gpufleet.errors import UnknownName
from gpufleet.provenance import Sourced

PROVIDER_COLUMNS = ("cloud", "class", "source_id", "evidence")
UNKNOWN = "unknown"


class Provider(NamedTuple):
    """A provider, its class, and on what that judgement rests; `source` is empty where nobody else says it."""

    cloud: str
    provider_class: str
    source: str
    evidence: str


@lru_cache(maxsize=1)
def easily_had_gpus() -> Mapping[str, Sourced]:
    """GPUs of one type that one may expect at once in a region, by class, the most settled first.

    >>> list(easily_had_gpus())
    ['hyperscaler', 'established', 'small', 'marketplace', 'unknown']
    """
    return {name: sourced(row) for name, row in toml_of(SHIPPED / "provider_classes.toml").items()}


@lru_cache(maxsize=1)
def providers() -> Mapping[str, Provider]:
    """Rows of providers.csv by cloud."""
    return {p.cloud: p for p in table_in(SHIPPED, "providers.csv", PROVIDER_COLUMNS, provider_from)}


def provider_from(place: Place, row: Row) -> Provider:
    """A row of providers.csv."""
    classes = {name: name for name in easily_had_gpus()}
    return Provider(
        cloud=text(place, "cloud", row["cloud"]),
        provider_class=choice(place, "class", row["class"], classes),
        source=row["source_id"],
        evidence=text(place, "evidence", row["evidence"]),
    )


def class_of(cloud: str) -> str:
    """The class of a provider, 'unknown' where nobody has judged it.

    >>> class_of("aws"), class_of("verda"), class_of("somebody-new")
    ('hyperscaler', 'small', 'unknown')
    """
    found = providers().get(cloud)
    return UNKNOWN if found is None else found.provider_class


def most_easily_had() -> float:
    """GPUs of one type that are had at once somewhere without asking."""
    return max(had.value for had in easily_had_gpus().values())


def clouds_of_providers(catalog: Catalog, words: Sequence[str], among: Iterable[str] | None = None) -> list[str]:
    """Clouds of these classes and names; a class means that settled or more, and one's own machines are always meant.

    >>> from gpufleet.catalog.load import load_catalog
    >>> clouds_of_providers(load_catalog(), ["hyperscaler", "verda"])
    ['aws', 'azure', 'gcp', 'oci', 'verda']
    """
    ranks = {name: rank for rank, name in enumerate(easily_had_gpus())}
    folded = [word.strip().casefold() for word in words]
    named = {found_provider(catalog, word, ranks) for word in folded if word not in ranks}
    least = max((ranks[word] for word in folded if word in ranks), default=-1)
    wanted = (cloud for cloud in (catalog.clouds if among is None else among))
    return [c for c in wanted if c in named or c == OWN_CLOUD or ranks[class_of(c)] <= least]


def found_provider(catalog: Catalog, word: str, classes: Iterable[str]) -> str:
    """The cloud of a name; the message of a name that is none offers the classes too."""
    try:
        return resolve_cloud(catalog, word)
    except UnknownName:
        known = [*classes, *catalog.clouds]
        raise UnknownName("provider or class of providers", word, known, hint=f"Known: {', '.join(known)}.") from None
