"""The words of the catalog: which rows of its tables are listed, and what is fetched."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpufleet.questions.words import (
    PLAIN_NUMBER,
    ROW_COUNT,
    Request,
    Word,
    flag,
    maybe_file,
    names,
    optional,
    text,
    worded,
)
from gpufleet.records import dataclass
from gpufleet.units import Bounds

CLOUD = Word(names("NAME,..."), "Only these clouds, such as aws,gcp.", singular="--clouds")


@dataclass(frozen=True, kw_only=True)
class CatalogRequest(Request):
    """Rows of the tables; each listing takes some of these words. At most `limit` rows, ordered by `sort`."""

    gpu: Sequence[str] | None = optional(names("NAME,..."), "Only these GPUs, such as H100 or L40S,A100-40GB.")
    vendor: str | None = optional(text("NAME"), "Only this maker: nvidia, amd, intel, aws, google.")
    min_memory: str | None = optional(text("SIZE"), "At least this much GPU memory, such as 80GB or 40GiB.")
    min_gpus: float | None = optional(PLAIN_NUMBER, "At least N GPUs.")
    precision: str | None = optional(text("NAME"), "Only GPUs that compute in it: bf16, fp8, fp4, int8, ...")
    instance: Sequence[str] | None = optional(names("NAME,..."), "Only these instance types, such as p5.48xlarge.")
    cloud: Sequence[str] | None = worded(CLOUD)
    region: Sequence[str] | None = optional(
        names("NAME,..."), "Only these regions; eu, us, germany too.", singular="--regions"
    )
    kind: Sequence[str] | None = optional(
        names("NAME,..."), "Only these price kinds: on_demand, spot, ...", singular="--pricing"
    )
    restricted: bool = flag("Also regions that are not open to everybody, such as GovCloud.")
    unpriced: bool = flag("Also list what is sold at an unknown price.")
    search: str | None = optional(text("TEXT"), "Only models with TEXT in one of their names.")
    family: str | None = optional(text("NAME"), "Only this family, such as llama or qwen3_moe.")
    show: str | None = optional(maybe_file("MODEL"), "Explain one model: a name, a config.json or its folder.")
    provider: Sequence[str] | None = optional(
        names("NAME,..."), "Only these hosts, such as together,openrouter.", singular="--host"
    )
    sort: str | None = optional(text("KEY"), "Sort by a column; '-KEY' reverses the order.")
    limit: int | None = optional(ROW_COUNT, "At most N rows.", bounds=Bounds(1, math.inf, ""))


@dataclass(frozen=True, kw_only=True)
class UpdateRequest(Request):
    """Prices that are fetched, of all clouds with a feed or of some, and those believed though they are unusual."""

    cloud: Sequence[str] | None = worded(CLOUD)
    accept: Sequence[str] | None = optional(
        names("NAMES"), "Accept unusual prices of these types (aws:p5.48xlarge), or of all."
    )
    accept_losses: bool = flag("Accept a feed in which most types vanished, or prices moved by 3x.")
