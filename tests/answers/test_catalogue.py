"""The list of named encodings."""

import csv
import json


def test_the_list_is_the_same_in_all_forms(run):
    records = json.loads(run("list", "--json").out)["results"]
    rows = list(csv.reader(run("list", "--csv").out.splitlines()))
    assert rows[0] == ["encoding", "family", "domain", "measure", "source", "parameters"]
    assert [row[0] for row in rows[1:]] == [r["encoding"] for r in records]
    words = [line.split()[0] for line in run("list").out.splitlines() if line[0] != " "]
    assert words == [row[0] for row in rows]
