"""Errors that a user can act on."""

from __future__ import annotations

import pytest

from gpufleet import errors
from gpufleet.errors import GpufleetError, Infeasible, UnknownName, UsageError, nearest_names

GPUS = ["H100", "H100 PCIe", "H200", "L4", "L40S", "A100 80GB", "RTX PRO 6000"]


def test_an_error_says_problem_found_expected_and_hint_in_one_breath() -> None:
    error = UsageError("cannot read a rate.", found="50", expected="'50/s'", hint="Rates have a unit.")
    assert str(error) == "cannot read a rate; found '50'; expected '50/s'. Rates have a unit."


def test_each_kind_of_error_has_a_code_of_its_own() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, GpufleetError)]
    own = {kind: kind.code for kind in kinds if "code" in vars(kind)}
    assert len(set(own.values())) == len(own) == 7
    assert errors.OutOfMemory("no room").code == "infeasible"


def test_a_missing_part_leaves_no_trace() -> None:
    assert str(UsageError("no GPU")) == "no GPU."


def test_an_error_is_one_short_line_whatever_was_found() -> None:
    error = UsageError("cannot read", found="line\nline\x1b[31m" * 1000)
    assert "\n" not in str(error)
    assert "\x1b" not in str(error)
    assert len(str(error)) < 200


@pytest.mark.parametrize(
    ("typed", "nearest"),
    [("h100", "H100"), ("H1000", "H100"), ("L40", "L4"), ("l40s", "L40S"), ("rtx 6000", "RTX PRO 6000")],
)
def test_an_unknown_name_offers_the_nearest(typed: str, nearest: str) -> None:
    assert nearest in UnknownName("GPU", typed, GPUS).nearest


@pytest.mark.parametrize("typed", ["", "a", "zzzzzz", "💥"])
def test_nothing_near_is_not_guessed(typed: str) -> None:
    error = UnknownName("GPU", typed, GPUS)
    assert error.nearest == []
    assert "Did you mean" not in str(error)


def test_a_part_of_a_long_name_finds_it() -> None:
    assert nearest_names("pro", GPUS) == ["RTX PRO 6000"]


def test_every_kind_of_error_has_the_exit_code_that_the_manual_promises() -> None:
    codes = {name: getattr(errors, name).exit_code for name in ("UsageError", "UnknownName", "Infeasible")}
    codes |= {name: getattr(errors, name).exit_code for name in ("PolicyViolation", "DataMissing")}
    assert codes == {"UsageError": 2, "UnknownName": 2, "Infeasible": 3, "PolicyViolation": 4, "DataMissing": 5}


def test_one_except_clause_catches_all_of_them() -> None:
    with pytest.raises(GpufleetError):
        raise Infeasible("no offer")


def test_few_names_are_all_told_and_many_are_not() -> None:
    assert str(UnknownName("KV format", "zz", ["bf16", "fp8"])) == "unknown KV format 'zz'. Known: bf16, fp8."
    assert "Known" not in str(UnknownName("GPU", "zz", [f"GPU-{n}" for n in range(50)]))
    assert "Known" not in str(UnknownName("option", "zz", ["-a"], hint="'--help' explains."))


def test_a_name_of_thousands_of_characters_is_said_without_its_middle() -> None:
    said = str(UsageError(f"cannot write {'x' * 50_000}/y: no such folder"))
    assert len(said) < 1100
    assert said.startswith("cannot write xxx")
    assert said.endswith("xxx/y: no such folder.")


def test_a_hint_that_repeats_what_was_typed_is_no_longer_than_a_sentence() -> None:
    said = str(UsageError("cannot read a rate", found="9" * 5000, hint=f"Type '{'9' * 5000}/s'."))
    assert len(said) < 1000
    assert said.endswith("/s'.")
