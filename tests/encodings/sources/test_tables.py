"""Tables in files: choice of the array, sources, accepted shapes and memory limits."""

import io
import os
import struct
import subprocess
import sys
import threading
import time
import tracemalloc
import zipfile
from contextlib import contextmanager, suppress
from itertools import repeat
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from stored import HEADER, TABLE, npy_bytes, put, refused

from pefourier.encodings import encoding, load
from pefourier.encodings.sources import tables
from pefourier.encodings.sources.tables import open_arrays, read_table, write_table
from pefourier.errors import PefourierError

SINGLE_AXES = {  # (1, n, d), (n, 1, d), (1, 1, n, d), (1, n, 1, d), (n, 1, 1, d), (1, 1, n, 1, d)
    key: np.expand_dims(TABLE, axes)
    for key, axes in enumerate([0, 1, (0, 1), (0, 2), (1, 2), (0, 1, 3)])
}


def test_single_axes_are_dropped():
    arrays = {f"x{key}": array for key, array in SINGLE_AXES.items()}
    np.savez("x.npz", **arrays, fortran=np.asfortranarray(TABLE[None]))
    torch.save({name: torch.tensor(array) for name, array in arrays.items()}, "x.pt")
    save_file({name: array.copy() for name, array in arrays.items()}, "x.safetensors")
    for path in ("x.npz", "x.pt", "x.safetensors"):
        for key in arrays:
            np.testing.assert_array_equal(read_table(path, key)[0], TABLE)
    np.testing.assert_array_equal(read_table("x.npz", "fortran")[0], TABLE)


@pytest.mark.parametrize("key", SINGLE_AXES)
def test_axes_beside_a_batch_are_named_where_they_are_dropped(key):
    np.save("x.npy", SINGLE_AXES[key])
    vectors = [finding.code for finding in load("x.npy").findings]
    assert vectors == ["single-axes"] * (SINGLE_AXES[key].ndim > 3 or key == 1)


NO_TABLES = [np.zeros(shape) for shape in ((), (0, 3), (0, 3, 2), (2, 3, 4), (2, 3, 1))]
NO_TABLES += [np.zeros((2, 2), kind) for kind in (complex, "U3", "M8[s]", [("a", "f4")])]
NO_TABLES += [np.array([[None] * 90] * 90)]


@pytest.mark.parametrize("array", NO_TABLES, ids=lambda x: f"{x.shape} {x.dtype}")
def test_arrays_that_are_no_tables(array):
    np.save("x.npy", array)
    refused("x.npy")
    np.savez("x.npz", odd=array, vectors=TABLE)
    np.testing.assert_array_equal(read_table("x.npz")[0], TABLE)


def test_which_array_is_meant():
    np.savez("x.npz", wpx=TABLE, wte=TABLE[:2])
    refused("x.npz")
    np.savez("x.npz", wpe=TABLE, wte=TABLE[:2], bias=TABLE[0])
    assert "'wpe'?" in refused("x.npz", "wpx")
    np.savez("y.npz", a=TABLE[0], b=TABLE[1])
    refused("y.npz")
    np.save("x.npy", TABLE)
    refused("x.npy", "wpe")
    torch.save({f"{i}": torch.zeros(1, 2) for i in range(12)}, "x.pt")
    reported = refused("x.pt")
    assert [f"'{i}'" in reported for i in range(12)] == [True] * 10 + [False] * 2


def bomb(shape, parts):
    """Return a small archive with an array header of this shape and `parts` x 8 MB of zeros."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("codes.npy", "w") as member:
            member.write(npy_bytes(HEADER.replace(b"5, 3", shape)))
            for _ in range(parts):
                member.write(bytes(8 * 10**6))
    return stream.getvalue()


@contextmanager
def memory_below(most):
    tracemalloc.start()
    yield
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < most


def test_bombs_are_refused_before_they_expand():
    """A shape in a header is compared with the bytes in the file before memory is allocated."""
    put("x.npz", bomb(b"45000, 1000", 45))
    torch.save(torch.ones(1).expand(10**6, 10**6), "x.pt")
    with memory_below(2**20):
        assert "360000000" in refused("x.npz")
        assert "4000000000000" in refused("x.pt")
        for dtype, size in {"i1": 1, ">f4": 4}.items():
            np.lib.format.open_memmap("x.npy", "w+", dtype, (2**17, 2**15)).flush()
            assert str(2**32 * max(size, 8 // size)) in refused("x.npy")


HEADS = {  # the first bytes of sparse files of 2 GiB
    **dict.fromkeys(("x.pt", "x.npz", "x.csv", "x.npy", "x.gguf", "x.json", "x.safetensors"), b""),
    "old.pt": b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.",
    "long.safetensors": (9 * 10**7).to_bytes(8, "little"),
    "ints.npy": npy_bytes(HEADER.replace(b"<f8", b"|i1").replace(b"5, 3", b"65536, 32764")),
    "many.npy": npy_bytes(HEADER.replace(b"<f8", b"<f2").replace(b"5, 3", b"32768, 32769")),
    "texts.gguf": b"GGUF" + struct.pack("<IQQQcIIQ", 3, 0, 1, 1, b"a", 9, 8, 2**22 + 1),
}


@pytest.mark.parametrize("name", HEADS)
def test_sparse_files_are_refused_by_their_headers(name):
    put(name, HEADS[name])
    os.truncate(name, 2**31 + 2**20)
    before = time.process_time()
    with memory_below(2e8), pytest.raises(PefourierError):
        load(name)
    assert time.process_time() - before < 1


def fed(content, *arguments):
    """Return the output of a process that reads `content` from standard input."""
    code = (
        "import sys; from pefourier.encodings.sources.tables import *\n"
        "try: print(*read_table(*sys.argv[1:])[0].ravel().tolist())\n"
        "except PefourierError as error: print(error)"
    )
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    root = str(Path(tables.__file__).parents[3])
    env = {"PYTHONPATH": root}
    run = subprocess.run(command, input=content, capture_output=True, env=env, check=False)
    assert run.stderr == b""
    return run.stdout.decode().strip()


def test_standard_input():
    stream = io.BytesIO()
    np.save(stream, np.arange(4.0).reshape(2, 2))
    assert fed(stream.getvalue(), "-") == "0.0 1.0 2.0 3.0"
    assert fed(stream.getvalue(), "/dev/stdin") == "0.0 1.0 2.0 3.0"
    assert fed(b"x,y\n1,2\n", "-") == "1.0 2.0"
    for content, key in ((b"", ""), (b"PK\3\4\0\0", ""), (b"1,2", "a")):
        assert fed(content, "-", *filter(None, [key])).startswith("standard input ")


@contextmanager
def fifo(path, parts):
    """Make a pipe that a thread writes to while it is read."""
    os.mkfifo(path)

    def write():
        with suppress(BrokenPipeError), Path(path).open("wb") as stream:
            stream.writelines(parts)

    thread = threading.Thread(target=write)
    thread.start()
    yield
    thread.join()


@pytest.mark.parametrize("suffix", [".npy", ".csv", ""])
def test_pipes_are_read(suffix):
    stream = io.BytesIO()
    np.save(stream, TABLE)
    with fifo(f"pipe{suffix}", [stream.getvalue()]):
        np.testing.assert_array_equal(read_table(f"pipe{suffix}")[0], TABLE)


def test_an_endless_pipe_is_given_up(monkeypatch):
    monkeypatch.setattr(tables, "MEMORY", 2**20)
    with fifo("pipe", repeat(b"1,2\n" * 10**5)):
        assert "131072" in refused("pipe")


@pytest.mark.parametrize(
    ("content", "size", "named"),
    [
        (b"1,2\n", 2**27, "line 2 has more than"),
        (b"", 2**27, "line 1 has more than"),
        (b"1," * 2**21 + b"1\n", 2**22 + 2, "line 1 has more than"),
        *((b"", size, "1073741824") for size in (2**30 + 1, 40 * 2**30)),
    ],
    ids=range(5),
)
def test_a_csv_file_has_an_end(content, size, named):
    put("x.csv", content)
    os.truncate("x.csv", size)
    assert named in refused("x.csv")


def test_a_file_whose_name_has_the_sign_of_an_array():
    """A SPEC with # refers to the longest existing path, and written files read back."""
    for name in ("x#y.npy", "x#y.npz", "a.npz", "a.npz#codes.npy"):
        write_table(name, TABLE[: len(name)])
    for spec, (path, key) in {
        "x#y.npy": ("x#y.npy", None),
        "x#y.npz": ("x#y.npz", None),
        "x#y.npz#codes": ("x#y.npz", "codes"),
        "a.npz#codes": ("a.npz", "codes"),
        "a.npz#": ("a.npz", None),
        "a.npz#codes.npy": ("a.npz#codes.npy", None),
    }.items():
        enc = load(spec)
        assert (enc.params["path"], enc.params["array"], enc.spec) == (path, key, spec)
        np.testing.assert_array_equal(enc.table(), TABLE)
    for spec in ("b.npz#codes", "x#z.npy", "#.npy", "a.npz#\0.npy"):
        with pytest.raises(PefourierError):
            load(spec)


@pytest.mark.parametrize("code", [0x110000, 2**31, 0xD800, 0xDFFF])
def test_text_is_unicode(code):
    """Text with surrogates is refused, where numpy raises a SystemError."""
    header = HEADER.replace(b"'<f8'", b"'<U1'").replace(b"(5, 3)", b"(2,)")
    put("x.npy", npy_bytes(header, np.array([65, code], "<u4").tobytes()))
    with open_arrays("x.npy") as file, pytest.raises(PefourierError, match=r"'x\.npy'"):
        file.load("", text=True)


LARGE = np.random.default_rng(1).normal(size=(4000, 33)).astype(np.float32)
SHORTER = "became shorter while it was read; write it again$"


@pytest.fixture
def everything_is_large(monkeypatch):
    monkeypatch.setattr(tables, "SUSPECT", 0)


@pytest.mark.usefixtures("everything_is_large")
@pytest.mark.parametrize("copied", [0, 2**26])
def test_rows_of_a_mapped_file_are_those_of_its_table(copied, monkeypatch):
    monkeypatch.setattr(encoding, "COPIED", copied)
    np.save("x.npy", LARGE)
    enc = load("x.npy")
    for x in ([5, 2, 2, 3999], [7, 8, 9], [0], range(4000)):
        found = enc.vectors(np.array(x))
        np.testing.assert_array_equal(found, LARGE[list(x)])


@pytest.mark.usefixtures("everything_is_large")
def test_a_file_that_becomes_shorter_is_stated(monkeypatch):
    np.save("x.npy", LARGE)
    enc = load("x.npy")
    os.truncate("x.npy", 999)
    for ask in (enc.table, lambda: list(enc.blocks()), lambda: enc.vectors(np.array([3]))):
        with pytest.raises(PefourierError, match=SHORTER):
            ask()
    np.save("x.npy", LARGE)
    enc = load("x.npy")
    monkeypatch.setattr(np, "array", lambda _part: os.truncate("x.npy", 999))  # meanwhile
    with pytest.raises(PefourierError, match=SHORTER):
        enc.table()
