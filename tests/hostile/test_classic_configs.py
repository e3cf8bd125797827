"""Mutated configs: each works, or gives one clear message."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.effort import cases

from gpufleet.compat.classic import AWSGPUMigrationAnalyzer
from gpufleet.compat.classic.config import config_of
from gpufleet.compat.classic.fragments import FILES, Fragment, fragment_of, read_fragment, shipped_folder
from gpufleet.errors import GpufleetError

SHIPPED = {name: (shipped_folder() / name).read_text(encoding="utf-8") for name in FILES}
FRAGMENTS = {name: fragment_of(text, name) for name, text in SHIPPED.items()}
NASTY = (
    '"', "{", "}", "[", "]", ",", ":", "//", "null", "true", "-1", "0", "1e999", "NaN", "\\", "\x00", "\n", "é", "🤖",
    '"a": 1,', "9" * 41, "{" * 40, "1.5.2", "/*", "'", "\ufeff", '"P5"', '"": {},', '"gpu_instances": ',
)  # fmt: skip
VALUES = (None, True, -1, 0, 0.5, 1e18, 10**30, "", " ", "P5", "x" * 600, [], {}, [1], ["a"], {"a": {}}, "\x1b[2J")
Mutation = Callable[[str, random.Random], str]
ANALYZER = AWSGPUMigrationAnalyzer(true_today=False)


def torn(text: str, dice: random.Random) -> str:
    """The text with characters dropped, doubled, moved or put in."""
    for _ in range(dice.randint(1, 2)):
        start = dice.randrange(len(text) + 1)
        stop = min(len(text), start + dice.choice((0, 0, 1, 1, 5, 200)))
        put_in = dice.choice((*NASTY, "", text[start:stop] * 2))
        text = text[:start] + put_in + text[stop:]
    return text


def twisted(text: str, dice: random.Random) -> str:
    """Valid JSON whose values, keys or rows are not what they should be."""
    data = json.loads(text)
    for _ in range(dice.randint(1, 2)):
        node = data
        while isinstance(node, dict) and node:
            key = dice.choice(list(node))
            if not isinstance(node[key], dict) or dice.random() < 0.2:
                change(node, key, dice)
                break
            node = node[key]
    return json.dumps(data)


def change(node: dict[str, object], key: str, dice: random.Random) -> None:
    if dice.random() < 0.2:
        del node[key]
    elif dice.random() < 0.2:
        node[key[:-1] or "x"] = node.pop(key)
    else:
        node[key] = dice.choice(VALUES)


def outcome(name: str, text: str) -> str:
    """What comes of a file laid over the shipped ones: a report, or the message."""
    try:
        mutated = fragment_of(text, name)
        others: list[Fragment] = [part for other, part in FRAGMENTS.items() if other != name]
        config = config_of([*others, mutated], Path("folder"))
        ANALYZER.config = config
        for workload in list(config.workloads)[:1]:
            assert max(map(len, ANALYZER.report_of(workload).splitlines())) <= 80
        return "works"
    except GpufleetError as error:
        return str(error)


@given(st.sampled_from(list(FILES)), st.sampled_from((torn, twisted)), st.integers(0, 2**63))
@settings(max_examples=cases(2000, 20_000), deadline=None, suppress_health_check=list(HealthCheck), database=None)
def test_a_mutated_file_works_or_gives_one_clear_message(name: str, mutate: Mutation, seed: int) -> None:
    said = outcome(name, mutate(SHIPPED[name], random.Random(seed)))
    assert said == "works" or 20 < len(said) < 2000


def test_the_mutations_reach_both_ends() -> None:
    dice = random.Random(7)
    said = [
        outcome(name, mutate(SHIPPED[name], dice)) for name in FILES for mutate in (torn, twisted) for _ in range(40)
    ]
    assert 20 < said.count("works") < 220
    assert len({text.split(":", 3)[-1][:40] for text in said}) > 30


@pytest.mark.parametrize("content", [b"\xff\xfe", b"\x00" * 10, b"", b"{}", b"\xef\xbb\xbf{}", b"null", b"[" * 10_000])
def test_bytes_that_are_no_config_are_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "gpu_instances.json").write_bytes(content)
    if content.endswith(b"{}"):
        assert len(AWSGPUMigrationAnalyzer(tmp_path).config.instances) == 9
    else:
        with pytest.raises(GpufleetError, match=r"gpu_instances\.json"):
            AWSGPUMigrationAnalyzer(tmp_path)


def test_a_folder_and_a_huge_file_in_place_of_a_config_are_told(tmp_path: Path) -> None:
    (tmp_path / "workloads.json").mkdir()
    with pytest.raises(GpufleetError, match="not a file"):
        AWSGPUMigrationAnalyzer(tmp_path)
    (tmp_path / "workloads.json").rmdir()
    (tmp_path / "workloads.json").write_text(" " * 1_100_000, encoding="utf-8")
    with pytest.raises(GpufleetError, match="too large"):
        read_fragment(tmp_path / "workloads.json")


@pytest.mark.parametrize("number", [1e-300, -1e-300, 1e300])
@pytest.mark.parametrize("field", ["interconnect_bandwidth_gbps", "compute_tflops", "on_demand_cost_per_hour"])
def test_a_number_that_nobody_means_is_refused_with_its_place(field: str, number: float) -> None:
    content = json.loads(SHIPPED["gpu_instances.json"])
    content["gpu_instances"]["P5"][field] = number
    with pytest.raises(GpufleetError, match=f"{field}.*a number above"):
        config_of([fragment_of(json.dumps(content), "gpu_instances.json")], Path("folder"))
