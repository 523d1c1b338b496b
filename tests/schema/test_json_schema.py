"""JSON Schema: what is wrong with one, and the one sentence that says it."""

from forge_cli.schema.json_schema import (
    SENTENCE,
    best_error,
    in_short,
    validator,
)


def test_the_error_of_the_alternative_that_came_nearest() -> None:
    either = {"anyOf": [{"type": "object", "properties": {"a": {"type": "integer"}}}, {"type": "string"}]}
    [error] = validator(either).iter_errors({"a": "x"})
    assert (best_error(error).json_path, best_error(error).message) == ("$.a", "'x' is not of type 'integer'")


def test_a_long_sentence_keeps_both_ends() -> None:
    sentence = in_short(f"{['x'] * 500!r} is too long")
    assert sentence.startswith("['x', 'x'")
    assert sentence.endswith("is too long")
    assert len(sentence) <= SENTENCE
