"""Small files that once ended in a traceback, a crash, a hang or gigabytes: each is one line now.

Every file is made here and given to the command, as a person would; `fuzz` finds new ones.
"""

import io
import os
import re
import sys
import zipfile

import numpy as np
import pytest
import torch
from stored import HEADER, npy_bytes, put

ADDRESSES = b"A" * 24  # where an array of objects has pointers
ROWS = np.sin(np.arange(2400.0)).reshape(1200, 2)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def usual_depth():
    """Calls go as deep as in a fresh interpreter; mypy, run in this process, lets them go on."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


def header(descr, shape):
    return HEADER.replace(b"'<f8'", descr.encode()).replace(b"(5, 3)", shape.encode())


def saved(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def archive(path, **members):
    with zipfile.ZipFile(path, "w") as built:
        for name, content in members.items():
            whole = content if isinstance(content, bytes) else saved(content)
            built.writestr(f"{name}.npy", whole)


def machine(**members):
    """A recording of SMD, some of it replaced."""
    os.mkdir("smd")
    label = np.arange(1200) % 120 < 10
    archive("smd/machine-1-1.npz", **{"train": ROWS, "test": ROWS, "label": label} | members)


def channel(events="[[1, 2]]", **members):
    """A channel of MSL, some of it replaced."""
    for part in ("train", "test"):
        os.makedirs(f"msl/{part}")
        content = members.get(part, ROWS)
        put(f"msl/{part}/A-1.npy", content if isinstance(content, bytes) else saved(content))
    text = f'chan_id,spacecraft,anomaly_sequences\nA-1,MSL,"{events}"\n'
    put("msl/labeled_anomalies.csv", text.encode())


def safetensors(text, size):
    put("x.safetensors", len(text).to_bytes(8, "little") + text + bytes(size))


def lengthened(path, size):
    put(path, b"")
    os.truncate(path, size)


def torch_file(tensor):
    torch.save({"t": tensor}, "x.pt")


def nested():
    return torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)])


ELSEWHERE = b"chan_id,spacecraft,anomaly_sequences\n../../x,MSL,[]\nA-1,SMAP,[]\n"
OBJECTS = npy_bytes(header("'|O'", "(3,)"), ADDRESSES)
FIELDS = np.zeros((1200, 2), "f4,i4")
PLACE = b'{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}'
SMD = ["train", "--dataset", "smd", "--data", ".", "--window", "16"]
MSL = ["train", "--dataset", "msl", "--data", ".", "--window", "16"]
OWN = ["train", "--dataset", "x.npz"]
TIMES = ["spectrum", "mtan", "--times", "x.npy"]
ONCE_FAILED = {
    "times that are pointers": (
        lambda: put("x.npy", OBJECTS),
        TIMES,
        "'x.npy' holds an array (3,) of object; expected real numbers",
    ),
    "a table of pointers": (
        lambda: put("x.npy", npy_bytes(header("'|O'", "(3, 1)"), ADDRESSES)),
        ["spectrum", "x.npy"],
        "'x.npy' holds an array (3, 1) of object; a table has two axes, ",
    ),
    "pointers in an archive": (
        lambda: archive("x.npz", X=npy_bytes(header("'|O'", "(40, 1, 1)")), y=np.arange(40) % 2),
        OWN,
        "'x.npz' holds Python objects; save numbers, or names as np.array(names, dtype=str)",
    ),
    "a header without an end": (
        lambda: archive("x.npz", X=npy_bytes(b"{'descr': '<f8', "), y=np.arange(40) % 2),
        OWN,
        "'x.npz' is not a readable .npz file: its header does not describe an array; write it",
    ),
    "a recording without axes": (
        lambda: machine(train=np.array(1.5)),
        SMD,
        "machine-1-1, train: expected numbers of shape (n, channels); got float64 ()",
    ),
    "rows of structures": (
        lambda: machine(test=FIELDS),
        SMD,
        "'smd/machine-1-1.npz' holds 'test' (1200, 2) of void64; expected real numbers",
    ),
    "labels of structures": (
        lambda: machine(label=FIELDS[:, 0]),
        SMD,
        "'smd/machine-1-1.npz' holds 'label' (1200,) of void64; expected numbers or text of a",
    ),
    "labels that are no characters": (
        lambda: machine(label=npy_bytes(header("'<U1'", "(1200,)"), b"\xff" * 4800)),
        SMD,
        "'smd/machine-1-1.npz' is not a readable .npz file: it holds text that is not Unicode; do",
    ),
    "a channel without axes": (
        lambda: channel(test=np.array(1.5)),
        MSL,
        "A-1, test: expected numbers of shape (n, channels); got float64 ()",
    ),
    "a channel without an end": (
        lambda: channel(train=npy_bytes(b"{'descr': '<f8', 'shape': (1")),
        MSL,
        "'msl/train/A-1.npy' is not a readable .npy file: its header does not describe an array;",
    ),
    "events 5000 deep": (  # how deep a parser goes is Python's: 3.13 reads it, and sees no event
        lambda: channel("[" * 5000 + "]" * 5000),
        MSL,
        "'msl/labeled_anomalies.csv' is not a readable .csv file: ",
    ),
    "a field of 200,000 characters": (
        lambda: channel("x" * 200_000),
        MSL,
        "'msl/labeled_anomalies.csv' is not a readable .csv file: field larger than field limit (",
    ),
    "a channel elsewhere": (
        lambda: channel() or put("msl/labeled_anomalies.csv", ELSEWHERE),
        MSL,
        "MSL has no channel '../../x'; download it again",
    ),
    "an archive that is a pipe": (
        lambda: os.mkfifo("x.npz"),
        OWN,
        "'x.npz' is a pipe or a device; put a file there, to be read twice",
    ),
    "a .csv file of 40 GB": (
        lambda: lengthened("x.csv", 40 * 2**30),
        ["spectrum", "x.csv"],
        "'x.csv' gives more than 1073741824 bytes; write them to a .npy file",
    ),
    "a nested tensor": (
        lambda: torch_file(nested()),
        ["spectrum", "x.pt"],
        "'x.pt' holds 't' () of a nested tensor; a table has two axes, ",
    ),
    "a name that stands twice": (
        lambda: safetensors(b'{"a":%b,"a":%b}' % (PLACE, PLACE), 4),
        ["spectrum", "x.safetensors"],
        "'x.safetensors' is not a readable .safetensors file: a name stands twice in its header; ",
    ),
    "numbers of four bits": (
        lambda: safetensors(b'{"a":%b}' % PLACE.replace(b"F32", b"F4").replace(b"[1,", b"[8,"), 4),
        ["spectrum", "x.safetensors"],
        "'x.safetensors' holds 'a' (8, 1) of type F4; a table has two axes, ",
    ),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("name", ONCE_FAILED)
def test_what_once_failed_is_one_line(name, run):
    make, command, message = ONCE_FAILED[name]
    make()
    done = run(*command)
    assert (done.status, done.out) == (2, "")
    assert re.fullmatch(rf"pefourier: {re.escape(message)}.*\n", done.err), done.err


def test_what_once_failed_and_is_right_is_answered(run):
    """A recording in half precision, a file with the sign of an array in its name."""
    halves = {"train": ROWS.astype("f2"), "test": ROWS.astype("f2")}
    machine(**halves)
    few = [
        "-e",
        "none",
        "--epochs",
        "1",
        "--seeds",
        "1",
        "--folds",
        "1",
        "--d",
        "4",
        "--heads",
        "1",
    ]
    done = run(*SMD, *few, "--json")
    assert (done.status, done.results[0]["encoding"]) == (0, "none"), done.err
    assert "Warning" not in done.err
    assert run("encode", "dft", "--d", "4", "--out", "x#y.npy").status == 0
    assert run("compare", "x#y.npy", "dft:d=4").status == 0


def test_biases_whose_sigmoid_underflows_are_zero(run, tmp_path):
    """Drawn with a large scale, exp overflowed."""
    done = run("encode", "swin2:length=17,scale=16", "--out", tmp_path / "b.npy")
    assert (done.status, done.err) == (0, "")
    table = np.load(tmp_path / "b.npy")
    assert ((table >= 0) & (table <= 16)).all()
    assert (table == 0).any()
