"""Resize methods equal those of transformers, diffusers and torch, and recorded ones of timm."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from diffusers.models.embeddings import PatchEmbed
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.torch import save_file
from torch.nn.functional import interpolate
from transformers import BeitConfig, SamVisionConfig
from transformers.models.beit.modeling_beit import BeitRelativePositionBias
from transformers.models.sam.modeling_sam import SamVisionAttention

import pefourier
from pefourier.encodings.encoding import from_table, lags_on, lattice
from pefourier.questions.resize import methods_of

RECORDED = json.loads((Path(__file__).parents[1] / "helpers/recorded_resizes.json").read_text())[
    "cases"
]


def cosines(rows, columns):
    """Return the table for which timm's results are recorded."""
    return np.cos(np.arange(rows * columns).reshape(rows, columns) ** 1.5).astype(np.float32)


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: f"{case['method']} {case['from']}")
def test_timm_resizes_as_recorded(case, folder):
    old, prefix = case["from"], case["prefix"]
    of_lags = case["method"] == "geometric"
    points = np.prod([2 * n - 1 if of_lags else n for n in old])
    np.save(folder / "t.npy", cosines(points + prefix, 2))
    place = {"grid": tuple(old), "prefix": 0 if of_lags else prefix}
    r = pefourier.resize("t.npy", case["to"], method=case["method"], **place)
    assert_allclose(r.table[:: case["every"]], case["rows"], atol=3e-6)


@pytest.mark.parametrize(
    ("side", "new"), [(37, (16, 16)), (16, (37, 23)), (14, (14, 20)), (37, (5, 60))]
)
def test_dinov2_scales_as_its_source_code_does(side, new, rng):
    """The method dinov2 equals torch's with scale factors (n + 0.1) / N."""
    table = rng.normal(size=(1 + side**2, 6)).astype(np.float32)
    planes = torch.tensor(table[1:]).double().reshape(1, side, side, 6).permute(0, 3, 1, 2)
    scale = tuple(float((n + 0.1) / side) for n in new)
    expected = interpolate(planes, scale_factor=scale, mode="bicubic").permute(0, 2, 3, 1)
    r = pefourier.resize(table, new, grid=(side, side), prefix=1, method="dinov2")
    assert_allclose(r.table[1:], expected.reshape(-1, 6), atol=1e-5)
    (plain,) = (m for m in r.methods if m.method == "bicubic")
    assert plain.largest_difference > 0.01


def test_beit_of_transformers_is_bilinear(rng, folder):
    config = BeitConfig(image_size=64, patch_size=16, num_attention_heads=3, hidden_size=12)
    module = BeitRelativePositionBias(config)
    table = rng.normal(size=(7 * 7 + 3, 3)).astype(np.float32)
    module.relative_position_bias_table.data = torch.tensor(table)
    expected = module((6, 6))[0].detach().numpy()
    np.save(folder / "t.npy", table)
    made = pefourier.resize("t.npy", (6, 6), grid=(4, 4), method="bilinear").table
    index = module.generate_relative_position_index((6, 6)).numpy()
    assert_allclose(np.moveaxis(made[index], -1, 0), expected, atol=1e-6)


def test_lags_of_sam_are_resized_linearly_by_default(rng, folder):
    table = rng.normal(size=(27, 64)).astype(np.float32)
    np.savez(folder / "sam.npz", rel_pos_h=table)
    module = SamVisionAttention(SamVisionConfig(hidden_size=64, num_attention_heads=1), 14)
    expected = module.get_rel_pos(64, 64, torch.tensor(table)).numpy()
    r = pefourier.resize("sam.npz", (127,))
    assert (r.method, r.library) == ("bilinear", "transformers 5.23 and segment-anything")
    lags = np.arange(64)[:, None] - np.arange(64) + 63
    assert_allclose(r.table[lags], expected, atol=1e-5)
    assert r.verdict == "no longer distinct"


@pytest.mark.parametrize(("height", "width"), [(64, 48), (63, 96), (1, 95)])
def test_the_middle_is_that_of_diffusers(height, width):
    module = PatchEmbed(
        height=128, width=128, patch_size=2, in_channels=4, embed_dim=8, pos_embed_max_size=96
    )
    expected = module.cropped_pos_embed(2 * height, 2 * width)[0].numpy()
    table = module.pos_embed[0].numpy()
    r = pefourier.resize(table, (height, width), grid=(96, 96), method="center-crop")
    assert_array_equal(r.table, expected)
    assert r.crop == ((96 - height) // 2, (96 - width) // 2)


def test_the_middle_of_a_window_keeps_lags(rng, folder):
    table = rng.normal(size=(13 * 9, 3))
    np.save(folder / "t.npy", table)
    made = pefourier.resize("t.npy", (5, 3), grid=(7, 5), method="center-crop").table
    expected = table.reshape(13, 9, 3)[2:-2, 2:-2].reshape(-1, 3)
    assert_array_equal(made, expected)


OWN = [  # model type, sides, the method and its library
    ("dinov2", (8, 8), "bicubic", "transformers 5.23"),
    ("dinov2_with_registers", (8, 8), "antialias", "transformers 5.23 and facebookresearch/dinov2"),
    ("clip_vision_model", (8, 8), "bicubic", "transformers 5.23"),
]


@pytest.mark.parametrize(("kind", "new", "method", "library"), OWN)
@pytest.mark.usefixtures("folder")
def test_a_known_model_is_resized_by_its_own_method(kind, new, method, library, written, rng):
    name = {
        "clip_vision_model": "vision_model.embeddings.position_embedding.weight",
    }.get(kind, "embeddings.position_embeddings")
    table = rng.normal(size=(37, 16)).astype(np.float32)
    table = table if kind.startswith("clip") else table[None]
    save_file({name: torch.tensor(table)}, "model.safetensors")
    config = {"model_type": kind, "image_size": 96, "patch_size": 16, "hidden_size": 16}
    written(config)
    r = pefourier.resize(".", new)
    assert (r.method, r.library) == (method, library)
    assert f"{method} interpolation as in {library}" in r.conclusion
    assert ("facebookresearch/dinov2 by dinov2" in str(r.findings)) == (kind == "dinov2")


def encoding_of(kind, rows, d, **facts):
    enc = from_table(np.ones((rows, d)))
    return replace(enc, params={"model_type": kind}, **facts)


WAYS = [  # a library that cannot make the new grid is not listed
    (
        "audio-spectrogram-transformer",
        lattice((12, 101)),
        (12, 50),
        {"YuanGongND/ast": "center-crop"},
    ),
    ("SD3Transformer2DModel", lattice((96, 96)), (64, 64), {"diffusers 0.42": "center-crop"}),
    ("SD3Transformer2DModel", lattice((96, 96)), (64, 128), {}),
    (
        "swin",
        lags_on((7, 7)),
        (23, 23),
        {"microsoft/Swin-Transformer": "bicubic", "timm 1.0.31": "geometric"},
    ),
    ("llama", lattice((12, 12)), (4, 4), {}),
]


@pytest.mark.parametrize(("kind", "domain", "new", "expected"), WAYS)
def test_libraries_have_methods_of_their_own(kind, domain, new, expected):
    assert methods_of(encoding_of(kind, len(domain), 4, domain=domain), new) == expected
