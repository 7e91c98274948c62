"""Biases of attention scores equal golden numbers, formulas written out, and public source code."""

import math

import numpy as np
import pytest

from pefourier.encodings import load
from pefourier.encodings.families.relative import linear_layers, network, silu
from pefourier.errors import PefourierError


def test_dpb_is_the_module_of_torch_with_its_weights():
    torch = pytest.importorskip("torch")
    layers = linear_layers(4, (1, 5, 5, 3))
    modules = []
    for weights, shifts in layers:
        linear = torch.nn.Linear(*weights.shape, dtype=torch.float64)
        linear.weight.data, linear.bias.data = torch.tensor(weights.T), torch.tensor(shifts)
        modules += [linear, torch.nn.SiLU()]
    x = np.linspace(-9, 9, 7)[:, None]
    expected = torch.nn.Sequential(*modules[:-1])(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(network(x, layers, silu), expected, atol=1e-13)


def test_fire_is_a_bias_of_lags_up_to_its_threshold():
    at, beyond = (load("fire:threshold=5", n, 3) for n in (6, 7))
    assert (not at.by_lag, not beyond.by_lag) == (False, True)
    lag = np.arange(6) - np.arange(6)[:, None]
    of_lags = np.moveaxis(at.table()[lag + 5], -1, 0)
    np.testing.assert_allclose(beyond.bias[:, :6, :6], of_lags, atol=1e-14)
    with pytest.raises(PefourierError, match="depend on more than the lag"):
        beyond.table()
    pairs = beyond.table_of_pairs()
    np.testing.assert_array_equal(pairs[7 * 2 + 5], beyond.bias[:, 2, 5])


def test_fire_is_the_public_source_code_with_its_weights():
    """The matrix equals DAPE's FIRE with threshold L, computed by torch's functions."""
    torch = pytest.importorskip("torch")
    n, heads, c, threshold = 30, 3, 0.1, 12.0
    layers = linear_layers(1, (1, 32, heads))
    linear = [torch.nn.Linear(*w.shape, dtype=torch.float64) for w, _ in layers]
    for module, (weights, shifts) in zip(linear, layers, strict=True):
        module.weight.data, module.bias.data = torch.tensor(weights.T), torch.tensor(shifts)
    position = torch.arange(n, dtype=torch.float64)
    distance = torch.tril(position[:, None] - position)
    divisor = torch.maximum(distance.max(dim=-1)[0], torch.tensor(threshold))[:, None]
    share = torch.log(torch.abs(c * distance) + 1) / (torch.log(torch.abs(c * divisor) + 1) + 1e-6)
    mlp = torch.nn.Sequential(linear[0], torch.nn.ReLU(), linear[1])
    expected = mlp(share[..., None]).permute(2, 0, 1).detach().numpy()
    bias = load("fire:threshold=12,seed=1,causal=true", n, heads).bias
    lower = np.tri(n, dtype=bool)
    np.testing.assert_allclose(bias[:, lower], expected[:, lower], atol=1e-13)
    assert np.isneginf(bias[:, ~lower]).all()


GATES = np.array([0.9, 0.5, 0.8, 0.99])


def test_fox_adds_logarithms_of_gates_between_key_and_query():
    gates = np.random.default_rng(0).uniform(0.1, 1, (3, 7))
    bias = load("fox", gates=gates).bias
    for head, i, j in np.ndindex(3, 7, 7):
        expected = sum(math.log(gates[head, t]) for t in range(j + 1, i + 1))
        assert bias[head, i, j] == pytest.approx(expected if j <= i else -math.inf)
    assert load("fox", gates=GATES).bias[0, 3, 0] == pytest.approx(-0.92634107, abs=5e-9)
    assert load("fox", gates=GATES).bias[0, 2, 0] == pytest.approx(math.log(0.4))
    assert load("fox", gates=GATES).bias[0, 1, 1] == 0


@pytest.mark.parametrize("gate", [0.9, 0.5, 1.0])
def test_a_constant_gate_is_alibi_with_its_slope(gate):
    enc = load("fox", gates=np.full(12, gate))
    assert enc.by_lag
    np.testing.assert_allclose(enc.table()[:, 0], -math.log(gate) * np.arange(-11, 1), atol=1e-14)
    plain, alibi = load("fox", 12, 4), load("alibi:causal=true", 12, 4)
    np.testing.assert_array_equal(plain.table(), alibi.table())
    assert [note.code for note in plain.findings] == ["gates-default"]
    assert not enc.findings


def test_gates_set_the_length_and_a_shorter_one_takes_the_first(tmp_path):
    np.save(tmp_path / "f.npy", np.vstack([GATES, GATES**2]))
    enc = load(f"fox:gates={tmp_path / 'f.npy'}")
    assert (enc.tokens, enc.dim, enc.params["length"], enc.params["d"]) == (4, 2, 4, 2)
    short = load("fox", 3, gates=str(tmp_path / "f.npy"))
    np.testing.assert_array_equal(short.bias, enc.bias[:, :3, :3])


REFUSED = [
    ({"gates": np.array([0.5, 0.0])}, None, "above 0 and up to 1.*0 to 0.5"),
    ({"gates": np.array([0.5, 1.5])}, None, "to 1.5"),
    ({"gates": np.array([0.5, np.nan])}, None, "nan"),
    ({"gates": np.ones((3, 2))}, None, "number of heads"),
    ({"gates": GATES}, 5, "at least 5"),
]


@pytest.mark.parametrize(("params", "length", "named"), REFUSED)
def test_gates_out_of_range_are_refused(params, length, named):
    with pytest.raises(PefourierError, match=named):
        load("fox", length, **params)
