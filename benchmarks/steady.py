"""How far a bill moves with its question, and what is paid for an answer that holds more surely.

`python benchmarks/steady.py` asks 100 questions, half of them with a first token within 1.1 to 1.5 times that of a lone
request, and each again with every number moved by 2 and by 5 %, under several rules of choice. Printed: how often the
bill changes by more than a tenth, by the size of the fleet and where machine and layout stay; and of the answers: the
share that holds at 90 %, the share of 20 draws of the engine's speed (one for all copies) in which all limits hold at
the asked rate, and dollars over the cheapest row of any that holds in four of five draws.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gpufleet.api.serve_questions import architecture_of, serve_question
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.load import load_catalog
from gpufleet.domain.arrays import FloatArray
from gpufleet.optimize.contest import Contest
from gpufleet.optimize.copies.decoder import WriterQuestion, WriterSolution
from gpufleet.optimize.front import pairs_of_entrants
from gpufleet.optimize.market import PricedPlacement, bought
from gpufleet.optimize.placement import place_all
from gpufleet.optimize.promise import solved_as_promised
from gpufleet.optimize.replicas import Rejections
from gpufleet.optimize.service import solve_serve
from gpufleet.optimize.size import highest_rate, ratio_of, strains_as_expected
from gpufleet.performance.queueing import normal_quantile
from gpufleet.questions.fields import ServeRequest

MODELS = (
    "llama-3.1-8b", "qwen3-32b", "llama-3.3-70b", "qwen3-30b-a3b", "gemma-3-27b", "gpt-oss-120b", "mixtral-8x7b",
    "qwen2.5-7b",
)  # fmt: skip
MOVES, MOVED_RATIO, NUM_DRAWS, MOST_FAILED, FEW = (-0.05, -0.02, 0.02, 0.05), 0.1, 20, 4, 2
RULES = {"by cost": 0.0, "up to 10 % more": 0.1, "up to 20 % more": 0.2, "up to 40 % more": 0.4}
NEAR_LONE = (1.1, 1.5)
SEED = 4


class Asked(NamedTuple):
    """A question by its numbers."""

    model: str
    rate: float
    input_tokens: float
    output_tokens: float
    ttft_s: float
    tpot_s: float

    @property
    def request(self) -> ServeRequest:
        """As a user asks it."""
        slo = f"ttft.p95<{self.ttft_s:.6g}s,tpot.p95<{self.tpot_s:.6g}s"
        return ServeRequest(self.model, self.rate, self.input_tokens, self.output_tokens, slo)

    def moved(self) -> Iterator[tuple[float, Asked]]:
        """Every number moved alone, and by how much."""
        for name in self._fields[1:]:
            for move in MOVES:
                yield abs(move), self._replace(**{name: getattr(self, name) * (1 + move)})


class Choice(NamedTuple):
    """What a rule rents."""

    usd_per_hour: float
    machines: int
    key: tuple[str, str, str]
    is_sure: bool
    draws_ratio: float
    over_cheapest: float


class Tally(NamedTuple):
    """Of one rule: whether the bill moved by a tenth, by move and kind of case; and its answers."""

    moved: dict[tuple[float, str], list[bool]]
    answers: list[Choice]


def questions(number: int) -> Iterator[Asked]:
    """Questions of all sizes; every other one has a limit near what a lone request needs."""
    dice = random.Random(SEED)
    for at in range(number):
        asked = Asked(
            dice.choice(MODELS),
            round(10 ** dice.uniform(-0.3, 1.9), 2),
            round(10 ** dice.uniform(2.3, 3.8)),
            round(10 ** dice.uniform(1.8, 2.9)),
            round(10 ** dice.uniform(-0.5, 0.6), 3),
            round(10 ** dice.uniform(-1.7, -0.9), 4),
        )
        ratio = dice.uniform(*NEAR_LONE)
        yield near_lone(asked, ratio) if at % 2 else asked


def near_lone(asked: Asked, ratio: float) -> Asked:
    """The same with a first token within so many times that of a lone request on what it rents."""
    question, solution = solved(asked)
    if not solution.ranked:
        return asked
    row, [ttft, _] = solution.ranked[0].placement.row, question.demand.workload.slo.limits
    return asked._replace(ttft_s=ratio * float(np.min(solution.found.planned_s(ttft.label)[row])))


def solved(asked: Asked) -> tuple[WriterQuestion, WriterSolution]:
    """As a plan solves it."""
    tables = load_catalog()
    question, _ = serve_question(asked.request, architecture_of(asked.request), tables)
    return solved_as_promised(question, lambda q: solve_serve(q, calibration_of(tables)), is_asked=False)


def choices(asked: Asked) -> dict[str, Choice] | None:
    """What every rule rents; None where nothing serves with the usual confidence."""
    question, solution = solved(asked)
    if not solution.ranked or solution.found.caution is None:
        return None
    drawn = capacity_of_draws(question, solution)
    least = cheapest_of_four_in_five(question, solution, drawn)
    found = {}
    for rule, steady in RULES.items():
        demand = replace(question.demand, steady_ratio=steady)
        placements = place_all(question.instances, solution.copies, solution.found, demand)
        found[rule] = choice(question, solution, bought(placements, question.offers, question.purse, Rejections())[0],
                             drawn, least)  # fmt: skip
    return found


def choice(
    question: WriterQuestion, solution: WriterSolution, priced: PricedPlacement, drawn: FloatArray, least: float
) -> Choice:
    """One answer, judged."""
    p, rate, surely = (
        priced.placement,
        question.demand.workload.rate_requests_per_s,
        solution.found.surer_requests_per_s,
    )
    assert surely is not None
    return Choice(
        priced.usd_per_hour,
        p.instance_count,
        (p.instance.cloud, p.instance.name, solution.copies.label(p.row)),
        p.replicas * float(surely[p.row]) >= question.demand.planned_requests_per_s,
        float(np.mean(p.replicas * drawn[:, p.row] >= rate * (1 - 1e-9))),
        priced.likely_usd_per_hour / least,
    )


def capacity_of_draws(question: WriterQuestion, solution: WriterSolution) -> FloatArray:
    """The rate that each candidate keeps its limits at in every draw of speed, the slowest last [draw, candidate]."""
    found, caution = solution.found, solution.found.caution
    assert caution is not None
    expected = strains_as_expected(found.strains, found.objectives_s, caution)
    rates = []
    for share in (np.arange(NUM_DRAWS) + 0.5) / NUM_DRAWS:
        power = float(normal_quantile(share) / normal_quantile(question.demand.confidence))
        of_draw = replace(caution, ttft_ratio=caution.ttft_ratio**power, tpot_ratio=caution.tpot_ratio**power)
        strains = [x * ratio_of(reason, found.objectives_s, of_draw) for reason, x in expected.items()]
        rates.append(highest_rate(strains, found.curves.requests_per_s / of_draw.tpot_ratio)[2])
    return np.stack(rates)


def cheapest_of_four_in_five(question: WriterQuestion, solution: WriterSolution, drawn: FloatArray) -> float:
    """What the cheapest number of machines of any row costs by now that keeps all limits in four of five draws."""
    contest = Contest.of(question, solution)
    entrant, pair = pairs_of_entrants(contest)
    each, kept = contest.hosts.per_machine[pair], np.sort(drawn, axis=0)[MOST_FAILED][contest.hosts.row[pair]]
    with np.errstate(divide="ignore"):
        machines = np.maximum(np.ceil(question.demand.workload.rate_requests_per_s / (each * kept)), 1.0)
    machines = np.where(machines <= contest.supply[entrant], machines, np.inf)
    return float(np.min(machines * contest.usd_per_hour[entrant] * contest.age_ratio[entrant]))


def judged(number: int) -> tuple[int, dict[str, Tally]]:
    """How many questions have an answer, and how each rule did."""
    tallies, num_answered = {rule: Tally({}, []) for rule in RULES}, 0
    for asked in questions(number):
        now = choices(asked)
        if now is None:
            continue
        num_answered += 1
        for rule, own in now.items():
            tallies[rule].answers.append(own)
        for move, other in asked.moved():
            then = choices(other)
            for rule, tally in tallies.items():
                for kind, is_moved in cases(now[rule], None if then is None else then[rule]):
                    tally.moved.setdefault((move, kind), []).append(is_moved)
    return num_answered, tallies


def cases(now: Choice, then: Choice | None) -> Iterator[tuple[str, bool]]:
    """A move by the kinds of case that it belongs to, and whether the bill moved by a tenth."""
    is_moved = then is None or abs(then.usd_per_hour / now.usd_per_hour - 1) > MOVED_RATIO
    yield "all", is_moved
    yield ("few" if now.machines <= FEW else "many"), is_moved
    if then is not None and then.key == now.key:
        yield "same", is_moved


def shares(moved: dict[tuple[float, str], list[bool]], kind: str) -> str:
    """Of moves of 2 and of 5 %."""
    return " / ".join(f"{np.mean(moved.get((move, kind), [False])):5.1%}" for move in sorted({abs(m) for m in MOVES}))


def of_answers(answers: Sequence[Choice]) -> str:
    """How sure, and how dear."""
    over, drawn = np.array([c.over_cheapest for c in answers]), np.array([c.draws_ratio for c in answers])
    sure = np.mean([c.is_sure for c in answers])
    ends = f"{np.median(over):.2f} {np.quantile(over, 0.95):.2f} {over.max():.2f}"
    return f"{sure:4.0%}  {drawn.min():5.0%} {np.mean(drawn < 0.7):4.0%}  {ends}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=100)
    number, tallies = judged(parser.parse_args().questions)
    print(f"{number} questions with an answer; bills that move by over a tenth where a number moves by 2 / 5 %")
    print(f"{'rule':16}  {'all':>13}  {'3 or more':>13}  {'1 or 2':>13}  {'same row':>13}  ", end="")
    print("at 90 %  draws: least, under 70 %  over cheapest: median, 95 %, most")
    for rule, tally in tallies.items():
        moves = "  ".join(shares(tally.moved, kind) for kind in ("all", "many", "few", "same"))
        print(f"{rule:16}  {moves}  {of_answers(tally.answers)}")


if __name__ == "__main__":
    main()
