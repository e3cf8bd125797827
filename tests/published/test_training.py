"""Published speed of training: papers of Megatron-LM, PyTorch, and releases of NVIDIA's framework.

The constants were fitted to these rows of `measurements/training_throughput.csv`: what is held here is that the form
of the equations meets them all at once. Errors of sources that the fit had not seen: docs/accuracy.md.
"""

from collections import defaultdict
from functools import lru_cache
from pathlib import Path
from statistics import fmean, geometric_mean

import pytest

from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.score import score_row
from gpufleet.accuracy.statistics import error_ratio
from gpufleet.accuracy.training_throughput import score_training_throughput
from gpufleet.api import plan_train
from gpufleet.api.training_estimates import model_notes
from gpufleet.catalog.models import shipped_architecture
from gpufleet.catalog.training_runs import load_training_runs
from gpufleet.inputs.measurements import read_measurements
from gpufleet.results.accuracy import ScoredFigure

MEASUREMENTS = Path(__file__).parents[2] / "measurements" / "training_throughput.csv"
TABLE_5 = {  # arXiv:2205.05198, seconds of a step: all recomputed; sequence parallelism with selective recomputation
    "Megatron 22B": (1.42, 1.10),
    "GPT-3 175B": (18.13, 13.75),
    "MT-NLG 530B": (49.05, 37.83),
    "Megatron 1T": (94.42, 71.49),
}
SEQUENCE, GPUS = 2048, {"Megatron 22B": 8, "GPT-3 175B": 64, "MT-NLG 530B": 280, "Megatron 1T": 512}
EXPERTS_OF = "NVIDIA-NeMo/Megatron-Bridge"
STATED = (
    "model_id",
    "gpu_id",
    "num_gpus",
    "tp",
    "pp",
    "dp",
    "cp",
    "ep",
    "micro_batch",
    "global_batch",
    "seq_len",
    "precision",
)
BATCHES = {"Megatron 22B": 4, "GPT-3 175B": 64, "MT-NLG 530B": 280, "Megatron 1T": 512}


@lru_cache(maxsize=1)
def figures() -> list[ScoredFigure]:
    """Every scored row of the file."""
    finder, file = ModelFinder(), read_measurements(MEASUREMENTS)
    scored = (score_row(score_training_throughput, row, "file", finder) for row in file.rows)
    return [figure for row in scored if row.left_out is None for figure in row.figures]


def of(words: str, model: str = "") -> list[ScoredFigure]:
    """The figures of a source, all predicted."""
    found = [f for f in figures() if words in f.source and model in f.model_id and f.predicted is not None]
    assert found
    return found


def error(figure: ScoredFigure) -> float:
    return error_ratio(figure.measured or 0.0, figure.predicted or 0.0)


@pytest.mark.parametrize("model", TABLE_5)
def test_steps_of_table_5_come_out(model: str) -> None:
    """Korthikanti et al. 2022, table 5: 22B to 1T on 8 to 512 A100; 64 stages come out 6.3 % too slow."""
    tokens = BATCHES[model] * SEQUENCE / GPUS[model]
    published = [tokens / step_s for step_s in TABLE_5[model]]
    assert [row.predicted for row in of("2205.05198", model)] == pytest.approx(published, rel=0.065)
    assert fmean(map(error, of("2205.05198"))) < 0.03


def test_megatron_scales_from_2_billion_to_a_trillion() -> None:
    """Narayanan et al. 2021 (SC21), arXiv:2104.04473, table 1: ten models on 32 to 3,072 A100; 8.5 % on average."""
    rows = of("cases_april2021")
    assert len(rows) == 10
    assert fmean(map(error, rows)) < 0.085


def test_selective_recomputation_is_worth_what_the_paper_says() -> None:
    """arXiv:2205.05198: 29 to 32 % more throughput than with everything computed again."""
    for model in TABLE_5:
        everything, selective = of("2205.05198", model)
        assert (selective.predicted or 0) / (everything.predicted or 1) == pytest.approx(1.30, rel=0.06)


def test_lora_of_torchtune_on_one_a100_comes_out() -> None:
    """pytorch/torchtune, README.md: Llama 3.2 3B with LoRA, sequences of 4,096, 8,210 tokens/s."""
    (row,) = [f for f in of("torchtune", "llama-3.2-3b") if f.measured == 8210]
    assert row.predicted == pytest.approx(8210, rel=0.10)


def test_llama_3_70b_of_megatron_bridge_comes_out_on_64_h100() -> None:
    """NVIDIA-NeMo/Megatron-Bridge, docs/performance-summary-archive.md, 26.04: FP8, TP4 PP8 x5 DP2, 1,633 tokens/s."""
    (row,) = [f for f in of("Megatron-Bridge", "LLAMA3_70B") if f.measured == 1633]
    assert row.predicted == pytest.approx(1633, rel=0.05)


def test_most_published_runs_lie_in_their_range() -> None:
    found = [figure for figure in figures() if figure.predicted is not None]
    held = [(f.low or 0) <= (f.measured or 0) <= (f.high or 0) for f in found]
    assert len(found) == 410
    assert fmean(held) > 0.8


CAMPAIGNS = {  # GPU-hours of whole campaigns, which no fit has seen: arXiv:2307.09288 table 2; card of Llama 3.1
    "llama-2-70b": ("2T", 4096, "A100-80GB:2048", 1_720_320),
    "llama-3.1-70b": ("15T", 8192, "H100:8192", 7_000_000),
    "llama-3.1-405b": ("15.6T", 8192, "H100:16384", 30_840_000),
}


def test_campaigns_took_as_many_more_gpu_hours_than_their_tokens_need_as_the_page_says() -> None:
    said, ratios = load_training_runs().campaign_ratio, []
    for model, (tokens, sequence, gpus, published) in CAMPAIGNS.items():
        plan = plan_train(model, tokens=tokens, sequence_tokens=sequence, gpus=[gpus], pricing=["on_demand"])
        ratios.append(published / plan.answer.gpu_hours.value)
        assert any(f"405B took {said.low:g} to {said.high:g} times" in note for note in plan.notes)
    assert said.points == len(ratios)
    assert (said.low, said.high) == (round(min(ratios), 2), round(max(ratios), 2))
    assert said.value == round(geometric_mean(ratios), 2)


def test_releases_of_experts_differ_by_as_much_as_the_page_says() -> None:
    """Runs of one model in one layout, precision and batch, under several releases of the one framework."""
    rows = [row.cells for row in read_measurements(MEASUREMENTS).rows]
    runs = [run for run in rows if run["num_experts"] and run["usable"] == "yes"]
    assert {run["source"].partition(":")[0] for run in runs} == {EXPERTS_OF}
    assert {run["gpu_id"] for run in runs} == {"H100-SXM", "B200", "GB200"}
    alike: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for run in runs:
        alike[tuple(run[name] for name in STATED)].append(float(run["tokens_per_s_per_gpu"]))
    apart = max(max(rates) / min(rates) for rates in alike.values())
    [note] = [note for note in model_notes(shipped_architecture("mixtral-8x7b")) if "experts" in note]
    assert note.endswith(f"one framework was measured, its releases differ by up to {apart - 1:.0%}")
