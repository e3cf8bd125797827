"""A plan file is believed where it agrees with itself: an edited one is refused, or planned again from its question."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpufleet
from gpufleet.api.comparisons import compare_plans
from gpufleet.api.plan_changes import explain_plan
from gpufleet.api.plan_files import PLANNED_AGAIN, notes_on_file, plan_in
from gpufleet.catalog.load import load_catalog
from gpufleet.errors import UsageError
from gpufleet.inputs.plan_file import WITHOUT_SEAL, read_plan
from gpufleet.provenance import SUPPOSED
from gpufleet.results.plan import ServePlan
from gpufleet.results.seal import SEAL, seal_of, unlike_its_seal

Ask = Callable[..., Any]
CURVE = "t_s,rate_rps\n" + "".join(f"{3600 * hour},5\n" for hour in range(24))
VERBS = (
    ("explain", "plan.json", "--check"),
    ("autoscale", "plan.json", "--trace", "rates.csv", "--policy", "static", "--documented", "--cold-start", "300s"),
    ("spot", "plan.json", "--draws", "20", "--restart", "5min"),
    ("simulate", "plan.json", "--requests", "100"),
    ("compare", "plan.json", "plan.json"),
)


@pytest.fixture(scope="module")
def written() -> str:
    plan = gpufleet.plan_serve(
        "llama-3.1-8b", rate="6/s", input_tokens=1000, output_tokens=200, slo="ttft.p95<2s", gpus="A10G", clouds="aws"
    )
    return plan.to_json()


def answer(plan: dict[str, Any]) -> dict[str, Any]:
    return plan["deployments"][0]


def swapped_model(plan: dict[str, Any]) -> None:
    plan["model"] = "qwen3-8b"


def swapped_gpu(plan: dict[str, Any]) -> None:
    answer(plan)["gpu"] = "H100-SXM"


def other_rate(plan: dict[str, Any]) -> None:
    plan["rate_requests_per_s"] *= 10


def negative_price(plan: dict[str, Any]) -> None:
    answer(plan)["price_per_instance_usd_per_hour"] = -5.0


def cheaper(plan: dict[str, Any]) -> None:
    for name in ("price_per_instance_usd_per_hour", "usd_per_hour"):
        answer(plan)[name] /= 20


def no_replicas(plan: dict[str, Any]) -> None:
    answer(plan)["replicas"] = 0


def no_machines(plan: dict[str, Any]) -> None:
    answer(plan)["instance_count"] = 0


EDITS = (swapped_model, swapped_gpu, other_rate, negative_price, cheaper, no_replicas, no_machines)


def edited(text: str, edit: Callable[[dict[str, Any]], None], *, sealed: bool = True) -> str:
    plan = json.loads(text)
    edit(plan)
    if not sealed:
        plan.pop(SEAL)
    return json.dumps(plan)


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_plan_is_refused_whether_or_not_it_has_a_seal(
    written: str, edit: Callable[[dict[str, Any]], None], sealed: bool, tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    path.write_text(edited(written, edit, sealed=sealed))
    with pytest.raises(UsageError, match="was edited" if sealed else "contradicts itself"):
        plan_in(path, load_catalog())


@pytest.mark.parametrize("words", VERBS, ids=lambda words: words[0])
def test_every_verb_refuses_it_and_plans_its_question_again_when_asked(
    ask_gpufleet: Ask, written: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "plan.json").write_text(edited(written, negative_price))
    (tmp_path / "rates.csv").write_text(CURVE)
    refused = ask_gpufleet(*words)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "deployments" in refused.stderr
    again = ask_gpufleet(*words, "--edited")
    assert again.returncode in (0, 3)
    assert PLANNED_AGAIN in " ".join(again.stdout.split())
    assert "-$" not in again.stdout


def test_an_edited_question_is_asked_as_it_stands(written: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"

    def busier(plan: dict[str, Any]) -> None:
        plan["basis"]["question"]["rate"] = 60.0

    path.write_text(edited(written, busier))
    again = plan_in(path, load_catalog(), edited=True)
    assert again.rate_requests_per_s == 60.0  # type: ignore[union-attr]
    assert again.deployments  # type: ignore[union-attr]


def test_a_file_without_a_seal_is_read_and_its_page_says_so(written: str, tmp_path: Path) -> None:
    path, other = tmp_path / "old.json", tmp_path / "new.json"
    path.write_text(edited(written, lambda _: None, sealed=False))
    other.write_text(written)
    changes = explain_plan(path)
    assert any(WITHOUT_SEAL in note for note in changes.notes)
    assert changes.is_reproduced  # type: ignore[union-attr]
    compared = compare_plans(path, other)
    assert [any(WITHOUT_SEAL in note for note in side.notes) for side in (compared.first, compared.second)] == [
        True,
        False,
    ]  # type: ignore[union-attr]


def test_other_programs_may_lay_the_file_out_anew(written: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    content = json.loads(written, parse_float=lambda text: float(text) if float(text) % 1 else int(float(text)))
    path.write_text(json.dumps(dict(sorted(content.items())), indent=7, ensure_ascii=True))
    assert read_plan(path).notes == read_plan_of(written, tmp_path).notes


def read_plan_of(text: str, folder: Path) -> Any:
    (folder / "as-written.json").write_text(text)
    return read_plan(folder / "as-written.json")


JSON_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**60), 2**60), st.floats(allow_nan=False), st.text(max_size=9)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=8,
)


@settings(max_examples=100)
@given(st.dictionaries(st.text(min_size=1, max_size=5), JSON_VALUES, min_size=1, max_size=4))
def test_a_seal_survives_json_and_nothing_else(content: dict[str, Any]) -> None:
    content.pop(SEAL, None)
    sealed = json.loads(json.dumps({**content, SEAL: seal_of(content)}))
    assert unlike_its_seal(sealed) == []
    for name in content:
        assert unlike_its_seal({**sealed, name: [content[name]]}) == [name]


def test_an_edited_plan_of_a_job_is_refused(ask_gpufleet: Ask, tmp_path: Path) -> None:
    job = gpufleet.plan_batch(
        "llama-3.1-8b", requests="100k", input_tokens=1000, output_tokens=200, deadline="24h", gpus="L40S", clouds="aws"
    )
    content = json.loads(job.model_dump_json())
    (tmp_path / "job.json").write_text(json.dumps(content))
    assert ask_gpufleet("regions", "job.json").returncode == 0
    content["deployments"][0]["price_per_instance_usd_per_hour"] = 0.08
    (tmp_path / "job.json").write_text(json.dumps(content))
    for verb in ("regions", "spot"):
        done = ask_gpufleet(verb, "job.json")
        assert (done.returncode, done.stdout) == (2, "")
        assert "was edited: deployments" in done.stderr


def test_what_a_plan_supposes_of_its_model_is_said_wherever_it_is_read(written: str) -> None:
    plan = ServePlan.model_validate_json(written)
    supposed = f"{SUPPOSED}acme/x is planned as y"
    assert notes_on_file(plan.model_copy(update={"notes": [supposed, "a remark"]})) == [supposed]
