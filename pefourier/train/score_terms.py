r"""What do scores of attention come from, where codes are added to the input?

Conventions
-----------
In the first layer a token is content x plus code e, so that a score is a sum of four terms,
:math:`(x_i + e_i) W_Q W_K^T (x_j + e_j)^T`: content-content, content-position, position-content and
position-position. What is the same for all keys of a query is left out, as the softmax removes it.
The share of a term is its covariance with the score over the variance of that: shares of a head sum
to 1. Deeper layers mix both and are not taken apart.
"""

from collections.abc import Mapping

import numpy as np

from pefourier.train.model import Transformer

TERMS = ("content-content", "content-position", "position-content", "position-position")


def score_terms(
    model: Transformer, parameters: Mapping[str, np.ndarray], codes: np.ndarray, x: np.ndarray
) -> list[list[float]]:
    """Shares (heads, 4) of `TERMS` for scaled windows x (n, length, channels) and codes (T, d)."""
    starts = np.arange(model.tokens) * model.step
    rows = x[:, starts[:, None] + np.arange(model.patch)]  # (n, T, patch, C)
    content = rows.reshape(*rows.shape[:2], -1) @ parameters["project.w"] + parameters["project.b"]
    if model.inject == "concat":
        codes = codes @ parameters["inject.w"]
    w_q, w_k, _ = np.split(np.asarray(parameters["0.qkv.w"], float), 3, axis=1)
    parts = (content, np.broadcast_to(codes, content.shape))
    queries, keys = ([by_head(part @ w, model.heads) for part in parts] for w in (w_q, w_k))
    terms = np.stack([q @ k.transpose(0, 1, 3, 2) for q in queries for k in keys])
    terms -= terms.mean(axis=-1, keepdims=True)  # (4, n, H, T, T)
    total = terms.sum(axis=0)
    shares = (terms * total).sum(axis=(1, 3, 4)) / np.maximum(
        (total**2).sum(axis=(0, 2, 3)), 1e-300
    )
    return shares.T.tolist()


def by_head(x: np.ndarray, heads: int) -> np.ndarray:
    """Rows (n, T, d) as those of each head, (n, H, T, d / H)."""
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)
