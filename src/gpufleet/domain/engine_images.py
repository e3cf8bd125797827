"""Container images of an engine: which tag a version has, for a vendor of GPUs, a CPU and a compute capability."""

from __future__ import annotations

import re

from gpufleet.domain.versions import version_key
from gpufleet.records import dataclass

RELEASE = re.compile(r"v?(\d+(?:\.\d+)*)((?:\.?post\d+)?)(.*)", re.ASCII)
PARTS, SERIES = 3, 2
"""Numbers of a release, and of a series of them: 0.19 is 0.19.0, of series 0.19."""


@dataclass(frozen=True)
class ImageTag:
    """The rule of tags of versions from `since` on and before `until`, or the one tag of a `version`.

    `image` may hold `{version}` or `{series}`. `capability` is a compute capability, or a generation where an engine
    tells GPUs by that (CDNA4); None: for all GPUs of the vendor. `hosts`: CPUs that the tag has a build for.
    `has_candidates`: release candidates have images too.
    """

    image: str
    vendor: str
    hosts: tuple[str, ...]
    capability: str | None = None
    version: str | None = None
    since: str | None = None
    until: str | None = None
    has_candidates: bool = False
    source: str = ""

    def written(self, version: str | None) -> str | None:
        """The image of a version; None where the tag holds a version and none is given, or one without images.

        >>> ImageTag("vllm/vllm-openai:v{version}", "nvidia", ("x86_64",)).written("0.19")
        'vllm/vllm-openai:v0.19.0'
        """
        if "{" not in self.image:
            return self.image
        read = RELEASE.fullmatch(version or "")
        if read is None or (read[3] and not (self.has_candidates and read[3].startswith("rc"))):
            return None
        numbers = [*read[1].split("."), *["0"] * PARTS][: max(PARTS, read[1].count(".") + 1)]
        return self.image.format(version=".".join(numbers) + read[2] + read[3], series=".".join(numbers[:SERIES]))


@dataclass(frozen=True)
class EngineImages:
    """All tags of an engine; `newest` is the version that is meant where none is asked for."""

    tags: tuple[ImageTag, ...] = ()
    newest: str | None = None

    @property
    def capabilities(self) -> frozenset[str]:
        """Compute capabilities that have an image of their own; empty where one image serves all."""
        return frozenset(tag.capability for tag in self.tags if tag.capability is not None)

    def image(self, version: str | None, vendor: str, host: str, capability: str | None = None) -> str | None:
        """The image of a version on such machines; None where none is known. A tag of its own goes before a rule."""
        meant = version or self.newest
        found = [
            tag for tag in self.of(vendor, host) if tag.capability in (None, capability) and self.holds(tag, meant)
        ]
        own_first = sorted(found, key=lambda tag: tag.version is None)
        return own_first[0].written(meant) if own_first else None

    def of(self, vendor: str, host: str) -> list[ImageTag]:
        """The tags for a vendor's GPUs beside such CPUs."""
        return [tag for tag in self.tags if tag.vendor == vendor and host in tag.hosts]

    def holds(self, tag: ImageTag, version: str | None) -> bool:
        """Whether a version has this tag."""
        if tag.version is not None or version is None:
            return tag.version == version or (tag.version is None and "{" not in tag.image)
        at = version_key(version)
        return not (tag.since and at < version_key(tag.since)) and not (tag.until and at >= version_key(tag.until))

    def first(self, vendor: str, host: str) -> tuple[str, str] | None:
        """The repository and the first version that are known to have an image for such machines."""
        rules = [tag for tag in self.of(vendor, host) if tag.since]
        oldest = min(rules, key=lambda tag: version_key(tag.since or ""), default=None)
        return None if oldest is None else (oldest.image.partition(":")[0], oldest.since or "")
