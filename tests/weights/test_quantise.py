"""Errors of rounded keys equal those of drawn, rotated and rounded keys, and of plain loops."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import CONFIG, random_tensors, write_model

from pefourier.weights.pair_energy import LayerShares, pair_rows
from pefourier.weights.quantise import (
    Rotation,
    quantisation_errors,
    spared_pairs,
)

pytestmark = pytest.mark.usefixtures("folder")
LENGTH, D = 512, 64
OMEGA = 1e4 ** -(np.arange(D // 2) / (D // 2))
ROWS = pair_rows(D // 2, "halves")
TURN = Rotation(None, np.arange(D // 2), ROWS, OMEGA, LENGTH)
SIZES = {"token": D, "group of 64": 64, "group of 32": 32}
PLANTED = {
    "none": {},
    "fast": {2: 12.0},
    "slow": {30: 12.0},
    "several": {3: 4.0, 30: 20.0, 33: 6.0, 60: 8.0},
    "massive": {62: 40.0},
}


def layer_of(q, k, layer=0):
    return LayerShares(layer, 0, len(k), None, None, None, rows=(q, k))


def planted_rows(rng, planted, heads=(2, 1)):
    q, k = (np.exp(rng.normal(0, 0.5, size=(n, D))) for n in heads)
    k[:, list(planted)] = np.square(list(planted.values()))
    return q, k


def rotated(x, places):
    """Rotate vectors (n, d) at their positions."""
    angles = places[:, None] * OMEGA
    a, b = x[:, ROWS[0]], x[:, ROWS[1]]
    out = np.empty_like(x)
    out[:, ROWS[0]] = a * np.cos(angles) - b * np.sin(angles)
    out[:, ROWS[1]] = a * np.sin(angles) + b * np.cos(angles)
    return out


def rounded(x, record):
    """Round keys (tokens, d) by a scheme."""
    if record.scheme.startswith("fp8"):
        kind = getattr(torch, f"float8_{record.scheme[4:]}{'fn' * ('e4m3' in record.scheme)}")
        scale = np.abs(x).max() / torch.finfo(kind).max
        return torch.tensor(x / scale).to(kind).double().numpy() * scale
    if record.granularity == "channel":
        return in_steps(x, record, 0)
    size = SIZES[record.granularity]
    return np.concatenate(
        [in_steps(x[:, i : i + size], record, 1) for i in range(0, D, size)], axis=1
    )


def in_steps(x, record, axis):
    if record.zero_point:
        low = x.min(axis=axis, keepdims=True)
        step = (x.max(axis=axis, keepdims=True) - low) / (2**record.bits - 1)
        return np.round((x - low) / step) * step + low
    step = np.abs(x).max(axis=axis, keepdims=True) / (2 ** (record.bits - 1) - 1)
    return np.round(x / step) * step


def by_simulation(rng, q, k, records, draws, exact=()):
    """Yield relative errors of the scores of all keys with all queries, at random positions."""
    places = np.tile(np.arange(LENGTH), draws)
    keys = rng.normal(size=(len(places), D)) * np.sqrt(k)
    queries = rng.normal(size=(len(places), D)) * np.sqrt(q)
    queries = rotated(queries, rng.integers(LENGTH, size=len(places)))
    second, after = queries.T @ queries, rotated(keys, places)
    whole, kept = np.vdot(after @ second, after), ~np.isin(np.arange(D), exact)
    for record in records:
        for is_after, stored in enumerate((keys, after)):
            errors = [rounded(x, record) - x for x in np.split(stored * kept, draws)]
            errors = np.concatenate(errors)
            errors = errors if is_after else rotated(errors, places)
            yield record, is_after, np.sqrt(np.vdot(errors @ second, errors) / whole)


LONG = pytest.mark.long


@pytest.mark.parametrize(
    ("name", "draws"), [("several", 16), *(pytest.param(n, 60, marks=LONG) for n in PLANTED)]
)
def test_every_scheme_costs_what_drawn_keys_lose(rng, name, draws):
    q, k = planted_rows(rng, PLANTED[name])
    records = list(quantisation_errors([layer_of(q[:1], k)], TURN))
    assert len(records) == 18
    for record, is_after, drawn in by_simulation(rng, q[0], k[0], records, draws):
        found = record.after if is_after else record.before
        assert found == pytest.approx(drawn, rel=0.05), (record.scheme, record.granularity)


def test_totals_are_those_of_layers_pairs_and_rows(rng):
    """Totals equal sums by plain loops over heads."""
    layers = [layer_of(*planted_rows(rng, {5: 9.0}, (4, 2)), layer=n) for n in (3, 7)]
    for record in quantisation_errors(layers, TURN):
        assert [e.layer for e in record.layers] == [3, 7]
        assert record.after**2 == pytest.approx(sum(e.after**2 for e in record.layers) / 2)
        assert record.before**2 == pytest.approx(sum(e.before**2 for e in record.layers) / 2)
        assert record.after**2 == pytest.approx(sum(record.by_pair**2))


def many_layers(rng, planted, heads=(8, 4)):
    return [layer_of(*planted_rows(rng, planted, heads), layer=n) for n in range(6)]


@pytest.mark.parametrize("planted", [{2: 12.0}, {34: 12.0}, {7: 20.0, 30: 20.0}])
def test_planted_channels_are_named_and_sparing_them_halves_the_error_of_drawn_keys(rng, planted):
    layers = many_layers(rng, planted)
    spared = spared_pairs(layers, TURN)
    assert set(spared.pairs) == {i % 32 for i in planted}
    assert spared.rows == tuple((i, i + 32) for i in spared.pairs)
    assert spared.halved
    int4 = [e for e in quantisation_errors(layers, TURN) if (e.bits, e.granularity) == (4, "token")]
    heads = [(q[h], k[h // 2]) for q, k in (layer.rows for layer in layers[:2]) for h in (0, 6)]
    whole, left = (
        [list(by_simulation(rng, *head, int4[:1], 2, rows))[1][2] for head in heads]
        for rows in ((), np.ravel(spared.rows))
    )
    assert np.square(left).sum() < np.square(whole).sum() / 4
    assert spared.ratio * int4[0].after == pytest.approx(np.sqrt(np.mean(np.square(left))), rel=0.1)


def test_errors_spread_evenly_name_no_pair(rng):
    spared = spared_pairs(many_layers(rng, {}), TURN)
    assert not spared.halved
    assert spared.ratio > 0.8
    assert spared.searched == 8


def test_a_channel_of_one_head_is_not_named(rng):
    """A channel of one head is not named, because the median head lacks it."""
    layers = many_layers(rng, {}, (8, 8))
    layers[2].rows[1][3, 9] *= 400
    assert 9 not in spared_pairs(layers, TURN).pairs


def loud(seed=0):
    """Return tensors whose keys have a loud channel in every head: row 1 of 8."""
    tensors = random_tensors(CONFIG | {"num_hidden_layers": 4}, seed)
    for name, array in tensors.items():
        if "k_proj" in name:
            array.reshape(-1, 8, array.shape[1])[:, 1] *= 25
    return tensors


def test_the_command_reports_errors_and_pairs(run):
    path = write_model(Path("m"), loud(), num_hidden_layers=4)
    (record,) = run("usage", path, "--json").results
    found = {(e["scheme"], e["granularity"], e["zero_point"]): e for e in record["quantisation"]}
    assert len(found) == 18
    int4 = found["int4", "token", False]
    assert len(int4["layers"]) == len(int4["by_pair"]) == 4
    (spare,) = record["spare"]
    assert (spare["pairs"], spare["rows"], spare["halved"]) == ([1], [[1, 5]], True)
    assert "pair 1 (rows 1, 5)" in record["action"]
    assert "usage-rounded-keys" in {f["code"] for f in record["findings"]}
    assert run("usage", path, "--csv").status == 0


def test_means_of_pairs_have_errors_after_rotation_alone(run):
    """Means of pairs have errors after rotation only, and none without keys or for MLA."""
    write_model(Path("m"))
    means = {
        f"layer00_head0{h}.{part}_abs_mean": np.arange(1.0, 5.0)
        for part, heads in (("q", 4), ("k", 2))
        for h in range(heads)
    }
    np.savez("means.npz", **means)
    (record,) = run("usage", "m/config.json", "--stats", "means.npz", "--json").results
    assert {e["before"] for e in record["quantisation"]} == {None}
    assert all(e["after"] > 0 for e in record["quantisation"])
    np.savez("q.npz", **{name: row for name, row in means.items() if ".q_" in name})
    (record,) = run("usage", "m/config.json", "--stats", "q.npz", "--json").results
    assert (record["quantisation"], record["spare"]) == ([], [])


def test_each_type_of_layer_has_its_own_errors(run):
    types = {"layer_types": ["sliding_attention", "full_attention"]}
    path = write_model(Path("m"), model_type="gemma3_text", **types)
    (record,) = run("usage", path, "--json").results
    names = {e["rotation"] for e in record["quantisation"]}
    assert len(names) == 2
    assert [one["rotation"] for one in record["spare"]] == sorted(names, reverse=True)
    assert len(record["quantisation"]) == 36
    assert run("usage", path, "--plot", "u.png").status == 0
