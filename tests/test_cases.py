"""Position bugs from public threads as cases, and the program's answers to them.

A case (tests/cases/NAME.toml) holds its `source`, the bug (`fault`, `what`), its cost according to
the thread, and its input: files under `given`, headers under `gguf`, and Python source in `make`
that writes the rest into the working directory. Each entry of `asks` is a command line with its
status and the contents of its answer (`answer`: values under paths into the JSON result,
`findings`: all finding codes, `says`). Other tools can be given the same files.
"""

import json
import tomllib
from pathlib import Path

import pytest
from stored import gguf_bytes

CASES = sorted((Path(__file__).parent / "cases").glob("*.toml"))


def write_case(case, folder):
    for name, file in case.get("given", {}).items():
        (folder / name).write_text(file["text"])
    for name, values in case.get("gguf", {}).items():
        (folder / name).write_bytes(gguf_bytes(values.items()))
    exec(case.get("make", ""), {})  # Python source of the test itself


def held_under(record, path):
    for key in path.split("/"):
        record = record[int(key)] if isinstance(record, list) else record[key]
    return record


def faults_of(ask, done):
    """Return the differences between an answer and the expected one."""
    found = [f"status {done.status}"] if done.status != ask["status"] else []
    if ask.get("says", "") not in " ".join((done.out + done.err).split()):
        found.append(f"does not say {ask['says']!r}: {done.out}{done.err}")
    if done.status == 2 or not done.out.startswith("{"):
        return found
    (record,) = done.results
    for path, wanted in ask.get("answer", {}).items():
        got = held_under(record, path)
        if got != (pytest.approx(wanted, rel=1e-3) if isinstance(wanted, float) else wanted):
            found.append(f"{path} is {got}, not {wanted}")
    if "findings" in ask:
        vectors = {one["code"] for one in record["findings"] if one["severity"] != "none"}
        found += [f"no finding {code}" for code in set(ask["findings"]) - vectors]
        found += [f"finds {vectors}"] if not ask["findings"] and vectors & WRONG else []
    return found


WRONG = {"layers-inverted", "layers-no-global", "layers-needless"}  # published configs have none


def test_every_case_is_answered(run, tmp_path, monkeypatch, capsys):
    """Every case has its expected answer; a failure lists the differences and the score."""
    missed = {}
    for path in CASES:
        case = tomllib.loads(path.read_text())
        folder = tmp_path / path.stem
        folder.mkdir()
        monkeypatch.chdir(folder)
        write_case(case, folder)
        for ask in case["asks"]:
            faults = faults_of(ask, run(ask["run"], "--json"))
            if faults:
                missed.setdefault(path.stem, []).append([ask["run"], *faults])
    with capsys.disabled():
        print(f"\n{len(CASES) - len(missed)} of {len(CASES)} cases")
    assert missed == {}, json.dumps(missed, indent=1)
