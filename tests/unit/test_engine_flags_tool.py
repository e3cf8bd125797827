"""Flags are read from an engine's source without running it: made-up trees in the forms that engines write."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from tools.engine_flags import Comparison, flags_in, main

from gpufleet.catalog.engine_flags import COLUMNS
from gpufleet.domain.engine_flags import EngineFlag
from gpufleet.errors import DataMissing

VLLM = {
    "vllm/config/made_up.py": '''
        Shade = Literal["auto", "dark"]
        Shades = Literal[Shade, "light"]
        class RoomConfig:
            colour: Shades = "auto"
            open_colour: Shade | str = "auto"
            lamps: int = 1
            is_lit: bool | None = None
            """Docs."""
        class OddConfig(RoomConfig):
            keys: dict[str, str] | None = None
    ''',
    "vllm/engine/arg_utils.py": """
        class EngineArgs:
            @staticmethod
            def add_cli_args(parser):
                room_kwargs = get_kwargs(OddConfig)
                group = parser.add_argument_group(title="Room")
                group.add_argument("--colour", **room_kwargs["colour"])
                group.add_argument("--open-colour", **room_kwargs["open_colour"])
                group.add_argument("--lamps", "-l", **room_kwargs["lamps"])
                group.add_argument("--lit", **{**room_kwargs["is_lit"], "default": None})
                group.add_argument("--keys", **room_kwargs["keys"])
                parser.add_argument("--quiet", action="store_true")
                parser.add_argument("--sizes", type=int, nargs="*", choices=[1, 8])
                parser.add_argument("positional")
    """,
    "vllm/entrypoints/openai/cli_args.py": """
        class BaseFrontendArgs:
            tool_call_parser: str | None = None
            enable_auto_tool_choice: bool = False
            @classmethod
            def add_cli_args(cls, parser):
                for key, value in get_kwargs(cls).items():
                    parser.add_argument(f"--{key.replace('_', '-')}", **value)
        class FrontendArgs(BaseFrontendArgs):
            server_port: int = 8000
    """,
    "vllm/tool_parsers/__init__.py": '_TOOL_PARSERS_TO_REGISTER = {"hammer": ("a", "B"), "saw": ("c", "D")}',
}
SGLANG = {
    "python/sglang/srt/arg_groups/choices.py": 'BACKENDS = ["stone", "wood"]',
    "python/sglang/srt/arg_groups/fields/parallel.py": """
        class Parallel(Struct):
            tp_size: A[int, Arg(help="Ranks.", cli_name="--tensor-size", aliases=["--tp"])] = 1
            use_stone: A[bool, "Whether stone is used."] = False
            backend: A[Optional[str], Arg(help="Which.", choices=BACKENDS + ["iron"])] = None
            hidden: A[int, Arg(help="None.", no_cli=True)] = 0
            plain: int = 0
    """,
    "python/sglang/srt/server_args.py": """
        def parsers():
            return list(Parser.kinds.keys())
        class ServerArgs:
            @staticmethod
            def add_cli_args(parser):
                names = parsers()
                parser.add_argument("--tool-call-parser", type=str, choices=["auto"] + names)
                parser.add_argument("--old", action=DeprecatedStoreTrueAction)
                parser.add_argument("--unknown", choices=ran_at_start())
    """,
    "python/sglang/srt/function_call/function_call_parser.py": """
        class Parser:
            kinds: Dict[str, Type[Base]] = {"gavel": Gavel, "saw": Saw}
    """,
}
TENSORRT = {
    "tensorrt_llm/commands/serve.py": """
        @click.command("serve")
        @click.argument("model")
        @click.option("--tp_size", type=int, default=1)
        @click.option("--trust", is_flag=True)
        @click.option("--log", "-g", type=click.Choice(["info", "error"]))
        def serve(model): ...
        @click.option("--other")
        def disaggregated(): ...
    """
}
CLAP = {
    "router/src/main.rs": """
struct Args {
    /// The model.
    #[clap(long, env)]
    #[redact(partial)]
    model_id: String,
    #[clap(default_value = "3000", long, short, env)]
    port: u16,
    #[clap(long, env)]
    json_output: bool,
    #[clap(long = "seats", env)]
    number_of_seats: Option<usize>,
}
"""
}
FOUND: dict[str, tuple[dict[str, str], list[EngineFlag]]] = {
    "vllm": (
        VLLM,
        [
            EngineFlag("--colour", (), True, ("auto", "dark", "light")),
            EngineFlag("--open-colour", (), True),
            EngineFlag("--lamps", ("-l",), True),
            EngineFlag("--lit", (), False),
            EngineFlag("--keys", (), True),
            EngineFlag("--quiet", (), False),
            EngineFlag("--sizes", (), None, ("1", "8")),
            EngineFlag("--tool-call-parser", (), True, ("hammer", "saw")),
            EngineFlag("--enable-auto-tool-choice", (), False),
            EngineFlag("--server-port", (), True),
        ],
    ),
    "sglang": (
        SGLANG,
        [
            EngineFlag("--tensor-size", ("--tp",), True),
            EngineFlag("--use-stone", (), False),
            EngineFlag("--backend", (), True, ("stone", "wood", "iron")),
            EngineFlag("--tool-call-parser", (), True, ("auto", "gavel", "saw")),
            EngineFlag("--old", (), False),
            EngineFlag("--unknown", (), True),
        ],
    ),
    "tensorrt-llm": (
        TENSORRT,
        [
            EngineFlag("--tp_size", (), True),
            EngineFlag("--trust", (), False),
            EngineFlag("--log", ("-g",), True, ("info", "error")),
        ],
    ),
    "text-embeddings-inference": (
        CLAP,
        [
            EngineFlag("--model-id", (), True),
            EngineFlag("--port", ("-p",), True),
            EngineFlag("--json-output", (), False),
            EngineFlag("--seats", (), True),
        ],
    ),
}


def written(root: Path, files: dict[str, str]) -> Path:
    """A source tree with these files."""
    for name, text in files.items():
        lines = text.splitlines()
        indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(line[indent:] for line in lines) + "\n", encoding="utf-8")
    return root


@pytest.mark.parametrize("engine", FOUND)
def test_flags_are_read_with_spellings_switches_and_choices(engine: str, tmp_path: Path) -> None:
    files, flags = FOUND[engine]
    found = {flag.name: flag for flag in flags_in(written(tmp_path, files), engine)}
    assert found == {flag.name: flag for flag in flags}


@pytest.mark.parametrize("engine", FOUND)
def test_a_tree_of_something_else_is_refused(engine: str, tmp_path: Path) -> None:
    with pytest.raises(DataMissing):
        flags_in(tmp_path, engine)


def test_the_table_has_the_columns_of_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([str(written(tmp_path, TENSORRT)), "--engine", "tensorrt-llm", "--version", "9.9", "--source", "made up"])
    header, *rows = csv.reader(io.StringIO(capsys.readouterr().out))
    assert tuple(header) == COLUMNS
    assert rows[-1] == ["9.9", "--log", "-g", "yes", "info error", "made up"]


def test_what_differs_from_our_table_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours = [EngineFlag("--tp", ("-t",)), EngineFlag("--gone"), EngineFlag("--lit", (), False)]
    theirs = [EngineFlag("--tp"), EngineFlag("--new"), EngineFlag("--lit")]
    compared = Comparison.of(ours, theirs)
    assert (compared.both, compared.ours_alone, compared.theirs_alone, compared.otherwise) == (
        ["--tp", "--lit"], ["-t", "--gone"], ["--new"], ["--lit"],
    )  # fmt: skip
    main([str(written(tmp_path, TENSORRT)), "--engine", "tensorrt-llm", "--version", "1.2", "--compare"])
    assert "in the source alone: --trust --log -g" in capsys.readouterr().out
