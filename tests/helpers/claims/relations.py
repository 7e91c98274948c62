"""Claims of `relations` about drawn encodings and tables, by inner products of all pairs."""

import numpy as np
from grids import mean_products

from claims.faithful import bias, changed_table, grid_table, on_grid
from pefourier.encodings import load
from pefourier.encodings.encoding import without_prefix
from pefourier.encodings.registry import BUILDERS
from pefourier.errors import PefourierError
from pefourier.questions.relations import relate

CAUSAL = [name for name in ("alibi", "kerple", "t5", "shaw", "erpe") if name in BUILDERS]
LINES = sorted({*BUILDERS} - {"swin", "swin2", "beit"})


def formula(rng):
    name, d = str(rng.choice([*LINES, *CAUSAL, "xpos", "tree"])), 2 * int(rng.integers(2, 9))
    causal = {"causal": True} if name in CAUSAL and rng.integers(2) else {}
    return name, load(name, int(rng.integers(2, 40)), d, **causal)


def draws(rng, count):
    drawn = 0
    while drawn < count:
        draw = rng.choice([formula, formula, formula, on_grid, bias, changed_table, grid_table])
        try:
            label, enc = draw(rng)
            answer = relate(enc)
        except PefourierError:  # an encoding without this size
            continue
        drawn += 1
        rows = without_prefix(enc)
        yield f"{drawn} {label}", answer, (rows, np.asarray(rows.table(), dtype=float))


def residual(enc, table):
    """Return the residual of products from their means over pairs of one displacement."""
    products, means = mean_products(table / (np.abs(table).max() or 1.0), enc.domain.sides)
    return np.linalg.norm(products - means) / np.linalg.norm(products)


def scores(enc, table):
    """Return the scores of xPos, whose keys have the inverse factors."""
    first = table[:, : enc.dim // 2] ** 2 + table[:, enc.dim // 2 :] ** 2
    return table @ (table / np.hstack([first, first])).T


def by_position(answer, truth):
    printed = float(answer.to_dict()["meaning"].split("residual ")[1].split(";")[0])
    return abs(printed / residual(*truth) - 1) < 0.06 and residual(*truth) > 1e-7


def by_lag(answer, truth):
    enc, table = truth
    if enc.name == "xpos":
        products = scores(enc, table)
        lines = [products.diagonal(k) for k in range(1 - len(table), len(table))]
        np.testing.assert_allclose(answer.kernel, products[:, 0] / products[0, 0], atol=1e-9)
        return all(np.ptp(line) <= 1e-9 * np.abs(products).max() for line in lines)
    return residual(enc, table) <= 2e-6


def opposite(answer, truth):
    """Return the norm of vectors minus those of opposite lags, over twice the norm."""
    table = truth[1]
    return np.linalg.norm(table - table[::-1]) / (2 * np.linalg.norm(table) or 1.0)


VERDICTS = {
    "no lags": lambda answer, truth: (
        len(np.unique(np.diff(truth[0].domain.x))) > 1 or truth[0].domain.kind == "tree"
    ),
    "zero codes": lambda answer, truth: not truth[1].any(),
    "depends on position": by_position,
    "depends on place": by_position,
    "depends on lag alone": by_lag,
    "depends on displacement alone": by_lag,
    "one direction": lambda answer, truth: truth[0].domain.x.max() <= 0,
    "distance only": lambda answer, truth: opposite(answer, truth) <= 1e-6,
    "direction told": lambda answer, truth: opposite(answer, truth) > 1e-6,
    "biases": lambda answer, truth: truth[0].injection in ("bias", "key", "key-query"),
}
FINDINGS = {}
WITHOUT = {}
