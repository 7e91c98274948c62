"""A task on the device: windows gathered by index, and the batches of each member."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pefourier.train.data.split import Fold, Task, machine_memory
from pefourier.types import Array


@dataclass(frozen=True, eq=False)
class Resident:
    """Rows, starts and labels of a task, stored on the device once."""

    task: Task
    rows: Tensor  # (N, C)
    starts: Tensor  # (W,)
    labels: Tensor  # (W,)
    within: Tensor  # (L,)
    lengths: Tensor | None  # (W,) rows of each window; the rest is padding
    device: torch.device

    def windows(self, index: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
        """Windows (M, n, L, C) of indices (M, n), scaled by the fold of each member."""
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
    """Windows per step and steps per epoch, equal for all folds of a task and for all stacks."""
    smallest = min(len(fold.train) for fold in task.folds)
    batch = min(batch_size, smallest)
    return batch, smallest // batch


def draw_batches(
    task: Task, seed: int, number: int, first: int, count: int, batch_size: int
) -> Array:
    """Window indices (count, batch) of a seed and fold for `count` steps from `first` on."""
    fold = task.folds[number]
    batch, steps = batch_and_steps(task, batch_size)
    epochs = range(first // steps, (first + count - 1) // steps + 1)
    rngs = (np.random.default_rng([seed, number, epoch]) for epoch in epochs)
    shuffled = [rng.permutation(fold.train)[: steps * batch].reshape(steps, batch) for rng in rngs]
    begin = first - epochs[0] * steps
    return np.asarray(np.concatenate(shuffled)[begin : begin + count])


def padded_indices(indices: Sequence[Array]) -> Tensor:
    """Indices of all members (M, n), padded with the first index of each."""
    longest = max(map(len, indices))
    rows = [np.concatenate([i, np.full(longest - len(i), i[0])]) for i in indices]
    return torch.as_tensor(np.stack(rows))


def class_weights(task: Task, fold: Fold) -> Array:
    """Weights n / (K n_k), which give every class the same total weight in training."""
    counts = np.bincount(task.labels[fold.train], minlength=len(task.classes))
    return np.asarray(len(fold.train) / (len(counts) * counts))


def device_memory(device: torch.device) -> int:
    """Bytes of memory of a device."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    return machine_memory()


PROBED = 2  # members in a trial step
ROOM = 0.4  # share of a GPU's free memory that a step may use; graphs need separate memory


def count_fitting(device: torch.device, count: int, trial_step: Callable[[int], object]) -> int:
    """Count the members that fit into a GPU's memory, from an eager step of a few members.

    A failed graph capture is fatal, which is why memory is checked before any capture.
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
    """Copy a tensor to the device without waiting for the device's current work."""
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def fetch(tensors: Sequence[Tensor]) -> tuple[list[Tensor], Callable[[], None]]:
    """Copy tensors to the host; also return a function to call before reading their numbers."""
    copies = [tensor.to("cpu", non_blocking=True) for tensor in tensors]
    if tensors[0].device.type != "cuda":
        return copies, lambda: None
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    return copies, event.synchronize
