"""From a plan and what is measured of it to how it stands."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike

from gpufleet.api.envelope import in_full
from gpufleet.api.rented_groups import Rented, groups_of, rented_of, warnings_of
from gpufleet.api.watched_plans import stated_budget, watched_plan
from gpufleet.ask.watch.judged import figures_of, spend_of
from gpufleet.ask.watch.shape import BROKEN, WatchedFigure, WatchedNow, WatchedSpend
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.errors import DataMissing, UsageError
from gpufleet.monitor.exposition import Series, series_in
from gpufleet.monitor.measured import (
    Reading,
    Values,
    all_of,
    engines_seen,
    measured_by_engines,
    measured_by_prometheus,
)
from gpufleet.monitor.prometheus_api import asked, text_at, web_address
from gpufleet.monitor.watched import WatchedCopies
from gpufleet.results.autoscale import AutoscaleResult
from gpufleet.units import Bounds, parse_duration

APART = Bounds(1.0, 3600.0, "seconds between two readings")  # not a conversion
NO_RATE = "An engine alone tells no rate: --every 30s reads twice"
SINCE_START = "Latencies are of all requests since each engine was started"


def watch_now(
    plan: str | PathLike[str] | Rented | AutoscaleResult,
    *,
    prometheus: str | None = None,
    metrics: Sequence[str] = (),
    every: str | None = None,
    budget: str | None = None,
    utc_offset: str | None = None,
    catalog: Catalog | None = None,
) -> WatchedNow:
    """What a plan's copies do now, beside what it says: asked of a Prometheus, or read from the engines' own metrics.

    `plan` is the file that `plan serve -o json` wrote, or `autoscale -o json`. `metrics` are addresses such as http://10.0.0.5:8000/metrics;
    with `every`, a time such as '30s', they are read twice, so far apart, which gives rates. `budget` is what may be
    spent: '1000/day' or '24000/mo', by a clock that is `utc_offset` ahead of UTC.

    >>> import gpufleet
    >>> plan = gpufleet.plan_serve("llama-3.1-8b", rate="2/s", input_tokens=1000, output_tokens=200)
    >>> watch_now(plan, prometheus="http://127.0.0.1:1")
    Traceback (most recent call last):
    gpufleet.errors.DataMissing: Prometheus at http://127.0.0.1:1 cannot be reached; ...
    """
    return Watch(plan, prometheus, metrics, every, budget, utc_offset, catalog).once()


class Watch:
    """A plan that is read again and again; engines' own metrics are compared with the reading before."""

    def __init__(
        self,
        plan: str | PathLike[str] | Rented | AutoscaleResult,
        prometheus: str | None = None,
        metrics: Sequence[str] = (),
        every: str | None = None,
        budget: str | None = None,
        utc_offset: str | None = None,
        catalog: Catalog | None = None,
    ) -> None:
        if (prometheus is None) == (not metrics):
            raise UsageError("name one source", expected="--prometheus URL, or --metrics URL of each engine")
        if budget is None and utc_offset is not None:
            raise UsageError("--utc-offset has no meaning here", expected="--budget beside it")
        if budget is not None and prometheus is None:
            raise UsageError("engines do not tell what machines cost", expected="--budget with --prometheus")
        self.prometheus = None if prometheus is None else web_address(prometheus, "--prometheus")
        self.metrics = [web_address(url, "--metrics") for url in metrics]
        if len(set(self.metrics)) < len(self.metrics):
            raise UsageError("an engine is named twice", found=", ".join(metrics))
        self.every_s = 0.0 if every is None else parse_duration(every, "'30s'")
        if every is not None:
            APART.refuse_outside(self.every_s, "--every", every)
        self.tables = load_catalog() if catalog is None else catalog
        read, scaled = rented_of(plan)
        self.plan = watched_plan(read, groups_of(read, "watched"), self.tables, scaled)
        self.price_sources, self.warnings = read.price_sources, warnings_of(read)
        self.budget = None if budget is None else stated_budget(budget, utc_offset, self.plan)
        self.before: Reading | None = None
        self.said = {
            "plan": plan if isinstance(plan, (str, PathLike)) else None,
            "prometheus": self.prometheus,
            "metrics": self.metrics or None,
            "every": every,
            "budget": budget,
            "utc-offset": utc_offset,
        }

    def once(self) -> WatchedNow:
        """One answer: of engines that are to be read twice, after the second reading."""
        found = self.read()
        if not self.every_s or not self.metrics:
            return found
        time.sleep(self.every_s)
        return self.read()

    def read(self) -> WatchedNow:
        """How the plan stands now."""
        spend: WatchedSpend | None = None
        measured: Mapping[str, Values]
        if self.prometheus is not None:
            url = self.prometheus
            measured = {each.name: measured_by_prometheus(lambda q: asked(url, q), each) for each in self.plan.copies}
            spend = spend_of(lambda query: asked(url, query), self.plan, self.budget)
        else:
            measured = self.of_engines()
        figures = [figure for each in self.plan.copies for figure in figures_of(each, measured[each.name])]
        broken = [f"{figure.name} of {figure.copies}" for figure in figures if figure.state == BROKEN]
        broken += list(broken_spend(spend))
        answer = WatchedNow(
            plan_hash=self.plan.plan_hash,
            source="prometheus" if self.prometheus else "engines",
            figures=figures,
            spend=spend,
            broken=broken,
            is_kept=not broken,
            price_sources=self.price_sources,
            grade="measured",
            notes=list(self.notes(figures, spend)),
        )
        return in_full(answer, self.tables, self.said)

    def of_engines(self) -> Mapping[str, Values]:
        """What the engines' own pages say; copies that do not answer are missed."""
        if len(self.plan.copies) > 1:
            names = ", ".join(each.name for each in self.plan.copies)
            raise UsageError("pages of engines do not say whose they are", found=names, expected="--prometheus URL")
        [copies] = self.plan.copies
        now = all_of(pages_of(self.metrics, copies), time.monotonic())
        before, self.before = self.before, now
        return {copies.name: measured_by_engines(now, before, copies)}

    def notes(self, figures: Sequence[WatchedFigure], spend: WatchedSpend | None) -> Iterator[str]:
        """What a reader has to know of the figures."""
        yield from self.warnings
        if self.prometheus is None and not self.every_s:
            yield NO_RATE
            yield SINCE_START
        if any(each.measured == 0 for each in figures if each.name == "requests_per_s"):
            yield "No request was answered in the last minutes: latencies are unknown"
        if not all(each.metrics.is_exact for each in self.plan.copies):
            yield "The engine's version is outside of those that were looked at: names of metrics may differ"
        if spend is not None:
            yield f"Never in the spend: {'; '.join(spend.unseen)}"
            if self.budget is not None and not spend.is_recorded:
                yield "The guard's rules have recorded no spend: it is added up from what Prometheus still has"


def pages_of(urls: Sequence[str], copies: WatchedCopies) -> dict[str, Sequence[Series]]:
    """The metrics of all engines that answer; refused where none does, or another server answers."""
    pages: dict[str, Sequence[Series]] = {}
    failed: DataMissing | None = None
    for url in urls:
        what = f"the engine at {url}"
        try:
            text = text_at(url, what)
        except DataMissing as error:
            failed = error
            continue
        pages[url] = series_in(text, what)
        if not engines_seen(pages[url], copies):
            raise DataMissing(
                f"{what} shows no metrics of {copies.engine}", expected=f"names like {copies.metrics.prefix}…"
            )
    if not pages and failed is not None:
        raise failed
    return pages


def broken_spend(spend: WatchedSpend | None) -> Iterator[str]:
    """What is broken of the money."""
    if spend is None:
        return
    yield from (f"machines of {each.instance}" for each in spend.machines if each.state == BROKEN)
    if spend.state == BROKEN:
        yield "the budget"
