"""A few commands of the corpus answer in the structure that is frozen, and the comparer sees what changed.

The structures are in `tests/corpus/frozen`; `python -m tests.corpus frozen --write` renews them.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.corpus.commands import PLACES, commands
from tests.corpus.comparing import Difference, Named, differences, read_named, unnamed
from tests.corpus.frozen_structures import FROZEN, comparable, frozen_differences, structure_of
from tests.corpus.recording import Record

ASKED = commands()
PLAN = {"verdict": "fits", "rows": [{"usd": 1.5, "gpu": "L4"}, {"usd": 2, "gpu": None}], "seal": {"rows": "ab12"}}
TOLD = Record("a", "plan", 0, json.dumps(PLAN), "wrote p.csv\n", {"p.csv": "a,b\n1,2\n"})


def found(after: Record, before: Record = TOLD) -> list[str]:
    return [each.line for each in differences({"a": before}, {"a": after})]


def plan(**changed: object) -> Record:
    return replace(TOLD, out=json.dumps({**PLAN, **changed}))


def test_what_is_frozen_is_answered_as_before() -> None:
    changed = "\n".join(map(str, frozen_differences()))
    assert not changed, f"{changed}\nIf all of it is meant: python -m tests.corpus frozen --write, and look at git diff"


def test_thirty_commands_are_frozen_and_four_hundred_known() -> None:
    kept = {path.stem for path in FROZEN.glob("*.json")}
    assert len(kept) == 30
    assert kept <= ASKED.keys()
    assert len(ASKED) >= 300


def test_every_command_names_files_that_are_there() -> None:
    named = [word for each in ASKED.values() for word in each.words if word.split("/")[0] in map(str.lower, PLACES)]
    assert len(named) > 50
    for word in named:
        place, _, name = word.partition("/")
        assert (PLACES[place.upper()] / name).exists(), word


def test_a_command_may_have_variables_and_its_name_is_its_own() -> None:
    asked = commands("# none\n\na  COLUMNS=40 fit x --slo 'ttft<1s' $FILES/a.yaml\nb\n")
    assert asked["a"].environment == {"COLUMNS": "40"}
    assert asked["a"].words == ["fit", "x", "--slo", "ttft<1s", "files/a.yaml"]
    assert asked["b"].words == []
    with pytest.raises(ValueError, match="two commands: a"):
        commands("a fit\na plan\n")


@pytest.mark.parametrize(
    ("after", "line"),
    [
        (replace(TOLD, code=3), "code: 0 is now 3"),
        (plan(verdict="tight"), 'out $.verdict: "fits" is now "tight"'),
        (plan(rows=[{"usd": 1.5 + 1e-9, "gpu": "L4"}, PLAN["rows"][1]]), "out $.rows[0].usd: 1.5 is now 1.500000001"),
        (plan(rows=[{"usd": 1.5, "gpu": "L4"}, {"usd": 2}]), "out $.rows[1].gpu: is gone"),
        (plan(rows=PLAN["rows"][:1]), "out $.rows: 2 are now 1"),
        (plan(rows=[{"usd": True, "gpu": "L4"}, PLAN["rows"][1]]), "out $.rows[0].usd: 1.5 is now true"),
        (plan(seal={}), "out $.seal.rows: is gone"),
        (replace(TOLD, err=""), "err -wrote p.csv"),
        (replace(TOLD, files={}), "p.csv: is not written any more"),
        (replace(TOLD, files={"p.csv": "a,b\n1,3\n"}), "p.csv +1,3"),
        (replace(TOLD, said="plan serve"), "words: plan is now plan serve"),
    ],
)
def test_a_change_is_seen(after: Record, line: str) -> None:
    assert line in found(after)


@pytest.mark.parametrize(
    "after",
    [
        plan(new={"b": 1}),
        plan(rows=[{"usd": 1.5 * (1 + 1e-13), "gpu": "L4", "cloud": "aws"}, {"usd": 2.0, "gpu": None}]),
        plan(seal={"rows": "ff00", "new": "01"}),
        replace(TOLD, out=json.dumps(dict(reversed(PLAN.items())))),
    ],
)
def test_new_keys_their_order_and_the_last_digits_are_no_change(after: Record) -> None:
    assert found(after) == []


def test_a_command_that_is_not_asked_any_more_is_seen() -> None:
    assert [each.line for each in differences({"a": TOLD}, {})] == ["is not asked any more"]
    assert [each.line for each in differences({}, {"a": TOLD})] == ["is not asked before"]


def test_changes_that_are_named_are_excused_and_no_others() -> None:
    named = read_named('# origins\nspot-*  zones.*"given"\nfit  ^code\n')
    assert named[1] == Named.read("fit ^code")
    meant = Difference("spot-job", 'out $.zones: "default" is now "given"')
    others = [replace(meant, name="mix"), replace(meant, line="out $.zones: 3 is now 2"), Difference("fit", "err code")]
    assert unnamed([meant, *others], named) == others


def test_a_structure_keeps_keys_types_columns_and_messages() -> None:
    command = ASKED["serve-json"]
    shape = json.loads(structure_of(TOLD, command).out)
    assert shape == {"verdict": "text", "rows": [{"usd": "number", "gpu": "text"}], "seal": {"rows": "text"}}
    page = replace(TOLD, out="$1.86 an hour.\n\n  $/h  machines\n  ---  --------\n  1.2  x\n", err="found 12,000.\n")
    assert structure_of(page, command).out == "$/h  machines"
    assert structure_of(page, command).err == "found N.\n"
    assert structure_of(page, ASKED["help-fit"]).out == page.out
    assert structure_of(replace(page, out="a,b\r\n1,2\r\n"), command).out == "a,b"
    assert structure_of(replace(page, out="<!DOCTYPE html><th>USD<b> h</b></th>"), command).out == "USD h"


def test_what_says_nothing_agrees_with_anything_of_its_key() -> None:
    command = ASKED["serve-json"]
    was, now = (structure_of(each, command) for each in (plan(flips=None), plan(flips=[{"usd": 3}], rows=[])))
    assert found(*reversed(comparable(was, now))) == []
    lost = structure_of(plan(rows=[{"usd": 1}]), command)
    assert found(*reversed(comparable(was, lost))) == ["out $.rows[0].gpu: is gone", "out $.flips: is gone"]
