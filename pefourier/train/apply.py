"""A trained classifier applied: from its numbers to logits, one member alone."""

from collections.abc import Mapping

import numpy as np
import torch

from pefourier.train.attention import codes_by_act
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
) -> np.ndarray:
    """Logits (n, K) of windows x (n, length, channels) that are scaled already; float32."""
    p = {name: torch.as_tensor(one, dtype=torch.float32)[None] for name, one in parameters.items()}
    injected = {} if injection is None else codes_by_act([injection], CPU, torch.float32)
    parts = torch.as_tensor(np.asarray(x, np.float32))[None].split(AT_A_TIME, dim=1)
    return torch.cat([model.logits(p, injected, one)[0] for one in parts]).double().numpy()
