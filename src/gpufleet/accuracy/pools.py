"""Scores TTFT and TPOT of engines that prefill and decode on copies of their own, at a fixed concurrency."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from gpufleet import api
from gpufleet.accuracy.benchmark_clients import launch_options
from gpufleet.accuracy.conditions import engine_of
from gpufleet.accuracy.figures import Comparison, Prediction, Quantity, RowLabels, RowScores, one_line, stated
from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.precisions import kv_precision_of, precision_of, weight_precision_of
from gpufleet.accuracy.replays import prediction
from gpufleet.accuracy.serving import REFUSALS
from gpufleet.accuracy.serving_points import MOST_REQUESTS, drawn, spread_of
from gpufleet.api.planned_replicas import stated_replicas
from gpufleet.api.pools import AskedPools
from gpufleet.api.request_runs import Replayed, generator_of
from gpufleet.api.simulated_copies import CopyQuestion
from gpufleet.api.simulated_fleet import fleet_of_pools, question_of
from gpufleet.catalog.benchmark_scripts import BenchmarkClient, StartedPools, load_benchmark_scripts
from gpufleet.catalog.engines import find_engine
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.query import resolve_gpu
from gpufleet.errors import UsageError
from gpufleet.inputs.gpu_request import PoolRequest
from gpufleet.inputs.measurements import MeasurementRow
from gpufleet.optimize.request_runs import MEAN, draws_for, times_of, together
from gpufleet.records import dataclass
from gpufleet.results.estimate import ServingEstimate
from gpufleet.simulate.cluster import replay
from gpufleet.units import MILLISECOND

TTFT = Quantity("ttft", "silicon_ttft_ms", "ms", MILLISECOND)
TPOT = Quantity("tpot", "silicon_tpot_ms", "ms", MILLISECOND)
SAME_COLUMNS = {
    "backend": "engine",
    "model_path": "model_id",
    "system": "gpu_id",
    "gemm_quant_mode": "gemm_precision",
    "moe_quant_mode": "moe_precision",
}
SHARED_EVENLY = "least_requests"
NO_WORKERS, NO_CONCURRENCY = "workers not stated", "concurrency not stated"
OTHER_VERSION = re.compile(r"\bai-dynamo/[\w-]+:(?P<version>[\w.]+)")


@dataclass(frozen=True, eq=False)
class PoolsRun:
    """What a row ran: both pools, the copy's formats and engine, mean tokens, clients and prompts of each."""

    pools: AskedPools
    copy: CopyQuestion
    input_tokens: float
    output_tokens: float
    concurrency: float
    waves: float | None
    length_spread: float


def score_disagg_point(row: MeasurementRow, file: str, models: ModelFinder) -> RowScores:
    """TTFT and TPOT of one row, or why nothing predicts them."""
    return scored(row, file, models, estimated)


def replay_disagg_point(row: MeasurementRow, file: str, models: ModelFinder) -> RowScores:
    """The same of a replay: clients that start together, each sending its prompts in turn to both pools."""
    return scored(row, file, models, replayed)


def scored(
    row: MeasurementRow, file: str, models: ModelFinder, predict: Callable[[PoolsRun], Mapping[Quantity, Prediction]]
) -> RowScores:
    """One row beside its predictions, or why there are none."""
    wanted = stated(row, (TTFT, TPOT))
    if not wanted:
        return RowScores(left_out="states neither TTFT nor TPOT")
    told = in_usual_columns(row)
    group = " x ".join(filter(None, (told.text("client"), told.text("engine"), told.text("gpu_id"))))
    compare = Comparison(RowLabels(file, told, engine=engine_of(told.text("engine")).name, group=group))
    missing = what_is_missing(row)
    if missing is not None:
        return RowScores([compare.labels.without_prediction(quantity, missing) for quantity in wanted])
    try:
        readings = predict(run_of(told, models))
    except REFUSALS as refusal:
        return RowScores([compare.labels.without_prediction(quantity, one_line(refusal)) for quantity in wanted])
    return RowScores([compare.scored(quantity, readings[quantity]) for quantity in wanted])


def what_is_missing(row: MeasurementRow) -> str | None:
    """Why a row says too little to be asked about: copies or clients are not counted."""
    if not row.text("prefill_num_workers") or not row.text("decode_num_workers"):
        return NO_WORKERS
    return None if row.text("concurrency") else NO_CONCURRENCY


def in_usual_columns(row: MeasurementRow) -> MeasurementRow:
    """The row in the words of the other files, with the client whose results its source publishes.

    Images of NVIDIA Dynamo carry Dynamo's version: of the engine in them none is known then.
    """
    cells = dict(row.cells)
    cells.update({usual: row.text(own) for own, usual in SAME_COLUMNS.items() if row.text(own)})
    of_dynamo = OTHER_VERSION.search(row.text("source"))
    version = row.text("backend_version")
    cells["engine_version"] = "" if of_dynamo and of_dynamo["version"] == version else version
    cells["client"] = row.text("client") or client_of(row.text("source"))
    cells["gpu_id"] = gpu_of(cells.get("gpu_id", ""))
    return replace(row, cells=cells)


def gpu_of(name: str) -> str:
    """The GPU as the catalog calls it; a name that it does not know stays as it is."""
    try:
        return resolve_gpu(load_catalog(), name).accelerator.name
    except UsageError:
        return name


def client_of(source: str) -> str:
    """The benchmark client whose results are published where a row was taken from; empty where none is known."""
    clients = load_benchmark_scripts().clients
    return next((name for name, client in clients.items() if any(mark in source for mark in client.published_in)), "")


def run_of(row: MeasurementRow, models: ModelFinder) -> PoolsRun:
    """What a row ran; raises what it does not say."""
    for column, what in (("engine", "engine"), ("gpu_id", "GPU")):
        if not row.text(column):
            raise UsageError(f"{what} not stated")
    model = models.of(row)
    row = replace(row, cells={**row.cells, "model_id": model.name})
    known = load_benchmark_scripts().clients.get(row.text("client"), BenchmarkClient())
    ratio = row.positive("mean_length_ratio") or known.mean_length_ratio
    engine = find_engine(row.text("engine")).name
    prefill, decode = (pool_of(row, pool) for pool in ("prefill", "decode"))
    started = started_pools(row, engine)
    if started is not None:
        limits = started.prefill_max_batch, started.prefill_max_step_tokens
        prefill = prefill._replace(max_batch=limits[0], max_step_tokens=limits[1])
        decode = decode._replace(max_batch=started.decode_max_batch)
    return PoolsRun(
        AskedPools(prefill, decode),
        CopyQuestion(
            model,
            precision=weight_precision_of(row),
            kv_precision=kv_precision_of(row) or launch_options(row, engine, decode.tp or 1).kv_precision,
            engine=engine,
            engine_version=row.text("engine_version") or None,
        ),
        (row.positive("isl") or 0.0) * ratio,
        (row.positive("osl") or 0.0) * ratio,
        row.positive("concurrency") or 0.0,
        row.whole("waves") or known.waves,
        spread_of(ratio),
    )


def estimated(run: PoolsRun) -> Mapping[Quantity, Prediction]:
    """By the closed form."""
    found = physics_of(run)
    return {TTFT: Prediction.of(found.ttft_s), TPOT: Prediction.of(found.tpot_s)}


def physics_of(run: PoolsRun) -> ServingEstimate:
    """What the api answers for both pools; raises what it refuses."""
    return api.estimate(
        run.copy.model,
        prefill=run.pools.prefill,
        decode=run.pools.decode,
        input_tokens=run.input_tokens,
        output_tokens=run.output_tokens,
        concurrency=run.concurrency,
        waves=run.waves,
        length_spread=run.length_spread,
        precision=run.copy.precision,
        kv_precision=run.copy.kv_precision,
        engine=run.copy.engine,
        engine_version=run.copy.engine_version,
    )


def replayed(run: PoolsRun) -> Mapping[Quantity, Prediction]:
    """By a replay of the clients; ranges are those of the closed form about its own figures."""
    clients = max(round(run.concurrency), 1)
    num = min(clients * max(round(run.waves or 1), 1), MOST_REQUESTS)
    tables, means = load_catalog(), (run.input_tokens, run.output_tokens)
    draws = [drawn(means, (run.length_spread,) * 2, num, generator_of(i)) for i in range(draws_for(num))]
    planned = stated_replicas(question_of(run.pools.decode, run.copy), None, tables)
    fleet = fleet_of_pools(run.pools, run.copy, planned, together(draws), tables)
    cluster = fleet.cluster({"clients": clients, "routing": SHARED_EVENLY})
    found = [times_of(replay(cluster, requests, generator_of(i)), 0) for i, requests in enumerate(draws)]
    seen = Replayed(found, physics_of(run))
    return {quantity: mean_of_replay(seen, name) for quantity, name in ((TTFT, "ttft"), (TPOT, "tpot"))}


def mean_of_replay(seen: Replayed, time: str) -> Prediction:
    """The mean of a time; raises where no request was answered."""
    found = prediction(seen, time, MEAN)
    if isinstance(found, str):
        raise UsageError(found)
    return found


def started_pools(row: MeasurementRow, engine: str) -> StartedPools | None:
    """What the copies of a row were started for, where the recipe of its client for this load is known."""
    load = {
        "published_in": row.text("client"),
        "engine": engine,
        "model_id": row.text("model_id"),
        "gpu": row.text("gpu_id"),
        "precision": precision_of(row.text("gemm_precision")),
        **{name: f"{row.number(name) or 0:g}" for name in ("isl", "concurrency")},
        **{f"{pool}_copies": f"{row.number(f'{pool}_num_workers') or 0:g}" for pool in ("prefill", "decode")},
    }
    return next((started for started in load_benchmark_scripts().pools if started.load == load), None)


def pool_of(row: MeasurementRow, pool: str) -> PoolRequest:
    """The copies of a pool; a column that says 0 or nothing leaves its part of the layout open."""

    def part(name: str) -> int | None:
        column = f"{pool}_{name}"
        return row.whole(column) if row.number(column) else None

    tp, dp = part("tp_size") or 1, part("attention_dp_size") or 1
    return PoolRequest(
        copies=row.whole(f"{pool}_num_workers") or 1,
        name=row.text("gpu_id"),
        number=tp * dp,
        tp=tp,
        ep=part("moe_ep_size"),
        attention_dp=dp,
    )
