"""Requests are checked before torch is loaded."""

import subprocess
import sys

from pefourier.train.options import Options
from pefourier.train.request import name_once

REFUSED = {  # command line, and the option or value in its error
    "--seeds 0": "--seeds",
    "--patience-steps -1": "--patience-steps",
    "--rate nan": "--rate",
    "-e dfft": "'dft'",
    "-e dft@rms=x": "rms",
    "--dataset nosuch": "'nosuch'",
    "-e nosuch": "'nosuch'",
    "-e rope:foo=3": "'foo'",
    "-e -": "-e -",
    "-e dft@rms=0": "'dft@rms=0'",
    "-e none@rms=1": "'none@rms=1'",
    "--steps 0": "--steps",
    "--steps 1000000001": "--steps",
    "--beside tree": "'tree'",
    "--test-length 24,x": "'24,x'",
    "--test-length 24,24": "'24,24'",
    "--test-length 3": "'3'",
    "--test-length 48 --dataset grid": "'grid'",
    "--test-length 48 --dataset smd": "'smd'",
    "--rate -1": "--rate",
    "--find 2": "--find",
    "--plot a.jpg": "'.jpg'",
}


def test_a_refusal_and_a_page_about_training_cost_no_torch(trained, tmp_path):
    page = ["report", str(trained), "--out", str(tmp_path / "a.html")]
    requested = [["train", *typed.split()] for typed in REFUSED]
    code = (
        "import sys; from pefourier.cli.main import main\n"
        f"for one in {[*requested, page]!r}: print(main(one))\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[: len(REFUSED)] == ["2"] * len(REFUSED)
    assert done.stdout.split()[-2:] == ["0", "False"]
    for line, (typed, named) in zip(done.stderr.splitlines(), REFUSED.items(), strict=False):
        assert line.startswith("pefourier: "), typed
        assert named in line, typed


def test_what_is_named_twice_is_trained_once():
    typed = {"encoding": ("dft", "dft@rms=.5", "dft@rms=0.50", "dft"), "beside": ("trees",) * 2}
    once = name_once(Options(dataset=("order", "./a.npz", "a.npz"), **typed))
    assert once.encoding == ("dft", "dft@rms=0.5", "trees")
    assert (once.dataset, once.beside) == (("order", "a.npz"), ())
