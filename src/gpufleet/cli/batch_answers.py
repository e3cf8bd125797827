"""What `gpufleet plan batch` answers: flags laid over a workload file, parsed, and put to the api."""

from __future__ import annotations

from gpufleet.api.batches import BatchRequest, plan_batch
from gpufleet.api.encoder_batches import EncoderBatchRequest, plan_encoder_batch
from gpufleet.catalog.models import shipped_architecture
from gpufleet.cli.encoder_answers import (
    asks_encoder,
    one_length,
    refuse_of_decoders,
    refuse_of_encoders,
    without_serving,
    written_tokens,
)
from gpufleet.cli.market import SHIPPED_MARKET, MarketFlags
from gpufleet.cli.money import write_money_in
from gpufleet.cli.plan_answers import request_tokens, seen_in
from gpufleet.cli.plan_words import SaidWords, model_of, needed, read_as, with_words
from gpufleet.inputs.model_config import read_model
from gpufleet.inputs.workload import WorkloadFile, read_workload, refuse_said
from gpufleet.questions.fields import BATCH, DEADLINE, REQUESTS, words_of
from gpufleet.results.encoders import EncoderBatchPlan
from gpufleet.results.job import BatchPlan

VERB = "plan batch"


def batch_answer(
    typed: WorkloadFile, preferred: WorkloadFile, workload: str | None, market: MarketFlags = SHIPPED_MARKET
) -> BatchPlan | EncoderBatchPlan:
    """The plan for what was typed, over what the file says, over what is preferred."""
    written = WorkloadFile() if workload is None else read_workload(workload)
    refuse_said(written, words_of(*BATCH), VERB)
    said = typed.over(written)
    write_money_in(said.text("currency"), preferred.text("currency"))
    model = model_of(said, VERB)
    if asks_encoder(model):
        return encoder_job(SaidWords.of(typed, written, without_serving(preferred)), model, market)
    return decoder_job(SaidWords.of(typed, written, preferred), model, market)


def requests_of(asked: WorkloadFile) -> float:
    """How many requests there are."""
    return read_as(
        "--requests", REQUESTS.value_of, needed(asked.text("requests"), "--requests", "how many, such as '10M'")
    )


def deadline_of(asked: WorkloadFile) -> float:
    """Seconds until all are done."""
    return read_as("--deadline", DEADLINE.value_of, needed(asked.text("deadline"), "--deadline", "such as '24h'"))


def encoder_job(asked: SaidWords, model: str, market: MarketFlags) -> EncoderBatchPlan:
    """The plan of a job of an encoder."""
    said = asked.words
    refuse_of_decoders(said)
    request = EncoderBatchRequest(
        model=model,
        requests=requests_of(said),
        deadline_s=deadline_of(said),
        input_tokens=one_length(said.text("in")),
        output_tokens=written_tokens(said.text("out")),
    )
    return plan_encoder_batch(with_words(request, asked, market), market.tables())


def decoder_job(asked: SaidWords, model: str, market: MarketFlags) -> BatchPlan:
    """The plan of a job of a model that writes."""
    said = asked.words
    refuse_of_encoders(said)
    read_model(model, shipped_architecture)
    requests, deadline_s = requests_of(said), deadline_of(said)
    prompt, answer, notes = request_tokens(seen_in(said.text("trace")), said.text("in"), said.text("out"))
    request = BatchRequest(model, requests, prompt, answer, deadline_s, notes=notes)
    return plan_batch(with_words(request, asked, market), market.tables())
