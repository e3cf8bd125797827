"""`gpufleet demo`: one real question, answered by the commands that anybody can type."""

from __future__ import annotations

import shlex
from contextlib import redirect_stdout
from io import StringIO
from typing import NamedTuple

from gpufleet.cli.options import verb
from gpufleet.report.output_stream import say

app = verb()

QUESTION = """\
A chat service on Llama 3.1 8B: 10 requests per second, 1000 tokens in, 300 out,
first token within 500 ms and 40 ms per further token for 95 % of requests.
Which GPUs, how many, where, and for how much?
"""


class Step(NamedTuple):
    """A question on the way, the command that answers it, and how many paragraphs of the page are the answer."""

    asks: str
    command: str
    paragraphs: int = 1


STEPS = (
    Step("Does the model fit a small card, and for how many users?", "gpufleet fit llama-3.1-8b --gpus L4"),
    Step(
        "Is one of them fast enough, say for eight users at a time?",
        "gpufleet estimate llama-3.1-8b --gpus L4 --in 1000 --out 300 --concurrency 8",
    ),
    Step(
        "What is the cheapest of everything on offer that is fast enough?",
        "gpufleet plan serve llama-3.1-8b --rate 10/s --in 1000 --out 300 --slo 'ttft.p95<500ms,tpot.p95<40ms'",
        paragraphs=2,
    ),
    Step(
        "And if a token had to come every 2 ms?",
        "gpufleet plan serve llama-3.1-8b --rate 10/s --in 1000 --out 300 --slo 'tpot.p95<2ms' --gpus L4,L40S,H100",
        paragraphs=2,
    ),
)
NEXT = """\
Type next
  gpufleet plan serve YOUR_MODEL --rate 10/s --in 1000 --out 300
      a name of 'gpufleet catalog models', or the path of a config.json
  gpufleet catalog prices --gpu H100 --limit 5
      what is known of prices, with source and date
  gpufleet doctor
      what this installation has, and how old its prices are
"""


@app.command()
def demo() -> None:
    """One real question answered step by step; every answer is what its command prints, cut short."""
    say(QUESTION)
    for number, step in enumerate(STEPS, start=1):
        say(f"\n{number}. {step.asks}\n  $ {wrapped_command(step.command)}\n{answer(step)}")
    say(f"\n{NEXT}")


def answer(step: Step) -> str:
    """The first paragraphs of what the command prints."""
    from gpufleet.cli.app import dispatch

    with redirect_stdout(StringIO()) as page:
        dispatch(shlex.split(step.command)[1:])
    return "\n\n".join(page.getvalue().split("\n\n")[: step.paragraphs]).rstrip() + "\n"


def wrapped_command(command: str) -> str:
    """A command of more than one line as a shell takes it."""
    before, flag, after = command.partition(" --slo")
    return f"{before} \\\n     {flag}{after}" if flag else command
