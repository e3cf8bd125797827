"""The job of encoders: which machines get a number of inputs through passes by a deadline at least cost."""

from __future__ import annotations

from gpufleet.domain.calibration import Calibration
from gpufleet.domain.instance import Instance
from gpufleet.optimize.copies.encoder import Copies, copies_of
from gpufleet.optimize.copies.work import WorkRates
from gpufleet.optimize.encoder import EncoderQuestion
from gpufleet.optimize.job import JobMarket, JobPlacement, place_jobs, within_usd
from gpufleet.optimize.replicas import Rejections
from gpufleet.records import dataclass


@dataclass(frozen=True, eq=False)
class EncoderJobQuestion:
    """A model on each GPU that may be rented, the machine types, and the job with its offers.

    The job counts inputs: a recording of several windows is several.
    """

    encoders: tuple[EncoderQuestion, ...]
    instances: tuple[Instance, ...]
    market: JobMarket

    @property
    def any_encoder(self) -> EncoderQuestion:
        """The model, its input and its engine, which are the same on every GPU."""
        return self.encoders[0]


@dataclass(frozen=True, eq=False)
class EncoderJobSolution:
    """Copies that run, what they get done, and the job on each machine type, cheapest first."""

    copies: Copies
    rates: WorkRates
    ranked: list[JobPlacement]
    rejections: Rejections


def solve_encoder_batch(question: EncoderJobQuestion, calibration: Calibration) -> EncoderJobSolution:
    """Drop what does not run, find the best batch of the rest, join the offers."""
    rejections, market = Rejections(), question.market
    copies = copies_of(question.encoders, calibration, rejections)
    rates = copies.work_rates()
    placed = place_jobs(market, copies.hosts(question.instances, market.job.confidence), rates, rejections)
    return EncoderJobSolution(copies, rates, within_usd(placed, market.job, rejections), rejections)
