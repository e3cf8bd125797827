"""What a user prefers: where it is looked for, what goes before what, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.errors import GpufleetError
from gpufleet.inputs.preferences import (
    KEYS,
    SINGULAR,
    config_folder,
    parse_preferences,
    preference_files,
    preferences,
    unknown_variables,
)


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_the_environment_goes_before_the_project_and_the_project_before_the_user(tmp_path: Path) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    written(project, "gpufleet.toml", 'engine = "sglang"\nclouds = ["gcp"]')
    mine = written(home, ".config/gpufleet/config.toml", 'engine = "vllm"\nclouds = "azure"\nslo = "ttft<1s"')
    found = preferences({"HOME": str(home), "GPUFLEET_CLOUDS": "aws, gcp"}, project, "linux")
    assert (found["clouds"].value, found["clouds"].origin) == (("aws", "gcp"), "GPUFLEET_CLOUDS")
    assert (found["engine"].value, found["engine"].origin) == ("sglang", str(project / "gpufleet.toml"))
    assert (found["slo"].value, found["slo"].origin) == ("ttft<1s", str(mine))
    assert "regions" not in found


@pytest.mark.parametrize(
    ("platform", "environment", "place"),
    [
        ("linux", {"HOME": "/h"}, "/h/.config"),
        ("linux", {"HOME": "/h", "XDG_CONFIG_HOME": "/x"}, "/x"),
        ("darwin", {"HOME": "/h"}, "/h/Library/Application Support"),
        ("win32", {"APPDATA": "/a", "USERPROFILE": "/u"}, "/a"),
        ("linux", {}, None),
    ],
)
def test_every_platform_keeps_settings_where_it_keeps_those_of_others(
    platform: str, environment: dict[str, str], place: str | None
) -> None:
    assert list(config_folder(environment, platform)) == ([Path(place)] if place else [])


def test_a_named_file_stands_for_the_users_own_and_an_empty_name_for_none(tmp_path: Path) -> None:
    named = written(tmp_path, "mine.toml", 'engine = "sglang"')
    environment = {"HOME": "/h", "GPUFLEET_CONFIG": str(named)}
    assert preference_files(environment, Path()) == [Path("gpufleet.toml"), named]
    assert preference_files({"HOME": "/h", "GPUFLEET_CONFIG": ""}, Path()) == [Path("gpufleet.toml")]
    with pytest.raises(GpufleetError, match="GPUFLEET_CONFIG names no file"):
        preference_files({"GPUFLEET_CONFIG": str(tmp_path / "missing.toml")}, Path())


def test_the_folder_of_tables_is_found_from_where_the_file_lies(tmp_path: Path) -> None:
    path = written(tmp_path, "gpufleet.toml", 'catalog = "tables"')
    assert preferences({}, tmp_path)["catalog"].value == str(path.parent / "tables")


def test_one_cloud_is_written_like_the_flag_that_names_it() -> None:
    found = parse_preferences('cloud = "aws"\nregion = "us-east-1, us-west-2"', Path("gpufleet.toml"))
    assert (found["clouds"].value, found["regions"].value) == (("aws",), ("us-east-1", "us-west-2"))
    assert set(SINGULAR.values()) <= set(KEYS)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('engin = "vllm"', "Did you mean engine"),
        ("engine = true", "'engine' cannot be read; found True; expected words in quotes"),
        ("engine = ['vllm']", "'engine' cannot be read"),
        ("engine = ''", "'engine' cannot be read"),
        ("clouds = []", "'clouds' cannot be read"),
        ("clouds = [['aws']]", "'clouds' cannot be read"),
        ("[serve]\nengine = 'vllm'", "unknown key in gpufleet.toml: 'serve'"),
        ("cloud = 'aws'\nclouds = 'gcp'", "'clouds' is set twice"),
        ("engine: vllm", "gpufleet.toml is not TOML"),
        ("a = " + "[" * 5000, "gpufleet.toml is not TOML"),
    ],
)
def test_a_slip_in_the_file_is_named(text: str, told: str) -> None:
    with pytest.raises(GpufleetError) as caught:
        parse_preferences(text, Path("gpufleet.toml"))
    assert told in str(caught.value)


@given(st.text(max_size=60))
def test_any_text_is_preferences_or_one_message(text: str) -> None:
    try:
        found = parse_preferences(text, Path("gpufleet.toml"))
    except GpufleetError:
        return
    assert set(found) <= set(KEYS)


def test_a_misspelt_variable_is_remarked() -> None:
    remarks = unknown_variables(
        {"GPUFLEET_ENGIN": "vllm", "GPUFLEET_ENGINE": "vllm", "GPUFLEET_DEBUG": "1", "HOME": "/h"}
    )
    assert remarks == ["GPUFLEET_ENGIN means nothing here; GPUFLEET_ENGINE does."]
