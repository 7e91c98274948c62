"""Encodings on grids for tests: declared measures, their tables, and slow references."""

from dataclasses import replace

import numpy as np

from pefourier.encodings.encoding import Encoding, Measure, from_table, lattice, positions


def table_on(sides, table, prefix=0, **facts):
    """Return a table whose rows are the points of a grid."""
    return replace(from_table(np.asarray(table), **facts), domain=lattice(sides, prefix))


def waves_on(domain, frequencies, weights=None, **facts):
    """Return an encoding of cosines and sines of declared frequencies (m,) or (m, axes).

    The domain may be the sides of a grid or a number of positions.
    """
    frequencies = np.asarray(frequencies, dtype=float)
    m, is_line = len(frequencies), isinstance(domain, int)
    domain = positions(domain) if is_line else lattice(domain)
    weights = np.full(m, 1 / m) if weights is None else np.asarray(weights)
    facts = {"squared_length": 1.0 if is_line else float(m), **facts}
    measure = Measure(frequencies, weights, **facts)

    def vectors(x):
        phases = measure.phases(domain.places(x))
        return np.hstack([np.cos(phases), np.sin(phases)]) * np.tile(measure.amplitudes, 2)

    return Encoding("waves", domain, 2 * m, vectors, measure=measure)


def mean_products(table, sides, points=slice(None)):
    """Return inner products of points and their means over pairs with one displacement."""
    places = np.indices(sides).reshape(len(sides), -1).T[points]
    lags = (places - places[:, None]).reshape(-1, len(sides))
    _, inverse = np.unique(lags, axis=0, return_inverse=True)
    products, inverse = table @ table.T, inverse.ravel()
    means = np.bincount(inverse, weights=products.ravel()) / np.bincount(inverse)
    return products, means[inverse].reshape(products.shape)


def residual_of_products(table, sides, points=slice(None)):
    """Return the residual of inner products that depend only on displacements of the points."""
    products, means = mean_products(table, sides, points)
    return np.linalg.norm(products - means) / np.linalg.norm(products)


def smooth_table(rng, sides, d=24, reach=2**0.5, noise=0.0):
    """Return a table that varies slowly along each axis of a grid, as in training, plus noise."""
    table = rng.normal(size=(*sides, d))
    for axis, side in enumerate(sides):
        lags = np.subtract.outer(np.arange(side), np.arange(side))
        factor = np.linalg.cholesky(np.exp(-((lags / reach) ** 2) / 2) + 1e-9 * np.eye(side))
        table = np.moveaxis(np.tensordot(factor, np.moveaxis(table, axis, 0), 1), 0, axis)
    rows = table.reshape(-1, d)
    return rows + noise * rng.normal(size=rows.shape)
