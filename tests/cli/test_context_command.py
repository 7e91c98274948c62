"""`pefourier context` and `pefourier design` as typed."""

import json

import pytest
from published_configs import PUBLISHED

LLAMA = PUBLISHED["meta-llama/Llama-3.1-8B"] | {"num_hidden_layers": 32}
pytestmark = pytest.mark.usefixtures("sketched")


@pytest.fixture(autouse=True)
def files(folder):
    (folder / "llama.json").write_text(json.dumps(LLAMA))


def test_context_of_a_config(run):
    (result,) = run("context llama.json --against scaling-ignored --json").results
    (rotation,) = result["rotations"]
    sizes = [rotation[key] for key in ("bound", "unseen", "critical_dimension")]
    assert sizes == [85133, 29, 70]
    bands = [(b["class"], b["pairs"]) for b in rotation["bands"]]
    assert bands == [("kept", 29), ("blended", 6), ("stretched", 29)]
    assert result["trained"] == {"length": 8192, "source": "assumed"}
    assert result["length"] == 131072
    layer = {"index": list(range(32)), "kind": "rotary", "rotation": 0, "window": None}
    assert result["layers"] == [layer]
    assert result["against"]["below"] == {".99": 512, ".9": 1724, ".5": 60725}
    assert result["against"]["cosine"][0][0] == 1
    assert result["verdict"] == "read differently"


def test_a_grid_has_a_base_for_each_axis(run):
    """With base 11.1 the longest wavelength of FLUX's heads is the side of its 64 x 64 grid."""
    requested = ["design", "--grid", "64x64", "--d", 112, "--for", "turns", "--rho", 1e4]
    rows, columns = run(*requested, "--json").results
    assert (rows["axis"], columns["axis"]) == ("y", "x")
    assert round(rows["best"]["turns"], 1) == 11.1
    assert [c["idle"] for c in rows["candidates"] if c["rho"] == 1e4] == [20]  # of 28
