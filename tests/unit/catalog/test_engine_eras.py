"""Which step constants belong to which version of an engine."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.catalog import engine_eras
from gpufleet.catalog.engine_eras import (
    EngineEra,
    earlier_figures,
    era_at,
    era_of,
    load_engine,
    load_eras,
    release_in,
    with_era,
)
from gpufleet.catalog.engines import find_engine
from gpufleet.domain.engine import EarlierFigure
from gpufleet.domain.versions import version_key
from gpufleet.errors import DataMissing, UnknownName, UsageError
from gpufleet.provenance import Sourced

ENGINES = sorted(load_eras())


def test_versions_are_ordered_as_their_makers_number_them() -> None:
    ordered = ["0.4.2", "0.6", "0.8.0", "0.10.1", "v0.12.0", "1.0.0rc3", "1.2.0rc6.post3", "10.0", "gpt-oss-dev"]
    assert [version_key(v) for v in ordered] == sorted(version_key(v) for v in ordered)


def test_a_leading_v_and_spaces_do_not_matter() -> None:
    assert version_key(" v0.8.0 ") == version_key("0.8.0") == (0, 8, 0)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=4), st.integers(1, 20))
def test_a_later_number_in_any_place_is_a_later_version(numbers: list[int], step: int) -> None:
    for place in range(len(numbers)):
        later = [*numbers[:place], numbers[place] + step, *numbers[place + 1 :]]
        assert version_key(".".join(map(str, later))) > version_key(".".join(map(str, numbers)))


@pytest.mark.parametrize(
    ("engine", "version", "words"),
    [
        ("vllm", "0.4.2", "V0"),
        ("vllm", "0.7.3", "V0"),
        ("vllm", "0.8.0", "V1"),
        ("vllm", "0.12.0", "V1"),
        ("vllm", "nightly", "V1"),
        ("vllm", None, "V1"),
        ("tensorrt-llm", "0.9.0", "static batches"),
        ("trtllm", "0.14.0", "C++ runtime"),
        ("TensorRT-LLM", "1.0.0rc3", "PyTorch runtime"),
        ("tensorrt-llm", None, "PyTorch runtime"),
    ],
)
def test_a_version_falls_into_its_era(engine: str, version: str | None, words: str) -> None:
    assert words in era_of(engine, version).name


@pytest.mark.parametrize("engine", ENGINES)
def test_eras_follow_each_other_and_the_last_is_open(engine: str) -> None:
    *closed, newest = load_eras()[engine]
    bounds = [version_key(era.until or "") for era in closed]
    assert bounds == sorted(set(bounds))
    assert all(era.until for era in closed)
    assert newest.until is None
    assert era_of(engine) is newest


@pytest.mark.parametrize("engine", ENGINES)
def test_every_era_states_the_same_constants_with_sources_and_sane_values(engine: str) -> None:
    known = set(load_eras()["vllm"][-1].constants)
    for era in load_eras()[engine]:
        own = set(era.constants) - known
        assert known <= set(era.constants)
        assert all(name.startswith("eager_") and name.endswith("_ratio") for name in own)
        for name, constant in era.constants.items():
            assert constant.source
            assert math.isfinite(constant.value), name
        assert 0.5 <= era.constants["decode_scale_ratio"].value <= 2
        assert era.constants["prefill_scale_ratio"].value >= 1, "no faster than kernels that were measured"
        for quantity in ("tpot", "ttft"):
            assert era.constants[f"{quantity}_log_low"].value < 0 < era.constants[f"{quantity}_log_high"].value
        for slope in (
            "ttft_log_per_crowding",
            "ttft_log_attention_dp",
            "tpot_log_experts",
            "log_per_doubling",
        ):
            assert era.constants[slope].value >= 0
        for length in ("input", "output"):
            assert 0 < era.constants[f"least_{length}_tokens"].value <= era.constants[f"most_{length}_tokens"].value


def test_an_engine_takes_on_the_constants_and_the_memory_rules_of_its_version() -> None:
    """vllm-project/vllm pull/38284: graphs came into the fraction with 0.21, which rose from 0.90 to 0.92."""
    old, new = load_engine("vllm", "0.4.2"), load_engine("vllm")
    assert old.version_era != new.version_era
    assert old.constants["decode_scale_ratio"] is era_of("vllm", "0.4.2").constants["decode_scale_ratio"]
    assert new.memory_fraction == find_engine("vllm").memory_fraction
    assert (old.memory_fraction.value, new.memory_fraction.value) == (0.9, 0.92)
    assert [load_engine("vllm", v).constant("graphs_in_fraction") for v in ("0.4.2", "0.20.1", "0.21.0")] == [0, 0, 1]


@pytest.mark.parametrize(
    ("profile_grade", "era_grade", "expected"),
    [
        ("measured", "measured", "measured"),
        ("measured", "transferred", "transferred"),
        ("roofline", "measured", "roofline"),
        ("transferred", "roofline", "roofline"),
    ],
)
def test_the_worse_of_two_grades_counts(profile_grade: str, era_grade: str, expected: str) -> None:
    era = EngineEra("vllm", "an era", None, era_grade, {"x": Sourced(1.0, "s", "here")})
    assert with_era(replace(find_engine("vllm"), grade=profile_grade), era).grade == expected


def test_missing_step_constants_name_the_engines_that_have_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_eras, "load_eras", lambda: {"sglang": load_eras()["sglang"]})
    with pytest.raises(DataMissing, match="Known: sglang") as found:
        era_of("vllm")
    assert found.value.exit_code == 5


def test_an_unknown_engine_offers_the_nearest() -> None:
    with pytest.raises(UnknownName, match="vllm"):
        load_engine("vlm")


def test_a_version_keeps_the_figures_that_came_before_every_later_change() -> None:
    changed = [EarlierFigure("steps_ahead", until, Sourced(value, "", "")) for until, value in (("0.9", 2), ("0.7", 1))]
    profile = replace(find_engine("vllm"), earlier=tuple(changed))
    found = [earlier_figures(profile, version) for version in ("0.6.1", "0.7", "0.9")]
    assert [{name: figure.value for name, figure in figures.items()} for figures in found] == [
        {"steps_ahead": 1}, {"steps_ahead": 2}, {},
    ]  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
def test_figures_that_changed_say_why(engine: str) -> None:
    profile = find_engine(engine)
    assert all(figure.value.source for figure in profile.earlier)
    assert all(fusion.source for fusion in profile.earlier_fusions)


def test_a_version_fuses_what_it_had_by_then() -> None:
    """vLLM pull/27883 and 34718, TensorRT-LLM pull/6540."""
    vllm = [load_engine("vllm", version).fused_quantisation for version in ("0.12.0", "0.15.1", "0.19.0")]
    assert [each["fp8_block"] for each in vllm] == [(), ("norm on one GPU",), ("norm on one GPU",)]
    assert [each["nvfp4"] for each in vllm] == [(), (), ("activation",)]
    trtllm = [
        load_engine("tensorrt-llm", version).fused_quantisation["fp8"] for version in ("0.14.0", "1.0.0", "1.2.0")
    ]
    assert trtllm == [("attention", "activation"), ("attention",), ("attention", "activation")]


def test_graphs_of_vllm_hold_beyond_8192_tokens_since_0_6() -> None:
    recorded = [load_engine("vllm", v).figure("graphed_context_tokens", math.inf) for v in ("0.4.2", "0.5.5", "0.6.3")]
    assert recorded == [8192, 8192, math.inf]


@pytest.mark.parametrize(
    ("engine", "older", "newer"), [("vllm", "0.4.2", "0.7.3"), ("tensorrt-llm", "0.14.0", "0.21.0")]
)
def test_a_version_between_two_measured_eras_takes_what_lies_between(engine: str, older: str, newer: str) -> None:
    measured, between = era_at(engine, older).constants, era_at(engine, newer).constants
    eras = load_eras()[engine]
    following = eras[eras.index(era_of(engine, older)) + 1].constants
    for name in ("decode_scale_ratio", "step_overhead_s", "prefill_scale_ratio"):
        ends = sorted(era[name].value for era in (measured, following))
        assert ends[0] <= between[name].value <= ends[1]
    assert between["step_overhead_s"] != measured["step_overhead_s"]
    assert between["tpot_log_high"].value == max(era["tpot_log_high"].value for era in (measured, following))


@pytest.mark.parametrize("engine", ENGINES)
def test_versions_that_were_measured_and_the_newest_keep_the_constants_of_their_era(engine: str) -> None:
    for era in load_eras()[engine]:
        for version in era.measured or ():
            assert era_at(engine, version) is era_of(engine, version) is era
    assert era_at(engine) is era_of(engine)


def test_every_release_on_the_way_comes_nearer() -> None:
    steps = [era_at("vllm", version).constants["step_overhead_s"].value for version in find_engine("vllm").releases]
    of_old = steps[: find_engine("vllm").releases.index("0.8.0")]
    assert of_old == sorted(of_old, reverse=True) or of_old == sorted(of_old)


@pytest.mark.parametrize(
    ("engine", "older", "newer"), [("tensorrt-llm", "1.0.0", "1.1.0"), ("vllm", "0.17.1", "0.18.0")]
)
def test_experts_made_for_the_gpu_came_with_a_version(engine: str, older: str, newer: str) -> None:
    taken = [load_engine(engine, version).figure("general_experts", 0.0) for version in (older, newer, None)]
    assert taken == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("words", "era", "release"),
    [
        ("0.9.1 (V0)", "V0", "0.7.3"),
        ("V0", "V0", "0.7.3"),
        ("0.6.3 (V0)", "V0", "0.6.3"),
        ("0.7.2 (V1)", "V1", "0.8.0"),
        ("vLLM 0.10.2 V1", "V1", "0.10.2"),
        ("V1", "V1", "0.19"),
    ],
)
def test_a_build_runs_the_engine_that_it_was_asked_for(words: str, era: str, release: str) -> None:
    """VLLM_USE_V1 chooses between both from 0.7 to 0.10.2: the same version is two engines."""
    assert release_in(find_engine("vllm"), words) == release
    assert load_engine("vllm", words).version_era.startswith(era)
    assert load_engine("vllm", words).max_batch == load_engine("vllm", release).max_batch


def test_other_engines_have_one_generation() -> None:
    assert release_in(find_engine("sglang"), "0.5.9") == "0.5.9"
    with pytest.raises(UsageError, match="not a version"):
        load_engine("sglang", "V0")
