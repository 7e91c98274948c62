"""Encodings as torch modules: codes that are added, rotations, biases of logits.

Conventions
-----------
Tables that nothing trains are no part of a state_dict, so that no checkpoint puts the codes of
another encoding in their place; they are made again where a module gets its memory later (meta
device, ``to_empty``). What is computed from shapes alone is refused in a line; positions given as a
tensor are looked at on a CPU outside of a compiled graph, elsewhere an index fails as torch's do.
"""

from typing import Any

try:
    import torch
except ModuleNotFoundError as error:
    needs = "pefourier.nn needs torch, which is not installed; pip install torch"
    raise ModuleNotFoundError(needs, name="torch") from error

import numpy as np
from torch import Tensor

from pefourier.encodings import load
from pefourier.encodings.checks import check_count
from pefourier.encodings.columns import split_pairs
from pefourier.encodings.domain import displacement_of_each_pair
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.families.rotary import rotation_of
from pefourier.encodings.model_positions import axis_in
from pefourier.errors import PefourierError

BLOCK = 2**19  # numbers of float32 that each thread turns at a time: 2 MiB


class Tabled(torch.nn.Module):
    """A module whose tables are made from an encoding, again where they got new memory."""

    def make_tables(self) -> dict[str, np.ndarray]:
        """Each table by the name of its buffer or parameter."""
        raise NotImplementedError

    def _apply(self, fn: Any, recurse: bool = True) -> "Tabled":
        empty = self.is_empty()
        super()._apply(fn, recurse)
        if empty and not self.is_empty():
            with torch.no_grad():
                for name, table in self.make_tables().items():
                    getattr(self, name).copy_(torch.from_numpy(table))
        return self

    def is_empty(self) -> bool:
        """Whether what it holds has no memory."""
        tensors = (*self.parameters(recurse=False), *self.buffers(recurse=False))
        return any(tensor.is_meta for tensor in tensors)


class PositionalEncoding(Tabled):
    """Adds the codes of positions to input (…, length, d), batch first.

    Codes are computed in float64 and kept in `dtype`, in a buffer that forward only reads and that
    no state_dict has (or, with `learn`, in a parameter that starts there); they are cast to the
    type of the input when added.

    Parameters
    ----------
    encoding : str
        Any additive SPEC: "dft", "sinusoidal:layout=halves", "table.npy".
    d : int
        Dimension of the input.
    max_length : int
        Longest sequence.
    learn : bool, optional
        Train the codes; by default those that are only where training starts ("learned").
    dtype : torch.dtype, optional
        Type the codes are kept in, default `torch.get_default_dtype()`.
    **params
        The encoding's own parameters, such as ``rho=500.0``.

    Raises
    ------
    PefourierError
        For an encoding that is not additive, and for a sequence longer than `max_length`.

    Examples
    --------
    >>> module = PositionalEncoding("dft", 8, 8)
    >>> codes = module(torch.zeros(1, 8, 8))[0]
    >>> bool(torch.dist(codes @ codes.T, torch.eye(8)) < 1e-6)
    True
    >>> packed = torch.tensor([0, 1, 2, 0, 1])  # two sequences in one row
    >>> bool((module(torch.zeros(1, 5, 8), positions=packed)[0] == codes[packed]).all())
    True
    """

    codes: Tensor  # (max_length, d)

    def __init__(
        self,
        encoding: str,
        d: int,
        max_length: int,
        *,
        learn: bool | None = None,
        dtype: torch.dtype | None = None,
        **params,
    ) -> None:
        super().__init__()
        self.given = (encoding, d, max_length, params)
        enc = load_additive(*self.given)
        hold_codes(self, enc, learn, dtype)
        self.encoding = enc.spec

    def make_tables(self) -> dict[str, np.ndarray]:
        return {"codes": load_additive(*self.given).table()}

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """Input (…, length, d) plus the codes of its positions, in the type of the input.

        Positions are 0 … length - 1, or those given as whole numbers (length,) or (…, length).
        """
        longest, d = self.codes.shape
        check_floating("input", f"(…, length, {d})", x, x.ndim > 1 and x.shape[-1] == d)
        length = x.shape[-2]
        if positions is None and length > longest:
            raise PefourierError(
                f"a sequence of {length} is longer than max_length={longest} of this module"
            )
        check_not_meta(self.codes, x)
        if positions is None:
            return x + self.codes[:length].to(x.dtype)
        check_places(positions, x.shape[:-1], longest)
        return x + torch.nn.functional.embedding(positions, self.codes).to(x.dtype)

    def extra_repr(self) -> str:
        length, d = self.codes.shape
        trained = isinstance(self.codes, torch.nn.Parameter)
        return f"{self.encoding}, d={d}, max_length={length}, {'trained' if trained else 'fixed'}"


class Rotary(Tabled):
    r"""Turns queries and keys by their positions, as the model of a config does, or a named one.

    Pair i of the dimensions of a head is turned by the angle :math:`p\,\omega_i` at position p and
    multiplied by the attention factor. Angles, cosines and sines are float32 whatever the type of
    the input, also after ``module.half()``; frequencies are those of the scaling, for scalings by
    length (dynamic, longrope) those of the largest position of the call, plus one. Which
    dimensions make a pair is the encoding's `layout`: i and i + m of the 2m that turn (halves), or
    2i and 2i + 1 (interleaved). Dimensions beyond 2m are left as they are.

    Parameters
    ----------
    spec : str or Encoding
        A rotation by name ("rope:rho=5e5,scaling=linear,factor=4"), a config ("config.json"), a
        model's folder, a table of rotations, or a loaded encoding.
    d : int, optional
        Size of a head; of a config it is the config's.
    layer_type : str, optional
        Which of several rotations of a config, such as "full_attention".
    max_length : int, optional
        Keep cosines and sines of so many positions in place of computing them in each call.
        Needed by rotations that are no function of one number (xpos, tables).
    grid : sequence of int, optional
        Sides of the grid whose points tokens are (axial-rope, mixed-rope); positions are then the
        numbers of its points, row by row, after those of a `prefix`.
    **params
        The encoding's own parameters, such as ``rho=500.0``.

    Attributes
    ----------
    softmax_factor : float
        What the model multiplies its logits by besides (DeepSeek with yarn), 1 mostly. `rotate`
        leaves it to attention: ``scale = softmax_factor * d**-0.5``.

    Raises
    ------
    PefourierError
        For what is no rotation, input of another head size, and positions beyond a table.

    References
    ----------
    J. Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding",
    arXiv:2104.09864, Eq. 34.

    Examples
    --------
    >>> rotary = Rotary("rope", d=4)
    >>> x = torch.tensor([1.0, 0, 0, 0]).expand(1, 1, 3, 4)
    >>> q, k = rotary.rotate(x, x)
    >>> torch.allclose(q[0, 0, :, 0], torch.arange(3).cos())
    True
    >>> later, _ = rotary.rotate(x[:, :, :1], x[:, :, :1], offset=2)  # one more token
    >>> torch.equal(later[0, 0, 0], q[0, 0, 2])
    True
    """

    def __init__(
        self,
        spec: str | Encoding,
        d: int | None = None,
        *,
        layer_type: str | None = None,
        max_length: int | None = None,
        grid: tuple[int, ...] = (),
        **params,
    ) -> None:
        super().__init__()
        if max_length is not None:
            check_count("max_length", max_length)
        source = f"{spec}#{layer_type}" if layer_type else spec
        options = params | ({"grid": tuple(grid)} if grid else {})
        is_encoding = isinstance(spec, Encoding)
        enc = spec if is_encoding else load_known(source, max_length, d, options)
        self.layout = layout_of_pairs(enc)
        self.encoding, self.scaling = enc.spec, dict(enc.params) if by_length(enc) else None
        self.trailing = bool(enc.params.get("trailing"))
        self.d = enc.params.get("head", enc.params.get("d", enc.dim))
        self.heads = enc.params["heads"] if "head" in enc.params else None
        self.factor = float(enc.params.get("attention_factor", 1.0))
        self.softmax_factor = float(enc.params.get("softmax_factor", 1.0))
        self.kept, self.rows = rotation_tables(enc, self.heads), None
        axis = None if is_encoding else axis_in(spec, enc)
        self.on_axes = axis is not None
        if enc.params.get("backwards"):
            self.kept["frequencies"] = -self.kept["frequencies"]
        if "cosine" in self.kept:
            self.rows = len(enc)
            if max_length is None and not enc.domain.grid and enc.origin == "formula":
                raise PefourierError(f"{enc.spec} has a table of rotations; give max_length")
        elif max_length is not None and self.scaling is None and not self.on_axes:
            self.rows = max_length
            self.kept |= keep_waves(self.kept["frequencies"], self.factor, max_length)
        if axis is not None:
            self.kept["chosen"] = (axis == np.arange(3)[:, None]).astype(np.float32)
        for name, table in self.kept.items():
            self.register_buffer(name, torch.tensor(table), persistent=False)

    def make_tables(self) -> dict[str, np.ndarray]:
        return self.kept

    def _apply(self, fn: Any, recurse: bool = True) -> "Rotary":
        super()._apply(fn, recurse)
        for name, table in self.kept.items():  # float32 also in a model of half precision
            buffer = getattr(self, name)
            if buffer.dtype != torch.float32:
                setattr(self, name, torch.tensor(table, device=buffer.device))
        return self

    def rotate(
        self, q: Tensor, k: Tensor, positions: Tensor | None = None, offset: int = 0
    ) -> tuple[Tensor, Tensor]:
        """Queries and keys (batch, heads, n, d), turned, each in its own type.

        Heads of keys may be fewer. Positions are offset … offset + n - 1, or those given, of shape
        (n,) or (batch, n); of configs with mrope_section also (3, batch, n): frames, rows, columns.
        """
        for name, x in (("queries", q), ("keys", k)):
            fits = x.ndim == 4 and x.shape[-1] == self.d
            check_floating(name, f"(batch, heads, n, {self.d})", x, fits)
            if self.heads not in (None, x.shape[1]):
                raise PefourierError(f"{self.encoding} turns {self.heads} heads; got {x.shape[1]}")
        n = q.shape[2]
        if k.shape[2] != n:
            raise PefourierError(f"{n} queries and {k.shape[2]} keys; turn each with its positions")
        check_not_meta(next(self.buffers()), q)
        cosine, sine, *inverse = self.cosines_and_sines(q, positions, offset)
        turned = self.turn(q, cosine, sine)
        if inverse:
            cosine, sine = cosine * inverse[0], sine * inverse[0]
        return turned, self.turn(k, cosine, sine)

    def turn(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """The dimensions of a head that turn, mostly the first ones, turned."""
        if not self.trailing:
            return turn(x, cosine, sine, self.layout)
        skip = x.shape[-1] - 2 * cosine.shape[-1]
        return torch.cat([x[..., :skip], turn(x[..., skip:], cosine, sine, self.layout)], -1)

    def cosines_and_sines(
        self, q: Tensor, positions: Tensor | None, offset: int
    ) -> tuple[Tensor, ...]:
        """Of the positions of queries, float32, (n, m) or for each of a batch or of heads."""
        batch, _, n, _ = q.shape
        if positions is not None:
            if offset:
                raise PefourierError("positions and offset exclude each other; give one")
            if self.on_axes and positions.shape == (3, batch, n):
                return self.waves(positions[:, :, None])
            check_places(positions, (batch, n), self.rows)
            if positions.ndim == 2:  # of each of a batch, alike for all heads
                positions = positions[:, None]
        if self.rows is None:
            if positions is None:
                positions = torch.arange(offset, offset + n, device=q.device)
            return self.waves(positions)
        if offset < 0 or (positions is None and offset + n > self.rows):
            raise PefourierError(
                f"positions {offset} … {offset + n - 1} are outside 0 … {self.rows - 1}, those "
                f"that {self.encoding} was made for; give a larger max_length"
            )
        names = ("cosine", "sine", "inverse")
        tables = [getattr(self, name) for name in names if name in self.kept]
        if positions is None:
            return tuple(table[..., offset : offset + n, :] for table in tables)
        if self.heads is None:
            return tuple(torch.nn.functional.embedding(positions, table) for table in tables)
        rows = (table[:, positions] for table in tables)  # (heads, n, m) or (heads, batch, 1, n, m)
        return tuple(row if row.ndim == 3 else row[:, :, 0].transpose(0, 1) for row in rows)

    def waves(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines (…, n, m) of positions (…, n), times the attention factor."""
        frequencies = self.frequencies
        if self.scaling is not None:
            frequencies = self.frequencies_up_to(positions.max() + 1)
        positions = positions[..., None].float()
        if positions.ndim == 5:  # (3, batch, 1, n, 1): each pair has that of its axis
            positions = (positions * self.chosen[:, None, None, None]).sum(0)
        return scaled_waves(positions * frequencies, self.factor)

    def frequencies_up_to(self, length: Tensor) -> Tensor:
        """Frequencies of a scaling by length, of a sequence of so many positions."""
        settings = self.scaling
        if settings["scaling"] == "longrope":
            return torch.where(length > settings["original"], self.longer, self.frequencies)
        beyond = (length.float() - settings["original"]).clamp(min=0)
        ratio = 1 + settings["factor"] * beyond / settings["original"]
        return self.frequencies * ratio**self.exponents

    def extra_repr(self) -> str:
        return f"{self.encoding}, d={self.d}, layout={self.layout}"


class Bias(Tabled):
    """Numbers added to the logits of each head, by the displacement from query to key.

    Parameters
    ----------
    spec : str
        A bias by name: "alibi", "t5", "kerple", "swin".
    heads : int
        How many heads.
    max_length : int, optional
        Longest sequence; on a grid it has the grid's points.
    grid : sequence of int, optional
        Sides of the grid whose points tokens are ("swin").
    learn : bool, optional
        Train the numbers; by default those that are only where training starts ("t5").
    dtype : torch.dtype, optional
        Type the numbers are kept in, default `torch.get_default_dtype()`.
    **params
        The encoding's own parameters, such as ``buckets=64``.

    Raises
    ------
    PefourierError
        For what is no bias of displacements, and more tokens than it was made for.

    Examples
    --------
    >>> Bias("alibi", heads=2, max_length=8)(1, 3)  # slopes 2^-4, 2^-8 times the distance
    tensor([[[-0.1250, -0.0625,  0.0000]],
            [[-0.0078, -0.0039,  0.0000]]])
    """

    codes: Tensor  # (rows, heads)

    def __init__(
        self,
        spec: str,
        heads: int,
        max_length: int | None = None,
        *,
        grid: tuple[int, ...] = (),
        learn: bool | None = None,
        dtype: torch.dtype | None = None,
        **params,
    ) -> None:
        super().__init__()
        if (max_length is None) == (not grid):
            raise PefourierError("a bias has a max_length, or a grid of points; give one of them")
        options = {"grid": tuple(grid)} if grid else {}
        self.given = (spec, max_length, heads, options | params)
        enc = load_known(*self.given)
        self.encoding, self.tokens = enc.spec, max_length or int(np.prod(grid))
        if enc.act != "bias" or enc.domain.kind != "lag" or enc.dim != heads:
            raise PefourierError(f"{spec} is no bias of {heads} heads by displacement")
        if not grid and len(enc) != 2 * self.tokens - 1:
            raise PefourierError(
                f"{spec} has no numbers for later keys; leave out causal=true and mask them"
            )
        hold_codes(self, enc, learn, dtype)
        if grid:
            self.register_buffer("places", torch.from_numpy(self.pairs(enc)), persistent=False)

    def pairs(self, enc: Encoding) -> np.ndarray:
        """The row of each query and key on a grid, (n, n)."""
        return displacement_of_each_pair(enc.domain, self.tokens, enc.spec).reshape(self.tokens, -1)

    def make_tables(self) -> dict[str, np.ndarray]:
        enc = load_known(*self.given)
        tables = {"codes": enc.table()}
        return tables | ({"places": self.pairs(enc)} if enc.domain.grid else {})

    def row(self, query: Tensor, key: Tensor) -> Tensor:
        """Where the numbers of a query and a key stand."""
        if hasattr(self, "places"):
            return self.places[query, key]
        return key - query + (self.tokens - 1)

    def forward(self, queries: int, keys: int | None = None) -> Tensor:
        """The biases (heads, queries, keys); queries are the last of the keys."""
        keys = queries if keys is None else keys
        if not 0 < queries <= keys <= self.tokens:
            raise PefourierError(
                f"{queries} queries and {keys} keys; at most {self.tokens} keys are known, and the "
                "queries are the last of them"
            )
        positions = torch.arange(keys, device=self.codes.device)
        return self.codes[self.row(positions[keys - queries :, None], positions)].permute(2, 0, 1)

    def score_mod(
        self, score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor
    ) -> Tensor:
        """For torch's flex_attention: a logit with its bias; queries and keys count from 0."""
        return score + self.codes[self.row(query, key), head]

    def extra_repr(self) -> str:
        return f"{self.encoding}, heads={self.codes.shape[1]}, tokens={self.tokens}"


def turn(x: Tensor, cosine: Tensor, sine: Tensor, layout: str = "halves") -> Tensor:
    """Turn the first 2m dimensions of (…, d) in pairs by cosines and sines (…, m), float32.

    >>> turn(torch.tensor([1.0, 2, 3]), torch.tensor([0.0]), torch.tensor([1.0]))
    tensor([-2.,  1.,  3.])
    """
    m = cosine.shape[-1]
    turning = x[..., : 2 * m]
    wide = torch.promote_types(x.dtype, cosine.dtype)
    if torch.compiler.is_compiling() or (torch.is_grad_enabled() and turning.requires_grad):
        turning = turning.to(wide)
        a, b = (
            (turning[..., :m], turning[..., m:])
            if layout == "halves"
            else (turning[..., ::2], turning[..., 1::2])
        )
        pair = a * cosine - b * sine, b * cosine + a * sine
        turned = torch.cat(pair, -1) if layout == "halves" else torch.stack(pair, -1).flatten(-2)
        turned = turned.to(x.dtype)
    elif x.dtype != wide and x.device.type == "cpu" and alike_in_heads(x, cosine):
        turned = turn_in_blocks(turning, cosine, sine, layout)
    else:
        turned = turned_pairs(turning.to(wide), cosine, sine, layout).to(x.dtype)
    return turned if 2 * m == x.shape[-1] else torch.cat([turned, x[..., 2 * m :]], dim=-1)


def alike_in_heads(x: Tensor, cosine: Tensor) -> bool:
    """Whether x is (batch, heads, n, d), and its heads turn by the same angles."""
    return x.ndim == 4 and (cosine.ndim == 2 or (cosine.ndim == 4 and cosine.shape[1] == 1))


def turned_pairs(
    x: Tensor, cosine: Tensor, sine: Tensor, layout: str, out: Tensor | None = None
) -> Tensor:
    """Pairs turned within one new tensor, or `out`, of the type of cosines.

    Neighbours are turned as complex numbers, in a quarter of the time of separate columns; halves
    within one tensor in two thirds of that of joining two.
    """
    if layout == "halves":
        m = cosine.shape[-1]
        turned = torch.mul(x, torch.cat([cosine, cosine], -1), out=out)
        turned[..., :m].addcmul_(x[..., m:], sine, value=-1)
        turned[..., m:].addcmul_(x[..., :m], sine)
        return turned
    even = x.storage_offset() % 2 == 0 and not any(stride % 2 for stride in x.stride()[:-1])
    x = x if even and x.stride(-1) == 1 else x.contiguous()
    numbers = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    view = None if out is None else torch.view_as_complex(out.unflatten(-1, (-1, 2)))
    return torch.view_as_real(torch.mul(numbers, torch.complex(cosine, sine), out=view)).flatten(-2)


def turn_in_blocks(x: Tensor, cosine: Tensor, sine: Tensor, layout: str) -> Tensor:
    """Pairs of (batch, heads, n, 2m) of a narrow type, in float32 by parts that caches hold."""
    count, n, width = x.shape[1:]
    size = BLOCK * torch.get_num_threads()
    rows = max(1, min(n, size // (count * width)))  # of all heads: their waves are made once
    heads = max(1, min(count, size // (rows * width)))
    out = torch.empty_like(x)
    buffer, turned = torch.empty(2, heads, rows, width, dtype=cosine.dtype)
    for i, (part, place) in enumerate(zip(x, out, strict=True)):
        waves = [w if w.ndim == 2 else w[i % len(w)] for w in (cosine, sine)]
        for first in range(0, n, rows):
            block = slice(first, first + rows)
            block_waves = [w[..., block, :] for w in waves]
            for begin in range(0, count, heads):
                index = (slice(begin, begin + heads), block)
                source = part[index]
                wide = buffer[: len(source), : source.shape[1]].copy_(source)
                result = turned[: len(source), : source.shape[1]]
                place[index] = turned_pairs(wide, *block_waves, layout, result)
    return out


def scaled_waves(phases: Tensor, factor: float) -> tuple[Tensor, Tensor]:
    """Cosines and sines of phases, times a factor."""
    return phases.cos() * factor, phases.sin() * factor


def keep_waves(frequencies: np.ndarray, factor: float, length: int) -> dict[str, np.ndarray]:
    """Cosines and sines of positions 0 … length - 1, made on the CPU."""
    with torch.device("cpu"):
        phases = torch.arange(length)[:, None].float() * torch.from_numpy(frequencies)
    return dict(
        zip(("cosine", "sine"), map(Tensor.numpy, scaled_waves(phases, factor)), strict=True)
    )


def layout_of_pairs(enc: Encoding) -> str:
    """How the pairs of a rotation stand; refused is what turns none, or others than these."""
    if enc.act != "rotate":
        raise PefourierError(f"{enc.spec} is no rotation: attention takes it as {enc.act!r}")
    layout = enc.params.get("layout", "halves")
    if layout not in ("halves", "interleaved"):
        raise PefourierError(
            f"{enc.spec} has layout={layout}; Rotary turns halves and interleaved pairs"
        )
    return layout


def by_length(enc: Encoding) -> bool:
    """Whether frequencies are others for longer sequences."""
    return enc.name == "rope" and enc.params.get("scaling") in ("dynamic", "longrope")


def rotation_tables(enc: Encoding, heads: int | None) -> dict[str, np.ndarray]:
    """What a rotation is computed from, float32: frequencies, or cosines and sines of each row.

    Where the length of codes varies (xpos), keys have the inverse of what queries have.
    """
    if enc.name in ("rope", "grape"):
        return {name: wave.astype(np.float32) for name, wave in frequencies_of(enc).items()}
    table = np.asarray(enc.table(), dtype=float).reshape(len(enc), heads or 1, -1)
    cosine, sine = split_pairs(np.moveaxis(table, 2, 1), enc.params.get("layout", "halves"))
    square = cosine**2 + sine**2
    waves = {"cosine": cosine, "sine": sine}
    if np.ptp(square) > 1e-9:
        waves["inverse"] = square[:1] / square
    tables = {name: np.moveaxis(wave, 2, 0) for name, wave in waves.items()}  # (heads, n, m)
    return {
        name: np.ascontiguousarray(wave if heads else wave[0], dtype=np.float32)
        for name, wave in tables.items()
    }


def frequencies_of(enc: Encoding) -> dict[str, np.ndarray]:
    """Frequencies of one axis, and how those of a scaling by length change beyond its original."""
    if not by_length(enc):
        return {"frequencies": enc.measure.frequencies}
    original = enc.params["original"]
    short, longer = (rotation_of(enc.params, length)[0] for length in (original, original + 1))
    if enc.params["scaling"] == "longrope":
        return {"frequencies": short, "longer": longer}
    r = enc.params["rotated"]
    return {"frequencies": short, "exponents": -2.0 * np.arange(len(short)) / (r - 2)}


def hold_codes(
    module: Tabled, enc: Encoding, learn: bool | None, dtype: torch.dtype | None
) -> None:
    """Codes as a parameter where they are trained, else as a buffer that no state_dict has."""
    codes = torch.tensor(enc.table(), dtype=dtype or torch.get_default_dtype())
    if enc.untrained if learn is None else learn:
        module.codes = torch.nn.Parameter(codes)
    else:
        module.register_buffer("codes", codes, persistent=False)


def check_floating(name: str, shape: str, x: Tensor, fits: bool) -> None:
    """Refuse input of another shape, or of whole numbers."""
    if not (fits and x.is_floating_point()):
        raise PefourierError(
            f"expected floating-point {name} {shape}; "
            f"got {str(x.dtype).removeprefix('torch.')} of shape {tuple(x.shape)}"
        )


def check_not_meta(table: Tensor, x: Tensor) -> None:
    """Refuse tables without memory: weights were loaded into a module that is on meta still."""
    if table.is_meta and not x.is_meta:
        raise PefourierError(
            "this module is on the meta device; to_empty(device=…) gives it memory and tables"
        )


def check_places(positions: Tensor, shape: tuple[int, ...], rows: int | None) -> None:
    """Refuse positions of another shape, and, where looking at them costs little, beyond rows."""
    if tuple(positions.shape) not in (tuple(shape), tuple(shape[-1:])):
        raise PefourierError(
            f"expected positions {(shape[-1],)} or {tuple(shape)}; got {tuple(positions.shape)}"
        )
    if rows is None:
        return
    if positions.is_floating_point() or positions.dtype == torch.bool:
        raise PefourierError("positions of a table are whole numbers; got others")
    looked_at = positions.device.type == "cpu" and not torch.compiler.is_compiling()
    if looked_at and positions.numel():
        low, high = positions.min().item(), positions.max().item()
        if low < 0 or high >= rows:
            raise PefourierError(f"positions {low} … {high} are outside 0 … {rows - 1}")


def load_known(spec: str, length: int | None, d: int | None, params: dict[str, Any]) -> Encoding:
    """The encoding of a SPEC; what is no parameter of it is refused."""
    enc = load(spec, length, d, **params)
    lost = [key for key in params if key not in (*enc.params, "grid")]
    if lost:
        raise PefourierError(f"{spec} has no parameter {lost[0]}; 'pefourier list' shows all")
    return enc


def load_additive(spec: str, d: int, max_length: int, params: dict[str, Any]) -> Encoding:
    """The encoding of a SPEC, refused unless its codes (max_length, d) are added to the input."""
    enc = load_known(spec, max_length, d, params)
    if enc.act != "add":
        raise PefourierError(
            f"{spec} is not an additive encoding: attention takes it as {enc.act!r}"
        )
    if enc.dim != d or len(enc) != max_length:
        raise PefourierError(
            f"{spec} has codes of shape ({len(enc)}, {enc.dim}); expected ({max_length}, {d})"
        )
    return enc
