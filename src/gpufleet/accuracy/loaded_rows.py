"""What a row of an engine under load says: its one replica, how requests came, how long they were, what they shared."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from gpufleet.accuracy.benchmark_clients import launch_options, prompts_in_turn
from gpufleet.accuracy.conditions import EngineLabel
from gpufleet.accuracy.precisions import precision_of
from gpufleet.catalog.calibration import load_habits
from gpufleet.catalog.engine_eras import load_engine, release_in
from gpufleet.catalog.engines import find_engine
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.errors import UsageError
from gpufleet.inputs.measurements import MeasurementRow
from gpufleet.inputs.token_counts import counts_of
from gpufleet.performance.token_lengths import log_normal
from gpufleet.records import dataclass
from gpufleet.simulate.arrivals import POISSON

CHECKPOINT_FORMAT = re.compile(r"(?<![a-z0-9])w\d+a\d+(?![a-z0-9])", re.IGNORECASE)
LONGEST_ANSWER = re.compile(r"\b(?:capped at|max) ([\d,]+)")
LONGEST_PROMPT = re.compile(r"\bprompts up to ([\d,]+)")
BURSTINESS = re.compile(r"\bburstiness ([\d.]+)")
RECURRING = re.compile(r"\bsame (?:\d+ )?prompts\b", re.IGNORECASE)
MOST_REPLICAS = 1000
SMALLEST_BUDGET_OF_WHOLE_CONTEXTS = 2048
CLOSED, AT_ONCE, CONSTANT, POISSON_ARRIVALS, GAMMA = "closed", "all at once", "constant", "poisson", "gamma"
ARRIVALS = (POISSON_ARRIVALS, CONSTANT, GAMMA, CLOSED, AT_ONCE)


def replica_row(row: MeasurementRow) -> MeasurementRow:
    """The row of one of its replicas: its GPUs, the engine's release, its longest context, the checkpoint's format."""
    replicas, gpus = replicas_of(row), row.whole("num_gpus")
    if gpus is not None and gpus % replicas:
        raise UsageError("the replicas do not share the GPUs evenly", found=f"{replicas} of {gpus} GPUs")
    cells = dict(row.cells)
    if gpus is not None:
        cells["num_gpus"] = str(gpus // replicas)
    cells["engine_version"] = release_in(find_engine(row.text("engine")), build_of(row))
    cells["longest_tokens"] = str(longest_tokens(row) or "")
    named = CHECKPOINT_FORMAT.search(row.text("model"))
    if named is not None and row.text("precision") and precision_of(named.group()) is not None:
        cells["precision"] = named.group()
    return replace(row, cells=cells)


def build_of(row: MeasurementRow) -> str:
    """The version that a row states, with the engine of that program where it names one."""
    version, generation = row.text("engine_version"), row.text("engine_generation")
    return version if generation in version else f"{version} ({generation})"


def longest_tokens(row: MeasurementRow) -> int | None:
    """The longest context that a run had, which its engine must have taken; None where it states no lengths."""
    if row.positive("input_mean") is None or row.positive("output_mean") is None:
        return None
    prompts, answers = lengths_of(row).counts
    return math.ceil(prompts.most + answers.most)


def replicas_of(row: MeasurementRow) -> int:
    """Replicas behind one service."""
    replicas = row.whole("replicas") or 1
    if replicas > MOST_REPLICAS:
        raise UsageError("too many replicas", found=replicas, expected=f"at most {MOST_REPLICAS:,}")
    return replicas


@dataclass(frozen=True)
class Arrivals:
    """How requests come: `how` is one of ARRIVALS; at a rate of all replicas together, or from so many clients."""

    how: str
    rate_requests_per_s: float = math.inf
    burstiness: float = POISSON
    clients: int | None = None


def arrivals_of(row: MeasurementRow) -> Arrivals:
    """The arrivals that a row states; what it does not say is refused.

    >>> arrivals_of(MeasurementRow(2, {"arrival": "gamma, burstiness 100", "rate_per_s": "2"})).burstiness
    100.0
    """
    label = row.text("arrival").casefold()
    how = next((known for known in ARRIVALS if label.startswith(known)), None)
    if how is None:
        raise UsageError("arrival of no known kind", found=label or None, expected=", ".join(ARRIVALS))
    if how == AT_ONCE:
        return Arrivals(how)
    if how == CLOSED:
        clients = row.whole("concurrency")
        if clients is None:
            raise UsageError("concurrency not stated")
        return Arrivals(how, clients=clients)
    rate = row.positive("rate_per_s")
    if rate is None:
        raise UsageError("rate not stated")
    stated = BURSTINESS.search(label)
    if how == GAMMA and stated is None:
        raise UsageError("burstiness not stated", found=label)
    return Arrivals(how, rate, float(stated.group(1)) if stated and how == GAMMA else POISSON)


@dataclass(frozen=True)
class StatedLengths:
    """Tokens of prompts and answers as a row states them: a number is a mean of which no spread is known."""

    prompts: float | TokenCounts
    answers: float | TokenCounts

    @property
    def means(self) -> tuple[float, float]:
        """Mean tokens of a prompt and of an answer."""
        return mean_of(self.prompts), mean_of(self.answers)

    @property
    def counts(self) -> tuple[TokenCounts, TokenCounts]:
        """Both with a spread: where none is stated, what users' requests have."""
        return spread(self.prompts, users_log_spread("input")), spread(self.answers, users_log_spread("output"))


def mean_of(tokens: float | TokenCounts) -> float:
    """Mean tokens."""
    return tokens.mean if isinstance(tokens, TokenCounts) else tokens


def spread(tokens: float | TokenCounts, log_spread: float) -> TokenCounts:
    """The counts themselves, or log-normal ones of this mean."""
    return tokens if isinstance(tokens, TokenCounts) else log_normal(tokens, log_spread)


def lengths_of(row: MeasurementRow) -> StatedLengths:
    """The lengths of a row, without a spread where its client is known for one length; raises where it states none."""
    prompt, answer = (stated_cap(row, words) for words in (LONGEST_PROMPT, LONGEST_ANSWER))
    stated = StatedLengths(tokens_of(row, "input", prompt), tokens_of(row, "output", answer))
    return stated if prompts_in_turn(row) is None else StatedLengths(*map(TokenCounts, stated.means))


def stated_cap(row: MeasurementRow, words: re.Pattern[str]) -> float | None:
    """The most tokens that a note on lengths states; None where it states none.

    >>> stated_cap(MeasurementRow(2, {"length_note": "ShareGPT, prompts up to 1,024"}), LONGEST_PROMPT)
    1024.0
    """
    found = words.search(row.text("length_note"))
    return None if found is None else float(found.group(1).replace(",", ""))


def tokens_of(row: MeasurementRow, which: str, longest: float | None) -> float | TokenCounts:
    """Counts from the mean, the percentiles and the standard deviation that a row states, in this order.

    Tokens that end at a cap and whose spread is not stated are spread as users' are, up to it.

    >>> tokens_of(MeasurementRow(2, {"input_mean": "100", "input_sd": "0"}), "input", None)
    TokenCounts(mean=100.0, squared_variation=0.0, percentiles=(), longest=0.0, octiles=(), beyond_ratio=0.0)
    """
    mean = row.positive(f"{which}_mean")
    if mean is None:
        raise UsageError("lengths not stated")
    percentiles = {p: tokens for p in ("p50", "p95") if (tokens := row.positive(f"{which}_{p}")) is not None}
    deviation = row.number(f"{which}_sd")
    if deviation == 0 or (len(percentiles) > 1 and set(percentiles.values()) == {mean}):
        return TokenCounts(mean)
    if percentiles:
        return counts_of({"mean": mean, **percentiles} | ({} if longest is None else {"max": longest}))
    if deviation is not None:
        return log_normal(mean, math.sqrt(math.log1p((deviation / mean) ** 2)), longest or math.inf)
    if longest is not None and longest > mean:
        return log_normal(mean, users_log_spread(which), longest)
    return mean


def users_log_spread(which: str) -> float:
    """How far the logarithms of users' prompts or answers are spread."""
    habits = load_habits()
    return (habits.prompt_log_spread if which == "input" else habits.answer_log_spread).value


def step_tokens_of(row: MeasurementRow, engine: EngineLabel) -> int | None:
    """The budget of a step that a row states; where prompts are taken whole, the longest context fits one step."""
    stated, context = row.whole("max_num_batched_tokens"), row.whole("max_model_len")
    known = stated or launch_options(row, engine.name, row.whole("tp") or 1).limits.max_step_tokens
    if known is not None or context is None or not takes_whole_contexts(engine):
        return known
    return max(context, SMALLEST_BUDGET_OF_WHOLE_CONTEXTS)


def takes_whole_contexts(engine: EngineLabel) -> bool:
    """Whether a step of this version is made for the longest context."""
    constants = load_engine(engine.name, engine.version).constants
    return "whole_context" in constants and bool(constants["whole_context"].value)


def keeps_prefixes(row: MeasurementRow) -> bool:
    """Whether a row says that its engine kept prefixes."""
    return row.text("prefix_cache").casefold().startswith("on")


def has_recurring_prompts(row: MeasurementRow) -> bool:
    """Whether a row says that the engine had answered the same prompts before, and kept them where it had room."""
    return keeps_prefixes(row) and bool(RECURRING.search(row.text("prefix_cache")))


def carries_histories(row: MeasurementRow) -> bool:
    """Whether a row says that conversations went on: a prompt holds all that was said before it."""
    return row.text("multi_turn").casefold() == "yes"
