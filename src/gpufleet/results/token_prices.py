"""What APIs ask for tokens of open models, by host."""

from __future__ import annotations

from datetime import date

from gpufleet.provenance import day_in_words
from gpufleet.results.base import Result
from gpufleet.results.catalog import Listing


class TokenPriceRow(Result):
    """A model at a host, in USD per million tokens; `as_of` is None where its list has no date.

    `name_there` is how the list writes it, `ends_on` the last day on which the host serves it, `doubt` why it is weak.
    """

    model: str
    host: str
    name_there: str
    usd_per_million_input_tokens: float
    usd_per_million_output_tokens: float
    usd_per_million_cached_input_tokens: float | None
    source: str
    as_of: date | None
    first_seen: date | None
    ends_on: date | None
    doubt: str

    @property
    def day(self) -> str:
        """Of which day the price is, as far as is known."""
        return day_in_words(self.as_of, self.first_seen)


class TokenApi(TokenPriceRow):
    """The price that an answer was compared with; `num_others_there` cost more at that host.

    `is_same_model`: the host sells the model itself, not another one of its shape.
    """

    is_same_model: bool
    num_others_there: int


class TokenPriceListing(Listing):
    """Prices of tokens, the cheapest of each model first."""

    rows: list[TokenPriceRow]
