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
OF_MODELS = re.compile(r"config\.json|.*\.safetensors(\.index\.json)?")  # what is read of one


def refuse_overwriting(values: Mapping[str, Any]) -> None:
    """Refuse an option that would replace a file that the same command reads, by whatever name."""
    written = {key: values[key] for key in WRITTEN if values.get(key)}
    if not any(map(os.path.exists, written.values())):
        return
    inputs = {identity: path for path in files_read(values) for identity in identities(path)}
    for key, out in written.items():
        targets = files_in(out, OF_FOLDERS) if os.path.isdir(out) else [out]
        for path in (inputs[i] for target in targets for i in identities(target) if i in inputs):
            option = f"--{key.replace('_', '-')} {shown(out)}"
            raise PefourierError(
                f"{option} would replace {label(path)}, which is read; name another"
            )


def files_read(values: Mapping[str, Any]) -> Iterator[str]:
    """The files that a command may read: each SPEC up to its name of a part, and its model's."""
    for key in READ:
        texts = values.get(key) or ()
        for text in [texts] if isinstance(texts, str) else texts:
            for path in (text, *(text[: mark.start()] for mark in re.finditer("[#@]", text))):
                yield path
                folder = (os.path.dirname(path) or ".") if path.endswith(".json") else path
                if key not in OF_DATA:
                    yield from files_in(folder, OF_MODELS)


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
