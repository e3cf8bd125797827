"""Parameter counts: exact for every decoder, a reason for everything else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.param_counts import declared_config, score_param_counts
from gpufleet.accuracy.score import score_files
from gpufleet.errors import UsageError
from gpufleet.inputs.measurements import MeasurementRow

MEASUREMENTS = Path(__file__).resolve().parents[3] / "measurements"
GPT2 = {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257, "n_positions": 1024}


def test_every_published_count_is_met_to_the_last_parameter() -> None:
    """255 counts of transformers on the meta device (measurements/param_counts.csv)."""
    (file,) = score_files([MEASUREMENTS / "param_counts.csv"]).files
    decoders = {g.quantity: g for g in file.groups if g.by == "all"}
    assert file.num_scored_rows == 255
    for figure in file.figures:
        if not figure.group.startswith(("diffusion", "text-to-speech")):
            assert figure.predicted == figure.measured, figure.model_id
        else:
            assert figure.predicted is None
            assert "planned yet" in str(figure.reason)
    assert decoders["params"].num_predicted == 237 + 14
    assert decoders["active_params"].num_predicted == 68
    assert decoders["params"].mean_error_ratio == 0.0


def test_the_rows_own_config_counts_for_a_model_that_nobody_ships() -> None:
    row = MeasurementRow(2, {"model": "mine", "config_json": json.dumps(GPT2), "params_exact": "124439808"})
    (figure,) = score_param_counts(row, "mine.csv", ModelFinder()).figures
    assert figure.predicted == figure.measured == 124_439_808


def test_the_class_in_how_tells_the_family_of_a_bare_config() -> None:
    how = "transformers 5.23.0 Qwen2ForCausalLM(Qwen2Config(**config_json)) on meta device"
    assert declared_config("{}", how) == {"architectures": ["Qwen2ForCausalLM"]}
    assert declared_config('{"model_type": "llama"}', how)["model_type"] == "llama"


@pytest.mark.parametrize("config", ["{", "[]", "null", "[" * 100_000, '"llama"', "NaN"])
def test_a_config_that_is_no_object_is_a_reason_and_not_a_crash(config: str) -> None:
    with pytest.raises(UsageError, match="config_json"):
        declared_config(config, "")
    row = MeasurementRow(2, {"model": "mine", "config_json": config, "params_exact": "1"})
    (figure,) = score_param_counts(row, "mine.csv", ModelFinder()).figures
    assert figure.predicted is None
    assert "config_json" in str(figure.reason)


def test_a_count_of_another_is_off_by_its_ratio(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("model,params_exact\ngpt2,62219904\nllama-2-7b,6738415616\n")
    (scored,) = score_files([file]).files
    assert scored.worst[0].model_id == "gpt2"
    assert scored.groups[0].mean_error_ratio == pytest.approx(0.5)
