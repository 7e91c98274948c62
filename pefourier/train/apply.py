"""A trained classifier applied: from its numbers to logits, one member alone."""

from collections.abc import Mapping

import numpy as np
import torch

from pefourier.train.attention import stack_codes
from pefourier.train.injection import Injection
from pefourier.train.model import OrderFree, Transformer

AT_A_TIME = 64  # windows
CPU = torch.device("cpu")


@torch.no_grad()
def apply_classifier(
    model: Transformer | OrderFree,
    parameters: Mapping[str, np.ndarray],
    injection: Injection | None,
    x: np.ndarray,
    lengths: np.ndarray | None = None,
) -> np.ndarray:
    """Logits (n, K) of windows x (n, length, channels) that are scaled already; float32.

    Rows from `lengths` (n,) on are padding, whatever they hold.
    """
    p = {name: torch.as_tensor(w, dtype=torch.float32)[None] for name, w in parameters.items()}
    injected = {} if injection is None else stack_codes([injection], CPU, torch.float32)
    x = np.asarray(x, np.float32)
    if lengths is not None:
        x = np.where((np.arange(x.shape[1]) < lengths[:, None])[..., None], x, 0)
    logits = []
    for start in range(0, len(x), AT_A_TIME):
        chunk = slice(start, start + AT_A_TIME)
        rows = None if lengths is None else torch.as_tensor(lengths[None, chunk])
        logits.append(model.logits(p, injected, torch.as_tensor(x[None, chunk]), None, rows)[0])
    return torch.cat(logits).double().numpy()
