"""What an API that charges by the token would take for the same requests."""

from __future__ import annotations

from gpufleet.records import dataclass
from gpufleet.units import HOUR, MEGA


@dataclass(frozen=True)
class TokenPrice:
    """USD per million tokens of prompts and of answers."""

    usd_per_million_input_tokens: float
    usd_per_million_output_tokens: float

    def usd_per_request(self, input_tokens: float, output_tokens: float) -> float:
        """USD of one request.

        c = (in p_in + out p_out) / 1e6   [USD]

        >>> round(TokenPrice(0.6, 1.2).usd_per_request(1000, 300), 6)
        0.00096
        """
        paid_input = input_tokens * self.usd_per_million_input_tokens
        return (paid_input + output_tokens * self.usd_per_million_output_tokens) / MEGA

    def usd_per_hour(self, requests_per_s: float, input_tokens: float, output_tokens: float) -> float:
        """USD of an hour of requests.

        >>> round(TokenPrice(0.6, 1.2).usd_per_hour(10.0, 1000, 300), 2)
        34.56
        """
        return requests_per_s * HOUR * self.usd_per_request(input_tokens, output_tokens)
