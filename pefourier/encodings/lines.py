r"""Do the rows of a table come in lines, as the points of an image do, and where do these begin?

Neighbours in a line are alike; the last point of a line and the first of the next are not. So the
cosines of rows that follow one another fall where a line ends, at regular distances: the width of
the grid, and where they fall tells how many rows come before it and how many behind. `Seen.share`
is the share of these cosines' variance that the ends of lines explain. Rows are taken without their
median. Codes that are smooth, but free, show it where inner products are no function of the
displacement; codes on one axis, or of which each stands alone, do not.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import isqrt, prod

import numpy as np

from pefourier.encodings.encoding import unit_of

MOST_OTHERS = 8  # rows before and behind a grid that are looked for
MEASURED = 2**10  # rows that are looked at
LEAST_SIDE = 4  # of a grid whose lines can be told from chance
LEAST_POINTS = 48
SURE = 0.6  # share of the variance that the ends of lines explain
RATIO = 0.6  # and that of all other lines, over it
IN_PAIRS = 0.25  # share that every second row may explain: 2 x 2 blocks are no lines
FARTHER = 1.25  # how much farther codes two lines apart are than those one line apart
MOSTLY = 0.9  # ends of lines that are less alike than other neighbours: maybe a grid
ALIKE = 0.1  # mean cosine of neighbours that tell nothing
BEFORE_IMAGES = (0, 1, 2, 4, 5)  # rows before a grid: class, distillation, register tokens
LEAST_SQUARE = 7
ROUNDING = 1e-6  # distances below are none: copies of one line are no grid


@dataclass(frozen=True)
class Lines:
    """Rows of a table that are points of a grid, and how many come before and behind them."""

    grid: tuple[int, int]  # lines, and points of each
    prefix: int
    after: int
    share: float
    next_share: float  # of any other lines


@dataclass(frozen=True, eq=False)
class Seen:
    """The first rows of a table, as they are compared with those that follow."""

    table: np.ndarray

    @cached_property
    def unit(self) -> np.ndarray:
        """Rows without their median, of length one."""
        rows = np.asarray(self.table[: MEASURED + MOST_OTHERS], dtype=float)
        rows = rows * unit_of(rows)
        rows = rows - np.median(rows, axis=0)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / np.where(lengths > 0, lengths, 1.0)

    @cached_property
    def next_ones(self) -> np.ndarray:
        """Cosine of each row and the next, up to rounding."""
        return self.cosines(1).round(12)

    def cosines(self, apart: int) -> np.ndarray:
        """Cosines of rows so many apart."""
        return (self.unit[apart:] * self.unit[:-apart]).sum(axis=1)

    def lines_within(self, width: int, start: int, points: int) -> int:
        """How many whole lines of points are seen, the first at row `start`."""
        return min(points, len(self.unit) - start) // width

    def ends(self, width: int, start: int, points: int) -> tuple[np.ndarray, np.ndarray]:
        """Cosines of neighbours within lines, one line after another, and of those between."""
        count = self.lines_within(width, start, points)
        own = np.append(self.next_ones[start : start + count * width - 1], np.nan)
        own = own.reshape(count, width)
        return own[:, :-1], own[:-1, -1]

    def share(self, width: int, start: int, points: int) -> float:
        """Share of the variance that the ends of lines explain; 0 where they are more alike."""
        if self.lines_within(width, start, points) < LEAST_SIDE:
            return 0.0
        inside, between = self.ends(width, start, points)
        fall = inside.mean() - between.mean()
        every = np.append(inside.ravel(), between)
        spread = float(((every - every.mean()) ** 2).sum())
        if fall <= 0 or spread == 0:
            return 0.0
        return float(fall**2 * inside.size * between.size / len(every) / spread)

    def low_ends(self, width: int, start: int, points: int) -> float:
        """How often neighbours between lines are less alike than others: 0.5 by chance."""
        if self.lines_within(width, start, points) < LEAST_SIDE:
            return 0.5
        inside, between = self.ends(width, start, points)
        return float((between[:, None] < inside.ravel()).mean())

    def are_lines(self, width: int, start: int, points: int) -> bool:
        """Whether lines lie beside one another: the next is nearer than the one behind it.

        Nor do codes come in pairs, as those of blocks of 2 x 2 points do.
        """
        inside, between = self.ends(width, start, points)
        stop = start + self.lines_within(width, start, points) * width
        near, far = (
            float(self.cosines(k * width)[start : stop - k * width].mean()) for k in (1, 2)
        )
        beside = near >= between.mean() + 0.25 * (inside.mean() - between.mean())
        odd, even = inside[:, 1::2], inside[:, ::2]
        spread = float(((inside - inside.mean()) ** 2).sum())
        apart = (odd.mean() - even.mean()) ** 2 * odd.size * even.size / inside.size
        farther = 1 - far >= FARTHER * max(1 - near, ROUNDING)
        return beside and farther and apart <= IN_PAIRS * spread


def squares_with_others(rows: int) -> Iterable[tuple[int, int]]:
    """Sides of squares that so many rows may be, and how many rows then come before them.

    >>> list(squares_with_others(201))
    [(14, 5)]
    """
    for others in BEFORE_IMAGES:
        side = isqrt(max(rows - others, 0))
        if side * side == rows - others and side >= LEAST_SQUARE:
            yield side, others


def is_usual_of_text(rows: int) -> bool:
    """Whether so many positions are as usual where there are no images.

    >>> [n for n in (50, 196, 197, 200, 257, 512, 514, 577) if not is_usual_of_text(n)]
    [197, 257, 577]
    """
    doubled = rows - 2  # of fairseq: 2 rows are kept for padding
    return rows % 4 == 0 or rows % 50 == 0 or doubled & (doubled - 1) == 0


def may_be_lines(table: np.ndarray, side: int, others: int, of_images: bool) -> bool:
    """Whether rows that do not show their grid may be a square behind others all the same.

    So it is where most ends of lines are less alike than other neighbours, or where codes are
    `of_images` by name, or neither alike nor as many as is usual of text.
    """
    seen = Seen(table)
    points = len(table) - others
    if of_images or seen.low_ends(side, others, points) >= MOSTLY:
        return True
    return not is_usual_of_text(len(table)) and abs(float(seen.next_ones.mean())) < ALIKE


def find_lines(table: np.ndarray) -> Lines | None:
    """The grid whose lines a table's rows come in; None where none explains their ends.

    Of grids of one width whose lines end at the same rows that with the fewest other rows counts.

    >>> from pefourier.encodings import build
    >>> table = build("axial", d=32, grid=(7, 11), prefix=1).table()
    >>> found = find_lines(np.vstack([table, np.zeros((2, 32))]))
    >>> found.grid, found.prefix, found.after
    ((7, 11), 1, 2)
    """
    if len(table) < LEAST_POINTS:
        return None
    seen, shares = Seen(table), {}
    for prefix, after, width in possible_lines(len(table)):
        place = width, prefix % width
        share = seen.share(width, prefix, len(table) - prefix - after)
        shares.setdefault(place, []).append((share, prefix, after))
    best = max(shares, key=lambda place: max(shares[place]))
    beyond = max((max(own)[0] for place, own in shares.items() if place != best), default=0.0)
    near = [one for one in shares[best] if one[0] >= 0.9 * max(shares[best])[0]]
    share, prefix, after = min(near, key=lambda one: one[1] + one[2])
    points, width = len(table) - prefix - after, best[0]
    if share < SURE or beyond > RATIO * share or not seen.are_lines(width, prefix, points):
        return None
    return Lines((points // width, width), prefix, after, share, beyond)


def possible_lines(count: int) -> Iterable[tuple[int, int, int]]:
    """Rows before and behind a grid of so many rows in all, and its width."""
    for others in range(MOST_OTHERS + 1):
        points = count - others
        for width in range(LEAST_SIDE, min(points, MEASURED) // LEAST_SIDE + 1):
            if points % width == 0:
                yield from ((prefix, others - prefix, width) for prefix in range(others + 1))


def find_start(table: np.ndarray, sides: tuple[int, ...]) -> int | None:
    """The row at which lines of a known grid begin; None where their ends do not show it.

    >>> from pefourier.encodings import build
    >>> find_start(build("axial", d=32, grid=(7, 11), prefix=3).table(), (7, 11))
    3
    """
    width, points = sides[-1], prod(sides)
    if len(sides) < 2 or width < LEAST_SIDE or points < LEAST_POINTS:
        return None
    seen = Seen(table)
    shares = [
        seen.share(width, start, min(points, len(table) - start))
        for start in range(min(MOST_OTHERS + 1, width))
    ]
    start = int(np.argmax(shares))
    *_, beyond, share = sorted(shares)
    lines = min(points, len(table) - start)
    if share < SURE or beyond > RATIO * share or not seen.are_lines(width, start, lines):
        return None
    return start


def rows_behind(table: np.ndarray, after: int, width: int) -> str:
    """What the last rows of a table are, that stand behind lines of points.

    >>> rows_behind(np.vstack([np.eye(5), np.zeros((1, 5))]), 1, 2)
    'the last row is all zeros: cut it (t[:-1])'
    """
    last = np.asarray(table[-after:], dtype=float)
    row, it = ("row", "it") if after == 1 else (f"{after} rows", "them")
    verb = "is" if after == 1 else "are"
    if not last.any():
        what = f"{verb} all zeros"
    elif begins_line(table, after, width):
        what = f"{'begins' if after == 1 else 'begin'} another line, which is not complete"
    else:
        what = f"{verb} none of its points"
    return f"the last {row} {what}: cut {it} (t[:-{after}])"


def begins_line(table: np.ndarray, after: int, width: int) -> bool:
    """Whether the last rows are as near to those one line before them as lines are."""
    unit = Seen(np.asarray(table[-after - 4 * width :])).unit
    beside = (unit[width:] * unit[:-width]).sum(axis=1)
    return bool(beside[-after:].min() >= beside[:-after].min())
