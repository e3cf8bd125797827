"""What a choice by old prices really costs: with what prices likely are by now, and without.

`python benchmarks/price_age.py` asks 60 questions of the prices that were known on a day, and pays what the same
machines cost on a later one. Regret: what the headline then costs over the cheapest row of that answer. Prices are as
listed; as they likely are, by moves up to the day; and so again with each provider's own moves left out.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.calibrate.price_drift import drifts, every_move

from gpufleet.api.serve_questions import architecture_of, serve_question
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.price_drift import Drifts, aged
from gpufleet.catalog.provider_classes import class_of
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.offer import Offer
from gpufleet.optimize.contest import Key, key_of
from gpufleet.optimize.copies.decoder import WriterQuestion
from gpufleet.optimize.dated import dated_or_all
from gpufleet.optimize.market import PricedPlacement, effective_price
from gpufleet.optimize.service import solve_serve
from gpufleet.questions.fields import ServeRequest

KNOWN, PAID = date(2026, 8, 22), date(2026, 10, 10)
MODELS = ("llama-3.1-8b", "qwen3-32b", "llama-3.3-70b", "qwen3-30b-a3b", "gemma-3-27b")
RATES_PER_S = (1.0, 5.0, 20.0, 60.0)
LENGTHS = ((500, 150), (1500, 300), (4000, 600))
SLO = "ttft.p95<2s,tpot.p95<60ms"
WAYS = ("as listed", "likely by now", "likely, own moves left out")
FRESH_DAYS = 15


class Regret(NamedTuple):
    """Of one question: by each way, what the headline really costs over the cheapest row."""

    over_cheapest: tuple[float, ...]


def questions() -> Iterator[ServeRequest]:
    """Every model, rate and length."""
    for model, rate, (prompt, answer) in itertools.product(MODELS, RATES_PER_S, LENGTHS):
        yield ServeRequest(model, rate, prompt, answer, SLO)


def paid(tables: Catalog) -> dict[Key, float]:
    """What a machine cost on the later day, where somebody looked then or the provider's prices do not move."""
    found: dict[Key, float] = {}
    for offer in dated_or_all(tables.offers):
        is_known = (PAID - offer.as_of).days <= FRESH_DAYS or class_of(offer.cloud) == "hyperscaler"
        if is_known and offer.is_dated:
            found[key_of(offer)] = min(effective_price(offer), found.get(key_of(offer), math.inf))
    return found


def learnt(without: str = "") -> Drifts:
    """Drifts of moves that were seen on the day, but for one provider's."""
    seen = [move for move in every_move() if move.last_day <= KNOWN and move.provider != without]
    return {(each.who, each.price_kind): each for each in drifts(seen)}


def likely(offers: Sequence[Offer], by_provider: Mapping[str, Drifts]) -> list[float]:
    """What each of them likely is by the later day, over its price."""
    return [aged(replace(offer, age_ratio=1.0), by_provider[offer.cloud], PAID).age_ratio for offer in offers]


def regret(
    question: WriterQuestion, prices: Mapping[Key, float], ways: Sequence[Mapping[str, Drifts] | None]
) -> Regret | None:
    """What each way chooses, and pays; None where fewer than two rows can be paid."""
    ranked = solve_serve(question, calibration_of(load_catalog())).ranked
    rows = [row for row in ranked if key_of(row.offer) in prices]
    if len(rows) < 2:
        return None
    real = [usd_at(row, prices) for row in rows]
    chosen = []
    for way in ways:
        ratios = [1.0] * len(rows) if way is None else likely([row.offer for row in rows], way)
        chosen.append(int(np.argmin([row.usd_per_hour * ratio for row, ratio in zip(rows, ratios, strict=True)])))
    return Regret(tuple(real[at] / min(real) - 1 for at in chosen))


def usd_at(row: PricedPlacement, prices: Mapping[Key, float]) -> float:
    """What a row costs at later prices   [USD/h]."""
    return row.placement.instance_count * prices[key_of(row.offer)]


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    known, later = load_catalog(as_of=KNOWN), load_catalog(as_of=PAID)
    prices, clouds = paid(later), {offer.cloud for offer in known.offers}
    whole = learnt()
    ways = [None, dict.fromkeys(clouds, whole), {cloud: learnt(cloud) for cloud in clouds}]
    found = []
    for request in questions():
        question = serve_question(request, architecture_of(request), known)[0]
        dated = replace(question, offers=tuple(o for o in question.offers if o.is_dated), undated=())
        found.append(regret(dated, prices, ways))
    kept = np.array([each.over_cheapest for each in found if each is not None])
    print(f"{len(kept)} questions at prices known on {KNOWN}, paid on {PAID}")
    print(f"{'prices':28} mean regret   worst   headline is cheapest")
    for way, column in zip(WAYS, kept.T, strict=True):
        print(f"{way:28} {column.mean():11.1%} {column.max():7.1%} {np.mean(column < 1e-9):12.0%}")


if __name__ == "__main__":
    main()
