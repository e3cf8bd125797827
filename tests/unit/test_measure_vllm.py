"""`tools.measure_vllm` with an engine that answers at once: what it sends, what its files say, who reads them."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tools.measure_vllm import Answer, Clock, Load, answer, measure, milliseconds, parser, setup_of

from gpufleet.inputs.measurements import read_measurements

VOCABULARY = 1000


class Echo:
    """Answers every request with as many tokens as it is asked for, and counts who waits at once."""

    def __init__(self, lost_tokens: int = 0) -> None:
        self.lost_tokens, self.waiting, self.most_waiting, self.prompts = lost_tokens, 0, 0, list[list[int]]()

    async def stream(self, prompt: list[int], num_tokens: int) -> AsyncIterator[int]:
        self.prompts.append(prompt)
        self.waiting += 1
        self.most_waiting = max(self.most_waiting, self.waiting)
        for _ in range(num_tokens - self.lost_tokens):
            await asyncio.sleep(0)
            yield 1
        self.waiting -= 1


def test_clients_of_a_closed_loop_wait_for_their_answers() -> None:
    engine = Echo()
    answers = asyncio.run(Load(engine, VOCABULARY).closed(4, 3, 16, 5))
    assert (len(answers), engine.most_waiting) == (12, 4)
    assert {(a.input_tokens, a.output_tokens) for a in answers} == {(16, 5)}


def test_no_prompt_begins_like_another() -> None:
    engine = Echo()
    asyncio.run(Load(engine, VOCABULARY).closed(2, 10, 16, 1))
    assert len({tuple(prompt) for prompt in engine.prompts}) == 20


def test_an_answer_with_tokens_missing_is_no_measurement() -> None:
    with pytest.raises(RuntimeError, match="received 4"):
        asyncio.run(answer(Echo(lost_tokens=1), [1, 2], 5, Clock()))


def test_time_per_output_token_leaves_the_first_out() -> None:
    found = milliseconds([Answer(0.0, 10, 11, 0.5, 1.5), Answer(0.0, 10, 1, 0.5, 0.5)])
    assert (found["ttft_mean_ms"], found["tpot_mean_ms"], found["e2e_mean_ms"]) == (500.0, 100.0, 1000.0)


def test_its_files_are_measurements(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"vocab_size": VOCABULARY}), encoding="utf-8")
    words = [str(tmp_path), str(tmp_path / "out"), "--model-id", "qwen3-0.6b", "--gpu-id", "H100-SXM", "--seconds", "0"]
    asked = parser().parse_args([*words, "--lengths", "16x4", "--clients", "1", "2", "--loads", "0.5"])
    asyncio.run(measure(Echo(), asked, setup_of(asked, "0.25.1")))
    files = [read_measurements(tmp_path / "out" / f"{name}.csv") for name in ("serving_points", "serving_under_load")]
    assert [file.kind for file in files] == ["serving_points", "serving_under_load"]
    assert [len(file.rows) for file in files] == [2, 1]
    assert (tmp_path / "out" / "request_traces" / files[1].rows[0].text("trace")).is_file()
