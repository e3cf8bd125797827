"""A model of a hub by its id: its configs and the headers of its safetensors, kept whole or not at all.

    <root>/<owner>/<name>/<commit>/config.json ...  what the repository holds, as it is
    <root>/<owner>/<name>/<commit>/checkpoint.json  revision, day, source, and what its tensors take by number format

Neither code nor weights are fetched: of a file of weights only its beginning, which says what is in it. A token goes to
the hub that is asked and not on to the store that it sends readers to.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import struct
from collections.abc import Iterator, Mapping
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from gpufleet.architecture.kept_checkpoint import FILE, ROOT_VARIABLE, KeptCheckpoint
from gpufleet.architecture.stored_tensors import BITS, StoredTensor, stored_parts
from gpufleet.catalog.exchange import BrokenFeed, Question, Temporary, Unreachable, without_query
from gpufleet.catalog.snapshots import DOWNLOAD_FOLDER, settle
from gpufleet.catalog.transport import Bounds, Download, parsed, refuse_over, refuse_status, write_whole
from gpufleet.catalog.update_lock import Locked
from gpufleet.errors import DataMissing, UsageError, shorten
from gpufleet.records import dataclass
from gpufleet.units import GIB, KIB, MB, MIB, MINUTE

if TYPE_CHECKING:
    import httpx

ENDPOINT, ENDPOINT_VARIABLE, TOKEN_VARIABLE = "https://huggingface.co", "HF_ENDPOINT", "HF_TOKEN"
LOCK = Locked("gpufleet catalog models add", "added models", ROOT_VARIABLE)
NEWEST = "main"
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,120}")
COMMIT = re.compile(r"[0-9a-f]{40,64}")
CONFIG, INDEX, ONE_FILE, WEIGHTS = "config.json", "model.safetensors.index.json", "model.safetensors", ".safetensors"
BROUGHT = (
    *(CONFIG, "generation_config.json", "hf_quant_config.json", "quantize_config.json"),
    *("quantization_config.json", "quant_config.json", INDEX),
)
MOST_FILES = 1000
CONFIG_BYTES, INDEX_BYTES, LENGTH_BYTES = 5 * MB, 64 * MIB, 8
FIRST_BYTES, HEADER_BYTES = int(64 * KIB), int(32 * MIB)
HUB_BOUNDS = Bounds(page_bytes=INDEX_BYTES, kept_bytes=GIB / 2, pages=MOST_FILES + 20, seconds=10 * MINUTE)
NOT_ALLOWED, NOT_FOUND = (401, 403), 404
GATED, NO_REVISION = "GatedRepo", "RevisionNotFound"


@dataclass(frozen=True)
class AskedModel:
    """A model of a hub as it is asked for."""

    id: str
    revision: str = NEWEST

    @property
    def spoken(self) -> str:
        """Its id, and its revision where one was named."""
        return self.id if self.revision == NEWEST else f"{self.id}@{self.revision}"


def asked_model(words: str) -> AskedModel:
    """The model that ORG/NAME or ORG/NAME@REVISION names.

    >>> asked_model("Qwen/Qwen3-8B@v1.0")
    AskedModel(id='Qwen/Qwen3-8B', revision='v1.0')
    """
    name, at, revision = words.strip().partition("@")
    is_plain = ID.fullmatch(name) and not re.search(r"\.\.|--", name)
    is_revision = not at or (REVISION.fullmatch(revision) and ".." not in revision)
    if not is_plain or not is_revision:
        hint = "It stands at the head of the model's page on the hub; a revision is a branch, a tag or a commit."
        raise UsageError(
            "no id of a model on the hub", found=words, expected="ORG/NAME or ORG/NAME@REVISION", hint=hint
        )
    return AskedModel(name, revision or NEWEST)


@dataclass(frozen=True)
class Hub:
    """The hub that is asked: its address, and the token that goes there."""

    endpoint: str = ENDPOINT
    token: str = ""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Hub:
        """The hub that the environment names, as huggingface_hub reads it."""
        return cls((environment.get(ENDPOINT_VARIABLE) or ENDPOINT).rstrip("/"), environment.get(TOKEN_VARIABLE) or "")

    def asked(self, path: str) -> Question:
        """A page of the hub, asked for with the token."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return Question(f"{self.endpoint}{path}", headers, is_secret=bool(self.token), key_stays=True)

    def refusing(self, asked: AskedModel, status: int, code: str) -> Exception | None:
        """What a refusal of the hub means for this model; None: what it means for every server."""
        if status in NOT_ALLOWED and self.token and code != GATED:
            problem = f"the hub does not show {asked.spoken} to the holder of {TOKEN_VARIABLE} ({status})"
            return DataMissing(problem, hint="Is the id spelled right, and the token of somebody who may read it?")
        if status in NOT_ALLOWED:
            problem = f"{asked.spoken} is {'gated' if code == GATED else 'not there, private or gated'} ({status})"
            page = f"{self.endpoint}/{asked.id}"
            hint = f"Accept its terms on {page}, and set {TOKEN_VARIABLE} to a token that may read it."
            return DataMissing(problem, hint=hint)
        if status == NOT_FOUND and code == NO_REVISION:
            return UsageError(f"{asked.id} has no revision {asked.revision}", expected="a branch, a tag or a commit")
        return None


@dataclass(frozen=True)
class Repository:
    """A revision of a model as the hub lists it: files by name, with their sizes where they are known."""

    id: str
    commit: str
    sizes: Mapping[str, float]


@dataclass(frozen=True)
class Visit:
    """One model that is being added: from which hub, over which connection, into which folder, on which day."""

    asked: AskedModel
    hub: Hub
    download: Download
    root: Path
    day: date


def visit_of(asked: AskedModel, hub: Hub, client: httpx.Client, root: Path, day: date, clock: Any, **how: Any) -> Visit:
    """A visit within its bounds; pages that arrived are kept beside the models until this one is whole."""
    bounds: Bounds = how.pop("bounds", HUB_BOUNDS)
    ends_at_s = clock() + bounds.seconds

    def refuse(url: str, answer: httpx.Response) -> None:
        is_hub = url.startswith(f"{hub.endpoint}/")
        known = hub.refusing(asked, answer.status_code, answer.headers.get("X-Error-Code", "")) if is_hub else None
        if known is not None:
            raise known
        refuse_status(url, answer)

    folder = root / DOWNLOAD_FOLDER / re.sub(r"[^\w.-]", "--", asked.spoken)
    download = Download(folder, client, bounds=bounds, is_late=lambda: clock() > ends_at_s, refuse=refuse, **how)
    return Visit(asked, hub, download, root, day)


def add_model(visit: Visit) -> tuple[KeptCheckpoint, Path]:
    """Bring a model of the hub into its folder; where anything fails, nothing of it is there.

    Pages that arrived stay for the next try where the hub could not be reached, or the disk is full.
    """
    try:
        kept, texts = brought(visit)
        folder = write_model(visit.root, kept, texts)
    except (Unreachable, OSError):
        raise
    except BaseException:
        shutil.rmtree(visit.download.folder, ignore_errors=True)
        raise
    shutil.rmtree(visit.download.folder, ignore_errors=True)
    return kept, folder


def brought(visit: Visit) -> tuple[KeptCheckpoint, Mapping[str, str]]:
    """What the hub holds of a model: its revision with the sizes of its tensors, and files that describe it."""
    found = repository(visit)
    files = dict(brought_files(visit, found))
    said = {name: content for name, (_, content) in files.items()}
    named = weight_files(visit.asked, found, said.get(INDEX))
    tensors = [tensor for name in named for tensor in tensors_of(visit, found, name)]
    kept = KeptCheckpoint(
        id=found.id,
        asked_revision=visit.asked.revision,
        commit=found.commit,
        day=visit.day,
        source=visit.hub.endpoint,
        num_files=len(named),
        parts=stored_parts(tensors, with_quantization(said)),
    )
    return kept, {name: text for name, (text, _) in files.items()}


def repository(visit: Visit) -> Repository:
    """The revision as the hub lists it; a model without what describes it is refused by what it is instead."""
    asked, download = visit.asked, visit.download
    question = visit.hub.asked(f"/api/models/{asked.id}/revision/{quote(asked.revision, safe='')}?blobs=true")
    where = without_query(question.url)
    try:
        # A branch moves on: what the hub says of it is asked anew each time, and never kept.
        info = parsed(download.patiently(question.url, lambda: download.whole_page(question, CONFIG_BYTES)))
    except BrokenFeed as error:
        raise unknown_to_hub(visit, error) from None
    commit = info.get("sha") if isinstance(info, dict) else None
    listed = info.get("siblings") if isinstance(info, dict) else None
    if not isinstance(commit, str) or not COMMIT.fullmatch(commit) or not isinstance(listed, list):
        raise BrokenFeed(f"{where} does not answer as a hub of models", expected="a commit and its files")
    sizes = {s["rfilename"]: size_of(s) for s in listed if isinstance(s, dict) and isinstance(s.get("rfilename"), str)}
    named = info.get("id")
    is_same = isinstance(named, str) and ID.fullmatch(named) and named.casefold() == asked.id.casefold()
    found = Repository(named if is_same else asked.id, commit, sizes)
    if CONFIG not in sizes:
        raise without_config(found)
    return found


def size_of(sibling: Mapping[str, Any]) -> float:
    """Bytes of a file of a listing; infinite where they are not said."""
    size = sibling.get("size")
    return size if isinstance(size, int) and size >= 0 else math.inf


def unknown_to_hub(visit: Visit, error: BrokenFeed) -> Exception:
    """The error of a listing that did not come: a hub that has no such model says 404."""
    if isinstance(error, Unreachable) or f"answers {NOT_FOUND}" not in error.problem:
        return error
    hint = "Is it spelled as on its page? A model of your own is read from its folder: 'gpufleet fit ./FOLDER'."
    return UsageError(f"the hub has no model {visit.asked.spoken}", hint=hint)


def without_config(found: Repository) -> UsageError:
    """Why a repository describes no model."""
    kinds = {
        ".gguf": ("files of llama.cpp alone", f"Name the model with its type, such as '{found.id}:Q4_K_M'."),
        "adapter_config.json": ("an adapter", "Add the model that it is an adapter of."),
        "params.json": ("Mistral's params.json alone", "Add a conversion for transformers."),
        "model_index.json": ("a pipeline of diffusers", "Image generators are not planned here."),
    }
    found_kind = next((said for end, said in kinds.items() if any(name.endswith(end) for name in found.sizes)), None)
    holds, hint = found_kind or ("none", None)
    return UsageError(f"{found.id} has no {CONFIG}", found=holds, expected="a model for transformers", hint=hint)


def brought_files(visit: Visit, found: Repository) -> Iterator[tuple[str, tuple[str, Mapping[str, Any]]]]:
    """Every file of the repository that describes its model or its weights: its text, and what that says."""
    for name in (name for name in BROUGHT if name in found.sizes):
        limit_bytes = INDEX_BYTES if name == INDEX else CONFIG_BYTES
        question = visit.hub.asked(path_of(found, name))
        text = visit.download.page(question, partial(visit.download.whole_page, question, limit_bytes))
        yield name, (text, json_object(text, name))


def path_of(found: Repository, name: str) -> str:
    """Where a file of a revision lies on the hub."""
    return f"/{found.id}/resolve/{found.commit}/{quote(name)}"


def json_object(text: str, name: str) -> dict[str, Any]:
    """A file that is one JSON object."""
    content = parsed(text)
    if not isinstance(content, dict):
        raise BrokenFeed(f"{name} is not one JSON object", found=shorten(content))
    return content


def with_quantization(said: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """The config, with what a file beside it says of its quantisation where it says nothing itself."""
    names = ("quantize_config.json", "quantization_config.json", "quant_config.json")
    beside = next((said[name] for name in names if name in said), None)
    return said[CONFIG] if beside is None else {"quantization_config": beside, **said[CONFIG]}


def weight_files(asked: AskedModel, found: Repository, index: Mapping[str, Any] | None) -> list[str]:
    """The files of safetensors that make up the model: those of its index, or the one that there is."""
    alone = [name for name in found.sizes if name.endswith(WEIGHTS) and "/" not in name]
    if index is None:
        return [ONE_FILE] if ONE_FILE in found.sizes else alone[:1] if len(alone) == 1 else []
    named = index.get("weight_map")
    if not isinstance(named, dict) or not named:
        raise BrokenFeed(f"the index of {asked.spoken} names no files", expected="a weight_map")
    files = sorted(set(map(str, named.values())))
    refuse_over(len(files), MOST_FILES, "files of weights", f"the index of {asked.spoken}")
    for name in files:
        is_plain = name.endswith(WEIGHTS) and not name.startswith("/") and ".." not in name.split("/")
        if not is_plain or name not in found.sizes:
            problem = f"the index of {asked.spoken} names a file that the repository does not hold"
            raise BrokenFeed(problem, found=name, expected="files beside it")
    return files


def tensors_of(visit: Visit, found: Repository, name: str) -> list[StoredTensor]:
    """The tensors of a file of weights, by its header."""
    question = visit.hub.asked(path_of(found, name))
    text = visit.download.page(question, lambda: header_text(visit, question, name))
    return checked_tensors(json_object(text, name), name, len(text.encode()), found.sizes[name])


def header_text(visit: Visit, question: Question, name: str) -> str:
    """The header of a file of safetensors: a length in 8 bytes, then JSON."""
    start = visit.download.beginning(question, FIRST_BYTES)
    if len(start) < LENGTH_BYTES:
        raise Temporary(f"{name} ends after {len(start)} bytes")
    [length] = struct.unpack("<Q", start[:LENGTH_BYTES])
    refuse_over(length, HEADER_BYTES, "bytes in the header", name)
    whole = LENGTH_BYTES + length
    if whole > len(start):
        start = visit.download.beginning(question, whole)
    if len(start) < whole:
        raise Temporary(f"{name}: half a header, {len(start):,} of {whole:,} bytes")
    try:
        text = start[LENGTH_BYTES:whole].decode("utf-8")
        parsed(text)
    except ValueError as error:
        raise BrokenFeed(f"{name} is no file of safetensors: {error}") from None
    return text.rstrip()


def checked_tensors(header: Mapping[str, Any], name: str, header_bytes: int, file_bytes: float) -> list[StoredTensor]:
    """Tensors as a header describes them; one that contradicts itself or its file is refused."""
    try:
        tensors = [stored_tensor(key, said) for key, said in header.items() if key != "__metadata__"]
    except (ValueError, KeyError, TypeError) as error:
        raise BrokenFeed(f"the header of {name} is damaged: {error}") from None
    held = sum(tensor.size_bytes for tensor in tensors)
    if LENGTH_BYTES + header_bytes + held > file_bytes:
        raise BrokenFeed(
            f"the header of {name} names more than the file holds", found=f"{held:,} of {file_bytes:,} bytes"
        )
    return tensors


def stored_tensor(name: str, said: Mapping[str, Any]) -> StoredTensor:
    """One entry of a header.

    >>> stored_tensor("a", {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}).size_bytes
    12
    """
    shape, (begins, ends) = tuple(said["shape"]), said["data_offsets"]
    if not all(type(n) is int and n >= 0 for n in (*shape, begins, ends)) or ends < begins:
        raise ValueError(f"{shorten(name)} has no sizes")
    tensor = StoredTensor(name, str(said["dtype"]), shape, ends - begins)
    bits = BITS.get(tensor.number_format)
    if bits is not None and tensor.size_bytes != -(-math.prod(shape) * bits // 8):
        raise ValueError(
            f"{shorten(name)} takes {tensor.size_bytes:,} bytes, which is not its shape in {said['dtype']}"
        )
    return tensor


def write_model(root: Path, kept: KeptCheckpoint, texts: Mapping[str, str]) -> Path:
    """Write a model beside its place, to the disk, and rename it: at no moment is half of it there."""
    folder = root / kept.id / kept.commit
    whole, former = (root / DOWNLOAD_FOLDER / f"{what}-{os.getpid()}" for what in ("writing", "former"))
    for left in (whole, former):
        shutil.rmtree(left, ignore_errors=True)
    try:
        for name, text in texts.items():
            write_whole(whole / name, text)
        write_whole(whole / FILE, json.dumps(kept.as_mapping(), indent=1))
        folder.parent.mkdir(parents=True, exist_ok=True)
        if os.path.isdir(folder):
            os.rename(folder, former)
        os.rename(whole, folder)
        settle(folder.parent)
    finally:
        for left in (whole, former):
            shutil.rmtree(left, ignore_errors=True)
    return folder
