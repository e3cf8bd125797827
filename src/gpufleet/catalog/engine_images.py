"""Container images of engines by version: `data/engine_images.csv`, a row a rule of tags, or a tag of one version."""

from __future__ import annotations

from functools import cache

from gpufleet.catalog.engine_flags import engine_flags
from gpufleet.catalog.table_files import SHIPPED, rows_of
from gpufleet.domain.engine_images import EngineImages, ImageTag

TABLE = SHIPPED / "engine_images.csv"
COLUMNS = (
    *("engine", "vendor", "hosts", "capability", "version", "since", "until", "candidates", "image", "source", "date"),
)


@cache
def engine_images(engine: str) -> EngineImages:
    """The images of an engine; none of one that has no row.

    >>> engine_images("vllm").image("0.19.1", "nvidia", "x86_64")
    'vllm/vllm-openai:v0.19.1'
    >>> engine_images("text-embeddings-inference").image("1.9.3", "nvidia", "x86_64", "8.9")
    'ghcr.io/huggingface/text-embeddings-inference:89-1.9'
    """
    flags = engine_flags(engine)
    return EngineImages(
        tags=tuple(
            ImageTag(
                image=row["image"],
                vendor=row["vendor"],
                hosts=tuple(row["hosts"].split()),
                **{name: row[name] or None for name in ("capability", "version", "since", "until")},
                has_candidates=row["candidates"] == "yes",
                source=row["source"],
            )
            for _, row in rows_of(TABLE, COLUMNS)
            if row["engine"] == engine
        ),
        newest=flags.version if flags else None,
    )
