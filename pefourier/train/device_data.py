"""A task that lies on the device: windows gathered there by index, and who sees which when."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

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


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor on the device, without waiting for what that is at."""
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def fetch(tensors: Sequence[Tensor]) -> tuple[list[Tensor], Callable[[], None]]:
    """Tensors of a device on the host, and what to call before their numbers are read."""
    copies = [tensor.to("cpu", non_blocking=True) for tensor in tensors]
    if tensors[0].device.type != "cuda":
        return copies, lambda: None
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    return copies, event.synchronize
