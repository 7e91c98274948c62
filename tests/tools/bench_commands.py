"""CPU time of commands relative to fixed NumPy work: `make bench ONLY=commands`, CHECK=1.

A command's ratio is its CPU seconds over those of `ruler`, measured just before it on one thread,
which makes ratios comparable between machines and hours. The median of three runs is stored in
figures/bench.json, beside `limit`, the ratio of the numpy work that the command cannot avoid. Peak
memory is at least that of this program, which starts the command. A check names the commands whose
fastest of up to three runs, each with a separate ruler, is `SLOWER` times the stored ratio, and
those that take over `MORE` times as long as at the commit before, by medians of pairs of runs.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from published_configs import PUBLISHED

RUNS = 3
SLOWER = 1.3  # times the stored ratio: the command has become slower
FAR = 10  # times the limit: the table says why
PAIRS, MORE = 5, 1.1  # runs of a command now and at a commit before, and the largest ratio
ROOT = Path(__file__).parents[2]
CONFIG = PUBLISHED["meta-llama/Llama-3.1-8B"] | {"num_hidden_layers": 32}
WORK = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
START = "import numpy as np; eig = lambda n: np.linalg.eigvalsh(np.random.random((n, n)))"
NOT_CALLED, WHY = WORK.pop("not_called"), WORK.pop("why")
COMMANDS = list(WORK)
WARMING = ("list", "train --plan", "compare config.json model.gguf")  # compile the bytecode


def ruler():
    """Return the CPU seconds of fixed NumPy work: products, sines and a sort."""
    rng = np.random.default_rng(0)
    square, line = rng.standard_normal((700, 700)), rng.standard_normal(2**20)
    start = time.process_time()
    for _ in range(4):
        (square @ square).sum()
        np.sin(line).sum()
        np.sort(line)
    return time.process_time() - start


def write_inputs(folder):
    """Write the files that commands read: a table, configs, a dump, ids and weights."""
    from safetensors.numpy import save_file
    from stored import gguf_bytes, llama_keys

    rng = np.random.default_rng(0)
    np.save(folder / "table.npy", rng.standard_normal((4096, 768), dtype=np.float32))
    np.save(folder / "ids.npy", np.arange(64))
    np.save(folder / "ids-large.npy", np.tile(np.arange(4096), (256, 1)))
    linear = CONFIG | {"rope_scaling": {"rope_type": "linear", "factor": 8.0}}
    for name, config in (("config", CONFIG), ("linear", linear)):
        (folder / f"{name}.json").write_text(json.dumps(config))
    omega = CONFIG["rope_theta"] ** (-np.arange(64) / 64) / np.where(np.arange(64) > 30, 4, 1)
    phases = np.outer(np.arange(131072, dtype=np.float32), omega.astype(np.float32))
    np.save(folder / "dump.npy", np.hstack([np.cos(phases), np.sin(phases)]))
    header = llama_keys(4096, 32, 32, 131072, **{"rope.freq_base": 5e5})
    (folder / "model.gguf").write_bytes(gguf_bytes(header.items()))
    (folder / "model").mkdir()
    sizes = {"hidden_size": 512, "num_attention_heads": 4, "num_hidden_layers": 4}
    (folder / "model" / "config.json").write_text(
        json.dumps(CONFIG | sizes | {"rope_scaling": None})
    )
    name = "model.layers.{}.self_attn.{}_proj.weight"
    weights = {
        name.format(layer, side): rng.standard_normal((512, 512), dtype=np.float32)
        for layer in range(4)
        for side in "qk"
    }
    save_file(weights, folder / "model" / "model.safetensors")


def run(command, folder, package=ROOT):
    """Return the CPU seconds of a command over those of the ruler, and its peak MiB."""
    os.environ["PYTHONPATH"] = str(package)
    return measure([sys.executable, "-m", "pefourier", *command.split(), "--quiet"], folder)


def run_work(command, folder):
    """Return the CPU seconds of the work that a command cannot avoid over those of the ruler."""
    code = WORK[command]
    program = "" if code is False else f"{START}; {code}"
    return measure([sys.executable, "-c", program], folder)[0]


def measure(arguments, folder):
    """Return the CPU seconds of a process over those of the ruler, and its peak MiB."""
    unit = ruler()
    with (folder / "out").open("w") as out:
        process = subprocess.Popen(arguments, cwd=folder, stdout=out, stderr=out)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):  # 1: a negative answer
        raise SystemExit(f"{arguments}: {(folder / 'out').read_text()}")
    return (used.ru_utime + used.ru_stime) / unit, used.ru_maxrss / 1024


def times_before(command, folder, before):
    """Return the median ratio of a command to the same at a commit before, in pairs of runs.

    A ratio above `MORE` is measured a second time, and the lower is returned.
    """
    lowest = np.inf
    for _ in range(2):
        pairs = [[run(command, folder, tree)[0] for tree in (ROOT, before)] for _ in range(PAIRS)]
        lowest = min(lowest, statistics.median(now / then for now, then in pairs))
        if lowest <= MORE:
            break
    return lowest


def is_slower(stored, measure):
    """Return whether each of up to `RUNS` ratios is too high, and the lowest ratio."""
    lowest = np.inf
    for _ in range(RUNS):
        lowest = min(lowest, measure())
        if lowest <= SLOWER * stored:
            return False, lowest
    return True, lowest


def in_folder(work):
    """Call a function with a folder of the inputs, after commands have compiled their bytecode."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([sys.executable, __file__, name], check=True)  # its memory is not counted
        os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONPYCACHEPREFIX": name}
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        for command in WARMING:
            run(command, folder)
        return work(folder)


def why(command, over):
    """Return why a command takes over ten times its limit; raise if the table does not say it."""
    return {"why": WHY[command]} if over > FAR else {}


def measure_commands(stored):
    """Return the rows of the table: each command with median ratio, its limit and peak memory."""
    before = {row["command"]: row["ratio"] for row in stored}

    def work(folder):
        print("  before   after   limit  times limit  memory", flush=True)
        for command in COMMANDS:
            runs = [(*run(command, folder), run_work(command, folder)) for _ in range(RUNS)]
            ratio, peak, limit = (statistics.median(values) for values in zip(*runs, strict=True))
            over = round(ratio / limit, 1)
            times = f"{ratio:7.2f} {limit:7.2f} {over:12.1f}"
            print(
                f"{before.get(command, np.nan):8.2f} {times} {peak:4.0f} MiB  {command}", flush=True
            )
            row = {"command": command, "ratio": round(ratio, 3), "limit": round(limit, 3)}
            yield row | {"times_limit": over, "peak_mib": round(peak)} | why(command, over)

    return in_folder(lambda folder: list(work(folder)))


@contextmanager
def worktree(folder, commit):
    """Check out a commit in a folder, as long as the context lasts."""
    before, git = folder / "before", ["git", "-C", ROOT, "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", before, commit], check=True)
    try:
        yield before
    finally:
        subprocess.run([*git, "remove", "--force", before], check=True)


def check_commands(stored, commit="HEAD~1"):
    """Print slower commands and commands that are not stored, and return their number.

    Commands are compared with the stored ratios and with those at a commit before.
    """

    def work(folder):
        with worktree(folder, commit) as before:
            return compare_commands(folder, before)

    def compare_commands(folder, before):
        ratios, failed = {row["command"]: row["ratio"] for row in stored}, 0
        for command in WARMING:
            run(command, folder, before)
        for command in COMMANDS:
            if command not in ratios:
                print(f"not stored: {command}; run make bench ONLY=commands", flush=True)
                failed += 1
                continue
            slower, ratio = is_slower(
                ratios[command], lambda command=command: run(command, folder)[0]
            )
            if slower:
                times = ratio / ratios[command]
                print(f"{times:.2f} times slower: {command}", flush=True)
            more = times_before(command, folder, before)
            if more > MORE:
                print(f"{more:.2f} times that of {commit}: {command}", flush=True)
            failed += slower or more > MORE
        return failed

    return in_folder(work)


if __name__ == "__main__":
    write_inputs(Path(sys.argv[1]))
