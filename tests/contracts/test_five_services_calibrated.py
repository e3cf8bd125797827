"""A plan of five services with a calibration: it moves its engine on its GPU, says so by digest, and nothing else."""

from __future__ import annotations

import json
from typing import Any

from gpufleet.cli.answered import answered

MODELS = ("llama-3.1-8b", "qwen3-0.6b", "llama-3.2-1b", "qwen3-4b", "llama-3.2-3b")
SERVICES = "clouds: [runpod]\nslo: ttft.p95<2s,tpot.p95<50ms\nin: 500\nout: 50\ngpus: [H100, L4]\nmodels:\n" + "".join(
    f"  - {{model: {name}, rate: 2/s}}\n" for name in MODELS
)
SLOW = "".join(
    (
        'version = 1\nengine = "vllm"\nengine_version = "0.19.1"\ngpu = "H100-SXM"\nruns = 9\n',
        "[tpot]\nshared = { log = 0.0, spread = 0.02 }\n",
        "spreads = { stacks = 0.02, models = 0.08, layouts = 0.09, sweeps = 0.05, runs = 0.07 }\n",
        '[tpot.models]\n"qwen3-0.6b in bf16" = { log = 0.4, spread = 0.03 }\n',
    )
)


def told(*words: str) -> dict[str, Any]:
    files = {"five.yaml": SERVICES.encode(), "slow.toml": SLOW.encode()}
    got = answered(["plan", "serve", "--workload", "five.yaml", "--rows", "40", "-o", "json", *words], files)
    assert got.code == 0, got.error
    found: dict[str, Any] = json.loads(got.text)
    return found


def carried(plan: dict[str, Any], gpu: str) -> dict[tuple[str, str], Any]:
    rows = [(p["model"], d) for p in plan["plans"] for d in p["deployments"] if d["gpu"] == gpu]
    return {(model, d["instance"], d["layout"]): d["latency"]["tpot.p95"]["value"] for model, d in rows}


def test_only_the_calibrated_engine_and_gpu_move() -> None:
    usual, own = told(), told("--calibration", "slow.toml")
    assert {p["model"] for p in own["plans"]} == set(MODELS)
    assert carried(usual, "L4")
    assert carried(own, "L4") == carried(usual, "L4")
    was, now = carried(usual, "H100-SXM"), carried(own, "H100-SXM")
    both = was.keys() & now.keys()
    assert {key[0] for key in both if now[key] > 1.2 * was[key]} == {"qwen3-0.6b"}
    assert all(now[key] == was[key] for key in both if key[0] != "qwen3-0.6b")
    assert any("slow.toml (" in note for plan in own["plans"] for note in plan["notes"])
