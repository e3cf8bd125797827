"""The plan of solved training: figures of every row with their ranges, what was rejected, what else there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpufleet.answers.job_plan import dated, hazard
from gpufleet.answers.plan_parts import Asked, machines_of, price_days, price_sources, rejection_counts
from gpufleet.answers.played_on_spot import played_figure, played_on_spot
from gpufleet.answers.training_estimate import layout_figures, memory_figures, speed_figures
from gpufleet.architecture.linears import num_adapter_parameters
from gpufleet.architecture.parameters import num_active_parameters, num_parameters
from gpufleet.memory.training import checkpoint_bytes
from gpufleet.optimize.market import effective_price
from gpufleet.optimize.training import TrainingPlacement, TrainingSolution, binding_of, run_grade
from gpufleet.optimize.training_search import TrainingQuestion
from gpufleet.performance.restarts import lost_ratio
from gpufleet.performance.training import step_terms
from gpufleet.pricing.energy import kwh_per_hour
from gpufleet.pricing.owned import running_usd_per_hour
from gpufleet.provenance import Source
from gpufleet.report.words import limit_words
from gpufleet.results.base import Figure
from gpufleet.results.job import PlayedOnSpot
from gpufleet.results.training import TrainingDeployment, TrainingPlan
from gpufleet.units import GBIT, HOUR, KILO, MEGA

ENGINES = {True: "megatron-core", False: "pytorch"}
BUSY_RATIO = 0.85
"""Share of the board power that training draws: between 0.75 and 0.95 of it in published runs; judgement."""


def training_plan(q: TrainingQuestion, solution: TrainingSolution, asked: Asked) -> TrainingPlan:
    """The answer: so many deployments, cheapest first, with everything that was rejected."""
    goal, recipe, arch = q.goal, q.recipe, q.arch
    rows = [deployment(q, p) for p in solution.ranked[: asked.num_rows]]
    others = {name: getattr(solution, name) for name in ("undated", "unmeasured", "faster", "steady")}
    beside = {name: None if p is None else deployment(q, p) for name, p in others.items()}
    shown = [*rows, *filter(None, beside.values())]
    trained = num_parameters(arch) if recipe.adapter is None else num_adapter_parameters(arch, recipe.adapter)
    return TrainingPlan.made_of(
        goal,
        solution,
        asked,
        recipe,
        model=arch.name,
        method=recipe.method.value,
        num_parameters=num_parameters(arch),
        num_active_parameters=num_active_parameters(arch),
        num_trained_parameters=trained,
        precision=recipe.formats.name,
        optimizer=recipe.optimizer.name,
        checkpoint_bytes=checkpoint_bytes(arch, recipe),
        requests=goal.steps(recipe) * goal.global_batch,
        headroom_wanted_ratio=goal.headroom_ratio,
        confidence=goal.confidence if asked.missed_confidence is None else 0.5,
        deployments=rows,
        rejections=rejection_counts(solution.rejections),
        num_offers=len(q.offers),
        undated_alternative=beside["undated"],
        unmeasured_alternative=beside["unmeasured"],
        faster=beside["faster"],
        steady=beside["steady"],
        price_sources=price_sources(price_days(shown), asked.sources),
        notes=[*asked.notes, *run_notes(q, rows, asked.sources)],
    )


def deployment(q: TrainingQuestion, p: TrainingPlacement) -> TrainingDeployment:
    """One placement with its layout, its end and its cost, and their ranges."""
    rated, goal, recipe = p.rated, q.goal, q.recipe
    time, row = rated.time, rated.row
    layout = layout_figures(time.layouts, row, q.arch.num_layers)
    terms = step_terms(time)
    speed = speed_figures(time, terms, row)
    grade = run_grade(q, p).label
    finish, paid, usd, played = end_of(p, grade)
    tokens_per_s = scaled(speed.tokens_per_s_per_gpu, layout.num_gpus)
    sequences = goal.steps(recipe) * goal.global_batch
    return TrainingDeployment(
        **machines_of(p.offer, p.instance, p.machines),
        interruption=p.offer.interruption,
        usd_per_hour=p.machines * effective_price(p.offer),
        engine=ENGINES[recipe.adapter is None and layout.tp * layout.pp > 1],
        weight_format=recipe.formats.name,
        gpus_per_replica=layout.tp * layout.pp * layout.cp,
        replicas=layout.dp,
        idle_gpus=p.num_gpus - layout.num_gpus,
        batch=layout.micro_batch * layout.num_micro_batches,
        largest_batch=layout.micro_batch,
        binding=binding_of(q, p),
        binding_limit=limit_words(binding_of(q, p)),
        is_tight=(finish.high or finish.value) > goal.deadline_s,
        grade=grade,
        requests_per_replica=sequences / layout.dp,
        wave_s=rated.step_s,
        requests_per_s=scaled(tokens_per_s, 1 / recipe.sequence_tokens),
        work_s=p.work_s,
        finish_s=finish,
        used_s=paid,
        paid_s=paid,
        usd=usd,
        running_usd=running_usd(p, paid.value),
        usd_per_thousand_requests=scaled(usd, KILO / sequences),
        **stops(q, p),
        played=played,
        layout=layout,
        speed=speed,
        memory=memory_figures(time, q.memory, row),
        steps=goal.steps(recipe),
        tokens_per_s=tokens_per_s,
        gpu_hours=scaled(paid, p.num_gpus / HOUR, "GPU-hours"),
        usd_per_million_tokens=scaled(usd, MEGA / goal.tokens),
        energy_kwh=energy(p, paid),
        network_is_assumed=p.machines > 1 and not q.around.networks[p.offer.cloud, p.offer.instance].is_known,
    )


def end_of(p: TrainingPlacement, grade: str) -> tuple[Figure, Figure, Figure, PlayedOnSpot | None]:
    """When it ends, the time that is paid for, and dollars; on spot as it was played, and how that was."""
    finish, paid = over(p, "elapsed_s", grade), over(p, "paid_s", grade)
    usd, play = scaled(paid, p.machines * effective_price(p.offer) / HOUR, "USD"), p.play
    if play is None:
        return finish, paid, usd, None
    finish, paid = played_figure(play.elapsed_s, finish), played_figure(play.machine_s, paid)
    return finish, paid, played_figure(play.usd, usd), played_on_spot(play, usd.value)


def stops(q: TrainingQuestion, p: TrainingPlacement) -> dict[str, Any]:
    """What stops the run, what that costs, and the checkpoints against it."""
    return {
        "interruptions": p.machines * p.per_hour.expected * p.work_s / HOUR,
        **hazard(q.around.interruptions, p.offer, p.per_hour),
        "repeated_ratio": float(lost_ratio(p.work_s, float(p.expected.paid_s) - q.goal.startup_s)),
        "failures": float(p.expected.stops) + (0.0 if p.play is None else p.play.losses),
        "failures_are_counted": q.around.failures.is_counted(p.rated.cluster.machine.accelerator.generation),
        "checkpoint_write_s": p.write_s,
        "checkpoint_interval_s": min(float(p.expected.interval_s), p.work_s),
    }


def over(p: TrainingPlacement, name: str, grade: str) -> Figure:
    """A time as expected and at both ends."""
    low, expected, high = (float(getattr(times, name)) for times in (p.low, p.expected, p.high))
    return Figure(value=expected, unit="s", low=min(low, expected), high=max(high, expected), grade=grade)


def scaled(figure: Figure, factor: float, unit: str | None = None) -> Figure:
    """A figure and its ends times a factor."""
    return figure.changed(lambda at: at * factor, unit)


def energy(p: TrainingPlacement, paid: Figure) -> Figure | None:
    """Electricity of the GPUs over the run; None where their power is not known."""
    watts = p.rated.cluster.machine.accelerator.board_power_watts
    if watts is None:
        return None
    return scaled(paid, float(kwh_per_hour(watts, p.num_gpus, BUSY_RATIO)) / HOUR, "kWh")


def running_usd(p: TrainingPlacement, paid_s: float) -> float | None:
    """What machines of one's own cost for running such a time; None of rented ones."""
    power = p.offer.own_power
    return None if power is None else p.machines * running_usd_per_hour(power) * paid_s / HOUR


def run_notes(q: TrainingQuestion, rows: list[TrainingDeployment], sources: Mapping[str, Source]) -> list[str]:
    """What the figures of failures, spot machines and networks rest on."""
    notes: list[str] = []
    for d in rows[:1]:
        generation = q.accelerators[d.gpu].generation
        rate = q.around.failures.per_gpu_hour(generation)
        id_ = q.around.failures.source_of(generation)
        counted = "counted on this generation" if d.failures_are_counted else "a prior: nobody counted this generation"
        source = dated(sources[id_]) if id_ in sources else id_
        notes.append(
            f"Failures: one in {1 / rate.expected:,.0f} GPU-hours ({1 / rate.high:,.0f} to {1 / rate.low:,.0f}; "
            f"{source}, {counted})"
        )
        if d.network_is_assumed:
            gbit = q.around.networks[d.cloud, d.instance].bytes_per_s
            notes.append(
                f"Network of {d.cloud} {d.instance.removeprefix('Standard_')} unknown: {gbit.expected / GBIT:,.0f} "
                f"({gbit.low / GBIT:,.0f}-{gbit.high / GBIT:,.0f}) Gbit/s assumed"
            )
    known = q.around.interruptions
    unknown = {d.cloud for d in rows[:1] if d.price_kind == "spot" and not known.is_published(d.interruption)}
    notes += [
        f"Spot of {cloud}: no rate published; a prior of {known.per_hour_unknown.expected:.2g} an hour "
        f"({known.per_hour_unknown.low:.6f}-{known.per_hour_unknown.high:.2g})"
        for cloud in sorted(unknown)
    ]
    return notes
