"""Prices of tokens as a page, each with its host and its day."""

from __future__ import annotations

from gpufleet.report.catalog_pages import cut_note
from gpufleet.report.numbers import several, usd
from gpufleet.report.page import Column, Page, Table
from gpufleet.results.catalog import TokenApi, TokenPriceListing


def token_price_page(listing: TokenPriceListing, limit: int | None) -> Page:
    """A row for each model and host, the cheapest of a model first."""
    columns = [
        Column("model", "model"),
        Column("host", "host"),
        Column("usd_per_million_input_tokens", "in", usd, "right"),
        Column("usd_per_million_output_tokens", "out", usd, "right"),
        Column("usd_per_million_cached_input_tokens", "cached", usd, "right", priority=3),
        Column("as_of", "as of", lambda day: "undated" if day is None else str(day)),
        Column("doubt", "doubt", lambda doubt: str(doubt) or "-", priority=1),
        Column("name_there", "named there", priority=4),
        Column("ends_on", "ends on", where="data"),
        Column("source", "source", where="data"),
    ]
    shown = listing.rows[:limit]
    rows = [row.model_dump() for row in shown]
    notes = ["USD per 1M tokens; nothing is live.", *listing.notes, *cut_note(len(listing.rows), len(shown))]
    notes += [f"{source.id}: {source.title} ({source.day})." for source in listing.sources]
    return Page(several(len(listing.rows), "price"), [Table(columns, rows)], notes)


def api_in_words(api: TokenApi) -> str:
    """Whose price an answer was compared with, of which day, and what is to be known of it."""
    said = [f"{api.host}, {api.name_there}", api.day]
    said += [] if api.is_same_model else [f"{api.model} has this model's shape, not its weights"]
    said += [f"{several(api.num_others_there, 'more expensive one')} there"] if api.num_others_there else []
    said += [f"ends on {api.ends_on}"] if api.ends_on else []
    said += [f"weak: {api.doubt}"] if api.doubt else []
    return "; ".join(said)
