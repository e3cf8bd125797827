"""Build hook: a wheel holds the configs of all models in one file, a sixth of their size and 300 files fewer."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = "gpufleet/data/architectures"
PACKED = "configs.json.gz"


class PackModels(BuildHookInterface):  # type: ignore[type-arg]
    """An editable installation reads the files themselves."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        packed = Path(self.directory) / PACKED
        packed.parent.mkdir(parents=True, exist_ok=True)
        packed.write_bytes(packed_configs(Path(self.root) / "src" / FOLDER))
        build_data["force_include"][str(packed)] = f"{FOLDER}/{PACKED}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        (Path(self.directory) / PACKED).unlink(missing_ok=True)


def packed_configs(folder: Path) -> bytes:
    """The text of every config by the model's name, as JSON, deflated: `zcat` shows it."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.json"))}
    return gzip.compress(json.dumps(texts, indent=0).encode(), 9, mtime=0)
