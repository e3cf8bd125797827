"""The simulator beside BLIS on the same question, for docs/simulator.md.

    python -m tools.peer_blis

inference-sim (BLIS), roofline mode, qwen3-14b on one H100, preset "chatbot": prompts of 256 +- 100 tokens within 2 to
800, answers of 256 +- 100 within 1 to 1,024, 20 requests/s. Its run is no measurement: it knows peaks of the device
alone.
"""

from __future__ import annotations

import numpy as np

from gpufleet.api.simulated_copies import CopyQuestion, copy_of
from gpufleet.simulate.arrivals import renewal_times_s
from gpufleet.simulate.cluster import replay, replicas_of
from gpufleet.simulate.generated import requests_of
from gpufleet.simulate.token_draws import clipped_normal_tokens

RATE, NUMBER, SEED = 20.0, 10_000, 0
PROMPTS, ANSWERS = (256, 100, 2, 800), (256, 100, 1, 1024)
BLIS = {
    "TTFT mean ms": 40.2,
    "TTFT p99 ms": 48.3,
    "ITL mean ms": 16.07,
    "E2E mean ms": 4167.0,
    "output tokens/s": 5093.0,
}


def ours() -> dict[str, float]:
    """The same figures of our replay."""
    rng = np.random.default_rng(SEED)
    times = renewal_times_s(rng, RATE, NUMBER)
    prompts, answers = (clipped_normal_tokens(rng, *spread, NUMBER) for spread in (PROMPTS, ANSWERS))
    requests = requests_of(times, prompts, answers)
    copy = copy_of(CopyQuestion("qwen3-14b", ("H100", 1)), requests).copy
    found = replay(replicas_of(copy, 1), requests, rng)
    ttft, tpot, latency = (np.asarray(column) * 1e3 for column in (found.ttft_s, found.tpot_s, found.latency_s))
    return {
        "TTFT mean ms": float(np.nanmean(ttft)),
        "TTFT p99 ms": float(np.nanpercentile(ttft, 99)),
        "ITL mean ms": float(np.nanmean(tpot)),
        "E2E mean ms": float(np.nanmean(latency)),
        "output tokens/s": float(answers.sum() / found.end_s),
    }


def main() -> None:
    """Print both."""
    found = ours()
    print(f"{'':18}{'gpufleet':>10}{'BLIS':>10}")
    for name, theirs in BLIS.items():
        print(f"{name:18}{found[name]:10.1f}{theirs:10.1f}")


if __name__ == "__main__":
    main()
