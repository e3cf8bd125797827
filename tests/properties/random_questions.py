"""Random questions of every kind, the same in every run, and planning from nothing whenever something changes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache

from gpufleet.api import ServeRequest
from gpufleet.api.serve_questions import architecture_of, serve_question
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.domain.slo import Limit, Slo
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.errors import DataMissing
from gpufleet.inputs.token_counts import parse_token_counts
from gpufleet.optimize.copies.decoder import WriterQuestion
from gpufleet.optimize.dated import undated_apart
from gpufleet.optimize.flips import INPUT, OTHER_PRICE, OUTPUT, PRICE, RATE, Flip
from gpufleet.optimize.market import effective_price
from gpufleet.optimize.service import solve_serve
from gpufleet.questions.fields import RequestKind

MODELS = ("llama-3.1-8b", "qwen3-32b", "llama-3.3-70b", "qwen3-30b-a3b", "deepseek-v2-lite", "gemma-3-12b-text")
GPUS = ("L4", "A10G", "L40S", "A100-SXM-80GB", "H100", "H200-SXM", "B200", "MI300X", "A100-PCIe-80GB", "T4")
LIMITS = {"ttft.p95": (0.2, 4.0), "tpot.p95": (0.02, 0.15), "latency.p90": (4.0, 60.0), "tpot.mean": (0.02, 0.2)}
SEEDS_APART = 10_000
Dice = random.Random
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Asked:
    """A random question: its kind, the words of it, and the tables that it is asked of."""

    seed: int
    kind: str
    request: ServeRequest
    tables: Catalog

    def question(self, **changes: object) -> WriterQuestion:
        """With the prices that the plan is made of: dated ones where they answer it."""
        changed = replace(self.request, **changes)
        asked = serve_question(changed, architecture_of(changed), self.tables)[0]
        return undated_apart(asked) if self.is_dated else asked

    @cached_property
    def is_dated(self) -> bool:
        """Whether dated prices answer the question."""
        asked = serve_question(self.request, architecture_of(self.request), self.tables)[0]
        return bool(solve_serve(undated_apart(asked), calibration_of(self.tables)).ranked)

    def winner(self, question: WriterQuestion) -> Key | None:
        ranked = solve_serve(question, calibration_of(self.tables)).ranked
        return (ranked[0].offer.cloud, ranked[0].offer.instance, ranked[0].offer.price_kind.value) if ranked else None

    def at(self, flip: Flip, value: float) -> Key | None:
        """Who wins when the quantity of a flip has a value."""
        if flip.quantity in (PRICE, OTHER_PRICE):
            return self.winner(self.at_price(flip, value))
        if flip.quantity == RATE:
            return self.winner(self.question(rate=value, classes=self.classes("rate", value / flip.now)))
        if flip.quantity in (INPUT, OUTPUT):
            field = "input_tokens" if flip.quantity == INPUT else "output_tokens"
            longer = times(getattr(self.request, field), value / flip.now)
            return self.winner(self.question(**{field: longer}, classes=self.classes(field, value / flip.now)))
        return self.winner(self.question(**self.limits(flip.quantity, value)))

    def classes(self, field: str, ratio: float) -> tuple[RequestKind, ...]:
        return tuple(replace(kind, **{field: times(getattr(kind, field), ratio)}) for kind in self.request.classes)

    def limits(self, label: str, limit_s: float) -> dict[str, object]:
        """The objectives with another value of one limit; of a class the label begins with its name."""
        if not self.request.classes:
            return {"slo": with_limit(self.request.slo, label, limit_s)}
        name, _, own = label.partition(".")
        return {
            "classes": tuple(
                replace(kind, slo=with_limit(kind.slo, own, limit_s)) if kind.name == name else kind
                for kind in self.request.classes
            )
        }

    def at_price(self, flip: Flip, usd_per_hour: float) -> WriterQuestion:
        """All regions of the machine type move together."""
        assert flip.of is not None
        question, of = self.question(), (flip.of.cloud, flip.of.instance, flip.of.price_kind)
        ratio = usd_per_hour / effective_price(flip.of)
        moved = tuple(
            replace(o, price_per_instance_usd_per_hour=o.price_per_instance_usd_per_hour * ratio)
            if (o.cloud, o.instance, o.price_kind) == of else o
            for o in question.offers
        )  # fmt: skip
        return replace(question, offers=moved)


def times(what: object, ratio: float) -> object:
    """A rate or tokens so many times over, distribution and all."""
    if not isinstance(what, TokenCounts):
        assert isinstance(what, float)
        return what * ratio
    stretched = {name: tuple(x * ratio for x in getattr(what, name)) for name in ("percentiles", "octiles")}
    return replace(what, mean=what.mean * ratio, longest=what.longest * ratio, **stretched)


def with_limit(slo: object, label: str, limit_s: float) -> Slo:
    assert isinstance(slo, Slo)
    return Slo(tuple(replace(x, limit_s=limit_s) if x.label == label else x for x in slo.limits))


def objectives(dice: Dice, most: int = 3) -> Slo:
    chosen = dice.sample(sorted(LIMITS), dice.randint(1, most))
    return Slo(tuple(Limit(*label.split("."), round(dice.uniform(*LIMITS[label]), 3)) for label in chosen))


def plain(dice: Dice) -> ServeRequest:
    """One kind of request about a handful of GPUs."""
    return ServeRequest(
        dice.choice(MODELS),
        round(10 ** dice.uniform(-1.5, 2.0), 3),
        float(dice.randint(50, 6000)),
        float(dice.randint(20, 900)),
        objectives(dice),
        gpus=dice.sample(GPUS, dice.randint(3, 6)),
        pricing=dice.choice([None, None, ["on_demand", "spot"]]),
        headroom=dice.choice([0.0, 0.2, 0.5]),
        min_replicas=dice.choice([None, None, 2, 5]),
        allow_lower_precision=dice.random() < 0.2,
    )


def of_classes(dice: Dice, request: ServeRequest) -> ServeRequest:
    """Two or three kinds of requests with objectives of their own."""
    rates = [round(request.rate * dice.uniform(0.2, 1.0), 4) for _ in range(dice.randint(2, 3))]
    kinds = tuple(
        RequestKind(name, rate, float(dice.randint(50, 4000)), float(dice.randint(20, 700)), objectives(dice, 2),
                    dice.choice([None, 0.3]))
        for name, rate in zip(("chat", "reports", "code"), rates, strict=False)
    )  # fmt: skip
    return replace(request, classes=kinds, slo=None)


def of_lengths(dice: Dice, request: ServeRequest) -> ServeRequest:
    """Lengths that differ, or a prefix that is cached."""
    mean = dice.randint(200, 3000)
    prompts = parse_token_counts(f"mean={mean},p95={round(mean * dice.uniform(1.5, 3.0))}")
    return replace(request, input_tokens=prompts, prefix_cache=dice.choice([None, 0.5]))


def with_spare(dice: Dice, request: ServeRequest) -> ServeRequest:
    return replace(request, spare_machines=dice.randint(1, 3))


def with_zones(dice: Dice, request: ServeRequest) -> ServeRequest:
    return replace(request, zones=dice.randint(2, 4))


def with_spot_share(dice: Dice, request: ServeRequest) -> ServeRequest:
    return replace(request, pricing=["on_demand", "spot"], max_spot=dice.choice([0.0, 0.3, 0.5, 0.8]))


def with_quiet_hours(dice: Dice, request: ServeRequest) -> ServeRequest:
    rate = sum(kind.rate for kind in request.classes) or request.rate
    kinds = dice.choice([None, ["on_demand", "spot", "commit_1y", "savings_plan"]])
    quiet = {"off_peak_rate": rate * dice.uniform(0.05, 0.8), "peak_hours": float(dice.randint(4, 16))}
    return replace(request, pricing=kinds or request.pricing, **quiet)


def with_budget(dice: Dice, request: ServeRequest) -> ServeRequest:
    return replace(request, budget_usd_per_hour=round(10 ** dice.uniform(0.5, 2.5), 2))


def unchanged(_: Dice, request: ServeRequest) -> ServeRequest:
    return request


Change = Callable[[Dice, ServeRequest], ServeRequest]
QUOTA, SEVERAL = "quota", "several"
CHANGES: dict[str, Change] = {
    "plain": unchanged,
    "classes": of_classes,
    "lengths": of_lengths,
    "spare": with_spare,
    "zones": with_zones,
    "budget": with_budget,
    "spot share": with_spot_share,
    "quiet hours": with_quiet_hours,
    QUOTA: unchanged,
}
KINDS = (*CHANGES, SEVERAL)


@lru_cache(maxsize=1)
def shipped() -> Catalog:
    return load_catalog()


def with_quotas(dice: Dice, tables: Catalog) -> Catalog:
    """A quota on half of all machine types: none, one, or a few of them."""
    types = sorted({(o.cloud, o.instance) for o in tables.offers})
    most = {key: dice.choice([None, None, None, 0, 1, 2, 5]) for key in types}
    bounded = (replace(o, max_instances=most[o.cloud, o.instance]) for o in tables.offers)
    return replace(tables, offers=tuple(bounded))


def asked(seed: int) -> Asked:
    """The question of a seed; kinds take turns."""
    dice, kind = random.Random(seed), KINDS[seed % len(KINDS)]
    parts = [kind] if kind != SEVERAL else dice.sample([k for k in CHANGES if k != "plain"], dice.randint(2, 4))
    request = plain(dice)
    for part in sorted(parts, key=list(CHANGES).index):
        request = CHANGES[part](dice, request)
    return Asked(seed, kind, request, with_quotas(dice, shipped()) if QUOTA in parts else shipped())


def has_answer(question: Asked) -> bool:
    try:
        return question.winner(question.question()) is not None
    except DataMissing:
        return False


@cache
def question_at(index: int) -> Asked:
    """The question of an index: the first of its kind, seeds apart, that has an answer."""
    seeds = range(index, 1000 * SEEDS_APART, SEEDS_APART)
    return next(question for seed in seeds if has_answer(question := asked(seed)))
