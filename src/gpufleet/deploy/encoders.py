"""The command that starts one copy of a model that is not a decoder, in the words of the engines that serve those."""

from __future__ import annotations

import math
from collections.abc import Callable

from gpufleet.deploy.launch import NO_CHECKPOINT, version_notes
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.encoder import EncoderModel, Tower
from gpufleet.domain.engine_flags import EngineFlags
from gpufleet.domain.runtime import Runtime
from gpufleet.languages import shell_command
from gpufleet.records import dataclass
from gpufleet.results.base import Launch

Words = list[list[str]]
DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
CLIENT_BATCH = 32  # default of text-embeddings-inference: inputs that a client may send at once
OF_AMD = ["--device=/dev/kfd", "--device=/dev/dri", "--group-add", "video", "--network", "host"]
OLDER_VLLM = "vLLM before 0.10.1 takes --task embed in the place of --runner pooling"
TOKENISING = (
    "The figures are the GPU's alone: tokenising and answering took vLLM 90 % of the time where Snowflake looked "
    "(snowflake.com/en/engineering-blog/embedding-inference-arctic-16x-faster); more processes help: --api-server-count"
)
ONE_AT_A_TIME = (
    "The figures let windows of several requests share a pass; this server runs every request by itself: "
    "measure it before you rely on the rate"
)


@dataclass(frozen=True)
class EncoderReplica:
    """One copy as an answer assumes it: what it loads, the GPU, and the inputs of a pass.

    `checkpoint`: a hub id or a folder, None where none is known. `is_service`: requests come one by one. `flags`:
    those of the engine's command, None where no table has them.
    """

    model: EncoderModel
    tower: Tower
    checkpoint: str | None
    stands_for_shape: bool
    runtime: Runtime
    gpu: Accelerator
    weights: str
    batch: float
    tokens: float
    beams: int
    flags: EngineFlags | None = None
    is_service: bool = False
    replicas_per_machine: int | None = None

    @property
    def shares_machine(self) -> bool:
        """Whether others like it run on the same machine."""
        return (self.replicas_per_machine or 1) > 1

    @property
    def loaded_from(self) -> str:
        """The checkpoint, or a name to be replaced."""
        return self.checkpoint or f"{NO_CHECKPOINT}/{self.model.name}"

    @property
    def image(self) -> str:
        """The container image of the engine's version for this GPU; its name alone where none is known."""
        return self.runtime.image_on(self.gpu) or self.runtime.name

    @property
    def pass_tokens(self) -> int:
        """Tokens of a full pass, and of the longest text at least."""
        longest = 0 if self.tower.is_stretchable else self.tower.max_tokens
        return max(math.ceil(self.batch * self.tokens), longest)

    @property
    def docker_gpus(self) -> list[str]:
        """The GPUs that a container sees: all of a machine of one, else its own."""
        return ["--gpus", "device=0" if self.shares_machine else "all"]


@dataclass(frozen=True)
class EncoderDialect:
    """How one engine is told, and what flags cannot say."""

    documented: str
    words: Callable[[EncoderReplica], Words]
    notes: Callable[[EncoderReplica], list[str]] = lambda _: []


def text_embeddings_words(r: EncoderReplica) -> Words:
    """The image of the GPU's compute capability; --max-batch-tokens bounds a pass."""
    words = [["docker", "run", *r.docker_gpus], ["-p", "8080:80"], [r.image], ["--model-id", r.loaded_from]]
    words += [["--dtype", DTYPES[r.weights]], ["--max-batch-tokens", str(r.pass_tokens)]]
    many = [["--max-client-batch-size", f"{r.batch:.0f}"]] if r.batch > CLIENT_BATCH else []
    return [*words, *many]


def infinity_words(r: EncoderReplica) -> Words:
    """The image of the GPU's vendor; --batch-size bounds a pass."""
    is_amd = r.gpu.vendor == "amd"
    devices = [OF_AMD] if is_amd else [r.docker_gpus, ["-p", "7997:7997"]]
    own = [["--engine", "torch"], ["--compile"], ["--no-bettertransformer"]] if is_amd else []
    start = [["docker", "run"], *devices, [r.image, "v2"], ["--model-id", r.loaded_from]]
    return [*start, ["--dtype", DTYPES[r.weights]], ["--batch-size", f"{r.batch:.0f}"], ["--port", "7997"], *own]


def vllm_pooling_words(r: EncoderReplica) -> Words:
    """--max-num-batched-tokens and --max-num-seqs bound a pass."""
    words = [["vllm", "serve", r.loaded_from], ["--runner", "pooling"], ["--dtype", DTYPES[r.weights]]]
    return [*words, ["--max-num-batched-tokens", str(r.pass_tokens)], ["--max-num-seqs", f"{r.batch:.0f}"]]


def faster_whisper_words(r: EncoderReplica) -> Words:
    """Of files its command line client, of requests a server that loads the model which a request names."""
    kind = compute_type(r.weights, computes_bf16=r.gpu.computes("bf16"))
    if r.is_service:
        start = [["docker", "run", *r.docker_gpus], ["-p", "8000:8000"], ["-e", f"WHISPER__COMPUTE_TYPE={kind}"]]
        return [*start, [r.image]]
    words = [["whisper-ctranslate2", "audio.mp3"], ctranslate2_model(r), ["--device", "cuda"], ["--compute_type", kind]]
    batched = [["--batched", "True"], ["--batch_size", f"{r.batch:.0f}"]] if r.batch > 1 else []
    return [*words, ["--beam_size", str(r.beams)], *batched]


def ctranslate2_model(r: EncoderReplica) -> list[str]:
    """The name of a published Whisper, else the folder of a converted one."""
    owner, _, name = (r.checkpoint or "").rpartition("/")
    if owner in ("openai", "distil-whisper"):
        return ["--model", name.removeprefix("whisper-")]
    return ["--model_directory", f"{NO_CHECKPOINT}/{r.model.name}-ct2"]


def compute_type(weights: str, *, computes_bf16: bool) -> str:
    """CTranslate2's word for a format: int8 weights run beside 16 bits.

    >>> compute_type("int8", computes_bf16=False)
    'int8_float16'
    """
    half = "bfloat16" if computes_bf16 else "float16"
    return f"int8_{half}" if weights.startswith("int8") else DTYPES[weights]


def faster_whisper_notes(r: EncoderReplica) -> list[str]:
    """What the words do not say."""
    if r.is_service:
        return [ONE_AT_A_TIME]
    files = "audio.mp3 stands for your files; several may be named"
    return [f"{files}, but only windows of one file share a pass: short ones fill none" if r.batch > 1 else files]


DIALECTS = {
    "text-embeddings-inference": EncoderDialect(
        "text-embeddings-inference 1.9 (huggingface.co/docs/text-embeddings-inference)", text_embeddings_words
    ),
    "infinity": EncoderDialect("Infinity (michaelfeil.eu/infinity, CLI v2)", infinity_words),
    "vllm": EncoderDialect(
        "vLLM 0.10.1 and later (docs.vllm.ai)", vllm_pooling_words, lambda _: [OLDER_VLLM, TOKENISING]
    ),
    "faster-whisper": EncoderDialect(
        "whisper-ctranslate2, a client of faster-whisper, and speaches.ai, a server",
        faster_whisper_words,
        faster_whisper_notes,
    ),
}


def encoder_launch(replica: EncoderReplica) -> Launch | None:
    """What starts the copy; None for libraries, which your own code calls."""
    dialect = DIALECTS.get(replica.runtime.name)
    if dialect is None:
        return None
    groups = dialect.words(replica)
    if replica.flags is not None:
        replica.flags.held(engine_words(groups))
    words = [word for group in groups for word in group]
    return Launch(
        engine=replica.runtime.title,
        documented=dialect.documented,
        image=replica.runtime.image_on(replica.gpu),
        command=shell_command(words),
        arguments=words,
        groups=[len(group) for group in groups],
        replicas_per_machine=replica.replicas_per_machine,
        notes=[
            *checkpoint_notes(replica, words),
            *dialect.notes(replica),
            *version_notes(replica.runtime.title, replica.flags),
            *neighbour_notes(replica),
        ],
    )


def engine_words(groups: Words) -> Words:
    """The groups from the engine's program on: a container's own flags stand before its image.

    >>> engine_words([["docker", "run", "--gpus", "all"], ["-p", "80:80"], ["image:1.9"], ["--model-id", "x"]])
    [['image:1.9'], ['--model-id', 'x']]
    """
    return groups[max(place for place, group in enumerate(groups) if not group[0].startswith("-")) :]


def checkpoint_notes(replica: EncoderReplica, words: list[str]) -> list[str]:
    """What must stand in the place of a checkpoint that nobody named."""
    named = [word for word in words if word.startswith(f"{NO_CHECKPOINT}/")]
    if named:
        return [f"Put the hub id or folder of your checkpoint in place of {named[0]}"]
    stands = replica.stands_for_shape and replica.loaded_from in words
    return [f"{replica.loaded_from} stands for {replica.model.name}: name your own"] if stands else []


def neighbour_notes(replica: EncoderReplica) -> list[str]:
    """What tells copies on one machine apart."""
    if not replica.shares_machine:
        return []
    return [f"{replica.replicas_per_machine} replicas share a machine, each with a port and a GPU of its own"]
