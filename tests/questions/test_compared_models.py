"""Comparisons of models: layers, windows, factors, axes of images, dumps and functions."""

import tracemalloc

import numpy as np
import pytest
import torch
from findings import codes
from published_configs import sized
from stored import gguf_bytes, llama_keys

import pefourier
from pefourier.encodings import load
from pefourier.encodings.encoding import axes_of_sections, from_table
from pefourier.questions.compare import compare

SMOLLM3 = sized("smollm3", 64, 4, 4096, num_hidden_layers=12, rope_theta=5e6)
QWEN2 = sized("qwen2", 64, 4, 4096, num_hidden_layers=8, rope_theta=1e6)
QWEN2 |= {"sliding_window": 512, "use_sliding_window": True, "max_window_layers": 4}
GEMMA3 = sized("gemma3_text", 64, 4, 4096, num_hidden_layers=12, head_dim=32, sliding_window=64)
LLAMA = sized("llama", 256, 4, 2048, num_hidden_layers=4, rope_theta=1e4)
CHANGES = [  # config, changed keys, the difference and its layers
    (SMOLLM3, {"no_rope_layers": [1] * 12}, "layers", [3, 7, 11]),
    (SMOLLM3, {"num_hidden_layers": 10}, "layers", [10, 11]),
    (QWEN2, {"max_window_layers": 6}, "windows", [4, 5]),
    (GEMMA3, {"sliding_window": 32}, "windows", [0, 1, 2, 3, 4, 6, 7, 8, 9, 10]),
    (GEMMA3, {"rope_local_base_freq": 2e4}, "rotations", [0, 1, 2, 3, 4, 6, 7, 8, 9, 10]),
]


@pytest.mark.parametrize(("values", "changes", "what", "index"), CHANGES)
def test_layers_that_differ_are_reported_by_number(values, changes, what, index, written, run, ask):
    """Two configs whose layers differ are different, and the layers are listed."""
    one, two = (written(own, f"{i}.json") for i, own in enumerate((values, values | changes)))
    for pair in ((one, two), (two, one)):
        record = ask("compare", *pair)
        assert (record["verdict"], record["same"]) == ("different", False)
        reported = [own["index"] for own in record["layers"] if own["what"] == what]
        assert sorted(i for one in reported for i in one) == index
        assert record["cause"]["misreadings"] != []
    done = run("compare", one, one, "--json")
    (record,) = done.results
    assert (done.status, record["same"], record["layers"]) == (0, True, [])
    assert record["compared"] == ["codes", "rotations", "layers", "windows", "factors"]


def test_a_key_that_nobody_reads_forbids_the_same(written):
    one = written(LLAMA, "one.json")
    two = written(LLAMA | {"partial_rotary_factor": 0.5}, "two.json")
    found = pefourier.compare(one, two)
    assert (found.verdict, found.same, len(found.unread)) == ("used differently", False, 1)
    assert "comparison-unread" in codes(found)


def token_ids(text, rows, columns, frames=1):
    """Return (frame, row, column) of the tokens of text, an image or a video, and text again."""
    start = np.repeat(np.arange(text)[:, None], 3, axis=1)
    image = text + np.indices((frames, rows, columns)).reshape(3, -1).T
    end = image.max() + 1 + np.repeat(np.arange(text)[:, None], 3, axis=1)
    return np.vstack([start, image, end])


def dumped(ids, axis, base):
    phases = ids[:, axis] * base ** (-np.arange(len(axis)) / len(axis))
    table = np.hstack([np.cos(phases), np.sin(phases)]).astype(np.float32)
    return from_table(table, eps=2.0**-23)


@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize(("rows", "columns", "frames"), [(4, 6, 1), (6, 3, 1), (3, 5, 4)])
def test_the_axis_of_each_pair_of_an_image_is_reported(rows, columns, frames, interleaved, written):
    kind = "qwen3_vl" if interleaved else "qwen2_vl"
    text = sized(f"{kind}_text", 1024, 8, 4096, rope_theta=5e6)
    scaling = {"rope_type": "default", "mrope_section": [24, 20, 20]}
    scaling |= {"mrope_interleaved": True} if interleaved else {}
    text |= {"num_hidden_layers": 2, "rope_scaling": scaling}
    meant = load(written({"model_type": kind, "text_config": text}))
    right, other = (
        axes_of_sections((24, 20, 20), way, 64) for way in (interleaved, not interleaved)
    )
    ids = token_ids(3, rows, columns, frames)
    assert compare(meant, dumped(ids, right, 5e6)).same
    swapped = np.array([0, 2, 1])[right]
    moved = np.where(np.arange(64) == 30, (right[30] + 1) % 3, right)
    for axis, code in ((other, "sections"), (swapped, "axes"), (moved, "axes")):
        for pair in ((meant, dumped(ids, axis, 5e6)), (dumped(ids, axis, 5e6), meant)):
            found = compare(*pair)
            assert (found.verdict, found.cause.misreadings) == ("different", (code,))
            assert [p.index for p in found.pairs] == np.flatnonzero(axis != right).tolist()
            assert all(p.ratio == pytest.approx(1) for p in found.pairs)


def by(base=1e4, order=None, first=0, step=1):
    """Return a function that rotates neighbouring columns of queries and keys, and orders them."""

    def rotate(x):
        n, d = x.shape[-2:]
        places, omega = first + step * torch.arange(n), base ** (-torch.arange(0, d, 2) / d)
        turns = torch.exp(1j * torch.outer(places.float(), omega))
        y = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * turns
        y = torch.view_as_real(y).flatten(-2)
        return y if order is None else y[..., order(d)]

    return lambda q, k: (rotate(q), rotate(k))


HALVES = {"order": lambda d: torch.arange(d).reshape(-1, 2).T.flatten()}
BACKWARDS = {"order": lambda d: torch.arange(d).flip(0)}


CODE = [
    ({}, {}, "the same", None),
    ({}, HALVES, "equivalent", "outputs-differ"),
    (HALVES, BACKWARDS, "equivalent", "outputs-differ"),
    ({}, {"first": 1}, "the same", "offset-shared"),  # the change leaves scores equal
    ({}, {"base": 5e5}, "different", "misread"),
    ({}, {"step": 2}, "different", "misread"),
    (HALVES, {"base": 5e5}, "different", None),
]


@pytest.mark.parametrize(("one", "two", "verdict", "code"), CODE)
def test_outputs_of_functions_are_compared(one, two, verdict, code):
    """The outputs of two functions are compared, not only their tables."""
    found = pefourier.compare(by(**one), by(**two), length=60, d=32)
    assert (found.verdict, found.same) == (verdict, verdict == "the same")
    assert found.same or not found.bitwise
    assert code is None or code in codes(found)
    if "order" in two and verdict == "equivalent":
        first, second = (own.get("order", torch.arange)(32) for own in (one, two))
        assert torch.equal(first[torch.tensor(found.transform["outputs"])], second)


def gguf_like(path, **changes):
    """Write a .gguf file as a converter writes it for LLAMA, with some keys changed."""
    path.write_bytes(gguf_bytes(llama_keys(256, 4, 4, 2048, **changes).items()))
    return str(path)


def test_a_file_without_a_base_or_with_the_layout_of_a_converter(written, tmp_path):
    config = written(LLAMA | {"rope_theta": 5e5})
    lost = gguf_like(tmp_path / "lost.gguf", **{"rope.freq_base": None})
    found = pefourier.compare(config, lost)
    assert found.cause.misreadings == ("base",)  # neither layout nor scaling-type
    assert found.cause.changes == {"rho": (5e5, 1e4)}
    notes = [f.message for f in pefourier.context(lost).findings if f.code == "gguf-unsaid"]
    assert ["rope.freq_base" in message for message in notes] == [True]
    kept = gguf_like(tmp_path / "kept.gguf", **{"rope.freq_base": 5e5})
    assert pefourier.compare(config, kept).same
    assert [f for f in pefourier.context(kept).findings if f.code == "gguf-unsaid"] == []


def test_models_that_part_beyond_a_length_are_different_and_rotations_the_same(written, run):
    dynamic = LLAMA | {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}
    pair = written(dynamic, "one.json"), written(LLAMA, "two.json")
    found = pefourier.compare(*pair)
    assert (found.verdict, found.unit) == ("different", "pairs at 4096 positions")
    assert (found.differing, found.counted) == (31, 32)
    assert run("compare", *pair).status == 1
    found = pefourier.compare("rope:scaling=dynamic,factor=4,original=100,d=32", "rope:d=32")
    assert (found.verdict, "length-dependent" in codes(found)) == (
        "the same",
        True,
    )
    assert pefourier.compare(pair[0], pair[0]).same


@pytest.mark.parametrize("is_bool", [True, False])
@pytest.mark.parametrize("other", [(5, 5), (6, 0), (2, 0)])
def test_windows_of_masks_are_named(other, is_bool):
    lag = np.arange(24) - np.arange(24)[:, None]
    masks = [(lag >= -before) & (lag <= after) for before, after in ((5, 0), other)]
    pair = masks if is_bool else [np.where(mask, 0.0, -np.inf) for mask in masks]
    assert pefourier.compare(pair[0], pair[0]).same
    found = pefourier.compare(*pair)
    (cause,) = found.causes
    assert (found.verdict, cause.code) == ("different", "window")
    assert (cause.before, cause.after) == other


def test_wide_heads_take_the_memory_of_their_pairs():
    tracemalloc.start()
    found = pefourier.compare("rope:rho=5e5,d=4096", "rope:d=4096")
    other = pefourier.compare("rope:layout=interleaved,d=4096", "rope:d=4096")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found.verdict, other.verdict, other.operator.name) == (
        "different",
        "permuted",
        "neighbours-to-halves",
    )
    assert peak < 200 * 2**20
