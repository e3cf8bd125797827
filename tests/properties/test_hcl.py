"""Values as HCL read back as the same values, and `terraform fmt` would lay them out no other way."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import hcl2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.terraform_checks import parsed
from tests.effort import cases

from gpufleet.hcl import Block, Call, Code, hcl_document, inner, text_of

TEXTS = st.one_of(
    st.text(max_size=30).filter(lambda text: not any(0xD800 <= ord(c) < 0xE000 or c == "\0" for c in text)),
    st.text("${}%\"'\\\n\r#/*=: ab", max_size=12),
)
NAMES = st.one_of(st.sampled_from(["for", "null", "true", "if", "a", "b-c", "d_e"]), st.text("a:b/. 1é", max_size=5))
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-(10**9), 10**9), TEXTS)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda one: st.lists(one, max_size=4) | st.dictionaries(NAMES, one, max_size=4), max_leaves=8
)
LABELS = st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True)
ATTRIBUTES = st.dictionaries(LABELS.filter(lambda name: name not in ("for", "if", "in")), VALUES, max_size=4)


def read(value: Any) -> Any:
    """What is read, expressions that are words as what they say."""
    if isinstance(value, dict):
        return {key: read(one) for key, one in value.items()}
    if isinstance(value, list):
        return [read(one) for one in value]
    return str(value) if isinstance(value, str) else value


@pytest.mark.slow
@settings(max_examples=cases(60, 600), deadline=None)
@given(ATTRIBUTES, ATTRIBUTES)
def test_values_read_back_equal(attributes: dict[str, Any], within: dict[str, Any]) -> None:
    written = hcl_document([Block("resource", ("a", "b"), attributes, [inner("zz_own", within)])], "a\nresource {}")
    [resource] = parsed(written)["resource"]
    content = dict(resource["a"]["b"])
    [own] = content.pop("zz_own")
    assert (read(content), read(own)) == (attributes, within)


@given(TEXTS, TEXTS)
def test_a_text_stands_beside_an_expression_and_begins_none(before: str, after: str) -> None:
    written = text_of(before, Code("var.name"), after).text
    [raw] = hcl2.loads(f"a = {written}\n").values()
    left, right = raw.split("${var.name}")
    assert not left.endswith(("$", "%"))
    assert not re.search(r"[$%]\{", left + right)
    assert (json.loads(f'{left}"'), json.loads(f'"{right}')) == (before, after)


@settings(max_examples=cases(6, 60), deadline=None)
@given(st.lists(ATTRIBUTES, min_size=5, max_size=20))
def test_terraform_would_lay_it_out_no_other_way(tmp_path_factory: pytest.TempPathFactory, many: list[Any]) -> None:
    terraform = shutil.which("terraform")
    if terraform is None:
        pytest.skip("terraform is not installed")
    folder: Path = tmp_path_factory.mktemp("hcl")
    for number, attributes in enumerate(many):
        called = {"called": Call("jsonencode", attributes)}
        blocks = [Block("resource", ("a", "b"), {**attributes, **called}, [inner("own", attributes)])]
        (folder / f"{number}.tf").write_text(hcl_document(blocks), encoding="utf-8")
    done = subprocess.run([terraform, "fmt", "-check", "-diff", str(folder)], capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"")
