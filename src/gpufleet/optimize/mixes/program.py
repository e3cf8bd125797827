"""The cheapest mix as an integer programme: machines are whole, buckets are split.

min  sum_o p_o n_o + sum_o leaving_o max(today_o - n_o, 0) + sum_bw sending_bw s_bw
     sum_w s_bw = 1                                    each bucket is carried whole
     sum_b load_bw s_bw <= x_w                         by the units of the ways that it is sent
     sum_(w of o) machines_w x_w <= n_o <= most_o      which stand on machines
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.mix import ROUNDING, Loss, MachineLimit, Mix, MixProblem, Share
from gpufleet.optimize.mixes.effort import Effort
from gpufleet.optimize.mixes.survival import Worth, usd_per_unit
from gpufleet.records import dataclass

LEAST_TIME_S = 0.05
PROVED_GAP = 1e-6
MOST_FIRST_NODES, ITERATIONS_PER_NODE, WORTH_ANEW = 1000, 30, 2.0
"""Nodes of the first try, by what most of them take, and how many times as many a second one, anew, has to allow.

Cutting planes take ten times as long as the nodes that they save, but where clouds have shares.
"""


@dataclass(frozen=True, eq=False)
class Answer:
    """Machines of every offer, units of every way, their objective, and what none is below."""

    machines: FloatArray
    units: FloatArray
    objective: float
    least: float


def is_installed() -> bool:
    """Whether OR-Tools is there."""
    return find_spec("ortools") is not None


class Program:
    """The programme of a problem.

    `is_elastic`: limits, shares and quotas may give way. `is_split`: buckets are split in it; where they are not, it
    knows of them what it is told that units are worth. `most_usd_per_hour`: dearer mixes are of no use.
    """

    def __init__(
        self,
        problem: MixProblem,
        *,
        is_elastic: bool = False,
        is_split: bool = True,
        most_usd_per_hour: float = np.inf,
    ) -> None:
        from ortools.math_opt.python import mathopt

        self.problem, self.solver, self.is_elastic = problem, mathopt, is_elastic
        self.model = mathopt.Model()
        self.is_infeasible = False
        self.excess: dict[str, Any] = {}
        self.left: dict[str, list[Any]] = {}
        self.told: set[tuple[str, bytes]] = set()
        self.there: dict[tuple[int, int], Any] = {}
        self.scale: dict[str, float] = {}
        most = np.full(problem.num_offers, np.inf) if is_elastic else problem.most_machines
        self.machines = [self.model.add_integer_variable(lb=0, ub=float(m)) for m in most]
        self.most = self._most_units(most_usd_per_hour)
        self.units = [self.model.add_integer_variable(lb=0, ub=float(most)) for most in self.most]
        self.share = self._carried([1.0 * x for x in self.units]) if is_split else {}
        self._stand_on_machines()
        self._keep_replicas()
        for limit in self._limits():
            self._keep(limit)
        for share in problem.shares:
            self._keep_share(share)

    def _sum(self, terms: Any) -> Any:
        return self.solver.fast_sum(terms)

    def _carried(self, capacity: list[Any]) -> dict[tuple[int, int], Any]:
        """Shares of every bucket within these capacities, [way]; the shares by (bucket, way)."""
        loads, m = self.problem.load_units, self.model
        at = [(int(b), int(w)) for b, w in zip(*np.nonzero(np.isfinite(loads)), strict=True)]
        share = {key: m.add_variable(lb=0, ub=1) for key in at}
        of_bucket: list[list[Any]] = [[] for _ in range(self.problem.num_buckets)]
        of_way: list[list[Any]] = [[] for _ in range(self.problem.num_ways)]
        for (b, w), s in share.items():
            of_bucket[b].append(s)
            of_way[w].append(float(loads[b, w]) * s)
        for bucket in of_bucket:
            m.add_linear_constraint(self._sum(bucket) == 1)
        for w, used in enumerate(of_way):
            if used:
                m.add_linear_constraint(self._sum(used) - capacity[w] <= 0)
        return share

    def _stand_on_machines(self) -> None:
        """Units stand on machines, and no machine is without: a share or a cost of leaving is no use of it."""
        p = self.problem
        for o, machines in enumerate(self.machines):
            held = [float(p.machines_per_unit[w]) * self.units[w] for w in np.flatnonzero(p.offer_of_way == o)]
            self.model.add_linear_constraint(self._sum(held) - machines <= 0)
            self.model.add_linear_constraint(machines - self._sum(held) <= 1 - ROUNDING)

    def _keep_replicas(self) -> None:
        p = self.problem
        for service, least in enumerate(p.least_replicas):
            held = [float(p.replicas_per_unit[w]) * self.units[w] for w in np.flatnonzero(p.service_of_way == service)]
            if least > 0:
                self.model.add_linear_constraint(self._sum(held) >= float(least))

    def _limits(self) -> Iterator[MachineLimit]:
        """All limits; where they may give way, how many machines can be had is one of them."""
        yield from self.problem.limits
        if self.is_elastic:
            for o in np.flatnonzero(np.isfinite(self.problem.most_machines)):
                alone = np.zeros(self.problem.num_offers)
                alone[o] = 1.0
                yield MachineLimit(f"machines {o}", alone, float(self.problem.most_machines[o]))

    def _keep(self, limit: MachineLimit) -> None:
        total = self._sum([float(a) * n for a, n in zip(limit.per_machine, self.machines, strict=True) if a])
        beyond = self._excess(limit.name, limit.scale)
        if np.isfinite(limit.most):
            self.model.add_linear_constraint(total - beyond <= limit.most)
        if np.isfinite(limit.least):
            self.model.add_linear_constraint(total + beyond >= limit.least)

    def _excess(self, name: str, scale: float) -> Any:
        if not self.is_elastic:
            return 0.0
        self.scale[name] = max(scale, ROUNDING)
        self.excess[name] = self.model.add_variable(lb=0)
        return self.excess[name]

    def _keep_share(self, share: Share) -> None:
        m, weight = self.model, [float(w) for w in share.weight]
        deviation = self._sum(
            [
                (w * (float(is_in) - share.share_ratio)) * n
                for w, is_in, n in zip(weight, share.is_member, self.machines, strict=True)
            ]
        )
        beyond = self._excess(share.name, max(weight))
        if share.tolerance_ratio is None:
            tolerance = self._one_machine(share)
        else:
            tolerance = share.tolerance_ratio * self._sum([w * n for w, n in zip(weight, self.machines, strict=True)])
        m.add_linear_constraint(deviation - tolerance - beyond <= 0)
        m.add_linear_constraint(deviation + tolerance + beyond >= 0)

    def _one_machine(self, share: Share) -> Any:
        """The weight of one machine of the members that is bought, or of the lightest."""
        members = [(self.machines[o], float(share.weight[o])) for o in np.flatnonzero(share.is_member)]
        lightest, chosen = self.model.add_binary_variable(), [self.model.add_binary_variable() for _ in members]
        self.model.add_linear_constraint(self._sum([lightest, *chosen]) <= 1)
        for q, (n, _) in zip(chosen, members, strict=True):
            self.model.add_linear_constraint(q - n <= 0)
        weights = [w * q for q, (_, w) in zip(chosen, members, strict=True)]
        return self._sum([share.lightest * lightest, *weights])

    def survive(self, loss: Loss, worth: Worth) -> bool:
        """What a loss leaves is worth what carrying all buckets takes; whether that was not told before."""
        told = (loss.name, worth.price.tobytes())
        if told in self.told:
            return False
        self.told.add(told)
        if loss.name not in self.left:
            self.left[loss.name] = [self._left(w, loss) for w in range(self.problem.num_ways)]
        left = [float(p) * u for p, u in zip(worth.price, self.left[loss.name], strict=True) if p > 0]
        self.model.add_linear_constraint(self._sum(left) >= worth.needed)
        return True

    def _left(self, way: int, loss: Loss) -> Any:
        units, ratio, lost = self.units[way], float(loss.lost_ratio[way]), float(loss.lost_units[way])
        if ratio >= 1:
            return 0.0
        if not ratio:
            return units - self._sum([self._is_there(way, at) for at in range(int(lost))])
        left, is_any = self.model.add_integer_variable(lb=0), self.model.add_binary_variable()
        self.model.add_linear_constraint(left - (1 - ratio) * units + lost * is_any <= 0)
        self.model.add_linear_constraint(left - float(self.most[way]) * is_any <= 0)
        return 1.0 * left

    def _is_there(self, way: int, at: int) -> Any:
        """Whether a way has more than so many units, so that one more can be lost."""
        if (way, at) not in self.there:
            self.there[way, at] = is_there = self.model.add_binary_variable()
            self.model.add_linear_constraint(self.units[way] - float(self.most[way]) * is_there <= float(at))
        return self.there[way, at]

    def _most_units(self, most_usd_per_hour: float) -> FloatArray:
        """Units of every way beyond which no more are of any use, [way]."""
        problem = self.problem
        reachable = np.isfinite(problem.load_units)
        carry = np.ceil(np.sum(np.where(reachable, problem.load_units, 0.0), axis=0))
        kept, lost = np.ones(problem.num_ways), np.zeros(problem.num_ways)
        for loss in problem.losses:
            kept = np.where(loss.lost_ratio < 1, np.minimum(kept, 1 - loss.lost_ratio), kept)
            lost = np.maximum(lost, loss.lost_units)
        carry = np.ceil((carry + lost + problem.spare_machines + 1) / kept) + 1
        replicas = np.ceil(problem.least_replicas[problem.service_of_way] / problem.replicas_per_unit)
        today = np.ceil(problem.machines_today[problem.offer_of_way] / problem.machines_per_unit)
        most = np.maximum.reduce([carry, replicas, today, *(self._in_share(share, carry) for share in problem.shares)])
        with np.errstate(divide="ignore"):
            paid = np.floor(most_usd_per_hour / usd_per_unit(problem) + ROUNDING)
        return np.asarray(np.where(reachable.any(axis=0), np.minimum(most, paid), 0.0))

    def _in_share(self, share: Share, carry: FloatArray) -> FloatArray:
        """Units of every way that weigh as much as a fleet in which the lesser side carries everything, [way]."""
        weight = self.problem.machines_per_unit * share.weight[self.problem.offer_of_way]
        lesser = min(x for x in (share.share_ratio, 1 - share.share_ratio, 1.0) if x > 0)
        return np.asarray(np.ceil(np.divide(carry @ weight / lesser, weight, out=carry.copy(), where=weight > 0)))

    def cost(self) -> Any:
        """What machines cost, what leaving those of today does, and what sending answers does."""
        p, terms = self.problem, []
        sending = p.sending
        for o, n in enumerate(self.machines):
            terms.append(float(p.usd_per_hour[o]) * n)
            if p.machines_today[o] > 0 and p.leaving_usd_per_hour[o] > 0:
                given_up = self.model.add_variable(lb=0)
                self.model.add_linear_constraint(given_up + n >= float(p.machines_today[o]))
                terms.append(float(p.leaving_usd_per_hour[o]) * given_up)
        terms.extend(float(sending[key]) * s for key, s in self.share.items() if sending[key] > 0)
        return self._sum(terms) + (0.0 if self.share else p.least_sending_usd_per_hour)

    def given_way(self) -> Any:
        """How far all limits give way, each relative to itself; None where there are none."""
        relative = [x * (1 / self.scale[name]) for name, x in self.excess.items()]
        return self._sum(relative) if relative else None

    def hold(self, expression: Any, most: float) -> None:
        """Nothing that comes is above what was found, but for rounding."""
        self.model.add_linear_constraint(expression <= most + ROUNDING * max(1.0, abs(most)))

    def solved(self, objective: Any, effort: Effort, hint: Mix | None = None) -> Answer | None:
        """The solver's answer, None where there is no mix or none was found.

        Iterations are counted by their nodes: a first try tells how many a node takes.
        """
        self.model.minimize(objective)
        first = max(min(MOST_FIRST_NODES, effort.iterations_left // ITERATIONS_PER_NODE), 1)
        answer = self._tried(effort, int(first), hint)
        if self._is_limited(answer) and not effort.is_over and math.isfinite(effort.iterations_left):
            each = answer.solve_stats.simplex_iterations / max(answer.solve_stats.node_count, 1)
            nodes = math.floor(effort.iterations_left / max(each, 1.0))
            if nodes >= WORTH_ANEW * first:
                answer = self._tried(effort, nodes, hint)
        return self._read(answer) if answer.has_primal_feasible_solution() else None

    def _tried(self, effort: Effort, most_nodes: int, hint: Mix | None) -> Any:
        """What the solver finds in so many nodes, or in the seconds that are left where these are limited."""
        seconds = effort.seconds_left
        limits = (
            {"node_limit": most_nodes}
            if math.isinf(seconds)
            else {"time_limit": datetime.timedelta(seconds=max(seconds, LEAST_TIME_S))}
        )
        cuts = self.solver.Emphasis.LOW if self.problem.shares else self.solver.Emphasis.OFF
        parameters = self.solver.SolveParameters(relative_gap_tolerance=PROVED_GAP, cuts=cuts, **limits)
        told = self.solver.ModelSolveParameters(solution_hints=[self._hint(hint)] if hint is not None else [])
        answer = self.solver.solve(self.model, self.solver.SolverType.GSCIP, params=parameters, model_params=told)
        effort.spend(answer.solve_stats.simplex_iterations)
        self.is_infeasible = answer.termination.reason is self.solver.TerminationReason.INFEASIBLE
        effort.meter.is_cut |= self._is_limited(answer) and math.isfinite(seconds)
        return answer

    def _is_limited(self, answer: Any) -> bool:
        reasons = self.solver.TerminationReason
        return answer.termination.reason in (reasons.FEASIBLE, reasons.NO_SOLUTION_FOUND)

    def _hint(self, mix: Mix) -> Any:
        known = {n: float(v) for n, v in zip(self.machines, mix.machines, strict=True)}
        known |= {x: float(v) for x, v in zip(self.units, mix.units, strict=True)}
        known |= {s: float(mix.share[at]) for at, s in self.share.items()}
        return self.solver.SolutionHint(variable_values=known)

    def _read(self, answer: Any) -> Answer:
        """Machines and units of an answer, rounded to whole ones."""
        values = answer.variable_values()
        machines, units = (np.round([values[v] for v in of]) for of in (self.machines, self.units))
        bounds = answer.termination.objective_bounds
        return Answer(machines, units, float(bounds.primal_bound), float(bounds.dual_bound))
