"""The words of a replay: what arrives, and how it is dealt out; refused where they do not go together."""

from __future__ import annotations

import math

from gpufleet.domain.routing import ROUTINGS
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.errors import UnknownName, UsageError
from gpufleet.records import dataclass
from gpufleet.units import REQUESTS_PER_S, SECONDS

POISSON, GAMMA, FIXED, BURST = ARRIVALS = ("poisson", "gamma", "fixed", "burst")
AUTO = "auto"
DEFAULT_REQUESTS, MOST_REQUESTS, MOST_REPLICAS, MOST_RETRIES = 10_000, 10_000_000, 10_000, 100
MOST_BURSTINESS, MOST_STRETCH, MOST_WAITING, MOST_SEED = 1e4, 1e6, 10**9, 2**63 - 1


@dataclass(frozen=True)
class Traffic:
    """What arrives: a trace, or requests that are drawn at a `rate`; a burst comes at once and has none.

    `burstiness` of gamma arrivals is 1 over the squared variation of the time between them, as vLLM's benchmark has it:
    1 is Poisson, less comes in bursts. `requests` and `duration_s` end the replay at whichever comes first; of drawn
    arrivals `DEFAULT_REQUESTS` where neither is said. A trace is told apart in time by `stretch` (2: half the rate),
    and keeps the share `thin` of its requests. `rates` is a file of rates over time, of `rates_model` where it has
    several models; a `rate` beside it is the mean that they are scaled to.
    """

    trace: str | None = None
    rate: float | None = None
    arrival: str | None = None
    burstiness: float | None = None
    input_tokens: float | TokenCounts | None = None
    output_tokens: float | TokenCounts | None = None
    requests: float | None = None
    duration_s: float | None = None
    stretch: float = 1.0
    thin: float = 1.0
    seed: int = 0
    rates: str | None = None
    rates_model: str | None = None

    def checked(self, *, is_planned: bool = False) -> Traffic:
        """The same, or what does not go together; a plan says rate and lengths where nothing else does."""
        self._refuse_numbers()
        if self.arrival is not None and self.arrival not in ARRIVALS:
            raise UnknownName("way to arrive", self.arrival, ARRIVALS)
        if self.rates is not None:
            self._refuse_beside_rates()
        if self.trace is None and self.rates is None and not is_planned:
            self._refuse_drawn()
        if self.trace is None:
            self._refuse_what_traces_say()
        elif self.arrival is not None or self.rate is not None:
            hint = "--stretch and --thin change the rate of a trace."
            raise UsageError("a trace has arrivals of its own", found="--rate or --arrival beside --trace", hint=hint)
        if (self.burstiness is not None) != (self.arrival == GAMMA):
            expected = "--arrival gamma --burstiness N, such as 0.25 (1: Poisson)"
            raise UsageError("burstiness and gamma arrivals go together", expected=expected)
        return self

    def _refuse_numbers(self) -> None:
        refuse_outside("the burstiness", self.burstiness, 1e-3, MOST_BURSTINESS)  # not a conversion
        refuse_outside("the factor of --stretch", self.stretch, 1 / MOST_STRETCH, MOST_STRETCH)
        refuse_outside("the share of --thin", self.thin, 1 / MOST_REQUESTS, 1)
        refuse_outside("the duration", self.duration_s, SECONDS.least, SECONDS.most)
        refuse_outside("the rate", self.rate, REQUESTS_PER_S.least, REQUESTS_PER_S.most)
        refuse_outside("the seed", self.seed, 0, MOST_SEED)
        refuse_outside("the number of requests", self.requests, 1, MOST_REQUESTS)
        if self.requests is not None and self.requests != round(self.requests):
            raise UsageError("requests are whole", found=f"{self.requests:g}", expected="a number such as 500 or 10k")

    def _refuse_drawn(self) -> None:
        if self.arrival == BURST and (self.rate is not None or self.requests is None):
            raise UsageError("a burst comes at once", expected="--arrival burst --requests N, without --rate")
        if self.arrival != BURST and self.rate is None:
            expected = "--rate N/TIME, --trace FILE, or --arrival burst --requests N"
            raise UsageError("nothing says when requests arrive", expected=expected)
        if self.input_tokens is None or self.output_tokens is None:
            lengths = "--in TOKENS and --out TOKENS, or --trace FILE"
            raise UsageError("nothing says how long requests are", expected=lengths)
        self._refuse_number_drawn()

    def _refuse_beside_rates(self) -> None:
        if self.trace is not None or self.arrival in (FIXED, BURST) or self.requests is not None:
            found = "--rates beside --trace, --requests, or arrivals without a rate"
            hint = "--rate scales the curve, --duration cuts it."
            raise UsageError("rates over time say when requests come, and how many", found=found, hint=hint)

    def _refuse_what_traces_say(self) -> None:
        if self.stretch != 1 or self.thin != 1:
            raise UsageError("--stretch and --thin change a trace", expected="--trace FILE, or another --rate")

    def _refuse_number_drawn(self) -> None:
        drawn, hint = self.expected_requests, "Their number is --requests, or --rate x --duration."
        if not 1 <= drawn <= MOST_REQUESTS:
            problem = "too many requests" if drawn > 1 else "no request arrives in that time"
            raise UsageError(problem, found=f"{drawn:,.3g}", expected=f"1 to {MOST_REQUESTS:,}", hint=hint)

    @property
    def expected_requests(self) -> float:
        """How many requests are drawn, about."""
        by_time = math.inf if self.duration_s is None or self.rate is None else self.rate * self.duration_s
        if self.requests is None and math.isinf(by_time):
            return DEFAULT_REQUESTS
        return min(math.inf if self.requests is None else self.requests, by_time)


@dataclass(frozen=True)
class Dealing:
    """How requests are dealt out and kept waiting: routing, prefix cache, time-outs, admission, retries.

    None never: no time-out, no limit on how many wait at a replica.
    """

    route: str = ROUTINGS[0]
    prefix_cache: bool = True
    timeout_s: float | None = None
    max_waiting: int | None = None
    retries: int = 0

    def checked(self) -> Dealing:
        """The same, or what cannot be meant."""
        if self.route not in ROUTINGS:
            raise UnknownName("way to deal out requests", self.route, ROUTINGS)
        refuse_outside("the time-out", self.timeout_s, SECONDS.least, SECONDS.most)
        refuse_outside("the number that may wait", self.max_waiting, 0, MOST_WAITING)
        refuse_outside("the number of retries", self.retries, 0, MOST_RETRIES)
        if self.retries and self.timeout_s is None and self.max_waiting is None:
            raise UsageError(
                "nothing is retried that is not refused", expected="--timeout or --max-waiting with --retries"
            )
        return self


@dataclass(frozen=True)
class Mishaps:
    """What befalls replicas: a cold start of all of them at the beginning, and losses; seconds, or what tables say.

    A lost replica comes back after a cold start.
    """

    cold_start_s: float | str | None = None
    mtbf_s: float | str | None = None

    def checked(self) -> Mishaps:
        """The same, or what cannot be meant."""
        for what, value in (("the cold start", self.cold_start_s), ("the time between failures", self.mtbf_s)):
            if isinstance(value, str):
                if value != AUTO:
                    raise UsageError(f"{what} cannot be read", found=value, expected=f"seconds, or {AUTO}")
            else:
                refuse_outside(what, value, 0 if what == "the cold start" else SECONDS.least, SECONDS.most)
        return self


@dataclass(frozen=True)
class InFront:
    """What stands before the replicas: a response cache, and a small model for a share of what it does not answer."""

    cache_hits: float = 0.0
    small_model: str | None = None
    small_gpus: str | None = None
    small_replicas: int = 1
    small_share: float | None = None

    def checked(self) -> InFront:
        """The same, or what does not go together."""
        refuse_outside("the share of cached answers", self.cache_hits, 0, 1)
        said = (self.small_model, self.small_gpus, self.small_share)
        if any(value is not None for value in said) and None in said:
            expected = "--small-model, --small-gpus and --small-share"
            raise UsageError("a small model has its GPUs and its share", expected=expected)
        refuse_outside("the share of the small model", self.small_share, 0, 1)
        checked_replicas(self.small_replicas)
        return self


def refuse_outside(what: str, value: float | None, least: float, most: float) -> None:
    """Refuse a number that nobody means; None is none."""
    if value is not None and not least <= value <= most:
        raise UsageError(f"{what} is out of range", found=value, expected=f"from {least:g} to {most:,.15g}")


def checked_replicas(replicas: int) -> int:
    """How many copies of the model there are."""
    refuse_outside("the number of replicas", replicas, 1, MOST_REPLICAS)
    return replicas
