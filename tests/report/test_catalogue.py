"""The list of named encodings."""

import csv
import re

import pytest
from published_configs import sized

import pefourier
from pefourier.encodings.registry import SYNONYMS, canonical_spec
from pefourier.errors import PefourierError
from pefourier.report.catalogue import USED_BY, description, read_catalogue


def test_the_list_is_the_same_in_all_forms(run):
    records = run("list --json").results
    rows = list(csv.reader(run("list --csv").out.splitlines()))
    assert [row[0] for row in rows[1:]] == [r["encoding"] for r in records]
    _, _, table = run("list").out.partition("\n\n")
    words = [line.split()[0] for line in table.splitlines() if line[0] != " "]
    assert words == [row[0] for row in rows]


def test_every_example_of_the_list_is_answered(run):
    for record in read_catalogue():
        (line,) = [x for x in description(record).splitlines() if x.startswith("  example ")]
        done = run(*line.split()[2:], "-q")
        assert (done.status, done.err) == (0, ""), line


@pytest.mark.parametrize("kind", [kind for used in USED_BY.values() for kind in used.split()])
def test_models_use_what_is_stated_of_them(written, kind):
    """A model's config is read as the listed encoding, or refused because weights hold it."""
    config = sized(kind, 64, 4, 64, num_hidden_layers=2, image_size=224, patch_size=16)
    config |= {"relative_attention": True, "position_biased_input": False, "position_buckets": 8}
    config |= {"pos_att_type": "c2p|p2c"}
    try:
        names = (pefourier.context(written(config)).encodings[0].name,)
    except PefourierError as error:
        what = re.search(r"(biases|positions) .*(learned|trained)", str(error))[1]
        names = ("swin", "swin2") if what == "biases" else ("learned",)
    assert any(kind in USED_BY[name].split() for name in names)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["images"], {"axial", "axial-rope", "mixed-rope"}),
        (["Time series"], {"mtan", "time2vec", "tape"}),
        (["language"], {"rope", "alibi", "t5", "learned"}),
        (["T5", "Llama"], {"t5", "rope"}),
    ],
)
def test_encodings_are_found_by_everyday_words(words, found, run):
    listed = {record["encoding"] for record in run("list", *words, "--json").results}
    assert found <= listed
    assert len(listed) < 20


@pytest.mark.parametrize("name", [*SYNONYMS, "NoPE", "YaRN"])
def test_the_synonyms_of_specs_are_known_to_list_and_explain(name, run, ask):
    record = ask("list", name)
    assert record["encoding"] == canonical_spec(name).partition(":")[0]
    assert run("explain", name).status == 0
