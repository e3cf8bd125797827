"""What APIs that charge by the token ask for open models: `data/token_prices.csv`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from functools import lru_cache
from typing import Any

from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import folded_name, resolve_model_name, untuned
from gpufleet.catalog.schema import Place, day, number, required_number, text
from gpufleet.catalog.stored_formats import split_name
from gpufleet.catalog.table_files import SHIPPED, rows_of
from gpufleet.errors import DataMissing, UnknownName, UsageError
from gpufleet.pricing.token_price import TokenPrice
from gpufleet.provenance import Source
from gpufleet.records import dataclass
from gpufleet.results.catalog import SourceNote, TokenApi, TokenPriceListing, TokenPriceRow

COLUMNS = (
    *("model", "host", "name_there", "usd_per_1m_input", "usd_per_1m_output", "usd_per_1m_cached_input"),
    *("source_id", "as_of", "ends_on", "doubt"),
)
ENDING = "-ai"


@dataclass(frozen=True)
class TokenOffer:
    """A model at a host; `doubt` says why a price is weak, `as_of` is None where the list has no date.

    `ends_on` is the day on which the host stops serving it.
    """

    model: str
    host: str
    name_there: str
    price: TokenPrice
    usd_per_million_cached_input_tokens: float | None
    source: str
    as_of: date | None
    ends_on: date | None
    doubt: str


@lru_cache(maxsize=1)
def token_offers() -> tuple[TokenOffer, ...]:
    """Rows of the table, in its order."""
    return tuple(token_offer(place, row) for place, row in rows_of(SHIPPED / "token_prices.csv", COLUMNS))


def token_offer(place: Place, row: Mapping[str, str]) -> TokenOffer:
    """One row of the table."""
    prices = (required_number(place, key, row[key]) for key in ("usd_per_1m_input", "usd_per_1m_output"))
    return TokenOffer(
        model=text(place, "model", row["model"]),
        host=text(place, "host", row["host"]),
        name_there=text(place, "name_there", row["name_there"]),
        price=TokenPrice(*prices),
        usd_per_million_cached_input_tokens=number(place, "usd_per_1m_cached_input", row["usd_per_1m_cached_input"]),
        source=text(place, "source_id", row["source_id"]),
        as_of=day(place, "as_of", row["as_of"]) if row["as_of"] else None,
        ends_on=day(place, "ends_on", row["ends_on"]) if row["ends_on"] else None,
        doubt=row["doubt"],
    )


def resolve_host(name: str) -> str:
    """A host as people write it.

    >>> resolve_host("Together_AI"), resolve_host("openrouter")
    ('together', 'openrouter')
    """
    hosts = {offer.host for offer in token_offers()}
    folded = folded_name(name)
    found = next((host for host in (folded, folded.removesuffix(ENDING), folded + ENDING) if host in hosts), None)
    if found is None:
        hint = "'gpufleet catalog token-prices' lists what each asks; a price is written '0.6/1.2'."
        raise UnknownName("token API", name, sorted(hosts), hint=hint)
    return found


def offers_of(model: str) -> tuple[list[TokenOffer], bool]:
    """What is sold of a model, and whether under its own name: else they are models of its shape.

    DeepSeek-R1 and V3 have one shape and two prices: where a table has the name that was typed, only that counts.
    """
    owner, _, bare = folded_name(model).rpartition("/")
    cut = split_name(owner, bare)
    typed = {untuned(bare), untuned(cut[0] if cut else bare)}
    named = [offer for offer in token_offers() if untuned(folded_name(offer.model)) in typed]
    if named:
        return named, True
    try:
        shape = resolve_model_name(model).id
    except UsageError:
        return [], False
    return [offer for offer in token_offers() if shape_of(offer.model) == shape], False


@lru_cache(maxsize=256)
def shape_of(name: str) -> str | None:
    """The shipped model that a name of the table stands for."""
    try:
        return resolve_model_name(name).id
    except UsageError:
        return None


def api_of(model: str, host: str, input_tokens: float, output_tokens: float, today: date) -> TokenApi:
    """The price of a model at a host: of several there, the one that asks least for these requests."""
    at, (offers, is_named) = resolve_host(host), offers_of(model)
    sold = [offer for offer in offers if offer.ends_on is None or offer.ends_on >= today]
    here = [offer for offer in sold if offer.host == at]
    if not here:
        elsewhere = sorted({offer.host for offer in sold})
        hint = f"Known of {', '.join(elsewhere)}." if elsewhere else "Write its price as '0.6/1.2'."
        raise DataMissing(f"what {at} asks for tokens of {model} is not known here", hint=hint)
    least = min(here, key=lambda offer: offer.price.usd_per_request(input_tokens, output_tokens))
    return TokenApi(**cells_of(least), is_same_model=is_named, num_others_there=len(here) - 1)


def list_token_prices(model: str | None, hosts: Sequence[str] | None) -> TokenPriceListing:
    """What hosts ask, a row each: of a model, or of all."""
    offers, notes = list(token_offers()), []
    if model is not None:
        offers, is_named = offers_of(model)
        if not offers:
            resolve_model_name(model)
            raise DataMissing(f"what hosts ask for tokens of {model} is not known here", hint="Write it as '0.6/1.2'.")
        notes = [] if is_named else [f"{model} is not named in the table: these have its shape, not its weights."]
    if hosts is not None:
        wanted = {resolve_host(host) for host in hosts}
        offers = [offer for offer in offers if offer.host in wanted]
    rows = [TokenPriceRow(**cells_of(offer)) for offer in offers]
    rows.sort(key=lambda row: (row.model, row.usd_per_million_output_tokens, row.usd_per_million_input_tokens))
    known = sources()
    named = [known[name] for name in sorted({offer.source for offer in offers})]
    return TokenPriceListing(rows=rows, notes=notes, sources=[note_of(source) for source in named])


def sources() -> Mapping[str, Source]:
    """Sources of the table, with their days."""
    return load_catalog().sources


def note_of(source: Source) -> SourceNote:
    """A source as a listing names it."""
    return SourceNote(
        id=source.id,
        title=source.title,
        as_of=source.as_of,
        url=source.url,
        licence=source.licence,
        first_seen=source.first_seen,
    )


def cells_of(offer: TokenOffer) -> dict[str, Any]:
    """An offer as rows of results hold it; an undated one says when its list was first seen."""
    return {
        "model": offer.model,
        "host": offer.host,
        "name_there": offer.name_there,
        "usd_per_million_input_tokens": offer.price.usd_per_million_input_tokens,
        "usd_per_million_output_tokens": offer.price.usd_per_million_output_tokens,
        "usd_per_million_cached_input_tokens": offer.usd_per_million_cached_input_tokens,
        "source": offer.source,
        "as_of": offer.as_of,
        "first_seen": None if offer.as_of else sources()[offer.source].first_seen,
        "ends_on": offer.ends_on,
        "doubt": offer.doubt,
    }
