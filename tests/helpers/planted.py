"""One mistake for each finding of check-faithful that a table or source code can have.

A planter is a function of the type in which its numbers are computed. Source code computes in
float32 throughout, as torch does by default; tables are computed in float64 and then stored.
"""
# ruff: noqa: ARG001, ARG005 (some mistakes do not depend on the type)

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from grids import smooth_table

from pefourier.encodings.families.axial import rows_of_blocks

N, D, SIDES = 128, 64, (7, 11)
Y, X = np.indices(SIDES).reshape(2, -1)
NORMAL = np.random.default_rng(3).standard_normal((N, D))


FORMS = ("code", "float32", "float16")
FILES = FORMS[1:]


@dataclass(frozen=True)
class Plant:
    """A planter, the grid of its rows and the name of its array."""

    make: Callable
    grid: tuple[int, ...] | None = None
    name: str = "table"
    forms: tuple[str, ...] = FORMS  # in which the finding can exist


PLANTS = {}


def plant(code, **facts):
    """Register the planter of a finding."""

    def register(make):
        PLANTS[code] = Plant(make, **facts)
        return make

    return register


def rows(real, n=N):
    return np.arange(n, dtype=real)[:, None]


def ladder(real, base=1e4, pairs=D // 2, last=0):
    """Return frequencies base^(-i / (pairs - last)) from 1 on."""
    return real(base) ** (-np.arange(pairs, dtype=real) / real(pairs - last))


def beside(sine, cosine=None):
    """Return the sines and cosines of phases in neighbouring columns."""
    cosine = sine if cosine is None else cosine
    return np.stack([np.sin(sine), np.cos(cosine)], axis=-1).reshape(len(sine), -1)


def waves(real, base=1e4, **sizes):
    return beside(rows(real) * ladder(real, base, **sizes))


def changed(real, index, values):
    table = waves(real)
    table[index] = values(table) if callable(values) else values
    return table


plant("zero-codes")(lambda real: np.zeros((N, D)))
plant("constant-codes")(lambda real: np.repeat(waves(real)[5:6], N, axis=0))
plant("clipped-index")(lambda real: changed(real, slice(100, None), lambda t: t[99]))
plant("repeating-codes")(lambda real: np.tile(NORMAL[:32], (4, 1)))
plant("rows-of-lags")(lambda real: np.abs(rows(real) - 80) * -(0.5 ** np.arange(8)))
plant("duplicate-rows")(lambda real: changed(real, 1, lambda t: t[0]))
plant("positions-divided")(lambda real: beside(rows(real) // 2 * ladder(real)))
plant("unused-tail")(lambda real: np.vstack([NORMAL[:100], np.zeros((28, D))]))
plant("padding-row")(lambda real: changed(real, 1, 0.0))
plant("stray-rows")(lambda real: changed(real, 40, NORMAL[0]))
plant("transposed")(lambda real: waves(real).T)
plant("reversed-positions")(lambda real: waves(real)[::-1])
plant("negative-positions")(lambda real: beside(-rows(real) * ladder(real)))
plant("dead-columns")(lambda real: np.where(np.arange(D) == 40, 0.0, waves(real)))
plant("random-codes")(lambda real: NORMAL)
plant("low-rank")(lambda real: NORMAL[:, :3] @ NORMAL[:3])
plant("phases")(lambda real: rows(real) * ladder(real))
plant("counted-rows")(lambda real: np.hstack([rows(real) + 1, NORMAL[:, :9].cumsum(0) / 9]))
plant("offset")(lambda real: beside((rows(real) + 2) * ladder(real)))
plant("divisor")(lambda real: waves(real, last=1))
plant("scale")(lambda real: 8 * waves(real))
plant("step")(lambda real: beside(rows(real) * (ladder(real) / 4)))
plant("base")(lambda real: waves(real, 1e3))
plant("cosines-first")(lambda real: waves(real)[:, np.r_[1:D:2, 0:D:2]])
plant("single-frequency")(
    lambda real: beside(rows(real) * np.linspace(0, 1, D // 2, dtype=real) ** real(1e-4))
)


@plant("alternating-rows")
def alternating(real):
    phases = rows(real) * np.repeat(ladder(real), 2)
    return np.where(rows(real) % 2 == 0, np.sin(phases), np.cos(phases))


@plant("mismatched-pairs")
def mismatched(real):
    phases = rows(real) * ladder(real, pairs=D)
    return beside(phases[:, ::2], phases[:, 1::2])


plant("aliased-waves")(lambda real: beside(rows(real) / ladder(real)))
plant("aliased-frequencies")(lambda real: beside(rows(real) * (8 * ladder(real))))
plant("dead-pairs")(lambda real: beside(rows(real) * np.exp(-2 * np.arange(D // 2, dtype=real))))


@plant("rounded-phases", forms=("code", "float32"))  # float16 is coarser than the phases
def rounded_phases(real):
    return beside(rows(np.float32, 4096) * ladder(np.float32))


@plant("rank-of-rounding", forms=("code", "float32"))  # a tolerance of float16 covers the phases
def rank_of_rounding(real):
    return beside(rows(np.float32, 512) * ladder(np.float32, pairs=160, last=1))


@plant("near-duplicates")
def near_duplicates(real, eps=2.0**-23):
    table = np.sign(NORMAL)
    table[-1] = table[60] = table[60] * (1 + 5 * eps)
    table[-1, :16] *= 1 + 6 * eps  # above 4 eps, and in float16 one number of bfloat16
    return table


def both(real, y, x, base=1e4):
    """Return sines and cosines of x, then those of y, in halves."""
    frequencies = ladder(real, base, pairs=D // 4)
    phases = [np.asarray(c, dtype=real)[:, None] * frequencies for c in (x, y)]
    return np.hstack([wave(p) for p in phases for wave in (np.sin, np.cos)])


def on_grid(code, grid=SIDES):
    return plant(code, grid=grid)


on_grid("axis-missing")(lambda real: both(real, 0 * Y, X))
on_grid("axis-duplicated")(lambda real: both(real, X, X))
on_grid("flat-index")(lambda real: beside(rows(real, 77) * ladder(real)))
on_grid("prefix-shift")(lambda real: np.roll(both(real, Y, X), 1, axis=0))
on_grid("grid-transposed", SIDES[::-1])(lambda real: both(real, Y, X))
on_grid("coordinates-unscaled")(lambda real: both(real, Y / 7, X / 11))
on_grid("points-repeat")(lambda real: both(real, Y, np.where((X == 3) & (Y == 5), 9, X)))


@on_grid("row-order", (6, 8))
def row_order(real):
    y, x = np.indices((6, 8)).reshape(2, -1)
    return both(real, y, x)[rows_of_blocks((6, 8))]


@on_grid("ends-coincide", (16, 16))
def ends_coincide(real):
    line = np.linspace(-np.pi, np.pi, 16, dtype=real)
    y, x = np.meshgrid(line, line, indexing="ij")
    octaves = real(2) ** np.arange(6, dtype=real)
    return np.hstack([f(p.reshape(-1, 1) * octaves) for p in (y, x) for f in (np.sin, np.cos)])


@on_grid("lone-cosines", (14, 14))
def lone_cosines(real):
    places = (2 * (np.indices((14, 14)) + 0.5) / 14 - 1).reshape(2, -1, 1).astype(real)
    return np.cos(np.hstack([*(real(2 * np.pi) * places * ladder(real, 100.0, pairs=16))] * 2))


@on_grid("pixel-coordinates", (24, 40))
def pixel_coordinates(real):
    y, x = np.indices((24, 40)).reshape(2, -1)
    return both(real, 16 * y, 16 * x)


on_grid("neighbours-elsewhere", (4, 18))(
    lambda real: smooth_table(np.random.default_rng(0), (6, 12))
)
plant("grid-unknown")(lambda real: smooth_table(np.random.default_rng(0), (8, 8)))


def named(code, name):  # source code has no names of arrays
    return plant(code, name=name, forms=FILES)


named("biases-as-codes", "relative_attention_bias.weight")(lambda real: NORMAL)
named("lags-as-codes", "rel_pos_h")(lambda real: NORMAL)
named("window-biases", "pos_embed")(lambda real: NORMAL[:81, :6])
named("single-axes", "table")(lambda real: NORMAL[:, None])


@named("array-chosen", "other")
def array_chosen(real):
    return {"other": NORMAL[:5], "position_embedding.weight": NORMAL}


def in_code(code):  # a table shows no calls, types or operators
    return plant(code, forms=("code",))


def rotated(x, *, sign=-1.0, speeds=None, start=0.0, layout="halves"):
    """Rotate vectors (…, n, d) by their positions; the settings are mistakes."""
    speeds = torch.tensor(ladder(np.float32, pairs=x.shape[-1] // 2)) if speeds is None else speeds
    phases = torch.outer(torch.arange(x.shape[-2]) + start, speeds)
    laid = {"halves": torch.cat([phases] * 2, -1), "mixed": phases.repeat_interleave(2, -1)}[layout]
    a, b = x.chunk(2, -1)
    return x * laid.cos() + torch.cat([sign * b, a], -1) * laid.sin()


def both_rotated(**settings):
    def rotate(q, k):
        return rotated(q, **settings), rotated(k, **settings)

    return rotate


def shuffled():
    return torch.tensor(np.random.default_rng(0).permutation(ladder(np.float32)))


in_code("turns-its-input")(lambda real: both_rotated())
in_code("lost-minus")(lambda real: both_rotated(sign=1.0))
in_code("not-a-rotation")(lambda real: both_rotated(layout="mixed"))
in_code("irregular-frequencies")(lambda real: both_rotated(speeds=shuffled()))
in_code("queries-keys-differ")(lambda real: lambda q, k: (rotated(q), rotated(k, start=1.0)))


class Added(torch.nn.Module):
    """Vectors of positions, added to x (batch, length, d)."""

    def __init__(self, d_model):
        super().__init__()
        table = torch.tensor(waves(np.float32, pairs=d_model // 2))
        self.register_buffer("pe", table[None])

    def forward(self, x):
        return x + self.pe[:, : x.size(1)]


@in_code("batch-axis")
def batch_axis(real):
    class First(Added):
        def forward(self, x):
            return x + self.pe[0][: x.size(0), None]

    return First


@in_code("sequence-first")
def sequence_first(real):
    class Declared(batch_axis(real)):
        """Takes x of shape (length, batch, d)."""

    return Declared


@in_code("changes-between-calls")
def changes_between_calls(real):
    class Noisy(Added):
        def forward(self, x):
            return torch.nn.functional.dropout(super().forward(x), 0.5)

    return Noisy


@in_code("untrained")
def untrained(real):
    class Drawn(Added):
        def __init__(self, d_model):
            super().__init__(d_model)
            self.pe = torch.nn.Parameter(torch.randn(1, N, d_model))

    return Drawn


# Codes that no table and no source code has, by what has them.
ELSEWHERE = {
    "read from a config or its weights": """
        unread-key trained-assumed vision-tower gguf-unsaid model-type-unknown remote-code
        length-default weights-config biases-by-layer with-convolution position-offset grid-default
        grid-convention table-beside tokens-in-blocks layers-inverted
        layers-no-global""",
    "an encoding by name": """
        text-collides-with-patch bfloat16-positions bias-of-pairs times-unit eigenvector-signs
        equal-eigenvalues cut-eigenspace distances-interpolated""",
    "spectrum and reconstruct": """
        coarse-lattice common-part idle-waves before-training rotation-spectrum rotation-rebuilt
        beyond-codes""",
    "design, context and resize": """
        original-by-factor unseen-phases resized-by""",
    "compare": """
        pairs-differ heads-differ layers-differ numbers-differ rows-reordered rows-moved
        axis-positions part-alone read-at-length sizes-differ outputs-differ comparison-unread
        offset-shared length-dependent temperature-beyond misread lengths-differ pairing-unsaid
        sines-first constant-for-each-query keys-behind rows-as-converted numbers-unchanged
        explained grid-recovered rows-in-blocks""",
}
FAMILIES = ("ids-", "usage-", "rope-")  # of positions, usage, and configs of rotations
