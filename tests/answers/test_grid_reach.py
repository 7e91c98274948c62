"""How large an image may be, beside phases counted point by point."""

import json

import numpy as np
import pytest

from pefourier.answers.grid_reach import reach_on_grid
from pefourier.encodings import build, load


def rows_that_meet(enc):
    """Whether two rows of the first column have all phases in common, to rounding."""
    height, width = enc.domain.sides
    codes = enc.table().reshape(height, width, -1)[:, 0]
    apart = np.linalg.norm(codes[:, None] - codes[None], axis=-1) + 9.0 * np.eye(height)
    return bool(apart.min() < 1e-9)


@pytest.mark.parametrize("side", [8, 64, 300])
def test_no_image_is_too_large_for_dinov3(side):
    enc = build("axial-rope", d=64, grid=(side, 6), convention="dinov3")
    assert "which are divided by the sides" in reach_on_grid(enc)
    assert "no image is so large that two rows" in reach_on_grid(enc)
    assert not rows_that_meet(enc)


def test_whole_waves_on_coordinates_of_an_image_repeat_in_it():
    enc = build("axial", d=4, grid=(8, 8), coordinates="unit", scale=4 * np.pi, rho=1.0)
    assert "phases repeat within every image" in reach_on_grid(enc)
    assert rows_that_meet(enc)


def test_coordinates_that_count_end_where_the_slowest_wave_has_turned():
    step = 2 * np.pi / 40
    enc = build("axial", d=8, grid=(60, 6), rho=1.0, scale=step)  # all waves alike
    assert "the same for any size" in reach_on_grid(enc)
    assert "meets a phase again after 40 rows, the slowest after 40" in reach_on_grid(enc)
    assert rows_that_meet(enc)
    assert not rows_that_meet(build("axial", d=8, grid=(40, 6), rho=1.0, scale=step))


def test_context_says_it_of_a_config(run, tmp_path):
    config = {"model_type": "dinov3_vit", "hidden_size": 768, "num_attention_heads": 12}
    config |= {"num_hidden_layers": 12, "patch_size": 16, "image_size": 224, "rope_theta": 100.0}
    (tmp_path / "config.json").write_text(json.dumps(config))
    done = run("context", tmp_path / "config.json", "--json")
    assert done.status == 0, done.err
    assert "turns across the 14 rows" in done.results[0]["conclusion"]


@pytest.mark.parametrize(
    ("rescale", "new"), [(2.0, False), (1.01, True), (None, True), ("", False)]
)
def test_phases_that_training_stretched_to_are_not_new(tmp_path, rescale, new):
    """DINOv3's pos_embed_rescale, by default 2; coordinates reach 1/13 beyond those of 14 x 14."""
    config = {"model_type": "dinov3_vit", "hidden_size": 128, "num_attention_heads": 2}
    own = {} if rescale == "" else {"pos_embed_rescale": rescale}
    (tmp_path / "config.json").write_text(json.dumps(config | own))
    said = reach_on_grid(load(str(tmp_path / "config.json")))
    assert "by at most 7.69 %" in said
    assert ("phases of no image are new" in said) != new


def test_context_says_it_of_a_name(run):
    done = run("context", "axial-rope:grid=14x14,convention=dinov3", "--d", 64, "--json")
    assert done.status == 0, done.err
    assert "turns across the 14 rows" in done.results[0]["conclusion"]


def test_how_far_phases_go_in_larger_images_is_said():
    of = {
        coordinates: reach_on_grid(build("axial-rope", d=16, grid=(4, 5), coordinates=coordinates))
        for coordinates in ("centred", "closed")
    }
    assert "go beyond those of 4x5 by at most 33.3 % along y and 25 % along x." in of["centred"]
    assert "phases span the same range in an image of any size" in of["closed"]
