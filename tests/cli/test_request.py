"""Arguments that all commands share: SPECs, sizes, times, and notes on unused options."""

import io
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from published_configs import SMALL_LLAMA

from pefourier.encodings import load

ROOT = Path(__file__).parents[2]


def test_standard_input_is_read(run, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"1,0\n0,1\n")))
    assert run("check-faithful - --json").results[0]["verdict"] == "isometric"


def test_times_come_from_a_file(run, refused, tmp_path):
    times = [0, 0.5, 3, 3.5, 9]
    np.savetxt(tmp_path / "t.csv", times)
    np.save(tmp_path / "t.npy", times)
    for name in ("t.csv", "t.npy"):
        done = run("check-faithful mtan-fixed --times", tmp_path / name, "--json")
        assert done.err == ""
        (answer,) = done.results
        assert (answer["length"], answer["closest_pair"]) == (5, [0.0, 0.5])
        assert answer["params"]["times"] == times
    wrong = {"0\n2\n1\n": "2 and 3", "0\n.5\n.5\n": "2 and 3", "0\nnan\n1\n": "2 is nan"}
    for text, part in wrong.items():
        (tmp_path / "t.csv").write_text(text)
        assert part in refused("spectrum mtan --times", tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("line", "option", "labels"),
    [
        ("spectrum dft --rho 3", "--rho 3.0", "dft"),
        ("spectrum --seed 3", "--seed 3", "sinusoidal, dft"),
        ("check-faithful rope:d=8 --d 6", "--d 6", "rope:d=8"),
        ("compare dft dft --seed 1", "--seed 1", "dft, dft"),
        ("check-faithful dft mtan --times times.csv", "--times times.csv", "dft"),
        ("report dft --seed 1 --d 8 -S 4", "--seed 1", "dft"),
        ("spectrum dft --seed 1 --quiet", "", ""),
        ("spectrum learned --seed 1 --d 4 --length 9", "", ""),
        ("spectrum mtan --times times.csv --seed 1", "", ""),
        ("check-faithful table.npy --length 3 --d 4", "", ""),
        ("spectrum sinusoidal dft --rho 3 --lattice 8", "", ""),
    ],
)
@pytest.mark.usefixtures("undrawn")
def test_options_without_effect_are_noted(run, folder, line, option, labels):
    np.save("table.npy", np.arange(20.0).reshape(5, 4))
    (folder / "times.csv").write_text("0\n1\n2.5\n")
    done = run(line)
    assert done.status == 0
    assert done.err == (f"pefourier: {option} has no effect on {labels}\n" if option else "")


COUNTS = [("128k", 131072), ("3e5", 300_000), ("1M", 2**20), ("8K", 8192), ("1.5k", 1536)]


@pytest.mark.parametrize("option", ["--rho", "--base", "--theta"])
@pytest.mark.parametrize(("typed", "length"), COUNTS)
def test_counts_and_bases_are_read_as_people_write_them(run, tmp_path, typed, length, option):
    assert load(f"rope:length={typed},d=8").params["length"] == length
    words = f"encode rope --pos 2k --d 1e1 -S {typed} {option} 5e5 --json --out"
    (record,) = run(words, tmp_path / "x.npy").results
    assert [record["params"][key] for key in ("length", "d", "rho")] == [length, 10, 5e5]
    assert record["positions"] == [2048]


@pytest.mark.parametrize("command", [["spectrum"], ["reconstruct", "--pos", "3"], ["context"]])
def test_one_bad_spec_does_not_stop_the_others(run, command):
    specs = ["rope", "rope:d=7", "rope:rho=5e5"]
    words = [command[0], *specs, "--d", "16", *command[1:]]
    done = run(*words, "--json")
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert [record["spec"] for record in done.results] == specs
    assert ["verdict" in record for record in done.results] == [True, False, True]
    text = run(*words)
    alone = run(command[0], specs[0], specs[2], "--d", "16", *command[1:])
    assert (text.status, text.out, text.err) == (2, alone.out, done.err)
    rows = run(*words, "--csv")
    assert (rows.status, "rope:d=7" in rows.out) == (2, False)


def test_a_refusal_outweighs_what_is_required(run):
    done = run("check-faithful dft:d=8 nothing --require isometric")
    assert (done.status, "'nothing'" in done.err, "dft:d=8" in done.err) == (2, True, True)
    done = run("spectrum rope:d=7 xpos:d=9 rope:d=7 --json")
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 2)


CONFIGS = {
    "sound": SMALL_LLAMA,
    "of-weights": {"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_positions": 64},
    "no-model": {"compilerOptions": {}},
    "a-list": [1, 2],
}


@pytest.fixture
def configs(folder):
    texts = {name: json.dumps(values) for name, values in CONFIGS.items()}
    for name, text in (texts | {"broken": "{"}).items():
        Path(name).mkdir()
        Path(name, "config.json").write_text(text)
    return folder


@pytest.mark.usefixtures("configs")
def test_the_hook_skips_files_that_are_no_models(run):
    hook = (ROOT / ".pre-commit-hooks.yaml").read_text()
    entry = [*re.search("entry: pefourier (.*)", hook)[1].split(), "--"]
    aloud = [word for word in entry if word != "--quiet"]
    files = [f"{name}/config.json" for name in CONFIGS]
    silent = {"status": 0, "out": "", "err": ""}
    assert vars(run(*entry, *files)) == silent  # the valid configs pass without output
    assert run(*aloud, *files).err.count("pefourier: skipped: ") == 3
    unsound = SMALL_LLAMA | {"rope_scaling": {"rope_type": "linear", "factor": 0.5}}
    Path("sound/config.json").write_text(json.dumps(unsound))
    done = run(*entry, "broken/config.json", *files)  # the broken config does not hide the others
    assert (done.status, "'broken/config.json'" in done.err) == (2, True)
    assert done.out.startswith("sound/config.json: ")
    assert vars(run(*entry, "no-model/config.json")) == silent
    assert "nothing was checked" in run(*aloud, "no-model/config.json").err


@pytest.mark.usefixtures("configs")
def test_annotations_report_of_configs_that_cannot_be_read(run):
    files = ["broken/config.json", "a-list/config.json"]
    done = run("check-faithful", *files, "--format", "github")
    assert done.status == 2
    assert [file for file in files if f"::error file={file},title=" not in done.out] == []


@pytest.mark.usefixtures("configs")
def test_brief_is_a_line_for_each_config(run):
    done = run("context sound sound/config.json --brief")
    reported = [line.partition(":")[0] for line in done.out.splitlines()]
    assert (done.status, reported) == (0, ["sound", "sound/config.json"])
