"""Writers of single formats: each takes a stream, a C-ordered table (n, d) and its name."""

import json
import zipfile
from collections.abc import Callable, Mapping
from typing import BinaryIO

import numpy as np


def write_npy(stream: BinaryIO, table: np.ndarray) -> None:
    """Unlike numpy.save, also to a pipe, and with the reason when the disk is full."""
    header = np.lib.format.header_data_from_array_1_0(table)
    np.lib.format.write_array_header_1_0(stream, header)
    stream.write(table.data)


def write_npz(stream: BinaryIO, table: np.ndarray, name: str) -> None:
    """Unlike numpy.savez, also by the name "file"."""
    with zipfile.ZipFile(stream, "w") as archive:
        with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
            write_npy(member, table)


def write_tensors(stream: BinaryIO, tensors: Mapping[str, np.ndarray]) -> None:
    """Write tensors by name as .safetensors: length of the header, header in JSON, bytes."""
    entries, end = {}, 0
    for name, value in tensors.items():
        span = [end, end + value.nbytes]
        kind = WRITTEN[value.dtype.name]
        entries[name] = {"dtype": kind, "shape": list(value.shape), "data_offsets": span}
        end += value.nbytes
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)  # so that the numbers are aligned
    stream.write(len(header).to_bytes(8, "little") + header)
    for value in tensors.values():
        stream.write(np.ascontiguousarray(value).data)


WRITTEN = {"float16": "F16", "float32": "F32", "float64": "F64", "int64": "I64", "uint8": "U8"}
WRITERS: dict[str, Callable[[BinaryIO, np.ndarray, str], None]] = {  # with the name of a table
    ".npy": lambda stream, table, _: write_npy(stream, table),
    ".npz": write_npz,
    ".csv": lambda stream, table, _: np.savetxt(stream, table, fmt="%.17g", delimiter=","),
    ".safetensors": lambda stream, table, name: write_tensors(stream, {name: table}),
}
