"""Folders of vision models: biases and lags equal those of the models' modules."""

import json

import numpy as np
import pytest
from stored import safetensors

import pefourier
from pefourier.encodings import load
from pefourier.encodings.encoding import displacement_of_each_pair
from pefourier.nn import Bias

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
SMALL = {"hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 8}
SWIN = {"image_size": 32, "patch_size": 4, "embed_dim": 8, "depths": [2, 1], "num_heads": [2, 4]}


def saved(folder, model, *names):
    """Save a model whose named tensors are ramps, each with another offset."""
    for i, (name, parameter) in enumerate(model.named_parameters()):
        if any(word in name for word in names):
            ramp = torch.linspace(-3, 3, parameter.numel()) + i
            parameter.data = 0.1 * ramp.reshape(parameter.shape).sin()
    model.eval().save_pretrained(folder)
    return str(folder)


def pairwise(enc, points):
    """Return biases of shape (heads, queries, keys)."""
    rows = displacement_of_each_pair(enc.domain, points, enc.spec)
    return enc.table()[rows].reshape(points, points, -1).transpose(2, 0, 1)


def codes_of(findings):
    return [note.code for note in findings]


@pytest.mark.parametrize("part", ["", "layers.0.blocks.1", "encoder.layers.1"])
def test_swin_has_the_biases_of_its_folder(tmp_path, part):
    """The biases come from the weights of the folder, for each part."""
    model = transformers.SwinModel(transformers.SwinConfig(**SWIN, window_size=3))
    path = saved(tmp_path, model, "relative_position")
    enc = load(f"{path}#{part}" if part else path)
    stage, block = (0, 0) if not part else (0, 1) if "blocks" in part else (1, 0)
    attention = model.encoder.layers[stage].blocks[block].attention
    made = attention.relative_position_bias()[0].detach().numpy()
    np.testing.assert_array_equal(pairwise(enc, 9), made)
    assert (enc.origin, enc.untrained, enc.injection) == ("weights", False, "bias")
    assert codes_of(enc.findings) == (["biases-by-layer"] if not part else [])
    if stage == 0 and not part:
        np.testing.assert_allclose(Bias(path, 2, grid=(3, 3))(9), made, atol=1e-6)


@pytest.mark.parametrize("shared", [False, True])
def test_beit_has_the_biases_and_rows_of_the_class_token_of_its_folder(tmp_path, shared):
    own = {f"use_{'shared_' * shared}relative_position_bias": True, "image_size": [24, 32]}
    config = transformers.BeitConfig(
        patch_size=8, num_hidden_layers=2, vocab_size=9, **SMALL, **own
    )
    model = transformers.BeitModel(config)
    path = saved(tmp_path, model, "relative_position")
    enc = load(path)
    (module, *_) = (m for m in model.modules() if type(m).__name__ == "BeitRelativePositionBias")
    index = module.generate_relative_position_index((3, 4))  # forward exchanges unequal sides
    made = module.relative_position_bias_table.detach().numpy()[index].transpose(2, 0, 1)
    np.testing.assert_array_equal(pairwise(enc, 12), made[:, 1:, 1:])
    np.testing.assert_array_equal(enc.table()[:3], [made[:, 0, 1], made[:, 1, 0], made[:, 0, 0]])
    assert (enc.domain.grid, enc.domain.prefix) == ((5, 7), 3)
    assert codes_of(enc.findings) == ([] if shared else ["biases-by-layer"])


@pytest.fixture(scope="module")
def sam(tmp_path_factory):
    """Save a SAM with one window layer and one global layer; return it and its folder."""
    side = {"image_size": 32, "patch_size": 8}
    vision = {**side, "hidden_size": 16, "output_channels": 4, "num_hidden_layers": 2}
    vision |= {"num_attention_heads": 2, "window_size": 3, "global_attn_indexes": [1], "mlp_dim": 8}
    prompt = {"hidden_size": 8, "mask_input_channels": 4, **side}
    decoder = {"hidden_size": 8, "mlp_dim": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    config = transformers.SamConfig(
        vision_config=vision,
        prompt_encoder_config=prompt,
        mask_decoder_config=decoder | {"iou_head_hidden_dim": 8},
    )
    model = transformers.SamModel(config)
    return model, saved(tmp_path_factory.mktemp("sam"), model, "pos_embed", "rel_pos")


@pytest.mark.parametrize(("layer", "side"), [(0, 3), (1, 4)])
@pytest.mark.parametrize("axis", "hw")
def test_sam_has_the_lags_of_each_layer(sam, layer, side, axis):
    model, path = sam
    enc = load(f"{path}#vision_encoder.layers.{layer}.attn.rel_pos_{axis}")
    attention = model.vision_encoder.layers[layer].attn
    stored = getattr(attention, f"rel_pos_{axis}")
    made = attention.get_rel_pos(side, side, stored).detach().numpy()  # (queries, keys, d)
    lags = np.arange(side) - np.arange(side)[:, None]  # key - query
    np.testing.assert_array_equal(enc.table()[lags + side - 1], made)
    assert (enc.domain.kind, enc.injection, len(enc)) == ("lag", "key", 2 * side - 1)
    resized = pefourier.resize(enc, (7,), method="bilinear")
    wider = attention.get_rel_pos(7, 7, stored).detach().numpy()
    np.testing.assert_allclose(resized.table[6:], wider[:, 0], atol=1e-6)  # query 0 … 6, key 0


def test_videos_have_the_tables_of_transformers(tmp_path):
    own = {"image_size": 16, "num_frames": 6, "num_hidden_layers": 1, **SMALL}
    mae = transformers.VideoMAEModel(transformers.VideoMAEConfig(patch_size=8, **own))
    enc = load(saved(tmp_path / "mae", mae), length=12)
    made = mae.embeddings.position_embeddings[0]
    np.testing.assert_allclose(enc.table(), made, atol=1e-6)
    vivit = transformers.VivitModel(transformers.VivitConfig(tubelet_size=[2, 8, 8], **own))
    enc = load(saved(tmp_path / "vivit", vivit, "position_embeddings"))
    assert (enc.domain.grid, enc.domain.prefix) == ((3, 2, 2), 1)


TIMM = [  # architecture, image, tensor, shape; grid, prefix
    ("vit_tiny_patch16_224", (224, 224), "pos_embed", (1, 197, 4), (14, 14), 1),
    ("vit_small_patch14_reg4_dinov2", (56, 84), "pos_embed", (1, 24, 4), (4, 6), 0),
    ("vit_small_r26_s32_224", (224, 224), "pos_embed", (1, 50, 4), (7, 7), 1),
    ("samvit_base_patch16", (128, 128), "pos_embed", (1, 8, 8, 12), (8, 8), 0),
    (
        "swin_tiny_patch4_window7_224",
        (224, 224),
        "layers.0.blocks.0.attn.relative_position_bias_table",
        (169, 3),
        (13, 13),
        0,
    ),
    (
        "beit_base_patch16_224",
        (224, 224),
        "blocks.0.attn.relative_position_bias_table",
        (732, 4),
        (27, 27),
        3,
    ),
]


@pytest.mark.parametrize(("name", "image", "tensor", "shape", "grid", "prefix"), TIMM)
def test_a_folder_of_timm_is_read(tmp_path, rng, name, image, tensor, shape, grid, prefix):
    """Tables of timm are on their grids; shapes, names and configs are those of timm 1.0.31."""
    table = rng.normal(size=shape)
    config = {"architecture": name, "num_classes": 0, "pretrained_cfg": {"input_size": [3, *image]}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    safetensors(tmp_path / "model.safetensors", {tensor: table})
    enc = load(str(tmp_path))
    assert (enc.domain.grid, enc.domain.prefix, enc.origin) == (grid, prefix, "weights")
    rows = table.reshape(-1, shape[-1]).astype("f4")
    stored = (
        enc.table()
        if enc.injection == "add"
        else np.r_[enc.table()[prefix:][::-1], enc.table()[:prefix]]
    )
    np.testing.assert_array_equal(stored, rows)
    assert not enc.findings
