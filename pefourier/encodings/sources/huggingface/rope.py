"""Read a config's rotation: ``rope_parameters``, the old ``rope_scaling``, keys around them.

Conventions
-----------
Keys, defaults and their precedence are those of transformers 5.23. A config that transformers
cannot compute or refuses is refused here. Its warnings become findings of the encoding, with codes
that begin with ``rope-``.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Literal

from pefourier.encodings.columns import axes_of_sections, describe_axes
from pefourier.encodings.encoding import Encoding, Finding
from pefourier.encodings.families.rotary import rotated_share, scaling_parameters
from pefourier.encodings.findings import finding
from pefourier.encodings.registry import build
from pefourier.encodings.sources.huggingface.config import (
    PARAMS,
    WIDTH,
    ModelConfig,
    Rotary,
    first_names,
    rotary,
    type_row,
)
from pefourier.encodings.sources.huggingface.layers import (
    layers_without_positions,
    rotates_by_type,
)
from pefourier.encodings.sources.huggingface.scaling import (
    SEEN,
    ConfigCase,
    inferred_original,
    lint,
    read_clipping,
    read_scaling,
    section_of_params,
    softmax_factor,
    stated_original,
    trained_as_stated,
    warn_of_keys,
)
from pefourier.encodings.sources.json_object import HEADS, LAYERS, Section
from pefourier.errors import PefourierError, shown, unknown
from pefourier.types import Counts, Fields, Texts
from pefourier.writing.text import first_few

INDEXER = "indexer"  # the part of a model that selects keys, with a separate rotation
IGNORED = {"mrope_section", "mrope_interleaved"}
LOCAL_THETA, GLOBAL_THETA = ("rope_local_base_freq", "local_rope_theta"), "global_rope_theta"
THETA = ("rope_theta", "rotary_emb_base")
SHARE = ("partial_rotary_factor", "rotary_pct")
DIMENSIONS = ("rotary_dim", "qk_rope_head_dim")  # numbers of rotated dimensions, not shares
EVIDENCE = {"rope_parameters", "rope_scaling", "rotary_dim", *THETA, *SHARE, GLOBAL_THETA}
UNKNOWN = Rotary(  # keys for unknown model types
    size=("qk_rope_head_dim", "head_dim"),
    width=(WIDTH, None),
    heads=(HEADS, None),
    bases=THETA,
    shares=(*SHARE, "rotary_dim"),
)
Layer = tuple[Section, Rotary]


def read_rotation(model: ModelConfig) -> Encoding | None:
    """Read rotary positions from the new ``rope_parameters`` or the old ``rope_scaling``."""
    if not rotates(model):
        return None
    if len(model.grid) > 1 and rotates_on_axes(model):
        rule = "rotates text by one position, without a grid"
        raise PefourierError(f"{shown(model.file)} {rule}; name an image's part, #vision_config")
    if model.part == INDEXER and "indexer" in model.row:
        return rotation_of_indexer(model)
    layer, section, type_keys = choose_layer(model, layer_sections(model))
    d = find_head(model, type_keys, layer)
    scaling, scaled, allowed = read_scaling(model, section, layered=bool(layer))
    unused = sorted(section.values.keys() - allowed - IGNORED)[:SEEN] if allowed else []
    scaling = read_clipping(model.config, scaling)
    theta, doubts = reconcile(section, THETA, model.config, type_keys.bases)
    partial, unlike = find_share(model, section, type_keys, d, scaling)
    findings = [] if layer else [*doubts, *unlike]
    findings += [*warn_of_keys(section, unused, allowed), *layer_notes(model)]
    findings += [finding("rope-clipped", config=model.config.label)] if scaling == "clip" else []
    rho = type_keys.base if theta is None else theta
    settings = {"rho": rho, "partial": partial, "layout": layout_of(model), "scaling": scaling}
    enc = model.build("rope", d, *findings, **settings, **scaled)
    # backwards: by -p at position p; trailing: the last rows of a head
    facts: Fields = {k: True for k in ("backwards", "trailing") if model.row.get(k)}
    facts |= {"unread": tuple(unused)} if unused else {}
    facts |= softmax_factor(model, section, scaling, scaled)
    if sections := sections_of(model):
        with suppress(PefourierError):  # sections that do not fit have a finding
            axes = axes_of_sections(*sections, enc.params["rotated"] // 2)
            facts["mrope_section"] = describe_axes(axes)
    stated = stated_original(model, section, layered=bool(layer))
    if model.kind == "qwen":
        stated = model.config.count("seq_length")
        if stated and model.config.values.get("use_dynamic_ntk", True):
            findings = [finding("rope-by-length", "steps", n=stated, length=len(enc))]
            enc = replace(enc, findings=(*enc.findings, *findings))
    if stated and scaled.get("original") != stated:  # dynamic and linear ignore it
        facts |= {"trained": stated}
    enc = replace(enc, params={**enc.params, **facts})
    written = replace(model, config=model.config.untracked)
    case = ConfigCase(written, layer, section, type_keys, enc)
    mistakes = tuple(lint(case))
    is_lost = any(mistake.code == "rope-scaling-lost" for mistake in mistakes)
    inferred = None if trained_as_stated(enc.params) else inferred_original(case, is_lost=is_lost)
    params = {**enc.params, **({"trained": inferred} if inferred else {})}
    return replace(enc, params=params, findings=(*enc.findings, *mistakes))


def rotation_of_indexer(model: ModelConfig) -> Encoding | None:
    """Return the rotation of the indexer: the frequencies of attention with a different pairing.

    If the config does not set the width of the indexer's heads, it is the rotated width.
    """
    enc = read_rotation(replace(model, part="", d=None))
    if enc is None:
        return None
    inherited = {key: enc.params[key] for key in ("rho", "scaling", "length")}
    inherited |= {key: enc.params[key] for key in scaling_parameters(enc.params["scaling"])}
    rotated, width = enc.params["rotated"], model.config.count("index_head_dim") or 0
    width = max(width, rotated)
    head = {"d": width, "partial": rotated_share(rotated, width), "layout": model.row["indexer"]}
    built = build("rope", spec=enc.spec, **inherited, **head)
    carried = {key: value for key, value in enc.params.items() if key not in built.params}
    return replace(built, params={**carried, **built.params, "softmax_factor": 1.0})


def rotates(model: ModelConfig) -> bool:
    """Return whether a model rotates queries and keys, by its type or the keys of its config."""
    config, row = model.config, model.row
    if row:
        key, switch_values, usual = row.get("switch", ("", (), None))
        is_on = not key or config.values.get(key, usual) in switch_values
        return bool(row.get("kind") == "rotary" and is_on)
    has_evidence = any(config.untracked.values.get(key) is not None for key in EVIDENCE)
    usual = "rotary" if has_evidence else None
    return config.values.get("position_embedding_type", usual) in ("rotary", "rope")


def layout_of(model: ModelConfig) -> str:
    """Return the layout of pairs, halves or interleaved."""
    layout = str(model.row.get("layout", "halves"))
    if layout == "use_hf_rope":
        return "halves" if model.config.values.get(layout) is True else "interleaved"
    if not layout.startswith("rope_interleave"):
        return layout
    interleaved = model.config.values.get("rope_interleave", " " not in layout)
    return "interleaved" if interleaved is not False else "halves"


def head_by_layer(model: ModelConfig, type_keys: Rotary, layer: str) -> int | None:
    """Return the size of a head of a type of layer from ``per_layer_config``; None if not set."""
    config, row, key = model.config, model.row, "per_layer_config"
    if "layers" not in row or key not in config.values or type_keys.size not in HEAD_BY_LAYER:
        return None
    section, kinds = config.section(key), config.values.get("layer_types")
    sizes = {int(i): section.section(i).count("head_dim") for i in section.values if i.isdecimal()}
    if not any(sizes.values()) and type_keys.size == HEAD_BY_LAYER[0]:
        return None
    if any(sizes.values()) and not isinstance(kinds, list):
        raise PefourierError(f"{section.label} needs layer_types, the type of each layer")
    usual = config.count("head_dim") or min(rotary(row, name).head or 0 for name in row["layers"])
    places = [i for i, kind in enumerate(kinds or ()) if kind == layer]
    widths = {sizes.get(i) or usual for i in places} or {usual}
    if len(widths) > 1:
        raise PefourierError(
            f"{section.label} must set one head_dim for {shown(layer)}; got {sorted(widths)}"
        )
    return widths.pop()


HEAD_BY_LAYER = (("head_dim",), ("global_head_dim",))  # the first has priority


def find_head(model: ModelConfig, type_keys: Rotary, layer: str = "") -> int:
    """Return the size of a head: from the config, the request, or the default of the type."""
    config = model.config
    if size := head_by_layer(model, type_keys, layer):
        return model.dimension(size, "head_dim")
    head = config.count(*type_keys.size) if type_keys.size else None
    width, heads = model.sized(type_keys.width), model.sized(type_keys.heads)
    stated = head is not None
    nulled = type_keys.null and config.values.get(type_keys.size[0], ...) is None
    if (nulled or (head is None and type_keys.head is None)) and width and heads:
        head = max((1 if nulled else type_keys.times) * width // heads, 1)
        stated = config.first(*type_keys.width[0])[1] is not None
    head = head or type_keys.head
    return model.dimension(head, "head_dim") if stated or head is None else model.d or head


def find_share(
    model: ModelConfig, section: Section, type_keys: Rotary, d: int, scaling: str
) -> tuple[float, list[Finding]]:
    """Return the rotated share of a head, with findings."""
    ignored = type_keys.fixed or (type_keys.whole and scaling == "none")
    keys = tuple(key for key in type_keys.shares if key not in DIMENSIONS)
    if "layers" not in model.row and (type_keys.whole or scaling != "none"):
        keys = keys or SHARE[:1]
    partial, findings = reconcile(section, SHARE, model.config, keys)
    if ignored:
        if partial not in (None, 1.0) and not type_keys.fixed:
            key, inside = section.first(*SHARE)
            key = model.config.first(*keys)[0] if inside is None else key
            details = {"key": key, "value": partial, "config": model.config.label}
            findings = [finding("unread-key", "share", kind=shown(model.kind), **details)]
        return 1.0, findings
    is_listed = section.key in model.row.get("layers", ())
    if partial is None and scaling == "none" and is_listed and model.row.get("given_whole"):
        return 1.0, findings  # the default share of the class applies only without a section
    dimensions = [key for key in type_keys.shares if key in DIMENSIONS]
    rotated = (model.config.count(*dimensions) if dimensions else None) or type_keys.rotated
    if partial is None:
        scaled_share = type_keys.scaled_share if scaling != "none" else None
        partial = rotated_share(rotated, d) if rotated else scaled_share
    return type_keys.share if partial is None else partial, findings


def layer_notes(model: ModelConfig) -> list[Finding]:
    """Return findings about layers and tokens that differ from the encoding."""
    row, findings = model.row, []
    written = model.config.untracked.values.get("model_type")
    if not row or (isinstance(written, str) and type_row(written) is None):
        details = {"kind": shown(written or "none"), "config": model.config.label}
        variant = "like" if row else "halves"
        findings.append(finding("model-type-unknown", variant, like=shown(model.kind), **details))
    number = model.config.count(*LAYERS) or max(row.get("unrotated", [-1])) + 1  # by default
    unrotated = sorted(layers_without_positions(model, number))
    kinds = dict.fromkeys(part.split()[0] for part in row.get("layer_types", "").split(",") if part)
    switch_values = [kind for kind in kinds if rotates_by_type(model, kind)]
    partial = {
        "still": first_few(list(map(str, unrotated))),
        "types": first_names(switch_values)
        if "turning" in row and len(switch_values) < len(kinds)
        else "",
        "heads": row.get("heads_turned"),
    }
    findings += [
        finding("rope-some-layers", key, names=names) for key, names in partial.items() if names
    ]
    return [*findings, finding("rope-axes")] if rotates_on_axes(model) else findings


def rotates_on_axes(model: ModelConfig) -> bool:
    """Return whether tokens of images and videos have positions on three axes (M-RoPE)."""
    row, section = model.row, model.config.values.get(model.rope_key) or {}
    return bool(row.get("axes")) or "sections" in row or "mrope_section" in section


def sections_of(model: ModelConfig) -> tuple[Counts, bool | Literal["rows"]] | None:
    """Return the number of pairs of each axis, and whether axes alternate (`axes_of_sections`)."""
    interleaved, config = model.row.get("interleaved", False), model.config.untracked
    for key in filter(config.values.__contains__, ("rope_parameters", "rope_scaling")):
        section = config.section(key)
        sections = section.parameter("mrope_section", tuple[float, ...])
        if sections is not None:
            if not all(n is not None and n == int(n) for n in sections):
                written = section.values["mrope_section"]
                raise section.wrong("mrope_section", written, "a list of whole numbers")
            stated = section.parameter("mrope_interleaved", bool)
            if stated is not None and interleaved != "rows":
                interleaved = stated
            return tuple(map(int, sections)), interleaved
    return (tuple(model.row["sections"]), interleaved) if "sections" in model.row else None


def layer_sections(model: ModelConfig) -> dict[str, Layer]:
    """Return the rotation of each type of layer; the empty name is for all layers."""
    config, row = model.config, model.row
    key = model.rope_key
    if key == "rope_scaling" and row.get("new_only"):
        raise PefourierError(
            f"{key} of {config.label} has no partial_rotary_factor; set it in rope_parameters"
        )
    section = config.section(key)
    if key in row.get("unread", ()):
        section = replace(section, values={})
    elif "type" in row.get("unread", ()) and section.values:
        section = replace(section, values={"rope_type": "default", **section.values})
    if model.kind == PARAMS:
        section = section_of_params(config)
    names = [name for name, value in section.values.items() if isinstance(value, dict)]
    if "layers" in row:
        return dict(known_layers(model, key, section, names))
    type_keys = rotary(row) if row else UNKNOWN
    if names:
        return {name: (section.section(name), type_keys) for name in names}
    if not section.values and type_keys.rope:
        return {"": (replace(section, values=type_keys.rope), type_keys)}
    local = None if row else config.number(*LOCAL_THETA)
    if local is None:
        return {"": (section, type_keys)}
    full = {"rope_theta": config.number(GLOBAL_THETA, "rope_theta"), **section.values}
    bases = {"full_attention": full, "sliding_attention": {"rope_theta": local}}
    return {k: (replace(section, values=values), type_keys) for k, values in bases.items()}


def known_layers(
    model: ModelConfig, key: str, outer: Section, names: list[str]
) -> Iterator[tuple[str, Layer]]:
    """Yield the rotation of each type of layer, for model types with several."""
    row, config = model.row, model.config
    reached = row.get("scaled", []) if key == "rope_scaling" else row.get("flat", [])
    if outer.values and not names and reached is None:
        raise PefourierError(
            f"{key} of {config.label} is for all layers; model_type {shown(model.kind)} needs "
            f"a section for each type of layer: {first_names(row['layers'])}"
        )
    for layer in [*row["layers"], *(name for name in names if name not in row["layers"])]:
        type_keys = rotary(row, layer if layer in row["layers"] else next(iter(row["layers"])))
        if names and layer in outer.values and outer.values[layer] is None:
            continue  # layers of this type have no positions
        if layer in names:
            section = outer.section(layer)
        elif outer.values and not names and layer in (reached or ()):
            ignored = ("rope_theta", "partial_rotary_factor") if row.get("own_base") else ()
            shared = {k: v for k, v in outer.values.items() if k not in ignored}
            section = replace(outer, values=shared)
        else:
            section = Section(f"{layer} of {outer.label}", type_keys.rope)
        spelling, kind = section.first("rope_type", "type")
        if not isinstance(kind, str | None):
            raise section.wrong(spelling, kind, "a string")
        added = type_keys.added.get(kind, {}) if kind and layer not in names else {}
        yield layer, (replace(section, values={**added, **section.values}), type_keys)


def choose_layer(model: ModelConfig, sections: Mapping[str, Layer]) -> tuple[str, Section, Rotary]:
    """Return the rotation of the selected type of layer, or of any type if all are equal."""
    part, file = model.part, shown(model.file)
    if part and "" in sections:
        raise PefourierError(f"{file} has only one rotation; leave out {shown('#' + part)}")
    if part and part not in sections:
        raise unknown(f"type of layer of {file}", part, sections)
    if not sections:
        raise PefourierError(f"{file} sets no rotation for any type of layer")
    name = part or next(iter(sections))
    section, type_keys = sections[name]
    is_same = (
        (s.values, rotated) == (section.values, type_keys) for s, rotated in sections.values()
    )
    if not part and not all(is_same):
        raise PefourierError(
            f"{file} rotates by type of layer: {first_names(sections)}; "
            f"choose a type, such as {shown(model.file + '#' + name)}"
        )
    return name, section, type_keys


def reconcile(
    section: Section, inside: Texts, config: Section, above: Texts
) -> tuple[float | None, list[Finding]]:
    """Return a number from a section or above it; the section has priority; report conflicts."""
    inner, outer = section.number(*inside), config.number(*above) if above else None
    if inner is None or outer is None or inner == outer:
        return (outer if inner is None else inner), []
    slots = {"key": inside[0], "section": section.label}
    return inner, [finding("rope-contradiction", **slots, inner=inner, outer=outer)]
