"""The step of a stack compiled by torch, where that saves more time than compiling takes.

What decides is a count of bytes and not a measured time, so that equal requests are compiled alike,
and give equal numbers, run after run. What torch has compiled it keeps on disk itself.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

import torch

from pefourier.errors import PefourierError
from pefourier.train.model import Classifier, OrderFree
from pefourier.train.options import Compile

COMPILING = 25.0  # seconds for one kind of stack, of 16 cores
CAPTURING = 0.3  # seconds for the graphs of a stack
TIMES = 3  # as long as compiling must training last
STARTING = 4e-4  # seconds in which a GPU starts the kernels of a step
RATE = 8e11  # bytes of activations, as `bytes_between_layers` counts them, in a second
KINDS = 256  # of stacks that torch keeps compiled
T = TypeVar("T")


def seconds_of_step(model: Classifier, batch: int, members: int) -> float:
    """About how long a GPU takes for a step that is not compiled, from the bytes it moves."""
    if isinstance(model, OrderFree):
        return STARTING
    return STARTING + members * model.bytes_between_layers(batch) / RATE


@cache
def compile_function(function: Callable[..., T]) -> Callable[..., T]:
    """A function compiled for each set of shapes that it meets."""
    from torch._dynamo import config

    config.cache_size_limit = KINDS
    return torch.compile(function, dynamic=False, fullgraph=True)


@dataclass(eq=False)
class Compiler:
    """Compiles what stacks do in a step; once it has failed, it lets all go on without."""

    choice: Compile
    say: Callable[[str], None]
    works: bool = field(init=False, default=True)

    def pays(self, device: torch.device, seconds: float) -> bool:
        """Whether to compile what so many seconds would be spent with."""
        if self.choice == "auto":
            return device.type == "cuda" and seconds >= TIMES * COMPILING
        return self.choice == "on"

    def run(self, work: Callable[[Callable[..., T]], Any], function: Callable[..., T]) -> Any:
        """Do work with a function compiled, or as it is where torch cannot compile it."""
        if not self.works:
            return work(function)
        from torch._dynamo.exc import TorchDynamoException

        try:
            return work(compile_function(function))
        except (TorchDynamoException, NotImplementedError) as error:
            cause = str(error).strip().splitlines()[0]
        if self.choice == "on":
            raise PefourierError(f"--compile on: torch cannot compile here: {cause}; leave it out")
        self.works = False
        self.say(f"training goes on without compiling: {cause}")
        return work(function)
