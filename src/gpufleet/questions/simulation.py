"""The words of a replay: what arrives, who serves it, how it is dealt out; refused where they do not go together."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gpufleet.domain.routing import ROUTINGS
from gpufleet.errors import UnknownName, UsageError
from gpufleet.questions.estimate import GPUS, POOL, CopyQuestion
from gpufleet.questions.fields import IN, OUT, RATE, REPLICA_RATE, REQUESTS, SLO, TRACE, NamedPath
from gpufleet.questions.words import (
    BESIDE,
    EDITED,
    ENGINE,
    INTEGER,
    LOAD,
    NUMBER,
    ON_OFF,
    REPLICAS,
    SHARE,
    Kind,
    Request,
    Word,
    file,
    flag_of,
    maybe_file,
    optional,
    plain,
    refuse_out_of_range,
    text,
    time_like,
    usual,
    worded,
)
from gpufleet.records import dataclass
from gpufleet.units import REQUESTS_PER_S, SECONDS, Bounds, in_full, parse_duration

if TYPE_CHECKING:
    from gpufleet.domain.pool_request import PoolRequest
    from gpufleet.domain.slo import Slo
    from gpufleet.domain.token_counts import TokenCounts

POISSON, GAMMA, FIXED, BURST = ARRIVALS = ("poisson", "gamma", "fixed", "burst")
AUTO = "auto"
NO_TIME = ("0", "0s", "none", "off")
DEFAULT_REQUESTS, MOST_REQUESTS, MOST_REPLICAS, MOST_RETRIES = 10_000, 5_000_000, 10_000, 100
MOST_BURSTINESS, MOST_STRETCH, MOST_WAITING, MOST_SEED = 1e4, 1e6, 10**9, 2**63 - 1
LEAST_BURSTINESS = 1e-3  # not a conversion
COPIES = Bounds(1, MOST_REPLICAS, "")
FROM_ZERO = Bounds(0, SECONDS.most, SECONDS.unit)


def time_or_auto(text: str, what: str) -> float | str:
    """Seconds of a time, or that the tables say it.

    >>> time_or_auto("5min", "the cold start"), time_or_auto("Auto", "the cold start")
    (300.0, 'auto')
    """
    if text.strip().casefold() == AUTO:
        return AUTO
    try:
        return parse_duration(text, f"'5min' or '{AUTO}'")
    except UsageError as error:
        raise UsageError(f"{what} cannot be read", found=text, expected=error.expected) from error


def time_or_none(text: str, _: str) -> float:
    """Seconds that are left out.

    >>> time_or_none("5min", ""), time_or_none("0", "")
    (300.0, 0.0)
    """
    return 0.0 if text.strip().lower() in NO_TIME else parse_duration(text, "'5min' or '0'")


def route_named(text: str) -> str:
    """A way to deal out, as the tables write it."""
    return text.strip().lower().replace("-", "_")


TIME_OR_AUTO = Kind("TIME", time_or_auto, unit="s")
SEED = Word(
    INTEGER,
    "Of all that is drawn: the same seed, the same answer; default 0.",
    LOAD,
    name="seed",
    what="the seed",
    bounds=Bounds(0, MOST_SEED, ""),
    label="seed",
)


@dataclass(frozen=True, kw_only=True)
class Traffic(Request):
    """What arrives: a trace, or requests that are drawn at a `rate`; a burst comes at once and has none.

    `burstiness` of gamma arrivals is 1 over the squared variation of the time between them, as vLLM's benchmark has it:
    1 is Poisson, less comes in bursts. `requests` and `duration_s` end the replay at whichever comes first; of drawn
    arrivals `DEFAULT_REQUESTS` where neither is said. A trace is told apart in time by `stretch` (2: half the rate),
    and keeps the share `thin` of its requests. `rates` is a file of rates over time, of `rates_model` where it has
    several models; a `rate` beside it is the mean that they are scaled to.
    """

    rate: float | None = worded(RATE, says="Requests per time: 50/s, 3000/min.", what="the rate", bounds=REQUESTS_PER_S)
    trace: str | NamedPath | None = worded(
        TRACE, says="Take arrivals and lengths from a CSV or JSONL trace of requests."
    )
    rates: str | NamedPath | None = optional(
        file(), "Rates over time as CSV (t_s, rate_rps; timestamp, value); --rate scales.", LOAD
    )
    rates_model: str | None = optional(
        text("NAME"), "Whose rows of the rates, where they are of several models.", LOAD, label="rates of"
    )
    input_tokens: float | TokenCounts | None = worded(IN, says="Tokens of a prompt: 1000, 8k, mean=900,p95=3000.")
    output_tokens: float | TokenCounts | None = worded(OUT)
    arrival: str | None = optional(
        text("NAME"), "poisson (default), gamma (--burstiness), fixed, or burst (all at once).", LOAD
    )
    burstiness: float | None = optional(
        NUMBER,
        "Of gamma arrivals, as vLLM has it: 1 is Poisson, less is burstier.",
        LOAD,
        what="the burstiness",
        bounds=Bounds(LEAST_BURSTINESS, MOST_BURSTINESS, ""),
    )
    requests: float | None = worded(
        REQUESTS, says="How many: 500, 100k; default 10k, or the whole trace.", bounds=Bounds(1, MOST_REQUESTS, "")
    )
    duration_s: float | None = optional(
        time_like("'10min' or '24h'"),
        "Arrivals end after 10min, 24h.",
        LOAD,
        name="duration",
        what="the duration",
        bounds=SECONDS,
        label="arrivals end after",
        shown="{:g} s".format,
    )
    stretch: float = usual(
        1.0,
        NUMBER,
        "Times of a trace, so much further apart: 2 is half the rate; default 1.",
        LOAD,
        what="the factor of --stretch",
        bounds=Bounds(1 / MOST_STRETCH, MOST_STRETCH, ""),
        label="times of the trace",
        shown="{:g} times as far apart".format,
    )
    thin: float = usual(
        1.0,
        SHARE,
        "Keep this share of a trace's requests: 10%; default all.",
        LOAD,
        what="the share of --thin",
        bounds=Bounds(1 / MOST_REQUESTS, 1, ""),
        label="requests of the trace",
        shown="{:.3%} of them".format,
    )
    seed: int = worded(SEED, 0)

    def refuse_traffic(self, *, is_planned: bool = False) -> None:
        """Refuse what does not go together; a plan says rate and lengths where nothing else does."""
        if self.requests is not None and self.requests != round(self.requests):
            raise UsageError("requests are whole", found=f"{self.requests:g}", expected="a number such as 500 or 10k")
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


@dataclass(frozen=True, kw_only=True)
class ServingCopies(CopyQuestion):
    """Who serves: copies that are all alike, or in place of their GPUs two pools; a plan says both where none is."""

    replicas: int | None = optional(
        INTEGER,
        "Copies of the model; default 1, or those of the plan.",
        REPLICAS,
        what="the number of replicas",
        bounds=COPIES,
    )
    prefill: str | PoolRequest | None = optional(
        POOL, "Copies that only prefill, in place of --gpus: '2x H100:4 TP4'.", REPLICAS
    )
    decode: str | PoolRequest | None = optional(POOL, "Copies that only decode, beside --prefill: 'H200:8'.", REPLICAS)


@dataclass(frozen=True, kw_only=True)
class Dealing(Request):
    """How requests are dealt out and kept waiting: routing, prefix cache, time-outs, admission, retries.

    None never: no time-out, no limit on how many wait at a replica.
    """

    route: str = usual(
        ROUTINGS[0],
        Kind("NAME", plain(route_named)),
        "How requests are dealt out: least_requests (default), round_robin, ...",
        REPLICAS,
    )
    timeout_s: float | None = optional(
        time_like("'30s' or '10min'"),
        "Requests that have not begun by then are given up.",
        REPLICAS,
        name="timeout",
        what="the time-out",
        bounds=SECONDS,
        label="time-out",
        shown="{:g} s".format,
    )
    max_waiting: int | None = optional(
        INTEGER,
        "A replica with so many that wait refuses more.",
        REPLICAS,
        what="the number that may wait",
        bounds=Bounds(0, MOST_WAITING, ""),
        label="most waiting",
        shown="{:,} at a replica".format,
    )
    retries: int = usual(
        0,
        INTEGER,
        "How often a request that was refused or given up comes again; default 0.",
        REPLICAS,
        what="the number of retries",
        bounds=Bounds(0, MOST_RETRIES, ""),
        label="retries",
    )
    prefix_cache: bool = usual(
        True,
        ON_OFF,
        "Keep blocks of prompts that requests share; default on.",
        ENGINE,
        hint="Which share of prompts it holds follows from the requests; of a plan it is stated.",
        label="prefix cache",
        shown=lambda is_kept: "on" if is_kept else "off",
    )

    def refuse_dealing(self) -> None:
        """Refuse what cannot be meant."""
        if self.route not in ROUTINGS:
            raise UnknownName("way to deal out requests", self.route, ROUTINGS)
        if self.retries and self.timeout_s is None and self.max_waiting is None:
            raise UsageError(
                "nothing is retried that is not refused", expected="--timeout or --max-waiting with --retries"
            )


@dataclass(frozen=True, kw_only=True)
class Mishaps(Request):
    """What befalls replicas: a cold start of all of them at the beginning, and losses; seconds, or what tables say.

    A lost replica comes back after a cold start. By a `spot_trace` those that are not `on_demand` are lost, `notice_s`
    after they were told, and come back when their zone has a machine again.
    """

    cold_start_s: float | str | None = optional(
        TIME_OR_AUTO,
        "All replicas start cold and take this long: 5min, or auto.",
        REPLICAS,
        name="cold_start",
        what="the cold start",
        bounds=FROM_ZERO,
        label="cold start",
        shown=lambda said: said if isinstance(said, str) else f"{said:g} s",
    )
    mtbf_s: float | str | None = optional(
        TIME_OR_AUTO,
        "Mean time between failures of a replica: 30d, or auto; each comes back.",
        REPLICAS,
        name="mtbf",
        what="the time between failures",
        bounds=SECONDS,
        label="time between failures",
        shown=lambda said: said if isinstance(said, str) else f"{said:g} s",
    )

    spot_trace: str | NamedPath | None = optional(
        file(), "Replicas are there while their zone has spot machines (as for gpufleet spot).", REPLICAS
    )
    on_demand: int | None = optional(
        INTEGER,
        "So many of them are on demand and never taken; default 0.",
        REPLICAS,
        what="the number on demand",
        bounds=Bounds(0, MOST_REPLICAS, ""),
        label="on demand",
        shown="{:,} of the replicas".format,
    )
    notice_s: float | None = optional(
        time_like("'2min' or '30s'"),
        "A replica is drained so long before its machine is taken: 2min.",
        REPLICAS,
        name="notice",
        what="the notice",
        bounds=SECONDS,
        label="notice",
        shown="{:g} s".format,
    )

    @property
    def has_mishaps(self) -> bool:
        """Whether anything befalls them."""
        return self.cold_start_s is not None or self.mtbf_s is not None or self.spot_trace is not None

    def refuse_mishaps(self) -> None:
        """Refuse words for a time that mean none, and what does not go together."""
        for what, value in (("the cold start", self.cold_start_s), ("the time between failures", self.mtbf_s)):
            if isinstance(value, str) and value != AUTO:
                raise UsageError(f"{what} cannot be read", found=value, expected=f"seconds, or {AUTO}")
        if self.spot_trace is None and (self.on_demand is not None or self.notice_s is not None):
            raise UsageError("only spot machines are taken away", expected="--spot-trace FILE beside it")
        if self.spot_trace is not None and self.mtbf_s is not None:
            raise UsageError("replicas are lost by a trace or at random", found="--mtbf beside --spot-trace")


@dataclass(frozen=True, kw_only=True)
class InFront(Request):
    """What stands before the replicas: a response cache, and a small model for a share of what it does not answer."""

    cache_hits: float = usual(
        0.0,
        SHARE,
        "Share of requests that a response cache answers.",
        LOAD,
        what="the share of cached answers",
        bounds=Bounds(0, 1, ""),
        label="response cache",
        shown="{:.1%} of the requests".format,
    )
    small_model: str | None = optional(
        maybe_file("MODEL"), "A small model that gets a share of the requests.", REPLICAS
    )
    small_gpus: str | None = optional(GPUS.kind, "GPUs of each copy of the small model.", REPLICAS)
    small_replicas: int = usual(
        1,
        INTEGER,
        "Copies of the small model; default 1.",
        REPLICAS,
        what="the number of replicas",
        bounds=COPIES,
    )
    small_share: float | None = optional(
        SHARE,
        "Share of the requests that the small model gets: 60%.",
        REPLICAS,
        what="the share of the small model",
        bounds=Bounds(0, 1, ""),
    )

    def refuse_front(self) -> None:
        """Refuse a small model without GPUs or without a share."""
        said = (self.small_model, self.small_gpus, self.small_share)
        if any(value is not None for value in said) and None in said:
            expected = "--small-model, --small-gpus and --small-share"
            raise UsageError("a small model has its GPUs and its share", expected=expected)


@dataclass(frozen=True, kw_only=True)
class SimulationRequest(Mishaps, InFront, Dealing, ServingCopies, Traffic):
    """A replay of requests on copies of a model, or on those of a plan's file, where no GPUs are said.

    `Traffic`, `ServingCopies`, `Dealing`, `InFront` and `Mishaps` say what may be named. `warm_up_s` None finds where
    TTFT has settled.
    """

    slo: str | Slo | None = worded(SLO, says="Objectives, such as 'ttft.p95<500ms,tpot.p95<40ms'; exit 4 where broken.")
    replica_rate: str | None = worded(REPLICA_RATE, says="What one copy of yours carried within your limits: 1.9/s.")
    edited: bool = flag_of(EDITED)
    warm_up_s: float | None = optional(
        Kind("TIME", time_or_none, unit="s"),
        "Leave out what arrives first: 5min, 0; default: until TTFT has settled.",
        BESIDE,
        name="warm_up",
        what="the warm-up",
        bounds=FROM_ZERO,
        label="warm-up",
        shown=lambda seconds: f"{in_full(seconds)} s",
    )

    def checked(self) -> SimulationRequest:
        """The same, or what cannot be meant whatever the plan says."""
        refuse_out_of_range(self)
        self.refuse_dealing()
        self.refuse_mishaps()
        self.refuse_front()
        return self
