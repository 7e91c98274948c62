"""What commands have in common: SPECs, sizes and times, and notes on options without effect."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from pefourier.encodings import load

ROOT = Path(__file__).parents[2]


def test_standard_input_is_read(run, monkeypatch):
    class Stdin:
        buffer = io.BytesIO(b"1,0\n0,1\n")

    monkeypatch.setattr(sys, "stdin", Stdin())
    assert run("check-faithful", "-", "--json").results[0]["verdict"] == "isometric"


def test_times_come_from_a_file(run, tmp_path):
    (tmp_path / "t.csv").write_text("0\n0.5\n3\n3.5\n9\n")
    np.save(tmp_path / "t.npy", np.array([0, 0.5, 3, 3.5, 9]))
    one = run("check-faithful", "mtan-fixed", "--times", tmp_path / "t.csv", "--json")
    two = run("check-faithful", "mtan-fixed", "--times", tmp_path / "t.npy", "--json")
    assert one.out == two.out
    (result,) = one.results
    assert (result["length"], result["closest_pair"]) == (5, [0.0, 0.5])
    assert result["params"]["times"] == [0.0, 0.5, 3.0, 3.5, 9.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0\n2\n1\n", "times must increase; numbers 2 and 3, 2 and 1, are not in order: sort"),
        ("0\n.5\n.5\n", "numbers 2 and 3, 0.5 and 0.5, are equal, and equal times have one code"),
        ("0\nnan\n1\n", "times must be finite; number 2 is nan"),
        ("0,1\n2,3\n", "times must be one column of numbers; got shape (2, 2)"),
    ],
)
def test_times_that_are_none(run, tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    done = run("spectrum", "mtan", "--times", tmp_path / "t.csv")
    assert (done.status, done.out) == (2, "")
    assert message in done.err


def test_compare_takes_two(run):
    done = run("compare", "dft")
    assert (done.status, done.err) == (2, "pefourier: compare takes two encodings; got 1: 'dft'\n")


def test_compare_builds_a_named_encoding_at_the_size_of_a_file(run, tmp_path):
    assert run("encode", "sinusoidal", "--d", 24, "-S", 33, "--out", tmp_path / "a.npy").status == 0
    for pair in ([tmp_path / "a.npy", "sinusoidal"], ["sinusoidal", tmp_path / "a.npy"]):
        done = run("compare", *pair, "--json")
        assert (done.status, done.results[0]["verdict"]) == (0, "the same")
        assert done.results[0]["length"] == 33
    assert run("compare", tmp_path / "a.npy", "sinusoidal", "--d", 16).status == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["spectrum", "dft", "--rho", "3"], "--rho 3.0 has no effect on dft"),
        (["spectrum", "--seed", "3"], "--seed 3 has no effect on sinusoidal, dft"),
        (["check-faithful", "rope:d=8", "--d", "6"], "--d 6 has no effect on rope:d=8"),
        (["check-faithful", "sinusoidal:rho=9", "--rho", "8"], "--rho 8.0 has no effect on sinu"),
        (["spectrum", "table.npy", "--d", "3"], "--d 3 has no effect on table.npy"),
        (["compare", "dft", "dft", "--seed", "1"], "--seed 1 has no effect on dft, dft"),
        (["encode", "dft", "--seed", "1", "--out", "a.npy"], "--seed 1 has no effect on dft"),
        (["spectrum", "dft", "--seed", "1", "--quiet"], ""),
        (["spectrum", "learned", "--seed", "1", "--d", "4", "--length", "9"], ""),
        (["check-faithful", "alibi", "--length", "7", "--d", "4"], ""),
        (["check-faithful", "tupe:heads=2", "--length", "7", "--d", "4"], ""),
        (["spectrum", "mtan", "--times", "times.csv", "--seed", "1"], ""),
        (["check-faithful", "table.npy", "--length", "3", "--d", "4"], ""),
        (["spectrum", "sinusoidal", "dft", "--rho", "3", "--lattice", "8"], ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_without_effect_are_noted(run, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    np.save("table.npy", np.arange(20.0).reshape(5, 4))
    (tmp_path / "times.csv").write_text("0\n1\n2.5\n")
    done = run(*arguments)
    assert done.status == 0
    assert done.err.startswith(f"pefourier: {said}" if said else "")
    assert done.err.count("\n") == bool(said)


@pytest.mark.parametrize(
    ("typed", "length"),
    [("128k", 131072), ("3e5", 300_000), ("1M", 2**20), ("8K", 8192), ("1.5k", 1536), ("77", 77)],
)
def test_counts_are_read_as_people_write_them(run, tmp_path, typed, length):
    assert load(f"rope:length={typed},d=8").params["length"] == length
    given = ["encode", "--pos", 3, "--out", tmp_path / "x.npy", "--json"]
    (own,) = run(*given, "rope", "--d", "1e1", "-S", typed).results
    assert (own["params"]["length"], own["params"]["d"]) == (length, 10)
    if length < 10_000:
        (own,) = run("spectrum", "dft", "--sigma", "0", "--json", "--lattice", typed).results
        assert own["lattice"] == length


@pytest.mark.parametrize("typed", ["0.5", "1.3k", "k", "", "1kk", "1e400", "nan", "1g"])
def test_what_is_no_count_is_refused(run, typed):
    done = run("spectrum", "-S", typed)
    said = f"'{typed}' is not a whole number such as 4096, 3e5 or 128k (131072)"
    assert (done.status, done.out) == (2, "")
    assert done.err == f"pefourier: Invalid value for '--length' / '-S': {said}\n"


def test_positions_are_counts_too(run):
    (result,) = run(
        "reconstruct", "rope", "--pos", "1k", "2e3", "3", "--lattice", "4k", "--json"
    ).results
    assert [r["position"] for r in result["reconstructions"]] == [1024, 2000, 3]


@pytest.mark.parametrize("option", ["--rho", "--base", "--theta"])
def test_the_base_has_three_spellings(run, option):
    (result,) = run("spectrum", "rope", "--d", "8", option, "5e5", "--json").results
    assert result["params"]["rho"] == 5e5


@pytest.mark.parametrize(
    ("short", "full"),
    [("fp32", "float32"), ("fp16", "float16"), ("bf16", "bfloat16"), ("fp8", "float8_e4m3")],
)
def test_formats_have_short_names(run, short, full):
    one, other = (
        run(
            "check-faithful",
            "rope",
            "--d",
            "16",
            "-S",
            "3000",
            "--require-dtype",
            f"{name}:computed",
        )
        for name in (short, full)
    )
    assert (one.status, one.out, one.err) == (other.status, other.out, other.err)
    assert one.status == (short != "fp32")
    assert full in one.err or one.status == 0


def test_short_options(run):
    assert run("-V").out == run("--version").out
    assert run("spectrum", "dft", "--rho", "3", "-q").err == ""
    assert run("spectrum", "dft", "--rho", "3").err != ""


TWENTY = ["dft", "sinusoidal", "rope", "ramp"] * 5


def test_one_bad_spec_among_twenty_stops_no_other(run):
    specs = [*TWENTY[:7], "rope:d=7", *TWENTY[8:]]
    error = "rope turns pairs of dimensions and needs an even d; got d=7"
    for command, *options in (["spectrum"], ["reconstruct", "--pos", "3"], ["check-faithful"]):
        given = [*specs, "--d", "16", *options]
        done = run(command, *given, "--json")
        assert (done.status, done.err) == (2, f"pefourier: 'rope:d=7': {error}\n")
        assert [r["spec"] for r in done.results] == specs
        assert done.results[7] == {"spec": "rope:d=7", "error": error}
        assert all("conclusion" in r for i, r in enumerate(done.results) if i != 7)
        alone = run(command, *TWENTY[:7], *TWENTY[8:], "--d", "16", *options)
        words = run(command, *given)
        assert (words.status, words.out, words.err) == (2, alone.out, done.err)
        rows = run(command, *given, "--csv")
        assert rows.status == 2
        assert "rope:d=7" not in rows.out


def test_a_spec_that_cannot_be_analysed_stops_no_other(run):
    done = run("spectrum", "learned", "dft", "--method", "declared", "--d", "8", "--json")
    error = "learned declares no spectral measure; use --method periodogram or auto"
    assert (done.status, done.err) == (2, f"pefourier: 'learned': {error}\n")
    assert [set(r) == {"spec", "error"} for r in done.results] == [True, False]


def test_a_refusal_outweighs_what_is_required(run):
    done = run("check-faithful", "dft:d=8", "nothing", "--require", "isometric")
    assert done.status == 2
    lines = done.err.splitlines()
    assert lines[0].startswith("pefourier: unknown encoding 'nothing'.")
    assert lines[1:] == ["pefourier: dft:d=8 collides, where isometric is required"]


def test_where_all_are_refused_there_is_no_answer(run):
    done = run("spectrum", "rope:d=7", "xpos:d=9", "rope:d=7", "--json")
    assert (done.status, done.out) == (2, "")
    needs = "turns pairs of dimensions and needs an even d; got"
    assert done.err == f"pefourier: rope {needs} d=7\npefourier: xpos {needs} d=9\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rho", "nan"], "rho must be a finite number above 0; got nan"),
        (["--seed", "-1"], "seed must be a whole number from 0 on; got -1"),
    ],
)
def test_an_option_that_suits_none_is_refused_at_once(run, arguments, message):
    done = run("spectrum", "dft", "ramp", *arguments)
    assert (done.status, done.out, done.err) == (2, "", f"pefourier: {message}\n")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("pefourier spectrum sinus", ["sinusoidal"]),
        ("pefourier check-faithful rope:fac", ["rope:factor="]),
        ("pefourier compare dft rope:rho=5e5,fac", ["rope:rho=5e5,factor="]),
        ("pefourier compare rope:rho=5e5,rh", []),
        ("pefourier train -e sinus", ["sinusoidal"]),
        ("pefourier train --encoding rope:fac", ["rope:factor="]),
        ("pefourier train --dataset ord", ["order"]),
        ("pefourier train --dataset ue", ["uea:"]),
        ("pefourier check-faithful --req", ["--require", "--require-dtype"]),
        ("pefourier spectrum --method per", ["periodogram"]),
    ],
)
def test_the_shell_completes(words, found):
    asked = {"_PEFOURIER_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": words}
    done = subprocess.run(
        [sys.executable, "-m", "pefourier"],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=True,
    )
    told = done.stdout.replace("\\", "")
    assert [one for one in found if f'"{one}"' not in told] == []
    assert found or told == "_files\n"


def test_encodings_that_take_no_times_are_named_with_those_that_do(run, tmp_path):
    (tmp_path / "t.csv").write_text("0\n0.5\n3\n")
    done = run("check-faithful", "dft", "mtan", "--times", tmp_path / "t.csv")
    assert (done.status, "has no effect on dft" in done.err) == (0, True)
    done = run("encode", "dft", "--times", tmp_path / "t.csv", "--out", tmp_path / "o.npy")
    assert (done.status, "--times belongs to fourier-features, mtan" in done.err) == (2, True)
    assert not (tmp_path / "o.npy").exists()
    assert run("check-faithful", "mtan", "--times", tmp_path / "t.csv").err == ""


LLAMA = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "rope_theta": 1e4}
CONFIGS = {
    "sound": LLAMA | {"max_position_embeddings": 64},
    "of-weights": {"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_positions": 64},
    "no-model": {"compilerOptions": {}},
    "a-list": [1, 2],
}


@pytest.fixture
def configs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, values in CONFIGS.items():
        Path(name).mkdir()
        Path(name, "config.json").write_text(json.dumps(values))
    Path("broken").mkdir()
    Path("broken/config.json").write_text("{")
    return tmp_path


def test_the_hook_skips_what_is_no_model_and_answers_the_others(run, configs):
    hook = (ROOT / ".pre-commit-hooks.yaml").read_text()
    entry = [*re.search("entry: pefourier (.*)", hook)[1].split(), "--"]
    aloud = [word for word in entry if word != "--quiet"]
    files = [f"{name}/config.json" for name in CONFIGS]
    silent = {"status": 0, "out": "", "err": ""}
    assert vars(run(*entry, *files)) == silent  # all that can be checked is sound
    assert run(*aloud, *files).err.count("pefourier: skipped: ") == 3
    unsound = LLAMA | {"rope_scaling": {"rope_type": "linear", "factor": 0.5}}
    Path("sound/config.json").write_text(json.dumps(unsound))
    found = run(*entry, "broken/config.json", *files)  # which hides no other
    assert found.status == 2
    assert "'broken/config.json' is not readable JSON" in found.err
    assert found.out.startswith("sound/config.json: ")
    assert vars(run(*entry, "no-model/config.json")) == silent
    assert "all were skipped; nothing was checked" in run(*aloud, "no-model/config.json").err


def test_annotations_tell_of_configs_that_cannot_be_read(run, configs):
    for names in (["broken"], ["broken", "a-list"]):
        files = [f"{name}/config.json" for name in names]
        found = run("check-faithful", *files, "--format", "github")
        assert found.status == 2
        for file in files:
            assert f"::error file={file},title=pefourier check-faithful {file}::" in found.out
    found = run("check-faithful", "broken/config.json", "--format", "sarif")
    (told,) = json.loads(found.out)["runs"][0]["results"]
    assert (found.status, told["ruleId"], told["level"]) == (2, "refused", "error")


@pytest.mark.parametrize(
    ("spec", "way"),
    [
        ("meta-llama/Llama-3.1-8B", "hf download meta-llama/Llama-3.1-8B config.json"),
        ("https://huggingface.co/a/b/resolve/main/config.json", "hf download a/b config.json"),
        ("hf://a/b", "hf download a/b config.json"),
        ("https://example.org/wpe.npy", "curl -LO https://example.org/wpe.npy"),
    ],
)
def test_what_is_elsewhere_is_told_with_the_way_to_get_it(run, spec, way):
    found = run("check-faithful", spec)
    assert (found.status, found.out) == (2, "")
    assert f"{spec!r} is not on this machine, and nothing is downloaded; run '{way}'" in found.err


def test_weights_saved_as_bin_or_ckpt_are_read(run, tmp_path):
    for name in ("w.bin", "w.ckpt"):
        torch.save({"wpe.weight": torch.eye(4)}, tmp_path / name)
        (record,) = run("check-faithful", f"{tmp_path / name}#wpe.weight", "--json").results
        assert record["verdict"] == "isometric"


@pytest.mark.usefixtures("undrawn")
def test_a_report_leaves_out_a_section_that_is_refused_and_says_why(run, tmp_path):
    page = tmp_path / "page.html"
    found = run("report", "rope", "mixed-rope", "-S", 20, "--d", 8, "--out", page)
    assert found.status == 0
    text = page.read_text()
    assert "turns pairs by the axes of a grid; give its sides" in text
    assert "Which frequencies are there?" in text
