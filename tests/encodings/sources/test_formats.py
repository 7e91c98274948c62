"""Each format is read as it was written, and every damaged file ends in one plain line."""

import io
import json
import os
import pickle
import random
import re
import warnings
import zipfile

import numpy as np
import pytest
import safetensors.torch
import torch
from stored import HEADER, NOT_A_TABLE, TABLE, npy_bytes, put, refused

from pefourier.encodings.sources import formats
from pefourier.encodings.sources.tables import read_table, write_table
from pefourier.errors import PefourierError

NO_CODE = (
    "it is damaged, or holds Python objects that could run code; only weights are read, "
    "as torch.save(table, PATH) writes them; write it again"
)
EPS = {
    torch.float64: 2**-52,
    torch.float32: 2**-23,
    torch.float16: 2**-10,
    torch.bfloat16: 2**-7,
    torch.float8_e4m3fn: 2**-3,
    torch.float8_e5m2: 2**-2,
    torch.int8: 2**-52,
    torch.int64: 2**-52,
    torch.bool: 2**-52,
}


def safetensors_bytes(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


@pytest.mark.parametrize("suffix", formats.WRITERS)
def test_what_is_written_reads_back_exactly(suffix):
    extreme = np.array([[np.pi, -0.0, 5e-324], [1.7976931348623157e308, 1 / 3, 1e23]])
    write_table("x" + suffix, extreme.astype(">f8", order="F"))
    table, eps = read_table("x" + suffix)
    assert table.tobytes() == extreme.tobytes()
    assert (table.dtype, eps) == (np.float64, 2**-52)


def test_other_libraries_read_what_is_written():
    for suffix in formats.WRITERS:
        write_table("x" + suffix, TABLE)
    with np.load("x.npz") as archive:
        np.testing.assert_array_equal(archive["codes"], TABLE)
    np.testing.assert_array_equal(np.load("x.npy"), TABLE)
    np.testing.assert_array_equal(np.loadtxt("x.csv", delimiter=","), TABLE)
    tensors = safetensors.torch.load_file("x.safetensors")
    np.testing.assert_array_equal(tensors["codes"], TABLE)
    with open("x.safetensors", "rb") as stream:
        assert int.from_bytes(stream.read(8), "little") % 8 == 0  # aligned, so mapped fast


@pytest.mark.parametrize("dtype", EPS, ids=str)
@pytest.mark.parametrize("form", ["pt", "legacy.pth", "safetensors", "bytes"])
def test_torch_types_and_their_resolution(dtype, form):
    tensor = torch.from_numpy(TABLE * 100).to(dtype)
    if form == "safetensors":
        path, key = "x.safetensors", "pe"
        safetensors.torch.save_file({"pe": tensor, "ones": torch.ones(2, 2)}, path, {"by": "torch"})
    elif form == "bytes":
        path, key = "x.pt", "model.pe"
        torch.save({"model": {"pe": tensor[None], "bias": tensor[0]}, "step": 3}, path)
    elif "float8" in str(dtype) and form == "legacy.pth":
        pytest.skip("torch writes no float8 in its old format that it could read")
    else:
        path, key = f"x.{form}", None
        torch.save(tensor, path, _use_new_zipfile_serialization=form == "pt")
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
    np.testing.assert_array_equal(formats.DECODERS[name](bits), expected)


@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<f4", ">f4", "<f2", "<i2", ">u8", "?", "g"])
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


@pytest.mark.parametrize("suffix", ["npy", "safetensors", "pt"])
def test_large_files_are_mapped_not_read(suffix):
    """So that a sparse file of 16 GiB opens on a small machine."""
    shape, size = (2**20, 2**12), 2**34
    if suffix == "npy":
        np.lib.format.open_memmap("x.npy", "w+", np.float32, shape).flush()
    elif suffix == "safetensors":
        entry = {"dtype": "F32", "shape": shape, "data_offsets": [0, size]}
        put("x.safetensors", safetensors_bytes({"codes": entry}))
        os.truncate("x.safetensors", os.path.getsize("x.safetensors") + size)
    else:
        shape = (3, 2)
        torch.save(torch.ones(3, 2), "x.pt")
    table, _ = read_table("x." + suffix)
    assert table.shape == shape
    with open("/proc/self/maps", errors="replace") as maps:
        assert f"{os.getcwd()}/x.{suffix}\n" in maps.read()


NO_ARRAY = "its header does not describe an array"
NO_SHAPE = "its shape is not that of an array"
SHORT = "its shape (5, 3) of float64 needs 120 bytes, {} are there"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", NO_ARRAY),
        (b"\x93NUMPY\1\0\x40", NO_ARRAY),
        (npy_bytes(HEADER, b"0" * 119), SHORT.format(119)),
        (
            npy_bytes(HEADER.replace(b"(5, ", b"(1000000000000, ")),
            "its shape (1000000000000, 3) of float64 needs 24000000000000 bytes, 0 are there",
        ),
        (npy_bytes(HEADER.replace(b"5", b"-5")), NO_SHAPE),
        (npy_bytes(HEADER.replace(b"5", b"True"), bytes(24)), NO_SHAPE),
        (npy_bytes(HEADER.replace(b"5, 3", b"1, " * 99)), NO_SHAPE),
        (npy_bytes(HEADER.replace(b"5, 3", b"0, " + b"9" * 30)), NO_SHAPE),
        (npy_bytes(HEADER.replace(b"5", b"9" * 5000)), NO_ARRAY),
        (npy_bytes(HEADER.replace(b"5, 3", b"5L, 3L")), SHORT.format(0)),
        (npy_bytes(HEADER, version=b"\3\0", width=4), NO_ARRAY),
        (npy_bytes(HEADER.replace(b"'<f8'", b"()")), NO_ARRAY),
        (npy_bytes(b"-" * 9000 + b"1"), NO_ARRAY),
        (npy_bytes(b"1" + b"+1" * 4000), NO_ARRAY),
        (npy_bytes(b"(" * 9000), NO_ARRAY),
        (npy_bytes(b" " * 4, version=b"\2\0", width=4)[:8] + b"\xff" * 9000, NO_ARRAY),
        (npy_bytes(b"__import__('os').system('false')"), NO_ARRAY),
    ],
)
def test_damaged_npy(content, reason):
    put("x.npy", content)
    refused(f"'x.npy' is not a readable .npy file: {reason}; write it again", "x.npy")


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
    ],
)
def test_csv(content, expected):
    put("x.csv", content)
    np.testing.assert_array_equal(read_table("x.csv")[0], expected)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it has no line of numbers separated by commas"),
        (b"x,y\n", "it has no line of numbers separated by commas"),
        (b"x,y\n1,2\n3,four\n", "line 3, column 2 is 'four', not a number"),
        (b",0,1\n0,.5,.5\n", "line 1, column 1 is '', not a number"),
        (b",,\n1,2,3\n", "line 1, column 1 is '', not a number"),
        (b"1;2\n3;4\n", "line 2, column 1 is '3;4', not a number"),
        (b"1,2,\n", "line 1, column 3 is '', not a number"),
        (b"1,\x002\n", r"line 1, column 2 is '\x002', not a number"),
        (b"1_0,2\n", "line 1, column 1 is '1_0', not a number"),
        ("１,2\n".encode(), "line 1, column 1 is '１', not a number"),
        (b"1,2+1j\n", "line 1, column 2 is '2+1j', not a number"),
        (b"1,2\n\n3\n", "line 3 has 1 columns, the lines above it 2"),
        ("1,2\n".encode("utf-16"), "it is not UTF-8 text"),
    ],
)
def test_damaged_csv(content, reason):
    put("x.csv", content)
    refused(f"'x.csv' is not a readable .csv file: {reason}; write it again", "x.csv")


def test_csv_of_a_million_columns():
    put("x.csv", b",".join([b"1.5"] * 10**6))
    assert read_table("x.csv")[0].shape == (1, 10**6)


def entry(dtype="F32", shape=(2, 3), offsets=(0, 24)):
    return {"codes": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it claims a header of 0 bytes, 0 are there"),
        (b"\xff" * 8, "it claims a header of 18446744073709551615 bytes, 0 are there"),
        (safetensors_bytes(b"[" * 10**5), "its header does not describe arrays"),
        (safetensors_bytes(b"{"), "its header does not describe arrays"),
        (safetensors_bytes(b"1"), "its header does not describe arrays"),
        (safetensors_bytes([[1, {}]]), "its header does not describe arrays"),
        (safetensors_bytes({"codes": {}}), "its header does not describe arrays"),
        (
            safetensors_bytes(entry(), bytes(23)),
            "its shape (2, 3) of float32 needs 24 bytes, 23 are there",
        ),
        (
            safetensors_bytes(entry(shape=(10**12, 3)), bytes(24)),
            "its shape (1000000000000, 3) of float32 needs 12000000000000 bytes, 24 are there",
        ),
        (
            safetensors_bytes(entry(offsets=(0, 20)), bytes(24)),
            "its offsets 0 to 20 do not fit the shape (2, 3)",
        ),
        (
            safetensors_bytes(entry(offsets=(-24, 0)), bytes(24)),
            "its offsets -24 to 0 do not fit the shape (2, 3)",
        ),
        (
            safetensors_bytes(entry(shape=(2.0, 3)), bytes(24)),
            "its header has a shape or an offset that is not a whole number",
        ),
    ],
)
def test_damaged_safetensors(content, reason):
    put("x.safetensors", content)
    message = f"'x.safetensors' is not a readable .safetensors file: {reason}; write it again"
    refused(message, "x.safetensors")


def test_safetensors_of_an_unknown_type():
    put("x.safetensors", safetensors_bytes(entry(dtype="float64"), bytes(24)))
    refused(f"'x.safetensors' holds 'codes' (2, 3) of type float64; {NOT_A_TABLE}", "x.safetensors")


class Attack:
    """A pickle that makes a file when it is loaded."""

    def __reduce__(self):
        return os.mkdir, ("hacked",)


@pytest.mark.parametrize("legacy", [False, True])
def test_pickles_run_no_code(legacy):
    tree = {"codes": torch.ones(2, 2), "x": Attack()}
    torch.save(tree, "x.pt", _use_new_zipfile_serialization=not legacy)
    put("y.pth", pickle.dumps(Attack()))
    np.save("x.npy", np.array([[Attack()]]))
    refused(f"'x.pt' is not a readable .pt file: {NO_CODE}", "x.pt")
    refused(f"'y.pth' is not a readable .pth file: {NO_CODE}", "y.pth")
    refused(f"'x.npy' holds an array (1, 1) of object; {NOT_A_TABLE}", "x.npy")
    assert not os.path.exists("hacked")


def test_odd_tensors():
    codes = torch.nn.Parameter(torch.ones(2, 3).T)
    torch.save({"a": {"codes": codes, 7: torch.ones(3)}, ("tuple",): torch.ones(2, 2)}, "x.pt")
    assert read_table("x.pt")[0].tolist() == [[1, 1]] * 3
    torch.save({"k" * 1000: {"codes": torch.ones(2, 2)}}, "x.pt")
    refused("'x.pt' holds no table (n, d) of numbers; it holds no array", "x.pt")
    odd = {"sparse": torch.eye(3).to_sparse(), "meta": torch.ones(3, 2, device="meta")}
    torch.save(odd, "y.pt")
    for key, text in {
        "sparse": "(3, 3) of cpu torch.sparse_coo",
        "meta": "(3, 2) of meta torch.strided",
    }.items():
        refused(f"'y.pt' holds {key!r} {text}; {NOT_A_TABLE}", "y.pt", key)
    put("z.pt", b"")
    refused(f"'z.pt' is not a readable .pt file: {NO_CODE}", "z.pt")


def test_a_pickle_of_shared_mappings_is_walked_once():
    tree = {"codes": torch.ones(2, 2)}
    for _ in range(60):
        tree = {"a": tree, "b": tree}
    torch.save(tree, "x.pt")
    assert read_table("x.pt")[0].tolist() == [[1, 1], [1, 1]]


def test_damaged_archives():
    write_table("x.npz", TABLE)
    with open("x.npz", "rb") as stream:
        whole = stream.read()
    broken = "'x.npz' is not a readable .npz file: "
    put("x.npz", whole[:-40])
    refused(broken + "File is not a zip file; write it again", "x.npz")
    put("x.npz", whole.replace(TABLE.tobytes(), bytes(120)))
    refused(broken + "Bad CRC-32 for file 'codes.npy'; write it again", "x.npz")
    with zipfile.ZipFile("x.npz", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("codes.npy", npy_bytes(HEADER, bytes(120)))
    other = "numpy.savez stores or deflates, it uses another compression; write it again"
    refused(broken + other, "x.npz")
    with zipfile.ZipFile("x.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/data.pkl", bytes(10**6))
    compressed = "torch.save compresses nothing, it holds compressed parts; write it again"
    refused(f"'x.pt' is not a readable .pt file: {compressed}", "x.pt")


@pytest.mark.parametrize("suffix", formats.WRITERS)
def test_a_full_disk(suffix):
    os.symlink("/dev/full", "x" + suffix)
    message = f"cannot write 'x{suffix}': No space left on device"
    with pytest.raises(PefourierError, match=f"^{re.escape(message)}$"):
        write_table("x" + suffix, np.zeros((300, 300)))


WORDS = [b"\xff" * 8, b"\0" * 8, b"-1", b"9" * 30, b"1000000000000", b"[", b"(", b"{", b"\n", b","]
WORDS += [
    b"nan",
    b"|O",
    b"<c16",
    b"True",
    b"PK\5\6",
    b"#",
    b"'",
    b'"',
    b"\x80\2",
    b"R",
    b".",
    b"t",
]


def originals():
    """One valid file or more of each format."""
    tensor = torch.from_numpy(TABLE)
    for suffix in formats.WRITERS:
        write_table("0" + suffix, TABLE)
    np.save("1.npy", np.asfortranarray(TABLE.astype(">f4")))
    np.savez_compressed("1.npz", a=TABLE, b=TABLE[0])
    put("1.csv", b"x,y\n1,2\n3,4 # c\n")
    torch.save(tensor, "1.pt")
    torch.save({"model": {"pe": tensor.bfloat16(), "b": tensor[0]}, "o": [1, "x"]}, "2.pt")
    torch.save({"pe": tensor.half().T}, "3.pth", _use_new_zipfile_serialization=False)
    safetensors.torch.save_file({"pe": tensor.bfloat16(), "b": tensor[0]}, "1.safetensors")
    found = {}
    for name in sorted(os.listdir()):
        with open(name, "rb") as stream:
            found[name] = stream.read()
    return found


def mutated(rng, data):
    """The bytes with one to eight bits flipped, bytes changed, cut, repeated or put in."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 8])):
        start = rng.randrange(min(len(data), rng.choice([200, 10**6])) + 1)
        stop = min(len(data), start + rng.choice([1, 2, 8, 64]))
        flipped = bytes(byte ^ (1 << rng.randrange(8)) for byte in data[start : start + 1])
        piece, word = data[start:stop], rng.choice(WORDS)
        changes = [flipped + piece[1:], rng.randbytes(1), b"", piece * 3, word, word + piece]
        data[start:stop] = rng.choice(changes)
        if rng.random() < 0.1:
            del data[start:]
    return bytes(data)


def mutated_inside(rng, data):
    """An archive in which one member is mutated, with the right checksum."""
    source, target = zipfile.ZipFile(io.BytesIO(data)), io.BytesIO()
    hit = rng.choice([name for name in source.namelist() if name.endswith((".pkl", ".npy"))])
    with zipfile.ZipFile(target, "w") as archive:
        for name in source.namelist():
            content = source.read(name)
            archive.writestr(name, mutated(rng, content) if name == hit else content)
    return target.getvalue()


@pytest.mark.parametrize("seed", range(10))
def test_damaged_files_are_tables_or_one_line(seed):
    """100 damaged files a seed: each is a table of numbers, or refused by name in one line."""
    rng, valid = random.Random(seed), originals()
    for count in range(100):
        name = rng.choice(sorted(valid))
        inside = valid[name].startswith(b"PK") and rng.random() < 0.6
        put(f"m{name}", (mutated_inside if inside else mutated)(rng, valid[name]))
        key = rng.choice([None, "pe", "model.pe", "codes"])
        assert outcome(f"m{name}", key) is None, (seed, count)


def outcome(path, key):
    """What is wrong with the answer to a damaged file, if anything."""
    try:
        table, eps = read_table(path, key)
    except PefourierError as error:
        return None if f"'{path}'" in str(error) and "\n" not in str(error) else str(error)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        float(table.astype(float).sum())  # every number can be read
    sound = table.ndim == 2 and table.size and eps in EPS.values()
    return None if sound and table.dtype in ("f8", "f4", "f2") else (table.shape, table.dtype, eps)


def test_only_plain_numbers_are_made_of_bytes():
    """Whoever asks: what lies behind every reader refuses pointers too."""
    pointers = formats.Extent((1,), np.dtype("O"), 0)
    for read in (lambda: pointers.of(b"A" * 8), lambda: pointers.at(io.BytesIO(b"A" * 8))):
        with pytest.raises(ValueError, match="it holds object, and only plain numbers are read"):
            read()
