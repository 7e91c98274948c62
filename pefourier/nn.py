"""Encodings as torch modules: added vectors, rotations, and biases of logits.

Conventions
-----------
Fixed tables are not part of a state_dict, because a checkpoint could otherwise replace them with
the vectors of another encoding. They are rebuilt when a module is moved (``to_empty``). Wrong
shapes raise a `PefourierError`. Values of position tensors are checked on a CPU outside a compiled
graph; elsewhere a wrong index fails as in torch.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

try:
    import torch
except ModuleNotFoundError as error:
    needs = "pefourier.nn needs torch, which is not installed; pip install torch"
    raise ModuleNotFoundError(needs, name="torch") from error

import numpy as np
from torch import Tensor

from pefourier.encodings import load
from pefourier.encodings.encoding import (
    Encoding,
    displacement_of_each_pair,
    split_pairs,
)
from pefourier.encodings.families.axial import rows_of_blocks
from pefourier.encodings.families.rotary import rotation_of, sums_of_frequencies
from pefourier.encodings.grids import check_fit
from pefourier.encodings.model_positions import axis_in, temperature_of
from pefourier.errors import PefourierError
from pefourier.types import Array, Arrays, Counts, Fields

BY_FREQUENCY = ("rope", "fope")  # rotations defined at any real position


class Tabled(torch.nn.Module):
    """A module with tables outside its state_dict, which are rebuilt when it is moved."""

    tables: Mapping[str, Array] = MappingProxyType({})
    keeps_float32 = False  # whether tables stay float32 in a half-precision model
    vectors: Tensor | torch.nn.Parameter  # (positions, d), (lags or pairs, heads) of a bias

    def keep(self, tables: Arrays, dtype: torch.dtype | None = None) -> None:
        """Register tables as buffers, with their own type by default."""
        self.tables = {**self.tables, **tables}
        for name, table in tables.items():
            self.register_buffer(name, torch.tensor(table, dtype=dtype), persistent=False)

    def keep_vectors(self, enc: Encoding, *, learn: bool | None, dtype: torch.dtype | None) -> None:
        """Keep the vectors as a parameter if they are trained, otherwise as a table."""
        vectors = enc.table() if enc.by_lag else enc.table_of_pairs()
        kind = dtype or torch.get_default_dtype()
        if enc.untrained if learn is None else learn:
            self.vectors = torch.nn.Parameter(torch.tensor(vectors, dtype=kind))
        else:
            self.keep({"vectors": vectors}, kind)

    def _apply(self, fn: Any, recurse: bool = True) -> "Tabled":  # noqa: FBT001, FBT002
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, table in self.tables.items():
            buffer = getattr(self, name)
            kind = torch.float32 if self.keeps_float32 else buffer.dtype
            setattr(self, name, torch.tensor(table, dtype=kind, device=buffer.device))
        return self


class PositionalEncoding(Tabled):
    """Add the vectors of positions to an input (…, length, d), batch first.

    Vectors are computed in float64 and kept in `dtype`, in a buffer outside the state_dict. With
    `learn` they are the initial values of a parameter. Vectors are cast to the type of the input
    when added.

    Parameters
    ----------
    encoding : str
        Any additive SPEC: "dft", "sinusoidal:layout=halves", "table.npy".
    d : int
        Dimension of the input.
    max_length : int
        Longest sequence.
    learn : bool, optional
        Whether to train the vectors; by default only if they are initial values ("learned").
    dtype : torch.dtype, optional
        Type of the vectors, default `torch.get_default_dtype()`.
    **params
        The encoding's own parameters, such as ``rho=500.0``.

    Raises
    ------
    PefourierError
        For an encoding that is not additive, and for a sequence longer than `max_length`.

    Examples
    --------
    >>> module = PositionalEncoding("dft", 8, 8)
    >>> vectors = module(torch.zeros(1, 8, 8))[0]
    >>> bool(torch.dist(vectors @ vectors.T, torch.eye(8)) < 1e-6)
    True
    >>> packed = torch.tensor([0, 1, 2, 0, 1])  # two sequences in one row
    >>> bool((module(torch.zeros(1, 5, 8), position_ids=packed)[0] == vectors[packed]).all())
    True
    """

    def __init__(
        self,
        encoding: str,
        d: int,
        max_length: int,
        *,
        learn: bool | None = None,
        dtype: torch.dtype | None = None,
        **params: Any,
    ) -> None:
        super().__init__()
        enc = load(encoding, max_length, d, **params)
        if temperature_of(enc, max_length) is not None:
            raise PefourierError(f"{encoding} multiplies queries, which this module does not have")
        if enc.injection != "add" or (len(enc), enc.dim) != (max_length, d):
            raise PefourierError(
                f"{encoding} is not an additive encoding of {max_length} positions with d={d}: it "
                f"has {len(enc)} vectors of {enc.dim} numbers, used by attention as "
                f"{enc.injection!r}"
            )
        self.keep_vectors(enc, learn=learn, dtype=dtype)
        self.encoding = enc.spec

    def forward(self, x: Tensor, position_ids: Tensor | None = None) -> Tensor:
        """Return the input (…, length, d) plus the vectors of its positions, in its own type.

        Positions are 0 … length - 1, or `position_ids`, whole numbers (length,) or (…, length).
        """
        longest, d = self.vectors.shape
        fits = x.ndim > 1 and x.shape[-1] == d
        check_floating("input", f"(…, length, {d})", x, fits=fits)
        length = x.shape[-2]
        if position_ids is None and length > longest:
            raise PefourierError(
                f"a sequence of {length} is longer than max_length={longest} of this module"
            )
        if position_ids is None:
            return x + self.vectors[:length].to(x.dtype)
        check_shape(position_ids, x.shape[:-1])
        check_places(position_ids, longest)
        return x + torch.nn.functional.embedding(position_ids, self.vectors).to(x.dtype)

    def extra_repr(self) -> str:
        length, d = self.vectors.shape
        trained = isinstance(self.vectors, torch.nn.Parameter)
        return f"{self.encoding}, d={d}, max_length={length}, {'trained' if trained else 'fixed'}"


class Rotary(Tabled):
    r"""Rotate queries and keys by their positions, as a model's config or a named encoding defines.

    Rotary pair i of a head is rotated by the angle :math:`p\,\omega_i` at position p and multiplied
    by the attention factor. Angles, cosines and sines are float32 for any type of the input, also
    after ``module.half()``: at position 100,000 angles are off by up to about 0.01 rad, as in
    transformers. Frequencies include the scaling. For scalings by length (dynamic, longrope), the
    length is the largest position of the call plus one. The encoding's `layout` defines the pairs:
    of 2m rotated dimensions, i and i + m (halves), or 2i and 2i + 1 (interleaved). The remaining
    dimensions are unchanged.

    Parameters
    ----------
    spec : str or Encoding
        A rotation by name ("rope:rho=5e5,scaling=linear,factor=4"), a config ("config.json"), a
        model's folder, a table of rotations, or a loaded encoding.
    d : int, optional
        Head size; a config sets its own.
    layer_type : str, optional
        The rotation to use if a config has several, such as "full_attention".
    grid : sequence of int, optional
        Sides of the grid of tokens (axial-rope). Positions then number the points of the grid, row
        by row, after the `prefix`.
    **params
        The encoding's own parameters, such as ``rho=500.0``.

    Attributes
    ----------
    softmax_factor : float
        Additional factor of the model's logits (DeepSeek with yarn), usually 1. `rotate` does not
        apply it; pass it to attention: ``scale = softmax_factor * d**-0.5``.
    temperature : Temperature or None
        Factor of queries that depends on their positions (Ministral 3; ``temperature="log-n"``).
        `rotate` applies it to the queries.

    Raises
    ------
    PefourierError
        If the encoding is not a rotation or differs between heads or between queries and keys, if
        the input has another head size, or if positions exceed the table.

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

    keeps_float32 = True
    cosine: Tensor  # of each row, for a rotation without frequencies
    sine: Tensor
    frequencies: Tensor
    sums: Tensor  # of frequencies, in FoPE
    longer: Tensor  # frequencies beyond the original length
    exponents: Tensor
    axes: Tensor

    def __init__(
        self,
        spec: str | Encoding,
        d: int | None = None,
        *,
        layer_type: str | None = None,
        grid: Counts = (),
        **params: Any,
    ) -> None:
        super().__init__()
        if isinstance(spec, Encoding):
            enc, axis = spec, None
        else:
            source = f"{spec}#{layer_type}" if layer_type else spec
            enc = load(source, None, d, grid=grid, **params)
            axis = axis_in(enc)
        check_rotation(enc)
        self.encoding, self.layout = enc.spec, enc.params.get("layout", "halves")
        self.scaling: Fields = dict(enc.params) if by_length(enc) else {}
        self.trailing = bool(enc.params.get("trailing"))
        self.d = enc.params.get("d", enc.dim)
        self.factor = float(enc.params.get("attention_factor", 1.0))
        self.softmax_factor = float(enc.params.get("softmax_factor", 1.0))
        self.temperature = temperature_of(enc, len(enc))
        tables = rotation_tables(enc)
        self.rows = len(enc) if "cosine" in tables else None
        self.grid, self.prefix = enc.domain.grid, enc.domain.prefix
        if axis is not None:
            tables["axes"] = axis == np.arange(3)[:, None]
        self.keep({name: table.astype(np.float32) for name, table in tables.items()})

    def rotate(
        self,
        q: Tensor,
        k: Tensor,
        position_ids: Tensor | None = None,
        offset: int = 0,
        *,
        real_positions: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """Rotate queries and keys (batch, heads, n, d); each keeps its type.

        Keys may have fewer heads. Positions are offset … offset + n - 1, or `position_ids` of
        shape (n,) or (batch, n); configs with mrope_section also accept
        (3, batch, n): frames, rows, columns. Positions are integers from 0 on, or any real numbers
        with `real_positions`. An input (batch, n, heads, d) must be transposed; this cannot be
        detected without position_ids.
        """
        for name, x in (("queries", q), ("keys", k)):
            fits = x.ndim == 4 and x.shape[-1] == self.d
            check_floating(name, f"(batch, heads, n, {self.d})", x, fits=fits)
        n = q.shape[2]
        if k.shape[2] != n:
            raise PefourierError(
                f"{n} queries and {k.shape[2]} keys; rotate each with its positions, and transpose "
                "(batch, n, heads, d) to (batch, heads, n, d)"
            )
        if offset and position_ids is not None:
            raise PefourierError("position_ids and offset exclude each other; pass one")
        positions = position_ids
        if offset < 0 and self.rows is None and not real_positions:
            raise PefourierError(
                f"offset must be at least 0, got {offset}; or pass real_positions=True"
            )
        if positions is None:
            if self.rows and self.grid and not offset:
                check_fit(f"{n} tokens without position_ids", n, self.grid, self.prefix)
            positions = torch.arange(offset, offset + n, device=q.device)
        if position_ids is not None or self.rows is not None:
            check_places(positions, self.rows, real=real_positions)
        if "axes" in self.tables and positions.shape == (3, q.shape[0], n):
            positions = positions[:, :, None]
        else:
            check_shape(positions, (q.shape[0], n))
            positions = positions[:, None] if positions.ndim == 2 else positions
        cosine, sine = self.waves(positions)
        rotated = self.rotated(q, cosine, sine)
        if self.temperature is not None:
            row = positions[0] if positions.ndim == 4 else positions  # a text's three are equal
            logs = self.temperature.inside_log(row[..., None].float()).log()
            rotated = (rotated * (1 + self.temperature.scale * logs)).to(q.dtype)
        return rotated, self.rotated(k, cosine, sine)

    def rotated(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """Rotate the rotary dimensions of a head, which are usually the first."""
        skip = x.shape[-1] - 2 * cosine.shape[-1] if self.trailing else 0
        rotated = rotate_pairs(x[..., skip:], cosine, sine, self.layout)
        return torch.cat([x[..., :skip], rotated], -1) if skip else rotated

    def waves(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines (…, n, m) of positions (…, n), times the attention factor."""
        if self.rows is not None:
            look_up = torch.nn.functional.embedding
            return look_up(positions, self.cosine), look_up(positions, self.sine)
        frequencies, scaling = self.frequencies, self.scaling
        if scaling:  # by the length of the sequence
            length, original = positions.max() + 1, scaling["original"]
            if scaling["scaling"] == "longrope":
                frequencies = torch.where(length > original, self.longer, frequencies)
            else:
                beyond = (length.float() - original).clamp(min=0)
                ratio = 1 + scaling["factor"] * beyond / original
                frequencies = frequencies * ratio**self.exponents
        positions = positions[..., None].float()
        if positions.ndim == 5:  # (3, batch, 1, n, 1): each pair uses the position on its axis
            positions = (positions * self.axes[:, None, None, None]).sum(0)
        phases = positions * frequencies
        if "sums" in self.tables:  # of FoPE: one axis for cosines, one for sines
            return phases.cos() @ self.sums[0], phases.sin() @ self.sums[1]
        return phases.cos() * self.factor, phases.sin() * self.factor

    def extra_repr(self) -> str:
        return f"{self.encoding}, d={self.d}, layout={self.layout}"


class Bias(Tabled):
    """Biases that are added to the logits of each head, by displacement from query to key.

    A bias that depends on more than the displacement, such as "fire" beyond its threshold, has a
    number for each head and pair of positions.

    Parameters
    ----------
    spec : str
        A bias by name: "alibi", "t5", "kerple", "swin", "fire".
    heads : int
        Number of heads.
    max_length : int, optional
        Length of the longest sequence; leave out with a grid.
    grid : sequence of int, optional
        Sides of the grid of tokens ("swin").
    learn : bool, optional
        Whether to train the biases; by default only if they are initial values ("t5").
    dtype : torch.dtype, optional
        Type of the biases, default `torch.get_default_dtype()`.
    **params
        The encoding's own parameters, such as ``buckets=64``.

    Raises
    ------
    PefourierError
        If the encoding is not a bias by displacement, or if there are more tokens than the module
        was made for.

    Examples
    --------
    >>> Bias("alibi", heads=2, max_length=8)(1, 3)  # slopes 2^-4, 2^-8 times the distance
    tensor([[[-0.1250, -0.0625,  0.0000]],
            [[-0.0078, -0.0039,  0.0000]]])
    """

    def __init__(
        self,
        spec: str,
        heads: int,
        max_length: int | None = None,
        *,
        grid: Counts = (),
        learn: bool | None = None,
        dtype: torch.dtype | None = None,
        **params: Any,
    ) -> None:
        super().__init__()
        if (max_length is None) == (not grid):
            raise PefourierError("pass max_length or grid, and not both")
        enc = load(spec, max_length, heads, grid=grid, **params)
        self.encoding, self.tokens = enc.spec, max_length or int(np.prod(grid))
        if enc.injection != "bias" or enc.domain.kind != "lag" or enc.dim != heads:
            raise PefourierError(f"{spec} is not a bias of {heads} heads by displacement")
        if not grid and len(enc) != 2 * self.tokens - 1:
            way_out = "leave out causal=true and mask later keys"
            raise PefourierError(f"{spec} has no biases for later keys; {way_out}")
        self.keep_vectors(enc, learn=learn, dtype=dtype)
        if grid or not enc.by_lag:
            places = np.arange(self.tokens**2)
            if grid:
                places = displacement_of_each_pair(enc.domain, self.tokens, enc.spec)
            self.keep({"places": places.reshape(self.tokens, -1)})

    places: Tensor  # of a grid, or of pairs: the row of each query and key

    def row(self, query: Tensor, key: Tensor) -> Tensor:
        """Return the row of the biases of a query and a key."""
        if hasattr(self, "places"):
            return self.places[query, key]
        return key - query + (self.tokens - 1)

    def forward(self, queries: int, keys: int | None = None) -> Tensor:
        """Return the biases (heads, queries, keys); queries are at the last positions of keys."""
        keys = queries if keys is None else keys
        if not 0 < queries <= keys <= self.tokens:
            raise PefourierError(
                f"expected at most {self.tokens} keys and no more queries than keys; got "
                f"{queries} queries and {keys} keys"
            )
        positions = torch.arange(keys, device=self.vectors.device)
        return self.vectors[self.row(positions[keys - queries :, None], positions)].permute(2, 0, 1)

    def score_mod(
        self, score: Tensor, _batch: Tensor, head: Tensor, query: Tensor, key: Tensor
    ) -> Tensor:
        """Add the bias to a logit, for flex_attention of torch; queries and keys count from 0."""
        return score + self.vectors[self.row(query, key), head]

    def extra_repr(self) -> str:
        return f"{self.encoding}, heads={self.vectors.shape[1]}, tokens={self.tokens}"


def rotate_pairs(x: Tensor, cosine: Tensor, sine: Tensor, layout: str = "halves") -> Tensor:
    """Rotate the first 2m dimensions of (…, d) in pairs by cosines and sines (…, m), float32.

    >>> rotate_pairs(torch.tensor([1.0, 2, 3]), torch.tensor([0.0]), torch.tensor([1.0]))
    tensor([-2.,  1.,  3.])
    """
    m = cosine.shape[-1]
    rotating = x[..., : 2 * m].to(torch.promote_types(x.dtype, cosine.dtype))
    shape, axis = ((2, m), -2) if layout == "halves" else ((m, 2), -1)
    a, b = torch.unflatten(rotating, -1, shape).unbind(
        axis
    )  # its gradient is one copy, not two sums
    pair = a * cosine - b * sine, b * cosine + a * sine
    rotated = torch.stack(pair, axis).flatten(-2).to(x.dtype)
    return rotated if 2 * m == x.shape[-1] else torch.cat([rotated, x[..., 2 * m :]], dim=-1)


def check_rotation(enc: Encoding) -> None:
    """Raise if an encoding is not a rotation in a known layout that is the same for all heads.

    A rotation without frequencies on one axis needs a table: the points of a grid, or a file.
    """
    is_rotation = enc.injection == "rotate"
    layout = enc.params.get("layout", "halves")
    has_table = bool(enc.domain.grid) or enc.origin != "formula"
    is_uniform = "heads" not in enc.params and "head" not in enc.params
    if not is_rotation or layout not in ("halves", "interleaved") or not is_uniform:
        raise PefourierError(
            f"expected a rotation that is the same for all heads, with layout halves or "
            f"interleaved; {enc.spec} is used by attention as {enc.injection!r}, layout {layout}"
        )
    if enc.name not in BY_FREQUENCY and not has_table:
        raise PefourierError(
            f"{enc.spec} has no frequencies on one axis and no grid; pass the sides of a grid, "
            "such as grid=(14, 14). Rotary supports rope, fope, grids and tables"
        )


def by_length(enc: Encoding) -> bool:
    """Whether frequencies depend on the sequence length."""
    return enc.name == "rope" and enc.params.get("scaling") in ("dynamic", "longrope")


def rotation_tables(enc: Encoding) -> Arrays:
    """Return the tables of a rotation: frequencies, or cosines and sines of each row.

    For a scaling by length, also how frequencies change beyond the original length.
    """
    if enc.name not in BY_FREQUENCY:
        cosine, sine = split_pairs(enc.float_table(), enc.params.get("layout", "halves"))
        if np.ptp(cosine**2 + sine**2) > 1e-9:
            raise PefourierError(f"{enc.spec} is not a rotation: it changes the norm of vectors")
        if enc.params.get("merged", 1) > 1:  # tokens are ordered by blocks of points
            order = rows_of_blocks(enc.domain.sides, enc.params["merged"]) + enc.domain.prefix
            cosine[enc.domain.prefix :], sine[enc.domain.prefix :] = cosine[order], sine[order]
        return {"cosine": cosine, "sine": sine}
    if enc.name == "fope":
        sums = sums_of_frequencies(enc.dim // 2, enc.params["gain"], enc.params["seed"])
        return {"frequencies": enc.measure.frequencies, "sums": sums}
    sign = -1.0 if enc.params.get("backwards") else 1.0
    if not by_length(enc):
        return {"frequencies": sign * enc.measure.frequencies}
    original = enc.params["original"]
    short, longer = (rotation_of(enc.params, length)[0] for length in (original, original + 1))
    if enc.params["scaling"] == "longrope":
        return {"frequencies": sign * short, "longer": sign * longer}
    r = enc.params["rotated"]
    exponents = -2.0 * np.arange(len(short)) / (r - 2)
    return {"frequencies": sign * short, "exponents": exponents}


def check_floating(name: str, shape: str, x: Tensor, *, fits: bool) -> None:
    """Raise if the input has another shape or is not floating point."""
    if not (fits and x.is_floating_point()):
        raise PefourierError(
            f"expected floating-point {name} {shape}; "
            f"got {str(x.dtype).removeprefix('torch.')} of shape {tuple(x.shape)}"
        )


def check_shape(position_ids: Tensor, shape: Counts) -> None:
    """Raise unless position ids have the shape (…, n) or (n,)."""
    if tuple(position_ids.shape) not in (tuple(shape), tuple(shape[-1:])):
        found = tuple(position_ids.shape)
        raise PefourierError(f"expected position_ids {(shape[-1],)} or {tuple(shape)}; got {found}")


def check_places(position_ids: Tensor, rows: int | None, *, real: bool = False) -> None:
    """Raise if ids are not integers or, where this is cheap to check, exceed the rows.

    With `real`, any real numbers are allowed if there are no rows.
    """
    is_real, kind = real and rows is None, str(position_ids.dtype).removeprefix("torch.")
    is_whole = not (position_ids.is_floating_point() or position_ids.is_complex() or kind == "bool")
    if not is_whole and not (is_real and position_ids.is_floating_point()):
        way_out = "; pass real_positions=True for positions between tokens" if rows is None else ""
        raise PefourierError(f"position_ids must be integers, got {kind}{way_out}")
    looked_at = position_ids.device.type == "cpu" and not torch.compiler.is_compiling()
    if is_real or not looked_at or not position_ids.numel():
        return
    low, high = (end.item() for end in position_ids.aminmax())
    if rows is not None and (low < 0 or high >= rows):
        raise PefourierError(f"position_ids {low} … {high} are outside 0 … {rows - 1}")
    if low < 0:
        raise PefourierError(
            f"position_ids must be at least 0, got {low}; for padding pass "
            "position_ids.clamp(min=0), for other negative positions real_positions=True"
        )
