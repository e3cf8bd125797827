"""From a plan in a file to the rules that watch what it promises."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike

from gpufleet.api.envelope import in_full
from gpufleet.api.rented_groups import warnings_of
from gpufleet.ask.alerts.shape import AlertFiles, AlertRow
from gpufleet.ask.alerts.subject import Subject, Watchable, subject_of
from gpufleet.ask.alerts.targets import JOB_RULES, RULES, SEED_RULES, guard_of, target_named, watched_for
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.errors import UsageError
from gpufleet.languages import comment
from gpufleet.monitor.rule_files import VALUE
from gpufleet.monitor.rules import ABSENT, RuleGroup
from gpufleet.report.numbers import usd_per_hour
from gpufleet.results.deployed import DeployedFile

UNSEEN_VALUE = "…"
PLAN_FILE, README = "gpufleet.json", "README.md"


def watch_plan(
    plan: str | PathLike[str] | Watchable,
    to: str = "prometheus",
    *,
    seed_thresholds: bool = False,
    budget: str | None = None,
    utc_offset: str | None = None,
    act: bool = False,
    throughput_metric: str | None = None,
    throughput_in: str | None = None,
    epoch_tokens: float | str | None = None,
    catalog: Catalog | None = None,
) -> AlertFiles:
    """Rules, routes, a dashboard or alarms that watch what a plan promises, for a target.

    `to` is prometheus, alertmanager, grafana or cloudwatch. `plan` is the file that `plan serve -o json` or
    `mix -o json` wrote, or `autoscale -o json`: then copies come and go by the law to take, whose bounds and targets
    are held. `seed_thresholds` adds the four alerts of the seeds. `budget`, such as '1000/day' or '24000/mo' by a clock
    that is `utc_offset` ahead of UTC, adds a guard on the money and the clouds' own budgets; `act` adds a quota, a
    cordon and a stop for somebody to apply.

    Of a job it is the file of `plan batch`, `plan train` or `plan finetune`. `throughput_metric` is then the metric of
    your own trainer in tokens or samples (`throughput_in`) a second, a counter of them where its name ends in _total;
    `epoch_tokens` are those of one epoch, such as '50M'.

    >>> import gpufleet
    >>> plan = gpufleet.plan_serve("llama-3.1-8b", rate="2/s", input_tokens=1000, output_tokens=200)
    >>> [file.name for file in watch_plan(plan, "prometheus").files][:2]
    ['rules.yml', 'rules_test.yml']
    """
    target = target_named(to)
    tables = load_catalog() if catalog is None else catalog
    subject = subject_of(plan, (throughput_metric, throughput_in, epoch_tokens), tables)
    watched, read = subject.watched, subject.plan
    rules_said = {"--seed-thresholds": seed_thresholds, "--budget": budget is not None, "a job": subject.is_job}
    found = watched_for(target, watched, rules_of(subject, seeds=seed_thresholds, acts=act), rules_said)
    guard = guard_of(watched, budget, utc_offset, act)
    rules = [*found.groups, *guard.groups]
    files = [*target.files(watched, rules), *guard.files]
    *steps, last = target.steps(watched)
    answer = AlertFiles(
        target=to,
        models=list(dict.fromkeys(each.model for each in watched.copies)),
        usd_per_hour=watched.usd_per_hour,
        alerts=rows_of(rules),
        num_twins=sum(alert.name == ABSENT or alert.is_own_twin for group in rules for alert in group.alerts),
        unwatched=list(dict.fromkeys(found.unwatched)),
        files=files,
        steps=[*steps, *guard.steps, last],
        plan_hash=read.input_hash,
        price_sources=read.price_sources,
        grade=read.grade,
        notes=[*warnings_of(read), *guard.notes],
    )
    beside = [
        DeployedFile(name=README, text=readme(answer, target.title), what="this page"),
        DeployedFile(name=PLAN_FILE, text=subject.kept.to_json(), what=subject.what),
    ]
    asked = {
        "plan": plan if isinstance(plan, (str, PathLike)) else None,
        "to": to,
        "seed_thresholds": seed_thresholds or None,
        "budget": budget,
        "utc_offset": utc_offset,
        "act": act or None,
        "throughput-metric": throughput_metric,
        "throughput-in": throughput_in,
        "epoch-tokens": epoch_tokens,
    }
    return in_full(answer.model_copy(update={"files": [*files, *beside]}), tables, asked)


def rules_of(subject: Subject, *, seeds: bool, acts: bool) -> Sequence[str]:
    """The modules of rules; the seeds' thresholds and limits to apply are of services."""
    if subject.is_job and (seeds or acts):
        raise UsageError("a job ends by itself", expected="--seed-thresholds and --act for plans of services")
    return JOB_RULES if subject.is_job else (*RULES, *SEED_RULES) if seeds else RULES


def rows_of(groups: Sequence[RuleGroup]) -> list[AlertRow]:
    """All alerts but the twins."""
    return [
        AlertRow(
            copies=alert.labels.get("deployment", ""),
            name=alert.name,
            severity=alert.severity,
            for_s=alert.for_s,
            summary=alert.summary.replace(VALUE, UNSEEN_VALUE),
            action=alert.action,
            command=alert.command,
            fires_when_absent=alert.is_own_twin,
        )
        for group in groups
        for alert in group.alerts
        if alert.name != ABSENT
    ]


def readme(answer: AlertFiles, title: str) -> str:
    """One screen: what is watched, what is not, and the commands in their order."""
    own = any(row.fires_when_absent for row in answer.alerts)
    twins = "of them also where their metric is absent" if own else "more where a metric is absent for five minutes"
    lines = [
        comment(f"{', '.join(answer.models)}, watched by {title}"),
        "",
        f"- {len(answer.alerts)} alerts, {answer.num_twins} {twins}",
        f"- machines of the plan: {usd_per_hour(answer.usd_per_hour)}; plan {answer.plan_hash} (gpufleet.json)",
        "",
        "```sh",
        *(line for step in answer.steps for line in (comment(step.purpose), step.command)),
        "```",
        "",
        *(f"- not watched, or misleading: {line}" for line in answer.unwatched),
        *(f"- {note}" for note in answer.notes),
    ]
    return "\n".join([*lines, ""])
