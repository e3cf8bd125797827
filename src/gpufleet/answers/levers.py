"""What moves the bill and flips the choice of a plan, as users get it: in words, with the option that asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.domain.slo import Limit
from gpufleet.domain.token_counts import AssumedCounts
from gpufleet.domain.workload import Workload
from gpufleet.optimize.certainty import copies_for_certainty, price_of_certainty
from gpufleet.optimize.contest import Contest
from gpufleet.optimize.flips import INPUT, OTHER_PRICE, OUTPUT, PRICE, QUOTA, RATE, Winner
from gpufleet.optimize.flips import Flip as FoundFlip
from gpufleet.optimize.levers import CONFIDENCE, LENGTHS, LIMIT, PRICE_KIND, REGIONS, Bill
from gpufleet.optimize.levers import Lever as FoundLever
from gpufleet.optimize.levers import LimitEdge as FoundEdge
from gpufleet.optimize.looser import LooserLimit as FoundLooserLimit
from gpufleet.optimize.service import AnyQuestion, AnySolution
from gpufleet.report.numbers import amount, percent
from gpufleet.report.words import exact_time
from gpufleet.results.levers import CertaintyPrice, CheapestThen, CopiesForCertainty, Flip, FlipWinner, Lever, LimitEdge
from gpufleet.results.plan import Deployment, LooserLimit
from gpufleet.units import in_full

UNITS = {PRICE: "USD/h", OTHER_PRICE: "USD/h", RATE: "1/s", QUOTA: "machines", INPUT: "tokens", OUTPUT: "tokens"}
PRECISION = "precision"
KINDS = {
    "spot": "spot prices",
    "commit_1y": "a 1-year commitment",
    "commit_3y": "a 3-year commitment",
    "savings_plan": "a savings plan",
    "capacity_block": "capacity blocks",
    "flex_start": "a flexible start",
}
WORDS: Mapping[str, tuple[str, str]] = {
    "headroom_ratio": ("{} headroom", "--headroom {}"),
    "spare_machines": ("no spare machine", "--spare-machines 0"),
    "zones": ("one zone", "--zones 1"),
    "min_replicas": ("one replica at least", "--min-replicas 1"),
    CONFIDENCE: ("{} confidence", "--confidence {}"),
    REGIONS: ("all regions", "--regions all"),
}
"""What is changed, and the option that asks for it."""


def flips_of(found: Sequence[FoundFlip]) -> list[Flip]:
    """The flips of a solved question, in their order."""
    return [
        Flip.made_of(
            flip,
            unit=UNITS.get(flip.quantity, "s"),
            change_ratio=None if flip.value is None or not flip.now else flip.value / flip.now - 1,
            of=None if flip.of is None else f"{flip.of.cloud} {flip.of.instance}{kind_words(flip.of)}",
            winner=None if flip.winner is None else winner_of(flip.winner),
        )
        for flip in found
    ]


def kind_words(offer: Offer) -> str:
    """How machines are bought, where it is not on demand."""
    kind = offer.price_kind
    return "" if kind is PriceKind.ON_DEMAND else f" {kind.value.replace('_', ' ')}"


def winner_of(winner: Winner) -> FlipWinner:
    """The winner in words."""
    return FlipWinner.made_of(winner, winner.offer, price_basis=winner.offer.basis.value)


def certainty_of(question: AnyQuestion, solution: AnySolution, contest: Contest) -> list[CertaintyPrice]:
    """The cheapest plan at each of several confidences."""
    found = price_of_certainty(question, solution, contest)
    return [
        CertaintyPrice(confidence=x.confidence, winner=None if x.winner is None else cheapest_then(question, x.winner))
        for x in found
    ]


def many_more_copies(question: AnyQuestion, solution: AnySolution) -> CopiesForCertainty | None:
    """Copies that are rented for certainty alone, where they are many."""
    found = copies_for_certainty(question, solution)
    return None if found is None else CopiesForCertainty.made_of(found)


def cheapest_then(question: AnyQuestion, winner: Winner) -> CheapestThen:
    """Machines that win, with their GPUs."""
    sold = winner.offer.cloud, winner.offer.instance
    machine = next(i for i in question.instances if (i.cloud, i.name) == sold)
    gpus = machine.gpu_count * winner.instance_count
    return CheapestThen(**winner_of(winner).model_dump(), gpu=machine.accelerator, gpus=gpus)


def lever_in_words(bill: Bill, lever: FoundLever) -> Lever:
    """A lever of a plan."""
    change, typed = said_of(bill.demand.workload, lever)
    return Lever.made_of(
        lever,
        change=change,
        typed=typed,
        interruption=lever.winner.offer.interruption,
        limit=None if lever.limit is None else lever.limit.label,
        winner=cheapest_then(bill.question, lever.winner),
    )


def said_of(workload: Workload, lever: FoundLever) -> tuple[str, str]:
    """What is changed in words, and the option that asks for it."""
    if lever.code == LIMIT and lever.limit is not None and isinstance(lever.value, float):
        change = f"{lever.limit.label} up to {exact_time(lever.value)}, not {exact_time(lever.limit.limit_s)}"
        return change, typed_limits(workload.slo.limits, lever.limit, lever.value)
    if lever.code == LENGTHS:
        return fixed_words(workload), typed_lengths(workload)
    if lever.code == PRICE_KIND:
        return KINDS.get(str(lever.value), str(lever.value)), f"--pricing {lever.value}"
    value = percent(lever.value) if isinstance(lever.value, float) else str(lever.value)
    change, typed = WORDS[lever.code]
    return change.format(value), typed.format(value)


def typed_limits(limits: Sequence[Limit], changed: Limit, limit_s: float) -> str:
    """All limits as an option, one of them changed; "" where those of classes stand in a file."""
    if any(limit.request_class for limit in limits):
        return ""
    seconds = {limit.label: limit_s if limit is changed else limit.limit_s for limit in limits}
    said = (f"{label}<{exact_time(s).replace(' ', '')}" for label, s in seconds.items())
    return f"--slo '{','.join(said)}'"


def fixed_words(workload: Workload) -> str:
    """That requests have one length, of several classes each its own."""
    if len(workload.classes) > 1:
        return "one length in each class"
    prompts, answers = amount(workload.input_tokens), amount(workload.output_tokens)
    return f"every request {prompts} in, {answers} out"


def typed_lengths(workload: Workload) -> str:
    """The same as options; "" where classes stand in a file."""
    if len(workload.classes) != 1 or workload.classes[0].name:
        return ""
    counts = {"in": workload.classes[0].input_tokens, "out": workload.classes[0].output_tokens}
    return " ".join(
        f"--{name} fixed={in_full(t.mean - t.beside_tokens)}"
        for name, t in counts.items()
        if isinstance(t, AssumedCounts) and not t.is_alike
    )


def edge_in_words(bill: Bill, edge: FoundEdge) -> LimitEdge:
    """A limit at an edge, as users get it."""
    return LimitEdge.made_of(
        edge,
        edge.limit,
        limit=edge.limit.label,
        tighter=None if edge.tighter is None else cheapest_then(bill.question, edge.tighter),
        looser=None if edge.looser is None else cheapest_then(bill.question, edge.looser),
    )


def looser_limit(found: FoundLooserLimit) -> LooserLimit:
    """What one limit costs, as users get it."""
    return LooserLimit.made_of(found, found.limit, found.winner, found.winner.offer, limit=found.limit.label)


def of_deployment(code: str, change: str, typed: str, d: Deployment, usd_per_hour: float) -> Lever:
    """A lever whose plan was made for itself, beside a bill."""
    winner = CheapestThen.made_of(d, gpus=d.gpus_per_instance * d.instance_count)
    return Lever(code=code, change=change, typed=typed, saved_ratio=1 - d.usd_per_hour / usd_per_hour, winner=winner)


def best_first(levers: Sequence[Lever], least_ratio: float) -> list[Lever]:
    """Those that save more than so much."""
    return sorted((x for x in levers if x.saved_ratio > least_ratio), key=lambda x: -x.saved_ratio)
