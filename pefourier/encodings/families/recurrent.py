"""The states of a recurrent encoder as codes of positions.

A recurrent layer in place of a positional encoding (Neishi & Yoshinaga, 2019) reads the tokens, so
its states mix content and position. What it knows of position alone are its states on a sequence
of equal tokens: here the constant input 1. They approach a fixed point, ever closer together.
"""

import numpy as np

from pefourier.encodings.checks import check_size
from pefourier.encodings.encoding import FLOAT64_EPS, Encoding, from_table
from pefourier.encodings.families.absolute import stream
from pefourier.encodings.registry import encoding


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)), without overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * x))


@encoding(
    "recurrent",
    "Neishi & Yoshinaga, 2019; GRU of Cho et al., 2014 (before training)",
    untrained=True,
)
def recurrent(length: int, d: int, *, seed: int = 0) -> Encoding:
    """States of a gated recurrent unit that reads the constant 1 at every position.

    As in torch: r, z = σ(W x + U h + b), n = tanh(W_n x + b_n + r (U_n h + c_n)),
    h' = (1 − z) n + z h from h = 0, with all weights uniform on ±1/√d. The code of position s is
    the state after s + 1 steps. The state has arrived, and stays, when a step is no longer than its
    rounding: from there on positions share their code.

    Parameters
    ----------
    seed : int
        Seed of the random numbers; the same one gives the same codes on every machine.

    Examples
    --------
    >>> recurrent(3, 2).table().round(4)
    array([[-0.0617,  0.1168],
           [-0.104 ,  0.2132],
           [-0.135 ,  0.2924]])
    """
    check_size("recurrent", max(length, 3 * d), d)
    bound = d**-0.5
    draw = stream(seed).uniform
    # rows of the gates r, z, n one under the other, in torch's order of parameters
    w, u = draw(-bound, bound, 3 * d), draw(-bound, bound, (3 * d, d))
    b, c = draw(-bound, bound, (2, 3 * d))
    inputs, table, h = w + b, np.empty((length, d)), np.zeros(d)
    for s in range(length):
        recalled = u @ h + c
        r, z = sigmoid(inputs[: 2 * d] + recalled[: 2 * d]).reshape(2, d)
        step = (1 - z) * (np.tanh(inputs[2 * d :] + r * recalled[2 * d :]) - h)
        if np.linalg.norm(step) <= 4 * FLOAT64_EPS * np.linalg.norm(h):
            table[s:] = h  # else the order of a sum, and so the machine, would tell them apart
            break
        h = h + step
        table[s] = h
    return from_table(table, "recurrent")
