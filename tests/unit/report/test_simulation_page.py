"""What users see of a replay: a screen, a picture, files, and the doubts before the figures."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.simulate.answers import simulated
from tests.unit.simulate.queues import markov_replay, queue_replay

from gpufleet.cli.options import OutputFormat
from gpufleet.cli.simulate import page_of
from gpufleet.domain.replay import TIMED_OUT, UNFINISHED, Replay
from gpufleet.inputs.slo import parse_slo
from gpufleet.report.axes import LinearAxis, round_steps, time_ticks
from gpufleet.report.formats import as_json, page_as_csv, page_as_markdown
from gpufleet.report.html import page_as_html
from gpufleet.report.request_rows import HEADER, request_rows
from gpufleet.report.simulation import simulation_drawing, simulation_page
from gpufleet.report.simulation_svg import NARROW, WIDE, simulation_svg
from gpufleet.report.sparkline import BLOCKS, course
from gpufleet.report.text import page_as_text
from gpufleet.results.simulation import Simulation

SLO = "ttft.p95<12s,latency.p95<15s"
HIGHEST, WIDEST = 50, 80


@pytest.fixture(scope="module")
def steady() -> Simulation:
    return simulated(markov_replay(0.8, 20_000, 1), parse_slo(SLO))


@pytest.fixture(scope="module")
def overloaded() -> Simulation:
    return simulated(markov_replay(1.3, 5_000, 1), parse_slo(SLO), load="Poisson, 1.3/s")


def stopped_replay() -> Replay:
    """Half of the requests had not come when it was stopped."""
    replay = markov_replay(0.5, 1000, 1)
    end_s = float(replay.requests.arrival_s[500])
    is_open = replay.finish_s > end_s
    nan = np.where(is_open, np.nan, 0.0)
    times = {"first_token_s": replay.first_token_s + nan, "finish_s": replay.finish_s + nan}
    return replace(replay, fate=np.where(is_open, UNFINISHED, replay.fate), end_s=end_s, is_partial=True, **times)


def text_of(result: Simulation, width: int = WIDEST) -> str:
    return page_as_text(simulation_page(result), width)


def spoken(result: Simulation) -> str:
    return " ".join(text_of(result).split())


def test_an_answer_fits_one_screen(steady: Simulation, overloaded: Simulation) -> None:
    for result in (steady, overloaded):
        lines = text_of(result).splitlines()
        assert len(lines) <= HIGHEST
        assert max(map(len, lines)) <= WIDEST


@pytest.mark.parametrize("width", [40, 60, 120, 200])
def test_an_answer_keeps_to_its_width(width: int, steady: Simulation) -> None:
    assert max(map(len, text_of(steady, width).splitlines())) <= width


def test_the_headline_says_what_was_replayed_on_what(steady: Simulation) -> None:
    first = spoken(steady)[:200]
    assert first.startswith("llama-3.1-8b in bf16 on 1 replica of 1x H100 (TP1) with vllm, Poisson, 0.8/s: TTFT p95 ")
    assert "latency p95" in first


def test_that_a_queue_grows_is_said_before_anything_else(steady: Simulation, overloaded: Simulation) -> None:
    assert re.match(r"Unstable: the queue grows by 0\.3\d requests/s\. ", spoken(overloaded))
    assert "Warning: from half-way on the queue grew by 0.3" in spoken(overloaded)
    assert "Unstable" not in spoken(steady)
    assert {figure.low for figure in overloaded.latency.values()} == {None}
    assert "it does not grow" in spoken(steady)


def test_that_a_replay_was_stopped_is_said_first() -> None:
    words = spoken(simulated(stopped_replay(), parse_slo(SLO)))
    assert words.startswith("Stopped before its end. ")
    assert "when 501 of 1,000 requests had come." in words


def test_objectives_say_whether_they_are_kept_and_how_surely(steady: Simulation) -> None:
    rows = {line.split()[0]: line for line in text_of(steady).splitlines() if "p95 <" in line}
    assert rows["ttft.p95"].endswith("broken")
    assert rows["latency.p95"].endswith("kept, not surely")


def test_the_cost_and_the_closed_form_stand_beside_the_replay(steady: Simulation) -> None:
    words = spoken(steady)
    assert "Cost: $2.50/h, $78" in words
    assert "aws price list, 2026-10-01" in words
    assert "closed form (estimate)" in words
    assert steady.cost is not None
    each = steady.cost.usd_per_hour / (steady.output_tokens_per_s * 3600) * 1e6
    assert steady.cost.usd_per_million_output_tokens == pytest.approx(each)


def test_what_became_of_requests_is_counted() -> None:
    replay = markov_replay(0.5, 1000, 1)
    fate = replay.fate.copy()
    fate[:30] = TIMED_OUT
    nan = np.where(np.arange(1000) < 30, np.nan, 0.0)
    lost = replace(replay, fate=fate, first_token_s=replay.first_token_s + nan, finish_s=replay.finish_s + nan)
    assert "Ended: 970 answered, 30 timed out." in spoken(simulated(lost, whole=True))


def test_a_replay_of_nothing_is_a_page_too() -> None:
    nothing = simulated(queue_replay(np.array([]), np.array([])), parse_slo(SLO))
    words = spoken(nothing)
    assert "no request was answered" in words
    assert "Ended: no request came." in words
    assert simulation_drawing(nothing) == ""
    for chosen in OutputFormat:
        page = page_of(nothing, chosen, explain=True)
        assert all((page_as_html(page), page_as_csv(page), page_as_markdown(page)))
    assert Simulation.model_validate_json(as_json(nothing)).num_requests == 0


def test_classes_stand_below_all_of_them() -> None:
    kinds = np.arange(2000) % 2
    replay = queue_replay(
        np.arange(2000.0), np.where(kinds, 0.9, 0.1), request_class=kinds, class_names=("chat", "=bad")
    )
    lines = text_of(simulated(replay, whole=True)).splitlines()
    assert [line.split()[0] for line in lines if " TTFT " in line and "p95" not in line][:3] == ["all", "chat", "=bad"]
    assert "'=bad" in page_as_csv(page_of(simulated(replay), OutputFormat.CSV, explain=False))


def test_a_result_is_read_back_as_it_was_written(steady: Simulation, overloaded: Simulation) -> None:
    for result in (steady, overloaded):
        assert Simulation.model_validate_json(as_json(result)) == result
    assert len(steady.timeline.time_s) <= 240
    assert all(len(d.seconds) == len(d.shares) <= 100 for d in steady.distributions)
    assert len(as_json(steady)) < 100_000


def test_a_csv_has_every_figure_with_its_range(steady: Simulation) -> None:
    rows = list(csv.DictReader(io.StringIO(page_as_csv(page_of(steady, OutputFormat.CSV, explain=False)))))
    by_name = {row["figure"]: row for row in rows}
    assert float(by_name["ttft.p95"]["low"]) < float(by_name["ttft.p95"]["value"]) < float(by_name["ttft.p95"]["high"])
    assert by_name["goodput"]["unit"] == "requests/s"
    assert float(by_name["answered"]["value"]) == 20_000


def test_pictures_are_sound_and_named_without_colour(steady: Simulation) -> None:
    for canvas in (WIDE, NARROW):
        drawn = simulation_svg(steady, "A <title> & more", canvas)
        root = ElementTree.fromstring(drawn)
        assert root.attrib["width"] == str(canvas.width)
        words = "".join(root.itertext())
        assert all(name in words for name in ("running", "waiting", "KV cache in use", "TTFT", "TPOT", "latency"))
        assert "stroke-dasharray" in drawn


def test_html_shows_the_picture_and_text_the_characters(steady: Simulation) -> None:
    html = page_as_html(page_of(steady, OutputFormat.HTML, explain=False))
    assert 'class="replay"' in html
    assert not set(html) & set(BLOCKS)
    assert set(text_of(steady)) & set(BLOCKS)


def test_rows_of_requests_are_what_was_replayed() -> None:
    replay = stopped_replay()
    pieces = list(request_rows(replay, rows_of_a_piece=300))
    rows = list(csv.DictReader(io.StringIO("".join(pieces))))
    assert len(pieces) == 5
    assert tuple(rows[0]) == HEADER
    assert np.array_equal([float(row["arrival_s"]) for row in rows], replay.requests.arrival_s)
    times = {"ttft_s": replay.ttft_s, "tpot_s": replay.tpot_s, "latency_s": replay.latency_s}
    for name, column in times.items():
        read = [float(row[name]) if row[name] else np.nan for row in rows]
        assert np.array_equal(read, column, equal_nan=True)
    assert {row["fate"] for row in rows} == {"answered", "unfinished"}
    assert {row["cached_tokens"] for row in rows} == {"25"}


@given(st.floats(1e-6, 1e9), st.integers(2, 10))
def test_ticks_are_on_their_axis_and_no_more_than_asked(high: float, most: int) -> None:
    ticks = round_steps(high, most)
    assert 1 <= len(ticks) <= most + 1
    assert all(0 <= LinearAxis(high).position(tick) <= 1 for tick in ticks)
    moments, show = time_ticks(high, most)
    assert len({show(tick) for tick in moments}) == len(moments) <= most + 1


@given(st.lists(st.floats(0, 1e9), max_size=300), st.integers(1, 60))
@settings(max_examples=100)
def test_a_line_of_blocks_keeps_to_its_width_and_shows_the_peak(values: list[float], width: int) -> None:
    line = course(values, width)
    assert len(line) <= width
    assert not any(values) or BLOCKS[-1] in line
