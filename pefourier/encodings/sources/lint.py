"""Which mistakes does a model config give away? Rules about one rotation as it was read.

Conventions
-----------
A rule yields its findings about a `ConfigCase`; `RULES` lists all, findings.toml says what each
finding means. A warning is a mistake, or two statements that cannot both be meant; a note is what
readers other than transformers 5 may take otherwise. Each says what to write; what another reading
costs is told by ``context --against``. No published config that transformers loads has a warning:
tests/published_configs.py.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pefourier.encodings.checks import is_count, is_number
from pefourier.encodings.encoding import Encoding, Finding
from pefourier.encodings.families.rotary import SCALINGS, rotation_if_any
from pefourier.encodings.findings import finding
from pefourier.encodings.sources.config import (
    HEADS,
    LONGEST,
    WIDTH,
    ModelConfig,
    Section,
    first_names,
)
from pefourier.encodings.sources.models import Rotary
from pefourier.errors import shown

ORIGINAL = "original_max_position_embeddings"
SHARES = (
    *("partial_rotary_factor", "rotary_pct", "rotary_percent", "rotary_percentage", "rope_pct"),
    *("rope_percent", "rotary_emb_fraction", "rotary_factor", "partial_rotary_pct"),
)
TURNED = ("rotary_dim", "rotary_ndims", "rope_dim")
USUAL_HEADS = {32, 48, 64, 80, 96, 100, 112, 120, 128, 192, 256, 512}
LONG = 4  # times the length of training from which a context needs a scaling


@dataclass(frozen=True, eq=False)
class ConfigCase:
    """A rotation of a config as it was read, with what it was read from."""

    model: ModelConfig
    layer: str  # type of layer, empty where there is one rotation for all
    section: Section
    turns: Rotary
    enc: Encoding

    @property
    def values(self) -> Mapping[str, Any]:
        """The config as it is written."""
        return self.model.config.values

    @property
    def params(self) -> Mapping[str, Any]:
        """Settings of the rotation."""
        return self.enc.params

    @property
    def known(self) -> Mapping[str, Any]:
        """What the published models of this type with this base were trained with."""
        for family in self.model.row.get("families", ()):
            layers = family.get("layers", [self.layer])
            if family["base"] == self.params["rho"] and self.layer in layers:
                return family
        return {}

    @property
    def kinds(self) -> list[str]:
        """Types of layers that the config tells, each once."""
        types = self.values.get("layer_types")
        names = [kind for kind in types if isinstance(kind, str)] if isinstance(types, list) else []
        return list(dict.fromkeys(names))

    def says(
        self,
        code: str,
        variant: str = "",
        **values: Any,
    ) -> Finding:
        """A finding about the rotation, whose sentence may name what the rotation was read from."""
        facts = {
            "config": self.model.config.label,
            "section": self.section.label,
            "kind": shown(self.model.kind),
            "params": self.params,
            "known": self.known,
            "turns": self.turns,
            "original": ORIGINAL,
        }
        return finding(code, variant, **{**facts, **values})

    def as_meant(self, value: Any) -> dict[str, Any]:
        """The settings that a section states, whoever reads it; none where it has no scaling."""
        section = value.get(self.layer, value) if isinstance(value, dict) else {}
        section = section if isinstance(section, dict) else {}
        reached = self.model.row.get("scaled")
        if section is value and self.layer and reached is not None and self.layer not in reached:
            return {}  # what is given for all types does not reach this one
        kind = section.get("rope_type", section.get("type"))
        kind = ALIASES.get(kind, kind) if isinstance(kind, str) else "none"
        changes = {key: section[key] for key in SCALES if is_number(section.get(key))}
        before = section.get(ORIGINAL)
        changes |= {"original": before} if is_count(before) else {}
        changes |= {"rho": section["rope_theta"]} if is_number(section.get("rope_theta")) else {}
        return {**changes, "scaling": kind} if kind in SCALINGS else changes

    def turns_so(self, settings: Mapping[str, Any]) -> bool:
        """Whether some settings change nothing; none do not say so."""
        changed, frequencies = self.other_frequencies(**settings), self.enc.measure.frequencies
        return bool(settings) and changed is not None and np.array_equal(changed, frequencies)

    def other_frequencies(self, **changes: Any) -> np.ndarray | None:
        """Frequencies by other settings, None where there are none of such settings."""
        rotation = rotation_if_any({**self.params, **changes}, len(self.enc))
        return rotation and rotation[0]


def lint(case: ConfigCase) -> Iterator[Finding]:
    """What each rule finds in a config, in the order of `RULES`."""
    return (finding for rule in RULES for finding in rule(case))


def new_keys(case: ConfigCase) -> Iterator[Finding]:
    """Base and scaling where only transformers 5 looks."""
    values, new = case.values, case.values.get("rope_parameters")
    old = ("rope_scaling", "rope_theta", *case.turns.bases)
    if not isinstance(new, dict) or not new or any(values.get(key) is not None for key in old):
        return
    if case.model.row.get("since") == 5:  # whom no older reader knows
        return
    base, scaled = case.params["rho"], case.params["scaling"] != "none"
    if (base == case.turns.base and not scaled) or case.section.values.get("rope_theta") is None:
        return
    scaling = f" and scaling {case.params['scaling']}" if scaled else ""
    saved = str(values.get("transformers_version", ""))
    older = saved.partition(".")[0].isdigit() and int(saved.partition(".")[0]) < 5
    saver = f", such as transformers {shown(saved)[1:-1]} that saved it," if older else ""
    addition = " and rope_scaling" if scaled else ""
    variant = "older" if older else "newer"
    yield case.says("rope-new-keys", variant, scaling=scaling, by=saver, way=addition)


def default_base(case: ConfigCase) -> Iterator[Finding]:
    """A base that is left to the model type."""
    inside = ("rope_theta", "rotary_emb_base")
    stated = any(case.section.values.get(key) is not None for key in inside)
    stated = stated or any(case.values.get(key) is not None for key in case.turns.bases)
    if stated or (case.layer and case.model.row):
        return
    who = f"model_type {shown(case.model.kind)} has" if case.model.row else "as most models do,"
    if case.params["rho"] == 1e4:
        yield case.says("rope-theta-default", "usual", who=who)
    else:
        yield case.says("rope-theta-default", "other", who=who)


def scaling_lost(case: ConfigCase) -> Iterator[Finding]:
    """A long context whose scaling is not there."""
    if case.params["scaling"] != "none":
        return
    longest, family = case.model.config.count(*LONGEST) or 0, case.known
    original = case.model.config.count(ORIGINAL)
    if original and longest >= LONG * original:
        yield case.says("rope-scaling-lost", "told", longest=longest, before=original)
    elif "scaling" in family and longest >= family["from"] and "factor" not in case.section.values:
        scaling = family["scaling"]
        words = ", ".join(f"{key}={value}" for key, value in scaling.items())
        yield case.says("rope-scaling-lost", "family", longest=longest, words=words)


def two_spellings(case: ConfigCase) -> Iterator[Finding]:
    """rope_scaling and rope_parameters that do not say the same; transformers takes the first."""
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


def spelled_out(section: Mapping[str, Any], case: ConfigCase) -> dict[str, Any]:
    """What a section says of a rotation, with the base above it and the names of transformers 5."""
    kind = section.get("rope_type", section.get("type", "default"))
    base = case.values.get("rope_theta")
    above = {} if base is None else {"rope_theta": base}
    settings = {key: value for key, value in section.items() if key != "type"}
    return {"rope_type": kind, **above, **settings} | {"rope_type": kind}


DIFFERENCES = 4  # that are told one by one


def two_types(case: ConfigCase) -> Iterator[Finding]:
    """type and rope_type that differ, or numbers of a scaling without either."""
    values = case.section.values
    rope_type, old_type = values.get("rope_type"), values.get("type")
    names = ALIASES | case.model.row.get("renamed", {})
    if "type" in case.model.row.get("unread", ()):
        return
    if isinstance(rope_type, str) and isinstance(old_type, str):
        if names.get(rope_type, rope_type) != names.get(old_type, old_type):
            yield case.says("rope-two-types", "", one=shown(rope_type), other=shown(old_type))
    elif rope_type is None and old_type is None and is_number(values.get("factor")):
        if any("did you mean rope_type" in finding.message for finding in case.enc.findings):
            return
        yield case.says("rope-no-type", "", factor=values["factor"])


ALIASES = {"default": "none", "mrope": "none", "su": "longrope"}
SCALES = ("factor", "low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow", "original")


def type_refused(case: ConfigCase) -> Iterator[Finding]:
    """A scaling that transformers refuses for a model type, whose class knows others alone."""
    scaling, accepted = case.params["scaling"], case.model.row.get("takes")
    if accepted and scaling not in ("none", accepted):
        yield case.says("rope-type-refused", "", own=scaling, taken=accepted)


def lengths(case: ConfigCase) -> Iterator[Finding]:
    """Lengths before and after a scaling that do not go with its factor."""
    params, longest = case.params, case.model.longest()
    before, factor = params.get("original") or params.get("trained"), params.get("factor")
    if not before or not longest:
        return
    scaling = params["scaling"]
    if scaling in ("yarn", "linear") and longest / before not in (factor, 1.0):
        ratio = longest / before
        yield case.says("rope-lengths", scaling, longest=longest, before=before, ratio=ratio)
    if params["scaling"] == "llama3" and before >= longest:
        yield case.says("rope-original", "", longest=longest)


def length_of_training(case: ConfigCase) -> Iterator[Finding]:
    """A length of training that is left out, or that is not the family's."""
    scaling, before = case.params["scaling"], case.params.get("original")
    if scaling not in ("yarn", "llama3", "longrope") or not before:
        return
    settings = (case.section.values, case.values, {ORIGINAL: case.model.row.get("original")})
    stated = next(filter(None, (values.get(ORIGINAL) for values in settings)), None)
    if stated is None:
        yield case.says("rope-original-missing")
    trained, longest = case.known.get("trained"), case.model.longest() or 0
    not_below = scaling == "llama3" and before >= longest  # a finding of `lengths`
    if stated is not None and trained and before != trained and not not_below:
        yield case.says("rope-original-unusual")


def share_of_the_head(case: ConfigCase) -> Iterator[Finding]:
    """A share of the head under a name that is not read, or left to the model type."""
    config, head, used = case.model.config, case.params["d"], case.params["partial"]
    stated = False
    if case.turns.fixed:
        return
    for section in (case.section, config):
        for key in (*SHARES, *TURNED):
            value = section.values.get(key)
            if not is_number(value) or value <= 0:
                continue
            share = value / head if key in TURNED else value
            stated = True
            difference = abs(share - used) * head
            if share <= 1 and difference >= 1 and unsaid(case, key):
                details = {"key": key, "value": value, "section": section.label}
                yield case.says("unread-key", "unshared", way=name_of_share(case), **details)
    if not stated and case.model.row and not case.layer and case.turns.share != 1 and used < 1:
        yield case.says("rope-share-default", way=name_of_share(case))


def unsaid(case: ConfigCase, key: str) -> bool:
    """Whether no other finding speaks of a key."""
    return not any(key in f.message for f in case.enc.findings if f.severity == "warning")


def name_of_share(case: ConfigCase) -> str:
    """The key by which a model type sets the share of a head."""
    return next(iter(case.turns.shares), "partial_rotary_factor, if it is to be read at all")


def size_of_head(case: ConfigCase) -> Iterator[Finding]:
    """The size of a head, where it is hidden size over heads and unusual."""
    config = case.model.config
    stated = any(case.values.get(key) is not None for key in case.turns.size)
    if stated or case.turns.head is not None or not case.turns.size:
        return
    width = config.count(*case.turns.width[0], *WIDTH)
    heads = config.count(*case.turns.heads[0], *HEADS)
    head = case.params["d"]
    if not width or not heads or case.model.d is not None:
        return
    if width % heads:
        yield case.says("rope-head-guessed", "split", width=width, heads=heads)
    elif head not in USUAL_HEADS and head > 32:
        yield case.says("rope-head-guessed", "unusual", width=width, heads=heads)


def mscale_pairs(case: ConfigCase) -> Iterator[Finding]:
    """One of two factors that work as a pair, and factors under other names."""
    values = case.section.values
    mscale, all_dim = (values.get(key) for key in ("mscale", "mscale_all_dim"))
    if case.params["scaling"] == "yarn" and bool(mscale) != bool(all_dim):
        has, lacks = ("mscale", "mscale_all_dim") if mscale else ("mscale_all_dim", "mscale")
        yield case.says("rope-mscale", has=has, lacks=lacks, value=values[has])
    unread = [key for key in ("short_mscale", "long_mscale") if values.get(key) is not None]
    if unread:
        words = " and ".join(f"{key}={shown(values[key])}" for key in unread)
        yield case.says("unread-key", "mscale", said=words)


def one_for_all(case: ConfigCase) -> Iterator[Finding]:
    """A scaling given for all types of layers, that reaches layers of a short reach."""
    key = case.model.rope_key
    section = case.values.get(key) or {}
    if not isinstance(section, dict) or any(isinstance(v, dict | None) for v in section.values()):
        return
    if not case.model.row:
        yield from one_for_unknown(case)
    if len(case.model.row.get("layers", ())) < 2 or "sliding" not in case.layer:
        return
    if case.params["scaling"] != "none":
        yield case.says("rope-one-for-all", "types", key=key, layer=shown(case.layer))


def one_for_unknown(case: ConfigCase) -> Iterator[Finding]:
    """Types of layers with and without a window, and one rotation, of a model that is not known."""
    kinds = case.kinds
    sliding = [kind for kind in kinds if "sliding" in kind]
    plain = case.params["rho"] == 1e4 and case.params["scaling"] == "none"
    if not case.layer and sliding and len(kinds) > 1 and not plain:
        details = {"kinds": first_names(kinds), "layer": shown(sliding[0])}
        yield case.says("rope-one-for-all", "unknown", **details)


def without_section(case: ConfigCase) -> Iterator[Finding]:
    """A type of layer that rotates, and is not among those whose rotation is given."""
    rotations = case.values.get("rope_parameters")
    names = list(rotations) if isinstance(rotations, dict) else []
    if not case.layer or not any(isinstance(rotations[name], dict) for name in names):
        return
    kinds = [kind for kind in case.kinds if case.model.row or kind.endswith("_attention")]
    expected = case.model.row.get("layers") or [kind for kind in kinds if "linear" not in kind]
    lacking = [kind for kind in expected if kind not in names and (not kinds or kind in kinds)]
    if lacking and case.layer == next(name for name in names if isinstance(rotations[name], dict)):
        yield case.says("rope-no-section", "", lacking=first_names(lacking))


def not_read(case: ConfigCase) -> Iterator[Finding]:
    """Keys that say something of the rotation and that a model type does not read."""
    model, section = case.model, case.values.get(case.model.rope_key)
    section = section if isinstance(section, dict) else {}
    unread = list(model.row.get("unread", ()))
    new = case.values.get("rope_parameters")
    if model.row.get("layers") and model.row.get("flat", []) == [] and isinstance(new, dict):
        unread += [] if any(isinstance(v, dict) for v in new.values()) else ["rope_parameters"]
    for key in unread:
        if key == "type":
            remedy, statement = "rope_type", section
            is_stated = "type" in section and "rope_type" not in section
        else:
            counterparts = {"rope_scaling": "rope_parameters", "rope_parameters": "rope_scaling"}
            remedy, statement = f"it in {counterparts.get(key, key)}", case.values.get(key)
            is_stated = bool(statement)
        says = case.as_meant(statement) if is_stated else {}
        if is_stated and not case.turns_so(says):
            yield case.says("unread-key", "key", key=key, way=remedy)
    if model.row and case.layer and "layers" not in model.row:
        yield case.says("unread-key", "sections", key=model.rope_key)
    truncate = case.section.values.get("truncate")
    if case.layer and truncate is not None:
        yield case.says("unread-key", "truncate")


def sections(case: ConfigCase) -> Iterator[Finding]:
    """Sections of M-RoPE that do not fit the pairs that turn."""
    values, defaults = case.section.values, case.model.row.get("sections")
    written, pairs = values.get("mrope_section"), len(case.enc.measure.frequencies)
    parsed = case.section.parameter("mrope_section", tuple[float, ...])  # refuses what is no number
    if parsed is not None and not all(n is not None and n == int(n) for n in parsed):
        raise case.section.wrong("mrope_section", written, "a list of whole numbers")
    numbers = None if parsed is None else [int(n) for n in parsed]
    if numbers is None and not defaults:
        return
    if numbers is None and "mrope_section" in values:
        yield case.says("rope-sections", "null", known=defaults)
        return
    if numbers is not None and sum(numbers) != pairs:
        details = {"numbers": numbers, "sum": sum(numbers), "pairs": pairs}
        yield case.says("rope-sections", "sum", **details)
        return
    interleaved = case.model.row.get("interleaved", False)
    if numbers is None and sum(defaults) != pairs:
        details = {"known": defaults, "sum": sum(defaults), "pairs": pairs}
        yield case.says("rope-sections", "default", **details)
    elif numbers is None and len(case.section.values) > 1:
        yield case.says("rope-sections", "left", known=defaults)
    elif numbers and defaults and bool(values.get("mrope_interleaved")) != interleaved:
        yield from order_of_sections(case, numbers, interleaved)


def order_of_sections(case: ConfigCase, numbers: list[int], interleaved: bool) -> Iterator[Finding]:
    """A config that does not say in which order its type of model gives pairs to axes."""
    denied = "mrope_interleaved" in case.section.values
    if interleaved or denied:
        details = {
            "order": "by turns" if interleaved else "in blocks",
            "written": str(interleaved).lower(),
        }
        yield case.says("rope-sections", "denied" if denied else "unsaid", **details)


RULES = (
    new_keys,
    default_base,
    scaling_lost,
    two_spellings,
    two_types,
    type_refused,
    lengths,
    length_of_training,
    share_of_the_head,
    size_of_head,
    mscale_pairs,
    one_for_all,
    without_section,
    not_read,
    sections,
)
