"""Files that tests write, and a check of refused tables."""

import io
import json
import struct
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from pefourier.encodings.sources.tables import read_table
from pefourier.errors import PefourierError

TABLE = np.random.default_rng(0).normal(size=(5, 3))


def refused(path, key=None):
    """Assert that a file is refused in one line that names it, quickly and in little memory."""
    start = time.process_time()
    with pytest.raises(PefourierError) as error:
        read_table(path, key)
    assert time.process_time() - start < 5
    assert str(error.value).isprintable()
    assert ascii(path)[1:-1] in str(error.value)
    return str(error.value)


def put(path, content):
    Path(path).write_bytes(content)


def npy_bytes(header, data=b"", version=b"\1\0", width=2):
    return b"\x93NUMPY" + version + len(header).to_bytes(width, "little") + header + data


def npy_file(array):
    """Return the array as numpy.save writes it."""
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def npz_file(members, way=zipfile.ZIP_STORED):
    """Return an archive of arrays or of raw members."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", way) as archive:
        for name, content in members.items():
            file = content if isinstance(content, bytes) else npy_file(content)
            archive.writestr(f"{name}.npy", file)
    return stream.getvalue()


HEADER = b"{'descr': '<f8', 'fortran_order': False, 'shape': (5, 3)}"


def safetensors_bytes(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def safetensors(path, tensors):
    """Write a file of float32 tensors."""
    save_file(
        {name: np.array(array, np.float32, order="C") for name, array in tensors.items()}, path
    )


def llama_keys(width, heads, layers, length, **own):
    """Return the keys of a GGUF file of a Llama-like model; those that are None are left out."""
    sizes = {"context_length": length, "embedding_length": width, "block_count": layers}
    sizes |= {"attention.head_count": heads, "rope.dimension_count": width // heads}
    own = {key: value for key, value in (sizes | own).items() if value is not None}
    return {"general.architecture": "llama"} | {f"llama.{key}": x for key, x in own.items()}


def gguf_bytes(values, counts=None):
    """Return the header of a GGUF file by the format's terms, with its or other counts.

    `values` are pairs of a key and a value, which may be the bytes of a type and a value.
    """

    def string(text):
        return struct.pack("<Q", len(text)) + text.encode()

    def value(one):
        if isinstance(one, bytes):
            return one
        if isinstance(one, str):
            return struct.pack("<I", 8) + string(one)
        if isinstance(one, list):
            kind = "<f" if isinstance(one[0], float) else "<I"
            head = struct.pack("<IIQ", 9, 6 if kind == "<f" else 4, len(one))
            return head + b"".join(struct.pack(kind, x) for x in one)
        if isinstance(one, bool):
            return struct.pack("<I?", 7, one)
        if isinstance(one, float):
            return struct.pack("<If", 6, one)
        kind, form = (4, "<II") if 0 <= one < 2**32 else (11, "<Iq")
        return struct.pack(form, kind, one)

    held = b"".join(string(key) + value(one) for key, one in values)
    return b"GGUF" + struct.pack("<IQQ", 3, *(counts or (0, len(values)))) + held
