"""Token counts as people know them: '1000' on average, 'fixed=1000', '1000..4000' of most, 'p50=700,p95=3000'."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gpufleet.domain.token_counts import PERCENTILES, TokenCounts
from gpufleet.errors import UnknownName, UsageError
from gpufleet.performance.token_lengths import of_percentiles
from gpufleet.units import PERCENT, in_full, parse_tokens

EXAMPLE = "'1000', 'fixed=1000', '300..4000' (p10 to p90), 'mean=1200,p95=4000' or 'p50=700,p95=3000'"
LONGEST_TEXT, LONGEST, FIXED = 200, "max", "fixed"
BETWEEN, ENDS = "..", ("p10", "p90")
"""Most requests lie between two lengths: a tenth is shorter, a tenth is longer, as with every range here."""
OTHER_RANGE = re.compile(r"([\d,._]+[kKmM]?)(?:\s*(?:-|–|—|…|\.{3,}|:)\s*|\s+to\s+)([\d,_]+[kKmM]?)")
STATED = (ENDS[0], *PERCENTILES)
LEAST_HIGH_QUANTILE = 0.9


def parse_token_counts(text: str) -> float | TokenCounts:
    """The mean alone as a number; one number for all requests (fixed), or percentiles, with the longest where known.

    Two lengths with '..' between them are the 10th and the 90th percentile.

    >>> parse_token_counts("8k"), parse_token_counts("fixed=8k").is_alike
    (8192.0, True)
    >>> round(parse_token_counts("mean=1000,p95=3000").at("p99"))
    5662
    >>> round(parse_token_counts("1000..4000").at("p50")), round(parse_token_counts("1000..4000").at("p90"))
    (2000, 4000)
    """
    if not says_more(text):
        refuse_other_ranges(text)
        return parse_tokens(text)
    if len(text) > LONGEST_TEXT:
        raise UsageError("a number of tokens is too long", found=text, expected=EXAMPLE)
    given: dict[str, float] = {}
    for name, tokens in (said for part in text.split(",") for said in statistics_of(part)):
        add_statistic(given, name.strip().lower(), tokens.strip())
    return counts_of(given)


def says_more(text: str) -> bool:
    """Whether this is more than one number: statistics, or a range (which a path of a folder above is not).

    >>> says_more("fixed=8k"), says_more("1k..4k"), says_more("8k"), says_more("../plan.json")
    (True, True, False, False)
    """
    return "=" in text or (BETWEEN in text and "/" not in text)


def refuse_other_ranges(text: str) -> None:
    """Two lengths that are joined by something else are a slip, not a number."""
    ends = OTHER_RANGE.fullmatch(text.strip())
    if ends is not None:
        hint = f"Type '{ends[1].strip()}{BETWEEN}{ends[2].strip()}'."
        raise UsageError(
            "cannot read a range of tokens", found=text, expected="two lengths such as '1000..4000'", hint=hint
        )


def statistics_of(part: str) -> list[tuple[str, str]]:
    """One 'p95=4000', or the two of '1000..4000'.

    >>> statistics_of("1k..4k"), statistics_of("p95=4000")
    ([('p10', '1k'), ('p90', '4k')], [('p95', '4000')])
    """
    if "=" in part or BETWEEN not in part:
        name, _, tokens = part.partition("=")
        return [(name, tokens)]
    refuse_other_ranges(part)
    ends = [end.strip() for end in part.split(BETWEEN)]
    if len(ends) != len(ENDS) or not all(ends):
        raise UsageError("a range of tokens has two ends", found=part.strip(), expected=EXAMPLE)
    return list(zip(ENDS, ends, strict=True))


def add_statistic(given: dict[str, float], name: str, tokens: str) -> None:
    """One 'p95=4000'."""
    known = ("mean", *STATED, LONGEST, FIXED)
    if name not in known:
        raise UnknownName("statistic of tokens", name, known)
    if name in given:
        raise UsageError(f"the tokens give {name} twice", expected=EXAMPLE)
    given[name] = parse_tokens(tokens)


def counts_of(given: Mapping[str, float]) -> float | TokenCounts:
    """Counts with this mean and these percentiles, refused where no requests can have them."""
    mean, longest = given.get("mean"), given.get(LONGEST)
    if FIXED in given:
        refuse_beside_fixed(given)
        return TokenCounts(given[FIXED])
    percentiles = {float(name[1:]) / PERCENT: given[name] for name in STATED if name in given}
    ordered = [percentiles[q] for q in sorted(percentiles)]
    if ordered != sorted(ordered):
        raise UsageError("percentiles of tokens must not fall", found=shown(given), expected=EXAMPLE)
    if longest is not None:
        refuse_longest(longest, [*percentiles.values(), *([] if mean is None else [mean])], given)
    if mean is not None and not percentiles:
        return TokenCounts(mean) if longest is not None else mean
    if mean is None and len(percentiles) == 1:
        raise UsageError("one percentile does not determine the mean", found=shown(given), expected=EXAMPLE)
    if mean is not None:
        refuse_impossible_mean(mean, percentiles, given)
        refuse_mean_of_outliers(mean, percentiles, given)
    return of_percentiles(percentiles, mean, longest)


def refuse_beside_fixed(given: Mapping[str, float]) -> None:
    """Where all requests are alike, nothing else is to be said of them."""
    if len(given) > 1:
        raise UsageError("fixed tokens have no other statistics", found=shown(given), expected=EXAMPLE)


def refuse_longest(longest: float, others: Sequence[float], given: Mapping[str, float]) -> None:
    """The longest alone says nothing of the others, and is no shorter than any of them."""
    if not others or (others == [given.get("mean")] and longest != others[0]):
        raise UsageError("a maximum does not determine how lengths differ", found=shown(given),
                         expected="a percentile with it, such as 'mean=1200,p95=4000,max=32k'")  # fmt: skip
    if longest < max(others):
        raise UsageError("a percentile is above the maximum", found=shown(given),
                         expected=f"max of at least {in_full(max(others))}")  # fmt: skip


def refuse_impossible_mean(mean: float, percentiles: Mapping[float, float], given: Mapping[str, float]) -> None:
    """A share 1 - q of the requests lies above the q-th percentile: the mean is at least their part."""
    least = max((1 - q) * tokens for q, tokens in percentiles.items())
    if mean < least:
        raise UsageError("no requests have this mean and these percentiles", found=shown(given),
                         expected=f"a mean of at least {least:,.0f}")  # fmt: skip


def refuse_mean_of_outliers(mean: float, percentiles: Mapping[float, float], given: Mapping[str, float]) -> None:
    """A mean above the 90th percentile is that of a few giant requests: no curve through the percentiles has it."""
    below = {q: tokens for q, tokens in percentiles.items() if q >= LEAST_HIGH_QUANTILE and tokens < mean}
    if below:
        q = min(below)
        raise UsageError(
            f"the mean of tokens is above their p{q * PERCENT:.0f}",
            found=shown(given),
            expected=f"a mean of at most {below[q]:,.0f}: at most {1 - q:.0%} of the requests are longer",
            hint="Lengths with a few giants are read from a trace: --trace FILE.",
        )


def shown(given: Mapping[str, float]) -> str:
    """Statistics as they are typed."""
    return ",".join(f"{name}={in_full(tokens)}" for name, tokens in given.items())
