"""Every figure that the seeds compute from other figures, verbatim, beside what the arithmetic gives.

A figure FOLLOWS when the computation agrees with what is printed, to half a unit of the last printed place. Otherwise
it says why: CUT (the digits after the last place were dropped), OTHER_BASE (another computation gives what is printed:
it stands beside, and must), or WRONG (nothing here gives it). `GIVEN` holds all other lines with a number, so that no
line of the five documents is left out.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gpufleet.compat import rules

SEEDS = Path(__file__).parent / "seeds"
DOCUMENTS = {path.stem: path.read_text(encoding="utf-8").splitlines() for path in SEEDS.glob("[a-z]*.md")}
RECORD = Path(__file__).parents[2] / "docs" / "decisions" / "0012-the-seeds-arithmetic.md"
FOLLOWS, CUT, OTHER_BASE, WRONG = "follows", "cut", "other base", "wrong"
MORE = math.inf
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
COMMON_KNOWLEDGE = {0, 1, 2, 24, 30, 100, 1000, 1e9}
FACTS_BESIDE = {0.214: "guide:188 prints 0.21", 989: "dense bf16 TFLOPS of H100", 1e21: "lesson:61 as a number"}


class Figure(NamedTuple):
    """A printed figure: where, what, from `low` to `high`, and the computation that should give it."""

    where: str
    text: str
    low: float
    high: float
    step: float
    computation: str
    verdict: str = FOLLOWS
    reason: str = ""
    as_printed: str = ""

    @property
    def label(self) -> str:
        return f"{self.where} {self.text}"


def figure(where: str, text: str, printed: Any, computation: str, *why: str, step: float | None = None) -> Figure:
    """`printed` is a number, or (low, high); `why` is (verdict, reason) or (verdict, reason, what gives it)."""
    low, high = printed if isinstance(printed, tuple) else (printed, printed)
    return Figure(where, text, low, high, last_place(text) if step is None else step, computation, *why)


def last_place(text: str) -> float:
    """One unit in the last place of the first number in a text."""
    decimals = NUMBER.search(text)[0].partition(".")[2]  # type: ignore[index]
    return float(10 ** -len(decimals))


def next_card_gb(size_gb: float) -> int:
    """The smallest card of assessment:36-39 that holds so much."""
    return min(card for card in (16, 32, 40, 80) if card >= size_gb)


def members(name: str) -> list[str]:
    """The scenarios of a workload set, from the guide's own JSON."""
    text = "\n".join(DOCUMENTS["guide"])
    block = next(b for b in re.findall(r"```json\n(.*?)```", text, re.DOTALL) if '"workload_sets"' in b)
    return json.loads(block)["workload_sets"][name]


TOOLS = {name: getattr(rules, name) for name in rules.__all__} | {
    "math": math, "max": max, "min": min, "len": len, "next_card_gb": next_card_gb, "members": members,
}  # fmt: skip


def value_of(computation: str) -> float:
    return float(eval(computation, {"__builtins__": {}}, dict(TOOLS)))


def agrees(printed: Figure, value: float) -> bool:
    slack = printed.step / 2 + 1e-9
    return printed.low - slack <= value <= printed.high + slack


DOUBLE = "twice the weights"
NEXT_CARD = "rounded up to the memory of the next card"
SIZES = [
    figure("assessment:24", "2-4GB", 4, "1 * 2", OTHER_BASE, DOUBLE, "2 * 1 * 2"),
    figure("assessment:24", "4-8GB", 8, "1 * 4", OTHER_BASE, DOUBLE, "2 * 1 * 4"),
    figure("assessment:25", "4-16GB", 4, "1 * 2", OTHER_BASE, DOUBLE, "2 * 1 * 2"),
    figure("assessment:25", "4-16GB", 16, "7 * 2", OTHER_BASE, NEXT_CARD, "next_card_gb(7 * 2)"),
    figure("assessment:25", "8-32GB", 8, "1 * 4", OTHER_BASE, DOUBLE, "2 * 1 * 4"),
    figure("assessment:25", "8-32GB", 32, "7 * 4", OTHER_BASE, NEXT_CARD, "next_card_gb(7 * 4)"),
    figure("assessment:26", "16-40GB", 16, "7 * 2", OTHER_BASE, NEXT_CARD, "next_card_gb(7 * 2)"),
    figure("assessment:26", "16-40GB", 40, "20 * 2"),
    figure("assessment:26", "32-80GB", 32, "7 * 4", OTHER_BASE, NEXT_CARD, "next_card_gb(7 * 4)"),
    figure("assessment:26", "32-80GB", 80, "20 * 4"),
    figure("assessment:27", "40-140GB", 40, "20 * 2"),
    figure("assessment:27", "40-140GB", 140, "70 * 2"),
    figure("assessment:27", "80-280GB", 80, "20 * 4"),
    figure("assessment:27", "80-280GB", 280, "70 * 4"),
    figure("assessment:28", "140GB+", (140, MORE), "70 * 2"),
    figure("assessment:28", "280GB+", (280, MORE), "70 * 4"),
]
PRICE_RANGES = [
    figure("assessment:36", "$0.35-0.95/hr", (0.35, 0.95), "min(0.526, 0.752, 0.395)"),
    figure("assessment:36", "$0.35-0.95/hr", (0.35, 0.95), "max(0.526, 0.752, 0.395)"),
    figure("assessment:37", "$1.20-3.10/hr", (1.20, 3.10), "min(3.060, 12.240 / 4, 1.450, 3.168)"),
    figure("assessment:37", "$1.20-3.10/hr", (1.20, 3.10), "max(3.060, 12.240 / 4, 1.450, 3.168)",
           WRONG, "its own Azure table sells the V100 at $3.168 (line 65)"),
    figure("assessment:38", "$1.50-4.10/hr", (1.50, 4.10), "min(32.770 / 8, 3.673, 24.480 / 8)"),
    figure("assessment:38", "$1.50-4.10/hr", (1.50, 4.10), "max(32.770 / 8, 3.673, 24.480 / 8)"),
    figure("assessment:39", "$2.50-6.80/hr", (2.50, 6.80), "3.672"),
]  # fmt: skip
GPU_MEMORY = [
    *(figure(f"assessment:{line}", "16GB", 16, "1 * 16") for line in (47, 48, 49, 56, 57, 64, 65)),
    figure("assessment:50", "64GB", 64, "4 * 16"),
    figure("assessment:51", "320GB", 320, "8 * 40"),
    figure("assessment:58", "40GB", 40, "1 * 40"),
    figure("assessment:59", "320GB", 320, "8 * 40"),
    figure("assessment:66", "80GB", 80, "1 * 80"),
    figure("assessment:77", "8-16GB", 16, "1 * 16"),
    figure("assessment:91", "16-32GB", 16, "1 * 16"),
    figure("assessment:91", "16-32GB", 32, "2 * 16"),
    figure("assessment:105", "160-320GB", 160, "4 * 80", OTHER_BASE, "reckoned with the A100 of 40 GB", "4 * 40"),
    figure("assessment:105", "160-320GB", 320, "8 * 80", OTHER_BASE, "reckoned with the A100 of 40 GB", "8 * 40"),
    figure("assessment:123", "8-16GB", 16, "2 * 16", OTHER_BASE, "one GPU, where it says 1-2", "1 * 16"),
    figure("selection:430", "14 GB", 14, "7 * 2"),
    figure("selection:431", "26 GB", 26, "13 * 2"),
    figure("selection:431", "need 2x", 2, "whole_gpus(gpus_for_inference(13, 2, 24))"),
]
MULTIPLES_OF_A_PRICE = [
    figure("assessment:50", "$12.240", 12.240, "4 * 3.060"),
    figure("assessment:59", "$24.480", 24.480, "8 * 3.673",
           OTHER_BASE, "eight times AWS's price of a V100, not GCP's of an A100", "8 * 3.060"),
    figure("selection:83", "$12.24/hr", 12.24, "4 * 3.06"),
    figure("selection:84", "$24.48/hr", 24.48, "8 * 3.06"),
]  # fmt: skip
ENVIRONMENTS = [
    figure("assessment:156", "$185/month", 185, "monthly_cost(0.526, 8 * 22, 2)"),
    figure("assessment:163", "$269/month", 269, "monthly_cost(3.060, 4 * 22, 1)"),
    figure("assessment:170", "$1,623/month", 1623, "monthly_cost(0.752, 24 * 30, 3)",
           WRONG, "3 x 0.752 x 24 x 30 is 1,624.32"),
    figure("assessment:177", "$3,146/month", 3146, "monthly_cost(32.770, 24 * 4, 1)"),
]  # fmt: skip
TRAINING_TIMES = [
    figure("assessment:222", "11 hours", 11, "training_hours(100e6, 2500)"),
    figure("assessment:223", "23 hours", 23, "training_hours(100e6, 1200)"),
    figure("assessment:224", "35 hours", 35, "training_hours(100e6, 800)"),
    figure("assessment:225", "46 hours", 46, "training_hours(100e6, 600)"),
    figure("assessment:226", "69 hours", 69, "training_hours(100e6, 400)"),
]
AT_ONCE = "a batch of one ends 1 / latency requests a second; the printed rate needs {} at once"
INFERENCE_RATES = [
    figure("assessment:232", "150", 150, "1 / (120 / 1000)", WRONG, AT_ONCE.format(18)),
    figure("assessment:233", "100", 100, "1 / (180 / 1000)", WRONG, AT_ONCE.format(18)),
    figure("assessment:234", "45", 45, "1 / (250 / 1000)", WRONG, AT_ONCE.format(11)),
    figure("assessment:235", "35", 35, "1 / (320 / 1000)", WRONG, AT_ONCE.format(11)),
]
SHARES = [
    figure("assessment:183", "50-90% discount", (50, 90), "100 * saving_ratio(1.32, 0.73)",
           WRONG, "the guide's own G6 saves 44.7 % (guide:190)"),
    figure("assessment:201", "60-70%", (60, 70), "100 * (1 - 8 * 22 / (24 * 30))",
           OTHER_BASE, "8 hours on every day; its own 8 hours on 22 days (line 155) save more", "100 * (1 - 8 / 24)"),
    figure("assessment:265", "10%", 10, "100 - 60 - 30"),
]  # fmt: skip
LESSON = [
    figure("lesson:61", "10^21", 1e21, "6 * 7e9",
           WRONG, "6 FLOP a parameter and token; 10^21 is a whole training on 24 billion tokens"),
    figure("lesson:65", "140GB", 140, "70 * 2"),
    figure("lesson:67", "4x", 4, "4 / 1"),
    figure("lesson:142", "20% overhead", 20, "100 * (1.2 - 1)"),
    figure("lesson:172", "14GB", 14, "7 * 2"),
    figure("lesson:172", "14GB VRAM for inference", 14,
           "calculate_memory_requirements(7_000_000_000, 2, 4, 2048)['total_gb']",
           OTHER_BASE, "weights alone; its own calculator, on its own example, adds 209 GB of activations", "7 * 2"),
    figure("lesson:172", "80GB+", (80, MORE),
           "calculate_memory_requirements(7_000_000_000, 4, 2, 2048, True)['total_gb']"),
    figure("lesson:174", "~15ms", 15, "1000 * weights_read_s(13e9, 2, 900)",
           OTHER_BASE, "one byte a parameter, where it says FP16", "1000 * weights_read_s(13e9, 1, 900)", step=2),
    figure("lesson:215", "0.4-0.7", (0.4, 0.7), "0.6"),
    figure("lesson:272", "14", 14, "7 * 2"),
    figure("lesson:278", "3x operations", 3, "6 / 2"),
    figure("lesson:292", "5x more", 5, "8.00 / 1.50"),
    figure("lesson:292", "4x+ throughput", (4, MORE), "300 / 70"),
]  # fmt: skip
COMPUTATION = [
    figure("computation:13", "up to 2TB/s", (0, 2), "3350 / 1000",
           WRONG, "assessment:40 has the H100 at 3,350 GB/s"),
    figure("computation:60", "6", 6, "2 + 1 + 1 + 2"),
    figure("computation:67", "~6x", 6, "2 + 1 + 1 + 2"),
    figure("computation:67", "~6x", 6, "1 + 2 + 1 + 1 + 2",
           WRONG, "the weights themselves are not in the sum"),
]  # fmt: skip
INT8_COMMENT = [figure("guide:178", "35GB", 35, "35 * 1"), figure("guide:178", "70GB", 70, "35 * 2")]
PRECISIONS = [
    figure(f"guide:{line}", f"{name.upper()}: {size}GB", size, f"35 * precision_bytes('{name}')", step=1)
    for first in (213, 543)
    for line, (name, size) in enumerate(
        {"fp32": 140, "fp16": 70, "bf16": 70, "fp8": 35, "int8": 35}.items(), start=first
    )
]
MONTHS = [
    figure("guide:188", "$381", 381, "monthly_cost(0.53)",
           CUT, "381.60, which the selection guide rounds to $382", "math.floor(monthly_cost(0.53))"),
    figure("guide:188", "$154", 154, "monthly_cost(0.21)",
           OTHER_BASE, "a price of about $0.214, printed as $0.21", "monthly_cost(0.214)"),
    figure("guide:189", "$1,166", 1166, "monthly_cost(1.62)"),
    figure("guide:189", "$317", 317, "monthly_cost(0.44)"),
    figure("guide:190", "$950", 950, "monthly_cost(1.32)"),
    figure("guide:190", "$525", 525, "monthly_cost(0.73)", CUT, "525.60", "math.floor(monthly_cost(0.73))"),
    figure("guide:191", "$2,520", 2520, "monthly_cost(3.50)"),
    figure("guide:191", "$1,260", 1260, "monthly_cost(1.75)"),
    figure("guide:192", "$23,040", 23040, "monthly_cost(32.00)"),
    figure("guide:192", "$7,200", 7200, "monthly_cost(10.00)"),
    figure("guide:193", "$28,800", 28800, "monthly_cost(40.00)"),
    figure("guide:193", "$8,640", 8640, "monthly_cost(12.00)"),
    figure("guide:194", "$36,000", 36000, "monthly_cost(50.00)"),
    figure("guide:194", "$11,520", 11520, "monthly_cost(16.00)"),
    figure("guide:195", "$39,600", 39600, "monthly_cost(55.00)"),
    figure("guide:195", "$12,960", 12960, "monthly_cost(18.00)"),
    figure("guide:196", "$43,200", 43200, "monthly_cost(60.00)"),
    figure("guide:196", "$14,400", 14400, "monthly_cost(20.00)"),
    figure("guide:198", "720 hours", 720, "24 * 30"),
    figure("guide:198", "1 GPU", 1, "8",
           WRONG, "the P rows are prices of instances with 8 GPUs (guide:21), and so is what it prints for one"),
]  # fmt: skip
SPOT_TABLE = {
    "G4dn": (0.53, 0.21), "G5": (1.62, 0.44), "G6": (1.32, 0.73), "G6e": (3.50, 1.75), "P4d": (32.00, 10.00),
    "P4de": (40.00, 12.00), "P5": (50.00, 16.00), "P5e": (55.00, 18.00), "P6": (60.00, 20.00),
}  # fmt: skip
OUTSIDE = {"G5": "G5 saves 72.8 %", "G6": "G6 saves 44.7 %", "G6e": "G6e saves 50.0 %"}
SPOT = [
    *(
        figure("guide:368", "60-70%", (60, 70), f"100 * saving_ratio({full}, {spot})",
               *((WRONG, f"{OUTSIDE[name]} by its own table") if name in OUTSIDE else ()), step=1)
        for name, (full, spot) in SPOT_TABLE.items()
    ),
    *(
        figure(f"guide:{line}", "60-70%", (60, 70), "100 * saving_ratio(1.32, 0.73)",
               WRONG, "its own table reaches from 44.7 % (G6) to 72.8 % (G5)", step=1)
        for line in (378, 455, 565)
    ),
    figure("guide:529", "60-70%", (60, 70), "100 * saving_ratio(32.00, 10.00)", step=1),
]  # fmt: skip
MIGRATION = [
    figure("guide:376", "90%+", (90, MORE), "100 * saving_ratio(50.00, 3.50)", step=1),
    figure("guide:376", "90%+", (90, MORE), "100 * saving_ratio(50.00, 1.32)", step=1),
    figure("guide:376", "90%+", (90, MORE), "100 * saving_ratio(32.00, 3.50)",
           WRONG, "P4d to G6e saves 89.1 %", step=1),
    figure("guide:376", "90%+", (90, MORE), "100 * saving_ratio(32.00, 1.32)", step=1),
    figure("guide:376", "90%+", (90, MORE), "100 * saving_ratio(16.00, 1.75)",
           WRONG, "P5 to G6e saves 89.1 % on spot", step=1),
    figure("guide:376", "90%+", (90, MORE), "100 * saving_ratio(16.00, 0.73)", step=1),
    figure("guide:376", "90%+", (90, MORE), "100 * saving_ratio(10.00, 1.75)",
           WRONG, "P4d to G6e saves 82.5 % on spot", step=1),
    figure("guide:376", "90%+", (90, MORE), "100 * saving_ratio(10.00, 0.73)", step=1),
    figure("guide:563", "90%+", (90, MORE), "100 * saving_ratio(50.00, 3.50)", step=1),
    figure("guide:377", "2-3x", (2, 3), "3350 / 1555"),
    figure("guide:377", "2-3x", (2, 3), "2000 / 312",
           OTHER_BASE, "2,000 TFLOPS are sparse, 312 dense; dense against dense it is 3.2", "989 / 312"),
    figure("guide:564", "2-3x", (2, 3), "3350 / 1555"),
]  # fmt: skip
GUIDE = [
    figure("guide:371", "1.5 (for optimizer states, gradients)", 1.5, "1 + 2 + 1",
           WRONG, "weights, optimizer states (2) and gradients (1) are 4 by lesson:118-122, and 6 by computation:67"),
    figure("guide:373", "50% memory", 50, "100 * 2 / 4"),
    figure("guide:373", "25%", 25, "100 * 1 / 4"),
    figure("guide:443", "2 scenarios", 2, "len(members('basic_demos'))"),
    figure("guide:444", "3 scenarios", 3, "len(members('cost_optimization_focus'))"),
    figure("guide:445", "2 scenarios", 2, "len(members('performance_focus'))"),
    figure("guide:446", "4 scenarios", 4, "len(members('comprehensive_suite'))"),
    figure("guide:447", "2 scenarios", 2, "len(members('research_academic'))"),
    figure("guide:452", "9 GPU Instance Types", 9, "len('G4dn, G5, G6, G6e, P4d, P4de, P5, P5e, P6'.split())"),
]  # fmt: skip
SELECTION = [
    figure("selection:9", "$0.53", 0.53, "0.526"),
    figure("selection:9", "$382", 382, "monthly_cost(0.53)"),
    figure("selection:9", "$382", 382, "monthly_cost(0.526)",
           OTHER_BASE, "the price was rounded to $0.53 before it was multiplied", "monthly_cost(0.53)"),
    figure("selection:10", "$0.75", 0.75, "0.752"),
    figure("selection:10", "$540", 540, "monthly_cost(0.75)"),
    figure("selection:10", "$540", 540, "monthly_cost(0.752)",
           OTHER_BASE, "the price was rounded to $0.75 before it was multiplied", "monthly_cost(0.75)"),
    figure("selection:11", "$1.01", 1.01, "1.006"),
    figure("selection:11", "$727", 727, "monthly_cost(1.01)"),
    figure("selection:11", "$727", 727, "monthly_cost(1.006)",
           OTHER_BASE, "the price was rounded to $1.01 before it was multiplied", "monthly_cost(1.01)"),
    figure("selection:12", "$1.21", 1.21, "1.212"),
    figure("selection:12", "$872", 872, "monthly_cost(1.21)",
           OTHER_BASE, "here $1.212 was multiplied, and 872.64 cut", "math.floor(monthly_cost(1.212))"),
    figure("selection:13", "$2,203", 2203, "monthly_cost(3.06)"),
    figure("selection:14", "$23,594", 23594, "monthly_cost(32.77)"),
    figure("selection:46", "2x faster", 2, "125 / 65"),
    figure("selection:258", "~$380/month", 380, "monthly_cost(0.526)", step=10),
    figure("selection:286", "~$730/month", 730, "monthly_cost(1.01)", step=10),
    figure("selection:315", "~$4,080/month", 4080, "monthly_cost(5.672)", step=10),
    figure("selection:340", "3 GPUs", 3, "len('0,1,2'.split(','))"),
    figure("selection:340", "3 GPUs", 3, "4", WRONG, "all 4 GPUs are rented and allocated (line 324)"),
    figure("selection:349", "$8,813/month", 8813, "monthly_cost(12.24)"),
    figure("selection:349", "$23,594/month", 23594, "monthly_cost(32.77)"),
    figure("selection:365", "70% savings", 70, "100 * saving_ratio(382, 115)"),
    figure("selection:365", "70% savings", 70, "100 * saving_ratio(0.53, 0.21)",
           WRONG, "the guide's own G4dn saves 60.4 % (guide:188)"),
    figure("selection:372", "30% of g4dn.xlarge on-demand", 30, "100 * 0.30 / 0.526",
           WRONG, "$0.30 is 57 % of $0.526; 30 % would be $0.158"),
    figure("selection:387", "$115/month", 115, "cost_after(382, 0.70)"),
    figure("selection:387", "$382/month", 382, "monthly_cost(0.53)"),
    figure("selection:414", "50%", 50, "100 * off_hours_ratio(hours_between(22, 6))",
           OTHER_BASE, "its own schedule is off from 22:00 to 06:00, which is 8 hours or 33 %",
           "100 * off_hours_ratio(12)"),
    figure("selection:414", "12 hrs/day", 12, "hours_between(22, 6)",
           WRONG, "22:00 to 06:00 (lines 400 and 409) is 8 hours"),
    figure("selection:541", "4x less VRAM", 4, "4 / 1"),
    figure("selection:541", "4x less VRAM", 4, "2 / 1",
           OTHER_BASE, "against FP32; its own pipeline runs float16 (line 301), against which it is 2x", "4 / 1"),
    figure("selection:551", "$382", 382, "monthly_cost(0.53)"),
    figure("selection:552", "$727", 727, "monthly_cost(1.01)"),
    figure("selection:553", "$2,203", 2203, "monthly_cost(3.06)"),
]  # fmt: skip
FIGURES = [
    *SIZES, *PRICE_RANGES, *GPU_MEMORY, *MULTIPLES_OF_A_PRICE, *ENVIRONMENTS, *TRAINING_TIMES, *INFERENCE_RATES,
    *SHARES, *LESSON, *COMPUTATION, *INT8_COMMENT, *PRECISIONS, *MONTHS, *SPOT, *MIGRATION, *GUIDE, *SELECTION,
]  # fmt: skip

HEADING, CODE, NAMES = "headings and list numbers", "code and commands", "names with digits in them"
GIVEN: dict[str, list[tuple[int, int, str]]] = {
    "assessment": [
        (1, 11, NAMES),
        (13, 18, "judgement: memory of a kind of work"),
        (20, 22, HEADING),
        (32, 32, HEADING),
        (36, 40, "data: sheets and market prices"),
        (42, 66, "data: list prices and shapes of instances"),
        (70, 111, "advice; its hours name no number of tokens, where the table of 100M tokens has 11, 23-46 and 69"),
        (114, 141, "advice: targets, counts and batches"),
        (150, 180, "the inputs of the monthly costs"),
        (183, 185, "market discounts"),
        (188, 214, "expected savings and terms, of nothing that is printed"),
        (216, 235, "measured: tokens per second, batch, latency"),
        (237, 257, "allocation; the three shares are 100 %"),
        (277, 293, NAMES),
        (295, 348, CODE),
        (350, 387, "thresholds"),
        (389, 413, "weeks of a roadmap"),
        (415, 466, "headings, weeks, and the 70 % that lines 183-191 bracket"),
    ],
    "lesson": [
        (17, 59, "code; line 58 prints (1024 / 32)^2 = 1024 when it is run, and the work is 32,768 times as much"),
        (69, 75, "judgement: utilisation, market prices, examples of budgets"),
        (82, 170, "code of the calculator; its two examples print when they are run (see the tests of the rules)"),
        (176, 176, "FP32 doubles FP16: 4 / 2 bytes"),
        (178, 290, "code; line 279's 280 GB are 20 passes over 14 GB, a number that is not stated"),
        (294, 300, "data of hardware; what one GPU holds (24 GB of FP16 are 12B, 80 GB are 40B)"),
        (303, 354, CODE),
    ],
    "computation": [
        (10, 18, "data of hardware"),
        (33, 39, NAMES),
        (57, 66, "the two formulas and bytes of a format"),
        (68, 71, "the parts of the multiplier"),
        (82, 105, NAMES),
        (154, 154, "an address"),
    ],
    "guide": [
        (8, 8, HEADING),
        (12, 49, "data: two instances"),
        (51, 53, NAMES),
        (56, 83, "data: sizes and bytes of a format"),
        (85, 116, "data: scenarios and sets"),
        (120, 177, CODE),
        (202, 212, CODE),
        (220, 261, CODE),
        (266, 270, HEADING),
        (286, 360, "data: examples of custom configs"),
        (367, 372, "advice, and the overheads 1.5 and 1.2"),
        (380, 428, "advice and commands"),
        (433, 455, NAMES),
        (494, 542, CODE),
    ],
    "selection": [
        (7, 14, "data: prices by the hour"),
        (18, 104, "data: shapes and list prices of instances"),
        (108, 247, "commands and manifests"),
        (254, 358, "advice and pipelines"),
        (367, 412, CODE),
        (418, 431, "data: memory of Whisper models"),
        (435, 463, CODE),
        (468, 528, CODE),
        (535, 542, "advice"),
        (555, 555, "judgement"),
        (559, 573, "commands"),
    ],
}


def spot_of(where: str) -> tuple[str, int]:
    document, line = where.split(":")
    return document, int(line)


def lines_with_numbers() -> Iterator[tuple[str, int]]:
    for document, lines in DOCUMENTS.items():
        yield from ((document, at) for at, text in enumerate(lines, start=1) if re.search(r"\d", text))


def printed_numbers(lines: Iterator[str] | list[str]) -> set[float]:
    return {float(number.replace(",", "").rstrip(".")) for line in lines for number in NUMBER.findall(line)}


def literals(computation: str) -> set[float]:
    nodes = ast.walk(ast.parse(computation))
    return {float(n.value) for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, (int, float))}


def test_the_five_documents_are_here() -> None:
    assert {name: len(lines) for name, lines in DOCUMENTS.items()} == {
        "assessment": 466, "lesson": 355, "computation": 155, "guide": 567, "selection": 575,
    }  # fmt: skip


@pytest.mark.parametrize("printed", FIGURES, ids=lambda f: f.label)
def test_a_figure_stands_verbatim_where_it_is_said_to(printed: Figure) -> None:
    document, line = spot_of(printed.where)
    assert printed.text in DOCUMENTS[document][line - 1]
    said = printed_numbers([printed.text.replace("10^21", "1" + "0" * 21)])
    assert {printed.low, printed.high} - {MORE, 0.0} <= said


@pytest.mark.parametrize("printed", FIGURES, ids=lambda f: f"{f.label} = {f.computation}")
def test_a_figure_follows_or_says_why_not(printed: Figure) -> None:
    value = value_of(printed.computation)
    assert agrees(printed, value) is (printed.verdict == FOLLOWS), f"{printed.computation} = {value}"
    assert bool(printed.reason) is (printed.verdict != FOLLOWS)


@pytest.mark.parametrize("printed", [f for f in FIGURES if f.verdict in (CUT, OTHER_BASE)], ids=lambda f: f.label)
def test_what_has_another_base_is_given_by_it(printed: Figure) -> None:
    assert agrees(printed, value_of(printed.as_printed))


def test_what_is_wrong_claims_no_base() -> None:
    assert [f.label for f in FIGURES if f.verdict in (FOLLOWS, WRONG) and f.as_printed] == []


@pytest.mark.parametrize("printed", FIGURES, ids=lambda f: f"{f.label} = {f.computation}")
def test_a_computation_uses_numbers_that_the_seeds_print(printed: Figure) -> None:
    known = printed_numbers([line for lines in DOCUMENTS.values() for line in lines])
    used = literals(printed.computation) | (literals(printed.as_printed) if printed.as_printed else set())
    billions = {number * 1e9 for number in known} | {number * 1e6 for number in known}
    assert used - known - billions - COMMON_KNOWLEDGE - set(FACTS_BESIDE) == set()


def test_no_figure_stands_twice() -> None:
    keys = [(f.where, f.text, f.low, f.computation) for f in FIGURES]
    assert [key for key in set(keys) if keys.count(key) > 1] == []


def test_no_line_with_a_number_is_left_out() -> None:
    computed = {spot_of(f.where) for f in FIGURES}
    given = {(document, line) for document, spans in GIVEN.items() for a, b, _ in spans for line in range(a, b + 1)}
    assert sorted(set(lines_with_numbers()) - computed - given) == []


def test_every_span_of_given_lines_has_lines_with_numbers_that_are_not_computed() -> None:
    left = set(lines_with_numbers()) - {spot_of(f.where) for f in FIGURES}
    spans = [(document, a, b) for document, rows in GIVEN.items() for a, b, _ in rows]
    assert [span for span in spans if not any((span[0], line) in left for line in range(span[1], span[2] + 1))] == []


def test_the_spot_table_is_the_guides() -> None:
    for line, (name, (full, spot)) in enumerate(SPOT_TABLE.items(), start=188):
        assert re.match(rf"\| {name} .*\${full:.2f}\D.*\${spot:.2f}\D", DOCUMENTS["guide"][line - 1])


def record_rows() -> list[str]:
    """The rows of the decision record: what does not follow, beside what the arithmetic gives."""
    rows = sorted((f for f in FIGURES if f.verdict != FOLLOWS), key=lambda f: spot_of(f.where))
    return [f"| {f.where} | {f.text} | {value_of(f.computation):.5g} | {f.verdict} | {f.reason} |" for f in rows]


def test_the_decision_record_lists_every_figure_that_does_not_follow() -> None:
    text = RECORD.read_text(encoding="utf-8").splitlines()
    assert [row for row in text if re.match(r"\| \w+:\d+ ", row)] == record_rows()


def test_the_decision_record_counts_what_follows() -> None:
    follow, cut, other, wrong = (sum(f.verdict == v for f in FIGURES) for v in (FOLLOWS, CUT, OTHER_BASE, WRONG))
    said = f"{follow} follow, {other} have another base, {wrong} are wrong, {cut} are cut instead of rounded"
    assert f"{len(FIGURES)} comparisons: {said}." in RECORD.read_text(encoding="utf-8").replace("\n", " ")
