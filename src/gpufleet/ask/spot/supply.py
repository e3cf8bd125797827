"""When spot machines can be had: as zones that were measured are, as somebody says of theirs, or as in a trace."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from gpufleet.ask.spot.words import SpotRequest
from gpufleet.ask.spot.work import SpotWork
from gpufleet.catalog.spot_availability import load_availability_fit
from gpufleet.domain.arrays import BoolArray, IntArray
from gpufleet.domain.availability import AvailabilityFit, SpotZone
from gpufleet.domain.spot import SpotMarket, mean_up_s, on_longer_ticks
from gpufleet.errors import UsageError
from gpufleet.inputs.spot_trace import read_spot_trace
from gpufleet.optimize.spot import MOST_PLAYED_TICKS, SpotQuestion, longer_by
from gpufleet.optimize.spot_markets import Windows
from gpufleet.optimize.spot_services import ZoneSupply, most_nodes, tick_for
from gpufleet.records import dataclass
from gpufleet.simulate.spot_availability import drawn_zones, zones_seen
from gpufleet.simulate.spot_jobs import every_start
from gpufleet.simulate.spot_markets import ZoneDraw, drawn_availability, drawn_nodes
from gpufleet.simulate.spot_services import ZoneNodes
from gpufleet.units import DAY, HOUR, MINUTE

MOST_DRAWN_TICKS, LEAST_DRAWS = 1_200_000, 60
DRAW_S, LEARNED_DRAWS = 4 * DAY, 12
PIECES, LEAST_PIECE_TICKS = 8, 2
CHOOSING, REGION = 1, "region"
MOVES_NOTE = "Ranges of cost count that a market moves after it was stated, as measured ones did within weeks."


@dataclass(frozen=True, eq=False)
class Supply:
    """When machines can be had: draws of it, or a trace; how often, how long, by whom.

    A policy is chosen on other windows than those that tell what it costs; `seen` is the market whose changes are
    counted by age. What is stated or traced moves on, by `moved_ratio`; what is drawn of all zones is wide enough.
    Markets are on ticks that a long job has few enough of; availability and times up are of the shorter
    ones.
    """

    tells: Windows
    chooses: Windows
    seen: SpotMarket
    availability_ratio: float
    mean_up_s: float
    source: str
    grade: str
    moved_ratio: float = 0.0


def job_supply(asked: SpotRequest, work: SpotWork, rng: np.random.Generator) -> Supply:
    """When machines can be had."""
    return traced_supply(asked, work) if asked.trace is not None else drawn_supply(asked, work, rng)


def choosing(asked: SpotRequest) -> np.random.Generator:
    """The dice of what chooses, which never falls as what is told."""
    return np.random.default_rng([asked.seed, CHOOSING])


def traced_supply(asked: SpotRequest, work: SpotWork) -> Supply:
    """As a trace says: every hour a start, while the deadline lies within it; draws like it choose."""
    fit = load_availability_fit()
    seen = read_spot_trace(str(asked.trace))
    has_one = seen.available(work.num_machines, fit.tick_s)
    market = unpriced(has_one, fit, work.deadline_s)
    job = SpotQuestion(work.work_s, work.restart_s, work.deadline_s, 0.0, HOUR).expected
    starts = every_start(job, market)
    if not len(starts):
        raise UsageError(
            "the trace is shorter than the deadline",
            found=f"{seen.span_s / HOUR:.3g} h",
            expected=f"more than {work.deadline_s / HOUR:.3g} h",
        )
    alike = zones_seen(seen, [REGION] * len(has_one), fit.tick_s, work.num_machines)
    chooses, _ = drawn_windows(choosing(asked), fit, lambda _: alike, asked, work.deadline_s, 1)
    source = f"your trace of {seen.span_s / HOUR:.3g} h"
    found = supplied(has_one, fit.tick_s, Windows(market, starts), chooses, market, source, "measured")
    return replace(found, moved_ratio=fit.value("moved_ratio"))


def drawn_supply(asked: SpotRequest, work: SpotWork, rng: np.random.Generator) -> Supply:
    """As zones that were measured are, or as somebody says of theirs."""
    fit = load_availability_fit()
    zones, source, grade = zones_drawn(asked, fit)
    tells, has_one = drawn_windows(rng, fit, zones, asked, work.deadline_s, work.num_machines)
    chooses, _ = drawn_windows(choosing(asked), fit, zones, asked, work.deadline_s, work.num_machines)
    found = supplied(has_one, fit.tick_s, tells, chooses, chooses.market, source, grade)
    return replace(found, moved_ratio=fit.value("moved_ratio") if is_stated(asked) else 0.0)


def drawn_windows(
    rng: np.random.Generator,
    fit: AvailabilityFit,
    zones: ZoneDraw,
    asked: SpotRequest,
    deadline_s: float,
    machines: int,
) -> tuple[Windows, BoolArray]:
    """Draws of zones, a job in each; and on the fit's ticks."""
    draws = draws_of(asked, deadline_s, fit.tick_s)
    has_one = drawn_until(rng, fit, zones, draws, deadline_s, machines)
    market = unpriced(has_one, fit, deadline_s)
    return Windows(market, every_draw(market, draws)), has_one


def supplied(
    has_one: BoolArray, tick_s: float, tells: Windows, chooses: Windows, seen: SpotMarket, source: str, grade: str
) -> Supply:
    """With the share of time in which a zone has the machines, and the time up for each time that it ends."""
    return Supply(tells, chooses, seen, float(has_one.mean()), mean_up_s(has_one, tick_s), source, grade)


def draws_of(asked: SpotRequest, deadline_s: float, tick_s: float) -> int:
    """So many as are asked for, but fewer of a long job, which has seen many a market by its own end."""
    fewer = math.floor(MOST_DRAWN_TICKS * tick_s / deadline_s)
    return min(asked.draws, max(fewer, LEAST_DRAWS))


def drawn_until(
    rng: np.random.Generator, fit: AvailabilityFit, zones: ZoneDraw, draws: int, deadline_s: float, machines: int
) -> BoolArray:
    """Draws of zones one after the other, each until after the deadline: [zone, draw x tick]."""
    every = longer_by(deadline_s, fit.tick_s, MOST_PLAYED_TICKS)
    ticks = (math.ceil(deadline_s / (fit.tick_s * every)) + 1) * every
    return drawn_availability(rng, fit, zones, draws, ticks, machines)


def every_draw(market: SpotMarket, draws: int) -> IntArray:
    """The tick at which each draw begins."""
    return np.arange(draws) * (market.ticks // draws)


def is_stated(asked: SpotRequest) -> bool:
    """Whether somebody says what zones are like."""
    return asked.availability is not None or asked.mean_up_s is not None


def zones_drawn(asked: SpotRequest, fit: AvailabilityFit) -> tuple[ZoneDraw, str, str]:
    """How zones come about, in words, and how far to trust it."""
    if not is_stated(asked):
        told = "zones as different as those of AWS V100 and K80 in 2022 and 2023"
        return (lambda rng: drawn_zones(rng, fit, asked.zones)), told, "transferred"
    if asked.availability is None or asked.mean_up_s is None:
        raise UsageError("zones have an availability and a mean time up", expected="--availability and --mean-up")
    known = [SpotZone(f"zone-{i + 1}", REGION, asked.availability, asked.mean_up_s) for i in range(asked.zones)]
    return (lambda _: known), "zones as you say", "given"


def unpriced(has_one: BoolArray, fit: AvailabilityFit, deadline_s: float) -> SpotMarket:
    """A market before anybody asks for its price, on ticks that a long job has few enough of."""
    every = longer_by(deadline_s, fit.tick_s, MOST_PLAYED_TICKS)
    return SpotMarket(on_longer_ticks(has_one, every), fit.tick_s * every, np.ones(len(has_one)), 1.0)


def supply_notes(asked: SpotRequest, supply: Supply) -> list[str]:
    """That a stated market moves on; that a long job is played on longer ticks or fewer draws."""
    usual_s, tick_s, draws = load_availability_fit().tick_s, supply.tells.market.tick_s, len(supply.tells.first_tick)
    notes = [MOVES_NOTE] if supply.moved_ratio else []
    if tick_s > usual_s:
        notes.append(
            f"So long a job is looked at every {tick_s / MINUTE:.0f} min, as up to "
            f"{MOST_PLAYED_TICKS * usual_s / DAY:.0f} days every {usual_s / MINUTE:.0f}: a zone counts where it has "
            f"machines all that time."
        )
    if asked.trace is None and draws < asked.draws:
        notes.append(f"So long a job is drawn {draws} times, not {asked.draws}.")
    return notes


def service_supply(asked: SpotRequest, num_machines: int, start_s: float) -> ZoneSupply:
    """When zones have machines for a service."""
    return traced_zones(asked, start_s) if asked.trace is not None else zones_for(asked, num_machines, start_s)


def traced_zones(asked: SpotRequest, start_s: float) -> ZoneSupply:
    """As a trace says, whose first half chooses and whose second tells."""
    seen = read_spot_trace(str(asked.trace))
    tick_s = tick_for(start_s, min(seen.tick_s, load_availability_fit().tick_s))
    nodes = seen.regridded(tick_s)
    half = nodes.shape[1] // 2
    if half < LEAST_PIECE_TICKS:
        raise UsageError("the trace is too short", expected=f"{2 * LEAST_PIECE_TICKS} ticks of {tick_s:g} s at least")
    chooses, tells = (in_pieces(part, tick_s) for part in (nodes[:, :half], nodes[:, half : 2 * half]))
    return ZoneSupply(chooses, chooses, tells, f"your trace of {seen.span_s / DAY:.3g} days", "measured")


def zones_for(asked: SpotRequest, num_machines: int, start_s: float) -> ZoneSupply:
    """Drawn, on ticks that a start is counted in."""
    fit = load_availability_fit()
    zones, source, grade = zones_drawn(asked, fit)
    tick_s = tick_for(start_s, fit.tick_s)
    ticks, most, shorter = round(DRAW_S / fit.tick_s), most_nodes(num_machines), round(fit.tick_s / tick_s)
    rng = np.random.default_rng(asked.seed)
    narrows, chooses, tells = (
        ZoneNodes.of(np.repeat(drawn_nodes(rng, fit, zones, num, ticks, most), shorter, axis=2), tick_s)
        for num in (LEARNED_DRAWS, asked.draws // 2, asked.draws // 2)
    )
    return ZoneSupply(narrows, chooses, tells, source, grade)


def in_pieces(nodes: IntArray, tick_s: float) -> ZoneNodes:
    """A trace by zone and tick in pieces of a day at least, for a range."""
    num = int(np.clip(nodes.shape[1] * tick_s / DAY, 1, PIECES))
    length = nodes.shape[1] // num
    return ZoneNodes.of(np.stack([nodes[:, i * length : (i + 1) * length] for i in range(num)]), tick_s)
