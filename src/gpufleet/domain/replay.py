"""What came of requests that were replayed on replicas."""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import BoolArray, FloatArray, IntArray
from gpufleet.domain.requests import Requests
from gpufleet.records import dataclass

ANSWERED, FROM_CACHE, REFUSED, TIMED_OUT, TOO_LONG, UNFINISHED = range(6)
FATES = ("answered", "answered from the response cache", "refused", "timed out", "too long", "unfinished")


@dataclass(frozen=True, eq=False)
class Timeline:
    """The cluster as it stood at `time_s`: requests that run and wait, KV blocks in use over those there are, replicas.

    `replicas` are paid for, `ready` of them serve.
    """

    time_s: FloatArray
    running: IntArray
    waiting: IntArray
    kv_used_ratio: FloatArray
    replicas: IntArray
    ready: IntArray


@dataclass(frozen=True, eq=False)
class Replay:
    """Every request's times and what became of it, and what the replicas did.

    Per request: `first_token_s` and `finish_s` on the clock of arrivals (NaN where there is none), `fate` one of
    `FATES`, the `replica` that answered (-1: none), prompt tokens found in a prefix cache, preemptions and retries.
    Per replica: seconds that it computed and seconds that it was paid for. `end_s`: when the last event happened;
    `is_partial`: it was stopped before that.
    """

    requests: Requests
    first_token_s: FloatArray
    finish_s: FloatArray
    fate: IntArray
    replica: IntArray
    cached_tokens: IntArray
    preemptions: IntArray
    retries: IntArray
    busy_s: FloatArray
    paid_s: FloatArray
    end_s: float
    timeline: Timeline
    is_partial: bool = False

    @property
    def is_answered(self) -> BoolArray:
        """Requests that a replica answered whole."""
        return np.asarray(self.fate == ANSWERED)

    @property
    def ttft_s(self) -> FloatArray:
        """Seconds from arrival to the first token, waiting included."""
        return self.first_token_s - self.requests.arrival_s

    @property
    def latency_s(self) -> FloatArray:
        """Seconds from arrival to the last token."""
        return self.finish_s - self.requests.arrival_s

    @property
    def tpot_s(self) -> FloatArray:
        """Seconds per token after the first; NaN for answers of one token."""
        later = np.where(self.requests.output_tokens > 1, self.requests.output_tokens - 1, np.nan)
        return np.asarray((self.finish_s - self.first_token_s) / later)
