"""Methods of libraries, against the libraries: transformers, diffusers and torch, timm as recorded."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from diffusers.models.embeddings import PatchEmbed
from torch.nn.functional import interpolate
from transformers import BeitConfig, SamVisionConfig
from transformers.models.beit.modeling_beit import BeitRelativePositionBias
from transformers.models.sam.modeling_sam import SamVisionAttention

import pefourier
from pefourier.errors import PefourierError

RECORDED = json.loads((Path(__file__).parents[1] / "helpers/recorded_resizes.json").read_text())[
    "cases"
]


def cosines(rows, columns):
    """The table of which timm's results are recorded."""
    return np.cos(np.arange(rows * columns).reshape(rows, columns) ** 1.5).astype(np.float32)


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: f"{case['method']} {case['from']}")
def test_timm_resizes_as_recorded(case, folder):
    old, prefix = case["from"], case["prefix"]
    of_lags = case["method"] == "geometric"
    points = np.prod([2 * n - 1 if of_lags else n for n in old])
    np.save(folder / "t.npy", cosines(points + prefix, 2))
    place = {"grid": tuple(old), "prefix": 0 if of_lags else prefix}
    r = pefourier.resize("t.npy", case["to"], method=case["method"], **place)
    np.testing.assert_allclose(r.table[:: case["every"]], case["rows"], atol=3e-6)


@pytest.mark.parametrize(
    ("side", "new"), [(37, (16, 16)), (16, (37, 23)), (14, (14, 20)), (37, (5, 60))]
)
def test_dinov2_scales_as_its_source_code_does(side, new, rng):
    """interpolate with (n + 0.1) / N, as DinoVisionTransformer.interpolate_pos_encoding calls it."""
    table = rng.normal(size=(1 + side**2, 6)).astype(np.float32)
    planes = torch.tensor(table[1:]).double().reshape(1, side, side, 6).permute(0, 3, 1, 2)
    scale = tuple(float((n + 0.1) / side) for n in new)
    expected = interpolate(planes, scale_factor=scale, mode="bicubic").permute(0, 2, 3, 1)
    r = pefourier.resize(table, new, grid=(side, side), prefix=1, method="dinov2")
    np.testing.assert_allclose(r.table[1:], expected.reshape(-1, 6), atol=1e-5)
    (plain,) = (m for m in r.methods if m.method == "bicubic")
    assert plain.largest_difference > 0.01
    same = pefourier.resize(table, (side, side), grid=(side, side), prefix=1, method="dinov2")
    np.testing.assert_array_equal(same.table, table)


def test_beit_of_transformers_is_bilinear(rng, folder):
    config = BeitConfig(image_size=64, patch_size=16, num_attention_heads=3, hidden_size=12)
    module = BeitRelativePositionBias(config)
    table = rng.normal(size=(7 * 7 + 3, 3)).astype(np.float32)
    module.relative_position_bias_table.data = torch.tensor(table)
    expected = module((6, 6))[0].detach().numpy()
    np.save(folder / "t.npy", table)
    made = pefourier.resize("t.npy", (6, 6), grid=(4, 4), method="bilinear").table
    index = module.generate_relative_position_index((6, 6)).numpy()
    np.testing.assert_allclose(np.moveaxis(made[index], -1, 0), expected, atol=1e-6)


def test_lags_of_sam_are_resized_linearly_by_default(rng, folder, run):
    table = rng.normal(size=(27, 64)).astype(np.float32)
    np.savez(folder / "sam.npz", rel_pos_h=table)
    module = SamVisionAttention(SamVisionConfig(hidden_size=64, num_attention_heads=1), 14)
    expected = module.get_rel_pos(64, 64, torch.tensor(table)).numpy()
    r = pefourier.resize("sam.npz", (127,), grid=(27,))
    assert (r.method, r.library) == ("bilinear", "transformers 5.23 and segment-anything")
    lags = np.arange(64)[:, None] - np.arange(64) + 63
    np.testing.assert_allclose(r.table[lags], expected, atol=1e-5)
    assert r.verdict == "no longer distinct"
    assert "keep" not in r.conclusion
    assert "library that runs" not in r.conclusion
    refused = run("resize", "sam.npz", "--from", "14", "--to", "64").err
    assert "--from 27" in refused
    assert "--grid" not in refused


@pytest.mark.parametrize(("height", "width"), [(64, 48), (63, 96), (1, 95)])
def test_the_middle_is_that_of_diffusers(height, width):
    module = PatchEmbed(
        height=128, width=128, patch_size=2, in_channels=4, embed_dim=8, pos_embed_max_size=96
    )
    expected = module.cropped_pos_embed(2 * height, 2 * width)[0].numpy()
    table = module.pos_embed[0].numpy()
    r = pefourier.resize(table, (height, width), grid=(96, 96), method="center-crop")
    np.testing.assert_array_equal(r.table, expected)
    assert r.crop == ((96 - height) // 2, (96 - width) // 2)
    again = pefourier.resize(table, (height, width), grid=(96, 96), from_crop=r.crop)
    np.testing.assert_array_equal(again.table, expected)
    assert again.method == "crop"


def test_a_crop_of_text_begins_at_the_first_row(rng):
    table = rng.normal(size=(40, 8))
    made = pefourier.resize(table, (16,), method="crop")
    np.testing.assert_array_equal(made.table, table[:16])
    assert [m.method for m in made.methods] == [
        "bicubic",
        "bilinear",
        "antialias",
        "fourier",
        "crop",
    ]


def test_the_middle_of_a_window_keeps_lags(rng, folder):
    table = rng.normal(size=(13 * 9, 3))
    np.save(folder / "t.npy", table)
    made = pefourier.resize("t.npy", (5, 3), grid=(7, 5), method="center-crop").table
    expected = table.reshape(13, 9, 3)[2:-2, 2:-2].reshape(-1, 3)
    np.testing.assert_array_equal(made, expected)


WRONG = [
    ("--to 5x8 --method center-crop", "4x6 to 5x8"),
    ("--to 3x3 --method crop --from-crop 1,4", "from (1,4)"),
    ("--to 3x3 --from-crop 1", "4x6"),
    ("--to 3x3 --from-crop 1,1 --method bicubic", "--method crop"),
    ("--to 3x3 --from-crop 1,-1", "1,-1"),
    ("--to 3x3 --method geometric", "odd"),
    ("--to 3x3 --from 5x5", "--from 4x6"),
    ("--to 3x3 --from 2x2x2", "--from 4x6"),
]


@pytest.mark.parametrize(("options", "named"), WRONG)
def test_what_a_method_cannot_do_is_refused(options, named, run, folder, rng):
    np.save(folder / "t.npy", rng.normal(size=(24, 8)))
    options = options if "--from " in options else f"--from 4x6 {options}"
    done = run("resize", "t.npy", *options.split())
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert named in done.err
    assert "--grid" not in done.err


def test_a_window_is_not_cut_anywhere(rng, folder):
    np.save(folder / "t.npy", rng.normal(size=(49, 3)))
    with pytest.raises(PefourierError, match="center-crop"):
        pefourier.resize("t.npy", (3, 3), grid=(4, 4), method="crop")
