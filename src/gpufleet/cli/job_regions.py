"""What `gpufleet regions PLAN.json` answers: words of regions, parsed, and put to the api with the plan of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpufleet.cli.asking import Typed
from gpufleet.cli.market import MarketFlags
from gpufleet.cli.money import write_money_in
from gpufleet.cli.plan_words import SaidWords, value_of
from gpufleet.errors import UsageError
from gpufleet.inputs.plan_file import OF_JOBS as OF_PLANS
from gpufleet.inputs.plan_file import holds_answer, is_service_plan
from gpufleet.questions.fields import CURRENCY, ServeRequest
from gpufleet.questions.regions import JobRegionRequest, RegionRequest
from gpufleet.questions.words import words_of
from gpufleet.table import SUCH_AS

if TYPE_CHECKING:
    from gpufleet.results.regions import JobRegionPlan

OF_JOBS = words_of(JobRegionRequest)
OF_JOBS_ALONE = {name: row for name, row in OF_JOBS.items() if name not in words_of(ServeRequest, RegionRequest)}
NO_USERS, SAID_BY_PLAN = "a job has no users, so where they are changes nothing", "the plan of a job says what it is"
EXPECTED = f"{OF_PLANS}; or a MODEL"
STAYS = "--stay keeps the job and its data in an area; the words of a job are {}."


def is_job(asked: Typed) -> bool:
    """Whether an answer of ours stands in place of the model."""
    model = asked.words.model
    return model is not None and holds_answer(model)


def job_regions_answer(asked: Typed, market: MarketFlags) -> JobRegionPlan:
    """The regions for the plan that was named, with what was typed over what is preferred."""
    from gpufleet.api.job_regions import plan_job_regions

    path = str(asked.words.model)
    refuse_service(path)
    refuse_of_services(asked)
    said = asked.words.over(asked.preferred)
    write_money_in(said.text(CURRENCY.name))
    words = said.only(OF_JOBS).words
    values = {OF_JOBS[name].field: value_of(OF_JOBS[name], text, SaidWords(said)) for name, text in words.items()}
    request = JobRegionRequest(
        path,
        **values,
        max_price_age_s=market.max_price_age_s,
        today=market.today,
        price_change=market.price_change,
    )
    return plan_job_regions(request, catalog=market.tables())


def refuse_service(path: str) -> None:
    """Refuse the plan of a service, whose question is asked again with users and limits."""
    if is_service_plan(path, EXPECTED):
        raise UsageError(
            f"{path!r} is the plan of a service",
            expected=EXPECTED,
            hint=f"Where a service runs: '{SUCH_AS['regions']}'.",
        )


def refuse_of_services(asked: Typed) -> None:
    """Refuse what only services have."""
    heard = {"model", "rows", CURRENCY.name, *asked.unsaid, *OF_JOBS}
    said = [name for name in asked.words.words if name not in heard]
    if said:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in said)
        known = ", ".join(row.flag for row in OF_JOBS.values())
        problem = NO_USERS if "users" in said else SAID_BY_PLAN
        raise UsageError(problem, found=flags, expected="it left out", hint=STAYS.format(known))


def refuse_of_jobs(asked: Typed) -> None:
    """Refuse what only jobs have, where there is none."""
    said = [row.flag for name, row in OF_JOBS_ALONE.items() if name in asked.words.words]
    if said:
        raise UsageError(
            f"{', '.join(said)} is of a job",
            expected="the plan of one: gpufleet regions PLAN.json",
            hint="'plan batch', 'plan train' and 'plan finetune' write it with --out-file PLAN.json.",
        )
