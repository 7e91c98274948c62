"""Distances, ranks and rounding of codes: the linear algebra that the questions rest on.

Long work is done in two threads: numpy lets another run while it computes.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeVar

Progress = Callable[[int, int], object]  # called as progress(done, total) during long work
THREADS = 2  # results computed at a time
Item = TypeVar("Item")
Result = TypeVar("Result")


def is_cramped() -> bool:
    """Whether the address space is limited, of which threads take more than they use.

    Libraries that start one for each core then fail, or wait for ever; the C library looks for
    more of it at every small object of a thread.
    """
    if os.name != "posix":
        return False
    import resource

    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def map_ahead(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Results for items, in order, two computed at a time; one where the address space is limited.

    >>> list(map_ahead(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    from concurrent.futures import ThreadPoolExecutor

    if is_cramped():
        yield from map(function, items)
        return

    def start(item: Item) -> Callable[[], Result]:
        try:
            return pool.submit(function, item).result
        except RuntimeError:  # the system starts no more threads
            return partial(function, item)

    with ThreadPoolExecutor(THREADS) as pool:
        ahead: deque[Callable[[], Result]] = deque()
        for item in items:
            ahead.append(start(item))
            if len(ahead) > THREADS:
                yield ahead.popleft()()
        yield from (result() for result in ahead)
