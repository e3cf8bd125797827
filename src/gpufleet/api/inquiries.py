"""What is asked about a plan once it is there: why not something else, what flips it, the front, a token API."""

from __future__ import annotations

import math

from gpufleet.answers.decoder_service import front_of
from gpufleet.answers.levers import flips_of
from gpufleet.answers.other_machines import best_of, needed_to_serve, price_to_win
from gpufleet.answers.plan_parts import refusals
from gpufleet.api.serve_questions import Prepared
from gpufleet.api.setups import narrowed, parse_setup
from gpufleet.catalog.current_date import current_date
from gpufleet.catalog.token_prices import api_of
from gpufleet.domain.slo import metric_of
from gpufleet.errors import UnknownName, UsageError
from gpufleet.optimize.break_even import break_even_rates
from gpufleet.optimize.dated import writer_with_rejections
from gpufleet.optimize.flips import all_flips
from gpufleet.pricing.token_price import TokenPrice
from gpufleet.results.catalog import TokenApi
from gpufleet.results.levers import Flip
from gpufleet.results.plan import BreakEven, Front, ServePlan, WhyNot
from gpufleet.units import USD_PER_MILLION

USUAL_FIGURE = "latency.p95"
LEAST_USD_PER_MILLION = 1e-6


def why_not(prepared: Prepared, plan: ServePlan, text: str) -> WhyNot:
    """Why GPUs or a machine type are not the answer of a plan: what each candidate misses, or what it costs."""
    setup = parse_setup(text, prepared.tables)
    question, left_out = narrowed(prepared.request, prepared.question, prepared.tables, setup)
    question, solution, rejected = writer_with_rejections(question, prepared.calibration)
    cheapest, answer = best_of(question, solution), plan.answer if plan.deployments else None
    limits, then = ({}, None) if cheapest is not None else needed_to_serve(question, solution)
    return WhyNot(
        model=question.model.name,
        asked=setup.asked,
        gpu=setup.gpu,
        gpus_per_replica=setup.gpus_per_replica,
        largest_machine_gpus=max((i.gpu_count for i in question.instances), default=None),
        not_asked=left_out or None,
        cheapest=cheapest,
        answer=answer,
        wins_below_usd_per_hour=price_to_win(solution, answer),
        needed_limits_s=limits,
        serves_then=then,
        refused=refusals(rejected),
        notes=list(setup.notes),
    )


def what_flips(prepared: Prepared) -> list[Flip]:
    """Every flip of an answer: prices, rate, limits, lengths."""
    return flips_of(all_flips(prepared.question, prepared.served, prepared.calibration))


def pareto(prepared: Prepared, figure: str | None = None) -> Front:
    """The front of cost against a latency figure: the asked one, else that of the latency objective, else its p95."""
    question, solution = prepared.question, prepared.served
    known = list(solution.found.objectives_s)
    usual = next((label for label in known if metric_of(label) == "latency"), USUAL_FIGURE)
    chosen = usual if figure is None else figure
    if chosen not in known:
        raise UnknownName("latency figure", chosen, known)
    return front_of(question, solution, chosen)


def against_tokens(prepared: Prepared, price: str | TokenPrice) -> BreakEven:
    """The answer beside an API that charges by the token, and from which rate on machines cost no more.

    `price`: '0.6/1.2', or the name of a host such as 'together'.
    """
    question, solution = prepared.question, prepared.served
    workload, own = question.demand.workload, solution.ranked[0].usd_per_hour
    api = api_named(prepared, price) if isinstance(price, str) and names_host(price) else None
    if api is not None:
        paid = TokenPrice(api.usd_per_million_input_tokens, api.usd_per_million_output_tokens)
    else:
        paid = price if isinstance(price, TokenPrice) else parse_token_price(price)
    mean = question.demand.mean_requests_per_s
    asked_usd_per_hour = paid.usd_per_hour(mean, workload.input_tokens, workload.output_tokens)
    rates = break_even_rates(question, solution, paid)
    return BreakEven(
        usd_per_million_input_tokens=paid.usd_per_million_input_tokens,
        usd_per_million_output_tokens=paid.usd_per_million_output_tokens,
        mean_requests_per_s=mean,
        api_usd_per_hour=asked_usd_per_hour,
        own_usd_per_hour=own,
        own_over_api_ratio=own / asked_usd_per_hour,
        first_requests_per_s=rates.first_requests_per_s,
        settled_requests_per_s=rates.settled_requests_per_s,
        api=api,
    )


def names_host(price: str) -> bool:
    """Whether a token price is the name of a host: it begins with a letter and holds no price.

    >>> names_host("together"), names_host("0.6/1.2"), names_host("EUR 0.6")
    (True, False, False)
    """
    return price.strip()[:1].isalpha() and not any(letter.isdigit() for letter in price)


def api_named(prepared: Prepared, host: str) -> TokenApi:
    """What a host asks for the model of a plan."""
    model, workload = prepared.request.model, prepared.question.demand.workload
    name = model if isinstance(model, str) else prepared.question.model.name
    return api_of(name, host, workload.input_tokens, workload.output_tokens, current_date())


def parse_token_price(text: str) -> TokenPrice:
    """'0.6/1.2': USD per million tokens of prompts and of answers; one number holds for both.

    >>> parse_token_price("0.6/1.2")
    TokenPrice(usd_per_million_input_tokens=0.6, usd_per_million_output_tokens=1.2)
    """
    parts = [part.strip().removeprefix("$") for part in str(text).split("/")]
    try:
        prices = [float(part) for part in parts]
    except ValueError:
        prices = []
    are_prices = len(prices) in (1, 2) and all(math.isfinite(p) and p >= 0 for p in prices)
    if not are_prices or sum(prices) < LEAST_USD_PER_MILLION:
        expected = "USD per 1M tokens in and out, such as '0.6/1.2'"
        raise UsageError("cannot read a token price", found=text, expected=expected)
    for price in filter(None, prices):
        USD_PER_MILLION.refuse_outside(price, "a token price", text)
    return TokenPrice(prices[0], prices[-1])
