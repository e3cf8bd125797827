"""The guard's figures and alerts on days of machine counts, as Prometheus itself computes them (promtool test rules).

What was spent is added up here, minute by minute, from the counts; the guard sees series alone.
"""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpufleet.catalog.engine_metrics import metrics_of
from gpufleet.errors import UsageError
from gpufleet.monitor import rule_files
from gpufleet.monitor.budget import Budget, budget_guard
from gpufleet.monitor.rule_files import rules_text
from gpufleet.monitor.rules import RuleGroup
from gpufleet.monitor.watched import Range, WatchedCopies, WatchedPlan

PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: prometheus)")
PRICE, MINUTES_OF_DAY, PLANNED, MOST = 1.861, 1440, 5, 9
Series = Mapping[str, Sequence[float | None]]


def copies(name: str = "chat", **said: Any) -> WatchedCopies:
    """Five copies on five machines of $1.861, as a plan for L40S has them."""
    usual = WatchedCopies(
        name=name,
        namespace="serving",
        model="llama-3.1-8b",
        engine="vllm",
        metrics=metrics_of("vllm", "0.19.1"),
        gpu="L40S",
        power_limit_watts=350.0,
        replicas=PLANNED,
        machines=PLANNED,
        gpus_per_machine=1.0,
        gpus_per_replica=1,
        usd_per_hour=PRICE,
        objectives={"ttft.p95": 1.0},
        latency={"ttft.p95": Range(0.4, 0.3, 0.8)},
        requests_per_s=20.0,
        requests_per_s_capacity=Range(25.0, 20.0, 30.0),
        input_tokens=1000.0,
        output_tokens=200.0,
        most_running=64.0,
        start_s=300.0,
        cloud="aws",
        instance="g6e.xlarge",
    )
    return replace(usual, **said)


def plan(*of: WatchedCopies, name: str = "chat") -> WatchedPlan:
    return WatchedPlan(name, "0123456789abcdef", of or (copies(),))


def steady(minute: int) -> int:
    """Five machines all day."""
    return PLANNED


def runaway(minute: int) -> int:
    """Five, and twenty from 03:00 on."""
    return PLANNED if minute < 3 * 60 else 20


def autoscaled(minute: int) -> int:
    """Two by night, nine by day, one more or fewer every few minutes."""
    return round(5.5 - 3.5 * math.cos(2 * math.pi * minute / MINUTES_OF_DAY))


DAYS: dict[str, Callable[[int], int]] = {"steady": steady, "runaway": runaway, "autoscaled": autoscaled}


def counted(days: Sequence[Callable[[int], int]]) -> list[int]:
    """Machines in each minute of some days."""
    return [day(minute) for day in days for minute in range(MINUTES_OF_DAY)]


def spent(counts: Sequence[int], price: float = PRICE) -> float:
    """USD, to the minute."""
    return math.fsum(count * price / 60 for count in counts)


def engines_up(counts: Sequence[int | None], name: str = "chat") -> dict[str, list[float | None]]:
    """A target for each machine, which vanishes with it."""
    most = max(count or 0 for count in counts)
    return {
        f'up{{namespace="serving",deployment="{name}",instance="10.0.0.{number}:8000"}}': [
            1.0 if (c or 0) > number else None for c in counts
        ]
        for number in range(most)
    }


def notation(values: Sequence[float | None]) -> str:
    """Values as promtool reads them: runs of one value; the end of a series is a marker of Prometheus."""
    words: list[str] = []
    for value, run in groupby(values):
        length = len(list(run))
        if value is not None:
            words.append(f"{value:g}x{length - 1}" if length > 1 else f"{value:g}")
        else:
            words.append("stale" if words else "_")
            words.extend([f"_x{length - 1}"] if length > 1 else [])
    return " ".join(words)


def asked(group: RuleGroup, series: Series, questions: Sequence[tuple[int, str]], folder: Path) -> None:
    """Each expression holds in its minute (is 1), or promtool says which does not."""
    (folder / "rules.yaml").write_text(rules_text([group]))
    checks = [
        {"expr": expression, "eval_time": f"{minute}m", "exp_samples": [{"labels": "{}", "value": 1}]}
        for minute, expression in questions
    ]
    inputs = [{"series": name, "values": notation(values)} for name, values in series.items()]
    tests = [{"interval": "1m", "input_series": inputs, "promql_expr_test": checks}]
    (folder / "tests.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": tests}))
    done = subprocess.run(
        [str(PROMTOOL), "test", "rules", "tests.yaml"], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


def near(series: str, value: float, within: float = 0.02) -> str:
    """That a series without labels is this, give or take."""
    return f"sum(abs({series} - {value!r}) <= bool {abs(value) * within!r})"


def fires(alert: str, is_firing: bool = True) -> str:
    """That an alert fires, or that it does not."""
    firing = f'(count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0))'
    return f"{firing} > bool 0" if is_firing else f"{firing} == bool 0"


def when(counts: Sequence[int], usd: float) -> int:
    """The first minute in which so much is spent."""
    total = 0.0
    for minute, count in enumerate(counts):
        total += count * PRICE / 60
        if total >= usd:
            return minute
    raise AssertionError(usd)


@needs_promtool
@pytest.mark.slow
def test_spend_of_three_days_is_their_sum_and_the_runaway_alone_is_told_by_ten_past_three(tmp_path: Path) -> None:
    counts = counted(list(DAYS.values()))
    guarded = budget_guard(plan(copies(most_machines=MOST)), Budget(24000, "month"))
    questions = []
    for day, of_day in enumerate(DAYS.values()):
        for minute in (60, 181, 719, 1438):
            at = day * MINUTES_OF_DAY + minute
            questions.append((at, near("gpufleet:spend:usd_today", spent(counted([of_day])[: minute + 1]))))
            questions.append((at, near("gpufleet:spend:usd_this_month", spent(counts[: at + 1]), 0.002)))
            questions.append((at, near("gpufleet:burn:usd_per_hour", counts[at] * PRICE, 1e-9)))
    begins = MINUTES_OF_DAY + 180
    silent = [*range(10, begins, 240), begins, *range(2 * MINUTES_OF_DAY + 20, 3 * MINUTES_OF_DAY, 60)]
    questions += [(minute, fires("MachineRunaway", False)) for minute in silent]
    questions += [(minute, fires("MachineRunaway")) for minute in (begins + 10, begins + 600)]
    asked(guarded, engines_up(counts), questions, tmp_path)


@needs_promtool
@pytest.mark.parametrize("name", ["runaway", "autoscaled"])
def test_each_share_of_the_budget_is_told_when_it_is_gone(name: str, tmp_path: Path) -> None:
    counts = counted([DAYS[name]])
    usd = 0.9 * spent(counts)
    questions = []
    for percent in (50, 80, 100):
        minute = when(counts, usd * percent / 100)
        questions.append((minute - 3, fires(f"Budget{percent}Percent", False)))
        questions.append((minute + 3, fires(f"Budget{percent}Percent")))
    asked(budget_guard(plan(), Budget(usd, "day")), engines_up(counts), questions, tmp_path)


@needs_promtool
def test_the_hour_at_which_the_budget_is_gone_is_told_before(tmp_path: Path) -> None:
    counts = counted([runaway])
    usd = spent(counts[: 15 * 60])
    guarded = budget_guard(plan(), Budget(usd, "day"))
    by_three = "gpufleet:budget:gone_at_s"
    questions = [
        (170, fires("BudgetGoneEarly", False)),
        (195, fires("BudgetGoneEarly")),
        (195, near(by_three, 15 * 3600, 0.01)),
        (600, near(by_three, 15 * 3600, 0.005)),
        (600, near("gpufleet:forecast:usd", spent(counts), 0.01)),
        (910, fires("BudgetGoneEarly", False)),
        (910, fires("Budget100Percent")),
    ]
    asked(guarded, engines_up(counts), questions, tmp_path)


@needs_promtool
@pytest.mark.slow
def test_a_budget_that_lasts_tells_nothing_all_day(tmp_path: Path) -> None:
    counts = counted([autoscaled])
    guarded = budget_guard(plan(copies(most_machines=MOST)), Budget(2.1 * spent(counted([autoscaled])), "day"))
    nothing = '(count(ALERTS{alertstate="firing"}) or vector(0)) == bool 0'
    asked(guarded, engines_up(counts), [(minute, nothing) for minute in range(0, len(counts), 30)], tmp_path)


@needs_promtool
def test_nothing_seen_is_neither_fine_nor_for_nothing(tmp_path: Path) -> None:
    """From 04:00 to 08:00 no target, node or GPU tells of itself."""
    counts: list[int | None] = [None if 240 <= minute < 480 else PLANNED for minute in range(MINUTES_OF_DAY)]
    before, after = 240 * PLANNED * PRICE / 60, (600 - 240) * PLANNED * PRICE / 60
    questions = [
        (230, fires("MachinesUnseen", False)),
        (247, fires("MachinesUnseen")),
        (400, near("gpufleet:spend:usd_today", before)),
        (400, near("gpufleet:spend:usd_this_month", before)),
        (500, fires("MachinesUnseen", False)),
        (599, near("gpufleet:spend:usd_this_month", after)),
        (599, near("gpufleet:spend:usd_today", after)),
        (599, fires("SpendIncomplete")),
        (599, near("gpufleet:seen:ratio_of_day", 0.6, 0.01)),
        (200, fires("SpendIncomplete", False)),
    ]
    asked(budget_guard(plan(), Budget(1000, "day")), engines_up(counts), questions, tmp_path)


def gpus_seen(number: int, model: str, hosts: int, minutes: int) -> dict[str, list[float | None]]:
    """GPUs of one model on some hosts, as dcgm-exporter shows them; pods that share one make series of their own."""
    named = 'modelName="{0}",Hostname="{0}-{1}",UUID="{0}-{2}",pod="{3}"'
    labels = [named.format(model, each % hosts, each, pod) for each in range(number) for pod in ("a", "b")]
    return {f"DCGM_FI_DEV_GPU_TEMP{{{each}}}": [60.0] * minutes for each in labels}


def nodes_seen(number: int, gpus: int, minutes: int, instance: str | None = None) -> dict[str, list[float | None]]:
    """Nodes with GPUs, and their type where the label is exported."""
    of_gpus = 'kube_node_status_capacity{{node="n{0}-{1}",resource="nvidia_com_gpu",unit="integer"}}'
    told = f',label_node_kubernetes_io_instance_type="{instance}"' if instance else ""
    nodes = {of_gpus.format(gpus, each): [float(gpus)] * minutes for each in range(number)}
    return nodes | {f'kube_node_labels{{node="n{gpus}-{each}"{told}}}': [1.0] * minutes for each in range(number)}


def machines(count: int, instance: str = "g6e.xlarge") -> str:
    return near(f'gpufleet:machines:seen{{machine="{instance}"}}', count, 1e-9)


@needs_promtool
@pytest.mark.parametrize(
    ("series", "seen"),
    [
        (engines_up([3] * 9), 3),
        ({**engines_up([3] * 9), **gpus_seen(4, "NVIDIA L40S", 4, 9)}, 4),
        ({**engines_up([3] * 9), **gpus_seen(4, "NVIDIA L4", 4, 9)}, 3),
        ({**engines_up([3] * 9), **nodes_seen(6, 1, 9)}, 6),
        ({**engines_up([3] * 9), **nodes_seen(6, 8, 9)}, 3),
        ({**nodes_seen(6, 1, 9, "g6e.xlarge"), **nodes_seen(2, 8, 9, "p5.48xlarge")}, 6),
        ({**nodes_seen(2, 8, 9, "p5.48xlarge")}, 0),
        ({**engines_up([3] * 9), **nodes_seen(6, 1, 9, "g6.xlarge")}, 3),
        (engines_up([3] * 9, "chat") | {'up{namespace="serving",deployment="chat",instance="down"}': [0.0] * 9}, 4),
    ],
    ids=["engines", "gpus", "gpus of another", "nodes", "nodes of more", "types", "none of the type", "alike", "down"],
)
def test_machines_are_the_most_that_anybody_sees(series: Series, seen: int, tmp_path: Path) -> None:
    question = machines(seen) if seen else "sum(gpufleet:machines:seen == bool 0)"
    asked(budget_guard(plan(), Budget(1000, "day")), series, [(6, question)], tmp_path)


@needs_promtool
def test_two_kinds_of_machines_are_counted_apart_and_paid_together(tmp_path: Path) -> None:
    """Four copies a machine of 4 GPUs beside one a machine of one; the GPU is the same."""
    big = copies("big", replicas=8, machines=2, gpus_per_machine=4.0, usd_per_hour=10.5, instance="g6e.12xlarge")
    series = {**engines_up([5] * 9, "chat"), **engines_up([9] * 9, "big")}
    series |= {**gpus_seen(5, "NVIDIA L40S", 5, 9)}
    guarded = budget_guard(plan(copies(), big), Budget(1000, "day"))
    questions = [(6, machines(5)), (6, machines(3, "g6e.12xlarge"))]
    questions.append((6, near("gpufleet:burn:usd_per_hour", 5 * PRICE + 3 * 10.5, 1e-9)))
    asked(guarded, series, questions, tmp_path)


@needs_promtool
def test_a_day_begins_at_midnight_of_the_clock_that_is_named(tmp_path: Path) -> None:
    """Midnight two hours ahead of UTC is 22:00; a month there begins then too."""
    counts = counted([steady, steady])[: 24 * 60]
    guarded = budget_guard(plan(), Budget(1000, "day", utc_offset_s=7200))
    midnight = 22 * 60
    questions = [
        (midnight - 5, near("gpufleet:spend:usd_today", spent(counts[: midnight - 4]))),
        (midnight + 59, near("gpufleet:spend:usd_today", spent(counts[:60]))),
        (midnight + 59, near("gpufleet:forecast:usd", spent(counts))),
    ]
    asked(guarded, engines_up(counts), questions, tmp_path)


@needs_promtool
def test_plans_beside_each_other_are_told_apart(tmp_path: Path) -> None:
    one, other = plan(), plan(copies("draw", instance='dr"aw {{ $value }}\n$1'))
    groups = [budget_guard(each, Budget(1000, "day")) for each in (one, other)]
    both = RuleGroup("both", 60, [r for g in groups for r in g.recorded], [a for g in groups for a in g.alerts])
    series = {**engines_up([3] * 9, "chat"), **engines_up([4] * 9, "draw")}
    questions = [(6, near('gpufleet:burn:usd_per_hour{plan="chat"}', 3 * PRICE))]
    questions.append((6, near('gpufleet:burn:usd_per_hour{plan="draw"}', 4 * PRICE)))
    asked(both, series, questions, tmp_path)


FAULTS: dict[str, tuple[str, str]] = {
    "a day of another clock": ("day_of_month(vector(time()))", "day_of_month(vector(time() - 7200))"),
    "a price too high": ("vector(1.861)", "vector(1.961)"),
    "a price too low": ("vector(1.861)", "vector(1.8)"),
    "minutes as hours": (" / 60", " / 30"),
    "no limit of machines": ("> 9", "> 90"),
    "engines that answer alone": ('deployment="chat"', 'deployment="chats"'),
}


@needs_promtool
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str, tmp_path: Path) -> None:
    counts = counted([runaway])[:200]
    group = budget_guard(plan(copies(most_machines=MOST)), Budget(10_000, "day"))
    old, new = FAULTS[fault]
    wrong = replace(
        group,
        recorded=[replace(each, expression=each.expression.replace(old, new)) for each in group.recorded],
        alerts=[replace(each, expression=each.expression.replace(old, new)) for each in group.alerts],
    )
    assert wrong != group
    questions = [(190, near("gpufleet:spend:usd_today", spent(counts[:191]))), (190, fires("MachineRunaway"))]
    asked(group, engines_up(counts), questions, tmp_path)
    with pytest.raises(AssertionError):
        asked(wrong, engines_up(counts), questions, tmp_path)


def test_a_budget_below_one_machines_hour_is_refused() -> None:
    with pytest.raises(UsageError):
        budget_guard(plan(), Budget(PRICE - 0.01, "day"))
    assert budget_guard(plan(), Budget(PRICE, "day"))


def test_more_machines_allow_more_and_a_name_changes_names_alone() -> None:
    small, large = (budget_guard(plan(copies(most_machines=most)), Budget(1000, "day")) for most in (5, 6))
    pairs = zip(small.alerts, large.alerts, strict=True)
    assert [old.name for old, new in pairs if old.expression != new.expression] == ["MachineRunaway"]
    renamed = budget_guard(plan(copies("other")), Budget(1000, "day"))
    named = budget_guard(plan(), Budget(1000, "day"))
    for one, other in zip(named.recorded, renamed.recorded, strict=True):
        assert one.expression.replace('"chat"', '"other"') == other.expression


@needs_promtool
@pytest.mark.parametrize("budget", [Budget(1000, "day"), Budget(24000, "month", -18000.0)], ids=["day", "month"])
def test_each_alert_has_a_test_of_its_own_that_promtool_runs(budget: Budget, tmp_path: Path) -> None:
    groups = [budget_guard(plan(copies(), copies("big", instance="p5.48xlarge", gpu="H100-SXM")), budget)]
    (tmp_path / "rules.yml").write_text(rules_text(groups))
    made = rule_files.tests_document(groups, "rules.yml")
    assert sum(len(each["promql_expr_test"]) for each in made["tests"]) == 2 * len(groups[0].alerts) == 2 * 9
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(made))
    for words in (["check", "rules", "rules.yml"], ["test", "rules", "tests.yml"]):
        done = subprocess.run([str(PROMTOOL), *words], cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr


LABELS = {"plan": "chat", "namespace": "serving", "deployment": "chat", "about": "budget"}


@needs_promtool
def test_an_alert_says_the_hour_in_words(tmp_path: Path) -> None:
    """15:00 of the first day of 1970, as Prometheus writes it."""
    group = budget_guard(plan(), Budget(1000, "day"))
    (tmp_path / "rules.yml").write_text(rules_text([group]))
    [alert] = [each for each in group.alerts if each.name == "BudgetGoneEarly"]
    summary = "The budget of 1,000 USD a day is gone by 1970-01-01 15:00:00 +0000 UTC"
    told = {"summary": summary, "action": alert.action, "command": alert.command}
    firing = {"exp_labels": {**LABELS, "severity": "warning"}, "exp_annotations": told}
    test = {
        "interval": "1m",
        "input_series": [{"series": 'gpufleet:budget:gone_at_s{plan="chat"}', "values": "54000x60"}],
        "alert_rule_test": [{"alertname": "BudgetGoneEarly", "eval_time": "30m", "exp_alerts": [firing]}],
    }
    (tmp_path / "tests.yml").write_text(yaml.safe_dump({"rule_files": ["rules.yml"], "tests": [test]}))
    done = subprocess.run(
        [str(PROMTOOL), "test", "rules", "tests.yml"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


@lru_cache
def seen_metrics() -> frozenset[str]:
    return frozenset(metrics_of("dcgm-exporter").by_name)


def test_gpus_are_counted_by_a_metric_that_is_on_by_default() -> None:
    from gpufleet.monitor.machines_seen import GPU_SERIES

    assert GPU_SERIES in seen_metrics()
