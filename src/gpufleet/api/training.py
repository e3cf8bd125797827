"""Which machines train or fine-tune a model, in which layout, how long and for how much."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

from gpufleet.answers.plan_parts import Asked
from gpufleet.answers.training_estimate import other_stack, recipe_words
from gpufleet.answers.training_plan import training_plan
from gpufleet.api.demands import checked_confidence, refuse_rows
from gpufleet.api.envelope import in_full
from gpufleet.api.input_rows import InputRow, digest, inputs_of
from gpufleet.api.jobs import DEFAULT_STARTUP_S, spot_plays
from gpufleet.api.machine_notes import capacity_notes, said_of_prices
from gpufleet.api.market import Market, market_of, market_rows, refuse_too_old
from gpufleet.api.spoken import spoken
from gpufleet.api.training_estimates import model_notes, trained_model, usual_step_tokens
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.failures import load_failures
from gpufleet.catalog.interruptions import load_interruptions
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.network import network_of, network_of_gpu
from gpufleet.catalog.own_stacks import load_spreads
from gpufleet.catalog.query import resolve_gpu
from gpufleet.catalog.spoken_machines import with_owned
from gpufleet.catalog.training_constants import load_training_memory_constants
from gpufleet.catalog.training_runs import load_training_runs
from gpufleet.catalog.training_time import load_training_time
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.own_stack import STEP, OwnRun, OwnStack, fitted
from gpufleet.domain.training import Recipe, Recompute, Stack
from gpufleet.domain.training_recipes import method_named, recipe_of_words, stack_named, usual_batch
from gpufleet.errors import UsageError
from gpufleet.inputs.gpu_request import parse_gpus
from gpufleet.inputs.own_stack import read_own_stack
from gpufleet.inputs.training_layout import RUN, MeasuredRun, parse_layout, parse_measured
from gpufleet.layout.training import grid_of
from gpufleet.optimize.measured_runs import TrainedAs, own_step, refuse_strange
from gpufleet.optimize.own_steps import own_steps_note
from gpufleet.optimize.training import NEVER_S, TrainingSolution, solved_training_as_promised
from gpufleet.optimize.training_machines import host_with, hosts_of, usual_training_machine
from gpufleet.optimize.training_search import (
    HOST_TOO_SMALL,
    MOST_GPUS,
    TOO_LARGE,
    Surroundings,
    TrainingGoal,
    TrainingQuestion,
)
from gpufleet.optimize.training_stacks import as_fit, stacks_too_large
from gpufleet.questions.training import TRAINING_HEADROOM, TrainingRequest
from gpufleet.questions.training import FinetuneRequest as FinetuneRequest
from gpufleet.questions.training import TrainRequest as TrainRequest
from gpufleet.results.training import OtherStack, TrainingPlan
from gpufleet.units import DAY, GIB, HOUR, MINUTE

MOST_TOKENS = 1e16
"""Hundreds of times what any run has read: more is a slip."""
USUAL_MOST_GPUS = 64
"""Without a deadline no more GPUs of a type are tried: the cheapest run is a small one."""
CAMPAIGN_GPU_HOURS = 10_000
"""From so many GPU-hours on a run from nothing is called a campaign: what it takes beside its steps is said."""


def plan_train(
    request: TrainRequest | str | PathLike[str] | Architecture, catalog: Catalog | None = None, **said: Any
) -> TrainingPlan:
    """The cheapest machines that train a model from nothing, ranked, with what was rejected and why.

    >>> plan = plan_train("llama-3.1-8b", tokens="10B", gpus=["H100:64"])
    >>> plan.answer.speed.mfu_ratio > 0.2
    True
    """
    return planned(spoken(TrainRequest, request, said), catalog)


def plan_finetune(
    request: FinetuneRequest | str | PathLike[str] | Architecture, catalog: Catalog | None = None, **said: Any
) -> TrainingPlan:
    """The cheapest machines that train a model further, ranked, with what was rejected and why.

    >>> plan = plan_finetune("llama-3.1-8b", tokens="50M", method="lora")
    >>> plan.answer.usd.value < 100
    True
    """
    return planned(spoken(FinetuneRequest, request, said), catalog)


def planned(request: TrainingRequest, catalog: Catalog | None) -> TrainingPlan:
    """The plan of a request."""
    refuse_rows(request.rows)
    tables = with_owned(load_catalog() if catalog is None else catalog, tuple(request.owned or ()))
    counts = counts_of(request, tables)
    question, market = training_question(request, tables, counts)
    refuse_too_old(request, question.offers)
    solution, missed = solved_training_as_promised(
        question, calibration_of(tables), is_asked=request.confidence is not None
    )
    inputs = inputs_of(request, understood(request, question, market))
    notes = [*market.notes, *own_notes(question, solution), *request.notes, *training_notes(question)]
    asked = Asked(inputs, digest(inputs, question.offers), notes, tables.sources, request.rows, missed)
    plan = training_plan(question, solution, asked)
    otherwise = otherwise_of(request, question, solution, tables)
    refused = [*refused_notes(question, plan), *host_notes(question, solution, tables)]
    notes = [*plan.notes, *campaign_notes(request, plan), *refused]
    had = capacity_notes(plan.deployments, tables, request.easily_had)
    ends = said_of_prices(plan.deployments[:1], tables, plan.deployments)
    notes = [*had, *stack_notes(otherwise), *ends, *notes]
    return in_full(plan.model_copy(update={"notes": notes, "otherwise": otherwise}), tables, request)


def otherwise_of(
    request: TrainingRequest, question: TrainingQuestion, solution: TrainingSolution, tables: Catalog
) -> list[OtherStack]:
    """Usual software in which the machines to rent would be too small."""
    if not solution.ranked:
        return []
    layout = layout_of(request, question.arch)
    keeps = {**layout, "recompute": int(Recompute.NONE)}
    kept = grid_of(keeps, question.goal.global_batch, tunes=isinstance(request, FinetuneRequest))
    best, free = solution.ranked[0].rated, None if "recompute" in layout else kept
    asked = as_fit(question, solution.ranked[0], calibration_of(tables))
    recompute = int(best.time.layouts.recompute[best.row])
    return [other_stack(*found) for found in stacks_too_large(asked, recompute, free)]


def campaign_notes(request: TrainingRequest, plan: TrainingPlan) -> list[str]:
    """What a long run takes beside its steps, which nobody can plan."""
    if isinstance(request, FinetuneRequest) or not plan.is_feasible or plan.answer.gpu_hours.value < CAMPAIGN_GPU_HOURS:
        return []
    took = load_training_runs().campaign_ratio
    return [
        "Evaluation, tuning and runs that are given up are not counted: Llama 2 70B, Llama 3.1 70B and 405B took "
        f"{took.low:g} to {took.high:g} times the GPU-hours that we plan for their tokens"
    ]


def refused_notes(question: TrainingQuestion, plan: TrainingPlan) -> list[str]:
    """What says how it would fit, where nothing does."""
    too_large = next((r for r in plan.rejections if r.code == TOO_LARGE.code), None)
    if plan.is_feasible or too_large is None or question.goal.counts is None:
        return []
    [(gpu, number)] = list(question.goal.counts.items())[:1]
    asked = f"--method {question.recipe.method.value} --seq {question.recipe.sequence_tokens:.0f}"
    return [f"What would make it fit: 'gpufleet fit {question.arch.name} --gpus {gpu}:{number} {asked}'"]


def host_notes(question: TrainingQuestion, solution: TrainingSolution, tables: Catalog) -> list[str]:
    """How much host memory would do where machines have too little, and which machine of these GPUs has it."""
    short = solution.rejections.nearest.get(HOST_TOO_SMALL)
    if solution.ranked or short is None or short.miss is None:
        return []
    need_bytes, gpus = dict(short.miss.figures)["need_bytes"], {i.accelerator for i in question.instances}
    every = tables.instances.values()
    hosts = [host for gpu in sorted(gpus) for host in hosts_of(tables.accelerators[gpu], every, 1)]
    host = host_with(hosts, float(need_bytes or 0.0))
    if host is None:
        return []
    needs, has = f"{float(need_bytes or 0.0) / GIB:,.1f} GiB of host memory", f"{host.memory_bytes / GIB:,.0f} GiB"
    enough = host.memory_bytes >= float(need_bytes or 0.0)
    found = f"{host.name} has {has}" if enough else f"no machine of these GPUs has more than {has} ({host.name})"
    return [f"{short.subject} would need a machine with {needs}: {found}; less lies there without --offload"]


def counts_of(request: TrainingRequest, tables: Catalog) -> Mapping[str, int] | None:
    """How many GPUs of each named type; None where no number was said."""
    said = [parse_gpus_of_cluster(text) for text in request.gpus or ()]
    numbered = {resolve_gpu(tables, name).accelerator.name: number for name, number in said if number is not None}
    if numbered and len(numbered) < len(said):
        raise UsageError("a number for some GPUs and none for others", found=", ".join(request.gpus or ()))
    return numbered or None


def parse_gpus_of_cluster(text: str) -> tuple[str, int | None]:
    """A name, and how many of it where that was said; clusters are larger than machines."""
    name, colon, number = text.strip().rpartition(":")
    if not colon:
        return parse_gpus(text).name, None
    if number.strip().isdecimal() and 1 <= int(number) <= MOST_GPUS and name.strip():
        return name.strip(), int(number)
    expected = f"a name and a number from 1 to {MOST_GPUS:,}, such as 'H100:256'"
    raise UsageError("cannot read a set of GPUs", found=text, expected=expected)


def training_question(
    request: TrainingRequest, tables: Catalog, counts: Mapping[str, int] | None
) -> tuple[TrainingQuestion, Market]:
    """The question, checked, and what may be rented."""
    arch = trained_model(request.model)
    recipe = recipe_of_request(request, arch)
    names = [parse_gpus_of_cluster(text)[0] for text in request.gpus or ()]
    market = market_of(replace(request, gpus=names or None), tables)
    goal = goal_of(request, arch, recipe, counts)
    layout = layout_of(request, arch)
    around = Surroundings(
        load_failures(),
        load_interruptions(),
        load_training_runs(),
        {(i.cloud, i.name): network_of(i) for i in market.instances},
        spot_plays(tables, market.offers, goal.deadline_s),
        request.rows,
    )
    question = TrainingQuestion(
        arch,
        recipe,
        goal,
        tables.accelerators,
        market.instances,
        market.offers,
        around,
        load_training_time(),
        load_training_memory_constants(),
        grid=grid_of(layout, goal.global_batch, tunes=isinstance(request, FinetuneRequest)),
        is_layout_fixed=bool(layout),
    )
    own = own_stack_of(request, question, tables)
    return (question if own is None else replace(question, own=own)), market


def layout_of(request: TrainingRequest, arch: Architecture) -> dict[str, int]:
    """The parts of the layout that were said; experts are dealt out only where there are some."""
    layout = parse_layout(request.layout) if request.layout else {}
    if layout.get("ep", 1) > 1 and not arch.is_moe:
        raise UsageError(f"{arch.name} has no experts to deal out", found=f"ep={layout['ep']}", expected="no ep")
    return layout


def recipe_of_request(request: TrainingRequest, arch: Architecture) -> Recipe:
    """The recipe that a request means."""
    tunes = isinstance(request, FinetuneRequest)
    method = method_named(request.method if isinstance(request, FinetuneRequest) else None, "lora" if tunes else "full")
    return recipe_of_words(
        arch,
        method,
        sequence_tokens=request.sequence_tokens,
        rank=request.rank if isinstance(request, FinetuneRequest) else None,
        modules=request.modules if isinstance(request, FinetuneRequest) else None,
        precision=request.precision,
        optimizer=request.optimizer,
        offload=request.offload,
        eager=request.eager,
        is_from_nothing=not tunes,
        stack=request.stack,
    )


def stack_asked(request: TrainingRequest) -> Stack:
    """The software that a request means."""
    return stack_named(request.stack, eager=request.eager, is_from_nothing=not isinstance(request, FinetuneRequest))


def goal_of(
    request: TrainingRequest, arch: Architecture, recipe: Recipe, counts: Mapping[str, int] | None
) -> TrainingGoal:
    """What is to be done by when, checked."""
    if request.tokens is None:
        raise UsageError("--tokens is missing", expected="how many tokens to train on, such as 50M or 2T")
    if not recipe.sequence_tokens <= request.tokens <= MOST_TOKENS:
        expected = f"from one sequence ({recipe.sequence_tokens:,.0f}) to {MOST_TOKENS:g}"
        raise UsageError("the number of tokens is out of range", found=f"{request.tokens:g}", expected=expected)
    startup_s = DEFAULT_STARTUP_S if request.startup_s is None else request.startup_s
    deadline_s = checked_deadline(request.deadline_s, startup_s)
    is_open = request.owned or request.most_machines is not None or math.isfinite(deadline_s)
    most = MOST_GPUS if is_open else USUAL_MOST_GPUS
    if request.most_machines is not None and request.most_machines < 1:
        raise UsageError("the number of machines is out of range", found=request.most_machines, expected="from 1")
    if request.budget_usd is not None and not request.budget_usd > 0:
        raise UsageError("the budget is out of range", found=request.budget_usd, expected="USD above 0")
    return TrainingGoal(
        tokens=request.tokens,
        global_batch=batch_of(request, arch, recipe, counts),
        deadline_s=deadline_s,
        startup_s=startup_s,
        headroom_ratio=TRAINING_HEADROOM if request.headroom is None else request.headroom,
        confidence=checked_confidence(request.confidence),
        most_usd=math.inf if request.budget_usd is None else request.budget_usd,
        most_gpus=most,
        counts=counts,
        may_idle=request.idle,
        most_machines=math.inf if request.most_machines is None else request.most_machines,
        joins_small_machines=not isinstance(request, FinetuneRequest),
        takes_spot_gangs=request.pricing is not None,
    )


def checked_deadline(deadline_s: float | None, startup_s: float) -> float:
    """Seconds until the run is done; infinite where none is asked."""
    if not 0 <= startup_s <= DAY:
        raise UsageError("the time to start is out of range", found=f"{startup_s:g} s", expected="up to a day")
    if deadline_s is None:
        return math.inf
    if not startup_s < deadline_s <= NEVER_S:
        expected = f"more than the {startup_s / MINUTE:g} min that machines take to start, up to ten years"
        raise UsageError("the deadline is out of range", found=f"{deadline_s:g} s", expected=expected)
    return deadline_s


def batch_of(request: TrainingRequest, arch: Architecture, recipe: Recipe, counts: Mapping[str, int] | None) -> int:
    """Sequences of a step: as asked, else what is usual, in whole shares of the GPUs that were asked for."""
    most = max(int((request.tokens or 0) // recipe.sequence_tokens), 1)
    if request.global_batch is not None:
        if not 1 <= request.global_batch <= most:
            expected = f"from 1 to {most:,}: all tokens are so many sequences"
            raise UsageError("the global batch is out of range", found=request.global_batch, expected=expected)
        return request.global_batch
    usual = usual_step_tokens(arch, is_from_nothing=not isinstance(request, FinetuneRequest))
    odd = math.lcm(*(number // (number & -number) for number in (counts or {}).values()))
    return usual_batch(recipe, usual, most, odd)


def own_stack_of(request: TrainingRequest, question: TrainingQuestion, tables: Catalog) -> OwnStack | None:
    """What runs of one's own say of steps of this software on a GPU: of a calibration, or of runs that were typed."""
    said, stack = request.measured, stack_asked(request)
    if request.calibration is not None:
        if said:
            raise UsageError("how fast steps are is said twice", expected="--measured or --calibration")
        given = request.calibration
        own = given if isinstance(given, OwnStack) else read_own_stack(given)
        return own if own.engine == stack.value else None
    if not said:
        return None
    trained = TrainedAs(question.arch, question.recipe, question.goal.global_batch, question.time)
    runs = [run_of(trained, run, said, tables) for run in parse_measured(said)]
    if not runs:
        raise UsageError("no run is said", found=said, expected=RUN)
    refuse_strange([run for _, run in runs], said)
    return stack_of_runs(stack, runs)


def trained_as(request: TrainingRequest, counts: Mapping[str, int] | None) -> TrainedAs:
    """What a request trains, and how, on so many GPUs."""
    arch = trained_model(request.model)
    recipe = recipe_of_request(request, arch)
    return TrainedAs(arch, recipe, batch_of(request, arch, recipe, counts), load_training_time())


def run_of(trained: TrainedAs, run: MeasuredRun, said: str, tables: Catalog) -> tuple[str, OwnRun]:
    """The GPU of a run, and its step beside the one that is predicted."""
    gpu = resolve_gpu(tables, run.gpus.name).accelerator
    machine = usual_training_machine(gpu, network_of_gpu(gpu, tables.instances.values()))
    grid = grid_of(run.layout, trained.global_batch)
    own = own_step(trained, machine, run.gpus.number, grid, run.tokens_per_s_per_gpu, calibration_of(tables))
    if own is None:
        raise UsageError("no layout is as your own run says", found=said, expected="parts that divide GPUs and batch")
    return gpu.name, own


def stack_of_runs(stack: Stack, runs: Sequence[tuple[str, OwnRun]]) -> OwnStack:
    """Software on a GPU as its runs say, shrunk by how far such stacks differ."""
    gpus = sorted({gpu for gpu, _ in runs})
    if len(gpus) > 1:
        raise UsageError("runs on several GPUs", found=", ".join(gpus), expected="one GPU at a time")
    steps = {STEP: fitted([run for _, run in runs], load_spreads()[STEP])}
    return OwnStack(stack.value, gpus[0], "", len(runs), steps)


def training_notes(question: TrainingQuestion) -> list[str]:
    """What a reader should know about how the question was taken."""
    return model_notes(question.arch)


def own_notes(question: TrainingQuestion, solution: TrainingSolution) -> list[str]:
    """What runs of one's own moved of the steps that are planned."""
    if question.own is None or not solution.ranked:
        return []
    rated = solution.ranked[0].rated
    layouts, gpu = rated.time.layouts, rated.cluster.machine.accelerator.name
    tp, pp = int(layouts.tp[rated.row]), int(layouts.pp[rated.row])
    return [own_steps_note(question.own, question.arch.name, question.recipe, gpu, tp, pp)]


def understood(request: TrainingRequest, question: TrainingQuestion, market: Market) -> list[InputRow]:
    """The question as it was read, each part with its origin."""
    goal, recipe = question.goal, question.recipe
    deadline = "none: the cheapest run" if math.isinf(goal.deadline_s) else f"{goal.deadline_s / HOUR:g} h"
    return [
        ("model", "model", question.arch.name, True),
        ("trained", "method", recipe_words(recipe), getattr(request, "method", None) is not None),
        ("tokens", "tokens", f"{goal.tokens:,.0f}", True),
        ("sequence", "sequence_tokens", f"{recipe.sequence_tokens:,.0f} tokens", request.sequence_tokens is not None),
        ("global batch", "global_batch", f"{goal.global_batch:,} sequences", request.global_batch is not None),
        ("deadline", "deadline_s", deadline, request.deadline_s is not None),
        ("precision", "precision" if request.precision else "formats", recipe.formats.name, request.precision),
        ("optimizer", "optimizer", recipe.optimizer.name, request.optimizer is not None),
        ("stack", "stack", stack_asked(request).meaning, request.stack is not None or request.eager),
        *([("layout", "layout", request.layout, True)] if request.layout else []),
        *([("your own runs", "measured", request.measured, True)] if request.measured else []),
        ("time to start", "startup_s", f"{goal.startup_s / MINUTE:g} min", request.startup_s is not None),
        *market_rows(request, question.offers),
    ]


def stack_notes(otherwise: list[OtherStack]) -> list[str]:
    """That a plan is tight, and what it rests on; a choice of the layout holds as it stands."""
    parts = [
        f"{stack.assumed}, else ({stack.otherwise}{f', {stack.flag}' if stack.flag else ''}) a GPU needs "
        f"{stack.total_bytes / GIB:.1f} of its {stack.device_bytes / GIB:.1f} GiB"
        for stack in otherwise
        if not stack.is_choice
    ]
    return [f"Warning: tight: it rests on {'; on '.join(parts)}"] if parts else []
