"""Whether training fits given GPUs: laws of the answer, changes that really help, and what is refused."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from gpufleet.api.training import plan_finetune
from gpufleet.api.training_fits import fit_training
from gpufleet.errors import GpufleetError, Infeasible, UsageError
from gpufleet.inputs.training_layout import parse_layout
from gpufleet.results.training import TrainingFit
from gpufleet.units import GIB

FIELDS = {"--seq": "sequence_tokens", "--optimizer": "optimizer", "--precision": "precision", "--layout": "layout"}


def asked_again(result: TrainingFit, flag: str, said: dict[str, Any]) -> TrainingFit:
    """The fit of what a change says, typed as it stands."""
    words = shlex.split(flag)
    asked: dict[str, Any] = {"gpus": f"{result.gpu}:{result.num_gpus}", "method": result.method, **said}
    for name, value in zip(words[::2], words[1::2], strict=True):
        if name == "--seq":
            asked["sequence_tokens"] = float(value)
        elif name == "--offload":
            asked["offload"] = value.split(",")
        else:
            asked[FIELDS.get(name, name.removeprefix("--"))] = value
    return fit_training(result.model, **asked)


def test_lora_of_8b_fits_a_card_of_24_gib_as_people_run_it() -> None:
    """15.0 GiB of weights, adapters of 42M weights, activations of one sequence recomputed."""
    result = fit_training("llama-3.1-8b", "RTX-4090", "lora")
    assert result.fits
    assert (result.num_trained_parameters, result.rank) == (41_943_040, 16)
    terms = {term.name: term.value for term in result.estimate.memory.terms}
    assert terms["weights"] / GIB == pytest.approx(14.96, abs=0.01)
    assert result.changes == []


def test_a_verdict_that_usual_software_turns_is_tight_and_names_what_it_rests_on() -> None:
    """Stock trainers keep the logits of 8,192 tokens: what `--eager` says, 34 GiB on a card of 24."""
    said: dict[str, Any] = {"gpus": "RTX-4090", "method": "lora", "sequence_tokens": 8192, "micro_batch": 1}
    assumed, eager = (fit_training("llama-3.1-8b", **said, eager=eager) for eager in (False, True))
    assert (assumed.verdict, assumed.estimate.memory.verdict, eager.verdict) == ("tight", "tight", "does not fit")
    stock = next(x for x in assumed.otherwise if x.flag == "--eager")
    assert stock.total_bytes == pytest.approx(eager.estimate.memory.total_bytes.value)
    assert {x.verdict for x in assumed.otherwise} == {"does not fit"}
    assert not eager.otherwise


def test_a_plan_rests_on_the_same_software_as_the_fit_of_its_machine() -> None:
    said: dict[str, Any] = {"tokens": 1e6, "sequence_tokens": 8192, "gpus": ["RTX-4090:1"]}
    plan, fit = plan_finetune("llama-3.1-8b", **said), fit_training("llama-3.1-8b", "RTX-4090:1", sequence_tokens=8192)
    assert (plan.verdict, plan.answer.memory.verdict) == ("tight", "tight")
    assert {(x.assumed, x.verdict) for x in plan.otherwise} == {(x.assumed, x.verdict) for x in fit.otherwise}
    assert sum("tight" in note for note in plan.notes) == 1
    roomy = plan_finetune("llama-3.1-8b", **{**said, "gpus": ["H100:1"]})
    assert (roomy.verdict, roomy.otherwise) == ("fits", [])


def test_what_the_answer_chose_itself_turns_no_verdict() -> None:
    """Gradient checkpointing is part of the layout that is shown: its absence is named, the verdict holds."""
    result = fit_training("llama-3.1-8b", "RTX-4090", "lora", sequence_tokens=1024, micro_batch=1)
    said = fit_training("llama-3.1-8b", "RTX-4090", "lora", sequence_tokens=1024, layout="recompute=full")
    assert all(x.is_choice for x in result.otherwise) or result.verdict == "tight"
    assert not any(x.is_choice for x in said.otherwise)


def test_the_terms_add_up_to_the_total() -> None:
    memory = fit_training("llama-3.1-8b", "H100:8", "full").estimate.memory
    assert sum(term.value for term in memory.terms) == pytest.approx(memory.total_bytes.value)


def test_methods_that_learn_less_need_no_more() -> None:
    """On one layout: all weights, adapters, adapters beside 4 bits."""
    fixed = {"layout": "recompute=full,micro-batch=1"}
    totals = [
        fit_training("llama-3.1-8b", "H200", method, **fixed).estimate.memory.total_bytes.value
        for method in ("full", "lora", "qlora")
    ]
    assert totals == sorted(totals, reverse=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "gpus", "method", "said"),
    [
        ("llama-3.1-8b", "A100-80GB", "full", {}),
        ("llama-3.3-70b", "H100:8", "full", {}),
        ("llama-3.3-70b", "L4", "lora", {}),
        ("llama-3.3-70b", "RTX-4090", "full", {}),
        ("llama-3.1-8b", "RTX-4090", "lora", {"layout": "recompute=none"}),
        ("llama-3.1-8b", "RTX-4090", "lora", {"micro_batch": 16}),
        ("mixtral-8x7b", "H100:8", "full", {}),
    ],
)
def test_every_change_offered_fits_when_it_is_asked(model: str, gpus: str, method: str, said: dict[str, Any]) -> None:
    result = fit_training(model, gpus, method, **said)
    assert not result.fits
    assert 1 <= len(result.changes) <= 3
    for change in result.changes:
        again = asked_again(result, change.flag, {} if "micro-batch" in change.flag else said)
        assert again.fits, change
        assert again.estimate.memory.total_bytes.value == pytest.approx(change.total_bytes)
        assert (again.estimate.layout.label, again.estimate.memory.verdict) == (change.layout, change.verdict)


def test_changes_come_from_the_least_on() -> None:
    """Recomputing changes no result; halves of the sequence change the data."""
    result = fit_training("llama-3.1-8b", "RTX-4090", "lora", layout="recompute=none")
    assert result.changes[0].flag == "--layout recompute=full"


def test_the_most_that_fits_fits_and_the_next_does_not_surely() -> None:
    result = fit_training("llama-3.1-8b", "RTX-4090", "lora", layout="recompute=full,micro-batch=1")
    most = result.largest
    assert most.micro_batch is not None
    assert most.sequence_tokens is not None
    assert fit_training(
        "llama-3.1-8b", "RTX-4090", "lora", layout=f"recompute=full,micro-batch={most.micro_batch}"
    ).fits
    fixed = {"layout": "recompute=full,micro-batch=1"}
    longest = fit_training("llama-3.1-8b", "RTX-4090", "lora", sequence_tokens=most.sequence_tokens, **fixed)
    assert longest.largest.sequence_tokens == most.sequence_tokens
    beyond = fit_training("llama-3.1-8b", "RTX-4090", "lora", sequence_tokens=2 * most.sequence_tokens, **fixed)
    assert not beyond.fits


def test_the_longest_sequence_is_never_beyond_the_model() -> None:
    result = fit_training("llama-3.2-1b", "H200", "qlora")
    assert result.largest.sequence_tokens is not None
    assert result.largest.sequence_tokens <= result.longest_sequence_tokens


@pytest.mark.parametrize("count", [7, 9, 13, 24, 1000])
def test_any_count_has_a_layout_and_several_machines_are_allowed(count: int) -> None:
    result = fit_training("llama-3.1-8b", f"H100:{count}", "full")
    assert result.estimate.layout.num_gpus == count
    assert result.num_machines == -(-count // 8)


def test_what_is_fixed_stands_in_the_layout() -> None:
    layout = fit_training(
        "llama-3.1-8b", "H100:8", "full", layout="tp=2,sharding=zero-1", micro_batch=2
    ).estimate.layout
    assert (layout.tp, layout.dp, layout.sharding, layout.micro_batch) == (2, 4, "ZeRO-1", 2)


def test_the_layout_of_a_change_is_read_as_it_is_typed() -> None:
    said = "tp=2,recompute=none,sharding=zero-3,micro-batch=8"
    result = fit_training("llama-3.1-8b", "A100-40GB:8", "full", layout=said)
    typed = next(change.flag for change in result.changes if "--layout" in change.flag)
    assert parse_layout(typed.removeprefix("--layout ")) == {**parse_layout(said), "recompute": 2}


def test_a_step_offloaded_to_the_host_says_what_lies_there() -> None:
    result = fit_training("llama-3.1-8b", "A100-80GB", "full")
    offloaded = next(change for change in result.changes if "optimizer" in change.flag)
    assert offloaded.host_bytes > 60 * GIB


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"rank": 0}, "rank is out of range"),
        ({"sequence_tokens": 200_000.0}, "longer than llama-3.1-8b reads"),
        ({"sequence_tokens": 0.5}, "sequence is out of range"),
        ({"micro_batch": 0}, "micro-batch is out of range"),
        ({"micro_batch": 2, "layout": "micro-batch=4"}, "two micro-batches"),
        ({"method": "full", "rank": 8}, "no adapters"),
        ({"method": "half"}, "unknown method"),
        ({"gpus": "T4"}, "Try --precision fp16."),
        ({"gpus": "V100", "method": "full"}, "Try --precision fp16-mixed."),
        ({"gpus": "A100-80GB", "precision": "fp8"}, "no fp8 arithmetic"),
        ({"gpus": "TPU-v5e"}, "not modelled"),
        ({"gpus": "H100:0"}, "cannot read a set of GPUs"),
        ({"offload": ["kitchen"]}, "unknown thing to offload"),
        ({"optimizer": "sgd"}, "unknown optimizer"),
        ({"modules": ["router"]}, "unknown matrix"),
        ({"model": "bert-base"}, "not a decoder"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(said: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError) as caught:
        fit_training(**{"model": "llama-3.1-8b", "gpus": "H100", **said})
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("gpus", "layout", "told"),
    [
        ("H100:8", "tp=3", "its parts do not deal out so many GPUs"),
        ("H100:9", "tp=3", "attention heads are not dealt out evenly"),
        ("H100:8", "pp=8,sharding=zero-3", "a pipeline keeps weights and gradients whole"),
    ],
)
def test_counts_that_no_layout_divides_say_why(gpus: str, layout: str, told: str) -> None:
    with pytest.raises(Infeasible) as caught:
        fit_training("llama-3.1-8b", gpus, "full", layout=layout)
    assert told in str(caught.value)


def test_fp16_trains_where_there_is_no_bf16() -> None:
    assert fit_training("llama-3.2-1b", "T4", "lora", precision="fp16").fits


def test_nothing_helps_and_that_is_no_error() -> None:
    """70B on a T4: not even 4 bits on eight of them."""
    try:
        result = fit_training("llama-3.1-405b", "T4", "qlora", precision="fp16")
    except GpufleetError as error:
        pytest.fail(str(error))
    assert (result.fits, result.changes) == (False, [])
