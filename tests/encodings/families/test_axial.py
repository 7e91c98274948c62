"""Codes on several axes: equal to public implementations, and to one another where these are."""

import numpy as np
import pytest

from pefourier.encodings import load
from pefourier.encodings.conventions import read_conventions

FLOAT32 = float(np.finfo(np.float32).eps)


def on(spec, grid, d, **own):
    return load(spec, d=d, grid=grid, **own)


def tolerance(enc):
    """What rounding of float32 phases leaves of sines and cosines."""
    phases = enc.measure.phases(enc.domain.places(enc.domain.x[enc.domain.prefix :]))
    return 2 * FLOAT32 * (1 + np.abs(phases).max())


@pytest.fixture(scope="module")
def public():
    return pytest.importorskip("public_axes")


def named(kind):
    return [name for name in read_conventions()[kind]]


@pytest.mark.parametrize(
    "name", "diffusers transformers cogvideox detr sam2-sine deformable-detr dino".split()
)
def test_a_table_is_that_of_its_public_implementation(public, name):
    grid, d, make = public.TABLES[name]
    enc = on(f"axial:convention={name}", grid, d)
    np.testing.assert_allclose(enc.table(), make(grid, d), atol=tolerance(enc), rtol=0)


@pytest.mark.parametrize(
    "name",
    "dinov3 pixtral qwen2-vl qwen2-vl-text qwen3-vl-text,rho=1e6 llama4 hunyuan-dit lumina "
    "cogvideox flux flux2 qwen-image hunyuan-video wan ltx cosmos".split(),
)
def test_a_rotation_is_that_of_its_public_implementation(public, name):
    grid, d, make = public.ROTATIONS[name]
    enc = on(f"axial-rope:convention={name}", grid, d)
    cos, sin = (np.asarray(part, dtype=float) for part in make(grid, d))
    one, two = cos_and_sin(enc)
    np.testing.assert_allclose(one, cos, atol=tolerance(enc), rtol=0)
    np.testing.assert_allclose(two, sin, atol=tolerance(enc), rtol=0)


def cos_and_sin(enc):
    table, pairs = enc.table(), enc.dim // 2
    if enc.params["layout"] == "halves":
        return table[:, :pairs], table[:, pairs:]
    return table[:, ::2], table[:, 1::2]
