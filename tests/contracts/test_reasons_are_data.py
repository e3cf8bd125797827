"""Pages are made from codes and figures: whatever the sentences say, rows, order, figures and exit codes stay."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.conftest import REPOSITORY, Planned

from gpufleet.cli import main
from gpufleet.domain.reason import Reason
from gpufleet.report import words

RATE = "--rate 5/s --in 1000 --out 200"
TIGHT, IMPOSSIBLE = f"{RATE} --slo tpot.p95<50ms", f"{RATE} --slo ttft.p95<1ms"
FEW = "--clouds aws,gcp --gpus L4,L40S,H100"
MODELS = ("llama-3.1-8b", "llama-3.3-70b", "qwen3-30b-a3b", "deepseek-v3", "gemma-2-9b")
QUESTIONS = [
    f"plan serve {MODELS[0]} {TIGHT}",
    *(f"plan serve {model} {TIGHT} {FEW}" for model in MODELS[1:]),
    f"plan serve {MODELS[0]} {IMPOSSIBLE}",
    *(f"plan serve {model} {IMPOSSIBLE} {FEW}" for model in MODELS[1:]),
    f"plan serve {MODELS[0]} {RATE} --why-not L40S:4",
    *(f"plan serve {model} {RATE} --why-not L40S:4 {FEW}" for model in MODELS[1:]),
    *(f"plan serve {model} {RATE} --budget 1/h {FEW}" for model in MODELS[:3]),
    *(f"plan serve {model} {TIGHT} --gpus L4,T4 --max-spot 0.2 --pricing spot,on_demand" for model in MODELS[:2]),
    *(f"plan batch {model} --requests 50000 --in 1000 --out 200 --deadline 0.3h {FEW}" for model in MODELS[:3]),
    f"plan batch {MODELS[0]} --requests 5000 --in 1000 --out 200 --deadline 12h --budget 1 {FEW}",
    f"plan batch {MODELS[0]} --requests 5000 --in 1000 --out 200 --deadline 12h --gpus L4 --max-machines 1",
    f"plan serve {MODELS[0]} {RATE} --today '2 g4dn.xlarge'",
    f"compare L4:1 H100:1 --model {MODELS[1]} {RATE}",
    "plan serve bert-base-uncased --rate 100/s --in 128 --slo latency.p95<1ms",
    "plan batch bert-base-uncased --requests 1e9 --in 128 --deadline 1h",
    *(f"fit {model} --gpus L4:3 --context 8k" for model in MODELS[:3]),
]
WORDED = {"reason", "best", "detail", "code", "figures", "missed_by", "refusal", "input_hash", "seal"}


def code_alone(reason: Reason) -> str:
    """What a sentence is replaced by."""
    return f"<{reason.code}>"


def figures_in(found: Any) -> Iterator[Any]:
    """Every value of a JSON result in order, words of reasons left out."""
    if isinstance(found, dict):
        for name, value in found.items():
            yield name
            if name not in WORDED:
                yield from figures_in(value)
    elif isinstance(found, list):
        for value in found:
            yield from figures_in(value)
    else:
        yield found


def asked(question: str, form: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code and what is printed."""
    code = main([*(word.strip("'") for word in re.findall(r"'[^']*'|\S+", question)), "-o", form])
    return code, capsys.readouterr().out


def codes_in(found: Any) -> list[str]:
    """Codes of rejections in their order."""
    if isinstance(found, dict):
        own = [found["code"]] if "code" in found and "reason" in found else []
        return own + [code for value in found.values() for code in codes_in(value)]
    return [code for value in found for code in codes_in(value)] if isinstance(found, list) else []


def test_there_are_thirty_questions_and_more() -> None:
    assert len(set(QUESTIONS)) >= 30


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_is_the_same_without_its_sentences(
    question: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, planned_once: Planned
) -> None:
    said_code, said = asked(question, "json", capsys)
    _, page = asked(question, "table", capsys)
    for module in list(sys.modules.values()):
        if getattr(module, "sentence", None) is words.sentence and module is not words:
            monkeypatch.setattr(module, "sentence", code_alone)
    monkeypatch.setattr(words, "sentence", code_alone)
    planned_once.clear()
    bare_code, bare = asked(question, "json", capsys)
    bare_page_code, bare_page = asked(question, "table", capsys)
    assert said_code == bare_code == bare_page_code
    assert said_code in (0, 3)
    assert list(figures_in(json.loads(said))) == list(figures_in(json.loads(bare)))
    assert codes_in(json.loads(said)) == codes_in(json.loads(bare))
    codes = codes_in(json.loads(said))
    assert not codes or f"<{codes[0]}>" in "".join(bare_page.split()) + bare
    assert page.splitlines()[0].split(":")[0] == bare_page.splitlines()[0].split(":")[0]


def test_the_row_that_the_page_on_json_shows_is_one_of_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    page = (REPOSITORY / "docs" / "json.md").read_text(encoding="utf-8")
    [shown] = re.findall(r"```json\n(.*?)\n```", page, re.DOTALL)
    _, said = asked(f"plan serve {MODELS[0]} {IMPOSSIBLE}", "json", capsys)
    row = json.loads(shown)
    assert row in [{key: found[key] for key in row} for found in json.loads(said)["rejections"]]
