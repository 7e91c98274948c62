"""How does a model config rotate? ``rope_parameters``, the old ``rope_scaling``, keys around it.

Conventions
-----------
Keys, defaults and their precedence are those of transformers 5.23. What its code cannot compute or
raises on is refused; what it warns of is a finding of the encoding, under a code that begins with
``rope-``.
"""

from dataclasses import replace
from difflib import get_close_matches
from math import nextafter
from typing import Any

from pefourier.encodings.encoding import Encoding, Finding
from pefourier.encodings.families.rotary import scaling_parameters
from pefourier.encodings.sources.config import (
    HEADS,
    LONGEST,
    WIDTH,
    ModelConfig,
    Section,
    first_names,
)
from pefourier.errors import PefourierError, shown, unknown

TYPES = {"default": "none", "mrope": "none", "su": "longrope"} | {
    name: name for name in ("linear", "dynamic", "yarn", "longrope", "llama3", "proportional")
}
REQUIRED = {
    "linear": ("factor",),
    "dynamic": ("factor",),
    "yarn": ("factor",),
    "longrope": ("short_factor", "long_factor"),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
}
ORIGINAL = "original_max_position_embeddings"
COMMON = {"rope_type", "type", "rope_theta", "partial_rotary_factor"}
IGNORED = {"mrope_section", "mrope_interleaved"}
LAYERED = {  # base of full and of sliding attention
    "gemma3_text": (1e6, 1e4),
    "gemma3n_text": (1e6, 1e4),
    "modernbert": (160000.0, 1e4),
}
ROTARY = {"llama", "mistral", "falcon", "gptj", "codegen", "roformer", "phi3", "qwen2", "esmc"}
PARTIAL = {"gpt_neox": 0.25, "stablelm": 0.25, "qwen3_next": 0.25} | dict.fromkeys(
    ("phi", "persimmon", "glm", "glm4", "glm4_moe", "nemotron", "recurrent_gemma"), 0.5
)
HEAD_DIM = dict.fromkeys(("gemma", "gemma2", "gemma3_text", "gemma3n_text"), 256)
INTERLEAVED = {"gptj", "codegen", "cohere", "cohere2", "glm", "glm4", "roformer", "llama4_text"}
INTERLEAVED |= {"deepseek_v2", "deepseek_v3"}
LOCAL_THETA, GLOBAL_THETA = ("rope_local_base_freq", "local_rope_theta"), "global_rope_theta"
THETA = ("rope_theta", "rotary_emb_base")
SHARE = ("partial_rotary_factor", "rotary_pct")
EVIDENCE = {"rope_parameters", "rope_scaling", "rotary_dim", *THETA, *SHARE, GLOBAL_THETA}


def read_rotation(model: ModelConfig) -> Encoding | None:
    """Rotary positions, by the new ``rope_parameters`` or the old ``rope_scaling``."""
    config, kind = model.config, model.kind
    given = any(config.values.get(key) is not None for key in EVIDENCE)
    rotary = given or kind in ROTARY | LAYERED.keys() | PARTIAL.keys()
    way = config.values.get("position_embedding_type", "rotary" if rotary else None)
    if way not in ("rotary", "rope"):
        return None
    layer, section = choose_layer(model, layer_sections(config, kind))
    keys = ("global_head_dim",) if layer == "full_attention" else ()
    width, heads = config.count(*WIDTH), config.count(*HEADS)
    head = config.count("qk_rope_head_dim", *keys, "head_dim") or HEAD_DIM.get(kind)
    if head is None and width and heads:
        head = max(width // heads, 1)
    d = model.dimension(head, "head_dim")
    theta, doubts = reconcile(section, config, THETA)
    partial, more = reconcile(section, config, SHARE)
    found = misspelt_keys(config) if layer else [*misspelt_keys(config), *doubts, *more]
    if theta is None:
        message = f"{config.label} sets no rope_theta; 10000 is taken, as most models do"
        found.append(Finding("rope-theta-default", "note", message))
    turned = config.count("rotary_dim")
    if partial is None and turned:
        partial = 1.0 if turned == d else nextafter(turned / d, 2.0)  # so that int(d partial) is it
    layout = "interleaved" if kind in INTERLEAVED else "halves"
    own = {
        "rho": 10000.0 if theta is None else theta,
        "partial": PARTIAL.get(kind, 1.0) if partial is None else partial,
        "layout": layout,
    }
    scaling, scaled, warned = read_scaling(model, section, bool(layer))
    return model.build("rope", d, *found, *warned, scaling=scaling, **own, **scaled)


def layer_sections(config: Section, kind: str) -> dict[str, Section]:
    """The rotation of each type of layer, or of all under the empty name."""
    key = "rope_scaling" if config.values.get("rope_scaling") else "rope_parameters"
    given = config.section(key)
    if any(isinstance(value, dict) for value in given.values.values()):
        names = [name for name, value in given.values.items() if isinstance(value, dict)]
        return {name: given.section(name) for name in names}
    local = config.number(*LOCAL_THETA)
    if kind not in LAYERED and local is None:
        return {"": given}
    full, sliding = LAYERED.get(kind, (None, None))
    full = config.number(GLOBAL_THETA, "rope_theta") or full
    both = given.values if kind == "modernbert" else {}
    return {
        "full_attention": replace(given, values={"rope_theta": full, **given.values}),
        "sliding_attention": replace(given, values={"rope_theta": local or sliding, **both}),
    }


def choose_layer(model: ModelConfig, sections: dict[str, Section]) -> tuple[str, Section]:
    """The type of layer that is named, or any where all turn alike."""
    if model.part and "" in sections:
        raise PefourierError(
            f"{shown(model.file)} has one rotation for all layers; "
            f"leave out {shown('#' + model.part)}"
        )
    if model.part:
        if model.part not in sections:
            raise unknown(f"type of layer of {shown(model.file)}", model.part, sections)
        return model.part, sections[model.part]
    name, section = next(iter(sections.items()))
    if any(other.values != section.values for other in sections.values()):
        raise PefourierError(
            f"{shown(model.file)} rotates by type of layer: {first_names(sections)}; "
            f"name one, {shown(model.file + '#' + name)}"
        )
    return name, section


def reconcile(
    section: Section, config: Section, keys: tuple[str, ...]
) -> tuple[Any, list[Finding]]:
    """A number given in a section or above it; the section wins, and a contradiction is noted."""
    inner, outer = section.number(*keys), config.number(*keys)
    if inner is None or outer is None or inner == outer:
        return (outer if inner is None else inner), []
    message = (
        f"{keys[0]}={inner:g} of {section.label} contradicts {outer:g} above it; the first is used"
    )
    return inner, [Finding("rope-contradiction", "warning", message)]


def read_scaling(
    model: ModelConfig, section: Section, layered: bool
) -> tuple[str, dict[str, Any], list[Finding]]:
    """The scaling of a section, its parameters for `rope`, and what transformers warns of."""
    _, kind = section.first("rope_type", "type")
    kind = "default" if kind is None else kind
    if not isinstance(kind, str):
        raise section.wrong("rope_type", kind, "a string")
    if kind not in TYPES:
        raise unknown(f"rope_type of {section.label}", kind, TYPES)
    scaling = TYPES[kind]
    kinds = {key: parameter.annotation for key, parameter in scaling_parameters(scaling).items()}
    needs_original = kinds.pop("original", None) is not None
    named = COMMON | kinds.keys() | ({ORIGINAL} if needs_original and kind != "dynamic" else set())
    found = unused_keys(section, kind, named)
    for key in REQUIRED.get(scaling, ()):
        implied = scaling == "yarn" and key in section.values  # null: the ratio of the lengths
        if section.values.get(key) is None and not implied:
            raise PefourierError(
                f"{section.label} has no {key}, which rope_type {kind} needs; add it"
            )
    own = {key: section.parameter(key, annotation) for key, annotation in kinds.items()}
    if needs_original:
        own["original"] = find_original_length(model, section, kind, layered)
        longest = model.config.count(*LONGEST) or own["original"]
        if own["factor"] is None and scaling in ("yarn", "longrope"):
            own["factor"] = longest / own["original"]
        found += check_lengths(section, scaling, own, longest)
    return scaling, own, found


def misspelt_keys(config: Section) -> list[Finding]:
    """A warning for each key that is nearly one of those that set a rotation."""
    near = {
        key: get_close_matches(key, sorted(EVIDENCE - config.values.keys()), n=1, cutoff=0.85)
        for key in config.values.keys() - EVIDENCE
    }
    return [
        Finding(
            "rope-unknown-key",
            "warning",
            f"{shown(key)} of {config.label} is no key of a rotation; did you mean {names[0]}?",
        )
        for key, names in sorted(near.items())
        if names
    ]


def unused_keys(section: Section, kind: str, named: set[str]) -> list[Finding]:
    """A warning for each key that the type of scaling has no use for."""
    found = []
    for key in section.values.keys() - named - IGNORED:
        near = get_close_matches(key, sorted(named), n=1)
        way_out = f"did you mean {near[0]}?" if near else "leave it out"
        message = f"{shown(key)} of {section.label} is not used by rope_type {kind}; {way_out}"
        found.append(Finding("rope-unknown-key", "warning", message))
        if near == ["rope_type"] and "type" not in section.values:
            return found[-1:]  # with the type unknown, nothing can be said of the others
    return sorted(found, key=lambda finding: finding.message)


def find_original_length(model: ModelConfig, section: Section, kind: str, layered: bool) -> int:
    """The context length of training, which transformers looks for in three places."""
    config = model.config
    outer = None if layered else config.count(ORIGINAL)
    own = None if kind == "dynamic" else outer or section.count(ORIGINAL)
    found = own or config.count(*LONGEST)
    if found is None:
        raise PefourierError(
            f"{section.label} has no {ORIGINAL} and {shown(model.file)} no "
            f"max_position_embeddings; rope_type {kind} needs one of them"
        )
    return found


def check_lengths(
    section: Section, scaling: str, own: dict[str, Any], longest: int
) -> list[Finding]:
    """A warning where the lengths before and after scaling do not go with the factor."""
    before, factor = own["original"], own["factor"]
    if scaling == "yarn" and longest / before not in (factor, 1.0):
        message = (
            f"factor={factor:g} of {section.label} is not max_position_embeddings / {ORIGINAL} = "
            f"{longest} / {before} = {longest / before:g}; the factor is used"
        )
        return [Finding("rope-contradiction", "warning", message)]
    if scaling == "llama3" and before >= longest:
        message = (
            f"{ORIGINAL}={before} of {section.label} should be below "
            f"max_position_embeddings={longest}; correct one of them"
        )
        return [Finding("rope-original", "warning", message)]
    return []
