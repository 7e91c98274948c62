r"""The classifier of the paper's section 2.2, for many members at once.

Conventions
-----------
M members, B windows per batch, L rows and C channels per window, T tokens of `patch` rows, d
dimensions, H heads of c = d / H, K classes. The first axis of every parameter is the member: (M,
…). Layers follow ``torch.nn.TransformerEncoderLayer`` (norm after each sum, ReLU) without biases on
queries, keys and values; logits are computed from the mean of the tokens. Added vectors enter
unchanged. Dropout follows torch, except for attention weights, where torch's
fused kernels use one rate for all members.

All members share one path through attention, whatever they inject: scores = q·k / √c + bias (M, 1
or B, H, T, T), with q and k rotated. For acts of other members, a member adds 0, rotates by 0 and
has bias 0; acts of no member are skipped. Vectors of lags are added to keys (key), or to keys and
queries (key-query); if they are twice as long as a key, their second half is added to values. Keys
marked `hidden`, those of padding, receive no attention.

Injections
----------
An injection has an encoding's distinct vectors, and the vector of each place. Distinct vectors have
shape (U, k). Places are positions (acts add and rotate), pairs query · key (bias), or lags (key,
key-query). Training changes the vectors; places that share a vector keep sharing it. Of a rotation,
training changes the frequencies: the vector of a position p, its cosines and sines, is rotated
further by :math:`p \cdot (\omega - \omega_0)`. Training therefore starts at the formula and
preserves norms (xpos, attention factors). A zero frequency stays 0: pairs without rotation stay
that way, and a rotary pair of one axis of a grid stays on that axis. Of mtan and time2vec at
measured times, training changes slopes and shifts: vectors at other times follow."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from math import prod

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pefourier.encodings import load
from pefourier.encodings.encoding import (
    Encoding,
    displacement_of_each_pair,
    split_pairs,
)
from pefourier.encodings.families.fourier import LineAndSines
from pefourier.encodings.loader import SpecWithDefaults, source_of
from pefourier.encodings.model_positions import temperature_of
from pefourier.encodings.registry import BUILDERS
from pefourier.errors import NUMBERS, WIDEST, PefourierError, check_count
from pefourier.train.data.split import Task
from pefourier.train.options import LEAST_D, Options
from pefourier.types import Array, Counts, Fields, Ints, Values, frozen, frozen_arrays

ACTS = ("add", "rotate", "bias", "key", "key-query")
WITH_TIMES = "none alibi fourier-features mtan mtan-fixed rope sinusoidal tape time2vec xpos"
WITH_TIMES += " sandwich"
OF_PLACE = 2**8  # numbers counted for each place of a window: 2^22 places in all
OTHERWISE = {  # rotations that treat queries and keys differently
    "rope++": "rotates queries by 90 degrees less than keys",
    "fope": "multiplies queries and keys by sums of sinusoids, a rotation only with gain=0",
}


def no_waves() -> Array:
    """Places or frequencies of injections that have none."""
    return np.zeros((0, 0))


@frozen_arrays
class Injection:
    """Injection of one member: distinct vectors and the vector of each place."""

    act: str
    vectors: Array  # (U, k) float64
    index: Array  # (places,) rows of `vectors`, or (W, places) for times of all windows
    learn: bool = False
    params: Values = field(default_factory=dict)  # of the encoding, with defaults
    # of rotations, if known: positions (U, axes), and radians per step (axes, k / 2); of mtan and
    # time2vec at measured times: times and ones (U, 2), and slopes and shifts (2, k)
    places: Array = field(default_factory=no_waves)
    frequencies: Array = field(default_factory=no_waves)

    @property
    def has_vectors(self) -> bool:
        """Whether it has an effect: the encoding none adds zeros."""
        return self.learn or bool(self.vectors.any())

    def table(self) -> Array:
        """Vector of every place, shape (places, k), or the distinct vectors of all times."""
        return np.take(self.vectors, self.index, axis=0) if self.index.ndim == 1 else self.vectors


NOTHING = Injection(ACTS[0], np.zeros((1, 1)), np.zeros(1, dtype=int))


def load_injection(
    spec: str,
    length: int,
    d: int,
    heads: int,
    seed: int,
    *,
    grid: Counts = (),
    times: Array | None = None,
) -> Injection:
    """Load the injection of a SPEC for `length` tokens of dimension d and `heads` heads.

    On a grid, tokens are points of the grid for encodings that support grids.

    With `times` (W, tokens), in steps, vectors belong to each window's times, and only mtan and
    time2vec are trained.

    Vectors, or the frequencies of rotations, are trained if they are only initial values; a
    rotation from a file or user code without frequencies keeps its angles.
    """
    is_built, name = source_of(spec) in ("name", "code"), spec.partition(":")[0]
    options: Fields = {"seed": seed}
    if grid and name in BUILDERS and "grid" in BUILDERS[name].parameters:
        options["grid"] = grid
        if length != prod(grid):
            raise PefourierError(
                f"{spec} has {prod(grid)} vectors for {length} tokens; omit --patch and --tokens"
            )
    # files have a fixed d
    enc = load(SpecWithDefaults(spec, options), length, d if is_built else None)
    k = {"add": d, "bias": heads}.get(enc.injection, d // heads)
    k *= 1 + bool(enc.params.get("values"))  # lags may have vectors for keys and for values
    places = count_places(enc.injection, length)
    windows, size = (1, k) if times is None else (len(times), OF_PLACE)
    if places * windows * size > NUMBERS:
        raise PefourierError(f"{spec} needs {places * windows} vectors; choose a larger --patch")
    if enc.injection != "add" and enc.origin == "formula":  # all heads rotate equally
        size = heads if enc.injection == "bias" else d // heads
        if enc.injection == "bias" and "heads" in enc.params:
            size, options["heads"] = d, heads
        enc = load(SpecWithDefaults(spec, options), length, size)
    temperature = temperature_of(enc, length)
    if temperature and (times is not None or temperature.largest != 1):
        way_out = "this model does not; choose a larger temperature_floor"
        raise PefourierError(f"{spec} multiplies queries of {length} tokens; {way_out}")
    if times is not None:
        return inject_times(enc, times, k)
    table = vectors_of_places(enc, length, heads, k)
    if table.shape[1] != k or len(table) != places:
        raise PefourierError(
            f"{spec} has vectors of {table.shape[1]} dimensions for {len(enc)} points; "
            f"{enc.injection!r} with d={d} and {heads} heads needs {k} dimensions for {length} "
            "tokens"
        )
    if enc.injection == "rotate":
        known = waves_of_rotation(enc, table)
        trained = enc.untrained and bool(known)
        return Injection("rotate", table, np.arange(length), trained, params=enc.params, **known)
    vectors, index = np.unique(table, axis=0, return_inverse=True)
    return Injection(enc.injection, vectors, index.reshape(-1), enc.untrained, enc.params)


def inject_times(enc: Encoding, times: Array, k: int) -> Injection:
    """Evaluate an encoding at the times (W, T) of each window's tokens."""
    if enc.name not in WITH_TIMES.split() or enc.origin != "formula":
        known = WITH_TIMES.replace(" ", ", ")
        raise PefourierError(f"{enc.spec} has no times; --positions time supports {known}")
    if enc.injection == "bias":  # of lags key - query
        times = (times[:, None] - times[:, :, None]).reshape(len(times), -1)
    points, index = np.unique(times.round(9), return_inverse=True)
    table = enc.float_table(points)
    table = in_halves(enc, table, k) if enc.injection == "rotate" else table
    index, lines = index.reshape(times.shape), enc.vectors
    if not isinstance(lines, LineAndSines):
        return Injection(enc.injection, table, index, params=enc.params)
    places, waves = np.vander(points, 2), np.stack([lines.slopes, lines.shifts])
    return Injection(enc.injection, table, index, enc.untrained, enc.params, places, waves)


def waves_of_rotation(enc: Encoding, table: Array) -> Fields:
    """Positions (n, axes) and frequencies (axes, pairs) of a rotation, if they give its table."""
    if not enc.measure:
        return {}
    places = enc.domain.places(enc.domain.x).reshape(len(enc), -1).astype(float)
    rates = enc.measure.frequencies.reshape(-1, places.shape[1]).T
    cosine, sine = np.split(table, 2, axis=1)
    frequencies = np.pad(rates, ((0, 0), (0, cosine.shape[1] - rates.shape[1])))
    table_rotation = cosine + 1j * sine
    rotation = np.exp(1j * ((places + enc.measure.offset) @ frequencies))
    if not np.allclose(rotation * abs(table_rotation), table_rotation, atol=1e-6):
        return {}
    return {"places": places, "frequencies": frequencies}


def count_places(act: str, length: int) -> int:
    """Number of places with a vector for each act."""
    return {"add": length, "rotate": length, "bias": length**2}.get(act, 2 * length - 1)


def vectors_of_places(enc: Encoding, length: int, heads: int, k: int) -> Array:
    """Return the vector of each place (places, k)."""
    if not enc.by_lag:
        return enc.table_of_pairs()
    table = enc.float_table()
    if enc.domain.kind == "lag" and enc.domain.grid:
        return np.take(table, displacement_of_each_pair(enc.domain, length, enc.spec), axis=0)
    if enc.domain.kind == "lag" and len(table) != 2 * length - 1:
        is_choice = "causal" in enc.params and source_of(enc.spec) == "name"
        way_out = "; leave out causal=true" if is_choice else ""
        raise PefourierError(
            f"{enc.spec} has no vectors for later keys, which this classifier attends to{way_out}"
        )
    if enc.domain.kind == "lag" and enc.injection == "bias":
        positions = np.arange(length)
        lags = (positions - positions[:, None] + length - 1).ravel()  # key - query
        return np.take(table, lags, axis=0)
    if enc.injection == "bias":  # a query's biases to all keys, one block of columns per head
        return table.reshape(length, heads, length).transpose(0, 2, 1).reshape(-1, heads)
    return in_halves(enc, table, k) if enc.injection == "rotate" else table


def in_halves(enc: Encoding, table: Array, k: int) -> Array:
    """Cosines, then sines, of k / 2 rotary pairs; pairs without rotation have angle 0.

    The choice of dimensions for a pair does not matter to a model with random initial weights.
    """
    if enc.name in OTHERWISE and enc.params.get("gain", 1):
        raise PefourierError(f"{enc.spec} {OTHERWISE[enc.name]}; this model rotates both equally")
    layout = enc.params.get("layout", "halves")
    if layout not in ("halves", "interleaved"):
        raise PefourierError(
            f"{enc.spec} has layout={layout}; train with layout=halves, which rotates equally"
        )
    parts = split_pairs(table, layout)
    unrotated = max(k // 2 - parts[0].shape[1], 0)
    return np.hstack(
        [
            np.pad(part, ((0, 0), (0, unrotated)), constant_values=1 - i)
            for i, part in enumerate(parts)
        ]
    )


def scale_to_rms(injection: Injection, rms: float, reference: Injection | None = None) -> Injection:
    """Subtract the mean vector over positions and scale to the root mean square `rms`.

    If given, `reference` supplies mean and size: the same encoding at another length.

    The mean vector does not distinguish positions, and it can be large: for sinusoids at 25
    positions in 32 dimensions, 0.374 of the rms 0.707 varies; for DFT vectors, 0.173 of 0.177.
    """
    mean, size = mean_and_variation(reference or injection)
    return replace(injection, vectors=(injection.vectors - mean) * (rms / size))


def varies(injection: Injection) -> bool:
    """Whether vectors differ between positions by more than rounding."""
    mean, size = mean_and_variation(injection)
    return size > 1e-12 * float(abs(mean).max())


def mean_and_variation(injection: Injection) -> tuple[Array, float]:
    """Mean vector (k,) over positions, and root mean square of the deviations from it."""
    table = injection.table()
    mean = table.mean(axis=0)
    return mean, float(np.sqrt(((table - mean) ** 2).mean()))


FEW_TOKENS = {"cpu": 64, "cuda": 32}  # up to this count, attention is computed explicitly
Drop = Callable[[Tensor], Tensor]
Parameters = dict[str, Tensor]
Shapes = dict[str, Counts]  # without the member axis


class StackVectors:
    """Vectors of one act for all members of a stack, padded to the largest count.

    `vectors` has shape (M, U, k), and `index` (M, places), or (M, W, places) for times of all
    windows. `start` are the numbers of training: vectors, frequencies (M, axes, k / 2), or slopes
    and shifts (M, 2, k); `learn` masks those that are trained, if any are `trained`. `places`
    (M, U, axes), or (M, U, 2) of times and ones, belong to frequencies, slopes and shifts.
    """

    def __init__(
        self, act: str, injections: Sequence[Injection], device: torch.device, dtype: torch.dtype
    ) -> None:
        first = next(m for m in injections if m.act == act)
        nothing = np.zeros((1, first.vectors.shape[1]))  # adds 0, or rotates by 0
        if act == "rotate":
            nothing[:, : nothing.shape[1] // 2] = 1.0
        other = Injection(act, nothing, np.zeros_like(first.index))
        members = [m if m.act == act else other for m in injections]
        numbers = partial(as_tensor, device=device, dtype=dtype)
        self.vectors = self.start = numbers([m.vectors for m in members])
        self.index = as_tensor([m.index for m in members], device, torch.long)
        self.trained = any(m.learn for m in members)
        learn, self.places = [np.full((1, m.vectors.shape[1]), m.learn) for m in members], None
        if any(m.places.size for m in members):
            learn = [m.learn & (m.frequencies != 0) for m in members]
            self.start = numbers([m.frequencies for m in members])
            self.places = numbers([m.places for m in members])
        self.learn = as_tensor(learn, device, torch.bool)

    def table(self, trained: Tensor | None, windows: Tensor | None = None) -> Tensor:
        """Return the vectors of all places, with trained numbers from `trained`.

        The shape is (M, places, k), or (M, B, places, k) if places are times of `windows` (M, B).
        """
        vectors, index = self.with_trained(trained), self.index
        if windows is not None and index.dim() == 3:
            index = torch.take_along_dim(index, windows[:, :, None], dim=1)  # (M, B, places)
        rows = index.flatten(1)[:, :, None].expand(-1, -1, vectors.shape[2])
        return vectors.gather(1, rows).view(*index.shape, -1)

    def with_trained(self, trained: Tensor | None) -> Tensor:
        """Return the distinct vectors (M, U, k) with trained numbers."""
        vectors = self.vectors
        if trained is None:
            return vectors
        if self.places is None:
            return torch.where(self.learn, trained, vectors)
        are_lines = self.start.shape[2] == vectors.shape[2]
        change = torch.where(self.learn, trained if are_lines else trained - self.start, 0.0)
        # no matrix product: a GPU would compute its angles in bfloat16
        angle = (self.places[..., None] * change[:, None]).sum(dim=2)  # (M, U, k or k / 2)
        if are_lines:
            moved = torch.cat([angle[..., :1], angle[..., 1:].sin()], dim=2)
            return torch.where(self.learn.any(dim=1, keepdim=True), moved, vectors)
        from pefourier.nn import rotate_pairs  # imports much more, only for rotations

        return rotate_pairs(vectors, angle.cos(), angle.sin())


def with_frequencies(injection: Injection, frequencies: Array) -> Injection:
    """Return a trained injection with other frequencies, or slopes and shifts."""
    stack = StackVectors(injection.act, [injection], torch.device("cpu"), torch.float64)
    (vectors,) = stack.with_trained(torch.as_tensor(frequencies[None])).numpy()
    return replace(injection, vectors=vectors, frequencies=frequencies)


def of_windows(table: Tensor) -> Tensor:
    """Vectors (M, B, places, k) of windows, (M, 1, places, k) if all windows share them."""
    return table if table.dim() == 4 else table[:, None]


def stack_vectors(
    injections: Sequence[Injection], device: torch.device, dtype: torch.dtype
) -> dict[str, StackVectors]:
    """Stack the vectors of each act that some member has; other members get no effect."""
    acts = dict.fromkeys(m.act for m in injections if m.has_vectors)
    return {act: StackVectors(act, injections, device, dtype) for act in acts}


def as_tensor(arrays: Sequence[Array], device: torch.device, dtype: torch.dtype) -> Tensor:
    """Arrays of all members as one tensor, padded with zeros."""
    largest = np.max([array.shape for array in arrays], axis=0)
    full = [np.pad(array, [(0, n) for n in largest - array.shape]) for array in arrays]
    return torch.as_tensor(np.stack(full)).to(device=device, dtype=dtype)


def most_windows(heads: int, tokens: int, size: int) -> int:
    """Largest number of windows, over all members, that CUDA attention can index at once.

    A grid has at most 2^16 - 1 rows. The backward pass of flash attention counts elements in 31
    bits, with tokens padded to multiples of 128 and a head of `size` to multiples of 32 (pytorch
    issues 142228 and 146704, TabPFN 1184).

    >>> most_windows(4, 25, 8), most_windows(16, 1024, 64), most_windows(16, 1024, 40)
    (65535, 2048, 2048)
    """
    padded = heads * 128 * -(-tokens // 128) * 32 * -(-size // 32)
    return max(1, min(2**16 - 1, 2**31 // padded))


def rotate_by_positions(q: Tensor, k: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
    """Rotate queries and keys (M, B, T, H, c) by their positions (Su et al., 2021).

    In xpos, a vector's norm relative to position 0 decays; keys get the inverse.
    """
    from pefourier.nn import rotate_pairs

    cosine, sine = of_windows(table)[:, :, :, None].chunk(2, dim=4)  # (M, 1 or B, T, 1, pairs)
    square = cosine**2 + sine**2
    inverse = square[:, :, :1] / square
    return rotate_pairs(q, cosine, sine), rotate_pairs(k, cosine * inverse, sine * inverse)


def lags_of_pairs(shape: Ints, device: torch.device) -> Tensor:
    """Lag key - query + T - 1 of each pair of positions, (…, T, T)."""
    positions = torch.arange(shape[-1], device=device)
    return (positions - positions[:, None] + shape[-1] - 1).expand(shape)


def bias_of_lag_keys(q: Tensor, table: Tensor) -> Tensor:
    """Scores (M, B, H, T, T) from a lag vector added to each key (Shaw et al., 2018)."""
    by_lag = torch.einsum("mbthc,mlc->mbhtl", q, table.to(q.dtype))  # l: lag + T - 1
    lags = lags_of_pairs((*by_lag.shape[:4], q.shape[2]), q.device)
    return torch.mul(by_lag.gather(4, lags), q.shape[4] ** -0.5)


def sum_lag_values(weights: Tensor, table: Tensor) -> Tensor:
    """Rows (M, B, H, T, c) from a lag vector added to each value (Shaw et al., 2018)."""
    by_lag = weights.new_zeros(*weights.shape[:4], table.shape[1])
    by_lag = by_lag.scatter(4, lags_of_pairs(weights.shape, weights.device), weights)
    return torch.einsum("mbhtl,mlc->mbhtc", by_lag, table.to(weights.dtype))


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    hidden: Tensor | None,
    values: Tensor | None = None,
) -> Tensor:
    """Attention (M, B, T, H c) of queries, keys and values (M, B, T, H, c).

    Few tokens, and `values` of lags, use the explicit computation: the fused kernel is designed for
    long rows and does not return weights.
    """
    m, batch, length, heads, size = q.shape
    q, k, v = (x.transpose(2, 3) for x in (q, k, v))  # (M, B, H, T, c)
    if values is not None or length <= FEW_TOKENS.get(q.device.type, 0):
        rows = [x.flatten(0, 2) for x in (q, k, v)]  # (M B H, T, c)
        scores = torch.bmm(rows[0], rows[1].transpose(1, 2)).view(m, batch, heads, length, length)
        scores = scores * size**-0.5
        if bias is not None:
            scores = scores.add_(bias)
        if hidden is not None:
            scores = scores.masked_fill_(hidden, -torch.inf)
        weights = scores.softmax(4)
        mixed = torch.bmm(weights.flatten(0, 2), rows[2]).view(v.shape)
        if values is not None:
            mixed = mixed + sum_lag_values(weights, values)
        return mixed.transpose(2, 3).flatten(3)
    if bias is not None and hidden is not None:
        bias = bias.masked_fill(hidden, -torch.inf)
    shared = bias is not None and bias.shape[1] == 1  # by windows: heads of all members in one

    def merged(x: Tensor) -> Tensor:
        return x.transpose(0, 1).flatten(1, 2) if shared else x.flatten(0, 1)

    mask = None if hidden is None else merged(~hidden)
    if bias is not None:
        mask = merged(bias).to(q.dtype)
    mixed = F.scaled_dot_product_attention(merged(q), merged(k), merged(v), attn_mask=mask)
    split = torch.unflatten(mixed, int(shared), (m, heads if shared else batch))
    return (split.transpose(0, 1) if shared else split).transpose(2, 3).flatten(3)


@frozen
class Transformer:
    """Transformer classifier, defined by its sizes."""

    length: int  # rows of a window
    channels: int
    classes: int
    d: int = LEAST_D
    heads: int = Options.heads
    layers: int = Options.layers
    patch: int = Options.patch  # rows per token
    stride: int | None = None  # rows from one token to the next; default: patch
    ffn: int | None = None  # default: 2 d
    grid: Counts = ()  # sides, if rows are points in raster order

    def __post_init__(self) -> None:
        for key in ("heads", "d", "layers", "patch", "stride", "ffn"):
            if getattr(self, key) is not None:
                check_count(f"--{key}", getattr(self, key), 1, WIDEST)
        if self.d % self.heads or self.d // self.heads % 2:
            raise PefourierError(
                f"--d must be an even multiple of --heads {self.heads}, got {self.d}"
            )
        if not self.step <= self.patch <= self.length or (self.length - self.patch) % self.step:
            raise PefourierError(
                f"tokens of --patch {self.patch} rows, starting every {self.step}, must cover the "
                f"{self.length} rows of a window; choose a --patch that divides them, or --tokens"
            )

    @property
    def step(self) -> int:
        """Rows from one token to the next."""
        return self.patch if self.stride is None else self.stride

    @property
    def tokens(self) -> int:
        return (self.length - self.patch) // self.step + 1

    @property
    def wide(self) -> int:
        """Width of the feed-forward layer."""
        return 2 * self.d if self.ffn is None else self.ffn

    @property
    def size(self) -> int:
        """Number of parameters of one member."""
        return sum(map(prod, self.shapes().values()))

    def bytes_between_layers(self, batch: int) -> int:
        """Estimate the bytes between the layers of one member, without attention scores."""
        layer = 20 * self.d + 2 * self.wide
        return 4 * batch * self.tokens * (self.patch * self.channels + layer * self.layers)

    def shapes(self) -> Shapes:
        """Parameter shapes of one member; weights are (inputs, outputs)."""
        d, wide = self.d, self.wide
        shapes: Shapes = {"project.w": (self.patch * self.channels, d), "project.b": (1, d)}
        for i in range(self.layers):
            shapes |= {
                f"{i}.qkv.w": (d, 3 * d),
                f"{i}.out.w": (d, d),
                f"{i}.out.b": (1, d),
                f"{i}.wide.w": (d, wide),
                f"{i}.wide.b": (1, wide),
                f"{i}.narrow.w": (wide, d),
                f"{i}.narrow.b": (1, d),
            } | {f"{i}.norm{n}.{p}": (1, 1, d) for n in (1, 2) for p in ("gain", "shift")}
        return shapes | {"head.w": (d, self.classes), "head.b": (1, self.classes)}

    def logits(
        self,
        p: Parameters,
        injected: Mapping[str, StackVectors],
        x: Tensor,
        drop: Drop | None = None,
        lengths: Tensor | None = None,
        windows: Tensor | None = None,
    ) -> Tensor:
        """Logits (M, B, K) of windows (M, B, L, C); pass `drop` in training.

        `lengths` (M, B) counts the rows of each window; the rest is padding, which must be finite.
        `windows` (M, B) are the indices of the windows, for encodings of their times.
        """
        drop = drop or keep_all
        tables = {a: vectors.table(p.get(f"codes.{a}"), windows) for a, vectors in injected.items()}
        h = drop(self.tokens_with_vectors(p, tables.get("add"), x))
        padding = hidden = None
        if lengths is not None:  # after the tokens that cover these rows
            tokens = 1 + ((lengths - self.patch).clamp(min=0) + self.step - 1) // self.step
            padding = torch.arange(self.tokens, device=x.device) >= tokens[:, :, None]  # (M, B, T)
            hidden = padding[:, :, None, None]  # (M, B, 1, 1, T)
        bias = None  # (M, 1 or B, H, T, T)
        if "bias" in tables:
            of_pairs = torch.unflatten(of_windows(tables["bias"]), 2, (self.tokens, self.tokens))
            bias = of_pairs.permute(0, 1, 4, 2, 3)
        for i in range(self.layers):
            mixed = self.attention(p, i, h, tables, bias, hidden)
            h = norm_of_sum(p, f"{i}.norm1", h, drop(mixed))
            wide = drop(affine(p, f"{i}.wide", h.flatten(1, 2)).relu())
            narrow = drop(affine(p, f"{i}.narrow", wide))
            h = norm_of_sum(p, f"{i}.norm2", h, narrow.view_as(h))
        return affine(p, "head", mean_of(h, padding, p["head.w"].dtype))

    def tokens_with_vectors(self, p: Parameters, table: Tensor | None, x: Tensor) -> Tensor:
        """Tokens (M, B, T, d) of windows (M, B, L, C), plus added vectors (M, T, d)."""
        # one type in every stack: added vectors would make all members float32
        rows = x.unfold(2, self.patch, self.step).transpose(3, 4)  # (M, B, T, patch, C)
        h = affine(p, "project", rows.flatten(3).flatten(1, 2)).to(x.dtype)
        h = torch.unflatten(h, 1, (x.shape[1], self.tokens))
        return h if table is None else torch.add(h, of_windows(table)).to(x.dtype)

    def attention(
        self,
        p: Parameters,
        i: int,
        h: Tensor,
        tables: Mapping[str, Tensor],
        bias: Tensor | None,
        hidden: Tensor | None,
    ) -> Tensor:
        """H-head self-attention of h (M, B, T, d); `hidden` keys receive none."""
        size = (*h.shape[1:3], self.heads, self.d // self.heads)
        # one product on a GPU; on a CPU, three products cost less than joining three gradients
        count = 3 if h.device.type == "cpu" else 1
        products = [torch.bmm(h.flatten(1, 2), w) for w in p[f"{i}.qkv.w"].chunk(count, dim=2)]
        parts = (part for product in products for part in product.chunk(3 // count, dim=2))
        q, k, v = (part.view(len(part), *size) for part in parts)
        values, lags = None, []
        if "key" in tables:
            keys, *of_values = torch.split(tables["key"], size[3], dim=2)
            values = of_values[0] if of_values else None
            lags.append(bias_of_lag_keys(q, keys))
        if "key-query" in tables:
            vectors = tables["key-query"]
            to_queries = bias_of_lag_keys(k, vectors.flip(1)).transpose(3, 4)  # p2c of DeBERTa
            lags += [bias_of_lag_keys(q, vectors), to_queries]
        for scores in lags:
            bias = scores if bias is None else bias + scores
        if "rotate" in tables:
            q, k = rotate_by_positions(q, k, tables["rotate"])
        mixed = attend(q, k, v, bias, hidden, values)
        return affine(p, f"{i}.out", mixed.flatten(1, 2)).view_as(h)


def token_rate(model: Transformer, task: Task) -> float:
    """Tokens per unit of time in the windows of a task."""
    since = task.times_of_tokens(model.step, model.tokens)
    count = np.count_nonzero(np.diff(since))  # padding has the time of the last row
    return float(count / since[:, -1].sum()) if count else 1.0


def keep_all(x: Tensor) -> Tensor:
    """Drop nothing: the default of `drop`."""
    return x


def mean_of(x: Tensor, padding: Tensor | None, dtype: torch.dtype | None = None) -> Tensor:
    """Mean (M, B, C) of unpadded tokens (M, B, T) of x (M, B, T, C), summed in `dtype`."""
    if padding is None:
        return x.mean(dim=2, dtype=dtype)
    present = ~padding[..., None]
    return (x * present).sum(dim=2, dtype=dtype) / present.sum(dim=2)


def greatest_of(x: Tensor, padding: Tensor | None) -> Tensor:
    """Maximum (M, B, C) of unpadded tokens (M, B, T) of x (M, B, T, C)."""
    if padding is None:
        return x.amax(dim=2)
    return x.masked_fill(padding[..., None], -torch.inf).amax(dim=2)


class Dropout:
    """Dropout on (M, …) in training; the rest is scaled up.

    On a CPU, the random numbers of a member depend on its key, the step and the dropout layer, but
    not on other members of the stack; elsewhere, torch's generator draws them.
    """

    def __init__(self, share: float, keys: Ints, device: torch.device) -> None:
        self.share, self.scale = share, torch.tensor(share, dtype=torch.float32, device=device)
        self.keys, self.step, self.site = keys, 0, 0
        self.generator = torch.Generator()

    def begin(self, step: int) -> "Dropout":
        """Start the forward pass of a step."""
        self.step, self.site = step, 0
        return self

    def __call__(self, x: Tensor) -> Tensor:
        """Apply dropout to x (M, …)."""
        self.site += 1
        if x.device.type != "cpu":
            return torch.native_dropout(x, self.share, train=True)[0]  # one kernel
        uniform = torch.empty(x.shape)
        for member, key in zip(uniform, self.keys, strict=True):
            seed = (key * 1_000_003 + self.step) * 64 + self.site
            member.uniform_(generator=self.generator.manual_seed(seed % 2**63))
        return x * ((uniform >= self.scale) / (1 - self.scale)).to(x.dtype)


@frozen
class OrderFree:
    """Order-free baseline: two layers on mean, deviation, minimum and maximum of channels."""

    length: int
    channels: int
    classes: int
    d: int = LEAST_D

    def shapes(self) -> Shapes:
        """Parameter shapes of one member."""
        return {
            "project.w": (4 * self.channels, self.d),
            "project.b": (1, self.d),
            "head.w": (self.d, self.classes),
            "head.b": (1, self.classes),
        }

    def logits(
        self,
        p: Parameters,
        _injected: Mapping[str, StackVectors],
        x: Tensor,
        drop: Drop | None = None,
        lengths: Tensor | None = None,
        _windows: Tensor | None = None,
    ) -> Tensor:
        """Logits (M, B, K) of windows (M, B, L, C), with the signature of `Transformer.logits`."""
        padding = None
        if lengths is not None:
            padding = torch.arange(self.length, device=x.device) >= lengths[:, :, None]
        mean = mean_of(x, padding)
        deviation = mean_of((x - mean[:, :, None]) ** 2, padding).sqrt()
        statistics = [mean, deviation, -greatest_of(-x, padding), greatest_of(x, padding)]
        h = affine(p, "project", torch.cat(statistics, dim=2)).relu()
        return affine(p, "head", (drop or keep_all)(h))


Classifier = Transformer | OrderFree


def affine(p: Parameters, name: str, x: Tensor) -> Tensor:
    """Multiply x (M, n, inputs) by each member's weights and add its biases."""
    weights, biases = p[f"{name}.w"], p[f"{name}.b"]
    if x.device.type == "cpu":
        return torch.baddbmm(biases, x, weights)
    return torch.bmm(x, weights) + biases  # baddbmm on a GPU first copies biases to all rows


def norm_of_sum(p: Parameters, name: str, x: Tensor, y: Tensor) -> Tensor:
    """Layer normalization of x + y with each member's gain and shift; statistics in float32."""
    scaled = F.layer_norm(x + y, x.shape[-1:])
    return torch.addcmul(p[f"{name}.shift"], scaled, p[f"{name}.gain"])


def draw_parameters(shapes: Shapes, seed: int) -> Parameters:
    """Draw one member's parameters: Glorot-uniform weights, zero biases and shifts, gains of 1.

    They are drawn in float64 in the order of the names and depend only on the seed.
    """
    generator = torch.Generator().manual_seed(seed)
    begun = {}
    for name in sorted(shapes):
        shape = shapes[name]
        if name.endswith(".w"):
            bound = (6.0 / sum(shape)) ** 0.5
            uniform = torch.rand(shape, generator=generator, dtype=torch.float64)
            begun[name] = (2 * uniform - 1) * bound
        else:
            begun[name] = torch.full(shape, float(name.endswith("gain")), dtype=torch.float64)
    return begun
