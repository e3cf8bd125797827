"""Results of models that are no decoders: priced plans of a service and of a batch job, and what one GPU delivers."""

from __future__ import annotations

from gpufleet.domain.verdict import DOES_NOT_FIT
from gpufleet.results.answer import Answer
from gpufleet.results.base import ExplainedTerm, Figure, Launch, Result
from gpufleet.results.catalog import PriceRow
from gpufleet.results.job import JobPlan, RentedJob
from gpufleet.results.plan import RentedService, ServicePlan


class EncoderDeployment(RentedService):
    """One way to serve the rate: copies of a model, each on one GPU.

    `batch` is how many requests a pass holds on average at the asked rate; `full_batch` how many inputs a pass holds at
    most, where more of them give hardly more throughput. Costs are at the asked rate.
    """

    full_batch: float
    pass_s: float
    usd_per_million_inputs: float
    usd_per_million_tokens: float | None
    usd_per_hour_of_audio: float | None
    launch: Launch | None = None


class EncoderRequest(Result):
    """What one request is to the model.

    `unit` is one input: a sequence, an image, a window of audio, or audio; a request has `inputs_per_request` of them.
    `input_tokens`: of one input as its layers see it; `output_tokens`: what a decoder writes for it, None without one.
    """

    kind: str
    unit: str
    input_tokens: float
    output_tokens: float | None
    audio_s: float | None
    inputs_per_request: float


class EncoderServePlan(EncoderRequest, ServicePlan):
    """Ranked deployments, cheapest first; the first is the answer. None means infeasible: see `relaxations`."""

    deployments: list[EncoderDeployment]
    spot_alternative: EncoderDeployment | None = None
    undated_alternative: EncoderDeployment | None = None

    @property
    def answer(self) -> EncoderDeployment:
        """The cheapest deployment."""
        return self.deployments[0]


class EncoderJobDeployment(RentedJob):
    """One way to get the job done: copies of a model, each on one GPU.

    `batch`, `largest_batch` and `requests_per_replica` count inputs, which a recording has one of for every window.
    """

    inputs_per_s: Figure
    audio_s_per_s: Figure | None
    usd_per_million_inputs: Figure
    usd_per_million_tokens: Figure | None
    usd_per_hour_of_audio: Figure | None
    launch: Launch | None = None


class EncoderBatchPlan(EncoderRequest, JobPlan):
    """Ways to get a job done by its deadline, cheapest first; the first is the answer. None means infeasible."""

    deployments: list[EncoderJobDeployment]

    @property
    def answer(self) -> EncoderJobDeployment:
        """The cheapest way."""
        return self.deployments[0]


class EncoderEstimate(Answer):
    """Latency and throughput of passes over a batch on `num_gpus` copies of one GPU.

    `unit` is one input: a sequence, an image, a window of audio, or audio. `latency_s` is of one batch, or of one
    recording where its length was stated; `inputs_per_s` of all GPUs. `real_time_factor` is seconds of work for one
    second of audio on one GPU, `audio_s_per_s` its inverse on all of them. `price` is the lowest on-demand price of one
    GPU that the tables hold; costs are at full load, and None where no price is known.
    """

    model: str
    kind: str
    unit: str
    gpu: str
    num_gpus: int
    engine: str
    weight_format: str
    batch: float
    tokens_per_input: float
    output_tokens: float | None
    num_parameters: int
    flop_per_input: float
    latency_s: Figure
    inputs_per_s: Figure
    audio_s_per_s: Figure | None
    real_time_factor: Figure | None
    price: PriceRow | None
    usd_per_million_inputs: Figure | None
    usd_per_hour_of_audio: Figure | None
    weights_bytes: float
    memory_bytes: Figure
    device_bytes: float
    largest_batch: float
    binding_limit: str
    terms: list[ExplainedTerm]
    launch: Launch | None = None

    @property
    def is_held(self) -> bool:
        """Whether the batch has room."""
        return self.verdict != DOES_NOT_FIT
