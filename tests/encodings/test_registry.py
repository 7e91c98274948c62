"""One function adds an encoding; tests/helpers/reference.py and the laws then need its row."""

import re
from dataclasses import replace

import numpy as np
import pytest
from reference import ROWS

from pefourier.encodings import build, load, loader
from pefourier.encodings.encoding import (
    Encoding,
    Measure,
    from_table,
    positions,
)
from pefourier.encodings.loader import source_of
from pefourier.encodings.registry import BUILDERS, encoding, largest_at_ends
from pefourier.errors import PefourierError
from pefourier.train.options import Options


@pytest.fixture
def sawtooth():
    """Register an encoding as a file of a family would add it."""

    @encoding("sawtooth", "a test, 2024")
    def sawtooth(length: int, d: int, *, period: int = 8, scale: float = 1.0) -> Encoding:
        """Teeth.

        s mod `period`.

        Parameters
        ----------
        period, scale : number
            Of each
            tooth.
        """

        def vectors(x: np.ndarray) -> np.ndarray:
            return np.repeat(scale * (np.asarray(x)[:, None] % period), d, axis=1)

        return Encoding("sawtooth", positions(length), d, vectors)

    yield BUILDERS["sawtooth"]
    del BUILDERS["sawtooth"]


@pytest.mark.usefixtures("sawtooth")
def test_one_function_is_listed_loaded_and_assessed(run):
    listed = next(record for record in loader.records() if record["encoding"] == "sawtooth")
    own = {"length": 80, "d": 256, "period": 8, "scale": 1.0}
    assert (listed["params"], listed["domain"], listed["measure"]) == (own, "position", "estimated")
    assert (listed["meaning"], listed["formula"]) == ("Teeth.", "s mod period.")
    assert listed["meanings"] == dict.fromkeys(("period", "scale"), "Of each tooth.")
    enc = load("sawtooth:period=4", 6, 2, scale=0.5)
    assert enc.params == {"length": 6, "d": 2, "period": 4, "scale": 0.5}
    assert (enc.origin, enc.untrained, enc.is_stationary) == ("formula", False, False)
    np.testing.assert_array_equal(enc.table()[:, 0], [0, 0.5, 1, 1.5, 0, 0.5])
    (result,) = run("check-faithful", "sawtooth:period=4", "-S", 6, "--d", 2, "--json").results
    assert (result["verdict"], result["distinct"]) == ("collides", 4)
    assert BUILDERS.keys() ^ ROWS.keys() == {"sawtooth"}  # the first law that a new encoding breaks


MEANT = {"rotary:rho=5e5": "rope:rho=5e5", "NoPE": "none", "one-hot": "onehot"}
MEANT |= {"yarn:factor=4,original=64": "rope:scaling=yarn,factor=4,original=64"}


@pytest.mark.parametrize(("typed", "meant"), MEANT.items())
def test_common_names_are_aliases(typed, meant):
    assert source_of(typed) == "name"
    assert load(typed, 9, 8).spec == load(typed, 9, 8).label == meant
    np.testing.assert_array_equal(load(typed, 9, 8).table(), load(meant, 9, 8).table())
    assert Options(encoding=(typed,)).encoding == (meant,)


@pytest.mark.parametrize("name", ["LSTM", "cnn", "path", "selective-rope", "drope", "hope", "TAPE"])
def test_a_name_without_vectors_is_refused_by_each_door(name):
    for ask in (load, build):
        with pytest.raises(PefourierError) as raised:
            ask(name)
        assert not re.search("Did you mean", str(raised.value))


@pytest.mark.parametrize("odd", ["sine", "d+1", "zero"])
def test_an_odd_d_is_filled_as_reported(odd):
    """An odd d ends in a sine alone, in a sine of d + 1 columns, or in a column of zeros."""
    table, s = load(f"sinusoidal:odd={odd}", 9, 5).table(), np.arange(9)
    over = {"sine": 5, "d+1": 6, "zero": 4}[odd]
    phases = [s * 10000.0 ** (-2 * i / over) for i in range(3)]
    last = 0 * s if odd == "zero" else np.sin(phases[2])
    waves = [wave(phase) for phase in phases[:2] for wave in (np.sin, np.cos)]
    np.testing.assert_allclose(table, np.transpose([*waves, last]), atol=1e-14)
    fairseq = load("sinusoidal:divisor=d/2-1", 9, 6).measure.frequencies
    np.testing.assert_allclose(fairseq, 1e4 ** -np.linspace(0, 1, 3), rtol=1e-14)


def test_the_largest_number_of_sinusoids_is_the_largest_amplitude():
    waves = Measure(np.array([0.1, 0.2]), np.array([0.1, 0.9]), squared_length=10.0)
    enc = replace(from_table(np.eye(4)), measure=waves)
    assert largest_at_ends(enc) == pytest.approx(3.0)
