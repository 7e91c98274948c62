"""Files of encode equal the arrays of models and engines; golden rows detect wrong engines."""

import json
from pathlib import Path

import mpmath
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from published_configs import PUBLISHED, sized
from rotary_modules import config_class, quiet, rotary_classes
from safetensors.torch import load_file

import pefourier
from pefourier.encodings import load
from pefourier.questions.encode import DIGITS, tolerances, write_golden, write_numbers

LLAMA3 = PUBLISHED["meta-llama/Llama-3.1-8B"]["rope_scaling"] | {"rope_theta": 5e5}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
BY_LAYER = {
    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
}
SIZES = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}
GEMMA = {"rope_parameters": BY_LAYER, "layer_types": list(BY_LAYER), "head_dim": 32}
DEEPSEEK = {**YARN, "mscale": 1.0, "mscale_all_dim": 0.7, "rope_theta": 1e4}
MODELS = [  # model type, config, layer type, positions, layout if not that of its module
    ("llama", {"rope_parameters": LLAMA3, "head_dim": 64}, "", 5000, None),
    ("gpt_neox", {"rotary_pct": 0.25, "hidden_size": 256}, "", 300, None),
    ("cohere", {"rope_parameters": {"rope_type": "default", "rope_theta": 75e5}}, "", 99, None),
    ("deepseek_v3", {"rope_parameters": DEEPSEEK, "qk_rope_head_dim": 64}, "", 400, "half"),
    *(("gemma3_text", GEMMA, layer, 400, None) for layer in BY_LAYER),
]


def allowed(frequencies, n, dtype, largest=1.0):
    """Return the tolerance of each pair at positions 0 … n - 1, from a golden file."""
    limits = tolerances(largest)[dtype]
    angles = np.arange(n)[:, None] * np.abs(frequencies)
    steps = np.arange(2, len(frequencies) + 2)
    return limits["absolute"] + limits["per_radian"] * steps * angles


def written_array(folder, spec, what, layout=None, dtype="float64", **sizes):
    """Write an array and read it with torch."""
    enc = load(spec, **sizes)
    path = str(folder / "x.safetensors")
    write_numbers(enc, enc.domain.x, path, what, layout, dtype)
    (array,) = load_file(path).values()
    return array


@pytest.mark.parametrize(("kind", "values", "layer", "n", "layout"), MODELS)
def test_it_writes_what_transformers_computes(kind, values, layer, n, layout, written, tmp_path):
    values = {**SIZES, **values}
    config = config_class(kind)(**values)
    (cls,) = rotary_classes(config)
    with quiet():
        module = cls(config)
    places = torch.arange(n)[None]
    waves = module(torch.zeros(1), places, *([layer] if layer else []))
    spec = written({"model_type": kind, **values}) + (f"#{layer}" if layer else "")
    frequencies = written_array(tmp_path, spec, "inv_freq", length=n).numpy()
    inv_freq = getattr(module, f"{layer}_inv_freq" if layer else "inv_freq").numpy()
    assert_allclose(frequencies, inv_freq, rtol=2e-6)
    factor = float(load(spec, n).params["attention_factor"])
    limits = allowed(frequencies, n, "float32", factor)
    for what, expected in zip(("cos", "sin"), waves, strict=True):
        found = written_array(tmp_path, spec, what, layout, "float32", length=n)
        doubled = np.repeat(limits, 2, 1) if kind == "cohere" else np.hstack([limits, limits])
        assert found.dtype == expected.dtype == torch.float32
        assert found.shape == expected[0].shape
        assert (np.abs((found - expected[0]).numpy()) <= doubled).all()


def powers(d, base):
    """Return inverse frequencies in float32, as engines compute them."""
    return 1.0 / (base ** (torch.arange(0, d, 2, dtype=torch.float) / d))


def by_powers(p, base, d, kind=torch.float32):
    return (p.to(kind)[:, None] * powers(d, base).to(kind)).float()


def vllm_cache(angles):
    """Return cos_sin_cache of vllm/model_executor/layers/rotary_embedding: cosines, then sines."""
    return torch.cat((angles.cos(), angles.sin()), dim=-1)


def torchtune_cache(angles):
    """Return the cache of torchtune/modules/position_embeddings.py: (n, d/2, 2)."""
    return torch.stack([angles.cos(), angles.sin()], dim=-1)


def freqs_cis(angles):
    """Return freqs_cis of Meta's llama/model.py: complex64 (n, d/2)."""
    return torch.polar(torch.ones_like(angles), angles)


@pytest.mark.parametrize("pairs", ["halves", "interleaved"])
@pytest.mark.parametrize(
    ("engine", "what", "layout"),
    [
        (vllm_cache, "cos-sin", "half"),
        (torchtune_cache, "cos-sin", "interleaved"),
        (freqs_cis, "complex", None),
    ],
)
def test_it_writes_what_engines_cache(engine, what, layout, pairs, tmp_path):
    d, base, n = 32, 5e5, 700
    expected = engine(by_powers(torch.arange(n), base, d))
    spec = f"rope:rho={base},layout={pairs}"
    found = written_array(tmp_path, spec, what, layout, "float32", length=n, d=d)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    limits = allowed(powers(d, base).numpy(), n, "float32")
    error = np.abs((found - expected).numpy()).reshape(n, -1)
    columns = {vllm_cache: np.hstack([limits, limits]), torchtune_cache: np.repeat(limits, 2, 1)}
    assert (error <= columns.get(engine, np.sqrt(2) * limits)).all()


def test_numbers_are_rounded_once(tmp_path):
    exact = load("rope", 300, 16).table()
    narrow = {"float32": np.float32, "float16": np.float16}
    for suffix in ("npy", "npz", "csv", "safetensors"):
        for dtype, kind in narrow.items():
            path = tmp_path / f"x.{suffix}"
            enc = load("rope", 300, 16)
            write_numbers(enc, enc.domain.x, str(path), "vectors", None, dtype)
            assert_array_equal(load(str(path)).table(), exact.astype(kind))
    stored = written_array(tmp_path, "rope", "vectors", None, "bfloat16", length=300, d=16)
    assert stored.dtype == torch.bfloat16
    by_torch = torch.tensor(exact).to(torch.bfloat16).double().numpy()
    assert (np.abs(stored.double().numpy() - exact) <= np.abs(by_torch - exact)).all()


def test_python_gives_the_same_arrays(run, tmp_path):
    cosines = pefourier.encode("rope", d=8, length=9, what="cos")
    assert_array_equal(cosines[:, :4], cosines[:, 4:])
    turns = pefourier.encode("rope:layout=interleaved", [3], d=8, what="cos")
    assert_array_equal(turns, np.repeat(cosines[3:4, :4], 2, axis=1))
    frequencies, path = pefourier.encode("rope:rho=500", d=8, what="inv_freq"), tmp_path / "f.csv"
    assert run("encode rope:rho=500 --d 8 --what inv_freq --out", path).status == 0
    again = pefourier.encode(f"rope:inv_freq={path}", length=9)
    assert_array_equal(again, pefourier.encode("rope:rho=500", d=8, length=9))
    assert_array_equal(frequencies, np.loadtxt(path))


@pytest.mark.usefixtures("folder")
def test_a_number_that_does_not_fit_leaves_the_file_as_it_was(run, refused, monkeypatch):
    monkeypatch.setattr("pefourier.encodings.sources.tables.AT_ONCE", 64)
    table = np.ones((64, 4))
    for number in (1e6, 1e-6):
        table[60] = number
        np.save("table.npy", table)
        Path("x.npy").write_bytes(b"before")
        assert f"{number:.3g}" in refused("encode table.npy --dtype float16 --out x.npy")
        assert Path("x.npy").read_bytes() == b"before"
        assert len(list(Path().iterdir())) == 2
        assert run("encode table.npy --dtype float32 --out y.npy").status == 0
        assert_array_equal(np.load("y.npy"), table.astype(np.float32))
        Path("y.npy").unlink()


def golden(tmp_path, spec, **sizes):
    """Write a golden file and return its path and entries."""
    path = tmp_path / "golden.json"
    write_golden(load(spec, **sizes), None, str(path))
    return path, json.loads(path.read_text())


def test_golden_rows_are_the_formula_in_many_digits(written, tmp_path):
    path = written(sized("llama", 64, 4, 32768, head_dim=64, rope_theta=5e5))
    _, found = golden(tmp_path, path)
    places = [0, 1, 2, 3, 17, 255, 256, 1023, 4095, 4096, 32767]
    assert [row["position"] for row in found["rows"]] == places
    limits = found["tolerance"]["float64"]
    with mpmath.workdps(40):
        for row in found["rows"]:
            for i in range(32):
                angle = row["position"] * mpmath.mpf(500000) ** (mpmath.mpf(-2 * i) / 64)
                most = limits["absolute"] + limits["per_radian"] * (i + 2) * angle
                assert abs(row["cos"][i] - mpmath.cos(angle)) <= most
                assert abs(row["sin"][i] - mpmath.sin(angle)) <= most


def by_products(p, base, d):
    """Return angles as llama.cpp computes them in ggml_rope_cache_init: theta *= theta_scale."""
    theta, scale = p.float(), torch.tensor(base).float() ** (-2.0 / d)
    angles = []
    for _ in range(d // 2):
        angles.append(theta)
        theta = theta * scale
    return torch.stack(angles, 1)


RIGHT = [by_powers, by_products]
WRONG = {
    "positions in bfloat16": lambda p, base, d: by_powers(p, base, d, torch.bfloat16),
    "another base": lambda p, _, d: by_powers(p, 10000.0, d),
    "positions from 1": lambda p, base, d: by_powers(p + 1, base, d),
}


@pytest.mark.parametrize("dtype", DIGITS)
@pytest.mark.parametrize("d", [64, 96, 128])
def test_golden_tolerances_pass_right_engines_and_fail_wrong_ones(dtype, d, tmp_path):
    base = 5e5
    _, found = golden(tmp_path, f"rope:rho={base}", d=d, length=131072)
    places = torch.tensor([row["position"] for row in found["rows"]])
    expected = np.array([row["cos"] + row["sin"] for row in found["rows"]])
    limits = found["tolerance"][dtype]
    angles = places.numpy()[:, None] * np.array(found["inv_freq"])
    most = limits["absolute"] + limits["per_radian"] * np.arange(2, d // 2 + 2) * angles

    def misses(engine):
        angles = engine(places, base, d)
        waves = torch.cat([angles.cos(), angles.sin()], 1).to(getattr(torch, dtype))
        return (np.abs(waves.double().numpy() - expected) > np.tile(most, 2)).sum()

    if dtype != "float64":  # no engine computes in float64
        assert [misses(engine) for engine in RIGHT] == [0, 0]
    for engine in WRONG.values():
        assert misses(engine) > 10


def test_numbers_are_printed(run, ask):
    table = pefourier.encode("rope", [3, 5], d=16)
    done = run("encode rope --d 16 --pos 3,5 --out -")
    assert_array_equal(np.loadtxt(done.out.splitlines(), delimiter=","), table)
    shown = ask("encode rope --d 16 --pos 3,5")
    assert (shown["verdict"], shown["numbers"], shown["out"]) == ("shown", table.tolist(), None)
    waves = ask("encode rope --d 32 --what inv_freq")
    assert waves["numbers"] == pefourier.encode("rope", d=32, what="inv_freq")[:8].tolist()
