r"""How far each member of a stack goes in a step: its rate, the warm-up, the decay of its weights.

Conventions
-----------
One Adam steps all members at the largest of their rates; then each is taken back to its own share
of the way, which is what Adam would have done at its rate: the step of Adam is proportional to it.
Codes under training may have a rate of their own: tables start small and hardly move at that of
weights. The optimizer has them as a group, with the largest of theirs.
Decay is decoupled (Loshchilov and Hutter, 2019): :math:`w \leftarrow w - \eta \lambda w` beside the
step of Adam, of weights alone, not of biases, gains or codes. While it warms up, a rate rises
linearly from step to step.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from pefourier.train.asked import Tuning


def is_code(name: str) -> bool:
    """Whether a parameter is one of codes."""
    return name.startswith("codes.")


class Pace:
    """Shortens the steps of an optimizer that goes at the largest rate."""

    def __init__(self, tunings: Sequence[Tuning], warm_up: int, count: Tensor) -> None:
        device = count.device
        self.share = {}
        for codes in (False, True):
            rates = torch.tensor([one.rate_of(codes) for one in tunings], dtype=torch.float64)
            self.share[codes] = (rates / rates.max()).to(device)
        decays = [one.rate * one.weight_decay for one in tunings]
        self.decay = torch.tensor(decays, dtype=torch.float64, device=device)
        self.warm_up, self.count = warm_up, count  # in steps; steps taken

    @staticmethod
    def needed(tunings: Sequence[Tuning], warm_up: int) -> bool:
        """Whether members go otherwise than Adam at one rate."""
        alike = len({(one.rate, one.rate_of(True)) for one in tunings}) == 1
        return bool(warm_up) or not alike or any(one.weight_decay for one in tunings)

    @torch.no_grad()
    def shorten(
        self,
        step: Callable[[], object],
        parameters: Mapping[str, Tensor],
        members: Callable[[str], slice],
    ) -> None:
        """Take a step of the optimizer, and back; `members` are those that a parameter is of."""
        before = {name: p.detach().clone() for name, p in parameters.items()}
        with torch.enable_grad():
            step()
        warm = ((self.count + 1) / max(self.warm_up, 1)).clamp(max=1.0)
        decay = self.decay * warm
        for name, p in parameters.items():
            share = self.share[is_code(name)] * warm
            own, shape = members(name), (-1,) + (1,) * (p.dim() - 1)
            p.copy_(torch.lerp(before[name], p, share[own].view(shape).to(p.dtype)))
            if name.endswith(".w"):
                p.sub_(before[name] * decay[own].view(shape).to(p.dtype))
