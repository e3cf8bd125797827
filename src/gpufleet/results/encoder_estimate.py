"""What one GPU delivers with a model that is not a decoder."""

from __future__ import annotations

from gpufleet.domain.verdict import DOES_NOT_FIT
from gpufleet.results.answer import Answer
from gpufleet.results.base import ExplainedTerm, Figure
from gpufleet.results.catalog import PriceRow
from gpufleet.results.launch import Launch


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
