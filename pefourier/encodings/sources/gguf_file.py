"""Read the rotation of a GGUF file of llama.cpp as that of a config.

The keys, such as ``ARCH.rope.freq_base``, are written by llama.cpp's converters. They are read
under their names in a config of transformers, with a row for each architecture, as configs are
with rows of model types: see ``gguf_architectures.toml``. The tensors ``rope_freqs.weight``, or
``rope_factors_long.weight`` and ``rope_factors_short.weight``, divide the frequencies.
"""

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, replace
from math import log, prod
from pathlib import Path
from typing import Any

import numpy as np

from pefourier.encodings.encoding import Encoding, Finding, describe_axes, finding
from pefourier.encodings.families.rotary import logits_gain
from pefourier.encodings.sources.gguf_header import LONGEST_LIST, NUMPY, read_header
from pefourier.encodings.sources.huggingface import (
    FULL,
    SLIDING,
    LayerRun,
    ModelConfig,
    ModelRow,
    add_groups,
    layer_schedule,
    lint_lost,
    noted,
    read_rotation,
    type_row,
)
from pefourier.errors import WIDEST, PefourierError, is_count, is_number, shown, unknown
from pefourier.types import Counts, Fields, Places, Strings, Values, frozen
from pefourier.writing.files import os_errors, read_toml, split_spec

DECIDED = read_toml(Path(__file__).with_name("gguf_architectures.toml"))  # by llama.cpp
NAMES, ROWS = DECIDED["names"], add_groups({}, DECIDED["rows"])
READ, OPTIONAL = (DECIDED["keys"][name].split() for name in ("read", "optional"))
FREQS, LONG, SHORT = (f"rope_{name}.weight" for name in ("freqs", "factors_long", "factors_short"))
PARTS = (FULL, SLIDING)  # types of layers with separate rotations
PATTERN = "attention.sliding_window_pattern"
MULTIPLIER = "rope.scaling.yarn_log_multiplier"
EXT_FACTOR = "rope.scaling.yarn_ext_factor"
OF_POSITIONS = ("rope.", "attention.sliding_window", "attention.alibi", "attention.max_alibi")


@frozen
class GgufFile(ModelConfig):
    """Metadata and factor tensors of a GGUF file, with the interface of `ModelFile`.

    The values are the keys of the architecture, also under their names in a config.
    """

    _: KW_ONLY
    metadata: Values
    factors: Mapping[str, tuple[float, ...]]
    spec: str
    model = None  # no config
    unrotated = 0  # unrotated dimensions before the d dimensions of a head

    def spelled(self, key: str) -> str:
        """Return the name of a key in the file."""
        return str(NAMES.get(key, key))

    def positive(self, key: str) -> float | None:
        """Return the positive number under a key; None if it is not set, or not read here."""
        if key in OPTIONAL and key not in (self.row.reads or ()):
            return None
        number = self.number(key)
        if number is not None and number <= 0:
            raise self.wrong(key, number, "above 0")
        return number

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
        if self.row.order_of_axes == "told" and all((*self.sections, 0, 0)[:2]):
            return "axes"
        pairing: str | None = self.row.pairing
        return pairing

    def axis_of_pairs(self, pairs: int) -> Places | None:
        """Return the axis (t, y, x or e) that rotates each pair; None if not set.

        In llama.cpp the position on axis e is 0 in text and in images.
        """
        sections = (*self.sections, 0, 0, 0)[:4]
        if self.pairing != "axes" or not any(sections):
            return None
        sector = np.arange(pairs) % sum(sections)
        if self.row.order_of_axes == "turns":
            return np.where(sector < 3 * np.array(sections)[sector % 3], sector % 3, 3)
        return np.searchsorted(np.cumsum(sections), sector, side="right")

    def of_layer(self, layer: str) -> "GgufFile":
        """Return the file with another type of layer selected; "" selects all layers."""
        spec = f"{self.file}#{layer}" if layer else self.file
        return replace(self, part=layer, spec=spec, row=row_of(self.kind, layer))

    @property
    def layers(self) -> list[LayerRun]:
        """Return runs of layers with equal positions; one run if their types are unknown."""
        rotations = [
            (own.number(*row.bases), own.count(*row.size), own.count(*row.shares), scaling)
            for own in map(self.of_layer, PARTS)
            for row, scaling in [(own.row, scaling_of_file(own))]
        ]
        whole = self.of_layer("")
        if whole.get("sliding_window_pattern"):  # a period
            types = None if whole.get(PATTERN) else whole.row.layer_types
            whole.row.update(layer_types=types or [SLIDING, FULL])
        is_local = whole.get("sliding_window") and rotations[0] != rotations[1]
        return layer_schedule(whole, PARTS if is_local else [""])

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
        self.positive(self.spelled(self.first(*self.row.bases)[0]))
        layout = "interleaved" if self.pairing == "interleaved" else "halves"
        row = ModelRow(self.row, layout=layout, families=type_row(self.kind).families)
        row.update(unrotated=None, turning=None)  # `notes_on_file` reports them
        values = {**self.values, "rope_scaling": scaling_of_file(self)}
        model = replace(self, values=values, row=row, part="", length=length, d=d)
        enc = read_rotation(model, [lint_lost] if self.part != SLIDING else [])
        params, facts, times = enc.params, dict[str, Any](), self.positive(MULTIPLIER)
        if times is not None and params["scaling"] == "yarn" and self.row.multiplier != "whole":
            # the factor of the logits: (0.1 m ln s + 1)^2
            facts["softmax_factor"] = logits_gain(10 * times, params["factor"], self.label)
        if (axis := self.axis_of_pairs(params["rotated"] // 2)) is not None:
            facts["mrope_section"] = describe_axes(axis)
        known = {*READ, *OPTIONAL}
        unread = [key for key in self.values if key.startswith(OF_POSITIONS) and key not in known]
        if unread:
            facts["unread"] = tuple(unread)
        notes = notes_on_file(self, unread)
        return noted(replace(enc, spec=self.spec, file=self), *notes, **facts)


def row_of(kind: str, part: str) -> ModelRow:
    """Return the row of an architecture for a type of layer."""
    row = ModelRow(DECIDED["row"] | ROWS.get(kind, {}))
    if part == SLIDING:
        row.update(DECIDED["row_of_windows"])
        if row.base_of_windows:  # 10000 by default
            row["bases"] = row["bases"][:1]
    return row


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
    own = {key.removeprefix(start): x for key, x in metadata.items() if key.startswith(start)}
    return GgufFile(
        shown(path),
        as_config(own, kind),
        file=path,
        part=part,
        kind=kind,
        row=row_of(kind, part),
        metadata=metadata,
        factors=factors,
        spec=spec,
    )


def as_config(own: Values, kind: str) -> Fields:
    """Return the keys of an architecture, also under the names of a config.

    Of lists by layer, the first item. Windows are left out if their layers are unknown.

    >>> config = as_config({"attention.head_count": [8, 4], "rope.freq_base": 1e6}, "llama")
    >>> config["num_attention_heads"], config["rope_theta"], config["head_dim"]
    (8, 1000000.0, None)
    """
    values = {key: x[0] if isinstance(x, list) and x else x for key, x in own.items()}
    values |= {name: values.get(key) for name, key in NAMES.items()}
    pattern, count = own.get(PATTERN), values["num_hidden_layers"]
    is_known = values["sliding_window_pattern"] = pattern or ROWS.get(kind, {}).get("period")
    if isinstance(pattern, list):
        values["layer_types"] = [PARTS[bool(local)] for local in pattern]
        values["sliding_window_pattern"] = None
        is_known = is_count(count, 0, len(pattern))
    if values["sliding_window"] == 0:
        values["sliding_window"] = None
    elif values["sliding_window"] and not is_known:
        values |= {"sliding_window": None, "num_hidden_layers": None}
    return values


def notes_on_file(file: GgufFile, unread: Strings) -> Iterator[Finding]:
    """Yield findings about settings that the file leaves to llama.cpp, and about unread keys."""
    who = f"{file.label} (architecture {shown(file.kind)})"
    if file.pairing is None:
        yield finding("gguf-unsaid", "pairs", who=who)
    if file.get("rope_theta") is None:
        yield finding("gguf-unsaid", "base", who=who)
    if file.pairing == "axes":
        yield finding("rope-axes")
    layers = file.row.still_layers
    if layers and (file.row.unrotated or file.get("attention.sliding_window")):
        yield finding("gguf-unsaid", "still", who=who, layers=layers)
    for key in unread[:5]:
        yield finding(
            "unread-key", "plain", config=file.label, key=shown(key), value=shown(file.values[key])
        )


def scaling_of_file(file: GgufFile) -> Fields:
    """Return the scaling of a file as the section ``rope_scaling`` of a config."""
    if file.part == SLIDING and file.row.plain_windows:
        return {}
    kind, factors = file.get("rope.scaling.type", "linear"), file.factors
    factor = float(file.positive("rope.scaling.factor") or file.positive("rope.scale_linear") or 1)
    is_sized = file.count("rope.scaling.original_context_length", "context_length")
    alpha, mixed = file.positive("rope.scaling.alpha"), file.get(EXT_FACTOR, 1)
    mixed = 1 if is_number(mixed) and mixed < 0 else mixed  # negative means not set
    attention = file.positive("rope.scaling.attn_factor") or 1.0
    if LONG in factors and SHORT in factors and is_sized:
        lists = {"short_factor": [*factors[SHORT]], "long_factor": [*factors[LONG]]}
        longrope = {"rope_type": "longrope", **lists, "factor": factor}
        return {**longrope, "attention_factor": attention}
    if FREQS in factors and (kind in ("none", "llama3") or (kind == "linear" and factor == 1)):
        return {"rope_type": "factors", "factors": [*factors[FREQS]]}
    if kind == "yarn" and is_sized and mixed == 1 and not factors:
        attention *= yarn_attention(file, factor)
        names = ("beta_fast", "beta_slow")
        betas = {name: file.positive(f"rope.scaling.yarn_{name}") for name in names}
        yarn = {"rope_type": "yarn", "factor": factor, **betas}
        return {**yarn, "attention_factor": attention}
    is_plain = kind in ("none", "linear")
    if is_plain and alpha and factor == 1 and not factors:  # its base times alpha^(d / (d - 2))
        return {"rope_type": "ntk", "factor": alpha}
    if ((is_plain and not alpha) or (kind == "yarn" and mixed == 0)) and FREQS not in factors:
        return {"rope_type": "linear", "factor": factor} if factor != 1 else {}
    contents = f"{', '.join(factors) or 'no factors'}, {EXT_FACTOR} {shown(mixed)}, alpha {alpha}"
    way_out = "is not supported; give rope:inv_freq=FILE"
    raise PefourierError(f"scaling {shown(kind)} of {file.label} with {contents} {way_out}")


def yarn_attention(file: GgufFile, factor: float) -> float:
    """Return the factor of cosines and sines: 0.1 ln s + 1, or its quotient with 0.1 m ln s + 1.

    m is the multiplier that configs call mscale_all_dim; most files store a tenth of it. Some
    architectures use it for both numbers of the quotient.
    """
    scale, times = 1 + 0.1 * log(factor), file.positive(MULTIPLIER)
    if times is None:
        return scale
    if file.row.multiplier == "both":
        return 1.0
    return scale / (1 + (0.1 if file.row.multiplier == "whole" else 1) * times * log(factor))
