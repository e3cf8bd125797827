"""What people do, where a question leaves it open."""

from __future__ import annotations

from gpufleet.provenance import Sourced
from gpufleet.records import dataclass

DEFAULT_METHOD, DEFAULT_RANK, DEFAULT_SEQUENCE_TOKENS = "lora", 16, 4096
"""Of training: how it is tuned, the rank of its adapters, and the tokens of a sequence."""


@dataclass(frozen=True)
class Habits:
    """What is taken of people who do not say it.

    `spoken_tokens_per_s` is what a decoder writes for a second of ordinary speech; `prompt_log_spread` and
    `answer_log_spread` are how far the logarithms of tokens spread from request to request; one's own electricity
    costs `electricity_usd_per_kwh`.
    Nobody rents more than `most_rented_gpus`, nor, beyond what is easily had, more than `most_times_machines` as many
    machines for limits as for the load.
    Answers of a benchmark that says nothing of them reach `unstated_length_spread` below the longest.
    A step of training works on `fine_tuning_batch_tokens`, on `pretraining_batch_tokens` where a model is trained from
    nothing.
    """

    spoken_tokens_per_s: Sourced
    prompt_log_spread: Sourced
    answer_log_spread: Sourced
    unstated_length_spread: Sourced
    electricity_usd_per_kwh: Sourced
    most_rented_gpus: Sourced
    most_times_machines: Sourced
    fine_tuning_batch_tokens: Sourced
    pretraining_batch_tokens: Sourced
