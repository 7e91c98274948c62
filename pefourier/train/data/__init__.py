"""The data of a training comparison: sources, windows, splits.

Names that `--dataset` knows are those of files in published/ and synthetic/; they are listed
without being imported, for help and errors.
"""

from pathlib import Path
from pkgutil import iter_modules


def names_in(folder: str) -> tuple[str, ...]:
    """Names of the modules in a folder beside this file.

    >>> names_in("published")
    ('msl', 'smd')
    """
    modules = iter_modules([str(Path(__file__).parent / folder)])
    return tuple(sorted(module.name for module in modules))


PUBLISHED = names_in("published")  # read under --data DIR
SYNTHETIC = names_in("synthetic")  # drawn when asked for
