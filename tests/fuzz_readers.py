"""Targets of `fuzz`: tables, rows of numbers and data for training, in files of every format."""

import io
import json
import operator
import os
import random
import shutil
import subprocess
import tempfile
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import safetensors
import safetensors.torch
import torch
import torch.nested._internal.ops  # which torch imports by itself, at some later time
from fuzz import ended, mutated, target
from stored import TABLE, npy_bytes, put

from pefourier.encodings.sources import tables, writers
from pefourier.encodings.sources.arrays import EPS, KINDS
from pefourier.errors import PefourierError
from pefourier.train.data.load import load_task
from pefourier.train.data.split import Task
from pefourier.train.options import Options

DESCR = ["<f8", ">f4", "<f2", "|O", "O8", "<U3", "|S5", "<U0", "|V8", "<M8[s]", "<m8[7D]", "<c16"]
DESCR += ["<f16", "|b1", "<i8", ">u2", "f8,O", "<f8, <f8", "(2,)f8", "(3,)O", "e", "g", "?", "p"]
DESCR += [[("a", "<f8"), ("b", "|O")], [("a", "<f8")], [("a", "<f8", (2,))], ("<f8", (2, 3))]
DESCR += [("|O", (2,)), {"names": ["a"], "formats": ["O"]}, "", "os", "numpy.object_", None, 3]
AXES = [0, 1, 2, 3, 5, 6, 15, 40, -1, True, 2**20, 2**31, 2**62, 2**63, 10**30, 2.0, "3", None]


@cache
def originals() -> dict[str, bytes]:
    """One valid file or more of each format."""
    home, folder = os.getcwd(), tempfile.mkdtemp()
    os.chdir(folder)
    tensor = torch.from_numpy(TABLE)
    for suffix in writers.WRITERS:
        tables.write_table("0" + suffix, TABLE)
    np.save("1.npy", np.asfortranarray(TABLE.astype(">f4")))
    np.savez_compressed("1.npz", a=TABLE, b=TABLE[0])
    put("1.csv", b"x,y\n1,2\n3,4 # c\n")
    torch.save(tensor, "1.pt")
    torch.save({"model": {"pe": tensor.bfloat16(), "b": tensor[0]}, "o": [1, "x"]}, "2.pt")
    torch.save({"pe": tensor.half().T}, "3.pth", _use_new_zipfile_serialization=False)
    odd = {"s": torch.eye(3).to_sparse(), "m": torch.ones(3, 2, device="meta")}
    torch.save({"pe": tensor, **odd, "c": tensor.to(torch.complex64)}, "4.pt")
    safetensors.torch.save_file({"pe": tensor.bfloat16(), "b": tensor[0]}, "1.safetensors")
    with zipfile.ZipFile("2.npz", "w", zipfile.ZIP_LZMA) as archive:  # as SMD comes
        archive.writestr("codes.npy", npy_file(TABLE))
    found = {name: read(name) for name in sorted(os.listdir())}
    os.chdir(home)
    shutil.rmtree(folder)
    return found


def read(path: str) -> bytes:
    """What is in a file."""
    with open(path, "rb") as stream:
        return stream.read()


def mutated_inside(rng: random.Random, content: bytes) -> bytes:
    """An archive in which one member is mutated, with the right checksum."""
    source, built = zipfile.ZipFile(io.BytesIO(content)), io.BytesIO()
    hit = rng.choice([name for name in source.namelist() if name.endswith((".pkl", ".npy"))])
    with zipfile.ZipFile(built, "w") as archive:
        for name in source.namelist():
            member = source.read(name)
            archive.writestr(name, mutated(rng, member) if name == hit else member)
    return built.getvalue()


def npy_file(array: np.ndarray) -> bytes:
    """The array as numpy.save writes it."""
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def npz_file(members: dict[str, bytes], rng: random.Random) -> bytes:
    """An archive of .npy files."""
    built = io.BytesIO()
    way = rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
    with zipfile.ZipFile(built, "w", way) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return built.getvalue()


def forged(rng: random.Random) -> bytes:
    """A .npy file of any type and shape, with some bytes behind them."""
    axes = rng.choice([0, 1, 2, 2, 3, 40])
    shape = tuple(rng.choice(AXES[:8] if rng.random() < 0.8 else AXES) for _ in range(axes))
    header = repr({"descr": rng.choice(DESCR), "fortran_order": rng.random() < 0.2, "shape": shape})
    if rng.random() < 0.2:
        header = header.replace(rng.choice("{}()[]',:"), rng.choice(["", "((", "[" * 999]), 1)
    return npy_bytes(header.encode(), rng.randbytes(rng.choice([0, 8, 40, 120, 960])))


def damaged(rng: random.Random) -> str:
    """The path of a damaged file of any format."""
    name = rng.choice(sorted(originals()))
    content = originals()[name]
    if name.endswith((".npy", ".npz")) and rng.random() < 0.5:
        content = forged(rng)
        if name.endswith(".npz"):
            content = npz_file({"codes": content, "a": forged(rng)}, rng)
    else:
        inside = content.startswith(b"PK") and rng.random() < 0.6
        content = (mutated_inside if inside else mutated)(rng, content)
    put(f"m{name}", content)
    return f"m{name}"


@target
def tables_in_files(rng: random.Random) -> object:
    """A table, or a line that names the file."""
    path, key = damaged(rng), rng.choice([None, None, "pe", "model.pe", "codes", "a"])

    def sound(answer: tuple[np.ndarray, float]) -> bool:
        table, eps = answer
        with np.errstate(all="ignore"):
            float(table.astype(float).sum())  # every number can be read
        plain = table.ndim == 2 and table.size > 0 and table.dtype in ("f8", "f4", "f2")
        return plain and eps in EPS.values()

    return ended(lambda: tables.read_table(path, key), sound, f"'{path}'")


@target
def rows_of_numbers(rng: random.Random) -> object:
    """What --times is given: a row of numbers, or columns of coordinates, or a line."""
    path = damaged(rng)

    def sound(found: np.ndarray) -> bool:
        with np.errstate(all="ignore"):
            float(found.sum())
        return (found.ndim == 1 or min(found.shape) > 1) and found.dtype == float

    return ended(lambda: tables.read_numbers(path), sound, f"'{path}'")


@dataclass(frozen=True)
class Call:
    """What a pickle makes of it: the answer of a function."""

    function: Callable
    arguments: tuple

    def __reduce__(self) -> tuple:
        return self.function, self.arguments


COUNTS = [0, 1, 2, 3, 5, 7, 100, -1, -2, 2**31, 2**62, 2**63 - 1, -(2**63)]
GADGETS = [os.system, exec, eval, import_module, subprocess.Popen, getattr, torch.load, open]
GADGETS += [operator.methodcaller, np.load, torch.hub.load, shutil.rmtree, print]


def counts(rng: random.Random) -> tuple[int, ...]:
    """A shape or strides, mostly sensible."""
    axes = rng.choice([0, 1, 2, 2, 2, 3])
    return tuple(rng.choice(COUNTS if rng.random() < 0.3 else COUNTS[:4]) for _ in range(axes))


def rebuilt(rng: random.Random) -> Call:
    """A call by which torch.load makes a tensor, or one that it must not make."""
    plain = [torch.ones(2, 3), torch.arange(4), torch.zeros(0), torch.tensor([[0, 5], [1, -2]])]
    numbers, some = torch.arange(12.0).to(rng.choice([torch.float32, torch.int64])), rng.choices
    first, second, third, fourth = some(plain, k=4)
    sizes = torch.Size([max(0, min(10**9, axis)) for axis in counts(rng)])
    scheme = rng.choice([(torch.per_tensor_affine, 0.1, 0), (torch.per_channel_affine, *plain[:3])])
    place = (numbers.storage(), rng.choice(COUNTS), counts(rng), counts(rng))
    rows = rng.choice([torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr])
    calls = [
        Call(torch._utils._rebuild_tensor_v2, (*place, False, OrderedDict())),
        Call(torch._utils._rebuild_qtensor, (*place, scheme, False, OrderedDict())),
        Call(torch._utils._rebuild_sparse_tensor, (torch.sparse_coo, (first, second, sizes))),
        Call(torch._utils._rebuild_sparse_tensor, (rows, (first, second, third, sizes))),
        Call(torch._utils._rebuild_nested_tensor, (first.reshape(-1), second, third, fourth)),
        Call(torch._utils._rebuild_parameter, (first, False, OrderedDict())),
        Call(rng.choice(GADGETS), rng.choice([("touch hacked",), ("hacked", "w"), ("os",)])),
    ]
    return rng.choice(calls)


@target
def calls_in_pickles(rng: random.Random) -> object:
    """Tensors as nobody saves them, and calls that run a program; all arrays are loaded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = {"a": rebuilt(rng), "b": torch.ones(2, 2)}
        torch.save(tree, "x.pt", _use_new_zipfile_serialization=rng.random() < 0.6)

    def load() -> bool:
        with tables.open_arrays("x.pt") as file:
            for name in file.arrays:
                with suppress(PefourierError):
                    file.load(name)
        return True

    return ended(load, named="'x.pt'") or (["hacked"] if os.path.exists("hacked") else None)


ENTRIES = [0, 1, -1, 2, 4, 8, 24, 48, 2**32, 2**63, 2**64, 2.0, True, None, "a", [], {}, [0, 8]]
SIZES = {"F64": 8, "F32": 4, "BF16": 2, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "I64": 8, "C64": 8}
SIZES |= {"F4": 0.5, "F6_E2M3": 0.75, "F8_E8M0": 1, "float64": 8}


def off(rng: random.Random) -> int:
    """Mostly 0."""
    return rng.choice([-8, -1, 1, 8]) if rng.random() < 0.08 else 0


def safetensors_file(rng: random.Random) -> bytes:
    """A .safetensors file of tensors that lie one after another or, in a place or two, do not."""
    pieces, end = [], 0
    for name in rng.sample(["a", "b", "c", "pe", ""], rng.choice([0, 1, 2, 2, 3])):
        kind = rng.choice(sorted(SIZES) if rng.random() < 0.4 else ["F32", "F64", "BF16"])
        shape = [rng.choice([0, 1, 2, 4, 8]) for _ in range(rng.choice([0, 1, 2, 2, 3]))]
        begin, end = end, end + int(np.prod(shape) * SIZES[kind])
        offsets = [begin + off(rng), end + off(rng)]
        entry = {"dtype": kind, "shape": shape, "data_offsets": offsets}
        if rng.random() < 0.1:
            entry[rng.choice([*entry, "x"])] = rng.choice(ENTRIES)
        if rng.random() < 0.1:
            rng.choice([shape, offsets]).append(rng.choice(ENTRIES))
        pieces.append(f"{json.dumps(name)}:{json.dumps(entry)}")
    pieces += rng.choice([[], [], ['"__metadata__":{"by":"me"}'], ['"__metadata__":{"n":1}']])
    pieces += pieces[:1] * (rng.random() < 0.1)
    rng.shuffle(pieces)
    header = ("{" + ",".join(pieces) + "}" + rng.choice(["", " " * 7])).encode()
    header = mutated(rng, header) if rng.random() < 0.2 else header
    length = len(header) + (rng.choice([1, -1, 2**40]) if rng.random() < 0.05 else 0)
    return max(0, length).to_bytes(8, "little") + header + bytes(max(0, end + off(rng)))


@target
def safetensors_headers(rng: random.Random) -> object:
    """What the library safetensors takes is taken, with its shapes; no name twice."""
    put("x.safetensors", safetensors_file(rng))
    own, refusals = {}, []

    def load() -> bool:
        try:
            with tables.open_arrays("x.safetensors") as file:
                own.update(file.arrays)
                for name in [name for name, one in own.items() if one.kind in KINDS]:
                    file.load(name)
        except PefourierError as error:
            refusals.append(str(error))
            raise
        return True

    wrong, theirs = ended(load, named="'x.safetensors'"), library_shapes("x.safetensors")
    if wrong or theirs is None:  # what the library refuses may be read here, within its bytes
        return wrong
    if refusals:
        own_reason = "stands twice" in refusals[0] or "not that of an array" in refusals[0]
        return None if own_reason else ("refused", refusals[0])  # numpy counts axes up to 2^63
    shapes = {name: list(one.shape) for name, one in own.items()}
    return None if shapes == theirs else ("other shapes", shapes, theirs)


def library_shapes(path: str) -> dict[str, list[int]] | None:
    """The shapes that the library safetensors finds, None where it refuses the file."""
    try:
        with safetensors.safe_open(path, framework="np") as file:
            return {name: file.get_slice(name).get_shape() for name in file.keys()}
    except safetensors.SafetensorError:
        return None


def recording(rng: random.Random) -> dict[str, np.ndarray]:
    """Rows (n, 2) and their labels, of types that people store them in."""
    numbers = np.random.default_rng(rng.randrange(2**32))
    kind = rng.choice(["f4", "f4", "f8", "f2", ">f2", "i2", ">f4", "?", "g"])
    label = np.arange(400) % 40 < 4
    return {
        "train": numbers.normal(size=(200, 2)).astype(kind),
        "test": (3 * numbers.normal(size=(400, 2)) + label[:, None]).astype(kind),
        "label": label.astype(rng.choice(["u1", "f8", "?", "i8", "f2"])),
    }


ODD = [
    np.array(1.5),
    np.zeros((0, 2)),
    np.array([(1, 2.0)] * 400, "i4,f8"),
    np.array(["a", "b"] * 200),
    np.array([b"a", b"b"] * 200),
    np.array([None, {}] * 200),
    np.ones((400, 2), complex),
    np.ones(400, "M8[s]"),
    np.ones(400),
    np.ones((1, 400, 2)),
    np.full((400, 2), np.nan),
    np.full((400, 2), np.inf, "f2"),
    np.full((400, 2), 1e300),
    np.full(400, 2),
]


def spoiled(rng: random.Random, array: np.ndarray) -> bytes:
    """A .npy file in place of that of an array."""
    kind = rng.choice(["odd", "forged", "mutated", "mutated"])
    if kind == "forged":
        return forged(rng)
    return npy_file(rng.choice(ODD)) if kind == "odd" else mutated(rng, npy_file(array))


def one_spoiled(rng: random.Random, arrays: dict[str, np.ndarray]) -> dict[str, bytes]:
    """.npy files, mostly with a bad one among them."""
    hit = rng.choice([*arrays, None])
    return {k: spoiled(rng, v) if k == hit else npy_file(v) for k, v in arrays.items()}


def trained_on(name: str, window: int | None = 16) -> object:
    """What is wrong with how the data in the working directory are read."""

    def sound(task: Task) -> bool:
        return task.rows.dtype == np.float32 and np.isfinite(task.rows).all() and bool(task.folds)

    return ended(lambda: load_task(name, Options(data=".", window=window)), sound)


@target
def own_archives(rng: random.Random) -> object:
    """A user's .npz of examples or of a recording."""
    numbers = np.random.default_rng(rng.randrange(2**32))
    x = numbers.normal(size=(40, 5, 2)).astype(rng.choice(["f4", "f2", ">f2", "f8", "i1", "g"]))
    y = rng.choice([np.arange(40) % 2, np.array(["a", "b"] * 20), np.arange(40.0) % 3])
    examples = rng.random() < 0.6
    arrays = {"X": x, "y": y, "groups": np.arange(40) // 4} if examples else recording(rng)
    if rng.random() < 0.5:
        del arrays["groups" if examples else "train"]
    content = npz_file(one_spoiled(rng, arrays), rng)
    put("x.npz", mutated(rng, content) if rng.random() < 0.3 else content)
    return trained_on("x.npz", None if examples else 16)


@target
def smd_archives(rng: random.Random) -> object:
    """Archives of recordings, one of them damaged."""
    os.mkdir("smd")
    for machine, members in enumerate(
        [{k: npy_file(v) for k, v in recording(rng).items()}, one_spoiled(rng, recording(rng))]
    ):
        content = npz_file(members, rng)
        damage = machine and rng.random() < 0.3
        put(f"smd/machine-1-{machine}.npz", mutated(rng, content) if damage else content)
    if rng.random() < 0.2:
        text = b"file,sha256\nsmd/machine-1-0.npz,\n"
        odd = [b"smd/" + b"x" * 300, b"smd/\0", b"/dev/zero/smd/x", b"smd/../smd", b"smd"]
        text = text + rng.choice(odd) if rng.random() < 0.5 else mutated(rng, text)
        put("MANIFEST.csv", text)
    return trained_on("smd")


@target
def smd_texts(rng: random.Random) -> object:
    """The publisher's files of text, one of them damaged."""
    arrays = recording(rng)
    hit = rng.choice([*arrays, None])
    for part, key in (("train", "train"), ("test", "test"), ("test_label", "label")):
        os.makedirs(f"ServerMachineDataset/{part}")
        stream = io.BytesIO()
        np.savetxt(stream, arrays[key].astype(float), delimiter=",", fmt="%.6g")
        text = stream.getvalue()
        path = f"ServerMachineDataset/{part}/machine-1-1.txt"
        put(path, mutated(rng, text) if key == hit else text)
    return trained_on("smd")


EVENTS = json.dumps([[40 * i, 40 * i + 3] for i in range(10)])
ODD_EVENTS = ["[" * 5000, "[" * 500 + "]" * 500, "9" * 5000, "[[1, NaN]]", "[[true, 1]]", "{}"]
ODD_EVENTS += ["null", "[[5, 2]]", "[[0, 1e3]]", "[[0, 999999999999]]", "[[[1, 2]]]", '"a"', ""]
ODD_CHANNELS = [b"../A-1", b"A" * 200_000, b"A\x001", b"\xff", "１-1".encode(), b""]
ODD_CHANNELS += [b"A-" + b"1" * 300]


@target
def msl(rng: random.Random) -> object:
    """Channels as they are published, with the list of anomalies; one of these damaged."""
    arrays, hit = recording(rng), rng.choice(["train", "test", "list", "list", "events", None])
    for part in ("train", "test"):
        os.makedirs(f"msl/{part}")
        content = spoiled(rng, arrays[part]) if part == hit else npy_file(arrays[part])
        put(f"msl/{part}/A-1.npy", content)
    events = rng.choice(ODD_EVENTS) if hit == "events" else EVENTS
    text = "chan_id,spacecraft,anomaly_sequences,class,num_values\n"
    text = f'{text}A-1,MSL,"{events}",[point],400\nB-1,SMAP,"[[1, 2]]",[point],9\n'.encode()
    if hit == "list":
        odd = rng.random() < 0.2
        text = text.replace(b"A-1", rng.choice(ODD_CHANNELS)) if odd else mutated(rng, text)
    put("msl/labeled_anomalies.csv", text)
    return trained_on("msl")


TS = b"# by nobody\n@problemName S\n@timeStamps false\n@missing false\n@univariate false\n"
TS += b"@dimensions 2\n@equalLength true\n@seriesLength 3\n@classLabel true a b\n@data\n"


def ts_files(rng: random.Random) -> object:
    """The .ts files of a folder, one of them damaged; for whoever has aeon."""
    os.mkdir("set")
    hit = rng.choice(["TRAIN", "TEST", None])
    for side in ("TRAIN", "TEST"):
        text = TS + b"1,2,3:4,5,6:a\n1.5,2,0:4,-5e-3,6:b\n" * 12
        put(f"set/S_{side}.ts", mutated(rng, text) if side == hit else text)
    return trained_on("set", None)


if find_spec("aeon"):
    target(ts_files)
