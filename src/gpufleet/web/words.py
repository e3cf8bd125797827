"""The words of a question as JSON Schema."""

from __future__ import annotations

from gpufleet.cli.verb_words import FURTHER, Question, Takes, Word

FILE_SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "content": {"type": "string"}},
    "required": ["name", "content"],
    "additionalProperties": False,
}


def schema_of(question: Question) -> dict[str, object]:
    """The body of a question as JSON Schema."""
    properties = {word.name: word_schema(word) for word in question.words}
    properties[FURTHER] = {
        "type": "object",
        "description": "Further files that a file of the question names, by name.",
        "additionalProperties": {"type": "string"},
    }
    return {"type": "object", "additionalProperties": False, "properties": properties}


def word_schema(word: Word) -> dict[str, object]:
    """A word as JSON Schema."""
    said: dict[str, object] = {"description": f"{word.says} ({word.metavar})" if word.metavar else word.says}
    if word.takes in (Takes.FLAG, Takes.WRITTEN):
        return {**said, "type": "boolean"}
    one: dict[str, object] = FILE_SCHEMA
    if word.takes is Takes.TEXT:
        kinds = ["string", "number"] if word.kind == "string" else [word.kind, "string"]
        one = {"anyOf": [{"type": kinds}, FILE_SCHEMA]}
    if not word.is_list:
        return {**said, **one}
    return {**said, "anyOf": [one, {"type": "array", "items": one}]}
