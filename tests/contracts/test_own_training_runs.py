"""Runs of training of one's own: typed or calibrated they say the same, and move their GPU and software alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpufleet import plan_finetune, plan_train
from gpufleet.accuracy.own_stack.find import calibrate_stack
from gpufleet.errors import UsageError
from gpufleet.results.training import TrainingPlan

MODEL = "llama-3.1-8b"
HEADER = "model_id,task,lora_rank,seq_len,gpu_id,num_gpus,micro_batch,stack,tokens_per_s_per_gpu\n"
ROW = "llama-3.1-8b,lora finetune,16,4096,{gpu},1,{size},{stack},{speed}\n"
ASKED: dict[str, Any] = {"tokens": "50M", "gpus": ["L40S"]}


def runs(*speeds: float, gpu: str = "L40S", stack: str = "pytorch-sdpa") -> str:
    return HEADER + "".join(ROW.format(gpu=gpu, size=n, stack=stack, speed=x) for n, x in enumerate(speeds, 1))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("own")
    (folder / "runs.csv").write_text(runs(4200, 4400), encoding="utf-8")
    found = calibrate_stack(folder / "runs.csv")
    assert (found.engine, found.gpu, found.runs, {f.time for f in found.factors}) == (
        "pytorch-sdpa",
        "L40S",
        2,
        {"step"},
    )
    path = folder / "mine.toml"
    path.write_text(found.toml, encoding="utf-8")
    return str(path)


def speed(plan: TrainingPlan) -> tuple[float, float, float]:
    found = plan.answer.speed.tokens_per_s_per_gpu
    return found.low or 0.0, found.value, found.high or 0.0


def test_runs_that_are_typed_and_runs_that_are_calibrated_say_the_same(saved: str) -> None:
    usual = speed(plan_finetune(MODEL, **ASKED))
    typed = speed(plan_finetune(MODEL, **ASKED, measured="L40S:1,micro-batch=1@4200;L40S:1,micro-batch=2@4400"))
    kept = speed(plan_finetune(MODEL, **ASKED, calibration=saved))
    assert kept == pytest.approx(typed, rel=1e-5)
    assert 4400 < kept[1] < usual[1]
    assert kept[2] / kept[0] < usual[2] / usual[0]


@pytest.mark.parametrize("words", [{"gpus": ["RTX-4090"]}, {"stack": "eager"}])
def test_another_gpu_and_other_software_move_not(saved: str, words: dict[str, Any]) -> None:
    asked = {**ASKED, **words}
    assert speed(plan_finetune(MODEL, **asked, calibration=saved)) == speed(plan_finetune(MODEL, **asked))


def test_what_all_models_share_moves_another_model_little(saved: str) -> None:
    asked = {"tokens": "1B", "gpus": ["L40S:8"], "stack": "pytorch-sdpa"}
    own, usual = (speed(plan_train("qwen3-0.6b", **asked, **more)) for more in ({"calibration": saved}, {}))
    assert 0.9 < own[1] / usual[1] < 1


@pytest.mark.parametrize(
    "text",
    [
        runs(4200, 4300) + ROW.format(gpu="H100", size=1, stack="pytorch-sdpa", speed=9000),
        runs(4200) + ROW.format(gpu="L40S", size=1, stack="eager", speed=3000),
        runs(4200).replace("4200", ""),
        runs(4200).replace("4200", "-3"),
        runs(4200, gpu="L4O"),
    ],
)
def test_rows_that_are_not_of_one_stack_are_one_message(text: str, tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError):
        calibrate_stack(tmp_path / "runs.csv")


def test_a_pace_that_is_said_twice_is_refused(saved: str) -> None:
    with pytest.raises(UsageError, match="twice"):
        plan_finetune(MODEL, **ASKED, measured="L40S:1@4200", calibration=saved)
