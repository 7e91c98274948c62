"""Rough handling: any command line ends in an answer or in one line, and leaves nothing behind.

`command_line` draws command lines from a grammar of everything a user can type, sensible and not;
`trouble` runs one in this process and says what is wrong with how it ended. The tests below the
fuzz keep what it found in its first 100,000 inputs; `test_process` has what only a process of its
own can show.
"""

import contextlib
import io
import json
import os
import random
import re
import sys
import time
from itertools import pairwise

import numpy as np
import pytest

from pefourier.cli.main import main
from pefourier.encodings.registry import ALIASES, BUILDERS
from pefourier.encodings.sources.tables import write_table
from pefourier.encodings.sources.writers import WRITERS

SECONDS = 5  # of CPU time: other programs may be running
# Either small or beyond every limit: what lies between is work that was asked for
NUMBERS = [
    *("0", "1", "2", "3", "5", "7", "8", "16", "17", "64", "-1", "-5", "+5", "5.0", "0.5", "-0.25"),
    *("1e1", "1e9", "1e12", "1e15", "1e308", "1e309", "5e-324", "1e-3", "10000", "-1e300"),
    *("nan", "-nan", "inf", "-inf", "NaN", "infinity", "0x10", "1_0", "٣", "²", "", " ", " 5 "),
    *("5;5", "0.7;0.9", "-1;0;0;1", "-1", ";", ";;5", "1,2", "2**20", "true", "False", "None"),
    *("999999999999", "4294967295", "9007199254740992", "9007199254740993", "9" * 20, "9" * 5000),
]
PLAIN = ["0", "1", "2", "3", "5", "7", "8", "16", "17", "32", "0.5", "1e1", "100"]
WHOLE = ["1", "2", "4", "7", "8", "12", "16", "32", "33", "64", "128"]
TEXTS = [
    *("", " ", "\n", "a\nb", "\r", "\t", "\0", "\x1b[31mred\x1b[0m", "\x7f", "\x9b1m", "\u2028"),
    *("\u202egnp.", "\udcff", "\ud800", "é", "e\u0301", "位置", "😀", "\ufeff", "%s%n", "{0}"),
    *(
        "$x$",
        "$\\frac$",
        "_",
        "__class__",
        "..",
        ".",
        "/",
        "//",
        "~",
        "*",
        "#",
        "##",
        ":",
        "::",
        ",",
    ),
    *("=", ";", "a" * 300, "a" * 5000, "é" * 2000, "'", '"', "\\", "|", "$(id)", "-", "--", "---"),
    *("/dev/null", "/dev/zero", "/proc/self/mem", "/nowhere/x", "sub", "sub/", "loop.npy"),
]
OPTIONS = {
    "spectrum": ["--lattice", "--sigma", "--method"],
    "reconstruct": ["--lattice", "--sigma", "--method", "--pos", "--pos"],
    "check-faithful": ["--require", "--require-dtype", "--strict", "--baseline"],
    "compare": [],
    "relations": [],
    "encode": ["--pos", "--positions", "--out"],
    "list": [],
}
SHARED = [
    "--d",
    "--length",
    "-S",
    "--rho",
    "--seed",
    "--json",
    "--csv",
    "--quiet",
    "--times",
    "--format",
]
FLAGS = {"--json", "--csv", "--quiet", "--strict"}
CHOICES = {
    "--method": ["auto", "declared", "periodogram"],
    "--format": ["text", "json", "csv", "github", "sarif", "md", "latex"],
    "--require": ["collides", "injective", "invertible", "isometric"],
    "--require-dtype": ["float32", "float16:computed", "bf16", "float8_e4m3"],
}
CODE = [
    "math:pi",
    "math:sin",
    "user:table",
    "user:",
    "user:none",
    "nowhere:f",
    "user:bad",
    "user:leave",
    "ends:f",
    "",
    ":",
]
USER = """
import numpy as np
def table(length, d): return np.eye(length, d)
def bad(length, d): raise RuntimeError("a\\nb\\x1b[31m")
def leave(length, d): raise SystemExit(0)
none = None
"""
ODD_JSON = [None, True, False, 0, 1, 2, 8, 64, -1, 0.5, 1e9, 1e300, 10**30, "", "a\nb", [], {}, [1]]
CONFIG = {
    "model_type": ["llama", "gpt2", "bert", "bloom", "t5", "whisper", "roberta", "gemma3", "mpt"],
    "hidden_size": [64, 63, 1],
    "d_model": [64],
    "num_attention_heads": [4, 3, 128],
    "head_dim": [16, 15],
    "max_position_embeddings": [32, 2048],
    "rope_theta": [1e4, 1, 0.5],
    "partial_rotary_factor": [0.5, 0.01],
    "rope_type": ["yarn", "llama3", "longrope", "linear", "dynamic", "default", "proportional"],
    "factor": [2.0, 0.5],
    "original_max_position_embeddings": [16],
    "long_factor": [[1.0] * 8, [1.0] * 32],
    "short_factor": [[1.0] * 8, [1.0] * 32],
    "position_embedding_type": ["absolute", "rotary"],
    "pad_token_id": [1],
}
SECTIONS = ["rope_scaling", "rope_parameters", "text_config", "attn_config", "full_attention"]


def odd_number(rng):
    return rng.choice(PLAIN if rng.random() < 0.7 else NUMBERS)


def odd_value(rng):
    return odd_number(rng) if rng.random() < 0.85 else rng.choice(TEXTS)


def parameters(rng, name):
    """key=value,… of a registered encoding, mostly with its own keys."""
    own = {key: p.annotation for key, p in BUILDERS[name].parameters.items()} if name else {}
    keys = ["length", "length", "d", "d", *own, *own, *own, *ALIASES]
    pairs = []
    for key in rng.sample(keys, rng.choice([0, 0, 1, 1, 2, 3])):
        key = key if rng.random() < 0.97 else rng.choice(TEXTS)
        choices = getattr(own.get(key), "__args__", ())
        literal = [c for c in choices if isinstance(c, str)]
        value = rng.choice(literal) if literal and rng.random() < 0.8 else odd_value(rng)
        pairs.append(key + ("=" if rng.random() < 0.97 else rng.choice(["", "=="])) + value)
    return (":" if rng.random() < 0.97 else rng.choice("#=")) + ",".join(pairs) if pairs else ""


def spec(rng):
    kind = rng.random()
    if kind < 0.6:
        name = rng.choice(list(BUILDERS))
        return name + parameters(rng, name)
    if kind < 0.85:
        key = rng.choice(["", "", "", "#", "#a", "#codes", "#pe", "#" + rng.choice(TEXTS)])
        return rng.choice(FILES) + key
    if kind < 0.9:
        return "py:" + rng.choice(CODE)
    return rng.choice(TEXTS) + rng.choice(["", ":d=4", ".npy", ".json", "#" + rng.choice(TEXTS)])


def option(rng, name, plots):
    """An option with a value of a kind it takes, or of another."""
    if name in FLAGS:
        return [name]
    if name in CHOICES and rng.random() < 0.8:
        return [name, rng.choice(CHOICES[name])]
    if name in ("--pos", "--positions"):
        many = [odd_number(rng) for _ in range(rng.choice([1, 2, 3]))]
        return [name, *many] if rng.random() < 0.5 else [name, ",".join(many)]
    if name == "--baseline":
        return [name, rng.choice(FILES)]
    if name == "--times":
        return [name, rng.choice(["times.csv", "times.npy", rng.choice(FILES)])]
    if name in ("--out", "--plot"):
        suffixes = [*WRITERS, *WRITERS, ".NPY", ".exe", ""]
        drawn = [".png", ".svg", ".pdf"] if plots else [".jpg"]
        stem = rng.choice(["out", "out", "sub/out", rng.choice(TEXTS)])
        return [name, stem + rng.choice(suffixes if name == "--out" else drawn)]
    whole = name in ("--d", "--length", "-S", "--seed", "--lattice") and rng.random() < 0.7
    return [name, rng.choice(WHOLE) if whole else odd_value(rng)]


def command_line(rng):
    """A command with SPECs and options in any order."""
    command = rng.choice(list(OPTIONS) if rng.random() < 0.2 else list(OPTIONS)[:-1])
    if rng.random() < 0.02:
        return [rng.choice(TEXTS), *rng.sample(TEXTS, 2)]
    count = {"encode": 1, "compare": 2}.get(command) or rng.choice([0, 1, 1, 1, 2])
    parts = [[spec(rng)] for _ in range(count)]
    plots = rng.random() < 0.03
    names = rng.sample([*OPTIONS[command], *SHARED], rng.choice([0, 1, 1, 2, 3]))
    names = [name for name in names if command != "encode" or name != "--csv"]
    names += ["--out"] * (command == "encode" and "--out" not in names)
    names += ["--plot"] * (plots or rng.random() < 0.02)
    parts += [option(rng, name, plots) for name in names]
    if rng.random() < 0.03:
        parts.append([rng.choice(["--", "-x", "--nothing", "--d=3", "--d=", "--help", "-h"])])
    rng.shuffle(parts)
    return [command, *(word for part in parts for word in part)]


def config(rng, depth=0):
    """A JSON object of the keys that configs have, with values of their kind and of others."""
    found = {}
    for key in rng.sample(list(CONFIG), rng.choice([1, 3, 6, 10])):
        usual = rng.random() < 0.85
        found[key] = rng.choice(CONFIG[key] if usual else ODD_JSON)
    for key in rng.sample(SECTIONS, rng.choice([0, 0, 1, 2])):
        usual = depth < 3 and rng.random() < 0.85
        found[key] = config(rng, depth + 1) if usual else rng.choice(ODD_JSON)
    return found


def put(path, content):
    with open(path, "wb") as stream:
        stream.write(content if isinstance(content, bytes) else content.encode())


def furnish(rng):
    """Small files of every kind in the working directory; their names."""
    table = np.random.default_rng(0).normal(size=(6, 4))
    for suffix in WRITERS:
        write_table("codes" + suffix, table)
    np.save("a\nb\x1b[31m.npy", table)
    np.save("_$\\frac$.npy", table)
    np.save(os.fsdecode(b"\xff.npy"), table)
    np.save("位置😀.npy", table)
    np.save("zeros.npy", np.zeros((5, 3)))
    np.save("ones.npy", np.ones((5, 3), np.float32))
    np.save("one.npy", np.ones((1, 1)))
    np.save("huge.npy", np.full((3, 3), 1e308) * [[1], [-1], [0.5]])
    np.save("tiny.npy", np.full((3, 3), 5e-324) * [[1], [2], [0]])
    np.save("half.npy", table.astype(np.float16))
    np.save("times.npy", np.cumsum(np.abs(table[:, 0])))
    np.savez("two.npz", a=table, **{"b\nc": table})
    nan = np.array([[0x7FF8000000000001, 0x7FF0000000000001], [0, 1]], np.uint64).view(float)
    np.save("nan.npy", nan)
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 4), }\n"
    put("rows.npy", b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header)
    put("times.csv", "0\n0.5\n3\n3.5\n9\n")
    put("text.csv", "a\nb\x1b[31m\n")
    put("empty.npy", b"")
    put("user.py", USER)
    put("ends.py", "import sys\nsys.exit(0)\n")
    put("deep.json", '{"text_config":' * 800 + "{}" + "}" * 800)
    put("deeper.json", "[" * 100_000)
    os.mkdir("sub")
    os.mkfifo("pipe.fifo")
    os.symlink("loop.npy", "loop.npy")
    put("sub/config.json", json.dumps(config(rng)))
    for count in range(12):
        put(f"{count}.json", json.dumps(config(rng)))
    return [
        *sorted(set(os.listdir()) - {"pipe.fifo", "user.py", "ends.py"}),
        "-",
        "missing.npy",
        "sub/x.csv",
    ]


FILES = []  # names of the files that `furnish` made


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return tmp_path


class Stdin:
    def __init__(self, content):
        self.buffer = io.BytesIO(content)


def run(arguments):
    """Exit status, standard output and standard error as an installed command would give them."""
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", newline="", errors=e) for e in ERRORS]
    old, sys.stdin = sys.stdin, Stdin(b"1,0\n0,1\n")
    try:
        with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
            status = main(arguments)
    finally:
        sys.stdin = old
    for stream in streams:
        stream.flush()
    return status, *(stream.buffer.getvalue().decode() for stream in streams)


ERRORS = ("strict", "backslashreplace")  # of stdout and stderr


def trouble(arguments):
    """What is wrong with the end of a command line; None where nothing is."""
    before, start = listing(), time.process_time()
    status, out, err = run(arguments)
    seconds = time.process_time() - start
    named = [b for a, b in pairwise(arguments) if a in ("--out", "--plot")]
    left = {path for path in listing() - before if path not in map(os.path.normpath, named)}
    wrong = {
        "status": status not in (0, 1, 2),
        "left behind": left or (status == 2 and not out and listing() != before),
        "not one line": status == 2 and not one_line_each(err, len(words_of(arguments))),
        "output beside an error": status == 2 and out and not partly_answered(arguments, out),
        "control character": not printable(err) or not printable(out),
        "JSON": status != 2 and "--json" in arguments and unread(out),
        "slow": seconds > SECONDS,
    }
    found = [name for name, broken in wrong.items() if broken]
    for path in listing() - before:
        os.unlink(path)
    return (found, status, out[-300:], err[-300:], seconds) if found else None


def words_of(arguments):
    """The arguments that may be SPECs: a command's name is not."""
    return [word for word in arguments[1:] if not word.startswith("--")]


def one_line_each(err, most):
    """An error is one line; of several SPECs that are refused each may have its own.

    Below one that asks for a wrapper stand the three lines to paste.
    """
    lines = re.sub(r"(?m)^import .*\ndef .*\n    return .*\n?", "", err).splitlines()
    return 1 <= len(lines) <= max(most, 1) and all(line[:11] == "pefourier: " for line in lines)


def partly_answered(arguments, out):
    """Some SPECs were answered beside others that were refused; forms for programs tell of all."""
    named = [b for a, b in pairwise(arguments) if a == "--format"]
    if named == ["github"]:
        return any(line.startswith("::error ") for line in out.splitlines())
    if named == ["sarif"]:
        return "error" in [one["level"] for one in json.loads(out)["runs"][0]["results"]]
    if "--json" not in arguments:
        return len(words_of(arguments)) > 1
    refused = [set(result) == {"spec", "error"} for result in json.loads(out)["results"]]
    return any(refused) and not all(refused)


def listing():
    return {
        os.path.normpath(os.path.join(folder, name))
        for folder, _, names in os.walk(".")
        for name in names
    }


def printable(text):
    return all(character.isprintable() for character in text.replace("\n", ""))


def unread(text):
    return text.startswith("{") and not isinstance(json.loads(text)["results"], list)


@pytest.mark.parametrize(
    "seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 10))]
)
def test_any_command_line_ends_in_an_answer_or_in_one_line(seed):
    """100 command lines a seed."""
    rng = random.Random(seed)
    FILES[:] = furnish(rng)
    for count in range(100):
        arguments = command_line(rng)
        assert trouble(arguments) is None, (seed, count, arguments)


REACH = "the largest must be between 1e-100 and 1e+100 in size: scale them"
LIMIT = "numbers, the limit is 33554432; choose a smaller length or d, or fewer positions"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("spectrum huge.npy", f"the codes of 'huge.npy' reach 1e+308; {REACH}"),
        ("compare tiny.npy dft", f"the codes of 'tiny.npy' reach 9.88e-324; {REACH}"),
        ("spectrum t5:scale=1e308", f"the codes of 't5:scale=1e308' reach inf; {REACH}"),
        ("spectrum erpe:scale=1e300", f"the codes of 'erpe:scale=1e300' reach 3.08e+300; {REACH}"),
        (
            "spectrum sinusoidal:rho=5e-324",
            f"the codes of 'sinusoidal:rho=5e-324' reach nan; {REACH}",
        ),
        (
            "spectrum tree:parents=99999999999999999999",
            "tree:parents must be a whole number up to 2^53; got '99999999999999999999'",
        ),
        ("spectrum erpe:d=1e15", "d must be a whole number up to 2097152; got 1000000000000000"),
        (
            "spectrum recurrent:length=1e12",
            "length must be a whole number up to 67108864; got 1000000000000",
        ),
        (
            "spectrum --lattice 67108865",
            "lattice must be a whole number up to 67108864; got 67108865",
        ),
        ("spectrum shaw:clip=1e9", f"shaw would hold 2000000001 × 256 {LIMIT}"),
        ("spectrum tupe -S 40000 --d 8", f"a table of 'tupe' would hold 40000 × 40000 {LIMIT}"),
        (
            "spectrum --sigma 5e-324",
            "sigma must be 0, which does not smooth, or 0.02 lattice steps or more, which reach "
            "the nearest point; got 5e-324",
        ),
        (
            "encode erpe --positions 80 --out x.npy",
            "position 80 is outside 0 … 79, the positions erpe has a code for",
        ),
        (
            "list \ufeff",
            "unknown encoding '\\ufeff'. 'pefourier list' shows all, 'explain' other words.",
        ),
        (
            "spectrum py:ends:f",
            "cannot import 'ends' from the working directory: it raised SystemExit: '0'; "
            "--debug shows where",
        ),
        (
            "spectrum py:user:leave",
            "'py:user:leave', called for length 80, d 256, raised SystemExit: '0'; "
            "--debug shows where",
        ),
    ],
    ids=lambda text: text[:40],
)
def test_what_was_a_traceback_or_took_the_memory_is_one_line(command, message):
    furnish(random.Random(0))
    assert run(command.split()) == (2, "", f"pefourier: {message}\n")


@pytest.mark.parametrize("sigma", ["1e308", "0.02"])
def test_extreme_bandwidths_give_a_density(sigma):
    """Flat where all is smoothed away; where nothing is, the lattice point beside the frequency."""
    status, out, _ = run(["spectrum", "dft", "--d", "8", "--sigma", sigma, "--json"])
    (result,) = json.loads(out)["results"]
    expected = np.full(5, 0.2) if sigma == "1e308" else np.array([1, 2, 2, 2, 1]) / 8
    assert status == 0
    np.testing.assert_allclose(result["density"], expected, rtol=1e-15)


def test_a_base_that_is_not_used_is_not_raised_to_a_power():
    _, out, err = run(["spectrum", "learnable-sinusoidal:rho=-3", "--json"])
    assert json.loads(out)["results"][0]["summary"]["lowest_bin_index"] is None
    assert err == ""


def test_memory_that_cannot_be_had(monkeypatch):
    def greedy(*_):
        raise MemoryError("Unable to allocate 7 TiB")

    monkeypatch.setattr(sys.modules["pefourier.questions.spectrum"], "density", greedy)
    told = "(Unable to allocate 7 TiB); try a smaller --length, --d or --lattice"
    assert run(["spectrum"]) == (2, "", f"pefourier: not enough memory {told}\n")


ODD_NAMES = [
    "$x$ $.npy",
    "_$\\frac$.npy",
    "位置😀.npy",
    "a\nb\x1b[31m.npy",
    os.fsdecode(b"\xff.npy"),
]


@pytest.mark.parametrize("command", ["spectrum", "reconstruct", "check-faithful", "encode"])
def test_figures_of_odd_names_and_of_zeros(command):
    """Shown as they are: no formula, no hidden entry, no missing letter and no warning."""
    own = {"reconstruct": ["--lattice", "8", "--pos", "1"], "encode": ["--out", "x.npy"]}
    for name in ODD_NAMES:
        np.save(name, np.eye(3))
    for names in [[name] for name in ODD_NAMES] if command == "encode" else [ODD_NAMES]:
        status, _, err = run([command, *names, "--plot", "x.svg", *own.get(command, [])])
        assert (status, err) == (0, "")
        with open("x.svg", encoding="utf-8") as figure:
            drawn = figure.read()
        for name in names:
            assert (name if name.isprintable() else ascii(name)[1:-1]) in drawn
    status, _, err = run([command, "none", "--plot", "x.png", *own.get(command, [])])
    assert (status, err) == (0, "")
