"""What a command writes is none of what it reads: checked for all commands before they compute."""

import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from pefourier.errors import PefourierError, shown
from pefourier.files import label

READ = (  # options and arguments whose values may name a file
    *("specs", "spec", "model", "extend_from", "against", "baseline", "times", "stats", "pos"),
    *("encoding", "dataset", "data"),
)
WRITTEN = ("out", "plot", "permutation", "save_tables", "save_models")
OF_DATA = ("dataset", "data")  # of which none is a model
OF_FOLDERS = re.compile(r".*\.(safetensors|jsonl?|md|png|npy)")  # what is written to a folder


def refuse_overwriting(values: Mapping[str, Any]) -> None:
    """Refuse an option that would replace a file that the same command reads, by whatever name."""
    written = {key: values[key] for key in WRITTEN if values.get(key)}
    if not any(map(os.path.exists, written.values())):
        return
    inputs = {identity: path for path in files_read(values) for identity in identities(path)}
    for key, out in written.items():
        targets = files_in(out, OF_FOLDERS) if os.path.isdir(out) else [out]
        replaced = [inputs[i] for path in targets for i in identities(path) if i in inputs]
        if replaced:
            option = f"--{key.replace('_', '-')} {shown(out)}"
            fault = f"would replace {label(replaced[0])}, which is read; name another"
            raise PefourierError(f"{option} {fault} {'folder' if os.path.isdir(out) else 'file'}")


def files_read(values: Mapping[str, Any]) -> Iterator[str]:
    """The files that a command may read: each SPEC up to its name of a part, and its model's."""
    for key in READ:
        texts = values.get(key) or ()
        for text in [texts] if isinstance(texts, str) else texts:
            ends = [mark.start() for mark in re.finditer("[#@]", text)]
            for path in (text, *(text[:end] for end in ends)):
                yield path
                if key not in OF_DATA and os.path.exists(path):
                    yield from files_of_model(path)


def files_of_model(path: str) -> Iterator[str]:
    """The files of a model that are read where its folder, or one of them, is named."""
    folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
    yield os.path.join(folder, "config.json")
    if os.path.isdir(path) or path.endswith(".json"):
        from pefourier.encodings.sources.weights import INDEX, all_tensors

        yield from files_in(folder, INDEX)
        with suppress(PefourierError):  # damaged, or no weights
            yield from {file for _, file in all_tensors(folder)}


def files_in(folder: str, pattern: re.Pattern[str]) -> list[str]:
    """The paths in a folder whose names are such."""
    with suppress(OSError), os.scandir(folder) as entries:
        return [entry.path for entry in entries if pattern.fullmatch(entry.name)]
    return []


def identities(path: str) -> Iterator[tuple[int, int]]:
    """What tells a regular file from all others whatever it is called; nothing of what is none."""
    with suppress(OSError, ValueError):  # ValueError: a NUL in the path, a closed stream
        status = os.fstat(sys.stdin.fileno()) if path == "-" else os.stat(path)
        if stat.S_ISREG(status.st_mode):
            yield status.st_dev, status.st_ino
