"""Distances, ranks and rounding of position vectors: the linear algebra behind the questions.

Long computations use two threads, since numpy releases the interpreter lock while it computes.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from itertools import islice
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

Progress = Callable[[int, int], object]  # called as progress(done, total) during long work
THREADS = 2  # results computed at the same time
Item = TypeVar("Item")
Made = TypeVar("Made")


def keep_last(function: Callable[..., Made]) -> Callable[..., Made]:
    """Keep the result about the last encoding, which other questions and figures need again."""
    last: WeakKeyDictionary[Any, Made] = WeakKeyDictionary()

    @wraps(function)
    def kept(enc: Any, *rest: Any) -> Made:
        if (result := last.get(enc)) is None:
            result = function(enc, *rest)
            last.clear()
            last[enc] = result
        return result

    return kept


def is_cramped() -> bool:
    """Whether the address space is limited, of which threads reserve more than they use.

    Libraries that start a thread per core then fail or hang. The C library also requests more
    address space for every small object of a thread.
    """
    if os.name != "posix":
        return False
    import resource

    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def map_ahead(function: Callable[[Item], Made], items: Iterable[Item]) -> Iterator[Made]:
    """Yield results in order, computed two at a time, or singly in a limited address space.

    >>> list(map_ahead(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    from concurrent.futures import ThreadPoolExecutor

    if is_cramped():
        yield from map(function, items)
        return
    ahead = iter(items)
    with ThreadPoolExecutor(THREADS) as pool:
        while pair := [*islice(ahead, THREADS)]:
            yield from pool.map(function, pair)
