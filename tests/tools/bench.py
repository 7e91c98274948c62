"""Time and peak memory compared with common alternatives: `make bench`.

Every contender runs in a separate process on the same input, in turn, three times, or once if it
takes over 20 seconds. The printed seconds are the median of the work without imports; memory is
the peak of the process; the largest number of the answer is compared. Growth exponents are slopes
of log time over log size of whole commands. The program prints one row each and writes
figures/bench.json. A word after the command selects the comparisons with the word in their
question and keeps the stored rows of the others; `commands` measures those of `bench_commands`,
and `check` compares them with the stored ratios.
"""

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import bench_commands
import numpy as np

RUNS = 3
SLOW = 20.0  # seconds from which a contender runs only once
OUT = Path(__file__).parents[2] / "figures" / "bench.json"


def frequencies(d):
    return 10000.0 ** (-np.arange(0, d, 2) / d)


def normal(n=16384, d=384):
    return np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)


def density_pefourier(d):
    from pefourier.encodings import build
    from pefourier.questions.spectrum import spectrum as spectrum_of

    enc = build("sinusoidal", d=d)
    return lambda: spectrum_of(enc).density


def density_numpy(d):
    steps = frequencies(d) * d / (2 * np.pi)

    def work():
        g = np.zeros(d // 2 + 1)
        for start in range(0, len(g), 256):
            k = np.arange(start, min(start + 256, len(g)))
            g[k] = np.exp(-0.5 * ((k[:, None] - steps) / 4) ** 2).sum(axis=1)
        return g / g.sum()

    return work


def density_kdepy(d):
    from KDEpy import FFTKDE

    steps = frequencies(d) * d / (2 * np.pi)
    grid = np.arange(-64.0, d // 2 + 65)

    def work():
        g = FFTKDE(kernel="gaussian", bw=4.0).fit(steps).evaluate(grid)[64:-64]
        return g / g.sum()

    return work


def closest_pefourier(n):
    from pefourier.encodings.encoding import from_table
    from pefourier.geometry.closest import closest_pair

    enc = from_table(normal(n))
    return lambda: closest_pair(enc).distance


def closest_pdist(n):
    from scipy.spatial.distance import pdist

    table = normal(n).astype(float)
    return lambda: pdist(table).min()


def closest_sklearn(n):
    from sklearn.neighbors import NearestNeighbors

    table = normal(n)
    search = NearestNeighbors(n_neighbors=2, algorithm="brute")

    def closest():
        return search.fit(table).kneighbors(table)[0][:, 1].min()

    return closest


def rebuilt_pefourier(d):
    from pefourier.encodings import build
    from pefourier.questions.reconstruct import position_functions

    enc = build("sinusoidal", length=80, d=d)
    return lambda: position_functions(enc, [5]).reconstructions[0].values


def rebuilt_numpy(d):
    density = density_numpy(d)

    def work():
        g, k = density(), np.arange(d // 2 + 1)
        twice = np.where((k == 0) | (2 * k == d), 1, 2)
        h = (g * twice) @ np.cos(2 * np.pi * np.outer(k, np.arange(d) - 5) / d)
        np.linalg.svd(np.sin(np.outer(np.arange(80), frequencies(d))))
        return (h / np.linalg.norm(h)).max()

    return work


def singular_pefourier(n):
    from pefourier.encodings import build
    from pefourier.geometry.singular_values import decompose

    enc = build("rope", length=n, d=128)
    return lambda: decompose(enc).condition_number


def singular_numpy(n):
    from pefourier.encodings import build

    enc = build("rope", length=n, d=128)
    return lambda: np.linalg.cond(enc.table())


GRIDS = {  # the largest grids in training: images of patches, and a video's latent
    "64x64 axial, d 1152": ("axial:convention=mae", (64, 64), 1152),
    "128x128 axial, d 768": ("axial:convention=mae", (128, 128), 768),
    "21x45x80 rotary, d 128": ("axial-rope:convention=hunyuan-video", (21, 45, 80), 128),
}


def on_grid(name):
    from pefourier.encodings import load

    spec, grid, d = GRIDS[name]
    return load(spec, None, d, grid=grid)


def grid_pefourier(name):
    from pefourier.questions.check_faithful import check_faithful

    def work():  # all quantities of check-faithful
        found = check_faithful(on_grid(name))
        return found.min_distance * found.stable_rank

    return work


def grid_numpy(name):
    enc = on_grid(name)

    def work():  # part of that: the smallest distance and the singular values
        table, nearest = enc.table(), np.inf
        squares = (table**2).sum(axis=1)
        for start in range(0, len(table), 512):
            own = slice(start, start + 512)
            apart = squares[own, None] + squares - 2 * table[own] @ table.T
            apart[np.arange(len(apart)), start + np.arange(len(apart))] = np.inf
            nearest = min(nearest, apart.min())
        values = np.linalg.eigvalsh(table.T @ table)
        return np.sqrt(nearest) * values.sum() / values[-1]

    return work


LONG = {"32768 x 2048": (32768, 2048), "131072 x 4096": (131072, 4096)}


def sinusoidal_pefourier(name):
    from pefourier.encodings import load
    from pefourier.questions.check_faithful import check_faithful

    return lambda: check_faithful(load("sinusoidal", *LONG[name])).stable_rank


def sinusoidal_eigvalsh(name):
    """Eigenvalues of the inner products of columns, which are given: the work left to numpy."""
    from pefourier.encodings import load
    from pefourier.geometry.singular_values import WAVES, dirichlet_products

    n, d = LONG[name]
    products, half = np.zeros((d, d)), d // 2
    for part, wave in zip((slice(half), slice(half, d)), WAVES, strict=True):
        products[part, part] = dirichlet_products(load("sinusoidal", n, d).measure, n, wave)

    def work():
        values = np.linalg.eigvalsh(products)
        return values.sum() / values[-1]

    return work


def ruler_numpy(n):
    """Return fixed work that measures the speed of a machine, as a unit of grid times."""
    made = np.random.default_rng(0).standard_normal((n, n))
    return lambda: np.linalg.eigvalsh(made + made.T)


def heads(n, dtype="float32"):
    """Draw queries and keys of a layer of 32 heads with 128 dimensions."""
    import torch

    torch.manual_seed(0)
    return torch.randn(2, 1, 32, n, 128).to(getattr(torch, dtype))


def ten_times(rotate, q, k):
    """Return the work of ten layers, after a first call that is not counted."""
    import torch

    with torch.no_grad():
        rotate(q, k)

    def work():
        with torch.no_grad():
            for _ in range(10):
                rotated, _ = rotate(q, k)
            return rotated.float().numpy()

    return work


def halves_pefourier(n, dtype="float32", spec="rope"):
    from pefourier.nn import Rotary

    return ten_times(Rotary(spec, 128).rotate, *heads(n, dtype))


def neighbours_pefourier(n, dtype="float32"):
    return halves_pefourier(n, dtype, "rope:layout=interleaved")


def halves_transformers(n, dtype="float32"):
    """Rotate as transformers does, with cosines and sines rounded to the dtype too."""
    import torch
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    q, k = heads(n, dtype)
    made = LlamaRotaryEmbedding(LlamaConfig(hidden_size=4096, num_attention_heads=32))
    waves = made(q, torch.arange(n)[None])  # once for all layers
    return ten_times(lambda q, k: apply_rotary_pos_emb(q, k, *waves), q, k)


def neighbours_written(n, dtype="float32"):
    """Rotate neighbours as the first Llama code and torchtune do, by stacking pairs."""
    import torch

    phases = torch.outer(torch.arange(n), torch.tensor(frequencies(128), dtype=torch.float32))
    cosine, sine = phases.cos(), phases.sin()

    def one(x):
        a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
        pair = torch.stack([a * cosine - b * sine, b * cosine + a * sine], -1)
        return pair.flatten(-2).type_as(x)

    return ten_times(lambda q, k: (one(q), one(k)), *heads(n, dtype))


def neighbours_library(n, dtype="float32"):
    """Rotate neighbours with rotary-embedding-torch."""
    from rotary_embedding_torch import RotaryEmbedding

    one = RotaryEmbedding(128).rotate_queries_or_keys
    return ten_times(lambda q, k: (one(q), one(k)), *heads(n, dtype))


CLOSEST = closest_pefourier, closest_pdist, closest_sklearn
HALVES = halves_pefourier, halves_transformers
NEIGHBOURS = neighbours_pefourier, neighbours_written, neighbours_library
CASES = [  # question, size, contenders (ours first), and a dtype
    ("density of Eq. 15, d", 32768, [density_pefourier, density_numpy, density_kdepy]),
    ("closest pair, n x 384 normal float32, n", 16384, CLOSEST),
    ("Algorithm 1, d", 8192, [rebuilt_pefourier, rebuilt_numpy]),
    ("condition number, n x 128 rotary, n", 131072, [singular_pefourier, singular_numpy]),
    *(("check-faithful of a grid", name, [grid_pefourier, grid_numpy]) for name in GRIDS),
    *(
        ("check-faithful of sinusoidal", name, [sinusoidal_pefourier, sinusoidal_eigvalsh])
        for name in LONG
    ),
    ("rotate halves, 10 layers, n", 1024, HALVES),
    ("rotate halves of bfloat16, 10 layers, n", 1024, HALVES, "bfloat16"),
    ("rotate neighbours, 10 layers, n", 1024, NEIGHBOURS),
    ("rotate neighbours of bfloat16, 10 layers, n", 1024, NEIGHBOURS, "bfloat16"),
    ("eigvalsh beside grids, n x n, n", 4096, [ruler_numpy]),
]
GROWTH = [
    ("spectrum --d", [2**k for k in (12, 14, 16, 18, 20)]),
    ("reconstruct --pos 5 40 75 --d", [2**k for k in (12, 14, 16, 18, 20)]),
    ("check-faithful rope --d 128 --length", [2**k for k in (12, 14, 16, 18, 20)]),
    ("check-faithful learned --d 128 --length", [2**k for k in (10, 11, 12, 13, 14)]),
]


def measure(name, size, *dtype):
    """Print the seconds of the work and the peak memory of one run in this process."""
    work = globals()[name](int(size) if size.isdigit() else size, *dtype)
    start = time.perf_counter()
    answer = float(np.max(work()))
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "peak_mib": peak, "answer": answer}))


def run(name, size, *dtype):
    command = [sys.executable, __file__, name, str(size), *dtype]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def compared(question, size, contenders, *dtype):
    """Yield the medians of each contender over alternating runs."""
    runs = {function.__name__: [] for function in contenders}
    for turn in range(RUNS):
        for name, taken in runs.items():
            if turn == 0 or taken[0]["seconds"] < SLOW:
                taken.append(run(name, size, *dtype))
    medians = [
        {key: statistics.median(times[key] for times in taken) for key in taken[0]}
        for taken in runs.values()
    ]
    for name, median in zip(runs, medians, strict=True):
        yield {
            "question": f"{question} = {size}" if isinstance(size, int) else f"{question}, {size}",
            "with": name.partition("_")[2],
            "seconds": median["seconds"],
            "times_ours": median["seconds"] / medians[0]["seconds"],
            "peak_mib": median["peak_mib"],
            "differs_by": abs(median["answer"] / medians[0]["answer"] - 1),
        }


def growth(command, sizes):
    """Time whole commands, and return the slope of log time over the largest sizes."""
    seconds = []
    for size in sizes:
        start = time.perf_counter()
        arguments = [sys.executable, "-m", "pefourier", *command.split(), str(size), "--quiet"]
        subprocess.run(arguments, stdout=subprocess.DEVNULL, check=True)
        seconds.append(time.perf_counter() - start)
    slope = np.polyfit(np.log(sizes[-3:]), np.log(seconds[-3:]), 1)[0]
    return {"command": command, "sizes": sizes, "seconds": seconds, "exponent": float(slope)}


def main(only=""):
    """Measure all comparisons, or those with a word in their question, and store the rows."""
    stored = json.loads(OUT.read_text()) if OUT.exists() else {}
    if only == "check":
        commit = os.environ.get("COMMIT", "HEAD~1")
        sys.exit(1 if bench_commands.check_commands(stored["commands"], commit) else 0)
    if only in ("", "commands"):
        stored["commands"] = bench_commands.measure_commands(stored["commands"])
    machine = {"cpus": os.cpu_count(), "python": platform.python_version(), "numpy": np.__version__}
    rows, slopes = [], []
    for case in (case for case in CASES if only in case[0]):
        for row in compared(*case):
            rows.append(row)
            print(*(f"{x:.3g}" if isinstance(x, float) else x for x in row.values()), flush=True)
    for command, sizes in GROWTH if not only else ():
        slopes.append(growth(command, sizes))
        print(command, sizes, slopes[-1]["seconds"], slopes[-1]["exponent"], flush=True)
    if only:
        requested = {row["question"] for row in rows}
        kept = [row for row in stored["comparisons"] if row["question"] not in requested]
        rows, slopes = [*kept, *rows], stored["growth"]
    stored |= {"machine": machine, "comparisons": rows, "growth": slopes}
    OUT.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    measure(*sys.argv[1:]) if len(sys.argv) > 2 else main(*sys.argv[1:])
