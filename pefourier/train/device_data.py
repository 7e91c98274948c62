"""A task that lies on the device: windows gathered there by index, and who sees which when."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from pefourier.train.data.split import Fold, Task, machine_memory


@dataclass(frozen=True, eq=False)
class Resident:
    """A task's rows, starts and labels on the device, once."""

    task: Task
    rows: Tensor  # (N, C)
    starts: Tensor  # (W,)
    labels: Tensor  # (W,)
    within: Tensor  # (L,)
    lengths: Tensor | None  # (W,) rows of each window, the rest is padding
    device: torch.device

    def windows(self, index: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
        """Windows (M, n, L, C) of indices (M, n), scaled by each member's fold."""
        rows = self.starts[index][:, :, None] + self.within  # (M, n, L)
        flat = self.rows.index_select(0, rows.flatten()).view(*rows.shape, -1)
        scaled = flat.sub_(mean).div_(scale)
        if self.lengths is None:
            return scaled
        padding = self.within >= self.lengths[index][:, :, None]  # (M, n, L)
        return scaled.masked_fill_(padding[..., None], 0.0)


def put_on_device(task: Task, device: torch.device, dtype: torch.dtype = torch.float32) -> Resident:
    """Copy a task to the device."""
    return Resident(
        task,
        torch.as_tensor(task.rows, dtype=dtype).to(device),
        torch.as_tensor(task.starts, device=device),
        torch.as_tensor(task.labels, device=device),
        torch.arange(task.length, device=device),
        None if task.lengths is None else torch.as_tensor(task.lengths, device=device),
        device,
    )


def batch_and_steps(task: Task, batch_size: int) -> tuple[int, int]:
    """Windows a step and steps an epoch that every fold has: facts of the task, not of a stack."""
    smallest = min(len(fold.train) for fold in task.folds)
    batch = min(batch_size, smallest)
    return batch, smallest // batch


def draw_batches(
    task: Task, seed: int, number: int, first: int, count: int, batch_size: int
) -> np.ndarray:
    """Indices of windows (count, batch) of a seed and fold, of the steps from the first on."""
    fold = task.folds[number]
    batch, steps = batch_and_steps(task, batch_size)
    epochs = range(first // steps, (first + count - 1) // steps + 1)
    rngs = (np.random.default_rng([seed, number, epoch]) for epoch in epochs)
    shuffled = [rng.permutation(fold.train)[: steps * batch].reshape(steps, batch) for rng in rngs]
    begin = first - epochs[0] * steps
    return np.asarray(np.concatenate(shuffled)[begin : begin + count])


def padded_indices(indices: Sequence[np.ndarray]) -> Tensor:
    """Indices of all members (M, n), filled up with their first."""
    longest = max(map(len, indices))
    rows = [np.concatenate([i, np.full(longest - len(i), i[0])]) for i in indices]
    return torch.as_tensor(np.stack(rows))


def class_weights(task: Task, fold: Fold) -> np.ndarray:
    """Weights n / (K n_k), under which every class counts the same in training."""
    counts = np.bincount(task.labels[fold.train], minlength=len(task.classes))
    return np.asarray(len(fold.train) / (len(counts) * counts))


def device_memory(device: torch.device) -> int:
    """Bytes that a device has."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    return machine_memory()


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


def capture_cuda_graphs(program: Any) -> list[Callable[[], None]]:
    """A look and a step of a `fit.Program` as CUDA graphs; steps that warm up leave no trace."""
    before = {name: p.detach().clone() for name, p in program.parameters.items()}
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*capturable=True")  # these steps are not captured
        for _ in range(WARM_UP):
            program.step()
            program.look()
    torch.cuda.current_stream().wait_stream(side)
    with torch.no_grad():
        for name, p in program.parameters.items():
            p.copy_(before[name])
            for state in program.optimizer.state[p].values():
                state.zero_()
    program.count.fill_(program.done)
    program.total.zero_()
    program.optimizer.zero_grad(set_to_none=True)
    replays = []
    for work in (program.look, program.step):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):  # whose workspaces are there already
            work()
        replays.append(graph.replay)
    return replays
