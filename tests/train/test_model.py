"""The classifier: its slow reference, and its dependence on order."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from training import CPU, SIZES, injection

from pefourier.encodings import build
from pefourier.errors import PefourierError
from pefourier.train import model


def test_side_by_side_is_a_first_map_of_input_and_vectors(rng):
    """Concatenation is [x ; e] W = x W_x + e W_e, with separately initialised maps."""
    sizes = replace(SIZES, inject="concat")
    p = {k: v[None] for k, v in model.draw_parameters(sizes.shapes(), 5).items()}
    x, vectors = torch.as_tensor(rng.normal(size=(1, 4, 8, 2))), injection("dft")
    injected = model.stack_vectors([vectors], CPU, torch.float64)
    got = sizes.tokens_with_vectors(p, injected["add"].table(None), x)[0]
    wide = torch.cat([p["project.w"][0], p["inject.w"][0]])
    both = torch.cat([x[0], torch.as_tensor(vectors.table()).expand(4, -1, -1)], dim=2)
    assert (got - (both @ wide + p["project.b"][0])).abs().max() < 1e-12
    assert sizes.size == SIZES.size + SIZES.d**2


class Changed(torch.nn.Module):
    def forward(self, x):
        return 2 * x - 1


@pytest.mark.parametrize(
    ("patch", "stride", "ffn"), [(1, None, None), (4, 2, 48), (2, 1, None), (8, None, 7)]
)
def test_it_is_torchs_transformer_encoder(rng, patch, stride, ffn):
    sizes = model.Transformer(8, 2, 3, d=16, heads=2, layers=2, patch=patch, stride=stride, ffn=ffn)
    p = {k: v[None] for k, v in model.draw_parameters(sizes.shapes(), 5).items()}
    for key in p:
        if "norm" in key or key.endswith(".b"):
            p[key] = p[key] + torch.as_tensor(rng.normal(size=p[key].shape))
    x = torch.as_tensor(rng.normal(size=(1, 4, 8, 2)))
    vectors = torch.as_tensor(build("dft", length=sizes.tokens, d=16).table())
    injected = model.stack_vectors([injection("dft", sizes=sizes)], CPU, torch.float64)
    starts = range(0, 9 - patch, stride or patch)
    cut = torch.stack([x[0, :, s : s + patch].flatten(1) for s in starts], dim=1)
    h = cut @ p["project.w"][0] + p["project.b"][0] + vectors
    for drop in (None, Changed()):
        g = h if drop is None else drop(h)
        for i in range(2):
            layer = twin(p, i).double()
            if drop is not None:
                layer.dropout = layer.dropout1 = layer.dropout2 = drop
            g = layer(g)
        expected = g.mean(1) @ p["head.w"][0] + p["head.b"][0]
        assert (sizes.logits(p, injected, x, drop)[0] - expected).abs().max() < 1e-5


def twin(p, i):
    wide = p[f"{i}.wide.w"].shape[2]
    layer = torch.nn.TransformerEncoderLayer(16, 2, wide, dropout=0.0, batch_first=True)
    pairs = {"self_attn.in_proj_weight": p[f"{i}.qkv.w"][0].T}
    pairs["self_attn.in_proj_bias"] = torch.zeros(48)
    for name, own in (("self_attn.out_proj", "out"), ("linear1", "wide"), ("linear2", "narrow")):
        pairs[f"{name}.weight"] = p[f"{i}.{own}.w"][0].T
        pairs[f"{name}.bias"] = p[f"{i}.{own}.b"][0, 0]
    for n in (1, 2):
        pairs[f"norm{n}.weight"] = p[f"{i}.norm{n}.gain"][0, 0, 0]
        pairs[f"norm{n}.bias"] = p[f"{i}.norm{n}.shift"][0, 0, 0]
    layer.load_state_dict(pairs)
    return layer


@pytest.mark.parametrize(
    ("options", "named"),
    [
        *(({"d": 10, "heads": 4}, "--heads 4"), ({"d": 12, "heads": 4}, "--heads 4")),
        *(({"layers": 0}, "--layers"), ({"ffn": 0}, "--ffn")),
        *(({"inject": "multiply"}, "--inject"), ({"patch": 3}, "--patch 3")),
        *(({"patch": 9, "stride": 1}, "--patch 9"), ({"patch": 4, "stride": 0}, "--stride")),
        *(({"patch": patch, "stride": 3}, "starting every 3") for patch in (2, 4)),
    ],
)
def test_sizes_that_cannot_be_are_refused(options, named):
    with pytest.raises(PefourierError, match=named):
        model.Transformer(8, 2, 2, **options)


def test_the_order_free_model_is_its_definition_and_drops_before_its_head(rng):
    sizes = model.OrderFree(8, 2, 2, 4)
    p = {k: v[None] for k, v in model.draw_parameters(sizes.shapes(), 0).items()}
    x = torch.as_tensor(rng.normal(size=(1, 3, 8, 2)))
    x0 = x[0].numpy()
    facts = np.hstack([x0.mean(1), x0.std(1), x0.min(1), x0.max(1)])
    w = {k: v[0].numpy() for k, v in p.items()}
    h = 2 * np.maximum(facts @ w["project.w"] + w["project.b"], 0) - 1
    expected = h @ w["head.w"] + w["head.b"]
    assert (sizes.logits(p, {}, x) - sizes.logits(p, {}, x.flip(2))).abs().max() < 1e-12
    np.testing.assert_allclose(sizes.logits(p, {}, x, Changed())[0], expected, atol=1e-12)
