"""Which model a row means."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpufleet.accuracy.models import ModelFinder
from gpufleet.architecture.parameters import num_parameters
from gpufleet.errors import UsageError
from gpufleet.inputs.measurements import MeasurementRow

TINY = {
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 256,
}


def row(**cells: str) -> MeasurementRow:
    return MeasurementRow(2, cells)


def test_the_users_folder_comes_before_the_shipped_models(tmp_path: Path) -> None:
    (tmp_path / "llama-3.1-8b.json").write_text(json.dumps(TINY))
    assert ModelFinder(tmp_path).of(row(model_id="llama-3.1-8b")).num_layers == 2
    assert ModelFinder().of(row(model_id="llama-3.1-8b")).num_layers == 32


def test_a_model_id_may_be_the_path_of_a_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    assert ModelFinder().of(row(model_id=str(tmp_path))).hidden_size == 64
    assert ModelFinder().of(row(model_id=str(tmp_path / "config.json"))).hidden_size == 64


def test_a_folder_of_models_is_never_left(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text(json.dumps(TINY))
    folder = tmp_path / "models"
    folder.mkdir()
    for name in ("../secret", "..", ".", "x" * 5000, "a\0b"):
        assert list(ModelFinder(folder).own_configs(name)) == []


def test_shape_columns_build_a_plain_decoder_where_there_is_no_id() -> None:
    shape = {"layers": "32", "hidden": "4096", "heads": "32", "ffn": "11008", "vocab": "32000"}
    assert num_parameters(ModelFinder().of(row(**shape))) == 6_738_415_616  # Llama-2-7B
    with pytest.raises(UsageError, match="shape unknown"):
        ModelFinder().of(row(**shape, num_experts="8"))


def test_a_name_goes_through_the_aliases_and_is_never_guessed() -> None:
    assert ModelFinder().of(row(model="meta-llama/Llama-3.1-8B-Instruct")).name == "llama-3.1-8b"
    for name in ("Llama", "Qwen-9B", "my own model"):
        with pytest.raises(UsageError, match="shape unknown"):
            ModelFinder().of(row(model=name))


def test_an_unknown_id_names_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"unknown model 'llama-3\.1-9b'.*llama-3\.1-8b"):
        ModelFinder().of(row(model_id="llama-3.1-9b"))


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--models"):
        ModelFinder(tmp_path / "none")
