"""Workload files, friendly and hostile."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gpufleet.errors import UsageError
from gpufleet.inputs.workload import parse_workload, read_workload

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("path", sorted((REPOSITORY / "examples").glob("*.yaml")), ids=lambda p: p.name)
def test_shipped_examples_can_be_read(path: Path) -> None:
    written = read_workload(path)
    assert written.model or all(model.model for model in written.models or ())


def test_values_stay_as_typed() -> None:
    workload = parse_workload("model: no\nrate: 50/s\nin: 1_000\nout: 1:30\nheadroom: 20%\nmin_replicas: 2")
    asked = {"model": "no", "in": "1_000", "out": "1:30"}
    assert workload.words == {**asked, "rate": "50/s", "headroom": "20%", "min_replicas": "2"}


def test_a_list_may_be_yaml_or_words_with_commas() -> None:
    as_list, as_text = (parse_workload(text).words["clouds"] for text in ("clouds: [aws, gcp]", "clouds: aws, gcp"))
    assert as_list == as_text == ("aws", "gcp")


def test_an_slo_may_be_a_list_of_limits() -> None:
    assert parse_workload("slo: [ttft<500ms, tpot<40ms]").text("slo") == "ttft<500ms,tpot<40ms"


def test_what_a_file_does_not_say_is_unknown() -> None:
    assert parse_workload("rate: 50/s").model is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "found 'no key and value'; expected lines of 'key: value'"),
        ("# cut off after its first line", "found 'no key and value'; expected lines of 'key: value'"),
        ("just words", "found 'bare words'; expected lines of 'key: value'"),
        ("- model: x", "found 'a list'; expected lines of 'key: value'"),
        ("modle: x", "Did you mean modules or model or models?"),
        ("model: x\nmodel: y", "gives 'model' twice, line 2"),
        ("model: [a, b]", "several values"),
        ("clouds: {aws: yes}", "several values"),
        ("rate:", "'rate' has no value"),
        ("clouds: [aws, '']", "'clouds' has no value"),
        ("model: x: y", "line 1"),
        ("model: 'x", "not whole; found 'the end within a quote, a list or a mapping, line 1'"),
        ('{"model": "x", "tok', "Was the file cut off?"),
        ('{"model": "x", "tokens"', "Was the file cut off?"),
        ('{"model": "x",', "Was the file cut off?"),
        ("model: x\ngpus: [H100", "not whole; found 'the end within a quote, a list or a mapping, line 2'"),
        ("model: x\nseq", "could not find expected ':', line 2"),
        ("model: \x07", "not YAML"),
        ("model: x\n---\nmodel: y", "another document"),
        ("? [a]\n: b", "not a word"),
        ("model: &m x\nengine: *m", "anchors"),
        ("a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]", "anchors"),
        ("model: !!python/object/apply:os.system [echo]", "tags"),
        ("model: " + "[" * 100_000, "nested deeper"),
        ("clouds: [" + "aws," * 100_000 + "]", "more than"),
    ],
)
def test_a_hostile_or_mistyped_file_is_refused_at_once(text: str, told: str) -> None:
    start = time.process_time()
    with pytest.raises(UsageError) as caught:
        parse_workload(text)
    assert told in str(caught.value)
    assert len(str(caught.value)) < 800
    assert time.process_time() - start < 3


@pytest.mark.parametrize("name", ["missing.yaml", "", "a\0b", "x" * 5000])
def test_no_file_of_that_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="workload file"):
        read_workload(f"{tmp_path}/{name}")


def test_a_file_over_a_megabyte_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    path.write_bytes(b"#" * 1_000_001)
    with pytest.raises(UsageError, match="at most 1 MB"):
        read_workload(path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="not a file"):
        read_workload(tmp_path / "pipe")


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"model: \xff\xfe")
    with pytest.raises(UsageError, match="UTF-8"):
        read_workload(path)


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    path = tmp_path / "windows.yaml"
    path.write_bytes(b"\xef\xbb\xbfmodel: x\r\nrate: 1/s\r\n")
    assert read_workload(path).model == "x"
