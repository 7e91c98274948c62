"""What a GPU needs: kernels, precision, a step as one graph, and stacks that its memory holds."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

PROBED = 2  # members of a trial step
ROOM = 0.4  # share of a GPU's free memory that a step may take; a graph has memory of its own
WARM_UP = 3  # steps before a CUDA graph is captured
BFLOAT16 = (8, 0)  # compute capability from which on products are made in it
# Not cuDNN's: at lengths that 128 does not divide its backward pass gave nan, its graphs broke
# (pytorch issues 196678 and 169849), and it builds a plan for every shape
KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


@contextmanager
def training_precision(device: torch.device) -> Iterator[None]:
    """bfloat16 matrix products on a GPU that has them."""
    if device.type == "cpu":
        yield
        return
    able = device.type != "cuda" or torch.cuda.get_device_capability() >= BFLOAT16
    cast = torch.autocast("cuda", dtype=torch.bfloat16, enabled=able, cache_enabled=False)
    with cast, sdpa_kernel(KERNELS):
        yield


def count_fitting(device: torch.device, count: int, trial_step: Callable[[int], object]) -> int:
    """How many of so many members a GPU's memory holds, by an eager step of few of them.

    A failed capture cannot be recovered from, so that none is tried that would fail.
    """
    if device.type != "cuda" or count <= PROBED:
        return count
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    trial_step(PROBED)
    size = (torch.cuda.max_memory_allocated() - before) / PROBED
    torch.cuda.empty_cache()
    return min(count, max(1, int(ROOM * torch.cuda.mem_get_info()[0] / size)))


def capture_cuda_graph(program: Any) -> Callable[[], None]:
    """Capture a step of a `fit.Program` as one CUDA graph; steps that warm up leave no trace."""
    before = {name: p.detach().clone() for name, p in program.parameters.items()}
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*capturable=True")  # these steps are not captured
        for _ in range(WARM_UP):
            program.step()
    torch.cuda.current_stream().wait_stream(side)
    with torch.no_grad():
        for name, p in program.parameters.items():
            p.copy_(before[name])
            for state in program.optimizer.state[p].values():
                state.zero_()
    program.count.fill_(program.done)
    program.total.zero_()
    program.optimizer.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):  # whose workspaces are there already
        program.step()
    return graph.replay
