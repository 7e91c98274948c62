"""The Python functions of the questions: accepted arguments, errors, and equal commands."""

import inspect
import json
import re
import warnings

import numpy as np
import pytest
import torch
from refusals import refusal
from scipy.sparse import csr_matrix

import pefourier
from pefourier.encodings import load
from pefourier.encodings.registry import build
from pefourier.nn import PositionalEncoding

TABLE = build("learned", length=12, d=6).table()


@pytest.mark.parametrize(
    "source",
    [
        TABLE,
        TABLE.tolist(),
        torch.tensor(TABLE),
        load("learned", 12, 6),
        torch.nn.Embedding.from_pretrained(torch.tensor(TABLE)),
        PositionalEncoding("learned", 6, 12, dtype=torch.float64),
        lambda _length, _d: TABLE,
    ],
)
def test_every_source_of_a_table_is_accepted(source):
    given = {"length": 12, "d": 6} if inspect.isfunction(source) else {}
    assert np.array_equal(pefourier.encode(source, **given), TABLE)


ANGLES = np.outer(np.arange(12.0), [1, 0.3, 0.1])
TURNS = np.exp(1j * ANGLES)  # unit complex numbers, as some rotary implementations store them
PAIRS = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=-1).reshape(12, 6)
OF_ONE = {
    "spectrum": pefourier.spectrum,
    "reconstruct": lambda source: pefourier.reconstruct(source, [3]),
    "check": pefourier.check,
    "relations": pefourier.relations,
    "resize": lambda source: pefourier.resize(source, (4, 6), grid=(3, 4)),
    "compare": lambda source: pefourier.compare(source, PAIRS),
}


@pytest.mark.parametrize("ask", OF_ONE.values(), ids=OF_ONE)
def test_complex_numbers_are_pairs_to_every_question(ask):
    tensor = torch.tensor(TURNS.conj()).conj()  # a lazy conjugate: marked, but not yet computed
    first, *others = (
        json.dumps(ask(source).to_dict()).replace("Tensor", "ndarray")
        for source in (PAIRS, TURNS, tensor)
    )
    assert others == [first, first]


@pytest.mark.parametrize("shape", [(12, 6), (1, 12, 6), (12, 1, 6), (12, 3, 2)])
def test_axes_are_read_as_those_of_a_file(shape, tmp_path):
    """Axes of length 1 are dropped, and a last axis of 2 becomes pairs of cosine and sine."""
    np.save(tmp_path / "x.npy", PAIRS.reshape(shape))
    for source in (PAIRS.reshape(shape), torch.tensor(PAIRS).reshape(shape), tmp_path / "x.npy"):
        assert np.array_equal(pefourier.encode(source), PAIRS)
        assert np.array_equal(pefourier.encode(source, [3, 1]), PAIRS[[3, 1]])


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_separate_cosines_and_sines_have_no_column_order(layout, tmp_path):
    """Complex numbers, a last axis of two, and separate arrays in a file are read as pairs.

    Axes of length 1 are dropped.
    """
    z = np.exp(1j * np.outer(np.arange(40.0), 1e4 ** -(np.arange(4) / 4))).astype("c8")
    twice = np.concatenate([z, z], axis=1)
    torch.save({"freqs_cis": torch.tensor(z.conj()).conj()}, tmp_path / "z.pt")
    np.save(tmp_path / "z.npy", z)
    np.save(tmp_path / "two.npy", np.stack([z.real, z.imag], axis=-1))
    np.savez(tmp_path / "apart.npz", sin=z.imag, cos=z.real)
    np.savez(tmp_path / "twice.npz", sin_cached=twice.imag, cos_cached=twice.real)
    np.savez(tmp_path / "single.npz", sin=z.imag[None, :, None], cos=z.real[None, :, None])
    names = ["z.pt", "z.npy", "two.npy", "apart.npz", *["twice.npz"] * (layout == "halves")]
    names += ["single.npz"]
    for source in (z, *(tmp_path / name for name in names)):
        assert pefourier.compare(f"rope:layout={layout},d=8", source).same
        assert not pefourier.compare(f"rope:rho=9e3,layout={layout},d=8", source).same


def test_a_last_axis_of_two_without_sinusoids_is_refused(tmp_path):
    np.savez(tmp_path / "x.npz", cos=TABLE, sin=TABLE)
    with refusal(r"holds several tables, 'cos' \(12, 6\), 'sin'"):
        pefourier.check(tmp_path / "x.npz")


with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)  # such nested tensors are in beta
    NOT_PLAIN = {
        "masked": np.ma.masked_greater(TABLE, 0),
        "a sparse array": csr_matrix(TABLE),
        "a sparse tensor": torch.eye(3).to_sparse(),
        "on meta": torch.ones(4, 2, device="meta"),
        "nested": torch.nested.nested_tensor([torch.eye(3), torch.eye(2)]),
        "ragged": [[1.0, 2.0], [3.0]],
    }


@pytest.mark.parametrize("what", NOT_PLAIN)
def test_incomplete_arrays_are_refused(what):
    for ask in OF_ONE.values():
        with refusal("numbers"):
            ask(NOT_PLAIN[what])


FOREIGN = "has no effect on ndarray (12, 6)"
REFUSED = [
    (lambda: pefourier.check("rope", rhoo=3), "unknown parameter of rope 'rhoo'. Did you mean"),
    (lambda: pefourier.check(TABLE, length=5), f"length=5 {FOREIGN}"),
    (lambda: pefourier.check(TABLE, rho=5.0), f"rho=5.0 {FOREIGN}"),
    (lambda: pefourier.check(np.zeros(3)), "a table must have two axes"),
    (lambda: pefourier.check(TABLE.reshape(12, 3, 2)), "a table must have two axes"),
    (lambda: pefourier.check("rope", length="1x"), "length must be a whole number; got '1x'"),
    (lambda: pefourier.check("rope", rho="1e4"), "rho must be a finite number above"),
    (lambda: pefourier.design(80, "d"), "d must be a whole number; got 'd'"),
    (lambda: pefourier.context(TABLE), "context takes a model's config.json or folder, or"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_arguments_without_effect_are_refused(call, message):
    with refusal(f"^{re.escape(message)}"):
        call()


@pytest.mark.parametrize(
    "ask",
    [
        lambda n, d: pefourier.spectrum("rope", lattice=n, d=d),
        lambda n, d: pefourier.reconstruct("dft", length=n, lattice=n, d=d),
        lambda n, d: pefourier.context("rope", length=n, trained=d, d=d),
        lambda _n, d: pefourier.design((4, 8), d, criteria=["turns"])[0],
        lambda n, d: tuple(map(tuple, pefourier.encode("rope", length=n, d=d)[:2])),
    ],
)
def test_numbers_may_be_typed_as_in_the_shell(ask):
    short, long = ask("1k", "+64"), ask(1024, 64)
    assert getattr(short, "conclusion", short) == getattr(long, "conclusion", long)


def test_a_grid_is_given_as_the_shell_takes_it(rng):
    """A grid may be given as text such as 4x5 or as a tuple."""
    table = rng.normal(size=(21, 8))
    for ask in (
        lambda old, _new: pefourier.check("axial", grid=old, d=16),
        lambda old, new: pefourier.resize(table, new, grid=old, prefix=1),
    ):
        assert ask("4x5", "6x7").to_dict() == ask((4, 5), (6, 7)).to_dict()
    named = pefourier.reconstruct("axial", [(1, 2)], d=8, grid=(3, 4))
    assert named.reconstructions[0].position == (1, 2)


def test_a_list_of_encodings_is_answered_one_by_one():
    sources = ["dft", load("rope", 9, 8), lambda length, d: 2 * np.eye(length, d)]
    for question in (pefourier.check, pefourier.spectrum, pefourier.relations):
        answers = question(sources, length=9, d=8)
        alone = [question(source, length=9, d=8) for source in sources]
        assert [a.to_dict() for a in answers] == [a.to_dict() for a in alone]
    assert pefourier.check([[1, 0], [0, 1]]).length == 2  # a table
