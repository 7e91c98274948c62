"""The schema of answers describes the results and detects faults."""

import copy
import json

import pytest
from json_schema import FILE, as_text, faults, published, schema


def test_the_published_schema_is_that_of_the_results(run):
    assert FILE.read_text() == as_text(schema()), "make schema"
    assert json.loads(run("explain --schema").out) == published()


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda one: one.update(schema=1), "answer: 1 is none of [5]"),
        (lambda one: one["results"][0].update(rank="3"), "rank: 3 is no integer"),
        (lambda one: one["results"][0].update(more=1), "more is in no schema"),
        (lambda one: one["results"][0]["precision"]["float32"].pop("safe_cast"), "lacks safe_cast"),
    ],
)
def test_changed_answers_violate_the_schema(run, change, found):
    """The schema rejects changed answers; `run` checks every answer with --json against it."""
    answer = json.loads(run("check-faithful dft --d 4 -S 4 --json").out)
    change(wrong := copy.deepcopy(answer))
    reported = [*faults(wrong, published(), published())]
    assert any(found in one.replace("answer.schema", "answer") for one in reported)
