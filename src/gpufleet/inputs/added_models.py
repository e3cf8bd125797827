"""Models that were added from a hub by 'gpufleet catalog models add', by their ids."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import date
from functools import lru_cache
from pathlib import Path

from gpufleet.architecture.kept_checkpoint import FILE, ROOT_VARIABLE, KeptCheckpoint, kept_checkpoint
from gpufleet.errors import DataMissing, UsageError
from gpufleet.files import read_text_file
from gpufleet.records import dataclass
from gpufleet.units import MB

LARGEST_FILE_BYTES = 5 * MB


@dataclass(frozen=True)
class AddedModel:
    """A revision of a model that lies in the user's folder."""

    checkpoint: KeptCheckpoint
    folder: Path

    @property
    def spoken(self) -> str:
        """What it is called in answers: as it lies on the hub, of which revision and which day."""
        kept = self.checkpoint
        return f"{kept.id} at {kept.commit[:8]}, added on {kept.day}"


def models_root() -> Path:
    """Where added models lie: GPUFLEET_MODELS, or gpufleet/models in the user's data folder."""
    return _root(os.environ.get(ROOT_VARIABLE), os.environ.get("XDG_DATA_HOME"), os.environ.get("HOME"))


@lru_cache(maxsize=4)
def _root(named: str | None, data: str | None, home: str | None) -> Path:
    """The same by the variables that decide it; `home` stands for ~."""
    return Path(os.path.expanduser(named or os.path.join(data or "~/.local/share", "gpufleet", "models")))


def added_model(name: str) -> AddedModel | None:
    """The model that was added under an id, ORG/NAME or ORG/NAME@REVISION: the one added last; None: none was."""
    whole, at, revision = name.strip().partition("@")
    owner, slash, bare = whole.partition("/")
    if not slash or "/" in bare or not os.path.isdir(models_root()):
        return None
    found = [m for folder in _folders(owner, bare) for m in _revisions(folder)]
    if at:
        found = [m for m in found if revision == m.checkpoint.asked_revision or _is_commit(m, revision)]
    return max(found, key=_added_last, default=None)


def added_called(bare: str) -> AddedModel | None:
    """The one added model that a name without owner stands for; of two it is none."""
    root = models_root()
    if "/" in bare or not os.path.isdir(root):
        return None
    owners = [owner for owner in _names(root) if _folders(owner, bare.partition("@")[0])]
    return added_model(f"{owners[0]}/{bare}") if len(owners) == 1 else None


def added_models() -> list[AddedModel]:
    """All models that were added, by id."""
    root = models_root()
    owners = _names(root) if os.path.isdir(root) else []
    found = [m for owner in owners for name in _names(root / owner) for m in _revisions(root / owner / name)]
    return sorted(found, key=lambda m: (m.checkpoint.id.casefold(), _added_last(m)))


def _is_commit(model: AddedModel, revision: str) -> bool:
    return bool(revision) and model.checkpoint.commit.startswith(revision.casefold())


def _added_last(model: AddedModel) -> tuple[date, float, str]:
    return model.checkpoint.day, os.path.getmtime(model.folder / FILE), model.checkpoint.commit


def _folders(owner: str, bare: str) -> list[Path]:
    """Folders of a model: a hub does not tell upper from lower case."""
    root = models_root()
    owners = (root / name for name in _names(root) if name.casefold() == owner.casefold())
    return [folder / name for folder in owners for name in _names(folder) if name.casefold() == bare.casefold()]


def _names(folder: Path) -> list[str]:
    """Folders in a folder, in order."""
    try:
        listed = os.listdir(folder)
    except OSError as error:
        raise DataMissing(f"added models in {folder} cannot be read: {error.strerror}") from None
    return sorted(name for name in listed if not name.startswith(".") and os.path.isdir(folder / name))


def _revisions(folder: Path) -> Iterator[AddedModel]:
    """Whole revisions of a model; one that is not as it was written is refused with how to mend it."""
    for name in _names(folder):
        try:
            written = json.loads(read_text_file(folder / name / FILE, "an added model", LARGEST_FILE_BYTES))
            yield AddedModel(kept_checkpoint(written), folder / name)
        except (UsageError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            hint = "Remove that folder, and add the model again with 'gpufleet catalog models add'."
            raise DataMissing(f"the added model {folder / name} is damaged: {error}", hint=hint) from None
