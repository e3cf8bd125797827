"""What a plan rests on, written into the plan so that it can be made again and compared with today."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, fields
from datetime import date
from functools import lru_cache
from importlib.metadata import version
from typing import Any

from gpufleet.api.prepared import Prepared
from gpufleet.api.requests import RequestKind, ServeRequest
from gpufleet.catalog.calibration import kernel_digest
from gpufleet.catalog.load import Catalog
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.images import Images
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer
from gpufleet.domain.slo import Slo
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.optimize.contest import deciding_offers
from gpufleet.optimize.copies.decoder import WriterQuestion
from gpufleet.optimize.market import effective_price
from gpufleet.results.plan import ConsideredPrice, GpuBound, PlanBasis

WORDS_ABOUT_SOURCES = frozenset({"source", "evidence", "notes"})
DIGEST_BYTES = 6
NOT_WRITTEN = frozenset({"from_file", "said", "preferred"})
RELEASE, MODEL, ENGINE, KERNELS = "release", "model", "engine", "kernels"
Words = dict[str, Any]


def basis_of_plan(prepared: Prepared) -> PlanBasis:
    """What the plan of a question rests on."""
    return basis_of(request_words(prepared.request), prepared.question, prepared.tables)


def request_words(request: ServeRequest) -> Words:
    """A request as plain words, without what was left to defaults: enough to ask again."""
    model_and_work_first = sorted(fields(request), key=lambda f: f.kw_only is True)
    said = {f.name: getattr(request, f.name) for f in model_and_work_first if f.name not in NOT_WRITTEN}
    said["model"] = request.model.name if isinstance(request.model, Architecture) else str(request.model)
    defaults = {f.name: plain_words(f.default) for f in fields(request)}
    plain = {name: plain_words(value) for name, value in said.items()}
    return {name: value for name, value in plain.items() if value != defaults[name]}


def plain_words(value: object) -> object:
    """Objectives, images and days as text, counts and kinds of requests as their fields, sequences as lists."""
    if isinstance(value, Slo):
        return ",".join(f"{limit.label}<{limit.limit_s!r}s" for limit in value.limits) or None
    if isinstance(value, Images):
        return str(value)
    if isinstance(value, (TokenCounts, RequestKind)):
        return {f.name: plain_words(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, (list, tuple)):
        return [plain_words(item) for item in value]
    if isinstance(value, frozenset):
        return sorted(value)
    return value.isoformat() if isinstance(value, date) else value


def basis_of(question_words: Words, question: WriterQuestion, tables: Catalog) -> PlanBasis:
    """The question, digests of what predicts, and the prices that decide."""
    return PlanBasis(
        question=question_words,
        digests={
            RELEASE: version("gpu-fleet-optimizer"),
            MODEL: digest(repr(question.model.arch)),
            ENGINE: digest(repr(question.model.choices.palette.engines)),
            KERNELS: kernel_digest(),
        },
        prices=[considered(offer, tables) for offer in deciding_offers(question)],
    )


def considered(offer: Offer, tables: Catalog) -> ConsideredPrice:
    """One price, with a digest of the machine that it buys."""
    return ConsideredPrice(
        cloud=offer.cloud,
        instance=offer.instance,
        price_kind=offer.price_kind.value,
        region=offer.region,
        usd_per_hour=effective_price(offer),
        as_of=offer.as_of,
        machine=machine_digest(tables, offer.cloud, offer.instance),
        age_ratio=offer.age_ratio,
        max_instances=offer.max_instances,
        gpu_quotas=[GpuBound(**asdict(quota)) for quota in offer.gpu_quotas],
    )


def machine_digest(tables: Catalog, cloud: str, name: str) -> str:
    """A digest of the figures of a machine type and its GPUs, whatever is said about their sources."""
    instance = tables.instances[cloud, name]
    return digest(figures_of(instance) + figures_of(tables.accelerators[instance.accelerator]))


def figures_of(noun: Instance | Accelerator) -> str:
    """All fields but the words about sources."""
    return repr([getattr(noun, f.name) for f in fields(noun) if f.name not in WORDS_ABOUT_SOURCES])


@lru_cache(maxsize=4096)
def digest(text: str) -> str:
    """A short digest of a text."""
    return hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest()
