"""Rotations whose pairs turn by frames, rows and columns (M-RoPE), as configs tell."""

import json

import numpy as np
import pytest

from pefourier.encodings import load
from pefourier.questions.compare import compare

QWEN = {
    "model_type": "qwen2_vl",
    "hidden_size": 256,
    "num_attention_heads": 2,
    "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
}
ON_AXES = [
    ["check-faithful", "c.json", "--grid", "6x4"],
    ["spectrum", "c.json", "--grid", "6x4"],
    ["encode", "c.json", "--grid", "6x4", "--out", "codes.npy"],
    ["resize", "c.json", "--from", "6x4", "--to", "9x4"],
]


@pytest.mark.parametrize("arguments", ON_AXES, ids=lambda one: one[0])
def test_text_is_not_laid_out_as_an_image(run, tmp_path, monkeypatch, arguments):
    """Text on 6 x 4 was answered as if it were an image, whose codes are others."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.json").write_text(json.dumps(QWEN))
    done = run(*arguments)
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert "c.json" in done.err
    assert run("check-faithful", "c.json", "--grid", "24", "--json").results[0]["length"] == 24


@pytest.mark.parametrize("other", [{"mrope_section": [24, 20, 20]}, {"mrope_interleaved": True}])
def test_rotations_that_read_text_alike_and_images_by_other_axes_are_not_the_same(tmp_path, other):
    """Codes of text agree to the bit, those of an image from its first rows on."""
    known = {"rope_theta": 1e6, "mrope_section": [16, 24, 24]}
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path, more in zip(paths, ({}, other), strict=True):
        text = {"model_type": "qwen2_vl_text", "hidden_size": 128, "num_attention_heads": 1}
        text |= {"rope_parameters": known | more}
        path.write_text(json.dumps({"model_type": "qwen2_vl", "text_config": text}))
    a, b = map(load, map(str, paths))
    assert compare(a, a).same
    comparison = compare(a, b)
    assert (np.array_equal(a.table(), b.table()), comparison.same) == (True, False)
    assert comparison.cause.changes["axes"][0] == "16 t + 24 y + 24 x"
