"""One gate for every array read: plain numbers of known width, and no more than the file bears."""

import re
import tracemalloc
import zipfile

import numpy as np
import pytest
from safetensors.numpy import save_file
from stored import HEADER, npy_bytes, put

from pefourier.encodings.sources.formats import Stored
from pefourier.encodings.sources.tables import open_arrays, read_numbers
from pefourier.errors import PefourierError

NOT_PLAIN = {"O": "object", "M8[s]": "datetime64[s]", "c16": "complex128", "i4,f8": "void96"}


@pytest.mark.parametrize(("descr", "kind"), NOT_PLAIN.items())
@pytest.mark.parametrize("text", [False, True])
def test_what_is_not_plain_never_passes_the_gate(descr, kind, text):
    def untouched():
        raise AssertionError("the array was read before it was looked at")

    stored = Stored((3,), np.dtype(descr).name, 8, 24, untouched, untouched)
    with pytest.raises(PefourierError, match=re.escape(kind)):
        stored.load("x", "a", text=text, mapping=True)


def test_text_of_a_fixed_width_is_for_labels_alone():
    np.savez(
        "x.npz", y=np.array(["a", "bc"]), z=np.array([b"a", b"b"]), swapped=np.array(["é"], ">U1")
    )
    with open_arrays("x.npz") as file:
        assert file.load("y", text=True).tolist() == ["a", "bc"]
        assert file.load("z", text=True).tolist() == [b"a", b"b"]
        assert file.load("swapped", text=True).tolist() == ["é"]
        with pytest.raises(PefourierError, match="str64"):
            file.load("y")


@pytest.mark.parametrize("code", [0x110000, 2**31, 0xD800, 0xDFFF])
def test_text_is_unicode(code):
    """numpy raises a SystemError where such text is looked at, and files take no surrogates."""
    header = HEADER.replace(b"'<f8'", b"'<U1'").replace(b"(5, 3)", b"(2,)")
    put("x.npy", npy_bytes(header, np.array([65, code], "<u4").tobytes()))
    with open_arrays("x.npy") as file, pytest.raises(PefourierError, match=r"'x\.npy'"):
        file.load("", text=True)


def test_an_archive_that_holds_more_than_it_says_is_not_unpacked():
    with zipfile.ZipFile("x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("a.npy", "w") as member:
            member.write(npy_bytes(HEADER.replace(b"(5, 3)", b"(1000,)")))
            for _ in range(20):
                member.write(bytes(8 * 10**6))
    with open("x.npz", "rb") as stream:
        content = stream.read()
    end = content.rindex(b"PK\1\2") + 24
    put("x.npz", content[:end] + (8128).to_bytes(4, "little") + content[end + 4 :])
    tracemalloc.start()
    with pytest.raises(PefourierError, match="CRC"):
        read_numbers("x.npz")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * 10**7


def test_a_row_of_numbers_is_no_longer_than_positions_may_be():
    np.lib.format.open_memmap("x.npy", "w+", np.float32, (2**26 + 1,)).flush()
    with pytest.raises(PefourierError, match=f" {2**29 + 8}"):
        read_numbers("x.npy")


def test_a_list_without_numbers_is_refused():
    save_file({"x": np.zeros(0, np.float32)}, "x.safetensors")
    with pytest.raises(PefourierError, match=r"x\.safetensors"):
        read_numbers("x.safetensors")


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_an_array_that_ends_early_is_said(suffix):
    (np.save if suffix == "npy" else np.savez)(f"x.{suffix}", np.ones((10_000, 9)))
    with open_arrays(f"x.{suffix}") as file:
        put(f"x.{suffix}", b"")  # somebody empties it meanwhile
        with pytest.raises(PefourierError, match=f"'x.{suffix}'"):
            file.load(*file.arrays)
