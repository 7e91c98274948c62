"""Encodings as torch modules: codes added to a batch of sequences."""

try:
    import torch
except ModuleNotFoundError as error:
    needs = "pefourier.nn needs torch, which is not installed; pip install torch"
    raise ModuleNotFoundError(needs, name="torch") from error

from pefourier.encodings import load
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.registry import build, parse_parameters
from pefourier.encodings.specs import source_of
from pefourier.errors import PefourierError


class PositionalEncoding(torch.nn.Module):
    """Adds the codes of positions 0 … length - 1 to input (…, length, d), batch first.

    Codes are computed in float64 and kept in `dtype`, in a buffer that forward only reads (or, with
    `learn`, in a parameter that starts there); they are cast to the type of the input when added.

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
    """

    codes: torch.Tensor  # (max_length, d)

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
        enc = load_additive(encoding, d, max_length, params)
        codes = torch.tensor(enc.table(), dtype=dtype or torch.get_default_dtype())
        if enc.untrained if learn is None else learn:
            self.codes = torch.nn.Parameter(codes)
        else:
            self.register_buffer("codes", codes)
        self.encoding = enc.spec

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Input (…, length, d) plus the codes, in the type of the input."""
        longest, d = self.codes.shape
        if x.ndim < 2 or x.shape[-1] != d or not x.is_floating_point():
            raise PefourierError(
                f"expected floating-point input (…, length, {d}); "
                f"got {str(x.dtype).removeprefix('torch.')} of shape {tuple(x.shape)}"
            )
        length = x.shape[-2]
        if length > longest:
            raise PefourierError(
                f"a sequence of {length} is longer than max_length={longest} of this module"
            )
        return x + self.codes[:length].to(x.dtype)

    def extra_repr(self) -> str:
        length, d = self.codes.shape
        trained = isinstance(self.codes, torch.nn.Parameter)
        return f"{self.encoding}, d={d}, max_length={length}, {'trained' if trained else 'fixed'}"


def load_additive(spec: str, d: int, max_length: int, params: dict) -> Encoding:
    """The encoding of a SPEC, refused unless its codes (max_length, d) are added to the input."""
    if source_of(spec) == "name":
        name, _, text = spec.partition(":")
        own = {"length": max_length, "d": d, **parse_parameters(name, text), **params}
        enc = build(name, spec=spec, **own)
    else:
        enc = load(spec, max_length, d)
    if enc.act != "add":
        raise PefourierError(
            f"{spec} is not an additive encoding: attention takes it as {enc.act!r}"
        )
    if enc.dim != d or len(enc) != max_length:
        raise PefourierError(
            f"{spec} has codes of shape ({len(enc)}, {enc.dim}); expected ({max_length}, {d})"
        )
    return enc
