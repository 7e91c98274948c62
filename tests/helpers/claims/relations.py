"""Claims of `relations` about drawn encodings and tables, by inner products of all pairs."""

import numpy as np
from grids import residual_of_products
from numpy.testing import assert_allclose

from claims.faithful import LINES, bias, changed_table, facts_of, grid_table, is_zero, on_grid
from pefourier.encodings import load
from pefourier.questions.relations import relate

CAUSAL = ["alibi", "kerple", "t5", "shaw", "erpe"]


def formula(rng):
    name, d = str(rng.choice([*LINES, *CAUSAL, "xpos", "tree"])), 2 * int(rng.integers(2, 9))
    causal = {"causal": True} if name in CAUSAL and rng.integers(2) else {}
    return name, load(name, int(rng.integers(2, 40)), d, **causal)


def rare(rng):
    return "rare", load(str(rng.choice(["swin", "none", "learned"])), None, 16, grid=(5, 6))


DRAWN = [formula, formula, formula, on_grid, bias, changed_table, grid_table, rare]


def draw(rng, number):
    label, enc = DRAWN[number % len(DRAWN)](rng)
    return label, relate(enc), facts_of(enc)


def residual(c):
    """Return the residual of products from their means over pairs of one displacement."""
    return residual_of_products(c.table / (np.abs(c.table).max() or 1.0), c.enc.domain.sides)


def by_position(c):
    (printed,) = c.read(r"residual ([\d.e-]+);")
    return abs(printed / residual(c) - 1) < 0.06 and residual(c) > 1e-7


def by_lag(c):
    if c.enc.name != "xpos":
        return residual(c) <= 2e-6
    half = c.enc.dim // 2  # the keys of xPos have the inverse factors
    squares = c.table[:, :half] ** 2 + c.table[:, half:] ** 2
    products = c.table @ (c.table / np.hstack([squares, squares])).T
    lines = [products.diagonal(k) for k in range(1 - len(products), len(products))]
    assert_allclose(c.answer.kernel, products[:, 0] / products[0, 0], atol=1e-9)
    return all(np.ptp(line) <= 1e-9 * np.abs(products).max() for line in lines)


def is_even(c):
    """Return whether vectors equal those of opposite lags."""
    return np.linalg.norm(c.table - c.table[::-1]) <= 2e-6 * np.linalg.norm(c.table)


def has_no_lags(c):
    domain = c.enc.domain
    return len(np.unique(np.diff(domain.x))) > 1 or domain.kind in ("tree", "graph")


VERDICTS = {
    "no lags": has_no_lags,
    "zero codes": is_zero,
    "depends on position": by_position,
    "depends on place": by_position,
    "depends on lag alone": by_lag,
    "depends on displacement alone": by_lag,
    "one direction": lambda c: c.enc.domain.x.max() <= 0,
    "distance only": is_even,
    "direction told": lambda c: not is_even(c),
    "biases": lambda c: c.enc.injection in ("bias", "key", "key-query"),
}
