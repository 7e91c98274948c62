"""Inputs by the thousand, damaged and malicious: each ends in an answer or in one line.

`make fuzz` or ``python tests/fuzz.py --seconds 3600`` draws inputs until the time is up, watches
for what no file may cause (an import, unpickling, a program that is started), and stops at the
first input that ends in another way; its files are kept. `make test` draws 100 of each, and
`make test-all` 900 more.

A target is a function that is given a generator, in an empty working directory, and says what is
wrong with how its input ended, if anything. Files fuzz_*.py beside this one register theirs with
`@fuzz.target`; `ended` judges, `mutated` damages.
"""

import argparse
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np

from pefourier.errors import PefourierError

SECONDS = 10  # of CPU time an input may take
WARM = 20  # inputs of each target before one watches
LONGEST = 3000  # characters of a line
Target = Callable[[random.Random], object]
TARGETS: dict[str, Target] = {}
FORBIDDEN = {  # events of the interpreter that reading a file never causes
    *("pickle.find_class", "import", "exec", "code.__new__", "ctypes.dlopen", "socket.connect"),
    *("os.system", "os.exec", "os.fork", "os.posix_spawn", "subprocess.Popen"),
    *("os.mkdir", "os.remove", "os.rename", "shutil.rmtree"),
}
events: list[str] = []  # of these, since reading began
watching = False
WORDS = [b"\xff" * 8, b"\0" * 8, b"-1", b"9" * 30, b"1000000000000", b"[", b"(", b"{", b"\n", b","]
WORDS += [b"nan", b"|O", b"<c16", b"True", b"PK\5\6", b"#", b"'", b'"', b"\x80\2", b"R", b".", b"t"]


def target(function: Target) -> Target:
    """Register a target under the name of its function."""
    TARGETS[function.__name__] = function
    return function


def load_targets() -> dict[str, Target]:
    """All targets by name."""
    for path in sorted(Path(__file__).parent.glob("fuzz_*.py")):
        import_module(path.stem)
    return TARGETS


def ended(
    act: Callable[[], object], sound: Callable[[object], bool] = bool, named: str = ""
) -> object:
    """What is wrong with how an input ends, None where nothing is.

    `act` gives an answer that is `sound`, or raises a PefourierError in one line that has `named`
    in it; it warns of nothing.
    """
    global watching
    events.clear()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            watching = True
            answer = act()
        wrong = None if sound(answer) else ("answer", repr(answer)[:300])
    except PefourierError as error:
        line = str(error)
        plain = named in line and "\n" not in line and len(line) < LONGEST
        wrong = None if plain else ("line", line[:300])
    except Exception as error:
        wrong = ("traceback", f"{type(error).__name__}: {error}"[:300])
    finally:
        watching = False
    return ("events", list(events)) if events else wrong


def importing() -> bool:
    """Whether a module is being imported, whose name was judged when that began."""
    frame = sys._getframe()
    while frame and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    return frame is not None


def watch() -> None:
    """Note from now on what reading a file causes that it must not."""
    mapped = np.memmap.__new__
    packages = {name.partition(".")[0] for name in sys.modules} | sys.stdlib_module_names

    def note(event: str, arguments: tuple) -> None:
        if not watching or event not in FORBIDDEN:
            return
        if event == "import" and arguments[0].partition(".")[0] in packages:
            return  # torch and others load parts of themselves when these are first used
        if event not in {"exec", "code.__new__"} or not importing():
            events.append(f"{event} {arguments}"[:300])

    def plain(kind: type, stream: object, dtype: np.dtype, *rest: object) -> np.memmap:
        if np.dtype(dtype).hasobject:
            events.append(f"{dtype} is mapped")
        return mapped(kind, stream, dtype, *rest)

    np.memmap.__new__ = plain
    sys.addaudithook(note)


def mutated(rng: random.Random, content: bytes) -> bytes:
    """The bytes with one to eight bits flipped, bytes changed, cut, repeated or put in."""
    data = bytearray(content)
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


def draw(name: str, seed: object) -> object:
    """What is wrong with how the input of a seed ends, in a folder that is kept where it is."""
    home, folder = os.getcwd(), tempfile.mkdtemp(prefix=f"fuzz-{name}-")
    os.chdir(folder)
    try:
        begun = time.process_time()
        wrong = TARGETS[name](random.Random(f"{name} {seed}"))
        seconds = time.process_time() - begun
    finally:
        os.chdir(home)
    if seconds > SECONDS:
        wrong = wrong or ("slow", f"{seconds:.1f} s")
    if wrong:
        return (*wrong, f"seed {seed}, files in {folder}")
    shutil.rmtree(folder)
    return None


def run(names: list[str], seed: int, seconds: float) -> int:
    """Draw inputs of each target in turn; exit status 1 at the first that ends badly."""
    tallies, stop = Counter(dict.fromkeys(names, 0)), time.monotonic() + seconds
    while time.monotonic() < stop or min(tallies.values()) <= WARM:
        if tallies[names[0]] == WARM:  # what is imported where it is first used has been
            watch()
        for name in names:
            wrong = draw(name, f"{seed} {tallies[name]}")
            if wrong:
                print(name, *wrong, sep=": ")
                return 1
            tallies[name] += 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(f"seed {seed}: {dict(tallies)}, nothing found; {peak:.0f} MiB of memory at most")
    return 0


def main() -> int:
    """Read the options and run."""
    targets = load_targets()
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3600, help="how long to draw")
    parser.add_argument(
        "--seed", type=int, default=time.time_ns() % 2**32, help="default: the time"
    )
    parser.add_argument("--only", action="append", choices=list(targets), help="targets, not all")
    given = parser.parse_args()
    return run(given.only or list(targets), given.seed, given.seconds)


if __name__ == "__main__":
    import fuzz  # the module that targets register with, not this copy of it

    sys.exit(fuzz.main())
