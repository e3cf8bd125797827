"""A priced plan of a batch job of a model that is not a decoder."""

from __future__ import annotations

from gpufleet.results.base import Figure
from gpufleet.results.job import JobPlan, RentedJob
from gpufleet.results.launch import Launch


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


class EncoderBatchPlan(JobPlan):
    """Ways to get a job done by its deadline, cheapest first; the first is the answer. None means infeasible.

    `unit` is one input: a sequence, an image, a window of audio, or audio; a request has `inputs_per_request` of them.
    `input_tokens`: of one input as its layers see it; `output_tokens`: what a decoder writes for it, None without one.
    """

    kind: str
    unit: str
    input_tokens: float
    output_tokens: float | None
    audio_s: float | None
    inputs_per_request: float
    deployments: list[EncoderJobDeployment]

    @property
    def answer(self) -> EncoderJobDeployment:
        """The cheapest way."""
        return self.deployments[0]
