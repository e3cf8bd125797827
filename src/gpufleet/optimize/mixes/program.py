"""The cheapest mix as an integer programme: machines are whole, buckets are split.

min  sum_o p_o n_o + sum_o leaving_o max(today_o - n_o, 0) + sum_bw sending_bw s_bw
     sum_w s_bw = 1                                    each bucket is carried whole
     sum_b load_bw s_bw <= x_w                         by the units of the ways that it is sent
     sum_(w of o) machines_w x_w <= n_o <= most_o      which stand on machines
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

from gpufleet.domain.mix import ROUNDING, Loss, MachineLimit, Mix, MixProblem, Share
from gpufleet.optimize.mixes.balance import Worth

LEAST_TIME_S = 0.05
PROVED_GAP = 1e-6


def is_installed() -> bool:
    """Whether OR-Tools is there."""
    return find_spec("ortools") is not None


class Program:
    """The programme of a problem; limits, shares and quotas may give way where it is elastic."""

    def __init__(self, problem: MixProblem, is_elastic: bool = False) -> None:
        from ortools.math_opt.python import mathopt

        self.problem, self.solver, self.is_elastic = problem, mathopt, is_elastic
        self.model = mathopt.Model()
        self.excess: dict[str, Any] = {}
        self.left: dict[str, list[Any]] = {}
        self.scale: dict[str, float] = {}
        most = np.full(problem.num_offers, np.inf) if is_elastic else problem.most_machines
        self.machines = [self.model.add_integer_variable(lb=0, ub=float(m)) for m in most]
        self.units = [self.model.add_integer_variable(lb=0) for _ in range(problem.num_ways)]
        self.share = self._carried([1.0 * x for x in self.units])
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
        p = self.problem
        for o, machines in enumerate(self.machines):
            held = [float(p.machines_per_unit[w]) * self.units[w] for w in np.flatnonzero(p.offer_of_way == o)]
            self.model.add_linear_constraint(self._sum(held) - machines <= 0)

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
        beyond = self._excess(limit.name, max(abs(limit.most), 1.0) if np.isfinite(limit.most) else abs(limit.least))
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

    def survive(self, loss: Loss, worth: Worth) -> None:
        """What a loss leaves is worth what carrying all buckets takes."""
        if loss.name not in self.left:
            self.left[loss.name] = [self._left(w, loss) for w in range(self.problem.num_ways)]
        left = [float(p) * u for p, u in zip(worth.price, self.left[loss.name], strict=True) if p > 0]
        self.model.add_linear_constraint(self._sum(left) >= worth.needed)

    def _left(self, way: int, loss: Loss) -> Any:
        units, ratio, lost = self.units[way], float(loss.lost_ratio[way]), float(loss.lost_units[way])
        if ratio >= 1:
            return 0.0
        if not ratio and not lost:
            return 1.0 * units
        whole = not ratio and lost <= 1
        add = self.model.add_variable if whole else self.model.add_integer_variable
        left, is_any = add(lb=0), self.model.add_binary_variable()
        self.model.add_linear_constraint(left - (1 - ratio) * units + lost * is_any <= ROUNDING)
        self.model.add_linear_constraint(left - self._most_units(way) * is_any <= 0)
        return 1.0 * left

    def _most_units(self, way: int) -> float:
        loads = self.problem.load_units[:, way]
        return float(np.ceil(np.sum(loads[np.isfinite(loads)]))) + 1.0

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
        return self._sum(terms)

    def solved(self, objective: Any, limit_s: float, hint: Mix | None = None, gap: float = PROVED_GAP) -> Any:
        """The solver's answer, None where there is no mix or none was found."""
        self.model.minimize(objective)
        parameters = self.solver.SolveParameters(
            time_limit=datetime.timedelta(seconds=max(limit_s, LEAST_TIME_S)), relative_gap_tolerance=gap
        )
        told = self.solver.ModelSolveParameters(solution_hints=[self._hint(hint)] if hint is not None else [])
        answer = self.solver.solve(self.model, self.solver.SolverType.GSCIP, params=parameters, model_params=told)
        return answer if answer.has_primal_feasible_solution() else None

    def _hint(self, mix: Mix) -> Any:
        whole = {n: float(v) for n, v in zip(self.machines, mix.machines, strict=True)}
        whole |= {x: float(v) for x, v in zip(self.units, mix.units, strict=True)}
        return self.solver.SolutionHint(variable_values=whole)

    def read(self, answer: Any) -> Mix:
        """The mix of an answer, machines and units rounded to whole ones."""
        values = answer.variable_values()
        share = np.zeros_like(self.problem.load_units)
        for key, s in self.share.items():
            share[key] = min(max(values[s], 0.0), 1.0)
        share /= share.sum(axis=1, keepdims=True)
        machines, units = (np.round([values[v] for v in of]) for of in (self.machines, self.units))
        cost = self.problem.cost_usd_per_hour(machines, share)
        return Mix(machines, units, share, cost, min(answer.termination.objective_bounds.dual_bound, cost))
