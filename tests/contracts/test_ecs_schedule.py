"""A law of the clock on Amazon ECS: its actions, run over a week, have the machines of the windows that were learnt."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.contracts.terraform_checks import module, of_type, problems_of
from tests.contracts.test_scaled_files import IMAGE, THURSDAY, answer

import gpufleet
from gpufleet import DeployedPlan
from gpufleet.errors import UsageError
from gpufleet.results.autoscale import AutoscaleResult

DAYS = {"MON": 0, "TUE": 1, "WED": 2, "THU": 3, "FRI": 4, "SAT": 5, "SUN": 6}
CRON = re.compile(r"cron\((\d+) (\d+) \? \* (\*|[A-Z,]+) \*\)")
MINUTES_A_DAY = 24 * 60


def files_of(found: DeployedPlan) -> dict[str, str]:
    """Files of Terraform by name."""
    return {file.name: file.text for file in found.files if file.name.endswith(".tf")}


def moments(actions: dict[str, Any]) -> list[tuple[int, int]]:
    """Minutes after Monday's midnight at which the number of copies is set, and the number."""
    found = []
    for action in actions.values():
        matched = CRON.fullmatch(action["schedule"])
        assert matched is not None, action["schedule"]
        minute, hour, on = int(matched[1]), int(matched[2]), matched[3]
        [bounds] = action["scalable_target_action"]
        assert bounds["min_capacity"] == bounds["max_capacity"]
        days = range(7) if on == "*" else [DAYS[day] for day in on.split(",")]
        found += [(day * MINUTES_A_DAY + 60 * hour + minute, int(bounds["max_capacity"])) for day in days]
    return sorted(found)


def of_windows(told: AutoscaleResult, minute: int) -> int:
    """The most machines of all windows that are open at a minute of the week, each opened a cold start early."""
    lead = -(-told.cold_start_s // 60)
    found = [told.recommendation.least_in_windows, 1]
    for window in told.recommendation.windows:
        for day in window.days:
            start = (day - 1) * MINUTES_A_DAY + window.start_s / 60 - lead
            end = (day - 1) * MINUTES_A_DAY + window.end_s / 60
            if any(start <= minute + week * 7 * MINUTES_A_DAY < end for week in (-1, 0, 1)):
                found.append(window.machines)
    return min(max(found), told.most_machines)


def test_actions_have_the_machines_of_the_windows_at_every_minute_of_the_week() -> None:
    told = answer("cron-windows", num_days=8, start=THURSDAY)
    found = gpufleet.deploy_plan(told, "terraform-ecs", image=IMAGE, timezone="Europe/Berlin")
    assert problems_of(files_of(found)) == []
    whole = module(files_of(found))
    actions = of_type(whole, "aws_appautoscaling_scheduled_action")
    assert {action["timezone"] for action in actions.values()} == {"Europe/Berlin"}
    set_at = moments(actions)
    copies = told.machine.copies
    for minute in range(0, 7 * MINUTES_A_DAY, 5):
        last = max((each for each in set_at if each[0] <= minute), default=set_at[-1])
        assert last[1] == of_windows(told, minute) * copies, minute
    [group] = of_type(whole, "aws_autoscaling_group").values()
    [scaled] = of_type(whole, "aws_appautoscaling_target").values()
    assert group["max_size"] * copies >= max(number for _, number in set_at)
    assert scaled["min_capacity"] <= min(number for _, number in set_at)
    assert scaled["max_capacity"] >= max(number for _, number in set_at)
    assert [str(each) for each in group["lifecycle"][0]["ignore_changes"]] == ["desired_capacity"]


def test_the_seeds_nights_have_no_copies() -> None:
    found = gpufleet.deploy_plan(answer("schedule"), "terraform-ecs", image=IMAGE)
    set_at = moments(of_type(module(files_of(found)), "aws_appautoscaling_scheduled_action"))
    at_ten = {number for minute, number in set_at if minute % MINUTES_A_DAY == 22 * 60}
    assert at_ten == {0}
    assert {minute % MINUTES_A_DAY for minute, number in set_at if number} == {6 * 60}


@pytest.mark.parametrize("law", ["keda-rate", "hpa", "keda-cron-rate"])
def test_laws_that_read_engines_are_for_clusters(law: str) -> None:
    with pytest.raises(UsageError, match="cannot hold this plan"):
        gpufleet.deploy_plan(answer(law), "terraform-ecs", image=IMAGE)
