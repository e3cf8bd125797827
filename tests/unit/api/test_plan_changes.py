"""A plan of some day, planned again after prices or the model changed: the difference is explained."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest
from tests.properties.random_questions import KINDS, question_at

from gpufleet.api import RequestKind, ServeRequest, explain_plan, plan_serve
from gpufleet.api.answers import ServeAnswer
from gpufleet.api.plan_basis import request_of
from gpufleet.api.plan_changes import recorded
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.domain.offer import Offer
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.errors import UsageError
from gpufleet.report.formats import as_json
from gpufleet.report.plan_changes import changes_page, headline, why
from gpufleet.report.text import page_as_text
from gpufleet.results.plan import ServePlan
from gpufleet.results.plan_changes import PlanChanges

CHAT = ServeRequest("llama-3.1-8b", 5.0, 1000, 200, "tpot.p95<60ms", gpus=["L40S", "H100", "L4", "A10G"])


@lru_cache(maxsize=1)
def written() -> ServeAnswer:
    return plan_serve(CHAT)


def priced(ratios: dict[tuple[str, str], float | None]) -> Catalog:
    """Today's tables where some machine types cost so many times as much; None: no price any more."""
    catalog = load_catalog()

    def moved(offer: Offer) -> Offer | None:
        ratio = ratios.get((offer.cloud, offer.instance), 1.0)
        usd = offer.price_per_instance_usd_per_hour
        return None if ratio is None else replace(offer, price_per_instance_usd_per_hour=usd * ratio)

    return replace(catalog, offers=tuple(o for o in map(moved, catalog.offers) if o is not None))


def answer_and_runner_up() -> tuple[tuple[str, str], tuple[str, str]]:
    first, second = written().deployments[:2]
    return (first.cloud, first.instance), (second.cloud, second.instance)


def changes(ratios: dict[tuple[str, str], float | None]) -> PlanChanges:
    return explain_plan(written(), priced(ratios))


def test_a_plan_is_reproduced_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(written().to_json(), encoding="utf-8")
    found = explain_plan(file)
    assert found.is_reproduced
    assert found.was_hash == found.now_hash == written().input_hash
    assert (found.price_changes, found.digest_changes) == ([], [])
    assert why(found) == "Nothing changed since."


@pytest.mark.slow
@pytest.mark.parametrize("index", range(len(KINDS)), ids=KINDS)
def test_a_plan_of_any_kind_is_reproduced_at_its_own_prices(index: int) -> None:
    """Quotas, budgets, what stands beside spot, quiet hours: what the file records is enough to answer again."""
    question = question_at(index)
    plan = plan_serve(question.request, question.tables)
    found = explain_plan(plan, question.tables)
    assert found.is_reproduced
    assert not found.model_changed_it
    assert not found.prices_changed_it
    assert found.price_changes == []


def test_a_dearer_answer_loses_and_its_price_is_named() -> None:
    answer, runner_up = answer_and_runner_up()
    found = changes({answer: 10.0})
    assert found.was is not None
    assert found.now is not None
    assert (found.was.cloud, found.was.instance) == answer
    assert (found.now.cloud, found.now.instance) == runner_up
    assert not found.model_changed_it
    assert found.prices_changed_it
    [change] = found.price_changes
    assert change.is_decisive
    assert change.now_usd_per_hour == pytest.approx(10 * (change.was_usd_per_hour or 0))
    assert f"{answer[0]} {answer[1].removeprefix('Standard_')} rose 900%" in why(found)
    assert "This alone changes the choice" in why(found)


def test_a_cheaper_rival_wins_and_its_price_is_named_though_others_moved_more() -> None:
    _, runner_up = answer_and_runner_up()
    ratio = 0.5 * written().answer.usd_per_hour / written().deployments[1].usd_per_hour
    others = {(d.cloud, d.instance): 3.0 for d in written().deployments[2:5]}
    found = changes({**others, runner_up: ratio})
    assert found.now is not None
    assert (found.now.cloud, found.now.instance) == runner_up
    assert [(c.cloud, c.instance) for c in found.price_changes if c.is_decisive] == [runner_up]
    assert len(found.price_changes) == 1 + len(others)


def test_a_price_that_vanished_is_said_to_have() -> None:
    answer, _ = answer_and_runner_up()
    found = changes({answer: None})
    assert [c.now_usd_per_hour for c in found.price_changes] == [None]
    assert "no longer has a price, was $" in why(found)


def test_a_machine_that_was_not_on_sale_is_new() -> None:
    """The plan was written when the answer of today had no price."""
    answer, _ = answer_and_runner_up()
    found = explain_plan(plan_serve(CHAT, priced({answer: None})))
    assert found.now is not None
    assert (found.now.cloud, found.now.instance) == answer
    assert "is new at" in why(found)


def test_prices_that_do_not_matter_are_listed_and_said_not_to() -> None:
    last = written().deployments[-1]
    found = changes({(last.cloud, last.instance): 1.1})
    assert len(found.price_changes) == 1
    assert headline(found).startswith("The answer for llama-3.1-8b stands")
    assert why(found) == "The changes (prices) make no difference."


def test_the_same_machines_at_another_price_are_no_other_choice() -> None:
    answer, _ = answer_and_runner_up()
    found = changes({answer: 1.01})
    assert "The choice stays, its price changed" in why(found)
    assert "rose 1.0%" in why(found)


def test_two_prices_that_only_flip_together_are_not_called_decisive() -> None:
    """The answer dearer than the third, the second dearer too: neither alone lets the third win."""
    first, second, third = written().deployments[:3]
    up = 1.01 * third.counted_usd_per_hour
    ratios = {(d.cloud, d.instance): up / (d.counted_usd_per_hour) for d in (first, second)}
    found = changes(dict(ratios))
    assert found.now is not None
    assert (found.now.cloud, found.now.instance) == (third.cloud, third.instance)
    assert not any(c.is_decisive for c in found.price_changes)
    assert "no single one gives today's choice" in why(found)


@pytest.mark.slow
def test_a_better_gpu_in_the_tables_is_the_models_doing_not_the_prices() -> None:
    """Another GPU of the answer's machines: its figures changed, its price did not."""
    answer = written().answer
    catalog = load_catalog()
    gpu = catalog.accelerators[answer.gpu]
    slower = replace(gpu, bandwidth_bytes_per_s=gpu.bandwidth_bytes_per_s / 20)
    found = explain_plan(written(), replace(catalog, accelerators={**catalog.accelerators, gpu.name: slower}))
    assert found.model_changed_it
    assert not found.price_changes
    assert f"{answer.cloud} {answer.instance}" in {c.what for c in found.digest_changes}
    assert "today's model" in why(found)


def test_both_causes_are_told_apart() -> None:
    """A GPU slower in the tables loses the answer; a rival cheaper than all gets it from there."""
    answer = written().answer
    rival = next(d for d in written().deployments if d.gpu != answer.gpu)
    catalog = priced({(rival.cloud, rival.instance): 0.01})
    gpu = catalog.accelerators[answer.gpu]
    slower = replace(gpu, bandwidth_bytes_per_s=gpu.bandwidth_bytes_per_s / 20)
    found = explain_plan(written(), replace(catalog, accelerators={**catalog.accelerators, gpu.name: slower}))
    assert found.model_changed_it
    assert found.prices_changed_it
    assert found.now is not None
    assert (found.now.cloud, found.now.instance) == (rival.cloud, rival.instance)
    assert max(map(len, page_as_text(changes_page(found), 80).splitlines())) <= 80


def test_a_price_file_of_another_day_is_explained(tmp_path: Path) -> None:
    """As users do it: the plan in a file, then an overlay with a newer price of the answer's machines."""
    answer = written().answer
    file = tmp_path / "plan.json"
    file.write_text(written().to_json(), encoding="utf-8")
    folder = tmp_path / "catalog" / "offers" / answer.cloud
    folder.mkdir(parents=True)
    same = [o for o in load_catalog().offers if (o.cloud, o.instance) == (answer.cloud, answer.instance)]
    header = "cloud,region,instance_type,price_kind,upfront_usd,price_per_instance_usd_per_hour,basis,source_id,as_of"
    rows = [
        f"{o.cloud},{o.region},{o.instance},{o.price_kind.value},0,{2.9 * o.price_per_instance_usd_per_hour!r},list,"
        f"{o.source},2026-02-01,"
        for o in same
    ]
    (folder / "2026-02-01.csv").write_text("\n".join([f"{header},interruption", *rows]) + "\n", encoding="utf-8")
    found = explain_plan(file, load_catalog(tmp_path / "catalog"))
    [change] = [c for c in found.price_changes if c.is_decisive]
    assert (change.cloud, change.instance) == (answer.cloud, answer.instance)
    assert str(change.now_as_of) == "2026-02-01"
    assert found.was_hash != found.now_hash


def test_a_plan_without_its_basis_says_so() -> None:
    with pytest.raises(UsageError, match="does not say what it rests on"):
        explain_plan(ServePlan.model_validate(written().with_basis().model_copy(update={"basis": None}).__dict__))


def test_a_question_of_another_version_is_refused_by_name() -> None:
    basis = written().with_basis().basis
    assert basis is not None
    strange = basis.model_copy(update={"question": {**basis.question, "tide": "high"}})
    with pytest.raises(UsageError, match="tide unknown"):
        explain_plan(written().model_copy(update={"basis": strange}))


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("rate", "x"),
        ("rate", [[]]),
        ("rate", True),
        ("output_tokens", 10**400),
        ("output_tokens", {"mean": "x"}),
        ("output_tokens", {}),
        ("notes", -1),
        ("from_config", True),
        ("rows", 1.5),
        ("today", 5),
        ("today", "x"),
        ("precision", [1]),
        ("classes", [{}]),
        ("classes", [{"name": "a", "rate": "x", "input_tokens": 1, "output_tokens": 1}]),
    ],
)
def test_a_word_of_another_form_in_the_question_is_refused_by_name(name: str, word: object) -> None:
    basis = written().with_basis().basis
    assert basis is not None
    with pytest.raises(UsageError, match="the question of the plan cannot be read: "):
        request_of(basis.model_copy(update={"question": {**basis.question, name: word}}))


@pytest.mark.slow
def test_an_infeasible_plan_can_be_explained_too() -> None:
    found = explain_plan(plan_serve(replace(CHAT, slo="tpot.p95<0.1ms")))
    assert found.is_reproduced
    assert found.now is None


@pytest.mark.slow
def test_a_plan_of_several_classes_and_lengths_that_differ_is_made_again_as_it_was() -> None:
    lengths = TokenCounts(900.0, 0.5, (700.0, 1800.0, 2400.0, 4000.0), 6000.0)
    kinds = (RequestKind("chat", 3.0, lengths, 200.0, "ttft.p95<1s"), RequestKind("report", 0.5, 4000.0, 800.0))
    plan = plan_serve(ServeRequest("llama-3.1-8b", 3.5, lengths, 200.0, classes=kinds, spare_machines=1))
    stored = ServePlan.model_validate_json(plan.to_json())
    assert request_of(recorded(stored)).classes == kinds
    assert explain_plan(stored).is_reproduced


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked", [{"confidence": 0.9}, {"price_change": 0.2}, {"confidence": 0.8, "price_change": -0.1}]
)
def test_a_surer_plan_or_one_at_other_prices_is_asked_again_as_it_was(asked: dict[str, float], tmp_path: Path) -> None:
    plan, path = plan_serve(replace(CHAT, **asked)), tmp_path / "plan.json"  # type: ignore[arg-type]
    path.write_text(as_json(plan), encoding="utf-8")
    again = explain_plan(path)
    assert isinstance(again, PlanChanges)
    assert again.is_reproduced
    assert not again.price_changes
