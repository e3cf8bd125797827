"""Model configs that are broken, absurd or malicious: one message each, no traceback."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpufleet.architecture.encoder_parameters import num_encoder_parameters
from gpufleet.architecture.encoder_parse import parse_encoder
from gpufleet.architecture.parameters import num_parameters
from gpufleet.architecture.parse import parse_architecture
from gpufleet.catalog.models import load_model_config, shipped_architecture
from gpufleet.errors import GpufleetError, UsageError
from gpufleet.inputs.model_config import read_model

GOOD = load_model_config("llama-3-8b")


def read(model):
    return read_model(model, shipped_architecture)


def test_a_file_a_folder_and_a_name_give_the_same_shape(tmp_path):
    folder = tmp_path / "llama-3-8b"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(GOOD), encoding="utf-8")
    by_name = read("llama-3-8b")
    assert read(str(folder)) == read(folder / "config.json") == by_name


def test_quantisation_beside_the_config_is_read(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(GOOD), encoding="utf-8")
    beside = {"quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside), encoding="utf-8")
    assert read(tmp_path).weights.name == "fp8"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not JSON"),
        (b"hello", "not JSON"),
        (b'{"model_type": "llama", "hidden_si', "not JSON"),
        (b"[1, 2]", "not one JSON object"),
        (b'"llama"', "not one JSON object"),
        (b"{}", "no model_type"),
        (b"\xff\xfe\x00", "not text"),
        (b"[" * 100_000, "nested too deeply|not JSON"),
        (b'{"a":' * 100_000, "nested too deeply|not JSON"),
        (b'{"model_type": ["llama"]}', "not a name"),
        (b'{"model_type": "llama", "hidden_size": 1' + b"0" * 5000 + b"}", "not JSON|not a size"),
    ],
)
def test_files_that_are_no_config(tmp_path, content, message):
    file = tmp_path / "config.json"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=message) as caught:
        read(file)
    assert caught.value.exit_code == 2
    assert len(str(caught.value)) < 1000


def test_a_hundred_megabytes_are_refused_before_they_are_read(tmp_path):
    file = tmp_path / "config.json"
    with file.open("wb") as stream:
        stream.truncate(100_000_000)
    with pytest.raises(UsageError, match="too large"):
        read(file)


@pytest.mark.parametrize(
    "model", ["./nowhere/config.json", "/", "~no-such-user/config.json", "a\0b.json", "x" * 5000 + ".json"]
)
def test_paths_that_lead_nowhere(model):
    with pytest.raises(UsageError):
        read(model)


@pytest.mark.parametrize("field", ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"])
@pytest.mark.parametrize("value", [-1, 0, 1.5, float("nan"), float("inf"), 10**12, "64", True, [64], {}])
def test_absurd_sizes_are_refused_with_the_field_named(field, value):
    with pytest.raises(UsageError, match=field):
        parse_architecture({**GOOD, field: value}, "m")


def test_a_million_layers_cost_nothing_to_refuse():
    with pytest.raises(UsageError, match="absurd"):
        parse_architecture({**GOOD, "num_hidden_layers": 1_000_000}, "m")


def test_a_thousand_star_patterns_do_not_hang():
    ignore = [f"re:{'.*a' * 60}{n}" for n in range(3000)]
    config = {**GOOD, "quantization_config": {"quant_method": "awq", "bits": 4, "ignore": ignore}}
    assert parse_architecture(config, "m").weights.name == "int4"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
SHIPPED = (
    "deepseek-v3",
    "falcon-40b",
    "gemma-3-12b-text",
    "gpt-oss-20b",
    "gpt2",
    "llama-3-8b",
    "llama-4-scout-text",
    "minimax-m2.5",
    "mpt-7b",
    "opt-6.7b",
    "qwen1.5-moe-a2.7b",
)
KEYS = sorted({key for name in SHIPPED for key in load_model_config(name)} | {"text_config", "ignore"})


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=300, deadline=None)
@given(st.sampled_from(SHIPPED), st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4))
def test_any_value_in_any_field_gives_a_shape_or_one_clear_error(name, damage):
    try:
        arch = parse_architecture({**load_model_config(name), **damage}, name)
    except GpufleetError:
        return
    assert num_parameters(arch) > 0


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(
        ["bert-large-uncased", "whisper-base", "t5-small", "clip-vit-base-patch32", "wav2vec2-base", "vit-base"]
    ),
    st.data(),
)
def test_a_damaged_encoder_counts_something_or_is_refused(name, data):
    config = load_model_config(name)
    keys = st.sampled_from(sorted(set(config) - {"model_type"}))
    values = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-5, 10**12),
        st.floats(),
        st.text(max_size=5),
        st.lists(st.integers(-1, 9)),
    )
    damage = data.draw(st.dictionaries(keys, values, min_size=1, max_size=4))
    try:
        model = parse_encoder({**config, **damage}, name)
    except GpufleetError:
        return
    assert num_encoder_parameters(model) > 0


def test_a_folder_without_a_config_is_called_that_however_it_is_spelled(tmp_path, monkeypatch):
    (tmp_path / "emptydir").mkdir()
    monkeypatch.chdir(tmp_path)
    for spelled in ("emptydir", "./emptydir", str(tmp_path / "emptydir"), tmp_path / "emptydir"):
        with pytest.raises(UsageError, match=r"the folder '.*emptydir' has no config\.json"):
            read(spelled)


def test_a_shipped_name_is_not_hidden_by_an_empty_folder_of_that_name(tmp_path, monkeypatch):
    (tmp_path / "llama-3-8b").mkdir()
    monkeypatch.chdir(tmp_path)
    assert read("llama-3-8b").num_layers == 32


@pytest.mark.parametrize("spelled", ["loop", "./loop", "loop.json", "model"])
def test_a_link_that_leads_to_itself_is_called_that(tmp_path, monkeypatch, spelled):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "loop.json").symlink_to("loop")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").symlink_to("../loop")
    with pytest.raises(UsageError, match="a link that leads back to itself"):
        read(spelled)


@pytest.mark.parametrize("url", ["https://huggingface.co/a/b/config.json", "HTTP://x", "s3://bucket/model"])
def test_a_url_is_shown_as_typed_and_not_read(url):
    with pytest.raises(UsageError, match="URLs are not read") as caught:
        read(url)
    assert repr(url) in str(caught.value)


def test_a_field_that_is_null_is_not_called_missing():
    with pytest.raises(UsageError, match="hidden_size is null"):
        parse_architecture({**GOOD, "hidden_size": None}, "m")


@pytest.mark.parametrize("digits", [500, 5000, 100_000])
def test_a_number_of_thousands_of_digits_needs_no_setting_of_python(tmp_path, digits):
    file = tmp_path / "config.json"
    file.write_text(
        json.dumps({**GOOD, "hidden_size": 0}).replace('"hidden_size": 0', f'"hidden_size": {"9" * digits}')
    )
    with pytest.raises(UsageError, match=f"a number of {digits:,} digits") as caught:
        read(file)
    assert "sys.set" not in str(caught.value)


def test_an_unknown_name_reads_as_sentences_with_and_without_a_near_one():
    for name in ("lama-3-8b", "zzzzzz", ""):
        with pytest.raises(UsageError) as caught:
            read(name)
        assert " Or give" not in str(caught.value)
        assert "'gpufleet catalog models' lists" in str(caught.value)
