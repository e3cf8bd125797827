"""What `gpufleet plan batch` answers: flags laid over a workload file, parsed, and put to the api."""

from __future__ import annotations

from typing import Any

from gpufleet.api.batches import BatchRequest, plan_batch
from gpufleet.api.encoder_batches import EncoderBatchRequest, plan_encoder_batch
from gpufleet.cli.encoder_answers import (
    asks_encoder,
    audio_seconds,
    num_beams,
    one_length,
    refuse_of_decoders,
    refuse_of_encoders,
    without_serving,
    written_tokens,
)
from gpufleet.cli.market import SHIPPED_MARKET, MarketFlags
from gpufleet.cli.money import usd_of, write_money_in
from gpufleet.cli.plan_answers import request_tokens, seen_in
from gpufleet.cli.plan_words import from_file, laid_over, needed, plan_wishes, ratio, whole
from gpufleet.inputs.workload import WorkloadFile, read_workload, refuse_said
from gpufleet.records import dataclass
from gpufleet.results.batch import BatchPlan
from gpufleet.results.encoder_batch import EncoderBatchPlan
from gpufleet.units import DAY, HOUR, HOURS_PER_MONTH, HOURS_PER_YEAR, parse_count, parse_duration, parse_usd

PERIODS_S = {"hour": HOUR, "day": DAY, "week": 7 * DAY, "month": HOURS_PER_MONTH * HOUR, "year": HOURS_PER_YEAR * HOUR}
OF_SERVICES = (
    "rate", "slo", "min_replicas", "prefix_kv", "spare_machines", "zones", "off_peak", "peak_hours", "max_spot",
    "today", "classes", "models",
)  # fmt: skip


@dataclass(frozen=True)
class BatchFlags:
    """What the command line says beside the words that a workload file may hold."""

    allow_lower_precision: bool
    kv_precision: str | None
    max_machines: str | None
    rows: int
    market: MarketFlags = SHIPPED_MARKET


@dataclass(frozen=True)
class Asked:
    """What was typed over what a file says over what is preferred, and which fields came from where."""

    words: WorkloadFile
    from_file: frozenset[str]
    from_config: frozenset[str]


def batch_answer(
    typed: WorkloadFile, workload: str | None, flags: BatchFlags, preferred: WorkloadFile | None = None
) -> BatchPlan | EncoderBatchPlan:
    """The plan for what was typed, over what the file says, over what is preferred."""
    written = WorkloadFile() if workload is None else read_workload(workload)
    refuse_said(written, OF_SERVICES, "plan batch")
    said, liked = laid_over(typed, written), preferred or WorkloadFile()
    write_money_in(said.currency, liked.currency)
    model = needed(said.model, "MODEL", "a name or a config.json, as in 'gpufleet plan batch llama-3.1-8b'")
    is_encoder = asks_encoder(model)
    liked = without_serving(liked) if is_encoder else liked
    asked = Asked(laid_over(said, liked), from_file(typed, written), from_file(said, liked))
    return encoder_job(asked, model, flags) if is_encoder else decoder_job(asked, model, flags)


def requests_of(asked: WorkloadFile) -> float:
    """How many requests there are."""
    return parse_count(needed(asked.requests, "--requests", "how many, such as '10M'"), "the number of requests")


def deadline_of(asked: WorkloadFile) -> float:
    """Seconds until all are done."""
    return time_or_word(needed(asked.deadline, "--deadline", "a time, such as '24h'"))


def startup_of(asked: WorkloadFile) -> float | None:
    """Seconds until a machine works."""
    return None if asked.startup is None else parse_duration(asked.startup, "'10min'")


def period(text: str | None) -> float | None:
    """After which time a job comes again."""
    return None if text is None else time_or_word(text)


def time_or_word(text: str) -> float:
    """Seconds of a time, or of a word for one: '36h', '1week', 'week'."""
    word = text.strip().lower()
    return PERIODS_S[word] if word in PERIODS_S else parse_duration(text, "'24h' or '1week'")


def job_wishes(asked: Asked, flags: BatchFlags) -> dict[str, Any]:
    """Fields of any `JobRequest` that are said in words or flags."""
    said = asked.words
    return {
        **plan_wishes(said, flags.market),
        "startup_s": startup_of(said),
        "most_machines": whole(flags.max_machines, "the number of machines"),
        "budget_usd": usd_of(said.budget, said.currency, parse_usd),
        "period_s": period(said.every),
        "rows": flags.rows,
        "from_file": asked.from_file,
        "from_config": asked.from_config,
    }


def encoder_job(asked: Asked, model: str, flags: BatchFlags) -> EncoderBatchPlan:
    """The plan of a job of an encoder."""
    said = asked.words
    beside = {
        "--kv-precision": flags.kv_precision is not None,
        "--allow-lower-precision": flags.allow_lower_precision,
        "--fractions": flags.market.fractions,
    }
    refuse_of_decoders(said, beside)
    return plan_encoder_batch(
        EncoderBatchRequest(
            model=model,
            requests=requests_of(said),
            deadline_s=deadline_of(said),
            input_tokens=one_length(said.input),
            output_tokens=written_tokens(said.output),
            audio_s=audio_seconds(said.audio),
            beams=num_beams(said.beams),
            **job_wishes(asked, flags),
        ),
        flags.market.tables(),
    )


def decoder_job(asked: Asked, model: str, flags: BatchFlags) -> BatchPlan:
    """The plan of a job of a model that writes."""
    said = asked.words
    refuse_of_encoders(said)
    requests, deadline_s = requests_of(said), deadline_of(said)
    prompt, answer, notes = request_tokens(seen_in(said.trace), said.input, said.output)
    return plan_batch(
        BatchRequest(
            model=model,
            requests=requests,
            input_tokens=prompt,
            output_tokens=answer,
            deadline_s=deadline_s,
            allow_lower_precision=flags.allow_lower_precision,
            kv_precision=flags.kv_precision,
            prefix_cache=ratio(said.prefix_cache),
            fractions=flags.market.fractions,
            notes=notes,
            **job_wishes(asked, flags),
        ),
        flags.market.tables(),
    )
