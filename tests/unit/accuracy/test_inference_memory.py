"""Memory rows: what is scored, per GPU or in all, and verdicts against what happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.accuracy.inference_memory import score_memory
from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.score import score_files
from gpufleet.inputs.measurements import MeasurementRow
from gpufleet.results.accuracy import ScoredFigure

MEASUREMENTS = Path(__file__).resolve().parents[3] / "measurements"
RUN = {
    "engine": "HF transformers",
    "model_id": "qwen2-7b",
    "gpu_id": "A100-SXM4-80GB",
    "num_gpus": "1",
    "precision": "BF16",
    "batch": "1",
    "isl": "6144",
    "osl": "2048",
}


def figures_of(**cells: str) -> dict[str, ScoredFigure]:
    scores = score_memory(MeasurementRow(2, {**RUN, **cells}), "mine.csv", ModelFinder())
    return {figure.quantity: figure for figure in scores.figures}


def test_weights_are_the_checkpoints_own_size() -> None:
    """Llama-3.1-8B in bf16: vLLM 0.11 logs 14.99 GiB (llm-d-planner, empirical memory results)."""
    weights = figures_of(engine="vLLM 0.11.0", model_id="llama-3.1-8b", gpu_id="H100-SXM", weights_gb="14.99")[
        "weights"
    ]
    assert weights.predicted == pytest.approx(14.99, rel=0.01)
    assert weights.unit == "GiB"


def test_a_total_needs_gpu_batch_and_lengths() -> None:
    assert "total_memory" in figures_of(total_gb="16.4")
    for missing in ("gpu_id", "batch", "isl", "osl"):
        scores = score_memory(MeasurementRow(2, {**RUN, "total_gb": "16.4", missing: ""}), "f", ModelFinder())
        assert scores.left_out == "does not state GPU, batch and lengths"


def test_figures_are_of_all_gpus_unless_the_row_says_per_gpu() -> None:
    layout = {"engine": "vLLM", "model_id": "llama-3-70b", "num_gpus": "4", "tp": "4", "weights_gb": "33"}
    every, one = figures_of(**layout)["weights"], figures_of(**layout, notes="GiB per GPU")["weights"]
    assert every.predicted == pytest.approx(4 * (one.predicted or 0))


def test_a_longer_prompt_never_needs_less() -> None:
    totals = [figures_of(total_gb="1", isl=isl)["total_memory"].predicted or 0 for isl in ("1", "6144", "30720")]
    assert totals == sorted(totals)
    assert totals[0] < totals[-1]


def test_a_run_out_of_memory_is_a_verdict_and_no_error_figure(tmp_path: Path) -> None:
    header = "engine,model_id,model,gpu_id,num_gpus,precision,batch,isl,osl,total_gb"
    oom = "HF transformers,llama-3-70b,x,RTX-4090,1,BF16,1,64,64,OOM"
    small = "HF transformers,qwen2-0.5b,x,A100-SXM4-80GB,1,BF16,1,64,64,OOM"
    file = tmp_path / "oom.csv"
    file.write_text(f"{header}\n{oom}\n{small}\n")
    (scored,) = score_files([file]).files
    assert [figure.reason for figure in scored.figures] == ["oom: predicted does not fit", "oom: predicted fits"]
    assert (scored.verdicts.num_failed, scored.verdicts.num_false_fits) == (2, 1)
    assert scored.groups == []


START = {
    "engine": "vLLM 0.6.4",
    "model_id": "llama-3.1-8b",
    "gpu_id": "RTX-3090",
    "gpu_memory_utilization": "0.9",
    "batch": "",
    "isl": "",
    "osl": "",
}


@pytest.mark.parametrize(("context", "outcome", "fits"), [("29000", "OOM", False), ("45000", "runs", True)])
def test_a_start_is_judged_by_the_longest_context(context: str, outcome: str, fits: bool) -> None:
    """vllm issues/10517: 29,000 tokens were refused where 45,000, profiled in chunks, were not."""
    cells = {**RUN, **START, "max_model_len": context, "total_gb": outcome}
    scores = score_memory(MeasurementRow(2, cells), "f", ModelFinder())
    assert (scores.ran, scores.fits) == (outcome == "runs", fits)
    assert [figure.measured for figure in scores.figures] == [None]
    assert score_memory(MeasurementRow(2, {**cells, "max_model_len": ""}), "f", ModelFinder()).left_out


def test_what_a_refused_start_logged_is_compared_all_the_same(tmp_path: Path) -> None:
    cells = {**RUN, **START, "max_model_len": "29000", "total_gb": "OOM", "kv_cache_tokens": "23648"}
    file = tmp_path / "refused.csv"
    file.write_text(f"{','.join(cells)}\n{','.join(cells.values())}\n")
    (scored,) = score_files([file]).files
    assert {group.quantity for group in scored.groups} == {"kv_tokens"}
    assert (scored.verdicts.num_failed, scored.verdicts.num_false_fits) == (1, 0)


def test_sequences_and_tokens_of_a_step_are_what_a_row_was_started_with() -> None:
    start = {**START, "engine": "vLLM 0.8.4", "max_model_len": "8192", "kv_cache_gb": "1"}
    pools = [figures_of(**start, max_num_seqs=n)["kv_pool"].predicted or 0 for n in ("1024", "256", "16")]
    assert pools == sorted(pools)
    assert pools[0] < pools[-1]


def test_a_verdict_needs_no_measured_total() -> None:
    """A table of runs that says only 'OOM' in a status column."""
    cells = {**RUN, "model_id": "llama-3-70b", "gpu_id": "RTX-4090", "status": "OOM"}
    scores = score_memory(MeasurementRow(2, cells), "f", ModelFinder())
    assert (scores.ran, scores.fits) == (False, False)
    assert [figure.reason for figure in scores.figures] == ["oom: predicted does not fit"]


def test_a_run_that_ran_and_was_said_not_to_fit_says_so_in_its_row() -> None:
    figure = figures_of(model_id="llama-3-70b", gpu_id="RTX-4090", total_gb="20")["total_memory"]
    assert figure.predicted
    assert figure.reason == "predicted does not fit"


def test_a_run_cannot_take_more_than_its_gpus_have() -> None:
    """Qwen2's speed benchmark: 163.77 GB of Qwen2-57B-A14B with 32,768 tokens on two GPUs of 80 GB."""
    cells = {**RUN, "model_id": "qwen2-57b-a14b", "num_gpus": "2", "isl": "30720"}
    for total, reason in (("163.77", "states more memory than its GPUs have"), ("155", None)):
        assert score_memory(MeasurementRow(2, {**cells, "total_gb": total}), "f", ModelFinder()).left_out == reason


@pytest.mark.slow
def test_published_totals_are_met_within_ten_percent() -> None:
    """inference_memory.csv: rows that state GPU, batch and lengths."""
    (file,) = score_files([MEASUREMENTS / "inference_memory.csv"]).files
    total = next(g for g in file.groups if g.by == "all" and g.quantity == "total_memory")
    assert total.num_predicted > 100
    assert total.median_error_ratio is not None
    assert total.median_error_ratio < 0.1
    assert file.verdicts.num_false_fits == 0
    assert file.verdicts.num_false_does_not_fit <= 0.02 * file.verdicts.num_ran


@pytest.mark.parametrize("version", ["0", "99", "٣", "9" * 5000])
def test_a_row_of_an_engine_version_that_never_was_is_not_scored(version: str) -> None:
    row = {"engine": "vLLM", "engine_version": version, "model_id": "llama-3.1-8b", "weights_gb": "15"}
    figure = figures_of(**row)["weights"]
    assert figure.predicted is None
    assert figure.reason.startswith("not a version of vLLM")
    assert len(figure.reason) < 300
