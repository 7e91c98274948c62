"""Answers as documents and as reports for code scanning."""

import json
import re

import numpy as np
import pytest

COMMANDS = [
    "spectrum dft rope --d 16",
    "reconstruct dft --d 16",
    "check-faithful rope alibi --d 16",
    "relations rope --d 16",
    "compare rope dft --d 16",
    "context rope --d 16",
    "design --length 32 --d 8",
    "resize axial --d 16 --from 4x4 --to 6x6",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_documents_have_the_numbers_of_the_text(command, run):
    text = " ".join(run(command, "--full").out.split())
    markdown = run(command, "--format", "md").out.replace("\\`", "`")
    table = [line for line in markdown.splitlines() if line.startswith("| ")]
    for line in table:
        for word in re.findall(r"\d\.\d+(?:e-?\d+)?", line):
            assert word in text, (line, word)
    latex = run(command, "--format", "latex").out
    assert latex.count(r"\begin{tabular}") == 1
    body = [line.count(" & ") for line in latex.splitlines() if line.endswith(r" \\")]
    rows = [row.strip("|").count(" | ") for row in table]
    assert len(body) > 3
    assert any(rows[i : i + len(body)] == body for i in range(len(rows)))  # one table of these
    for record in run(command, "--json").results:
        reported = record["conclusion"]
        if command[:6] == "design":  # it follows the advice, with verdict and size
            reported = reported.partition(" and d 8 ")[2]
        assert reported in markdown


@pytest.mark.usefixtures("folder")
def test_findings_and_refusals_as_code_scanning_reads_them(run, rng):
    np.save("once more.npy", np.tile(rng.normal(size=(1, 4)), (8, 1)))
    done = run("check-faithful", "once more.npy", "nothing.npy", "dft", "--format", "sarif")
    assert done.status == 2
    log = json.loads(done.out)
    assert log["version"] == "2.1.0"
    (one,) = log["runs"]
    reported = run("check-faithful", "once more.npy", "--json").results[0]["findings"]
    results = [r for r in one["results"] if "locations" in r]
    levels = [(r["ruleId"], r["level"]) for r in results]
    assert levels == [(f["code"], f["severity"]) for f in reported] != []
    for r in results:
        place = r["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == "once%20more.npy"
        assert place["region"] == {"startLine": 1}  # lines of SARIF count from 1
    rules = {rule["id"]: rule for rule in one["tool"]["driver"]["rules"]}
    assert {r["ruleId"] for r in results} <= set(rules)
    (refused,) = (r for r in one["results"] if r["ruleId"] == "refused")
    assert "nothing.npy" in refused["message"]["text"]
    assert refused["level"] == "error"


def test_a_fault_is_annotated_once(run, tmp_path, rng):
    rows = rng.normal(size=(8, 4))
    np.save(tmp_path / "twice.npy", rows[[0, 1, 2, 3, 4, 5, 6, 3]])
    reported = run("check-faithful", tmp_path / "twice.npy", "--strict", "--format", "github")
    assert reported.status == 1
    assert reported.out.count("duplicate-rows") == 1
    for second, status in ("rope:rho=5e5", 1), ("rope:layout=interleaved", 1), ("rope", 0):
        reported = run("compare rope", second, "--d", 8, "--format", "github")
        assert (reported.status, reported.out.count("::error ")) == (status, status), reported.out
        assert "::notice title=pefourier compare rope::" in reported.out
