"""Answers questions with aiconfigurator, in whose interpreter it runs: one JSON object a line, in and out.

`benchmarks/against_aiconfigurator.py` starts it. A question is {"number", "ask", "arguments"}: `estimate` asks for one
point, as `aiconfigurator cli estimate`; `search` for the best throughput of one layout, as `aiconfigurator cli exp`.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LONGEST_REASON = 300
MS_PER_S = 1000.0


def main() -> None:
    answers = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        for line in sys.stdin:
            question = json.loads(line)
            begin = time.perf_counter()
            found = answer(question["ask"], question["arguments"])
            found |= {"number": question["number"], "seconds": time.perf_counter() - begin}
            print(json.dumps(found), file=answers, flush=True)


def answer(ask: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Times, rate and database version; or the reason why there is no answer."""
    try:
        return {"estimate": estimate, "search": search}[ask](arguments)
    except Exception as refusal:
        folder = f"{Path(arguments['model_path']).parent}/"
        words = " ".join(str(refusal).split()).replace(folder, "")
        return {"reason": f"{type(refusal).__name__}: {words}"[:LONGEST_REASON]}


def estimate(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """One layout at one batch."""
    from aiconfigurator.cli.api import cli_estimate

    found = cli_estimate(**arguments)
    latency_ms = found.ttft + found.tpot * (arguments["osl"] - 1)
    return {
        "ttft": found.ttft,
        "tpot": found.tpot,
        "out_tokens_per_s": MS_PER_S * arguments["batch_size"] * arguments["osl"] / latency_ms,
        "version": found.raw.get("version"),
        "remark": found.kv_cache_warning,
    }


def search(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The batch of most throughput in one layout, whatever its latency."""
    from aiconfigurator.cli.api import cli_exp

    best = cli_exp(config={"question": dict(arguments)}, top_n=1).best_configs["question"]
    if best.empty:
        return {"reason": "no batch fits"}
    row = best.iloc[0]
    return {"out_tokens_per_s": float(row["seq/s"]) * arguments["osl"], "version": str(row["version"])}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
