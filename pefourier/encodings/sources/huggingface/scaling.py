"""Read the scaling of a config's rotation, and find mistakes in it.

Conventions
-----------
Keys, defaults and their precedence are those of transformers 5.23; a config that it cannot compute
is refused. Each rule in `RULES` yields findings about a `ConfigCase`; findings.toml explains them.
A warning reports a mistake, or two settings that contradict each other. A note reports what readers
other than transformers 5 may read differently. Each finding states what to write; ``context
--against`` shows the effect of another reading. No published config that transformers loads has a
warning.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from pefourier.encodings.checks import is_number
from pefourier.encodings.encoding import Encoding, Finding
from pefourier.encodings.families.rotary import logits_gain, scaling_parameters
from pefourier.encodings.findings import finding
from pefourier.encodings.sources.huggingface.config import (
    LONGEST,
    ORIGINAL,
    WIDTH,
    ModelConfig,
    ModelRow,
    Rotary,
    family_of,
)
from pefourier.encodings.sources.json_object import HEADS, Section
from pefourier.errors import PefourierError, shown, unknown
from pefourier.types import Fields, Ints, Values

ROTATED_SIZE = "qk_rope_head_dim"
USUAL_HEADS = {32, 48, 64, 80, 96, 100, 112, 120, 128, 192, 256, 512}
LONG = 4  # ratio to the trained length from which a context needs scaling
DIFFERENCES = 4  # largest number of differences in a finding
ALIASES = {"default": "none", "mrope": "none", "su": "longrope"}

TYPES = ALIASES | {
    name: name for name in ("linear", "dynamic", "yarn", "longrope", "llama3", "proportional")
}
REQUIRED = {
    "linear": ("factor",),
    "dynamic": ("factor",),
    "yarn": ("factor",),
    "longrope": ("short_factor", "long_factor"),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
}
TUNED = {  # key of the scale of a temperature in the rope section, by model type
    "ministral3": "llama_4_scaling_beta",
    "mistral4": "llama_4_scaling_beta",
}
COMMON = {"rope_type", "type", "rope_theta", "partial_rotary_factor"}
CLIPPED = ("use_cope", "use_hardclip")  # clipped RoPE, arXiv 2602.05258
SEEN = 300  # largest number of keys that are compared with known keys
NAMED = 5  # largest number of keys with findings


def softmax_factor(
    model: ModelConfig, section: Section, scaling: str, scaled: Values
) -> dict[str, float]:
    """Return the factor of logits in some model types: (0.1 mscale_all_dim ln factor + 1)^2."""
    if not model.row.get("softmax") or scaling == "none":
        return {}
    mscale, factor = section.number("mscale_all_dim"), scaled.get("factor") or 1.0
    if not mscale or factor <= 1:
        return {}
    return {"softmax_factor": logits_gain(mscale, factor, section.label)}


def section_of_params(config: Section) -> Section:
    """Return the scaling of a params.json: Mistral's ``yarn``, or Meta's ``use_scaled_rope``."""
    yarn = config.section("yarn")
    if yarn.values:
        values = {YARN_OF_PARAMS.get(key, key): value for key, value in yarn.values.items()}
        unscaled = yarn.parameter("apply_scale", bool) is False
        values |= {"attention_factor": 1.0} if unscaled else {}
        values.pop("apply_scale", None)
        return replace(yarn, values={"rope_type": "yarn", **values})
    if config.parameter("use_scaled_rope", bool):
        factor = config.number("rope_scaling_factor") or SCALED_ROPE["factor"]
        return Section(f"use_scaled_rope of {config.label}", {**SCALED_ROPE, "factor": factor})
    return yarn


YARN_OF_PARAMS = {"factor": "factor", ORIGINAL: ORIGINAL, "beta": "beta_fast", "alpha": "beta_slow"}
SCALED_ROPE = {  # the scaling of llama-models if use_scaled_rope is true
    **{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    ORIGINAL: 8192,
}


def read_scaling(
    model: ModelConfig, section: Section, *, layered: bool
) -> tuple[str, Fields, set[str]]:
    """Return the scaling of a section, its parameters for `rope`, and the keys that it may have."""
    if model.kind == "qwen":
        return *steps_of_qwen(model), set()
    kind = type_of_scaling(model, section)
    if kind == "dynamic" and model.row.get("alpha") and section.number("alpha"):
        return "ntk", {"factor": section.number("alpha")}, set()
    scaling = TYPES[kind]
    kinds = {key: parameter.annotation for key, parameter in scaling_parameters(scaling).items()}
    needs_original = kinds.pop("original", None) is not None
    allowed = COMMON | kinds.keys()
    allowed |= {ORIGINAL} if needs_original and kind != "dynamic" else set()
    allowed |= {TUNED[model.kind], LONGEST[0]} if model.kind in TUNED else set()
    for key in REQUIRED.get(scaling, ()):
        implied = scaling == "yarn" and key in section.values  # null: the ratio of the lengths
        if section.values.get(key) is None and not implied:
            raise PefourierError(f"{section.label} has no {key}; rope_type {kind} needs it")
    if layered:
        kinds.pop("truncate", None)  # ignored in sections by layer
    settings = {key: section.parameter(key, annotation) for key, annotation in kinds.items()}
    if settings.get("attention_factor") == 0:  # `rope` reads 0 as not set
        raise section.wrong("attention_factor", 0, "a number above 0, or null for the formula")
    if needs_original:
        settings["original"] = find_original_length(model, section, kind, layered=layered)
        longest = model.longest() or settings["original"]
        if settings["factor"] is None and scaling in ("yarn", "longrope"):
            settings["factor"] = longest / settings["original"]
    return scaling, settings, allowed


def steps_of_qwen(model: ModelConfig) -> tuple[str, Fields]:
    """Return the scaling of Qwen's first generation: its NTK factor doubles with the length.

    Up to the trained length n the factor is 1, up to 2 n it is 3, then 7, 15, ….
    """
    trained, length = model.config.count("seq_length"), model.length or model.longest() or 0
    if not model.config.values.get("use_dynamic_ntk", True) or not trained or length <= trained:
        return "none", {}
    return "ntk", {"factor": float(2 ** (((length - 1) // trained).bit_length() + 1) - 1)}


def read_clipping(config: Section, scaling: str) -> str:
    """Return the scaling, or ``clip`` if a config sets it; hard clipping is refused."""
    flags = [key for key in CLIPPED if config.parameter(key, bool)]
    if flags and (flags != ["use_cope"] or scaling != "none"):
        set_together = f"{' and '.join(flags)} with scaling {scaling}"
        raise config.wrong(
            "use_cope", set_together, "alone, without scaling; or give rope:inv_freq=FILE"
        )
    return "clip" if flags else scaling


def type_of_scaling(model: ModelConfig, section: Section) -> str:
    """Return the rope_type of a section in the words of transformers."""
    _, kind = section.first("rope_type", "type")
    kind = "default" if kind is None else kind
    if not isinstance(kind, str):
        raise section.wrong("rope_type", kind, "a string")
    if kind == "axial":
        raise PefourierError(f"rope_type of {section.label} is axial (several axes), not supported")
    kind = model.row.get("renamed", {}).get(kind, kind)
    kind = kind if kind in TYPES else known_scaling(kind) or kind
    if kind not in TYPES:
        raise unknown(f"rope_type of {section.label}", kind, TYPES)
    if TYPES[kind] != "none" and "unscaled" in model.row:
        why = f"{shown(model.kind)} {model.row['unscaled']}; give rope:inv_freq=FILE"
        raise PefourierError(f"rope_type {kind} of {section.label} is not supported: {why}")
    return kind


def known_scaling(name: str) -> str | None:
    """Return the scaling among the words of a vendor's name, if there is exactly one.

    >>> known_scaling("telechat3-yarn"), known_scaling("dynamic_yarn")
    ('yarn', None)
    """
    words = {word for word in re.split("[^a-z0-9]+", name.lower()) if TYPES.get(word) == word}
    return words.pop() if len(words) == 1 else None


def warn_of_keys(section: Section, unused: list[str], allowed: set[str]) -> list[Finding]:
    """Return warnings for the first keys that the type of scaling does not use."""
    findings = []
    kind = section.first("rope_type", "type")[1] or "default"
    if kind not in TYPES and (scaling := known_scaling(kind)):
        details = {"kind": shown(kind), "section": section.label, "known": scaling}
        findings.append(finding("rope-vendor-type", **details))
    for key in unused[:NAMED]:
        similar = get_close_matches(key[:80], sorted(allowed), n=1)
        way_out = f"did you mean {similar[0]}?" if similar else "leave it out"
        if key == ORIGINAL:
            way_out = "leave it out, unless it is the trained length, which it then sets"
        details = {"key": shown(key), "section": section.label, "type": kind, "way": way_out}
        findings.append(finding("unread-key", "scaling", **details))
    return findings


def find_original_length(model: ModelConfig, section: Section, kind: str, *, layered: bool) -> int:
    """Return the trained context length, which transformers reads from three places."""
    usual = None if layered else model.row.get("original")
    stated = None if kind == "dynamic" else stated_original(model, section, usual, layered=layered)
    length = stated or model.longest()
    if length is None:
        raise PefourierError(f"rope_type {kind} of {section.label} needs max_position_embeddings")
    return length


def stated_original(
    model: ModelConfig, section: Section, usual: int | None = None, *, layered: bool
) -> int | None:
    """Return the trained length from the config (default `usual`) or from its scaling section."""
    outer = None if layered else model.config.count(ORIGINAL) or usual
    return outer or section.count(ORIGINAL)


def original_of_linear(longest: int | None, factor: float, lengths: Ints = ()) -> int | None:
    """Return the length before a linear scaling, if the longest length has only one reading.

    In some configs the longest sequence is the length after scaling (LLaMA-2-7B-32K), in others the
    length before, following earlier documentation of transformers (Vicuna 16k). The trained
    `lengths` of the family decide, or a factor that leaves fewer than two positions.

    >>> original_of_linear(4096, 4.0, [2048, 4096]), original_of_linear(32768, 8.0, [2048, 4096])
    (4096, 4096)
    >>> original_of_linear(128, 1000.0), original_of_linear(16384, 4.0)
    (128, None)
    """
    readings = {longest, longest / factor} & set(lengths) if longest else set()
    readings |= {longest} if longest and longest < 2 * factor else set()
    return int(readings.pop()) if len(readings) == 1 else None


def trained_as_stated(params: Values) -> int | None:
    """Return the trained length from a rotation's config or scaling; None if not set."""
    return params.get("trained") or params.get("original")


@dataclass(frozen=True, eq=False)
class ConfigCase:
    """A rotation of a config, with the sections that it was read from."""

    model: ModelConfig
    layer: str  # type of layer; empty if there is one rotation for all
    section: Section
    type_keys: Rotary
    enc: Encoding

    @property
    def values(self) -> Values:
        """Return the values of the config file."""
        return self.model.config.values

    @property
    def params(self) -> Values:
        """Return the settings of the rotation."""
        return self.enc.params

    @property
    def published(self) -> Values:
        """Return the training setup of published models of this type with this base."""
        return family_of(self.model.row, self.params["rho"], self.layer)

    def says(self, code: str, variant: str = "", **values: Any) -> Finding:
        """Return a finding about the rotation, with facts about its source for the message."""
        facts = {
            "config": self.model.config.label,
            "section": self.section.label,
            "kind": shown(self.model.kind),
            "params": self.params,
            "known": self.published,
            "turns": self.type_keys,
            "original": ORIGINAL,
        }
        return finding(code, variant, **{**facts, **values})


def inferred_original(case: ConfigCase, *, is_lost: bool) -> int | None:
    """Return the trained length of a linear or a lost scaling, inferred from the model family."""
    if is_lost:
        return case.published.get("trained")
    if case.params["scaling"] not in ("linear", "proportional"):
        return None
    lengths = case.published.get("lengths", ())
    return original_of_linear(case.model.longest(), case.params["factor"], lengths)


def lint(case: ConfigCase) -> Iterator[Finding]:
    """Yield the findings of each rule, in the order of `RULES`."""
    return (finding for rule in RULES for finding in rule(case))


def new_keys(case: ConfigCase) -> Iterator[Finding]:
    """Report base and scaling under keys that only transformers 5 reads."""
    values, new = case.values, case.values.get("rope_parameters")
    old = ("rope_scaling", "rope_theta", *case.type_keys.bases)
    is_new = case.model.row.get("since") == 5  # unknown to older readers
    if is_new or not isinstance(new, dict) or any(values.get(key) is not None for key in old):
        return
    base, scaled = case.params["rho"], case.params["scaling"] != "none"
    if (base == case.type_keys.base and not scaled) or case.section.values.get(
        "rope_theta"
    ) is None:
        return
    major = str(values.get("transformers_version", "")).partition(".")[0]
    older = major.isdigit() and int(major) < 5
    scaling = f" and scaling {case.params['scaling']}" if scaled else ""
    yield case.says("rope-new-keys", "older" if older else "newer", scaling=scaling)


def scaling_lost(case: ConfigCase) -> Iterator[Finding]:
    """Report a long context without scaling."""
    if case.params["scaling"] != "none":
        return
    longest, original = (case.model.config.count(*k) or 0 for k in (LONGEST, [ORIGINAL]))
    family = lost_family(case.model.row, case.params, longest, case.layer)
    if original and longest >= LONG * original:
        yield case.says("rope-scaling-lost", "told", longest=longest, before=original)
    elif family and "factor" not in case.section.values:
        yield family_lost(case.model.config.label, longest, family)


def lost_family(row: ModelRow, params: Values, longest: int, layer: str = "") -> Values:
    """Return the published models with a rotation's base if it lacks their scaling, or empty."""
    family = family_of(row, params["rho"], layer)
    lacks = params["scaling"] == "none" and "scaling" in family and longest >= family["from"]
    return family if lacks else {}


def family_lost(label: str, longest: int, family: Values) -> Finding:
    """Return the finding that a file lacks the scaling of published models with its base."""
    words = ", ".join(f"{key}={value}" for key, value in family["scaling"].items())
    slots = {"config": label, "longest": longest, "known": family, "words": words}
    return finding("rope-scaling-lost", "family", **slots)


def two_spellings(case: ConfigCase) -> Iterator[Finding]:
    """Report rope_scaling and rope_parameters that differ; transformers uses rope_scaling."""
    old, new = (case.values.get(key) for key in ("rope_scaling", "rope_parameters"))
    if not (isinstance(old, dict) and isinstance(new, dict) and old and new):
        return
    first, second = (spelled_out(section, case) for section in (old, new))
    unlike = [key for key in [*first, *second] if first.get(key) != second.get(key)]
    if unlike and "rope_scaling" not in case.model.row.get("unread", ()):
        differences = ", ".join(
            f"{key} {shown(first.get(key))} and {shown(second.get(key))}"
            for key in [*dict.fromkeys(unlike)][:DIFFERENCES]
        )
        yield case.says("rope-spellings", said=differences, taken="rope_scaling")


def spelled_out(section: Values, case: ConfigCase) -> Fields:
    """Return the settings of a section and the base above it, with names of transformers 5."""
    kind = section.get("rope_type", section.get("type", "default"))
    base = case.values.get("rope_theta")
    above = {} if base is None else {"rope_theta": base}
    settings = {key: value for key, value in section.items() if key != "type"}
    return {"rope_type": kind, **above, **settings} | {"rope_type": kind}


def two_types(case: ConfigCase) -> Iterator[Finding]:
    """Report type and rope_type that differ, or a factor without a type."""
    values = case.section.values
    kinds = [values.get(key) for key in ("rope_type", "type")]
    names: dict[Any, Any] = ALIASES | case.model.row.get("renamed", {})
    if "type" in case.model.row.get("unread", ()):
        return
    if all(isinstance(kind, str) for kind in kinds):
        if len({names.get(kind, kind) for kind in kinds}) == 2:
            yield case.says("rope-two-types", one=shown(kinds[0]), other=shown(kinds[1]))
    elif kinds == [None, None] and is_number(values.get("factor")):
        if not any("did you mean rope_type" in f.message for f in case.enc.findings):
            yield case.says("rope-no-type", factor=values["factor"])


def lengths(case: ConfigCase) -> Iterator[Finding]:
    """Report lengths before and after scaling that contradict the factor."""
    params, longest = case.params, case.model.longest()
    before, factor = params.get("original") or params.get("trained"), params.get("factor")
    if not before or not longest:
        return
    scaling, ratio = params["scaling"], longest / before
    if scaling in ("yarn", "linear") and ratio not in (factor, 1.0):
        yield case.says("rope-lengths", scaling, longest=longest, before=before, ratio=ratio)
    if scaling == "llama3" and ratio <= 1:
        yield case.says("rope-original", longest=longest)


def length_of_training(case: ConfigCase) -> Iterator[Finding]:
    """Report a trained length that is missing, or that differs from the model family."""
    scaling, before = case.params["scaling"], case.params.get("original")
    if scaling not in ("yarn", "llama3", "longrope") or not before:
        return
    settings = (case.section.values, case.values, {ORIGINAL: case.model.row.get("original")})
    trained, longest = case.published.get("trained"), case.model.longest() or 0
    if not any(values.get(ORIGINAL) for values in settings):
        yield case.says("rope-original-missing")
    elif trained and before != trained and not (scaling == "llama3" and before >= longest):
        yield case.says("rope-original-unusual")


def size_of_head(case: ConfigCase) -> Iterator[Finding]:
    """Report an unusual size of a head that is derived as hidden size / heads."""
    config, type_keys, head = case.model.config, case.type_keys, case.params["d"]
    stated = any(case.values.get(key) is not None for key in type_keys.size)
    if stated or type_keys.head is not None or not type_keys.size or case.model.d is not None:
        return
    width, heads = (
        config.count(*type_keys.width[0], *WIDTH),
        config.count(*type_keys.heads[0], *HEADS),
    )
    if width and heads and (width % heads or (head not in USUAL_HEADS and head > 32)):
        variant = "split" if width % heads else "unusual"
        yield case.says("rope-head-guessed", variant, width=width, heads=heads)


def two_heads(case: ConfigCase) -> Iterator[Finding]:
    """Report qk_rope_head_dim, as in DeepSeek, in a config with a different head_dim."""
    rotated, size = (case.values.get(key) for key in (ROTATED_SIZE, "head_dim"))
    is_guessed = any(f.code == "model-type-unknown" for f in case.enc.findings)
    if is_guessed and is_number(rotated) and is_number(size) and rotated != size:
        yield case.says("rope-two-heads", key=ROTATED_SIZE, turned=rotated, size=size)


def sections(case: ConfigCase) -> Iterator[Finding]:
    """Report sections of M-RoPE that do not sum to the number of rotary pairs."""
    numbers = case.section.values.get("mrope_section", case.model.row.get("sections"))
    pairs = case.params["rotated"] // 2
    numbers = numbers if isinstance(numbers, list | tuple) else ()
    if numbers and all(isinstance(n, int) for n in numbers) and sum(numbers) != pairs:
        yield case.says("rope-sections", numbers=numbers, sum=sum(numbers), pairs=pairs)


def default_base(case: ConfigCase) -> Iterator[Finding]:
    """Report a base that the config leaves to its model type."""
    keys = ("rope_theta", "rotary_emb_base", *case.type_keys.bases)
    places = (case.section.values, case.values)
    if not case.layer and all(values.get(key) is None for key in keys for values in places):
        rho, longest = case.params["rho"], case.model.config.count(*LONGEST) or 0
        bases = {
            family["base"]: max(family.get("ended", 0), *family.get("lengths", (0,)), 0)
            for family in case.model.row.get("families", ())
        }
        stated = [base for base, reach in bases.items() if reach >= longest and base != rho]
        if stated and bases.get(rho, 0) < longest:
            yield case.says("rope-theta-default", "family", longest=longest, base=stated[0])
            return
        yield case.says("rope-theta-default", "usual" if rho == 1e4 else "other")


def without_section(case: ConfigCase) -> Iterator[Finding]:
    """Report a type of layer without a section among the sections by layer."""
    sections = case.values.get("rope_parameters")
    names = sections if isinstance(sections, dict) else {}
    by_layer = any(isinstance(row, dict) for row in names.values())
    if case.layer and by_layer and case.layer not in names:
        yield case.says("rope-no-section", layer=shown(case.layer))


def mscale_pairs(case: ConfigCase) -> Iterator[Finding]:
    """Report mscale or mscale_all_dim without the other factor."""
    pair = ("mscale", "mscale_all_dim")
    has = [key for key in pair if case.section.values.get(key)]
    is_read = case.params["scaling"] == "yarn" and "attention_factor" not in case.section.values
    if is_read and len(has) == 1:
        yield case.says("rope-mscale", has=has[0], lacks=pair[1 - pair.index(has[0])])


RULES = (
    new_keys,
    scaling_lost,
    two_spellings,
    two_types,
    lengths,
    length_of_training,
    size_of_head,
    two_heads,
    sections,
    default_base,
    without_section,
    mscale_pairs,
)
