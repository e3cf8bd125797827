"""What `gpufleet plan serve` answers about a model that is not a decoder."""

from __future__ import annotations

from gpufleet.api.encoder_services import EncoderServeRequest, plan_encoder_serve
from gpufleet.cli.encoder_answers import one_length, refuse_of_decoders, written_tokens
from gpufleet.cli.plan_words import FurtherFlags, SaidWords, ServeFlags, model_of, needed, read_as, with_words
from gpufleet.results.encoders import EncoderServePlan
from gpufleet.units import parse_rate


def encoder_service(asked: SaidWords, flags: ServeFlags, further: FurtherFlags) -> EncoderServePlan:
    """The plan for what was said, over what is preferred."""
    return plan_encoder_serve(encoder_request(asked, flags, further), flags.market.tables())


def encoder_request(asked: SaidWords, flags: ServeFlags, further: FurtherFlags) -> EncoderServeRequest:
    """The question that words ask."""
    said = asked.words
    refuse_of_decoders(said, flags_of_decoders(flags, further))
    request = EncoderServeRequest(
        model=model_of(said, flags.verb),
        rate=read_as("--rate", parse_rate, needed(said.text("rate"), "--rate", "requests per time, such as '300/s'")),
        input_tokens=one_length(said.text("in")),
        output_tokens=written_tokens(said.text("out")),
    )
    return with_words(request, asked, flags.market)


def flags_of_decoders(flags: ServeFlags, further: FurtherFlags) -> dict[str, bool]:
    """Flags that only plans of decoders answer, and whether they were typed."""
    return {
        "--seed-config": flags.seed_config is not None,
        "--why-not": bool(further.why_not),
        "--flips": further.flips,
        "--pareto, --picture": further.asks_front,
        "--token-price": further.token_price is not None,
        "--grid": further.grid_g_co2_per_kwh is not None,
        "--verify": further.is_verified,
    }
