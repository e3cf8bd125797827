"""JSON of users: a key twice, a bottomless nesting and endless numbers are refused wherever such a file is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpufleet.catalog.models import load_model_config
from gpufleet.cli import main
from gpufleet.errors import UsageError
from gpufleet.inputs.json_text import parse_json

DEEP_PAIR = '{"rope_scaling": {"factor": 2, "factor": 8},'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"a": 1, "a": 1}', "it gives 'a' twice"),
        ('[{"b": {"a": [{"c": 1, "d": 2, "c": 3}]}}]', "it gives 'c' twice"),
        ("[" * 100_000, "it is not JSON"),
        ("9" * 401, "it is not JSON: it holds a number of 401 digits"),
        ('{"a": 1', "it is not JSON"),
    ],
)
def test_what_has_no_one_reading_is_refused(text: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_json(text, "it")
    assert told in str(caught.value)
    assert len(str(caught.value)) < 300


def test_many_keys_of_which_the_last_comes_twice_are_told_at_once() -> None:
    text = "{" + ",".join(f'"{i}": 0' for i in (*range(100_000), 99_999)) + "}"
    with pytest.raises(UsageError, match="'99999' twice"):
        parse_json(text, "it")


def test_the_same_key_in_two_objects_is_no_repetition() -> None:
    assert parse_json('[{"a": 1}, {"a": {"a": 2}}]', "it") == [{"a": 1}, {"a": {"a": 2}}]


@pytest.mark.parametrize(
    "words",
    [
        ("fit", "FILE", "--gpus", "L4"),
        ("encode", "FILE", "--gpus", "L4", "--in", "9"),
        ("plan", "serve", "FILE", "--rate", "1/s", "--in", "9", "--out", "9"),
        ("plan", "serve", "llama-3.1-8b", "--trace", "FILE", "--rate", "1/s"),
        ("explain", "FILE"),
    ],
)
def test_every_verb_refuses_a_key_twice(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.json"
    file.write_text(DEEP_PAIR + json.dumps(load_model_config("llama-3.1-8b"))[1:].replace("\n", ""), encoding="utf-8")
    assert main([str(file) if word == "FILE" else word for word in words]) == 2
    assert "gives 'factor' twice" in capsys.readouterr().err


def test_the_quantisation_beside_a_config_is_read_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(load_model_config("llama-3.1-8b")), encoding="utf-8")
    beside = '{"quantization": {"quant_algo": "FP8", "quant_algo": "NVFP4"}}'
    (tmp_path / "hf_quant_config.json").write_text(beside, encoding="utf-8")
    assert main(["fit", str(tmp_path), "--gpus", "L4"]) == 2
    assert "gives 'quant_algo' twice" in capsys.readouterr().err


def test_a_row_of_measurements_with_a_key_twice_is_not_scored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "counts.csv"
    config = json.dumps(load_model_config("llama-3.1-8b"))[1:].replace("\n", "")
    cell = (DEEP_PAIR + config).replace('"', '""')
    file.write_text(f'model,params_exact,config_json\nmine,8030261248,"{cell}"\n', encoding="utf-8")
    assert main(["accuracy", str(file)]) != 0
    assert "config_json gives 'factor' twice" in capsys.readouterr().err
