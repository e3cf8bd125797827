"""Commands of random copies and plans are read by a parser that is made of the flags of their version alone."""

from __future__ import annotations

import argparse
import random
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from tests.effort import cases

import gpufleet
from gpufleet import ServeRequest
from gpufleet.api.configured import started_engine
from gpufleet.catalog.engine_flags import engine_flags, flags_by_version
from gpufleet.catalog.engine_images import engine_images
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture, shipped_encoder
from gpufleet.catalog.runtimes import find_runtime
from gpufleet.deploy.encoders import EncoderReplica, encoder_launch, engine_words
from gpufleet.deploy.launch import TOLD_FLAGS, Replica, launch
from gpufleet.domain.engine import ServedAs
from gpufleet.domain.engine_flags import EngineFlags
from gpufleet.domain.engine_start import EngineStart
from gpufleet.domain.layout import Layout
from gpufleet.domain.precision_labels import kv_format, weight_format
from gpufleet.domain.speculation import Speculation
from gpufleet.errors import DataMissing, Infeasible, OurBug, UsageError
from gpufleet.results.base import Launch
from gpufleet.results.plan import Deployment

MODELS = ("llama-3.1-8b", "deepseek-v3", "gpt-oss-120b", "qwen3-32b", "mixtral-8x7b", "gemma-3-12b-text", "opt-13b")
ENCODERS = ("bge-base-en-v1.5", "bge-m3", "all-mpnet-base-v2")
VERSIONS = [(engine, version) for engine in TOLD_FLAGS for version in flags_by_version(engine)]
DRAFTS = (None, Speculation("mtp", 3, 4), Speculation("eagle3", 3, 4), Speculation("n-gram", 5, 6))


class Raising(argparse.ArgumentParser):
    """A parser that raises where argparse leaves the program."""

    def error(self, message: str) -> Any:
        raise ValueError(message)


@cache
def parser_of(engine: str, version: str) -> Raising:
    """The parser of a version, of the rows of its table alone."""
    parser = Raising(allow_abbrev=False, add_help=False)
    parser.add_argument("model", nargs="?")
    for flag in flags_by_version(engine)[version]:
        names = (flag.name, *flag.aliases)
        if flag.takes_value is False:
            is_negated = engine == "vllm"  # vllm/engine/arg_utils.py: argparse.BooleanOptionalAction
            parser.add_argument(*names, action=argparse.BooleanOptionalAction if is_negated else "store_true")
        else:
            many = None if flag.takes_value else "?"
            parser.add_argument(*names, nargs=many, choices=flag.choices or None)
    return parser


def parses(started: Launch, engine: str, version: str) -> None:
    """Whether the parser of a version takes all words after the program's."""
    sizes, words = list(started.groups), list(started.arguments)
    groups = [[words.pop(0) for _ in range(size)] for size in sizes]
    own = engine_words(groups) if engine == "text-embeddings-inference" else groups
    first, *rest = own
    programs = {"vllm": 2, "sglang": 3, "tensorrt-llm": 1, "text-embeddings-inference": 1}
    parser_of(engine, version).parse_args([*first[programs[engine] :], *(word for group in rest for word in group)])


def told(dice: random.Random, flags: EngineFlags) -> ServedAs:
    """Random words that an engine is served with, of those that its version has."""
    said: dict[str, str] = {}
    for word, name in TOLD_FLAGS[flags.engine].items():
        flag = flags.flag_of(name)
        if flag is not None and dice.random() < 0.5:
            said[word] = dice.choice(flag.choices or ("x",))
    return ServedAs(dtype=dice.choice([None, "auto", "float16", "bfloat16"]), **said)


def random_copy(dice: random.Random, engine: str, version: str) -> Replica:
    """A random copy, without planning."""
    flags = engine_flags(engine, version)
    assert flags is not None
    arch = shipped_architecture(dice.choice(MODELS))
    start = EngineStart(
        block_tokens=dice.choice([None, 32, 64]),
        chunks_prompts=dice.choice([None, True, False]),
        enforce_eager=dice.random() < 0.5,
    )
    profile = replace(started_engine(engine, version, start), told=told(dice, flags), drafts=dice.choice(DRAFTS))
    tp, dp = dice.choice([1, 2, 4, 8]), dice.choice([1, 1, 2, 8])
    return Replica(
        model=arch.name,
        checkpoint=dice.choice(["org/name", None]),
        engine=profile,
        layout=Layout(tp, dice.choice([1, 2]), dice.choice([1, tp * dp]), dp),
        stored=arch.weights,
        weights=weight_format(arch, dice.choice([None, "bf16", "fp16", "fp8", "int4"])),
        kv=kv_format(dice.choice(["bf16", "fp16", "fp8", "int8"])),
        longest_request_tokens=dice.randint(100, 100_000),
        step_tokens=dice.choice([2048, 8192]),
        memory_fraction=0.9,
        stands_for_shape=dice.random() < 0.5,
        vendor=dice.choice(["nvidia", "amd"]),
        host_architecture=dice.choice(["x86_64", "arm64"]),
        sequences=dice.choice([None, dice.randint(1, 500)]),
        replicas_per_machine=dice.choice([None, 1, 4]),
        flags=flags,
        images=engine_images(engine),
        draft_checkpoint="head" if profile.drafts and profile.drafts.method == "eagle3" else None,
    )


def random_encoder(dice: random.Random) -> EncoderReplica:
    """A random copy of an encoder that text-embeddings-inference serves."""
    runtime = find_runtime("tei")
    gpus = [gpu for gpu in load_catalog().accelerators.values() if runtime.runs_on(gpu)]
    model = shipped_encoder(dice.choice(ENCODERS))
    known, batch, tokens = dice.choice(["org/name", None]), dice.randint(1, 500), dice.randint(8, 512)
    weights, flags = dice.choice(["fp32", "fp16"]), engine_flags(runtime.name)
    gpu, several = dice.choice(gpus), dice.choice([1, 4])
    return EncoderReplica(
        model, model.towers[0], known, False, runtime, gpu, weights, batch, tokens, 1, flags,
        is_service=dice.random() < 0.5, replicas_per_machine=several,
    )  # fmt: skip


@pytest.mark.parametrize(("engine", "version"), VERSIONS)
def test_commands_of_random_copies_are_read_by_their_version(engine: str, version: str) -> None:
    """At least two versions of vLLM, SGLang and TensorRT-LLM each."""
    dice = random.Random(f"{engine} {version}")
    assert len(flags_by_version(engine)) >= 2
    for _ in range(cases(350, 2000)):
        started = launch(random_copy(dice, engine, version))
        assert started is not None
        parses(started, engine, version)


def test_commands_of_random_encoders_are_read_by_text_embeddings_inference() -> None:
    dice = random.Random(3)
    for _ in range(cases(100, 1000)):
        started = encoder_launch(random_encoder(dice))
        assert started is not None
        parses(started, "text-embeddings-inference", "1.9.3")


def test_a_flag_that_the_version_lacks_is_found_when_the_command_is_built() -> None:
    """Every flag of a full command in turn, of every version, is taken out of its table."""
    planted = 0
    for engine, version in VERSIONS:
        dice = random.Random(engine)
        copy = max((random_copy(dice, engine, version) for _ in range(8)), key=lambda r: len(groups_of(r)))
        assert copy.flags is not None
        for spelling in groups_of(copy):
            names = (spelling, spelling.replace("--no-", "--"))
            without = {name: flag for name, flag in copy.flags.by_spelling.items() if name not in names}
            with pytest.raises(OurBug, match=f"{spelling} is no flag"):
                launch(replace(copy, flags=replace(copy.flags, by_spelling=without)))
            planted += 1
    assert planted >= 60


def groups_of(copy: Replica) -> list[str]:
    """The flags of a copy's command."""
    started = launch(copy)
    assert started is not None
    return [word for word in started.arguments if word.startswith("--")]


def random_request(dice: random.Random) -> tuple[ServeRequest, str, str]:
    """A question of one engine's version, and which."""
    engine, version = dice.choice(VERSIONS)
    flags = engine_flags(engine, version)
    assert flags is not None
    served = told(dice, flags)
    words = {name: value for name in ServedAs.__dataclass_fields__ if (value := getattr(served, name)) is not None}
    request = ServeRequest(
        dice.choice(["llama-3.1-8b", "mixtral-8x7b", "qwen3-32b", "gemma-3-12b-text"]),
        dice.choice([1.0, 20.0, 200.0]),
        dice.choice([200, 2000]),
        dice.choice([50, 400]),
        gpus=dice.sample(["L4", "L40S", "A100-SXM-80GB", "H100", "H200", "B200", "RTX-4090"], 2),
        clouds=[dice.choice(["aws", "gcp", "runpod", "lambda"])],
        precision=dice.choice([None, None, ["fp8"]]),
        engine=engine,
        engine_version=version,
        rows=5,
        **words,
    )
    return request, engine, version


def deployments_of(request: ServeRequest) -> list[Deployment]:
    """What a plan ranks; nothing where it is refused or has no price."""
    try:
        return gpufleet.plan_serve(request).deployments
    except (UsageError, Infeasible, DataMissing):
        return []


def test_commands_of_random_plans_are_read_by_their_version() -> None:
    dice = random.Random(11)
    read = 0
    for _ in range(cases(2, 2000)):
        request, engine, version = random_request(dice)
        for row in deployments_of(request):
            assert row.launch is not None
            parses(row.launch, engine, version)
            read += 1
    assert read
