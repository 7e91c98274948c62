"""Tables and rotations on grids from public implementations: transformers and diffusers.

A rotation is given as cosines and sines of its pairs, (n, m) each, and a table as (n, d). Both
have the points of a grid in raster order. The file recorded_axes.json holds results of packages
that do not install next to a CPU build of torch: timm 1.0.31, positional-encodings 6.0.3, and
functions of mae efb2a80, DiT ed81ce2, rope-vit ce85c2e, RT-DETR 068dfde, vit-pytorch 69d24fe, sam2
2b90b9f and mistral-inference 2557e12, on a grid of 3 x 4 with d 16.
"""

import warnings
from functools import partial

import numpy as np

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch
    from diffusers.models import embeddings
    from diffusers.models.transformers import (
        transformer_cosmos,
        transformer_flux,
        transformer_flux2,
        transformer_hunyuan_video,
        transformer_ltx,
        transformer_lumina2,
        transformer_qwenimage,
        transformer_wan,
        transformer_z_image,
    )
    from transformers.models.dab_detr import modeling_dab_detr as dab
    from transformers.models.deformable_detr import modeling_deformable_detr as deformable
    from transformers.models.detr import modeling_detr as detr
    from transformers.models.dinov3_vit import modeling_dinov3_vit as dinov3
    from transformers.models.llama4 import modeling_llama4 as llama4
    from transformers.models.pixtral import modeling_pixtral as pixtral
    from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen2
    from transformers.models.qwen3_vl import modeling_qwen3_vl as qwen3
    from transformers.models.rt_detr_v2 import modeling_rt_detr_v2 as rt_detr
    from transformers.models.sam2 import modeling_sam2 as sam2
    from transformers.models.vjepa2 import modeling_vjepa2 as vjepa2


PARTS = [16, 56, 56]  # columns of 128 for time, rows and columns


def coordinates(grid):
    """Return the coordinates of the points, (axes, n)."""
    return torch.from_numpy(np.indices(grid).reshape(len(grid), -1))


def every_other(cos, sin):
    return cos[..., ::2], sin[..., ::2]


def first_half(cos, sin):
    return cos[..., : cos.shape[-1] // 2], sin[..., : sin.shape[-1] // 2]


def real_and_imaginary(complex_numbers):
    return complex_numbers.real, complex_numbers.imag


def zeros(grid, patch=(1, 1, 1)):
    """Return a latent in which each token of the grid is one patch."""
    return torch.zeros(1, 16, *(n * p for n, p in zip(grid, patch, strict=True)))


def diffusers_table(grid, d):
    return embeddings.get_2d_sincos_pos_embed(d, grid, output_type="pt")


def cogvideox_table(grid, d):
    t, y, x = grid
    own = {"spatial_interpolation_scale": 1.875}  # from CogVideoX-2b's config and the class
    return embeddings.get_3d_sincos_pos_embed(d, (x, y), t, **own, output_type="pt").reshape(-1, d)


def transformers_table(grid, d):
    return rt_detr.build_2d_sinusoidal_position_embedding(*grid, embed_dim=d)


def detr_like(sine):
    def table(grid, d):
        made = sine.build_sine_position_embedding(
            torch.Size((1, 1, *grid)),
            *("cpu", torch.float32, d // 2),
            normalize=True,
            scale=2 * np.pi,
            temperature=10000,
        )
        return made.reshape(-1, d) if made.shape[-1] == d else made[0].flatten(1).T

    return table


def dino_table(grid, d):
    made = dab.DabDetrSinePositionEmbedding(
        dab.DabDetrConfig(hidden_size=d, temperature_height=20, temperature_width=20)
    )
    return made(torch.zeros(1, 3, *grid), torch.ones(1, *grid))[0].flatten(1).T


def dinov3_rotation(grid, d):
    own = dinov3.DINOv3ViTConfig(hidden_size=d, num_attention_heads=1, patch_size=1)
    return first_half(*dinov3.DINOv3ViTRopePositionEmbedding(own).eval()(torch.zeros(1, 3, *grid)))


def pixtral_rotation(grid, d):
    own = pixtral.PixtralVisionConfig(hidden_size=d, num_attention_heads=1, head_dim=d)
    made = pixtral.PixtralVisionRotaryEmbedding(own)
    return first_half(*made(torch.zeros(1), coordinates(grid).T))


def qwen2_rotation(grid, d, block=1):
    """Return the rotation in the model's order of tokens, in merged blocks."""
    own = qwen2.Qwen2VLVisionConfig(embed_dim=d, num_heads=1)
    ids = qwen2.get_vision_position_ids(torch.tensor([[1, *grid]]), block)
    return first_half(*qwen2.Qwen2VLVisionRotaryEmbedding(own)(torch.zeros(1), ids))


def mrope(rotary_class, config_class, section):
    def rotation(grid, d):
        rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": section}
        own = config_class(hidden_size=d, num_attention_heads=1, rope_parameters=rope)
        cos, sin = rotary_class(own)(torch.zeros(1), coordinates(grid)[:, None])
        return first_half(cos[0], sin[0])

    return rotation


QWEN2_BLOCKS = partial(qwen2_rotation, block=qwen2.Qwen2VLVisionConfig().spatial_merge_size)
QWEN2_TEXT = mrope(qwen2.Qwen2VLRotaryEmbedding, qwen2.Qwen2VLTextConfig, [16, 24, 24])
QWEN3_TEXT = mrope(qwen3.Qwen3VLTextRotaryEmbedding, qwen3.Qwen3VLTextConfig, [24, 20, 20])


def llama4_rotation(grid, d):
    (side, _) = grid
    own = llama4.Llama4VisionConfig(
        hidden_size=d, num_attention_heads=1, image_size=side, patch_size=1
    )
    return real_and_imaginary(llama4.Llama4VisionRotaryEmbedding(own).freqs_ci[:-1, 0])


def hunyuan_dit_rotation(grid, d):
    made = embeddings.get_2d_rotary_pos_embed(d, ((0, 0), grid), grid, output_type="pt")
    return every_other(*made)


def lumina_rotation(grid, d):
    return real_and_imaginary(embeddings.get_2d_rotary_pos_embed_lumina(d, *grid).flatten(0, 1))


def cogvideox_rotation(grid, d):
    made = embeddings.get_3d_rotary_pos_embed(d, ((0, 0), grid[1:]), grid[1:], grid[0])
    return every_other(*made)


def flux_rotation(grid, _d):
    ids = torch.nn.functional.pad(coordinates(grid).T, (1, 0))
    return every_other(*transformer_flux.FluxPosEmbed(10000, PARTS)(ids))


def lumina2_rotation(grid, d):
    made = transformer_lumina2.Lumina2RotaryPosEmbed(10000, [d // 3] * 3)
    return real_and_imaginary(made._get_freqs_cis(coordinates(grid).T[None])[0])


def z_image_rotation(grid, _d):
    made = transformer_z_image.RopeEmbedder(256.0, [32, 48, 48], [64, 64, 64])
    return real_and_imaginary(made(coordinates(grid).T))


def flux2_rotation(grid, d):
    ids = torch.nn.functional.pad(coordinates(grid).T, (1, 1))
    return every_other(*transformer_flux2.Flux2PosEmbed(2000, [d // 4] * 4)(ids))


def qwen_image_rotation(grid, _d):
    made = transformer_qwenimage.QwenEmbedRope(10000, PARTS, scale_rope=True)
    return real_and_imaginary(made([grid], torch.device("cpu"), max_txt_seq_len=1)[0])


def hunyuan_video_rotation(grid, _d):
    made = transformer_hunyuan_video.HunyuanVideoRotaryPosEmbed(2, 1, PARTS)
    return every_other(*made(zeros(grid, (1, 2, 2))))


def wan_rotation(grid, d):
    made = transformer_wan.WanRotaryPosEmbed(d, (1, 2, 2), 64)
    return every_other(*(part[0, :, 0] for part in made(zeros(grid, (1, 2, 2)))))


def ltx_rotation(grid, d):
    made = transformer_ltx.LTXVideoRotaryPosEmbed(d)
    scale = (torch.tensor(8 / 25), 32, 32)
    cos, sin = made(torch.zeros(1), *grid, rope_interpolation_scale=scale)
    return every_other(cos[0], sin[0])


def cosmos_rotation(grid, d):
    return first_half(*transformer_cosmos.CosmosRotaryPosEmbed(d)(zeros(grid, (1, 2, 2))))


def vjepa2_of_ones(grid, d):
    """Rotate a head of ones at each point."""
    own = vjepa2.VJEPA2Config(hidden_size=d, num_attention_heads=1)
    made = vjepa2.VJEPA2RopeAttention(own, d, 1)
    ids = list(coordinates(grid))
    return made.apply_rotary_embeddings(torch.ones(1, 1, ids[0].numel(), d), ids)[0, 0]


OF_IMAGES = {
    "diffusers": diffusers_table,
    "transformers": transformers_table,
    "detr": detr_like(detr.DetrSinePositionEmbedding),
    "sam2-sine": detr_like(sam2.Sam2SinePositionEmbedding),
    "deformable-detr": detr_like(deformable.DeformableDetrSinePositionEmbedding),
    "dino": dino_table,
}
IMAGES = {
    "dinov3": dinov3_rotation,
    "pixtral": pixtral_rotation,
    "qwen2-vl": qwen2_rotation,
    "hunyuan-dit": hunyuan_dit_rotation,
    "lumina": lumina_rotation,
}
VIDEOS = {
    "qwen2-vl-text": QWEN2_TEXT,
    "qwen3-vl-text,rho=1e6": QWEN3_TEXT,
    "z-image": z_image_rotation,
    "qwen-image": qwen_image_rotation,
    "hunyuan-video": hunyuan_video_rotation,
    "wan": wan_rotation,
    "ltx": ltx_rotation,
    "cosmos": cosmos_rotation,
}
TABLES = {name: ((3, 5), 32, made) for name, made in OF_IMAGES.items()}
TABLES["cogvideox"] = ((2, 3, 5), 64, cogvideox_table)
ROTATIONS = {name: ((3, 5), 32, made) for name, made in IMAGES.items()}
ROTATIONS |= {name: ((2, 3, 5), 128, made) for name, made in VIDEOS.items()}
ROTATIONS |= {
    "qwen2-vl,rows=blocks": ((4, 6), 32, QWEN2_BLOCKS),
    "llama4": ((4, 4), 32, llama4_rotation),
    "cogvideox": ((2, 3, 5), 64, cogvideox_rotation),
    "flux": ((3, 5), 128, flux_rotation),
    "lumina2": ((2, 3, 5), 96, lumina2_rotation),
    "flux2": ((3, 5), 128, flux2_rotation),
}
