"""One function adds an encoding; its row in tests/reference.py and the laws wait for it."""

import re

import numpy as np
import pytest
from reference import ROWS
from refusal import refused

from pefourier.encodings import build, load, specs
from pefourier.encodings.domain import positions
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.registry import BUILDERS, encoding
from pefourier.encodings.specs import source_of
from pefourier.errors import PefourierError
from pefourier.report.catalogue import find_records
from pefourier.train.options import Options


@pytest.fixture
def sawtooth():
    """An encoding as a file of a family would add it."""

    @encoding("sawtooth", "a test, 2024")
    def sawtooth(length: int, d: int, *, period: int = 8, scale: float = 1.0) -> Encoding:
        def codes(x: np.ndarray) -> np.ndarray:
            return np.repeat(scale * (np.asarray(x)[:, None] % period), d, axis=1)

        return Encoding("sawtooth", positions(length), d, codes)

    yield BUILDERS["sawtooth"]
    del BUILDERS["sawtooth"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("rotary", "rope"),
        ("rotary:rho=5e5", "rope:rho=5e5"),
        ("NoPE", "none"),
        ("one-hot", "onehot"),
        *((name, f"rope:scaling={name}") for name in ("yarn", "ntk", "longrope", "dynamic")),
        ("yarn:factor=4,original=64", "rope:scaling=yarn,factor=4,original=64"),
    ],
)
def test_a_name_people_type_is_what_it_stands_for(typed, meant):
    assert source_of(typed) == "name"
    if "scaling" in meant and ":" not in typed:
        with pytest.raises(PefourierError, match=r"needs (factor|original|short)"):
            load(typed)
        return
    assert load(typed, 9, 8).spec == load(typed, 9, 8).label == meant
    np.testing.assert_array_equal(load(typed, 9, 8).table(), load(meant, 9, 8).table())
    assert Options(encoding=(typed,)).encoding == (meant,)
    assert find_records(typed.partition(":")[0])[0]["encoding"] == meant.partition(":")[0]


@pytest.mark.parametrize("name", ["rnn", "LSTM", "gru", "convolution", "cnn"])
def test_what_depends_on_tokens_is_refused_by_name(name):
    for ask in (load, build, find_records):
        with pytest.raises(PefourierError, match=r"depends on tokens.*\brecurrent\b"):
            ask(name)


@pytest.mark.parametrize("name", ["nopes", "rnns", "nine", "tone", "cnns", "nnoe"])
def test_no_positions_are_suggested_to_nobody_who_asks_for_some(name):
    for ask in (load, build, find_records):
        with pytest.raises(PefourierError) as raised:
            ask(name)
        assert not re.search("mean '(none|rope)'", str(raised.value))


def test_a_ramp_that_is_not_normalised_counts():
    table = load("ramp:normalise=false", 5, 3).table()
    np.testing.assert_array_equal(table, np.repeat(np.arange(5.0)[:, None], 3, axis=1))
    assert load("ramp", 5, 3).table().max() == 1


def test_one_function_is_listed_loaded_and_assessed(sawtooth, run):
    listed = next(record for record in specs.records() if record["encoding"] == "sawtooth")
    assert listed == {
        "encoding": "sawtooth",
        "spec": "sawtooth",
        "params": {"length": 80, "d": 256, "period": 8, "scale": 1.0},
        "family": "test_registry",
        "domain": "position",
        "measure": "estimated",
        "paper": "a test, 2024",
        "untrained": False,
        "meaning": "",
        "formula": "",
        "meanings": {},
        "example": "",
    }
    enc = load("sawtooth:period=4", 6, 2, scale=0.5)
    assert enc.params == {"length": 6, "d": 2, "period": 4, "scale": 0.5}
    assert (enc.origin, enc.untrained, enc.stationary) == ("formula", False, False)
    np.testing.assert_array_equal(enc.table()[:, 0], [0, 0.5, 1, 1.5, 0, 0.5])
    (result,) = run("check-faithful", "sawtooth:period=4", "-S", 6, "--d", 2, "--json").results
    assert (result["verdict"], result["distinct"]) == ("collides", 4)
    assert run("spectrum", "sawtooth", "--d", 4).status == 0
    nearest = "unknown encoding 'sawtoth'. Did you mean 'sawtooth'? 'pefourier list' shows all; "
    formats = "a file of codes ends in one of .bin, .ckpt, .csv, .npy, .npz, .pt, .pth, "
    refused(nearest + formats + ".safetensors, .txt.", "sawtoth")
    refused("sawtooth:period must be a whole number up to 2^53; got '1.5'", "sawtooth:period=1.5")


@pytest.mark.parametrize("name", sorted(BUILDERS))
def test_the_d_that_is_told_is_how_wide_the_table_is(name):
    enc = load(name, length=6, d=64)
    assert enc.params["d"] == enc.dim == enc.table().shape[-1]


def test_an_encoding_without_a_reference_row_is_seen(sawtooth):
    assert BUILDERS.keys() ^ ROWS.keys() == {"sawtooth"}  # what the first of the laws looks at


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("path", "depends on tokens and has no table of codes: PaTH"),
        ("selective-rope", "depends on tokens"),
        ("CARoPE", "depends on tokens"),
        ("cope", "depends on tokens"),
        ("dape", "depends on tokens"),
        ("FoX", "depends on tokens"),
        ("hope", "name of several encodings, which.*2410.21216.*2505.20444 and 2509.05218"),
        ("TAPE", "name of several encodings, which.*2501.00712"),
        ("drope", "name none for what is left"),
        ("SWAN", "none in global layers, between layers with a window"),
        ("Kairos", "depends on tokens"),
    ],
)
def test_names_that_are_known_and_have_no_codes_are_refused_with_the_reason(name, said):
    for call in (lambda: load(name, 8, 8), lambda: build(name, length=8, d=8)):
        with pytest.raises(PefourierError, match=said):
            call()
    assert load("tape", 8, 8).name == "tape"
