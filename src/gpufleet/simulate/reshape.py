"""Requests made faster, fewer, longer, shorter or joined: a trace as it could have been."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpufleet.domain.arrays import FloatArray, IntArray
from gpufleet.domain.requests import PrefixBlocks, Requests
from gpufleet.errors import UsageError
from gpufleet.simulate.arrivals import checked_number, checked_rate, chunks
from gpufleet.units import SECONDS, Bounds

FACTOR = Bounds(1e-9, 1e9, "")
MOST_PREFIX_BLOCKS = 100_000_000


def stretched(requests: Requests, factor: float) -> Requests:
    """Every time so many times as late: twice as long at half the rate."""
    FACTOR.refuse_outside(factor, "the factor of times", factor)
    return with_times(requests, requests.arrival_s * factor)


def at_rate(requests: Requests, rate_per_s: float) -> Requests:
    """Requests stretched to a mean rate between the first and the last.

    factor = (N - 1) / span / rate   [1]
    """
    if not requests.span_s > 0:
        raise UsageError("requests that come at once have no rate to change", expected="two arrival times at least")
    return stretched(requests, (len(requests) - 1) / requests.span_s / checked_rate(rate_per_s))


def thinned(requests: Requests, rng: np.random.Generator, keep_ratio: float) -> Requests:
    """Each request kept with a probability, in the order they came."""
    if not 0 <= keep_ratio <= 1:
        raise UsageError("the share of requests to keep is out of range", found=keep_ratio, expected="from 0 to 1")
    return selected(requests, np.flatnonzero(rng.random(len(requests)) < keep_ratio))


def window(requests: Requests, start_s: float, end_s: float) -> Requests:
    """Requests that come from `start_s` to before `end_s`; the start is their 0."""
    if not start_s <= end_s:
        raise UsageError("a window ends before it starts", found=f"{start_s} to {end_s}", expected="start <= end")
    first, last = np.searchsorted(requests.arrival_s, [start_s, end_s])
    return moved(selected(requests, np.arange(first, last)), -start_s)


def moved(requests: Requests, by_s: float) -> Requests:
    """Every request so many seconds later."""
    if not abs(by_s) <= SECONDS.most:
        raise UsageError("a shift of times is out of range", found=by_s, expected=f"at most {SECONDS.most:,.0f} s")
    return with_times(requests, requests.arrival_s + by_s)


def repeated(requests: Requests, num: float, is_prefix_new: bool = True) -> Requests:
    """So many requests: the same again and again, each round a mean gap after the last, the last one cut.

    Where `is_prefix_new`, a round's prompts share blocks with each other, not with those of the rounds before.
    """
    num = checked_number(num)
    if not len(requests):
        raise UsageError("there are no requests to repeat", expected="a trace of at least one")
    gap_s = requests.span_s / (len(requests) - 1) if len(requests) > 1 else 1.0
    rounds, which = np.divmod(np.arange(num), len(requests))
    times_s = np.maximum.accumulate(requests.arrival_s[which] + rounds * (requests.span_s + gap_s))
    prefix = None if requests.prefix is None else selected_blocks(requests.prefix, which)
    if prefix is not None and is_prefix_new:
        apart = np.repeat(rounds * prefix.num_distinct, np.diff(prefix.first))
        apart += prefix.block
        prefix = PrefixBlocks(prefix.block_tokens, prefix.first, apart)
    columns = (requests.input_tokens, requests.output_tokens, requests.request_class)
    prompts, answers, of_class = (column[which] for column in columns)
    return Requests(times_s, prompts, answers, of_class, requests.class_names, prefix)


def superposed(parts: Sequence[Requests]) -> Requests:
    """Requests of several streams in the order they come; classes of one name are one class.

    Prompts of different streams share no blocks. At one moment, the stream that stands earlier comes first.
    """
    checked_number(sum(map(len, parts)))
    names = tuple(dict.fromkeys(name for part in parts for name in part.class_names)) or ("",)
    own = [np.array([names.index(name) for name in part.class_names], dtype=np.int64) for part in parts]
    classes = [numbers[part.request_class] for numbers, part in zip(own, parts, strict=True)]
    times = np.concatenate([np.empty(0), *(part.arrival_s for part in parts)])
    order = np.argsort(times, kind="stable")
    none = np.empty(0, dtype=np.int64)
    prompts, answers, of_class = (
        np.concatenate([none, *columns])[order]
        for columns in ([p.input_tokens for p in parts], [p.output_tokens for p in parts], classes)
    )
    return Requests(times[order], prompts, answers, of_class, names, joined_prefix(parts, order))


def joined_prefix(parts: Sequence[Requests], order: IntArray) -> PrefixBlocks | None:
    """Blocks of several streams, numbered apart, in the order that their requests come."""
    with_blocks = [part.prefix for part in parts if part.prefix is not None]
    if not with_blocks:
        return None
    sizes = {prefix.block_tokens for prefix in with_blocks}
    if len(sizes) > 1:
        raise UsageError("streams cut prompts into blocks of different sizes", found=sorted(sizes), expected="one size")
    counts, blocks, before = [np.zeros(1, dtype=np.int64)], [], 0
    for part in parts:
        counts.append(np.zeros(len(part), dtype=np.int64) if part.prefix is None else np.diff(part.prefix.first))
        if part.prefix is not None:
            blocks.append(part.prefix.block + before)
            before += part.prefix.num_distinct
    return selected_blocks(PrefixBlocks(sizes.pop(), np.cumsum(np.concatenate(counts)), np.concatenate(blocks)), order)


def selected(requests: Requests, which: IntArray) -> Requests:
    """Some of the requests by their numbers, in that order; arrival times need to stay in order."""
    prefix = None if requests.prefix is None else selected_blocks(requests.prefix, which)
    columns = (requests.input_tokens, requests.output_tokens, requests.request_class)
    prompts, answers, of_class = (column[which] for column in columns)
    return Requests(requests.arrival_s[which], prompts, answers, of_class, requests.class_names, prefix)


def selected_blocks(prefix: PrefixBlocks, which: IntArray) -> PrefixBlocks:
    """The blocks of some requests by their numbers, in that order; blocks keep their names."""
    counts = np.diff(prefix.first)[which]
    first = np.concatenate([[0], np.cumsum(counts)])
    if first[-1] > MOST_PREFIX_BLOCKS:
        raise UsageError(
            "too many prefix blocks to replay", found=f"{first[-1]:,}", expected=f"at most {MOST_PREFIX_BLOCKS:,}"
        )
    block = np.empty(first[-1], dtype=np.int64)
    for part in chunks(len(which)):
        at = np.arange(first[part.start], first[part.stop])
        at += np.repeat(prefix.first[which[part]] - first[part], counts[part])
        block[first[part.start] : first[part.stop]] = prefix.block[at]
    return PrefixBlocks(prefix.block_tokens, first, block)


def with_times(requests: Requests, times_s: FloatArray) -> Requests:
    """The same requests at other times."""
    columns = (requests.input_tokens, requests.output_tokens, requests.request_class)
    return Requests(times_s, *columns, requests.class_names, requests.prefix)
