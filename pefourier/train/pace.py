"""What members of one stack differ in while they train: what they drop, and how far they go.

One Adam steps all members at the largest of their rates; then each is taken back to its share of
the way, which is what Adam would have done at its rate: the step of Adam is proportional to it.
Codes under training have a rate of their own: tables start small. Decay is decoupled (Loshchilov
and Hutter, 2019), of weights alone, not of biases, gains or codes. While it warms up, a rate rises
linearly from step to step.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from pefourier.train.request import Tuning


def is_code(name: str) -> bool:
    """Whether a parameter is one of codes."""
    return name.startswith("codes.")


class Dropout:
    """Drops from (M, …) in training, for each member its own share; the rest is scaled up.

    On a processor what drops is drawn for each member from its key, the step and the layer of
    dropout, so that it does not depend on who stands beside it; elsewhere by torch's generator.
    """

    def __init__(self, shares: Sequence[float], keys: Sequence[int], device: torch.device) -> None:
        self.share = torch.tensor(shares, dtype=torch.float32, device=device)
        self.keys, self.step, self.site = keys, 0, 0
        self.generator = torch.Generator()

    def begin(self, step: int) -> "Dropout":
        """Begin the forward pass of a step."""
        self.step, self.site = step, 0
        return self

    def __call__(self, x: Tensor) -> Tensor:
        """Drop from x (M, …)."""
        self.site += 1
        share = self.share.view(-1, *(1,) * (x.dim() - 1))
        if x.device.type == "cpu":
            uniform = torch.empty(x.shape)
            for member, key in zip(uniform, self.keys, strict=True):
                seed = (key * 1_000_003 + self.step) * 64 + self.site
                member.uniform_(generator=self.generator.manual_seed(seed % 2**63))
        else:
            uniform = torch.rand(x.shape, device=x.device)
        return x * ((uniform >= share) / (1 - share)).to(x.dtype)


class Pace:
    """Shortens the steps of an optimizer that goes at the largest rate."""

    def __init__(self, tunings: Sequence[Tuning], warm_up: int, count: Tensor) -> None:
        self.share = {}
        for codes in (False, True):
            rates = torch.tensor([tuning.rate_of(codes) for tuning in tunings], dtype=torch.float64)
            self.share[codes] = (rates / rates.max()).to(count.device)
        decays = [tuning.rate * tuning.weight_decay for tuning in tunings]
        self.decay = torch.tensor(decays, dtype=torch.float64, device=count.device)
        self.warm_up, self.count = warm_up, count  # in steps; steps taken

    @staticmethod
    def is_needed(tunings: Sequence[Tuning], warm_up: int) -> bool:
        """Whether members go otherwise than Adam at one rate."""
        one_rate = len({(tuning.rate, tuning.rate_of(True)) for tuning in tunings}) == 1
        return bool(warm_up) or not one_rate or any(tuning.weight_decay for tuning in tunings)

    @torch.no_grad()
    def shorten(self, step: Callable[[], object], parameters: Mapping[str, Tensor]) -> None:
        """Take a step of the optimizer, and back."""
        before = {name: p.detach().clone() for name, p in parameters.items()}
        with torch.enable_grad():
            step()
        warm = ((self.count + 1) / max(self.warm_up, 1)).clamp(max=1.0)
        decay = self.decay * warm
        for name, p in parameters.items():
            shape = (-1,) + (1,) * (p.dim() - 1)
            share = self.share[is_code(name)] * warm
            p.copy_(torch.lerp(before[name], p, share.view(shape).to(p.dtype)))
            if name.endswith(".w"):
                p.sub_(before[name] * decay.view(shape).to(p.dtype))
