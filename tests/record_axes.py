"""Write tests/recorded_axes.json: codes on grids of what does not install beside a CPU torch.

Usage: python tests/record_axes.py CLONES, with timm 1.0.31 (torchvision need not be there) and
positional-encodings 6.0.3 installed, and clones of the repositories in COMMITS in the folder
CLONES. Of each, single functions are run as they stand at the commit named here.
Rotations are cosines and sines of pairs.
"""

import ast
import json
import math
import subprocess
import sys
import types
from importlib import import_module, util
from pathlib import Path

import numpy as np
import torch

GRID, D = (3, 4), 16
H, W = GRID
COMMITS = {
    "mae": "efb2a80",
    "DiT": "ed81ce2",
    "rope-vit": "ce85c2e",
    "RT-DETR": "068dfde",
    "vit-pytorch": "69d24fe",
    "sam2": "2b90b9f",
    "mistral-inference": "2557e12",
}


def functions(clones, name, path, **namespace):
    """The functions and classes of a file at its commit, and nothing else of it."""
    show = ["git", "-C", f"{clones}/{name}", "show", f"{COMMITS[name]}:{path}"]
    text = subprocess.run(show, capture_output=True, text=True, check=True).stdout
    text = text.replace("np.float)", "np.float64)")  # gone from numpy 1.24 on
    kept = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)]
    found = {"np": np, "torch": torch, "math": math, **namespace}
    for node in kept:
        node.decorator_list, node.returns = [], None
        for argument in node.args.args:
            argument.annotation = None
        module = ast.Module([node], [])
        exec(compile(module, path, "exec"), found)
    return types.SimpleNamespace(**found)


def timm_embeddings():
    """timm's file of sinusoids, without the rest of the package."""
    places = list(util.find_spec("timm").submodule_search_locations)
    for name in ("timm", "timm.layers"):
        package = types.ModuleType(name)
        package.__path__ = [str(Path(places[0], *name.split(".")[1:]))]
        sys.modules[name] = package
    return import_module("timm.layers.pos_embed_sincos")


def mae(clones, name="mae", path="util/pos_embed.py"):
    found = functions(clones, name, path)
    grid = np.stack(np.meshgrid(np.arange(W), np.arange(H))).astype(np.float32)
    return found.get_2d_sincos_pos_embed_from_grid(D, grid.reshape(2, 1, H, W))


def of_pairs(complex_numbers):
    return np.hstack([complex_numbers.real.numpy(), complex_numbers.imag.numpy()])


def mixed(found):
    torch.manual_seed(0)
    freqs = found.init_random_2d_freqs(D, 2)
    columns, rows = found.init_t_xy(W, H)
    phases = columns[:, None, None] * freqs[0] + rows[:, None, None] * freqs[1]
    return freqs.flatten(1), phases.flatten(1)


def timm(embeddings):
    yield "axial timm", embeddings.build_sincos2d_pos_embed(GRID, D)
    yield (
        "axial timm-interleaved",
        embeddings.build_sincos2d_pos_embed(GRID, D, interleave_sin_cos=True),
    )
    yield "axial timm-reverse", embeddings.build_sincos2d_pos_embed(GRID, D, reverse_coord=True)
    for name, own in {
        "eva02": {"in_pixels": False},
        "eva02,reference=6;6": {"in_pixels": False, "ref_feat_shape": [6, 6]},
        "timm": {"in_pixels": True, "linear_bands": False},
    }.items():
        made = embeddings.RotaryEmbeddingCat(D, feat_shape=GRID, **own).get_embed()
        sin, cos = made.chunk(2, dim=-1)
        yield f"axial-rope {name}", torch.cat([cos[:, ::2], sin[:, ::2]], dim=1)
    made = embeddings.RotaryEmbeddingDinoV3(D, feat_shape=GRID).eval().get_embed()
    sin, cos = made.chunk(2, dim=-1)
    yield "axial-rope dinov3", torch.cat([cos[:, : D // 2], sin[:, : D // 2]], dim=1)


def recordings(clones):
    """Name and codes of each."""
    yield "axial mae", mae(clones)
    yield "axial dit", mae(clones, "DiT", "models.py")
    rope_vit = functions(clones, "rope-vit", "deit/models_v2_rope.py")
    yield "axial-rope rope-vit", of_pairs(rope_vit.compute_axial_cis(D, W, H))
    frequencies, phases = mixed(rope_vit)
    yield "mixed frequencies", frequencies
    yield "mixed phases", phases
    encoder = functions(clones, "RT-DETR", "rtdetr_pytorch/src/zoo/rtdetr/hybrid_encoder.py")
    yield "axial rt-detr", encoder.build_2d_sincos_position_embedding(W, H, D)[0]
    simple = functions(clones, "vit-pytorch", "vit_pytorch/simple_vit.py")
    yield "axial simple-vit", simple.posemb_sincos_2d(H, W, D)
    sam2 = functions(clones, "sam2", "sam2/modeling/position_encoding.py")
    yield "axial-rope sam2", of_pairs(sam2.compute_axial_cis(D, W, H))
    mistral = functions(clones, "mistral-inference", "src/mistral_inference/rope.py")
    made = mistral.precompute_freqs_cis_2d(D, H, W, 10000.0)
    yield "axial-rope pixtral-reference", of_pairs(made.reshape(H * W, -1))
    yield from timm(timm_embeddings())
    from positional_encodings.torch_encodings import PositionalEncoding2D

    made = PositionalEncoding2D(D)(torch.zeros(1, *GRID, D))
    yield "axial positional-encodings", made.reshape(-1, D)


if __name__ == "__main__":
    made = {name: np.asarray(codes).tolist() for name, codes in recordings(sys.argv[1])}
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(codes)}" for name, codes in made.items())
    Path(__file__).with_name("recorded_axes.json").write_text(f"{{\n{rows}\n}}\n")
