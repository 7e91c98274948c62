"""One function adds an encoding; tests/helpers/reference.py and the laws then need its row."""

import re
from dataclasses import replace

import numpy as np
import pytest

from pefourier.encodings import build, load
from pefourier.encodings.loader import source_of
from pefourier.encodings.registry import BUILDERS, KNOWN
from pefourier.errors import PefourierError
from pefourier.train.options import Options

MEANT = {"rotary:rho=5e5": "rope:rho=5e5", "NoPE": "none", "one-hot": "onehot"}
MEANT |= {"yarn:factor=4,original=64": "rope:scaling=yarn,factor=4,original=64"}
MEANT |= {"T5": "t5", "ALiBi:causal=true": "alibi:causal=true"}


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


NEAR = {"sincos2d": "axial", "2-D sin-cos": "axial", "ViT": "axial", "2D-RoPE": "axial-rope"}


@pytest.mark.parametrize(("name", "meant"), NEAR.items())
def test_names_of_other_libraries_lead_to_an_encoding(name, meant, run):
    for command in ("spectrum", "list"):
        done = run(command, name)
        assert re.search(rf"\b{meant}\b", done.err or done.out)


def test_a_file_is_not_a_name_in_capitals(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "DFT").write_text("1,2")
    with pytest.raises(PefourierError, match="has no suffix"):
        load("DFT")


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


def test_an_encoding_of_another_module_is_listed_last(monkeypatch):
    own = replace(BUILDERS["none"], name="my-own", family="elsewhere")
    monkeypatch.setitem(KNOWN, "my-own", own)
    names = [*BUILDERS]
    assert (names[-1], len(names)) == ("my-own", len(BUILDERS))
