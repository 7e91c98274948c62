"""How may a rotation be misread? Its settings with the slips that engines are known to make.

Conventions
-----------
Settings are the parameters of ``rope``: d, rho, partial, scaling and that scaling's own. A slip is
a change of some of them, under a code that misreadings.toml explains; a reading is what comes of
it: frequencies in radians per position, one a pair, and the factor before the waves.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from pefourier.encodings import load
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.families.rotary import (
    Head,
    rotation_if_any,
    rotation_of,
    scaling_parameters,
)
from pefourier.encodings.sources.config import HEADS as HEAD_COUNTS
from pefourier.encodings.sources.config import WIDTH, ModelConfig
from pefourier.encodings.sources.layers import open_model, read_layers
from pefourier.encodings.sources.models import rotary
from pefourier.errors import PefourierError, shown
from pefourier.geometry.precision import FORMATS, rounded

SAID = Path(__file__).with_suffix(".toml")  # of misreadings by code: what was done
HEADS = (64, 80, 96, 128, 160, 192, 256)
LENGTHS = (*(2**k for k in range(11, 18)), 40960)
FACTORS = (2, 4, 8, 16, 32, 64)
RAMP = {  # limits of ramps
    "beta_fast": (8.0, 16.0, 24.0, 32.0, 48.0, 64.0),
    "beta_slow": (1.0, 2.0, 4.0),
    "low_freq_factor": (1.0, 2.0, 4.0),
    "high_freq_factor": (1.0, 2.0, 4.0, 8.0, 16.0),
}
ALONE = ""
CATEGORY = {  # of settings that are misread together, one of each
    **dict.fromkeys(("divisor", "scaling-added"), ALONE),
    **dict.fromkeys(("base-default", "base"), "base"),
    **dict.fromkeys(("partial-ignored", "partial", "head-size"), "width"),
}


@dataclass(frozen=True)
class Slip:
    """A change of the settings of a rotation."""

    code: str
    changes: Mapping[str, Any]
    told: Mapping[str, tuple[Any, Any]] | None = None  # where other settings say it, as meant, read

    @property
    def category(self) -> str:
        """What it changes: slips of two categories may come together, but those of `ALONE`."""
        return CATEGORY.get(self.code, "scaling")


@dataclass(frozen=True, eq=False)
class RotationRead:
    """What comes of reading a rotation in a certain way."""

    codes: tuple[str, ...]  # of the misreadings; none: as it is meant
    changes: Mapping[str, tuple[Any, Any]]  # settings, as meant and as read
    frequencies: np.ndarray  # (m,)
    factors: tuple[float, ...]  # before the waves: by the scaling's formula, and as it was


@dataclass(frozen=True)
class Hints:
    """What is known of the rotation that a reading is to become."""

    pairs: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def stated(self) -> bool:
        """Whether all of its settings are stated, so that none needs to be guessed."""
        return "d" in self.settings


def is_rotation(enc: Encoding) -> bool:
    """Whether an encoding turns pairs by settings that are known."""
    one_axis = enc.measure is not None and enc.measure.frequencies.ndim == 1
    return enc.act == "rotate" and one_axis and "scaling" in enc.params


def meant_settings(enc: Encoding) -> dict[str, Any]:
    """The settings of a rotation that make it again."""
    own = scaling_parameters(enc.params["scaling"])
    return {key: enc.params[key] for key in ("d", "rho", "partial", "scaling", *own)}


def change_rotation(enc: Encoding, **changes: Any) -> np.ndarray:
    """The frequencies of a rotation with some settings changed and all others, scaling included.

    >>> from pefourier.encodings import load
    >>> change_rotation(load("rope:scaling=linear,factor=4", 80, 4), rho=100.0)
    array([0.25 , 0.025])
    """
    if enc.params.get("inv_freq") is not None:
        raise PefourierError(
            f"{shown(enc.spec)} has frequencies by themselves, not by a base and a share of the "
            f"head; {' and '.join(changes)} can't be changed"
        )
    return rotation_of(meant_settings(enc) | changes, len(enc))[0]


def readings(enc: Encoding, hints: Hints) -> Iterator[RotationRead]:
    """A rotation as it is meant, then with one slip, then with two of different kinds.

    >>> from pefourier.encodings import load
    >>> one = load("rope:rho=5e5,scaling=linear,factor=4", 80, 64)
    >>> [read.codes for read in readings(one, Hints())][:3]
    [(), ('base-default',), ('scaling-ignored',)]
    """
    factor = enc.params["attention_factor"]
    yield RotationRead((), {}, enc.measure.frequencies, (factor,))
    yield from layers_read(enc)
    if enc.params.get("inv_freq") is not None:
        return
    settings = meant_settings(enc)
    yield from spread_over_head(settings, factor)
    single = list(slips(enc, settings, hints))
    joint = [slip for slip in single if slip.category != ALONE]
    pairs = [(one, two) for one in joint for two in joint if one.category < two.category]
    for some in [*((one,) for one in single), *pairs]:
        read = with_slips(settings, some, len(enc), factor)
        if read is not None:
            yield read


def with_slips(
    settings: Mapping[str, Any], some: Sequence[Slip], length: int, factor: float
) -> RotationRead | None:
    """A rotation with some slips; None where settings so changed are none."""
    changed = dict(settings)
    for slip in some:
        changed |= slip.changes
    differing = {
        key: (settings.get(key), changed[key])
        for slip in some
        for key in (slip.changes if slip.told is None else ())
        if settings.get(key) != changed[key]
    }
    differing |= {key: pair for slip in some for key, pair in (slip.told or {}).items()}
    read = rotation_if_any(changed, length) if differing else None
    if read is None:  # such a head cannot be scaled so
        return None
    factors = (read[1], factor)
    return RotationRead(tuple(slip.code for slip in some), differing, read[0], factors)


def slips(enc: Encoding, settings: Mapping[str, Any], hints: Hints) -> Iterator[Slip]:
    """Single changes of the settings of a rotation, the most usual first."""
    known = hints.settings
    model = open_model(enc.spec) if "model_type" in enc.params else None
    for rho in dict.fromkeys((*class_bases(enc, model), 1e4)):
        yield Slip("base-default", {"rho": rho})
    implied = [] if hints.stated else list(implied_bases(settings, model))
    if known.get("rho"):
        yield from (slip for slip in implied if not is_round(slip.changes["rho"]))
        yield Slip("base", {"rho": known["rho"]})
    longest = model and model.longest()
    yield from scaling_slips(settings, known, longest)
    yield from implied
    if settings["scaling"] == "none" and not hints.stated:
        yield from added_scalings(longest)
    d, partial = settings["d"], settings["partial"]
    if partial != 1:
        yield Slip("partial-ignored", {"partial": 1.0})
    if hints.pairs is not None and 2 * hints.pairs < d:
        yield Slip("partial", {"partial": 2 * hints.pairs / d})
    sizes = [] if model is None else [split_width(model)]
    sizes += [known.get("d"), hints.pairs and round(2 * hints.pairs / partial), *HEADS]
    for size in dict.fromkeys(filter(None, sizes)):
        yield Slip("head-size", {"d": size})


def implied_bases(settings: Mapping[str, Any], model: ModelConfig | None) -> Iterator[Slip]:
    """Slips that make a geometric grid another one, as another base would."""
    d, rho = settings["d"], settings["rho"]
    r = int(d * settings["partial"])
    width = model and model.config.count(*WIDTH)
    sizes = (2 * d, d // 2, *HEADS, width) if r == d else ()
    for size in dict.fromkeys(size for size in sizes if size not in (0, d, None)):
        yield Slip("divisor", {"rho": rho ** (d / size)}, {"d": (d, size)})
    if settings["scaling"] == "none" and r > 2:
        for factor in map(float, FACTORS):
            told = {"scaling": ("none", "ntk"), "factor": (None, factor)}
            yield Slip("scaling-added", {"rho": rho * factor ** (r / (r - 2))}, told)


def is_round(rho: float) -> bool:
    """Whether a base has few digits, as those that people choose: it is one then.

    >>> is_round(1e6 ** (64 / 128)), is_round(5e5 ** (64 / 128))
    (True, False)
    """
    return abs(rho - float(f"{rho:.3g}")) <= 1e-6 * rho


def added_scalings(longest: int | None) -> Iterator[Slip]:
    """Scalings that an engine may apply of itself; ntk is among the `implied_bases`."""
    for factor in map(float, FACTORS):
        yield Slip("scaling-added", {"scaling": "linear", "factor": factor})
    for original in dict.fromkeys(filter(None, (longest, *LENGTHS))):
        for scaling in ("yarn", "llama3"):
            for factor in map(float, FACTORS):
                changes = {"scaling": scaling, "factor": factor, "original": original}
                yield Slip("scaling-added", changes)


def class_bases(enc: Encoding, model: ModelConfig | None) -> Iterator[float]:
    """The base that the model type of a config has by default."""
    if model is not None and model.row.get("kind") == "rotary":
        layers = model.row.get("layers", {})
        part = enc.spec.rpartition("#")[2].rpartition(".")[2]
        yield rotary(model.row, part if part in layers else next(iter(layers), "")).base


def split_width(model: ModelConfig) -> int | None:
    """The width of a model over its heads."""
    width, heads = model.config.count(*WIDTH), model.config.count(*HEAD_COUNTS)
    return width // heads if width and heads else None


def scaling_slips(
    settings: Mapping[str, Any], known: Mapping[str, Any], longest: int | None
) -> Iterator[Slip]:
    """Changes of the scaling of a rotation."""
    scaling, factor = settings["scaling"], settings.get("factor")
    if scaling not in ("none", "proportional"):
        yield Slip("scaling-ignored", {"scaling": "none"})
    if "truncate" in settings:
        yield Slip("truncate", {"truncate": not settings["truncate"]})
    if "short_factor" in settings:
        swapped = {"short_factor": "long_factor", "long_factor": "short_factor"}
        yield Slip("factor-list", {key: settings[other] for key, other in swapped.items()})
    if original := settings.get("original"):
        lengths = [known.get("original"), longest, int(original * factor), int(original / factor)]
        for length in dict.fromkeys(filter(None, (*lengths, *LENGTHS))):
            yield Slip("original-length", {"original": length})
    if factor:
        ratio = longest / original if longest and original else None
        for other in dict.fromkeys(filter(None, (known.get("factor"), ratio, *FACTORS))):
            yield Slip("factor", {"factor": float(other)})
        for other in ("linear", "ntk", "yarn", "llama3", "dynamic"):
            yield Slip("scaling-type", {"scaling": other})
    ramp = {key: known[key] for key in RAMP if key in settings and key in known}
    if ramp:
        yield Slip("ramp", ramp)
    else:
        limits = [[(key, limit) for limit in RAMP[key]] for key in RAMP if key in settings]
        yield from (Slip("ramp", dict([one])) for own in limits for one in own)
        yield from (Slip("ramp", dict(both)) for both in product(*limits) if len(both) > 1)


def spread_over_head(settings: Mapping[str, Any], factor: float) -> Iterator[RotationRead]:
    """The first frequencies of the grid of the whole head, where a share of it turns."""
    d, partial = settings["d"], settings["partial"]
    if partial < 1 and settings["scaling"] == "none":
        grid = Head(d, settings["rho"], 1.0, 1).grid()[: int(d * partial) // 2]
        yield RotationRead(("partial-grid",), {}, grid, (factor,))


def layers_read(enc: Encoding) -> Iterator[RotationRead]:
    """The rotations of the other types of layers of the same config."""
    if "model_type" not in enc.params:
        return
    path, _, part = enc.spec.partition("#")
    for other in dict.fromkeys(run.part for run in read_layers(path, "")):
        if other and part.rpartition(".")[2] != other:
            read = load(f"{path}#{other}", len(enc))
            factor = read.params["attention_factor"]
            layer = {"layer": (part, other)}
            yield RotationRead(("other-layers",), layer, read.measure.frequencies, (factor,))


def factors_read(enc: Encoding) -> dict[float, str]:
    """Factors before the waves that a slip may make of a scaling's keys, each with its words."""
    params = enc.params
    factor = params.get("factor") or 1.0
    stretch = 0.1 * log(factor) if factor > 1 else 0.0
    found = {1.0: "none", 1 + stretch: "0.1 ln factor + 1"}
    for key in ("mscale", "mscale_all_dim"):
        if params.get(key):
            found[1 + params[key] * stretch] = f"0.1 {key} ln factor + 1"
    own = params["attention_factor"]
    return found | {own * own: "its square"}


def coarse_readings(read: RotationRead) -> Iterator[RotationRead]:
    """A reading, and with its frequencies rounded to formats of 16 bits."""
    yield read
    for name in ("bfloat16", "float16"):
        codes = (*read.codes, f"{name}-frequencies")
        yield replace(read, codes=codes, frequencies=rounded(read.frequencies, FORMATS[name]))
