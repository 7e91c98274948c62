"""No option replaces a file that the same command reads, and a full disk is one error line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from published_configs import SMALL_LLAMA

from pefourier.encodings.sources.tables import write_table

ROPES = ("rope", "rope:layout=interleaved", "--d", "16")


@pytest.fixture(autouse=True)
def files(folder, rng):
    table = rng.normal(size=(16, 16))
    for path in ("t.npy", "t.csv", "t.npz", "t.safetensors", "real.npy"):
        write_table(path, table)
    write_table("column.csv", np.arange(1.0, 9.0)[:, None])
    Path("m").mkdir()
    Path("m/config.json").write_text(json.dumps(SMALL_LLAMA))
    weights = {"name": "model.layers.0.self_attn.q_proj.weight"}
    write_table("m/model.safetensors", np.ones((64, 64)), **weights)
    Path("soft.npy").symlink_to("real.npy")
    os.link("real.npy", "hard.npy")
    os.link("real.npy", "x.png")
    Path("n").symlink_to("m")
    return folder


def contents():
    return {str(p): p.read_bytes() for p in Path().rglob("*") if p.is_file()}


CASES = """
encode t.npy --out t.npy
encode t.npz#codes --out m/../t.npz
encode t.safetensors#codes --out t.safetensors
encode soft.npy --out real.npy
encode real.npy --out soft.npy
encode m --out m/model.safetensors
encode n/config.json --out m/model.safetensors
encode m/config.json#text --out n/model.safetensors
encode sinusoidal --times column.csv --out column.csv
encode laplacian --edges t.csv --out t.csv
encode m/config.json#text --golden m/config.json
resize t.npy --from 4x4 --to 6x6 --out t.npy
compare t.npy t.csv --permutation t.npy
train -e t.npy --save-models .
spectrum real.npy --plot x.png
check-faithful dft --baseline real.npy --plot x.png
context m --against real.npy --plot x.png
usage m --stats real.npy --plot x.png
design --extend-from real.npy --to 4096 --plot x.png
""".strip().splitlines()


@pytest.mark.parametrize("words", CASES)
def test_a_file_that_is_read_is_not_replaced(refused, words):
    before = contents()
    assert "which is read" in refused(words)
    assert contents() == before


def test_standard_input_is_not_replaced():
    before = contents()
    command = [sys.executable, "-m", "pefourier", "encode", "-", "--out", "t.npy"]
    with Path("t.npy").open("rb") as stream:
        done = subprocess.run(command, stdin=stream, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, contents()) == (2, "", before)


def test_other_files_are_replaced(run):
    for words in ("encode t.npy --out t.csv", "encode dft --out t.npy --d 8") * 2:
        assert run(words).status == 0


FULL = [
    ("report", "dft", "--d", "8", "--out", "f.html"),
    ("compare", *ROPES, "--permutation", "f.npy"),
    ("resize", "t.npy", "--from", "4x4", "--to", "6x6", "--out", "f.npy"),
]


@pytest.mark.parametrize("words", FULL, ids=" ".join)
def test_a_full_disk_is_reported_in_a_line(run, words):
    Path(words[-1]).symlink_to("/dev/full")
    done = run(*words)
    assert done.status == 2
    line = done.err.splitlines()[-1]
    assert line == f"pefourier: cannot write '{words[-1]}': No space left on device"
