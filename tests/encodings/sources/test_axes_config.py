"""Configs of vision models: their grids, and the vectors of their modules on the grids."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refusal
from stored import safetensors

from pefourier import resize
from pefourier.encodings import load
from pefourier.encodings.loader import open_model
from pefourier.questions.context import describe_context


@pytest.fixture
def config(config):
    """Return a function that writes a config.json of a model type or class."""

    def write(kind, **own):
        return config({"_class_name" if kind.endswith("Model") else "model_type": kind, **own})

    return write


TURNED = {"use_rotary_positional_embeddings": True}
FRAMES = {"sample_frames": 81, "patch_size_t": 2}  # 21 frames, padded to 22
SETS = [  # model type, settings other than defaults; encoding, grid, prefix, d
    ("dinov3_vit", {}, "axial-rope", (14, 14), 1, 64),
    ("vjepa2", {}, "axial-rope", (32, 16, 16), 0, 64),
    ("detr", {}, "axial", (25, 34), 0, 256),
    ("QwenImageTransformer2DModel", {}, "axial-rope", (1, 64, 64), 0, 128),
    ("PixArtTransformer2DModel", {}, "axial", (64, 64), 0, 1152),
    ("CogVideoXTransformer3DModel", TURNED | FRAMES, "axial-rope", (11, 30, 45), 0, 64),
]


@pytest.mark.parametrize(("kind", "own", "name", "grid", "prefix", "d"), SETS)
def test_a_config_gives_its_grid(config, kind, own, name, grid, prefix, d):
    enc = load(config(kind, **own))
    assert (enc.name, enc.domain.grid, enc.domain.prefix, enc.dim) == (name, grid, prefix, d)
    assert enc.params["model_type"] == kind


@pytest.mark.parametrize(
    ("kind", "single", "layers"),
    [("FluxTransformer2DModel", 38, 57), ("HunyuanVideoTransformer3DModel", 0, 19)],
)
def test_layers_of_both_kinds_turn(config, kind, single, layers):
    """The layers with rotations include FLUX's single layers."""
    path = config(kind, num_layers=19, num_single_layers=single)
    (found,) = describe_context(path)[1].layers
    assert found.index == tuple(range(layers))


@pytest.mark.parametrize("own", [{}, {"window_size": 100, "fullatt_block_indexes": [1]}])
def test_windows_of_an_image_are_those_of_transformers(config, own):
    """The layers of Qwen2.5-VL with a window are those of transformers."""
    qwen = pytest.importorskip("transformers.models.qwen2_5_vl.configuration_qwen2_5_vl")
    utils = pytest.importorskip("transformers.vision_utils")
    meant = qwen.Qwen2_5_VLVisionConfig(**own)
    sizes = meant.spatial_merge_size, meant.window_size, meant.patch_size
    _, ends = utils.get_vision_window_index(torch.tensor([[1, 32, 32]]), *sizes)
    path = config("qwen2_5_vl_vision", depth=meant.depth, **own)
    (_, found), whole = describe_context(path), meant.fullatt_block_indexes
    reported = {i: run.window for run in found.layers for i in run.index}
    assert reported == {
        i: None if i in whole else int(ends.diff().max()) for i in range(meant.depth)
    }
    assert open_model(config("sam_vision_model", num_hidden_layers=3)).layers[0].window == 14 * 14
    (swin,) = open_model(config("swin", window_size=9)).layers
    assert swin.window == 9 * 9


@pytest.mark.parametrize(
    ("kind", "name", "own"),
    [
        ("dinov3_vit", "dinov3", {"hidden_size": 32, "num_attention_heads": 1}),
        ("pixtral", "pixtral", {"hidden_size": 32, "num_attention_heads": 1, "head_dim": 32}),
        ("qwen2_vl_vision", "qwen2-vl", {"embed_dim": 32, "num_heads": 1}),
        ("llama4_vision_model", "llama4", {"hidden_size": 32, "num_attention_heads": 1}),
        ("FluxTransformer2DModel", "flux", {}),
        ("Flux2Transformer2DModel", "flux2", {}),
        ("WanTransformer3DModel", "wan", {}),
        ("HunyuanVideoTransformer3DModel", "hunyuan-video", {}),
        ("QwenImageTransformer2DModel", "qwen-image", {}),
    ],
)
def test_a_config_gives_what_its_module_makes(config, kind, name, own):
    public = pytest.importorskip("public_axes")
    grid, d, make = public.ROTATIONS[name]
    enc = load(config(kind, **own), grid=grid)
    cos, sin = (np.asarray(part, dtype=float) for part in make(grid, d))
    halves = enc.params["layout"] == "halves"
    places = (slice(0, d // 2), slice(d // 2, d)) if halves else (slice(0, d, 2), slice(1, d, 2))
    for columns, made in zip(places, (cos, sin), strict=True):
        assert_allclose(enc.table()[-len(made) :, columns], made, atol=2e-6)


def test_pixart_and_sd3_have_the_tables_of_diffusers(config):
    embeddings = pytest.importorskip("public_axes").embeddings
    small = {"num_attention_heads": 2, "attention_head_dim": 8, "patch_size": 2}
    for kind, own in ("PixArt", {"interpolation_scale": 2}), ("SD3", {"pos_embed_max_size": 12}):
        made = embeddings.PatchEmbed(16, 16, 2, 4, 16, **own)
        enc = load(config(f"{kind}Transformer2DModel", sample_size=16, **own, **small))
        assert_allclose(enc.table(), made.pos_embed[0], atol=2e-6)


@pytest.fixture
def weights(folder, config):
    """Return a function that writes a config and a tensor next to it."""

    def write(kind, name, tensor, **own):
        safetensors(folder / "model.safetensors", {name: tensor})
        return config(kind, **own)

    return write


RANDOM = np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)
SMALL = {"image_size": [6, 10], "patch_size": 2, "hidden_size": 8}


@pytest.mark.parametrize(
    ("kind", "name", "rows"),
    [
        ("vit", "vit.embeddings.position_embeddings", 16),
        ("deit", "deit.embeddings.position_embeddings", 17),
        ("clip_vision_model", "vision_model.embeddings.position_embedding.weight", 16),
        ("siglip_vision_model", "vision_model.embeddings.position_embedding.weight", 15),
        ("vit_mae", "vit.embeddings.position_embeddings", 16),
        ("sam_vision_model", "vision_encoder.pos_embed", 15),
    ],
)
def test_learned_tables_lie_on_the_grid_behind_their_prefix(weights, kind, name, rows):
    shape = (rows, 8) if name.endswith("weight") else (1, rows, 8)
    tensor = RANDOM[:rows].reshape((1, 3, 5, 8) if kind.startswith("sam") else shape)
    enc = load(weights(kind, name, tensor, **SMALL))
    assert (enc.domain.grid, enc.domain.prefix, enc.origin) == ((3, 5), rows - 15, "weights")
    assert_array_equal(enc.table(), RANDOM[:rows])
    assert not [f for f in enc.findings if f.severity == "warning"]


def test_a_learned_table_beside_a_rotation_is_named_and_read_by_its_tensor(folder, config):
    inner = {
        "model_type": "qwen3_vl",
        "hidden_size": 8,
        "num_heads": 2,
        "num_position_embeddings": 9,
    }
    path = config("qwen3_vl", vision_config=inner, text_config={"model_type": "qwen3_vl_text"})
    tensor, table = "model.visual.pos_embed.weight", np.arange(72.0).reshape(9, 8)
    safetensors(folder / "model.safetensors", {tensor: table})
    rotation, added = load(f"{path}#vision_config"), load(f"{path}#{tensor}")
    assert (rotation.name, rotation.params["table_beside"]) == ("axial-rope", (3, 3))
    assert (added.domain.grid, added.params["model_type"]) == ((3, 3), "qwen3_vl_vision")
    assert_array_equal(added.table(), table)
    resized = resize(added, (4, 5))
    assert (resized.method, resized.library) == ("align-corners", "transformers 5.23")


def test_a_table_of_another_size_wants_a_grid(weights):
    name = "embeddings.position_embeddings"
    path = weights("vit", name, RANDOM[None, :13], **SMALL)
    for grid in ((), (5, 4)):
        with refusal("13 rows do not fit a grid of"):
            load(path, grid=grid)
    assert load(path, grid=(3, 4)).domain.prefix == 1
    assert load(path, grid=(3, 4)).findings == ()
    for rows, prefix in ((15, 0), (20, 5)):  # 15 patches and one prefix row
        enc = load(weights("vit", name, RANDOM[None, :rows], **SMALL))
        assert enc.domain.prefix == prefix


@pytest.mark.parametrize(
    ("kind", "own", "stated"),
    [
        ("dinov3_vit", {"image_size": 8}, "has no patch of 16 in 8; give grid"),
        ("dinov3_vit", {"hidden_size": 10, "num_attention_heads": 3}, "3 heads do not divide"),
        ("pixtral", {"rope_parameters": {"rope_type": "yarn"}}, "scaling on axes is not supported"),
        ("FluxTransformer2DModel", {"axes_dims_rope": [16, 56]}, "share needs one number for each"),
        ("PixArtTransformer2DModel", {"interpolation_scale": 0}, "interpolation_scale of"),
        ("CogVideoXTransformer3DModel", {}, "sinusoids of frames, rows and columns"),
        ("vit", {}, "are learned; put model.safetensors"),
        ("swin", {}, "its folder has no weights with biases"),
        ("swinv2", {}, "a trained network of displacements"),
        (
            "beit",
            {"use_shared_relative_position_bias": True},
            "its folder has no weights with biases",
        ),
        ("detr", {"position_embedding_type": "learned"}, "is not supported"),
    ],
)
def test_invalid_configs_are_refused(config, kind, own, stated):
    with refusal(part=stated):
        load(config(kind, **own))
