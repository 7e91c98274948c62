"""Rotations in GGUF files as llama.cpp's converters write them."""

import sys

import numpy as np
import pytest

from pefourier.encodings import load
from pefourier.errors import PefourierError


def llama3_factors():
    """What llama.cpp's converter computes for Llama 3.1: base over scaled frequencies."""
    plain, scaled = (
        load(spec, 8, 128).measure.frequencies
        for spec in ("rope:rho=5e5", "rope:rho=5e5,scaling=llama3,factor=8,original=8192")
    )
    return (plain / scaled).astype(np.float32)


@pytest.fixture
def write(tmp_path):
    gguf = pytest.importorskip("gguf")

    def written(tensors=(), arch="llama", **values):
        path = str(tmp_path / "model.gguf")
        writer = gguf.GGUFWriter(path, arch)
        for key, value in values.items():
            key = f"{arch}.{key.replace('__', '.')}"
            kinds = {str: writer.add_string, float: writer.add_float32, int: writer.add_uint32}
            kinds[type(value)](key, value)
        for name, tensor in dict(tensors).items():
            writer.add_tensor(name, tensor)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return written


SIZES = {"context_length": 131072, "embedding_length": 4096, "attention__head_count": 32}
SIZES |= {"rope__dimension_count": 128, "rope__freq_base": 500000.0}


def test_factors_are_those_of_the_scaling_they_were_made_from(write):
    path = write({"rope_freqs.weight": llama3_factors()}, **SIZES)
    enc = load(path)
    assert (len(enc), enc.params["d"], enc.params["scaling"]) == (131072, 128, "factors")
    scaled = load("rope:rho=5e5,scaling=llama3,factor=8,original=8192", 8, 128).measure.frequencies
    np.testing.assert_allclose(enc.measure.frequencies, scaled, rtol=1e-6)
    assert [f.code for f in enc.findings] == ["gguf-unsaid"]


@pytest.mark.parametrize(
    ("values", "spec"),
    [
        ({}, "rope:rho=5e5"),
        (
            {"rope__scaling__type": "linear", "rope__scaling__factor": 4.0},
            "rope:rho=5e5,scaling=linear,factor=4",
        ),
        (
            {
                **{"rope__scaling__type": "yarn", "rope__scaling__factor": 4.0},
                "rope__scaling__original_context_length": 32768,
            },
            "rope:rho=5e5,scaling=yarn,factor=4,original=32768",
        ),
        ({"rope__dimension_count": 64}, "rope:rho=5e5,partial=.5"),
        ({"attention__key_length": 256, "rope__dimension_count": 256}, "rope:rho=5e5,d=256"),
    ],
)
def test_metadata_set_the_rotation_of_the_same_config(write, values, spec):
    own, other = load(write(**{**SIZES, **values})), load(spec, 131072, 128)
    np.testing.assert_allclose(own.measure.frequencies, other.measure.frequencies, rtol=1e-12)
    assert own.params["attention_factor"] == pytest.approx(other.params["attention_factor"])


def test_two_lists_are_longrope(write):
    short, long = np.ones(64, np.float32), np.linspace(1, 8, 64, dtype=np.float32)
    lists = {"rope_factors_short.weight": short, "rope_factors_long.weight": long}
    values = {**SIZES, "rope__scaling__original_context_length": 4096}
    path = write(lists, arch="phi3", **values)
    plain = load("rope:rho=5e5", 8, 128).measure.frequencies
    np.testing.assert_allclose(load(path).measure.frequencies, plain / long, rtol=1e-7)
    np.testing.assert_allclose(load(path, 4096).measure.frequencies, plain, rtol=1e-7)


def test_context_takes_a_gguf_file(write, run):
    path = write({"rope_freqs.weight": llama3_factors()}, **SIZES)
    (result,) = run("context", path, "--trained", "8k", "--json").results
    (rotation,) = result["rotations"]
    assert [(b["class"], b["pairs"]) for b in rotation["bands"]] == [
        ("kept", 29),
        ("blended", 6),
        ("stretched", 29),
    ]
    assert (result["length"], rotation["bound"], result["spec"]) == (131072, 85133, path)


def test_what_a_file_does_not_set_is_refused(write):
    with pytest.raises(PefourierError, match="sets no rotation: it has neither "):
        load(write(arch="bert", context_length=512))
    with pytest.raises(PefourierError, match="a scaling of type 'yarn' with rope_freqs"):
        load(
            write(
                {"rope_freqs.weight": np.ones(64, np.float32)}, **SIZES, rope__scaling__type="yarn"
            )
        )
    with pytest.raises(PefourierError, match="factors needs 64 numbers, one per rotated pair"):
        load(write({"rope_freqs.weight": np.ones(8, np.float32)}, **SIZES))
    path = write({"rope_freqs.weight": llama3_factors()}, **SIZES)
    with pytest.raises(PefourierError, match="holds factors, by which frequencies are divided"):
        load(f"rope:inv_freq={path}#rope_freqs.weight", 8)


def test_a_damaged_file_is_refused_in_a_line(tmp_path):
    pytest.importorskip("gguf")
    for data in (b"", b"GGUF", b"GGUF" + bytes(40), b"\xff" * 99):
        (tmp_path / "bad.gguf").write_bytes(data)
        with pytest.raises(PefourierError, match=r"bad\.gguf' is not a readable \.gguf file: "):
            load(str(tmp_path / "bad.gguf"))


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    message = "^'m.gguf' is read by the package gguf, which is not installed; pip install gguf$"
    with pytest.raises(PefourierError, match=message):
        load("m.gguf")
