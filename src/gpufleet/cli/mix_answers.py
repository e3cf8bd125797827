"""What `gpufleet mix` answers: words of services and of the mix, parsed, and put to the api."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from gpufleet.cli.asking import Typed
from gpufleet.cli.market import MarketFlags
from gpufleet.cli.money import usd_of, write_money_in
from gpufleet.cli.plan_answers import fleet_requests, likings, serve_request
from gpufleet.cli.plan_words import SaidWords, ServeFlags, value_of
from gpufleet.errors import UsageError
from gpufleet.inputs.workload import WorkloadFile, read_workload, refuse_said
from gpufleet.questions.fields import SERVE, ServeRequest
from gpufleet.questions.mix import MixRequest
from gpufleet.questions.regions import RegionRequest
from gpufleet.questions.words import words_of
from gpufleet.units import parse_usd_per_hour

if TYPE_CHECKING:
    from gpufleet.results.mix import FleetMix
    from gpufleet.results.regions import RegionPlan

M = TypeVar("M", bound=MixRequest)
VERBS: dict[type[MixRequest], str] = {MixRequest: "mix", RegionRequest: "regions"}


def mix_answer(asked: Typed, market: MarketFlags) -> FleetMix:
    """The mix for what was typed, over what the file says, over what is preferred."""
    from gpufleet.api.mixes import plan_mix

    services, request, budget = said_of(asked, MixRequest, market)
    return plan_mix(services, request, budget_usd_per_hour=budget, catalog=market.tables())


def regions_answer(asked: Typed, market: MarketFlags) -> RegionPlan:
    """The regions for what was typed, over what the file says, over what is preferred."""
    from gpufleet.api.regions import plan_regions

    services, request, budget = said_of(asked, RegionRequest, market)
    return plan_regions(services, request, budget_usd_per_hour=budget, catalog=market.tables())


def said_of(asked: Typed, kind: type[M], market: MarketFlags) -> tuple[list[ServeRequest], M, float | None]:
    """The services, what their mix is held to, and the budget."""
    written = WorkloadFile() if asked.workload is None else read_workload(asked.workload)
    verb = VERBS[kind]
    refuse_said(written, {*words_of(*SERVE), "classes", "models"}, verb)
    of_mix = words_of(kind)
    typed, liked = asked.words.without(*of_mix), likings(asked.preferred, written)
    said = typed.over(written).over(liked)
    write_money_in(said.text("currency"))
    services = services_of(typed, written, liked, ServeFlags(market=market, verb=verb))
    budget = usd_of(said.text("budget"), said.text("currency"), parse_usd_per_hour)
    words = SaidWords(WorkloadFile({**asked.words.only(of_mix).words, **currency_of(said)}))
    values = {of_mix[n].field: value_of(of_mix[n], text, words) for n, text in words.words.words.items() if n in of_mix}
    return services, kind(**values), budget


def currency_of(said: WorkloadFile) -> dict[str, str]:
    """The currency, where one was said."""
    currency = said.text("currency")
    return {} if currency is None else {"currency": currency}


def services_of(
    typed: WorkloadFile, written: WorkloadFile, liked: WorkloadFile, flags: ServeFlags
) -> list[ServeRequest]:
    """The question of each service; encoders keep machines of their own, in a plan."""
    if written.models is None:
        return [serve_request(typed.without("budget"), written.without("budget"), liked, flags)]
    requests = fleet_requests(typed, written, liked, flags)
    writers = [request for request in requests if isinstance(request, ServeRequest)]
    if len(writers) < len(requests):
        raise UsageError(
            "a mix is of models that write", found="an encoder among the models", hint="'gpufleet plan serve' plans it."
        )
    return writers
