"""Each format reads back what was written, and a damaged file ends in one error line."""

import json
import os
import pickle
import time
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch
from stored import HEADER, TABLE, npy_bytes, npz_file, put, refused, safetensors_bytes

from pefourier.encodings.sources import tables
from pefourier.encodings.sources.tables import read_table, write_table
from pefourier.errors import PefourierError

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
        np.testing.assert_array_equal(archive["codes"], TABLE)
    np.testing.assert_array_equal(np.load("x.npy"), TABLE)
    np.testing.assert_array_equal(np.loadtxt("x.csv", delimiter=","), TABLE)
    tensors = safetensors.torch.load_file("x.safetensors")
    np.testing.assert_array_equal(tensors["codes"], TABLE)
    with Path("x.safetensors").open("rb") as stream:
        assert int.from_bytes(stream.read(8), "little") % 8 == 0  # aligned for fast mapping


@pytest.mark.parametrize("dtype", EPS, ids=str)
@pytest.mark.parametrize("form", ["pt", "safetensors", "nested"])
def test_torch_types_and_their_resolution(dtype, form):
    tensor = torch.from_numpy(TABLE * 100).to(dtype)
    if form == "safetensors":
        path, key = "x.safetensors", "pe"
        safetensors.torch.save_file({"pe": tensor, "ones": torch.ones(2, 2)}, path, {"by": "torch"})
    elif form == "nested":
        path, key = "x.pt", "model.pe"
        torch.save({"model": {"pe": tensor[None], "bias": tensor[0]}, "step": 3}, path)
    else:
        path, key = "x.pt", None
        torch.save(tensor, path)
    table, eps = read_table(path, key)
    wide = np.float32 if dtype.is_floating_point else np.float64
    kept = {torch.float64: np.float64, torch.float16: np.float16}
    assert (table.dtype, eps) == (kept.get(dtype, wide), EPS[dtype])
    np.testing.assert_array_equal(table, tensor.double())


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16])
def test_every_bit_pattern_means_what_torch_says(dtype):
    bits = np.arange(2 ** (8 * dtype.itemsize), dtype=f"u{dtype.itemsize}")
    name = str(dtype).removeprefix("torch.")
    expected = torch.from_numpy(bits).view(dtype).float().numpy()
    np.testing.assert_array_equal(tables.DECODERS[name](bits), expected)


@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<f4", ">f4", "<f2", "<i2", ">u8", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_types_and_orders(dtype, order):
    stored = np.array(TABLE * 100 > 0 if dtype == "?" else abs(TABLE) * 100, dtype, order=order)
    np.save("x.npy", stored)
    table, eps = read_table("x.npy")
    kind = np.dtype(dtype).newbyteorder("=")
    kept = kind if kind in ("f8", "f4", "f2") else np.dtype(float)
    assert (table.dtype, table.dtype.isnative) == (kept, True)
    assert eps == np.finfo(kept).eps
    np.testing.assert_array_equal(table, stored.astype(kept))


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
    np.testing.assert_array_equal(read_table("x.csv")[0], expected)


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
    safetensors_bytes(entry(shape=(2.0, 3)), bytes(24)),
    safetensors_bytes(entry(shape=(-2, -3)), bytes(24)),
    safetensors_bytes(entry(offsets=(0, 20)), bytes(24)),
    safetensors_bytes(entry(offsets=(-24, 0)), bytes(24)),
    safetensors_bytes(TWICE, bytes(24)),  # the library accepts two equal tensors of one range
]
NPY = [
    b"",
    b"\x93NUMPY\1\0\x40",
    npy_bytes(HEADER, b"0" * 119),
    npy_bytes(HEADER.replace(b"(5, ", b"(1000000000000, ")),
    *(npy_bytes(HEADER.replace(b"5", axis), bytes(24)) for axis in (b"-5", b"True", b"9" * 5000)),
    *(npy_bytes(HEADER.replace(b"5, 3", axes)) for axes in (b"1, " * 99, b"0, " + b"9" * 30)),
    npy_bytes(HEADER, bytes(120), version=b"\3\0", width=4),
    npy_bytes(b"__import__('os').system('false')"),
    *(npy_bytes(b"{'descr" + blank * 4900 + b"$") for blank in (b" ", b" \n", b"\t")),  # took 20 s
    *(npy_bytes(text) for text in (b"{'descr': " + 9000 * b"(", b"[1]", b"{}", b"")),
    *(npy_bytes(HEADER.replace(*pair)) for pair in ((b"5", 4900 * b"9"), (b"(5, 3)", b"3"))),
]
CSV = [b"", b"x,y\n", b"x,y\n1,2\n3,four\n", b",0,1\n0,.5,.5\n", b",,\n1,2,3\n", b"1;2\n3;4\n"]
CSV += [b"1,2,\n", b"1,\x002\n", b"1_0,2\n", "１,2\n".encode(), b"1,2+1j\n", b"Index,x\n0,2\n1,2\n"]
CSV += [b"2024-01-01,2\n", b"2024-01-01\n2024-01-02\n", b"1,2\n\n3\n", "1,2\n".encode("utf-16")]
CSV += [9999 * b"1,2\n" + b"\xff,2\n"]
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
    put("z.pt", b"")
    refused("z.pt")


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
    with pytest.raises(PefourierError, match="No space left on device"):
        write_table("x" + suffix, np.zeros((300, 300)))
