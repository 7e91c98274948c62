"""`pefourier context` and `pefourier design` as typed."""

import json
from pathlib import Path

import pytest
from published_configs import PUBLISHED

LLAMA = PUBLISHED["meta-llama/Llama-3.1-8B"] | {"num_hidden_layers": 32}
pytestmark = pytest.mark.usefixtures("sketched")


@pytest.fixture(autouse=True)
def files(folder):
    (folder / "llama.json").write_text(json.dumps(LLAMA))


def test_context_of_a_config(run):
    (result,) = run("context", "llama.json", "--against", "scaling-ignored", "--json").results
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


def test_the_length_requested_is_not_that_of_training(run):
    plain = {**LLAMA, "rope_scaling": None, "max_position_embeddings": 8192}
    Path("plain.json").write_text(json.dumps(plain))
    (result,) = run("context", "plain.json", "--length", "128k", "--json").results
    assert (result["trained"]["length"], result["length"]) == (8192, 131072)
    assert result["rotations"][0]["unseen"] == 29
    assert (result["verdict"], result["trained"]["source"]) == ("unseen angles", "stated")
    (given,) = run("context", "plain.json", "--trained", 8192, "--json").results
    assert given["trained"] == {"length": 8192, "source": "given"}
    assert given["verdict"] == "no new angles"


def test_a_name_reports_no_length_of_training(run):
    requested = ("context", "rope", "--d", 64, "--length")
    (result,) = run(*requested, "512", "--json").results
    assert (result["trained"], result["length"]) == ({"length": None, "source": "unknown"}, 512)
    assert result["verdict"] == "training length unknown"
    assert result["rotations"][0]["unseen"] is None
    for shorter in (64, 511):
        (result,) = run(*requested, "512", "--trained", shorter, "--json").results
        assert result["rotations"][0]["unseen"] >= 16
    (result,) = run(*requested, "512", "--trained", "512", "--json").results
    (reported,) = run(*requested, "513", "--trained", "512", "--json").results
    assert (result["verdict"], result["rotations"][0]["idle"]) == ("no new angles", 16)
    assert reported["rotations"][0]["unseen"] == 16


@pytest.mark.parametrize("length", [4096, 4097])
@pytest.mark.parametrize("kind", ["sliding_attention", "full_attention"])
def test_a_length_beyond_every_window_is_reported_first(run, kind, length):
    """The verdict is `beyond every window` only if all layers have a window."""
    kinds = ["sliding_attention", kind]
    config = LLAMA | {"model_type": "qwen2", "num_hidden_layers": 2, "layer_types": kinds}
    config |= {"sliding_window": 4096, "use_sliding_window": True, "rope_scaling": None}
    Path("windows.json").write_text(json.dumps(config))
    requested = ("context", "windows.json", "--trained", length, "--length", length, "--json")
    beyond = kind == "sliding_attention" and length > 4096
    verdict = "beyond every window" if beyond else "no new angles"
    assert run(*requested).results[0]["verdict"] == verdict


def test_a_grid_has_a_base_for_each_axis(run):
    """With base 11.1 the longest wavelength of FLUX's heads is the side of its 64 x 64 grid."""
    requested = ["design", "--grid", "64x64", "--d", 112, "--for", "turns", "--rho", 1e4]
    rows, columns = run(*requested, "--json").results
    assert (rows["axis"], columns["axis"]) == ("y", "x")
    assert round(rows["best"]["turns"], 1) == 11.1
    assert [c["idle"] for c in rows["candidates"] if c["rho"] == 1e4] == [20]  # of 28


def test_linear_scaling_reports_a_trained_length_that_it_ignores(run, tmp_path):
    scaling = {"type": "linear", "factor": 3.5, "original_max_position_embeddings": 8192}
    config = {"model_type": "llama", "head_dim": 128, "rope_theta": 5e5, "rope_scaling": scaling}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config | {"max_position_embeddings": 65536}))
    (result,) = run("context", path, "--json").results
    assert {f["code"] for f in result["findings"]} >= {"unread-key", "rope-lengths"}
    path.write_text(json.dumps(config | {"max_position_embeddings": 28672}))
    (result,) = run("context", path, "--json").results
    assert [f["code"] for f in result["findings"]] == ["unread-key", "trained-assumed"]
    (result,) = run("context", path, "--length", 29696, "--json").results
    assert result["rotations"][0]["familiar_length"] == 28672
