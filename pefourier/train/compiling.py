"""Compilation of training steps with torch, where it saves more time than it takes.

The decision depends on a count of bytes and not on a measured time. Equal requests are therefore
compiled in the same way and give equal numbers in every run. Torch caches compiled steps on disk.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

import torch

from pefourier.errors import PefourierError
from pefourier.train.model import Classifier, OrderFree
from pefourier.train.options import Compile

COMPILING = 15.0  # seconds for one kind of stack, on 16 cores
CAPTURING = 0.5  # seconds to capture the graphs of a stack
TIMES = 3  # training must last this many times as long as compilation
STARTING = 5e-4  # seconds in which a GPU launches the kernels of a step
RATE = 6e11  # bytes of activations per second, as counted by `bytes_between_layers`
KINDS = 256  # compiled kinds of stacks that torch caches
T = TypeVar("T")


def seconds_of_step(model: Classifier, batch: int, members: int) -> float:
    """Estimate the seconds of an uncompiled step on a GPU from the bytes that it moves."""
    if isinstance(model, OrderFree):
        return STARTING
    return STARTING + members * model.bytes_between_layers(batch) / RATE


@cache
def compile_function(function: Callable[..., T]) -> Callable[..., T]:
    """Compile a function for each set of shapes that it receives."""
    from torch._dynamo import config

    config.cache_size_limit = KINDS
    return torch.compile(function, dynamic=False, fullgraph=True)


@dataclass(eq=False)
class Compiler:
    """Compiler of training steps; after one failure, stacks train without compilation."""

    choice: Compile
    say: Callable[[str], None]
    works: bool = field(init=False, default=True)

    def pays(self, device: torch.device, seconds: float) -> bool:
        """Whether to compile work that takes this many seconds."""
        if self.choice == "auto":
            return device.type == "cuda" and seconds >= TIMES * COMPILING
        return self.choice == "on"

    def run(self, work: Callable[[Callable[..., T]], Any], function: Callable[..., T]) -> Any:
        """Run work with a compiled function, or with the original if torch cannot compile it."""
        if not self.works:
            return work(function)
        from torch._dynamo.exc import TorchDynamoException

        try:
            with warnings.catch_warnings(action="ignore"):  # from imports of the compiler
                return work(compile_function(function))
        except TorchDynamoException as error:
            lines = filter(None, str(error).splitlines())
            cause = next(
                (line for line in lines if not line.endswith("raised:")), "no reason given"
            )
        if self.choice == "on":
            raise PefourierError(f"--compile on: torch cannot compile here: {cause}; leave it out")
        self.works = False
        self.say(f"training continues without compilation: {cause}")
        return work(function)
