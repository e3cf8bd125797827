"""A priced serving plan of a model that is not a decoder."""

from __future__ import annotations

from gpufleet.results.launch import Launch
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


class EncoderServePlan(ServicePlan):
    """Ranked deployments, cheapest first; the first is the answer. None means infeasible: see `relaxations`.

    `unit` is one input: a sequence, an image, a window of audio, or audio; a request has `inputs_per_request` of them.
    """

    kind: str
    unit: str
    input_tokens: float
    output_tokens: float | None
    audio_s: float | None
    inputs_per_request: float
    deployments: list[EncoderDeployment]
    spot_alternative: EncoderDeployment | None = None
    undated_alternative: EncoderDeployment | None = None

    @property
    def answer(self) -> EncoderDeployment:
        """The cheapest deployment."""
        return self.deployments[0]
