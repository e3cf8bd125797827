"""What lending costs: every measured GPU predicted with the curves of another one, as if it had none of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tools.calibrate.fits import Fit
from tools.calibrate.operators import OPERATORS, WINDOW, Operator

from gpufleet.domain.calibration import EVERY_ENGINE
from gpufleet.units import PERCENT

SAME_SILICON, OTHER_GENERATION = "same silicon", "other generation"
LOANS = {
    ("B200", "GB200"): SAME_SILICON,
    ("B300", "GB300"): SAME_SILICON,
    ("H100-SXM", "H200-SXM"): SAME_SILICON,
    ("H200-SXM", "H100-SXM"): SAME_SILICON,
    ("B200", "B300"): SAME_SILICON,
    ("B300", "B200"): SAME_SILICON,
    ("A100-SXM4-80GB", "H100-SXM"): OTHER_GENERATION,
    ("H100-SXM", "A100-SXM4-80GB"): OTHER_GENERATION,
    ("H100-SXM", "B200"): OTHER_GENERATION,
    ("B200", "H100-SXM"): OTHER_GENERATION,
    ("L40S", "RTX-PRO-6000-Server"): OTHER_GENERATION,
    ("RTX-PRO-6000-Server", "L40S"): OTHER_GENERATION,
}
NEAREST = {
    "A100-SXM4-80GB": "H100-SXM",
    "L40S": "RTX-PRO-6000-Server",
    "RTX-PRO-6000-Server": "L40S",
    "H100-SXM": "H200-SXM",
    "H200-SXM": "H100-SXM",
    "B200": "B300",
    "B300": "B200",
    "GB200": "B200",
    "GB300": "B300",
}
RULES_OF = {
    "gemm": "gemm",
    "experts": "experts",
    "decode": "attention",
    "prefill": "attention",
    "latent_decode": "latent",
    "latent_prefill": "latent",
    "latent_absorb": "latent",
    "collectives": "collectives",
    "delta_decode": "recurrence",
    "delta_prefill": "recurrence",
    "kda_decode": "recurrence",
    "kda_prefill": "recurrence",
    "index_decode": "index",
    "index_prefill": "index",
    "index_choice": "index",
    "sparse_prefill": "sparse",
    "block_prefill": "sparse",
}


@dataclass(frozen=True)
class Loan:
    """How well one GPU's curve predicts another GPU: measured / predicted on all of the borrower's shapes."""

    operator: str
    key: str
    donor: str
    borrower: str
    median_error: float
    bias: float
    low_ratio: float
    high_ratio: float

    @property
    def kin(self) -> str:
        """How near the two are."""
        return LOANS[self.donor, self.borrower]


def loans_of(fits: Iterable[Fit]) -> list[Loan]:
    """Every borrower predicted with the curve of another measured GPU, for the pairs that tell how lending works."""
    fits = [f for f in fits if f.engine == EVERY_ENGINE]
    by_name = {(f.operator, f.key, f.accelerator): f for f in fits}
    operators = {operator.name: operator for operator in (*OPERATORS, WINDOW)}
    pairs = [(f, by_name.get((f.operator, f.key, donor))) for f in fits for donor, to in LOANS if f.accelerator == to]
    return [loan_of(operators[borrower.operator], donor, borrower) for borrower, donor in pairs if donor]


def loan_of(operator: Operator, donor: Fit, borrower: Fit) -> Loan:
    """The borrower's shapes on the donor's curve, with the borrower's own peaks and bandwidth."""
    unexplained = borrower.sample.minus(operator.axes, donor.knots)
    return Loan(
        operator=operator.name,
        key=borrower.key,
        donor=donor.accelerator,
        borrower=borrower.accelerator,
        median_error=float(np.median(np.abs(np.expm1(-unexplained)))),
        bias=float(np.expm1(-np.median(unexplained))),
        low_ratio=float(np.exp(np.quantile(unexplained, 0.1))),
        high_ratio=float(np.exp(np.quantile(unexplained, 0.9))),
    )


def left_out_table(loans: Sequence[Loan]) -> str:
    """Markdown: each measured GPU with its own kernels left out, predicted from its nearest other, by operator."""
    names = list(RULES_OF)
    lines = [
        "| GPU left out | curves of | " + " | ".join(names) + " |",
        "| --- | --- |" + " --: |" * len(names),
    ]
    for borrower, donor in NEAREST.items():
        own = [x for x in loans if (x.donor, x.borrower) == (donor, borrower)]
        cells = [_cell([x.median_error for x in own if x.operator == name]) for name in names]
        lines.append(f"| {borrower} | {donor} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(errors: Sequence[float]) -> str:
    return f"{PERCENT * float(np.median(errors)):.0f}" if errors else "-"


def loan_table(loans: Sequence[Loan]) -> str:
    """Markdown: errors of borrowed curves."""
    lines = ["| operator | precision | curve of | predicts | median % | bias % | p10 | p90 |"]
    lines.append("| --- | --- | --- | --- | --: | --: | --: | --: |")
    for x in loans:
        errors = f"{PERCENT * x.median_error:.1f} | {PERCENT * x.bias:+.1f} | {x.low_ratio:.2f} | {x.high_ratio:.2f}"
        lines.append(f"| {x.operator} | {x.key} | {x.donor} | {x.borrower} | {errors} |")
    return "\n".join(lines)


def write_spreads(loans: Sequence[Loan], directory: Path) -> None:
    """lending.toml: what a borrowed curve misses, by nearness and kind of operator: medians over the pairs of GPUs."""
    lines = ["# Written by `python tools/calibrate kernels`: measured / predicted seconds of borrowed curves."]
    for kin in (SAME_SILICON, OTHER_GENERATION):
        for kind in dict.fromkeys(RULES_OF.values()):
            own = [x for x in loans if x.kin == kin and RULES_OF.get(x.operator) == kind]
            lines += ["", f'[spread."{kin}".{kind}]', f"pairs = {len(own)}"]
            lines.append(f"low_ratio = {np.median([x.low_ratio for x in own]):.3f}")
            lines.append(f"high_ratio = {np.median([x.high_ratio for x in own]):.3f}")
    (directory / "lending.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
