"""Read the rotation of a GGUF file of llama.cpp from its metadata and its frequency factors.

The keys are written by llama.cpp's converters: ``ARCH.rope.freq_base``, ``rope.dimension_count``,
``rope.freq_base_swa``, ``attention.sliding_window_pattern``, ``rope.scaling.*``,
``attention.key_length``, ``context_length``. The tensors ``rope_freqs.weight``, or
``rope_factors_long.weight`` and ``rope_factors_short.weight``, divide the frequencies.

Read the keys of a GGUF file, and the places of its tensors.

The layout is specified in ``docs/gguf.md`` of ggml, versions 2 and 3, little-endian. The package
gguf is not needed. Every length is checked against the size of the file before use. Long lists,
such as vocabularies, are skipped.
"""

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, replace
from math import log, prod
from pathlib import Path
from struct import Struct
from struct import error as CutOff
from typing import Any

import numpy as np

from pefourier.encodings.encoding import Encoding, Finding, describe_axes, finding
from pefourier.encodings.families.rotary import (
    logits_gain,
    original_of_llama3,
    rotated_share,
)
from pefourier.encodings.sources.huggingface import (
    USUAL_LENGTH,
    LayerRun,
    ModelConfig,
    ModelRow,
    family_lost,
    layer_schedule,
    lost_family,
    noted,
    original_of_linear,
    trained_as_stated,
    type_row,
)
from pefourier.errors import WIDEST, PefourierError, is_count, is_number, shown, unknown
from pefourier.types import Counts, Fields, Places, Strings, Values, frozen
from pefourier.writing.files import missing, os_errors, read_toml, split_spec, status_of

STRING, ARRAY = 8, 9
TYPE_CODES = dict(zip((*range(STRING), 10, 11, 12), "BbHhIif?Qqd", strict=True))
SCALARS = {number: Struct(f"<{code}") for number, code in TYPE_CODES.items()}
U32, U64 = SCALARS[4], SCALARS[10]
LONGEST_LIST = 2**14  # largest list that is returned, such as one item per layer
MOST_TEXTS = 2**22  # strings of a list that are skipped one by one
MOST_AXES = 8
ALIGNMENT = 32  # default, in bytes
NUMPY = {"F32": "<f4", "F16": "<f2", "F64": "<f8"}  # types that numpy has
KNOWN = read_toml(Path(__file__).with_name("gguf_types.toml"))
DECIDED = read_toml(Path(__file__).with_name("gguf_architectures.toml"))  # by llama.cpp
BLOCKS = {name: (count, size) for name, (_, count, size) in KNOWN.items()}  # numbers, and bytes
TYPES = {number: name for name, (number, _, _) in KNOWN.items()}


@frozen
class TensorPlace:
    """Shape, type and place of a tensor in a GGUF file."""

    shape: Counts  # rows first, as in numpy; the file stores the fastest axis first
    type: str  # F32, F16, Q4_K, …, or the number of an unknown type
    start: int  # offset in the file, in bytes


def read_header(path: str) -> tuple[Fields, dict[str, TensorPlace]]:
    """Return the keys of a GGUF file with their values, and its tensors by name.

    Lists of more than 2^14 items, such as vocabularies, are None. Tensors of known types are within
    the file.

    Raises
    ------
    PefourierError
        If the file is missing, truncated, not a GGUF file, or smaller than its header declares.
    """
    if status_of(path) is None:
        raise missing(path)
    with os_errors("read", path), Path(path).open("rb") as stream:
        try:
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return walk_header(data)
        except (ValueError, OverflowError, CutOff) as error:
            raise PefourierError(
                f"{shown(path)} is not a readable .gguf file: {error}; download it again"
            ) from error


def walk_header(data: mmap.mmap) -> tuple[Fields, dict[str, TensorPlace]]:
    """Parse the header for `read_header`; damaged files raise ValueError or `CutOff`."""
    walk = Walk(data)
    version = walk.number(U32)
    if data[:4] != b"GGUF" or version not in (2, 3):
        raise ValueError("it must begin with GGUF and version 2 or 3, little-endian")
    tensors, keys = walk.count(24), walk.count(13)
    values = {walk.text(): walk.value(walk.number(U32)) for _ in range(keys)}
    infos = {walk.text(): walk.tensor() for _ in range(tensors)}
    step = values.get("general.alignment", ALIGNMENT)
    if type(step) is not int or not 0 < step <= 2**20:
        raise ValueError(f"general.alignment is {shown(step)}")
    if len(values) < keys or len(infos) < tensors:
        raise ValueError("it repeats the name of a key or of a tensor")
    first = -(-walk.at // step) * step
    places = {n: replace(place, start=first + place.start) for n, place in infos.items()}
    for name, place in places.items():
        block, width = BLOCKS.get(place.type, (1, 0))
        if place.shape and place.shape[-1] % block:
            raise ValueError(f"rows of tensor {shown(name)} do not fill blocks of {place.type}")
        if width and place.start + prod(place.shape) // block * width > len(data):
            raise ValueError(f"tensor {shown(name)} extends beyond the end of the file")
    return values, places


class Walk:
    """A reader of a file's bytes that advances with every read."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.at = data, 4

    def number(self, reader: Struct) -> Any:
        """Read a number."""
        self.at += reader.size
        return reader.unpack_from(self.data, self.at - reader.size)[0]

    def count(self, item_size: int) -> int:
        """Read the number of items that follow, and check that they fit into the file."""
        count = int(self.number(U64))
        if count * item_size > len(self.data) - self.at:
            raise ValueError(f"at byte {self.at} it declares {count} items, which do not fit")
        return count

    def text(self) -> str:
        """Read a string."""
        size = self.count(1)
        self.at += size
        return self.data[self.at - size : self.at].decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        """Read a value, given the number of its type."""
        if kind in SCALARS:
            return self.number(SCALARS[kind])
        if kind == STRING:
            return self.text()
        inner: int = self.number(U32) if kind == ARRAY else ARRAY
        if inner != STRING and inner not in SCALARS:
            raise ValueError(f"at byte {self.at} it has an unknown type, or a list of lists")
        size = 8 if inner == STRING else SCALARS[inner].size
        count = self.count(size)
        if count <= LONGEST_LIST:
            return [self.value(inner) for _ in range(count)]
        if inner != STRING:
            self.at += count * size
            return None
        if count > MOST_TEXTS:
            raise ValueError(f"it has a list of more than {MOST_TEXTS} strings")
        for _ in range(count):  # without reading them
            self.at += 8 + U64.unpack_from(self.data, self.at)[0]
        return None

    def tensor(self) -> TensorPlace:
        """Read a tensor's entry; its start is relative to the start of the tensor data."""
        axes = self.number(U32)
        if axes > MOST_AXES:
            raise ValueError(f"before byte {self.at} a tensor has {axes} axes (limit {MOST_AXES})")
        shape = tuple(self.number(U64) for _ in range(axes))[::-1]
        kind = self.number(U32)
        return TensorPlace(shape, TYPES.get(kind, str(kind)), self.number(U64))


FREQS, LONG, SHORT = (f"rope_{name}.weight" for name in ("freqs", "factors_long", "factors_short"))
PARTS = ("full_attention", "sliding_attention")  # types of layers with separate bases
ATTENTION = "rope.scaling.attn_factor"
EXT_FACTOR = "rope.scaling.yarn_ext_factor"
BETAS = ("beta_fast", "beta_slow")
FOURTH = "every fourth layer"


@frozen
class GgufFile(ModelConfig):
    """Metadata and factor tensors of a GGUF file, with the interface of `ModelFile`.

    The values are the keys of the architecture; for lists by layer, the first item.
    """

    _: KW_ONLY
    metadata: Values
    factors: Mapping[str, tuple[float, ...]]
    spec: str
    model = None  # no config
    unrotated = 0  # unrotated dimensions before the d dimensions of a head

    @property
    def sections(self) -> Counts:
        """Return the number of pairs on llama.cpp's axes t, y, x and e; none if not set."""
        counts = self.metadata.get(f"{self.kind}.rope.dimension_sections") or []
        if not isinstance(counts, list) or not all(is_count(n, 0, WIDEST) for n in counts[:4]):
            raise self.wrong("rope.dimension_sections", counts, "four counts")
        return tuple(map(int, counts[:4]))

    @property
    def pairing(self) -> str | None:
        """Return llama.cpp's pairing of the rows of a head: interleaved, halves, axes or "none".

        None for an unknown architecture. Axes pair halves too. If the original model pairs rows in
        another way, the converter has reordered its query and key rows.
        """
        if self.is_listed("sections", "told") and all((*self.sections, 0, 0)[:2]):
            return "axes"
        return next((name for name in DECIDED["pairing"] if self.is_listed("pairing", name)), None)

    def is_listed(self, table: str, key: str) -> bool:
        """Return whether a table of llama.cpp's decisions lists the file's architecture."""
        return self.kind in DECIDED[table][key].split()

    @property
    def settles_original(self) -> bool:
        """Return whether the file sets the length before scaling."""
        return self.count("rope.scaling.original_context_length") is not None

    def positive(self, key: str) -> float | None:
        """Return the positive number under a key; None if the key is not set."""
        number = self.number(key)
        if number is not None and number <= 0:
            raise self.wrong(key, number, "above 0")
        return number

    def optional(self, key: str) -> float | None:
        """Return a number that llama.cpp reads only for some architectures; None for others."""
        return self.positive(key) if self.is_listed("reads", key) else None

    @property
    def base(self) -> float:
        """Return the base of the selected layers, by key or llama.cpp's."""
        usual = self.positive("rope.freq_base") or 1e4
        if self.part != PARTS[1]:
            return usual
        is_own = self.is_listed("windows", "own_base")
        return self.positive("rope.freq_base_swa") or (1e4 if is_own else usual)

    def of_layer(self, layer: str) -> "GgufFile":
        """Return the file with another type of layer selected; "" selects all layers."""
        return replace(self, part=layer, spec=f"{self.file}#{layer}" if layer else self.file)

    @property
    def layers(self) -> list[LayerRun]:
        """Return runs of layers with equal positions; one run if their types are unknown."""
        count, window = self.count("block_count") or 0, self.count("attention.sliding_window")
        sliding = (sliding_layers(self, count) if window else [False] * count) or []
        unrotated = DECIDED["unrotated"].get(self.kind)
        values: Fields = {"num_hidden_layers": len(sliding) or None}
        if unrotated == FOURTH:
            values["no_rope_layers"] = [i % 4 != 3 for i in range(len(sliding))]
        elif unrotated and window:  # the layers without a window
            values["no_rope_layers"] = sliding
        if window:
            values["layer_types"] = [PARTS[local] for local in sliding]
            values["sliding_window"] = window if sliding else None
        config = replace(self, values=values, part="", row=ModelRow())
        rotations = {(own.base, *head_sizes(own)) for own in map(self.of_layer, PARTS)}
        return layer_schedule(config, PARTS if any(sliding) and len(rotations) > 1 else [""])

    def axis_of_pairs(self, pairs: int) -> Places | None:
        """Return the axis (t, y, x or e) that rotates each pair; None if not set.

        In llama.cpp the position on axis e is 0 in text and in images.
        """
        sections = (*self.sections, 0, 0, 0)[:4]
        if self.pairing != "axes" or not any(sections):
            return None
        sector = np.arange(pairs) % sum(sections)
        if self.is_listed("sections", "turns"):
            return np.where(sector < 3 * np.array(sections)[sector % 3], sector % 3, 3)
        return np.searchsorted(np.cumsum(sections), sector, side="right")

    def encoding(self, length: int | None = None, d: int | None = None) -> Encoding:
        """Return the rotation, by default over the context length of the file.

        llama.cpp decides the pairing by architecture; unknown architectures use halves.
        """
        if self.part not in ("", *PARTS):
            raise unknown(f"type of layer of {self.label}", self.part, PARTS)
        if self.pairing == "none":
            kind = shown(self.kind)
            raise PefourierError(
                f"{self.label} sets no rotation: llama.cpp does not rotate in {kind}"
            )
        stated, rotated = head_sizes(self)
        head = replace(self, d=d).dimension(stated, "rope.dimension_count or size of heads")
        rotated = min(rotated or head, head)
        longest = self.longest()
        is_unscaled = self.part == PARTS[1] and self.is_listed("windows", "unscaled")
        read = {*DECIDED["keys"]["read"].split(), *DECIDED["reads"]}
        unread = [key for key in self.values if key.startswith(OF_POSITIONS) and key not in read]
        enc = self.named(
            notes_on_file(self, unread),
            "rope",
            length=length or longest or USUAL_LENGTH,
            d=head,
            rho=self.base,
            layout="interleaved" if self.pairing == "interleaved" else "halves",
            partial=rotated_share(rotated, head),
            **({} if is_unscaled else scaling_of_file(self)),
        )
        params, facts = enc.params, dict[str, Any]()
        times = log_multiplier(self)
        has_gain = not self.is_listed("multiplier", "whole")
        if times is not None and params["scaling"] == "yarn" and has_gain:
            # the factor of the logits: (0.1 m ln s + 1)^2
            facts["softmax_factor"] = logits_gain(times, params["factor"], self.label)
        if (axis := self.axis_of_pairs(rotated // 2)) is not None:
            facts["mrope_section"] = describe_axes(axis)
        if unread:
            facts["unread"] = tuple(unread)
        family = lost_family(type_row(self.kind), params, longest or 0)
        lost = [family_lost(self.label, longest or 0, family)] if family else []
        before = family.get("trained") or known_original(self, params)
        if before and not trained_as_stated(params):
            facts["trained"] = before
        return noted(replace(enc, spec=self.spec, file=self), *lost, **facts)


OF_POSITIONS = ("rope.", "attention.sliding_window", "attention.alibi", "attention.max_alibi")


def open_gguf(spec: str) -> GgufFile:
    """Read the metadata and the factors of a .gguf file.

    ``#sliding_attention`` in SPEC selects the layers with a window, which may use another base.
    """
    path, part = split_spec(spec)
    metadata, tensors = read_header(path)
    factors = {}
    for name in sorted(tensors.keys() & {FREQS, LONG, SHORT}):
        place, size = tensors[name], prod(tensors[name].shape)
        if place.type not in NUMPY or size > LONGEST_LIST:
            raise PefourierError(
                f"{name} of {shown(path)} must be at most {LONGEST_LIST} numbers of type "
                f"{' or '.join(NUMPY)}; it has {size} of type {place.type}"
            )
        with os_errors("read", path):
            numbers = np.fromfile(path, NUMPY[place.type], size, offset=place.start)
        factors[name] = tuple(numbers.astype(float).tolist())
    kind = str(metadata.get("general.architecture"))
    start = f"{kind}."
    firsts = {
        key.removeprefix(start): value[0] if isinstance(value, list) and value else value
        for key, value in metadata.items()
        if key.startswith(start)
    }
    return GgufFile(
        shown(path),
        firsts,
        file=path,
        part=part,
        kind=kind,
        row=ModelRow(kind="rotary"),
        metadata=metadata,
        factors=factors,
        spec=spec,
    )


def head_sizes(file: GgufFile) -> tuple[int | None, int | None]:
    """Return the size of a head, and the number of its rotated dimensions; None if not set."""
    # keys of layers with a window have priority
    local = ("_swa",) if file.part == PARTS[1] else ()
    rotated = file.count(*(f"rope.dimension_count{end}" for end in (*local, "")))
    stated = file.count(*(f"attention.key_length{end}" for end in (*local, "_mla", "")))
    width, heads = file.count("embedding_length"), file.count("attention.head_count")
    return stated or (max(width // heads, 1) if width and heads else rotated), rotated


def notes_on_file(file: GgufFile, unread: Strings) -> Iterator[Finding]:
    """Yield findings about settings that the file leaves to llama.cpp, and about unread keys."""
    who = f"{file.label} (architecture {shown(file.kind)})"
    unrotated = DECIDED["unrotated"].get(file.kind)
    if file.pairing is None:
        yield finding("gguf-unsaid", "pairs", who=who)
    if file.get("rope.freq_base") is None:
        yield finding("gguf-unsaid", "base", who=who)
    if file.pairing == "axes":
        yield finding("rope-axes")
    if unrotated == FOURTH or (unrotated and file.get("attention.sliding_window")):
        yield finding("gguf-unsaid", "still", who=who, layers=unrotated)
    for key in unread[:5]:
        yield finding(
            "unread-key", "plain", config=file.label, key=shown(key), value=shown(file.values[key])
        )


def sliding_layers(file: GgufFile, count: int) -> list[bool] | None:
    """Return which layers have a window, by the key or by llama.cpp's pattern; None: unknown."""
    pattern = file.metadata.get(f"{file.kind}.attention.sliding_window_pattern")
    if isinstance(pattern, list):
        return [bool(x) for x in pattern[:count]] if len(pattern) >= count else None
    interval = pattern or DECIDED["full"].get(file.kind)
    if not isinstance(interval, int) or isinstance(interval, bool) or not interval:
        return None
    full = 0 if interval < 0 else abs(interval) - 1
    return [i % abs(interval) != full for i in range(count)]


def scaling_of_file(file: GgufFile) -> Fields:
    """Return the scaling of a file as parameters of `rope`."""
    kind, factors = file.get("rope.scaling.type", "linear"), file.factors
    factor = float(file.positive("rope.scaling.factor") or file.positive("rope.scale_linear") or 1)
    original = file.count("rope.scaling.original_context_length", "context_length")
    alpha, mixed = file.optional("rope.scaling.alpha"), file.get(EXT_FACTOR, 1)
    mixed = 1 if is_number(mixed) and mixed < 0 else mixed  # negative means not set
    sizes: Fields = {"factor": factor, "original": original}
    if LONG in factors and SHORT in factors and original:
        lists = {"short_factor": factors[SHORT], "long_factor": factors[LONG]}
        attention = file.positive(ATTENTION) or 1.0
        return {"scaling": "longrope", **lists, **sizes, "attention_factor": attention}
    if FREQS in factors and (kind in ("none", "llama3") or (kind == "linear" and factor == 1)):
        return {"scaling": "factors", "factors": factors[FREQS]}
    if kind == "yarn" and original and mixed == 1 and not factors:
        attention = (file.positive(ATTENTION) or 1.0) * yarn_attention(file, factor)
        betas = {key: file.optional(f"rope.scaling.yarn_{key}") for key in BETAS}
        return {"scaling": "yarn", **sizes, "attention_factor": attention, **betas}
    is_plain = kind in ("none", "linear")
    if is_plain and alpha and factor == 1 and not factors:  # its base times alpha^(d / (d - 2))
        return {"scaling": "ntk", "factor": float(alpha)}
    if ((is_plain and not alpha) or (kind == "yarn" and mixed == 0)) and FREQS not in factors:
        return {"scaling": "linear", "factor": factor} if factor != 1 else {}
    contents = f"{', '.join(factors) or 'no factors'}, {EXT_FACTOR} {shown(mixed)}, alpha {alpha}"
    way_out = "is not supported; give rope:inv_freq=FILE"
    raise PefourierError(f"scaling {shown(kind)} of {file.label} with {contents} {way_out}")


def known_original(file: GgufFile, params: Values) -> int | None:
    """Return the trained length that a file states, or that its scaling or rope_freqs imply."""
    longest, scaling = file.count("context_length") or 0, params["scaling"]
    stated = file.count("rope.scaling.original_context_length")
    if stated and (scaling != "none" or stated < longest):
        return stated
    if scaling == "linear":
        return original_of_linear(longest, params["factor"])
    return original_of_llama3(params) if scaling == "factors" else None


def yarn_attention(file: GgufFile, factor: float) -> float:
    """Return the factor of cosines and sines: 0.1 ln s + 1, or a quotient with yarn_log_multiplier.

    Most files store a tenth of the multiplier. Some architectures use it for both numbers of the
    quotient unless it is 1.
    """
    scale, times = 1 + 0.1 * log(factor), log_multiplier(file)
    if times is None:
        return scale
    if file.is_listed("multiplier", "both") and abs(times - 1) > 1e-6:
        return 1.0
    return scale / (1 + 0.1 * times * log(factor))


def log_multiplier(file: GgufFile) -> float | None:
    """Return the multiplier that configs call mscale_all_dim; None if llama.cpp ignores it."""
    multiplier = file.optional("rope.scaling.yarn_log_multiplier")
    if multiplier is None or file.is_listed("multiplier", "whole"):
        return multiplier
    return 10 * multiplier
