"""What `gpufleet plan serve` answers about a model that is not a decoder."""

from __future__ import annotations

from gpufleet.api.encoder_services import EncoderServeRequest, plan_encoder_serve
from gpufleet.cli.encoder_answers import audio_seconds, num_beams, one_length, refuse_of_decoders, written_tokens
from gpufleet.cli.plan_words import (
    FurtherFlags,
    ServeFlags,
    from_file,
    laid_over,
    needed,
    plan_wishes,
    service_wishes,
)
from gpufleet.inputs.workload import WorkloadFile
from gpufleet.results.encoder_service import EncoderServePlan
from gpufleet.units import parse_rate


def encoder_service(
    said: WorkloadFile, liked: WorkloadFile, written: frozenset[str], flags: ServeFlags, further: FurtherFlags
) -> EncoderServePlan:
    """The plan for what was said, over what is preferred; `written` names the fields that a file gave."""
    return plan_encoder_serve(encoder_request(said, liked, written, flags, further), flags.market.tables())


def encoder_request(
    said: WorkloadFile, liked: WorkloadFile, written: frozenset[str], flags: ServeFlags, further: FurtherFlags
) -> EncoderServeRequest:
    """The question that words ask."""
    asked = laid_over(said, liked)
    refuse_of_decoders(asked, flags_of_decoders(flags, further))
    return EncoderServeRequest(
        model=needed(asked.model, "MODEL", "a name or a config.json"),
        rate=parse_rate(needed(asked.rate, "--rate", "requests per time, such as '300/s'")),
        input_tokens=one_length(asked.input),
        output_tokens=written_tokens(asked.output),
        audio_s=audio_seconds(asked.audio),
        beams=num_beams(asked.beams),
        slo=asked.slo,
        rows=flags.rows,
        from_file=written,
        from_config=from_file(said, liked),
        **plan_wishes(asked, flags.market),
        **service_wishes(asked),
    )


def flags_of_decoders(flags: ServeFlags, further: FurtherFlags) -> dict[str, bool]:
    """Flags that only plans of decoders answer, and whether they were typed."""
    return {
        "--kv-precision": flags.kv_precision is not None,
        "--allow-lower-precision": flags.allow_lower_precision,
        "--seed-config": flags.seed_config is not None,
        "--fractions": flags.market.fractions,
        "--why-not": bool(further.why_not),
        "--flips": further.flips,
        "--pareto, --picture": further.asks_front,
        "--token-price": further.token_price is not None,
        "--grid": further.grid_g_co2_per_kwh is not None,
    }
