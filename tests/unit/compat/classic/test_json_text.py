"""JSON that knows where it stands."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.compat.classic.json_text import JsonText, Value
from gpufleet.errors import UsageError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(st.text("abcdefg", max_size=5), parts, max_size=4),
    max_leaves=12,
)  # fmt: skip


def plain(value: Value) -> object:
    if isinstance(value.content, dict):
        return {entry.key: plain(entry) for entry in value.content.values()}
    if isinstance(value.content, list):
        return [plain(item) for item in value.content]
    return value.content


@pytest.mark.slow
@given(JSON, st.sampled_from([None, 2]), st.booleans())
@settings(max_examples=300, deadline=None)
def test_it_reads_what_the_standard_library_writes(data: object, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(data, indent=indent, ensure_ascii=ascii_only)
    assert plain(JsonText(text, "f").read()) == data


def test_a_value_knows_its_line_and_column() -> None:
    value = JsonText('{\n  "P5": {\n    "vcpus": 8\n  }\n}', "f.json").read()
    assert str(value.content["p5"].content["vcpus"].place) == "f.json:3:14"


def test_comments_are_passed_over_and_counted_but_not_inside_of_texts() -> None:
    reader = JsonText('{ // one\n"url": "http://x", // two\n"b": 1}', "f")
    assert plain(reader.read()) == {"url": "http://x", "b": 1}
    assert reader.comment_lines == [1, 2]


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ('{"a": 1,}', "f:1:9", "comma before the closing bracket"),
        ('{"a": 1\n "b": 2}', "f:2:2", "a comma or '}'"),
        ('{"a" 1}', "f:1:6", "':'"),
        ("{'a': 1}", "f:1:2", "double quotes"),
        ('{"a": NaN}', "f:1:7", "no JSON value"),
        ('{"a": 1} x', "f:1:10", "one JSON object"),
        ('{"a": "b', "f:1:7", "Unterminated"),
        ('{"a": 1, "A": 2}', "f:1:15", "stands twice"),
        ("", "f:1:1", "end of the file"),
        ("[" * 100, "f:1:34", "deeper than 32"),
        ('{"a": ' + "9" * 50 + "}", "f:1:7", "no JSON value"),
    ],
)
def test_a_fault_is_named_with_its_place(text: str, place: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        JsonText(text, "f").read()
    assert str(caught.value).startswith(f"{place}:")
    assert says in str(caught.value)
