"""Position ids of a sequence of text, images and videos under a rotation on three axes (M-RoPE).

A token of text has one number on all axes; a patch of an image or video counts frames, rows and
columns from where its span begins, after patches are merged. What follows begins behind the longer
side, so that ids of a video of many frames go on under the text after it (transformers 5.23), or
behind the largest id (transformers 4.57): ``ids``.
"""

import math
import re
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from pefourier.encodings.checks import LARGEST, check_count
from pefourier.encodings.columns import waves
from pefourier.encodings.domain import positions
from pefourier.encodings.encoding import Encoding, Finding, check_inside
from pefourier.encodings.findings import finding
from pefourier.errors import PefourierError, shown

SPAN = re.compile(r"text:(\d+)|image:(\d+)x(\d+)|video:(\d+)x(\d+)x(\d+)")
AXES = "tyx"
Ids = Literal["5.23", "4.57"]


@dataclass(frozen=True)
class TokenSpan:
    """A run of tokens of one kind."""

    kind: str  # text, image, video
    sides: tuple[int, ...]  # tokens of text; frames, rows and columns of patches
    ids: np.ndarray  # (3, tokens)

    @property
    def words(self) -> str:
        """As it is typed."""
        return f"{self.kind}:{'x'.join(map(str, self.sides))}"


def read_spans(text: str, merge: int = 2, ids: Ids = "5.23") -> list[TokenSpan]:
    """Spans such as ``text:3 image:4x6 text:2``, sides in patches, of which merge x merge are one.

    >>> np.hstack([span.ids for span in read_spans("text:3 image:4x6 text:2")])
    array([[0, 1, 2, 3, 3, 3, 3, 3, 3, 6, 7],
           [0, 1, 2, 3, 3, 3, 4, 4, 4, 6, 7],
           [0, 1, 2, 3, 4, 5, 3, 4, 5, 6, 7]])
    """
    check_count("merge", merge)
    found, start = [], 0
    for item in text.replace(",", " ").split():
        span, beyond = read_span(item, start, merge, ids)
        found.append(span)
        start += beyond
        check_count("tokens of --spans", sum(one.ids.shape[1] for one in found), most=LARGEST)
    if not found:
        raise PefourierError("--spans names no span; write for example 'text:3 image:4x6 text:2'")
    return found


def read_span(item: str, start: int, merge: int, ids: Ids) -> tuple[TokenSpan, int]:
    """One span with its ids from `start` on, and after how many the next one begins."""
    if not SPAN.fullmatch(item):
        raise PefourierError(
            f"{shown(item)} is not a span; write text:3, image:4x6 (rows x columns of patches) "
            "or video:8x4x6 (frames x rows x columns)"
        )
    kind, _, sizes = item.partition(":")
    sides = tuple(map(int, sizes.split("x")))
    counts = token_counts(item, kind, sides, merge)
    check_count("tokens of --spans", math.prod(counts), most=LARGEST)
    own = np.zeros((3, math.prod(counts)), dtype=int)
    own[3 - len(counts) :] = np.indices(counts).reshape(len(counts), -1)
    own = np.repeat(own[2:], 3, axis=0) if kind == "text" else own
    beyond = counts if kind == "text" or ids == "4.57" else counts[-2:]
    return TokenSpan(kind, sides, start + own), max(beyond)


def token_counts(item: str, kind: str, sides: tuple[int, ...], merge: int) -> tuple[int, ...]:
    """Tokens along each axis of a span."""
    for side in sides:
        check_count(f"a side of {item}", side)
    if kind == "text":
        return sides
    for side in sides[-2:]:
        if side % merge:
            raise PefourierError(
                f"{shown(item)} has a side of {side} patches, which merges of {merge} x {merge} do "
                f"not divide; take {side - side % merge or merge} or {side - side % merge + merge}"
            )
    return (*sides[:-2], *(side // merge for side in sides[-2:]))


def along_spans(enc: Encoding, axis: np.ndarray, spans: list[TokenSpan], text: str) -> Encoding:
    """A rotation of one axis as it turns the tokens of spans: `axis` (m,) tells each pair's ids."""
    ids = np.hstack([span.ids for span in spans])
    omega, factor = enc.measure.frequencies, enc.params.get("attention_factor", 1.0)
    layout = enc.params["layout"]

    def codes(x: np.ndarray) -> np.ndarray:
        x = np.asarray(x)
        check_inside(x, ids.shape[1], "token", "the tokens of --spans")
        phases = ids[axis][:, x].T * omega
        return factor * waves(phases, layout, first="cos")

    params = {**enc.params, "length": ids.shape[1], "spans": text, "position_ids": ids.tolist()}
    known = (one for one in enc.findings if one.code != "rope-axes")  # all tokens are answered
    facts = {"domain": positions(ids.shape[1]), "findings": (*known, *overlaps(spans))}
    waves_on_axes = replace(enc.measure, frequencies=np.eye(3)[axis] * omega[:, None])
    walk = waves_on_axes, ids.T
    return replace(enc, codes=codes, measure=None, walk=walk, params=params, **facts)


def overlaps(spans: list[TokenSpan]) -> tuple[Finding, ...]:
    """Spans that begin before the ids of an earlier one end, and tokens that share all ids."""
    found, largest, holder = [], -1, None
    for span in spans:
        first = int(span.ids.min())
        if first <= largest:
            told = {"span": span.words, "first": first, "holder": holder.words, "last": largest}
            found.append(finding("position-ids-overlap", **told))
        if span.ids.max() > largest:
            largest, holder = int(span.ids.max()), span
    return tuple(found)


def describe_axes(axis: np.ndarray) -> str:
    """Which axis turns each pair, those that turn alike or by turns together.

    >>> describe_axes(np.repeat([0, 1, 2], [16, 24, 24])), describe_axes(np.arange(64) % 3)
    ('16 t + 24 y + 24 x', '21 × (t, y, x) + 1 t')
    """
    letters = "".join((AXES + "e")[i] for i in axis)
    runs = re.finditer(r"(.{1,3}?)\1+|(.)", letters)
    parts = ((run[1] or run[2], len(run[0])) for run in runs)
    told = [(n // len(unit), ", ".join(unit)) for unit, n in parts]
    return " + ".join(f"{n} × ({axes})" if "," in axes else f"{n} {axes}" for n, axes in told)


def axes_of_sections(
    sections: tuple[int, ...], interleaved: bool | Literal["rows"], pairs: int
) -> np.ndarray:
    """Which of the axes t, y, x turns each pair: in blocks, by turns, or as Ernie 4.5 has it.

    Its sections are those of rows, columns and frames; rows and columns take turns, frames are
    behind them.

    >>> axes_of_sections((2, 1, 1), interleaved=True, pairs=4)
    array([0, 1, 2, 0])
    >>> axes_of_sections((2, 2, 1), interleaved="rows", pairs=5)
    array([1, 2, 1, 2, 0])
    """
    fits = sum(sections) <= pairs if interleaved is True else sum(sections) == pairs
    if len(sections) != 3 or not fits or (interleaved == "rows" and sections[0] != sections[1]):
        alike = ", the first two alike" if interleaved == "rows" else ""
        raise PefourierError(
            f"mrope_section {list(sections)} must be three numbers of pairs that sum to {pairs}, "
            f"half of the dimensions that turn{alike}"
        )
    if interleaved == "rows":
        return np.r_[np.tile([1, 2], sections[0]), np.zeros(sections[2], dtype=int)]
    if not interleaved:
        return np.repeat(np.arange(3), sections)
    turns = np.arange(pairs) % 3  # pairs that are nobody's are those of t, as in transformers
    return np.where(np.arange(pairs) < 3 * np.array(sections)[turns], turns, 0)
