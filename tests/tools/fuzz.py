"""Thousands of damaged and malicious inputs each end in an answer or in one error line.

`make fuzz` draws inputs until the time is up and watches for events that no file may cause (an
import, unpickling, a started program). It stops at the first input that ends in another way and
keeps its files; `draw` with the printed target and seed draws this input again. `make test-all`
draws 100 inputs of each target.

A target is a function of a generator, called in an empty working directory, that returns the fault
of its input's end or None; `ended` judges, `mutated` and `tampered` damage.
"""

import argparse
import copy
import io
import json
import operator
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import Event
from unittest import mock

import numpy as np
import torch
import torch.nested._internal.ops  # torch imports this module by itself at a later time
import typer
from published_configs import SMALL_LLAMA, sized
from safetensors.torch import save_file
from stored import (
    TABLE,
    gguf_bytes,
    llama_keys,
    npy_bytes,
    npy_file,
    npz_file,
    put,
    safetensors_bytes,
)
from tiny_models import write_model

from pefourier.api import positions
from pefourier.cli.main import main as run_command
from pefourier.cli.main import program
from pefourier.encodings import load
from pefourier.encodings.loader import open_model
from pefourier.encodings.registry import BUILDERS
from pefourier.encodings.sources import tables
from pefourier.errors import PefourierError
from pefourier.ids.batch import NAMES
from pefourier.questions.check_faithful import check_faithful
from pefourier.report import plot
from pefourier.report.forms import as_json
from pefourier.report.render import Answer, page_of
from pefourier.train.data.load import load_task
from pefourier.train.options import Options

SECONDS = 10  # limit of CPU time for an input
WARM = 20  # inputs of each target before watching
LONGEST = 3000  # limit of characters in an error line
TARGETS = {}
FORBIDDEN = {  # events of the interpreter that reading a file never causes
    *("pickle.find_class", "import", "exec", "code.__new__", "ctypes.dlopen", "socket.connect"),
    *("os.system", "os.exec", "os.fork", "os.posix_spawn", "subprocess.Popen"),
    *("os.mkdir", "os.remove", "os.rename", "shutil.rmtree"),
}
events = []  # forbidden events since reading began
watching = Event()
BYTES = [b"\xff" * 8, b"\0" * 8, b"-1", b"9" * 30, b"1000000000000", b"[", b"(", b"{", b"\n", b","]
BYTES += [b"nan", b"|O", b"<c16", b"True", b"PK\5\6", b"#", b"'", b'"', b"\x80\2", b"R", b".", b"t"]
ODD = [None, True, -1, 1.5, 7.5, 2**63, -(2**63), 10**400, np.nan, np.inf, "", "dft", "9" * 5000]
ODD += ["\0", "\x1b[31m", "\ud800", "é" * 999, "1e999", [], [0], ["x"], [[]], [None], [1, [2]]]
ODD += [[10**30], [0] * 99, {}, {"x": 1}, {"": []}]
VALUES = [*ODD, 0, 0.5, 1e308, -1e308]  # and values that any number may have


def target(function):
    """Register a target under the name of its function."""
    TARGETS[function.__name__] = function
    return function


def ended(act, sound=bool, named=""):
    """Return how an input's end is wrong, or None.

    `act` must return an answer for which `sound` holds, or raise a PefourierError in one line that
    contains `named`. It must not warn.
    """
    events.clear()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            watching.set()
            answer = act()
        wrong = None if sound(answer) else ("answer", repr(answer)[:300])
    except PefourierError as error:
        line = str(error)
        plain = named in line and "\n" not in line and len(line) < LONGEST
        wrong = None if plain else ("line", line[:300])
    except Exception as error:
        wrong = ("traceback", f"{type(error).__name__}: {error}"[:300])
    finally:
        watching.clear()
    return ("events", list(events)) if events else wrong


def watch():
    """Record forbidden events from now on."""
    mapped = np.memmap.__new__
    packages = {name.partition(".")[0] for name in sys.modules} | sys.stdlib_module_names

    def note(event, arguments):
        if not watching.is_set() or event not in FORBIDDEN:
            return
        if event == "import" and arguments[0].partition(".")[0] in packages:
            return  # torch and others load parts of themselves at their first use
        frame = sys._getframe()  # of a module being imported, whose name was judged before
        while frame and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
            frame = frame.f_back
        if frame is None or event not in {"exec", "code.__new__"}:
            events.append(f"{event} {arguments}"[:300])

    def plain(kind, stream, dtype, *rest):
        if np.dtype(dtype).hasobject:
            events.append(f"{dtype} is mapped")
        return mapped(kind, stream, dtype, *rest)

    np.memmap.__new__ = plain
    sys.addaudithook(note)


def mutated(rng, content):
    """Return the bytes with one to eight changes: bits flipped, bytes changed, cut or inserted."""
    data = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 2, 8])):
        start = rng.randrange(min(len(data), rng.choice([200, 10**6])) + 1)
        stop = min(len(data), start + rng.choice([1, 2, 8, 64]))
        flipped = bytes(byte ^ (1 << rng.randrange(8)) for byte in data[start : start + 1])
        piece, word = data[start:stop], rng.choice(BYTES)
        changes = [flipped + piece[1:], rng.randbytes(1), b"", piece * 3, word, word + piece]
        data[start:stop] = rng.choice(changes)
        if rng.random() < 0.1:
            del data[start:]
    return bytes(data)


def places(tree):
    """Return every object and list in a tree of JSON with each of its keys."""
    keys = tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    return [(tree, key) for key in keys] + [p for key in keys for p in places(tree[key])]


def alter(rng, tree, values):
    """Remove, rename, duplicate, replace or insert something in a tree of JSON."""
    holder, key = rng.choice(places(tree) or [([0], 0)])
    value, act = copy.deepcopy(rng.choice(values)), rng.random()
    if act < 0.15:
        del holder[key]
    elif act > 0.3:
        holder[key] = value
    elif isinstance(holder, dict):
        holder[f"{key}s"] = holder.pop(key)
    else:
        holder.append(copy.deepcopy(rng.choice([holder[key], value])))


def tampered(rng, text):
    """Return JSON with one to four changes, or sometimes with damaged bytes."""
    if rng.random() < 0.15:
        return mutated(rng, text)
    tree = json.loads(text)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        alter(rng, tree, VALUES)
    return json.dumps(tree).encode()


OF_TENSORS = [*VALUES, *range(0, 49, 4), "F64", "F32", "F16", "BF16", "U8", "F8_E4M3", "C64", "F4"]
DESCR = ["<f8", ">f4", "<f2", "|O", "<U3", "|S5", "|V8", "<M8[s]", "<c16", "<f16", "|b1", "<i8"]
DESCR += ["f8,O", "(2,)f8", "e", "p", [("a", "<f8"), ("b", "|O")], ("<f8", (2, 3)), "", "os", None]
WAYS = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]
AXES = [0, 1, 2, 3, 5, 6, 15, 40, -1, True, 2**20, 2**31, 2**62, 2**63, 10**30, 2.0, "3", None]


def forged(rng):
    """Return a .npy file of any type and shape, followed by some bytes."""
    axes = rng.choice([0, 1, 2, 2, 3, 40])
    shape = tuple(rng.choice(AXES[:8] if rng.random() < 0.8 else AXES) for _ in range(axes))
    header = repr({"descr": rng.choice(DESCR), "fortran_order": rng.random() < 0.2, "shape": shape})
    if rng.random() < 0.2:
        header = header.replace(rng.choice("{}()[]',:"), rng.choice(["", "((", "[" * 999]), 1)
    return npy_bytes(header.encode(), rng.randbytes(rng.choice([0, 8, 40, 120, 960])))


def safetensors_file(rng):
    """Return a .safetensors file whose header has other types, shapes and places of tensors."""
    whole = originals()["5.safetensors"]
    end = 8 + int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8:end])
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        alter(rng, header, OF_TENSORS)
    return safetensors_bytes(header, whole[end:])


@cache
def originals():
    """Return one valid file or more of each format."""
    with tempfile.TemporaryDirectory() as folder:
        for suffix in (".npy", ".npz", ".csv", ".safetensors"):
            tables.write_table(f"{folder}/0{suffix}", TABLE)
        tensor = torch.from_numpy(TABLE)
        np.savez_compressed(f"{folder}/1.npz", a=TABLE, b=TABLE[0])
        torch.save({"model": {"pe": tensor.bfloat16(), "b": tensor[0]}}, f"{folder}/2.pt")
        old = {"_use_new_zipfile_serialization": False}
        torch.save({"pe": tensor.half().T}, f"{folder}/3.pth", **old)
        torch.save({"pe": tensor, "s": torch.eye(3).to_sparse()}, f"{folder}/4.pt")
        save_file(
            {"pe": tensor, "codes": tensor.half(), "a": tensor[0].clone()},
            f"{folder}/5.safetensors",
        )
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def damaged(rng):
    """Write a damaged file of any format and return its path."""
    name = rng.choice(sorted(originals()))
    content = originals()[name]
    if name.endswith(".safetensors") and rng.random() < 0.7:
        content = safetensors_file(rng)
    elif name.endswith((".npy", ".npz")) and rng.random() < 0.5:
        content = forged(rng)
        if name.endswith(".npz"):
            content = npz_file({"codes": content, "a": forged(rng)}, rng.choice(WAYS))
    else:
        content = mutated(rng, content)
    put(f"m{name}", content)
    return f"m{name}"


@target
def tables_in_files(rng):
    """Read a damaged file: the end is a table, a row of numbers or a line that names the file."""
    path, key = damaged(rng), rng.choice([None, None, "pe", "model.pe", "codes", "a"])

    def sound(answer):
        table = answer[0] if isinstance(answer, tuple) else answer
        with np.errstate(all="ignore"):
            float(table.astype(float).sum())  # every number is readable
        return table.size > 0 and table.dtype in ("f8", "f4", "f2")

    wrong = ended(lambda: tables.read_table(path, key), sound, f"'{path}'")
    return wrong or ended(lambda: tables.read_numbers(path), sound, f"'{path}'")


class Call:
    """An object whose pickle calls a function."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


NO_GRADIENT = False
COUNTS = [0, 1, 2, 3, 5, 7, 100, -1, -2, 2**31, 2**62, 2**63 - 1, -(2**63)]
GADGETS = [os.system, exec, eval, import_module, subprocess.Popen, getattr, torch.load, open]
GADGETS += [operator.methodcaller, np.load, torch.hub.load, shutil.rmtree, print]


@target
def calls_in_pickles(rng):
    """Load unusual tensors, and pickles that call a program."""
    shape, strides = (tuple(rng.choices(COUNTS, k=rng.choice([1, 2, 2, 3]))) for _ in range(2))
    first, second = rng.choices([torch.ones(2, 3), torch.arange(4), torch.zeros(0)], k=2)
    sizes = torch.Size([max(0, min(10**9, axis)) for axis in shape])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        place = (torch.arange(12.0).storage(), rng.choice(COUNTS), shape, strides)
        calls = [
            Call(torch._utils._rebuild_tensor_v2, *place, NO_GRADIENT, {}),
            Call(torch._utils._rebuild_sparse_tensor, torch.sparse_coo, (first, second, sizes)),
            Call(torch._utils._rebuild_parameter, first, NO_GRADIENT, {}),
            Call(rng.choice(GADGETS), *rng.choice([("touch hacked",), ("hacked", "w"), ("os",)])),
        ]
        tree = {"a": rng.choice(calls), "b": torch.ones(2, 2)}
        torch.save(tree, "x.pt", _use_new_zipfile_serialization=rng.random() < 0.6)

    def read():
        with tables.open_arrays("x.pt") as file:
            for name in file.arrays:
                with suppress(PefourierError):
                    file.load(name)
        return True

    return ended(read, named="'x.pt'") or (["hacked"] if Path("hacked").exists() else None)


@target
def position_ids(rng):
    """Read position ids with masks, segments, grids and dumps of odd shapes and values."""
    draw = np.random.default_rng(rng.randrange(2**32))

    def numbers():
        shape = rng.choice([(7,), (2, 7), (3, 1, 7), (4, 2, 7), (1, 1, 7, 7), (), (0,), (2, 3)])
        array = draw.integers(-3, 12, shape)
        kinds = [np.int64, np.uint8, np.float32, np.float64, bool, np.int32]
        array = array.astype(rng.choice(kinds)) if rng.random() < 0.6 else array
        if array.dtype.kind == "f" and array.size and rng.random() < 0.4:
            array.flat[0] = rng.choice([np.nan, np.inf, 0.5, -np.inf, 2.0**60])
        return array

    names = [name for role in NAMES.values() for name in role]
    arrays = {
        rng.choice([*names, "x", "cos", "sin"]): numbers() for _ in range(rng.randrange(1, 5))
    }
    if rng.random() < 0.7:
        arrays["position_ids"] = np.tile(np.arange(7), (rng.choice([1, 2, 3]), 1))
    np.savez("b.npz", **arrays)
    Path("c.json").write_text(json.dumps(rng.choice(IDS_OF)))
    options = {
        "rank": rng.choice([None, None, "1/4", "x", "3/2"]),
        "config": rng.choice([None, "c.json"]),
    }
    options["length"] = rng.choice([None, 5])
    return ended(lambda: positions("b.npz", **options), lambda answer: bool(answer.verdict))


IDS_OF = [  # configs whose ids have other rules
    SMALL_LLAMA,
    *(sized(kind, 16, 1, 9) for kind in ("roberta", "opt")),
    {"model_type": "bloom", "hidden_size": 64, "n_head": 4},
]


@cache
def stored_answer():
    """Return the JSON that the command writes for an answer."""
    enc = load("rope:d=8", 20)
    return as_json(page_of([Answer(enc, check_faithful(enc))])).encode()


LLAMA = llama_keys(64, 4, 2, 64, **{"rope.freq_base": 1e4})
SCALED = ["llama.rope.scaling.type", "llama.rope.scaling.factor", "tokenizer.ggml.tokens"]


@target
def gguf_headers(rng):
    """Read a damaged GGUF file: the end is a rotation or a line that names the file."""
    keys = [*LLAMA.items()]
    for _ in range(rng.choice([0, 1, 2])):
        kind, value = rng.choice([4, 6, 7, 8, 9, 10, 12, rng.randrange(20)]), rng.randbytes(24)
        keys[rng.randrange(len(keys))] = (
            rng.choice([*LLAMA, *SCALED]),
            struct.pack("<I", kind) + value,
        )
    name = b"rope_freqs.weight"
    tensor = struct.pack("<Q", len(name)) + name
    tensor += struct.pack("<IQIQ", 1, 8, rng.choice([0, 0, 1, 99]), 0)
    counts = rng.choice([1, 1, 0, 2**62]), rng.choice([len(keys), len(keys), 2**40])
    body = gguf_bytes(keys, counts) + tensor
    body += bytes(-len(body) % 32) + np.ones(8, "<f4").tobytes()
    put("x.gguf", mutated(rng, body) if rng.random() < 0.4 else body)
    return ended(lambda: len(open_model("x.gguf").encoding(rng.choice([None, 9]))), named="x.gguf")


@target
def training_data(rng):
    """Read damaged recordings, examples and archives of SMD."""
    numbers = np.random.default_rng(rng.randrange(2**32))
    x = numbers.normal(size=(400, 2)).astype(rng.choice(["f4", "f8", "f2", ">f2", "i2", "?"]))
    label = (np.arange(400) % 40 < 4).astype(rng.choice(["u1", "f8", "?", "i8"]))
    name, window = rng.choice([("x.csv", 8), ("x.npz", 16), ("y.npz", None), ("smd", 16)])
    arrays = {"train": x[:200], "test": x, "label": label}
    if name == "y.npz":
        y = rng.choice([np.arange(40) % 2, np.array(["a", "b"] * 20), np.arange(40.0) % 3])
        arrays = {"X": numbers.normal(size=(40, 5, 2)), "y": y, "groups": np.arange(40) // 4}
    members = {key: npy_file(array) for key, array in arrays.items()}
    hit = rng.choice([*members, None])
    if hit:
        members[hit] = rng.choice([forged(rng), mutated(rng, members[hit])])
    content = npz_file(members, rng.choice(WAYS))
    if name == "x.csv":
        labels = rng.choice([["0", "1"], ["normal", "anomaly"], ["0.0", "1.0"], [""]])
        rows = [f"{a},{b},{labels[i % len(labels)]}" for i, (a, b) in enumerate(x[:60])]
        text = "\n".join([rng.choice(["a,b,label", "a,b,y", "x"]), *rows])
        content = text.replace(",", rng.choice([",", ",", ";", "\t"])).encode()
    content = mutated(rng, content) if rng.random() < 0.4 else content
    Path("smd").mkdir()
    put("smd/machine-1-1.npz" if name == "smd" else name, content)

    def sound(task):
        return task.rows.dtype == np.float32 and np.isfinite(task.rows).all() and task.folds

    return ended(lambda: load_task(name, Options(data=".", window=window)), sound)


NUMBERS = ["", " 5 ", "9" * 5000]
NUMBERS += (
    "0 1 2 3 5 7 8 16 64 -1 0.5 -0.25 1e1 1e9 1e15 1e308 1e309 5e-324 nan inf 0x10 1_0 ٣ 5;5 "
    "-1;0;0;1 ; 1,2 true None 9007199254740993"
).split()
TEXTS = ["", " ", "a\nb", "\0", "\x1b[31mred", "\u202egnp.", "\udcff", "a" * 5000]
TEXTS += (
    "位置😀 {0} $x$ _ .. / ~ * # : = ' $(id) - -- /dev/zero /nowhere/x sub loop.npy "
    "scaling-ignored base=1e6 turns 4x4 0x4"
).split()
OWN = {  # valid values of options, in addition to numbers and texts
    "--against": "scaling-ignored base=1e6 layout model codes.npy",
    "--for": "turns distance bound wavelength=2",
    "--grid": "4x4 2x3x4 1x16 0x4 4x",
    "--layers": "0-1 1 1-0",
    "--from": "2x8 4x4 16",
    "--to": "3x5 6x6 16 4096",
    "--stats": "stats.json",
    "--extend-from": "model config.json",
    "--out": "out.npy out.safetensors out.html out.csv out.exe",
    "--times": "times.csv codes.npy",
    "--pos": "3 0,5 3,4",
    "--baseline": "base.json codes.npy",
}
SPECS = (
    "codes.npy cut.npy model model/model.safetensors x.gguf config.json - rope:d=8 "
    "axial:grid=4x4,d=8 rope:scaling=yarn,factor=4,original=16,d=8 missing.npy py:math:sin "
    "py:nowhere:f zeros.npy"
).split()
SPECS.append("a\nb\x1b[31m.npy")
LONG = {"--plot", "--width", "--dpi", "--title"}  # options of figures, which take long
WORK = {"--length", "--d", "--lattice", "--to"}  # other sizes take long
COMMANDS = (
    "spectrum reconstruct check-faithful compare relations encode list context design resize "
    "usage explain"
).split()


@cache
def options_of(command):
    """Return each option of a command with its choices, or None for a flag."""
    params = typer.main.get_command(program()).commands[command].params
    return [
        (p.opts[0], None if p.is_flag else [*getattr(p.type, "choices", ())])
        for p in params
        if p.opts[0][0] == "-" and p.opts[0] not in LONG
    ]


def furnish(rng):
    """Write the files that `SPECS` and options name, and damage some files."""
    table = np.random.default_rng(rng.randrange(2**32)).normal(size=(16, 8))
    for name in ("codes.npy", "a\nb\x1b[31m.npy"):
        np.save(name, table)
    np.save("zeros.npy", np.zeros((5, 3)))
    np.savetxt("times.csv", np.cumsum(np.abs(table[:, 0])))
    write_model(Path("model"))
    put("cut.npy", mutated(rng, Path("codes.npy").read_bytes()))
    put("x.gguf", gguf_bytes(LLAMA.items()))
    stats = [{"layer": 0, "head": 0, "q_abs_mean": [1.0] * 4, "k_abs_mean": [1.0] * 4}]
    put("stats.json", tampered(rng, json.dumps(stats).encode()))
    put("base.json", tampered(rng, stored_answer()))
    config = Path("model/config.json").read_bytes()
    put("config.json", tampered(rng, config))
    if rng.random() < 0.3:
        put("model/config.json", tampered(rng, config))
    elif rng.random() < 0.2:
        put("model/model.safetensors", mutated(rng, Path("model/model.safetensors").read_bytes()))


def spec_of(rng):
    """Draw a file, or a registered encoding with parameters of any value."""
    if rng.random() < 0.5:
        return rng.choice(SPECS)
    name = rng.choice(list(BUILDERS))
    keys = rng.sample([*BUILDERS[name].parameters, "length", "d"], rng.choice([0, 1, 2]))
    return f"{name}:" + ",".join(f"{key}={rng.choice([*NUMBERS, *TEXTS])}" for key in keys)


def value_of(rng, name, choices):
    """Draw a valid or an invalid value of an option."""
    values = choices or OWN.get(name, "").split()
    if values and rng.random() < 0.9:
        return rng.choice(values)
    return rng.choice(["4", "8", "12", "33"] if name in WORK and rng.random() < 0.9 else NUMBERS)


def printed(words):
    """Return exit status, output and errors of a command."""
    out, err = io.StringIO(), io.StringIO()
    stdin, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(b"1,0\n0,1\n"))
    try:
        with redirect_stdout(out), redirect_stderr(err):
            return run_command(words), out.getvalue(), err.getvalue()
    finally:
        sys.stdin = stdin


@target
def command_lines(rng):
    """Run any command that analyses, with its options, on files of which some are damaged."""
    furnish(rng)
    before = {*Path().iterdir()}
    command = rng.choice(COMMANDS)
    count = {"usage": 1, "resize": 1, "encode": 1, "design": 0}.get(command, 2)
    required = {"resize": ["--from", "--to"], "encode": ["--out"], "design": ["--length", "--d"]}
    words = [command, *(spec_of(rng) for _ in range(count))]
    drawn = rng.sample(options_of(command), rng.choice([0, 0, 1, 1, 2]))
    drawn += [option for option in options_of(command) if option[0] in required.get(command, ())]
    for name, values in drawn:
        words += [name] if values is None else [name, value_of(rng, name, values)]
    words += [rng.choice(TEXTS)] * (rng.random() < 0.1)
    status, out, err = printed(words)
    wrapper = r"(?m)^from .*\ndef .*\n    return .*\n?"  # for functions with another signature
    lines = re.sub(wrapper, "", err).splitlines()
    plain = all(line.startswith("pefourier: ") and len(line) < LONGEST for line in lines)
    texts = "".join((*lines, *out.split("\n")))
    files = {path.name for path in {*Path().iterdir()} - before if path.name not in words}
    plain = plain and texts.isprintable() and (status != 2 or lines)
    if status in (0, 1, 2) and plain and not files:
        return None
    return ("command", words, status, err[-300:], sorted(files))


TRAIN = (
    "train --dataset order:count=20,length=4 --steps 1 --seeds 2 --d 8 --heads 2 -e none -e dft "
    "--quiet --resume --json --out"
).split()


def trained(folder):
    """Return exit status, results without the times of runs, and errors of a small training."""
    with mock.patch.object(plot, "save"):
        status, out, err = printed([*TRAIN, str(folder)])
    rows = json.loads(out)["results"] if out else []
    return status, [row | {"step_seconds": None} for row in rows], err


@cache
def results():
    """Return a folder of results, and its answer."""
    folder = Path(tempfile.mkdtemp(), "whole")
    return folder, trained(folder)


@target
def folders_of_results(rng):
    """Continue from damaged results: the end is the answer of the whole folder, or a line.

    Numbers changed within their range are not tried, because no program can detect them.
    """
    shutil.copytree(results()[0], "out")
    file = Path("out", rng.choice(["config.json", "results.jsonl"]))
    content = file.read_bytes()
    rows = [
        json.loads(row) for row in (content.splitlines() if file.suffix[-1] == "l" else [content])
    ]
    alter(rng, rng.choice(rows), ODD)
    before, after = content[: (at := rng.randrange(len(content)))], content[at:]
    high = bytes(rng.choices(range(128, 256), k=3))
    damaged = [before, after, before + high + after, b"[" * 100_000, content + content]
    altered = "".join(json.dumps(row) + "\n" for row in rows).encode()
    put(file, altered if rng.random() < 0.8 else rng.choice(damaged))
    status, found, err = trained("out")
    plain = (status, found, err.count("\n")) == (2, [], 1) and len(err) < 800
    return None if plain or (status, found) == results()[1][:2] else ("folder", status, found, err)


def draw(name, seed):
    """Return the fault of a seed's input and keep its folder, or return None."""
    folder = tempfile.mkdtemp(prefix=f"fuzz-{name}-")
    with chdir(folder):
        begun = time.process_time()
        wrong = TARGETS[name](random.Random(f"{name} {seed}"))
        seconds = time.process_time() - begun
    if seconds > SECONDS:
        wrong = wrong or ("slow", f"{seconds:.1f} s")
    if wrong:
        return (*wrong, f"seed {seed}, files in {folder}")
    shutil.rmtree(folder)
    return None


def run(seconds):
    """Draw inputs of all targets round by round; return status 1 at the first fault."""
    seed, stop, count = time.time_ns() % 2**32, time.monotonic() + seconds, 0
    while time.monotonic() < stop or count <= WARM:
        if count == WARM:  # imports at first use are done
            watch()
        for name in TARGETS:
            wrong = draw(name, f"{seed} {count}")
            if wrong:
                print(name, *wrong, sep=": ")
                return 1
        count += 1
    print(f"seed {seed}: {count} of each, nothing found")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3600, help="how long to draw")
    sys.exit(run(parser.parse_args().seconds))
