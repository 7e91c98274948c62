"""Tables in files: formats, choice of the array, sources, shapes, damage, memory limits."""

import io
import json
import os
import pickle
import struct
import subprocess
import sys
import threading
import time
import tracemalloc
import warnings
import zipfile
from contextlib import contextmanager, suppress
from itertools import repeat
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch
from numpy.testing import assert_array_equal
from refusals import refusal
from stored import HEADER, TABLE, npy_bytes, npz_file, put, refused, safetensors_bytes

from pefourier.encodings import encoding, load
from pefourier.encodings.sources import tables
from pefourier.encodings.sources.tables import read_table, write_table

SINGLE_AXES = {  # (1, n, d), (n, 1, d), (1, 1, n, d), (1, n, 1, d), (n, 1, 1, d), (1, 1, n, 1, d)
    key: np.expand_dims(TABLE, axes)
    for key, axes in enumerate([0, 1, (0, 1), (0, 2), (1, 2), (0, 1, 3)])
}


@pytest.mark.parametrize("key", SINGLE_AXES)
def test_axes_beside_a_batch_are_named_where_they_are_dropped(key):
    np.save("x.npy", SINGLE_AXES[key])
    enc = load("x.npy")
    assert_array_equal(enc.table(), TABLE)
    assert [finding.code for finding in enc.findings] == ["single-axes"] * (
        SINGLE_AXES[key].ndim > 3 or key == 1
    )


NO_TABLES = [np.zeros(shape) for shape in ((), (0, 3), (0, 3, 2), (2, 3, 4), (2, 3, 1))]
NO_TABLES += [np.zeros((2, 2), kind) for kind in (complex, "U3", "M8[s]", [("a", "f4")])]
NO_TABLES += [np.array([[None] * 90] * 90)]


@pytest.mark.parametrize("array", NO_TABLES, ids=lambda x: f"{x.shape} {x.dtype}")
def test_arrays_that_are_no_tables(array):
    np.save("x.npy", array)
    refused("x.npy")
    np.savez("x.npz", odd=array, vectors=TABLE)
    assert_array_equal(read_table("x.npz")[0], TABLE)


def test_which_array_is_meant():
    np.savez("x.npz", wpx=TABLE, wte=TABLE[:2])
    refused("x.npz")
    np.savez("x.npz", wpe=TABLE, wte=TABLE[:2], bias=TABLE[0])
    assert "'wpe'?" in refused("x.npz", "wpx")
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
    "many.npy": npy_bytes(HEADER.replace(b"<f8", b"<f2").replace(b"5, 3", b"32768, 32769")),
    "texts.gguf": b"GGUF" + struct.pack("<IQQQcIIQ", 3, 0, 1, 1, b"a", 9, 8, 2**22 + 1),
}


@pytest.mark.parametrize("name", HEADS)
def test_sparse_files_are_refused_by_their_headers(name):
    put(name, HEADS[name])
    os.truncate(name, 2**31 + 2**20)
    before = time.process_time()
    with memory_below(2e8), refusal():
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
        assert_array_equal(read_table(f"pipe{suffix}")[0], TABLE)


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
        assert_array_equal(enc.table(), TABLE)
    for spec in ("b.npz#codes", "x#z.npy", "#.npy", "a.npz#\0.npy"):
        with refusal():
            load(spec)


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
        assert_array_equal(found, LARGE[list(x)])


@pytest.mark.usefixtures("everything_is_large")
def test_a_file_that_becomes_shorter_is_stated(monkeypatch):
    np.save("x.npy", LARGE)
    enc = load("x.npy")
    os.truncate("x.npy", 999)
    for ask in (enc.table, lambda: list(enc.blocks()), lambda: enc.vectors(np.array([3]))):
        with refusal(SHORTER):
            ask()
    np.save("x.npy", LARGE)
    enc = load("x.npy")
    monkeypatch.setattr(np, "array", lambda _part: os.truncate("x.npy", 999))  # meanwhile
    with refusal(SHORTER):
        enc.table()


FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
FLOATS += [torch.float8_e4m3fn, torch.float8_e5m2]
EPS = {dtype: torch.finfo(dtype).eps for dtype in FLOATS}
EPS |= dict.fromkeys((torch.int8, torch.int64, torch.bool), 2**-52)


@pytest.mark.parametrize("suffix", tables.WRITERS)
def test_what_is_written_reads_back_exactly(suffix):
    extreme = np.array([[np.pi, -0.0, 5e-324], [1.7976931348623157e308, 1 / 3, 1e23]])
    write_table("x" + suffix, extreme.astype(">f8", order="F"))
    table, eps = read_table("x" + suffix)
    assert table.tobytes() == extreme.tobytes()
    assert (table.dtype, eps) == (np.float64, 2**-52)


def test_other_libraries_read_what_is_written():
    for suffix in tables.WRITERS:
        write_table("x" + suffix, TABLE)
    with np.load("x.npz") as archive:
        assert_array_equal(archive["codes"], TABLE)
    assert_array_equal(np.load("x.npy"), TABLE)
    assert_array_equal(np.loadtxt("x.csv", delimiter=","), TABLE)
    tensors = safetensors.torch.load_file("x.safetensors")
    assert_array_equal(tensors["codes"], TABLE)
    with Path("x.safetensors").open("rb") as stream:
        assert int.from_bytes(stream.read(8), "little") % 8 == 0  # aligned for fast mapping


@pytest.mark.parametrize("dtype", EPS, ids=str)
@pytest.mark.parametrize("form", ["pt", "safetensors"])
def test_torch_types_and_their_resolution(dtype, form):
    tensor = torch.from_numpy(TABLE * 100).to(dtype)
    if form == "safetensors":
        path, key = "x.safetensors", "pe"
        safetensors.torch.save_file({"pe": tensor, "ones": torch.ones(2, 2)}, path, {"by": "torch"})
    else:
        path, key = "x.pt", "model.pe"
        torch.save({"model": {"pe": tensor[None], "bias": tensor[0]}, "step": 3}, path)
    table, eps = read_table(path, key)
    wide = np.float32 if dtype.is_floating_point else np.float64
    kept = {torch.float64: np.float64, torch.float16: np.float16}
    assert (table.dtype, eps) == (kept.get(dtype, wide), EPS[dtype])
    assert_array_equal(table, tensor.double())


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16])
def test_every_bit_pattern_means_what_torch_says(dtype):
    bits = np.arange(2 ** (8 * dtype.itemsize), dtype=f"u{dtype.itemsize}")
    name = str(dtype).removeprefix("torch.")
    expected = torch.from_numpy(bits).view(dtype).float().numpy()
    assert_array_equal(tables.DECODERS[name](bits), expected)


def entry(shape=(2, 3), offsets=(0, 24)):
    return {"codes": {"dtype": "F32", "shape": shape, "data_offsets": offsets}}


@pytest.mark.parametrize("suffix", ["npy", "safetensors"])
def test_large_files_are_mapped_not_read(suffix):
    """A sparse file of 16 GiB opens on a small machine."""
    shape, size = (2**20, 2**12), 2**34
    if suffix == "npy":
        np.lib.format.open_memmap("x.npy", "w+", np.float32, shape).flush()
    else:
        put("x.safetensors", safetensors_bytes(entry(shape, (0, size))))
        os.truncate("x.safetensors", Path("x.safetensors").stat().st_size + size)
    table, _ = read_table("x." + suffix)
    assert table.shape == shape
    assert table[-1:, :3].tolist() == [[0] * 3]
    with Path("/proc/self/maps").open(errors="replace") as maps:
        assert f"{Path.cwd()}/x.{suffix}\n" in maps.read()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"1,2\n3,4", [[1, 2], [3, 4]]),
        (b"\xef\xbb\xbf1,2\r\n3,4\r\n\r\n", [[1, 2], [3, 4]]),
        (b"x,y\n1,2\n", [[1, 2]]),
        (b"# by R\n\n  \nx , y\n1 , 2 # here\n", [[1, 2]]),
        (b"0,1\n0.5,0.25\n", [[0.5, 0.25]]),  # pandas numbers the columns
        (b"0,1\n2,3\n", [[0, 1], [2, 3]]),
        (b"1\n2\n", [[1], [2]]),
        (b"1e400,-inf,+.5\n", [[np.inf, -np.inf, 0.5]]),
        (b"pos\n0\n1\n", [[0], [1]]),
    ],
)
def test_csv(content, expected):
    put("x.csv", content)
    assert_array_equal(read_table("x.csv")[0], expected)


PLACE = entry()["codes"]
TWICE = b'{"a":%b,"a":%b}' % ((json.dumps(PLACE).encode(),) * 2)
NO_HEADER = [b"[" * 10**5, b"{", b"1", [[1, {}]], {"codes": {}}, {"\ud800": PLACE}]
NO_HEADER += [{"a": PLACE | {"data_offsets": [0, 24, 24]}}]
SAFETENSORS = [safetensors_bytes(header, bytes(24)) for header in NO_HEADER]
SAFETENSORS += [
    b"",
    b"\xff" * 8,
    safetensors_bytes(b"\xef\xbb\xbf{}"),
    safetensors_bytes(entry(), bytes(23)),
    safetensors_bytes(entry(shape=(10**12, 3)), bytes(24)),
    safetensors_bytes(entry(shape=(-2, -3)), bytes(24)),
    safetensors_bytes(entry(offsets=(-24, 0)), bytes(24)),
    safetensors_bytes(TWICE, bytes(24)),  # the library accepts two equal tensors of one range
]
NPY = [
    b"",
    b"\x93NUMPY\1\0\x40",
    npy_bytes(HEADER, b"0" * 119),
    npy_bytes(HEADER.replace(b"(5, ", b"(1000000000000, ")),
    npy_bytes(HEADER.replace(b"5", b"-5"), bytes(24)),
    *(npy_bytes(HEADER.replace(b"5, 3", axes)) for axes in (b"1, " * 99, b"0, " + b"9" * 30)),
    npy_bytes(HEADER, bytes(120), version=b"\3\0", width=4),
    npy_bytes(b"__import__('os').system('false')"),
    *(npy_bytes(b"{'descr" + blank * 4900 + b"$") for blank in (b" ", b" \n", b"\t")),  # took 20 s
    npy_bytes(b"{'descr': " + 9000 * b"("),
]
CSV = [b"", b"x,y\n", b"x,y\n1,2\n3,four\n", b",0,1\n0,.5,.5\n", b",,\n1,2,3\n", b"1;2\n3;4\n"]
CSV += [b"1,2,\n", b"1,\x002\n", b"1_0,2\n", "１,2\n".encode(), b"1,2+1j\n", b"Index,x\n0,2\n1,2\n"]
CSV += [b"2024-01-01,2\n", b"1,2\n\n3\n", 9999 * b"1,2\n" + b"\xff,2\n"]
DAMAGED = {".npy": NPY, ".csv": CSV, ".safetensors": SAFETENSORS}


@pytest.mark.parametrize(
    ("suffix", "content"),
    [(suffix, content) for suffix, contents in DAMAGED.items() for content in contents],
    ids=lambda x: str(x)[:30],
)
def test_damaged_files_are_refused(suffix, content):
    put(f"x{suffix}", content)
    before = time.process_time()
    message = refused(f"x{suffix}")
    assert "is not a readable" in message
    assert message.endswith("commas") == (suffix == ".csv")
    assert time.process_time() - before < 1  # numpy's tokenizer once took 13 s for 9000 blanks
    if suffix == ".safetensors" and TWICE not in content:
        with pytest.raises(safetensors.SafetensorError):
            safetensors.safe_open("x.safetensors", framework="np")


class Attack:
    """A pickle that makes a folder if it is loaded."""

    def __reduce__(self):
        return os.mkdir, ("hacked",)


@pytest.mark.parametrize("legacy", [False, True])
def test_pickles_run_no_code(legacy):
    tree = {"codes": torch.ones(2, 2), "x": Attack()}
    torch.save(tree, "x.pt", _use_new_zipfile_serialization=not legacy)
    put("y.pth", pickle.dumps(Attack()))
    np.save("x.npy", np.array([[Attack()]]))
    for path in ("x.pt", "y.pth", "x.npy"):
        refused(path)
    assert not Path("hacked").exists()


def test_odd_tensors():
    vectors = torch.nn.Parameter(torch.ones(2, 3).T)
    torch.save({"a": {"codes": vectors, 7: torch.ones(3)}, ("tuple",): torch.ones(2, 2)}, "x.pt")
    assert read_table("x.pt")[0].tolist() == [[1, 1]] * 3
    odd = {
        "sparse": torch.eye(3).to_sparse(),
        "meta": torch.ones(3, 2, device="meta"),
        "complex": torch.ones(2, 3, 2, dtype=torch.complex64).conj(),
    }
    torch.save({**odd, "table": torch.ones(2, 2), "k" * 1000: {"codes": vectors}}, "y.pt")
    for key in odd:
        refused("y.pt", key)
    assert read_table("y.pt")[0].tolist() == [[1, 1], [1, 1]]


def test_damaged_archives():
    whole = npz_file({"codes": TABLE})
    put("cut.npz", whole[:-40])
    put("zeros.npz", whole.replace(TABLE.tobytes(), bytes(120)))
    put("packed.npz", npz_file({"codes": TABLE}, zipfile.ZIP_BZIP2))  # may expand to gigabytes
    with zipfile.ZipFile("x.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/data.pkl", bytes(10**6))
    with warnings.catch_warnings(), zipfile.ZipFile("twice.npz", "w") as archive:
        warnings.simplefilter("ignore")  # the duplicate name
        for _ in range(2):
            archive.writestr("codes.npy", npy_bytes(HEADER, bytes(120)))
    put("table.npz", npy_bytes(HEADER, bytes(120)))
    for path in ("cut.npz", "zeros.npz", "packed.npz", "x.pt", "twice.npz", "table.npz"):
        assert "is not a readable" in refused(path)


@pytest.mark.parametrize("suffix", tables.WRITERS)
def test_a_full_disk(suffix):
    Path("x" + suffix).symlink_to("/dev/full")
    with refusal("No space left on device"):
        write_table("x" + suffix, np.zeros((300, 300)))
