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
        told = self.values.get("layer_types")
        named = [kind for kind in told if isinstance(kind, str)] if isinstance(told, list) else []
        return list(dict.fromkeys(named))

    def says(
        self,
        code: str,
        which: str = "",
        **values: Any,
    ) -> Finding:
        """A finding about the rotation, whose sentence may name what the rotation was read from."""
        named = {
            "config": self.model.config.label,
            "section": self.section.label,
            "kind": shown(self.model.kind),
            "params": self.params,
            "known": self.known,
            "turns": self.turns,
            "original": ORIGINAL,
        }
        return finding(code, which, **{**named, **values})

    def as_meant(self, given: Any) -> dict[str, Any]:
        """The settings that a section states, whoever reads it; none where it has no scaling."""
        own = given.get(self.layer, given) if isinstance(given, dict) else {}
        own = own if isinstance(own, dict) else {}
        reached = self.model.row.get("scaled")
        if own is given and self.layer and reached is not None and self.layer not in reached:
            return {}  # what is given for all types does not reach this one
        kind = own.get("rope_type", own.get("type"))
        kind = ALIASES.get(kind, kind) if isinstance(kind, str) else "none"
        changes = {key: own[key] for key in SCALES if is_number(own.get(key))}
        before = own.get(ORIGINAL)
        changes |= {"original": before} if is_count(before) else {}
        changes |= {"rho": own["rope_theta"]} if is_number(own.get("rope_theta")) else {}
        return {**changes, "scaling": kind} if kind in SCALINGS else changes

    def turns_so(self, settings: Mapping[str, Any]) -> bool:
        """Whether some settings change nothing; none do not say so."""
        other, own = self.other_frequencies(**settings), self.enc.measure.frequencies
        return bool(settings) and other is not None and np.array_equal(other, own)

    def other_frequencies(self, **changes: Any) -> np.ndarray | None:
        """Frequencies by other settings, None where there are none of such settings."""
        found = rotation_if_any({**self.params, **changes}, len(self.enc))
        return found and found[0]


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
    by = f", such as transformers {shown(saved)[1:-1]} that saved it," if older else ""
    way = " and rope_scaling" if scaled else ""
    which = "older" if older else "newer"
    yield case.says("rope-new-keys", which, scaling=scaling, by=by, way=way)


def default_base(case: ConfigCase) -> Iterator[Finding]:
    """A base that is left to the model type."""
    inside = ("rope_theta", "rotary_emb_base")
    told = any(case.section.values.get(key) is not None for key in inside)
    told = told or any(case.values.get(key) is not None for key in case.turns.bases)
    if told or (case.layer and case.model.row):
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
    longest, known = case.model.config.count(*LONGEST) or 0, case.known
    told = case.model.config.count(ORIGINAL)
    if told and longest >= LONG * told:
        yield case.says("rope-scaling-lost", "told", longest=longest, before=told)
    elif "scaling" in known and longest >= known["from"] and "factor" not in case.section.values:
        own = known["scaling"]
        words = ", ".join(f"{key}={value}" for key, value in own.items())
        yield case.says("rope-scaling-lost", "family", longest=longest, words=words)


def two_spellings(case: ConfigCase) -> Iterator[Finding]:
    """rope_scaling and rope_parameters that do not say the same; transformers takes the first."""
    old, new = (case.values.get(key) for key in ("rope_scaling", "rope_parameters"))
    if not (isinstance(old, dict) and isinstance(new, dict) and old and new):
        return
    read, other = (spelled_out(section, case) for section in (old, new))
    unlike = [key for key in [*read, *other] if read.get(key) != other.get(key)]
    if unlike and "rope_scaling" not in case.model.row.get("unread", ()):
        said = ", ".join(
            f"{key} {shown(read.get(key))} and {shown(other.get(key))}"
            for key in [*dict.fromkeys(unlike)][:DIFFERENCES]
        )
        yield case.says("rope-spellings", said=said, taken="rope_scaling")


def spelled_out(section: Mapping[str, Any], case: ConfigCase) -> dict[str, Any]:
    """What a section says of a rotation, with the base above it and the names of transformers 5."""
    kind = section.get("rope_type", section.get("type", "default"))
    base = case.values.get("rope_theta")
    above = {} if base is None else {"rope_theta": base}
    own = {key: value for key, value in section.items() if key != "type"}
    return {"rope_type": kind, **above, **own} | {"rope_type": kind}


DIFFERENCES = 4  # that are told one by one


def two_types(case: ConfigCase) -> Iterator[Finding]:
    """type and rope_type that differ, or numbers of a scaling without either."""
    values = case.section.values
    one, other = values.get("rope_type"), values.get("type")
    names = ALIASES | case.model.row.get("renamed", {})
    if "type" in case.model.row.get("unread", ()):
        return
    if isinstance(one, str) and isinstance(other, str):
        if names.get(one, one) != names.get(other, other):
            yield case.says("rope-two-types", "", one=shown(one), other=shown(other))
    elif one is None and other is None and is_number(values.get("factor")):
        if any("did you mean rope_type" in finding.message for finding in case.enc.findings):
            return
        yield case.says("rope-no-type", "", factor=values["factor"])


ALIASES = {"default": "none", "mrope": "none", "su": "longrope"}
SCALES = ("factor", "low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow", "original")


def type_refused(case: ConfigCase) -> Iterator[Finding]:
    """A scaling that transformers refuses for a model type, whose class knows others alone."""
    own, taken = case.params["scaling"], case.model.row.get("takes")
    if taken and own not in ("none", taken):
        yield case.says("rope-type-refused", "", own=own, taken=taken)


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
    told = next(filter(None, (one.get(ORIGINAL) for one in settings)), None)
    if told is None:
        yield case.says("rope-original-missing")
    trained, longest = case.known.get("trained"), case.model.longest() or 0
    not_below = scaling == "llama3" and before >= longest  # a finding of `lengths`
    if told is not None and trained and before != trained and not not_below:
        yield case.says("rope-original-unusual")


def share_of_the_head(case: ConfigCase) -> Iterator[Finding]:
    """A share of the head under a name that is not read, or left to the model type."""
    config, head, used = case.model.config, case.params["d"], case.params["partial"]
    told = False
    if case.turns.fixed:
        return
    for section in (case.section, config):
        for key in (*SHARES, *TURNED):
            value = section.values.get(key)
            if not is_number(value) or value <= 0:
                continue
            share = value / head if key in TURNED else value
            told = True
            apart = abs(share - used) * head
            if share <= 1 and apart >= 1 and unsaid(case, key):
                named = {"key": key, "value": value, "section": section.label}
                yield case.says("unread-key", "unshared", way=name_of_share(case), **named)
    if not told and case.model.row and not case.layer and case.turns.share != 1 and used < 1:
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
    told = any(case.values.get(key) is not None for key in case.turns.size)
    if told or case.turns.head is not None or not case.turns.size:
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
    one, other = (values.get(key) for key in ("mscale", "mscale_all_dim"))
    if case.params["scaling"] == "yarn" and bool(one) != bool(other):
        has, lacks = ("mscale", "mscale_all_dim") if one else ("mscale_all_dim", "mscale")
        yield case.says("rope-mscale", has=has, lacks=lacks, value=values[has])
    unread = [key for key in ("short_mscale", "long_mscale") if values.get(key) is not None]
    if unread:
        said = " and ".join(f"{key}={shown(values[key])}" for key in unread)
        yield case.says("unread-key", "mscale", said=said)


def one_for_all(case: ConfigCase) -> Iterator[Finding]:
    """A scaling given for all types of layers, that reaches layers of a short reach."""
    key = case.model.rope_key
    given = case.values.get(key) or {}
    if not isinstance(given, dict) or any(isinstance(v, dict | None) for v in given.values()):
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
        named = {"kinds": first_names(kinds), "layer": shown(sliding[0])}
        yield case.says("rope-one-for-all", "unknown", **named)


def without_section(case: ConfigCase) -> Iterator[Finding]:
    """A type of layer that rotates, and is not among those whose rotation is given."""
    given = case.values.get("rope_parameters")
    told = list(given) if isinstance(given, dict) else []
    if not case.layer or not any(isinstance(given[name], dict) for name in told):
        return
    kinds = [kind for kind in case.kinds if case.model.row or kind.endswith("_attention")]
    wanted = case.model.row.get("layers") or [kind for kind in kinds if "linear" not in kind]
    lacking = [kind for kind in wanted if kind not in told and (not kinds or kind in kinds)]
    if lacking and case.layer == next(name for name in told if isinstance(given[name], dict)):
        yield case.says("rope-no-section", "", lacking=first_names(lacking))


def not_read(case: ConfigCase) -> Iterator[Finding]:
    """Keys that say something of the rotation and that a model type does not read."""
    model, given = case.model, case.values.get(case.model.rope_key)
    given = given if isinstance(given, dict) else {}
    unread = list(model.row.get("unread", ()))
    whole = case.values.get("rope_parameters")
    if model.row.get("layers") and model.row.get("flat", []) == [] and isinstance(whole, dict):
        unread += [] if any(isinstance(v, dict) for v in whole.values()) else ["rope_parameters"]
    for key in unread:
        if key == "type":
            way, meant, found = "rope_type", given, "type" in given and "rope_type" not in given
        else:
            other = {"rope_scaling": "rope_parameters", "rope_parameters": "rope_scaling"}
            way, meant = f"it in {other.get(key, key)}", case.values.get(key)
            found = bool(meant)
        says = case.as_meant(meant) if found else {}
        if found and not case.turns_so(says):
            yield case.says("unread-key", "key", key=key, way=way)
    if model.row and case.layer and "layers" not in model.row:
        yield case.says("unread-key", "sections", key=model.rope_key)
    truncate = case.section.values.get("truncate")
    if case.layer and truncate is not None:
        yield case.says("unread-key", "truncate")


def sections(case: ConfigCase) -> Iterator[Finding]:
    """Sections of M-RoPE that do not fit the pairs that turn."""
    values, known = case.section.values, case.model.row.get("sections")
    own, pairs = values.get("mrope_section"), len(case.enc.measure.frequencies)
    read = case.section.parameter("mrope_section", tuple[float, ...])  # refuses what is no number
    if read is not None and not all(n is not None and n == int(n) for n in read):
        raise case.section.wrong("mrope_section", own, "a list of whole numbers")
    numbers = None if read is None else [int(n) for n in read]
    if numbers is None and not known:
        return
    if numbers is None and "mrope_section" in values:
        yield case.says("rope-sections", "null", known=known)
        return
    if numbers is not None and sum(numbers) != pairs:
        told = {"numbers": numbers, "sum": sum(numbers), "pairs": pairs}
        yield case.says("rope-sections", "sum", **told)
        return
    interleaved = case.model.row.get("interleaved", False)
    if numbers is None and sum(known) != pairs:
        told = {"known": known, "sum": sum(known), "pairs": pairs}
        yield case.says("rope-sections", "default", **told)
    elif numbers is None and len(case.section.values) > 1:
        yield case.says("rope-sections", "left", known=known)
    elif numbers and known and bool(values.get("mrope_interleaved")) != interleaved:
        yield from order_of_sections(case, numbers, interleaved)


def order_of_sections(case: ConfigCase, numbers: list[int], interleaved: bool) -> Iterator[Finding]:
    """A config that does not say in which order its type of model gives pairs to axes."""
    denied = "mrope_interleaved" in case.section.values
    if interleaved or denied:
        told = {
            "order": "by turns" if interleaved else "in blocks",
            "written": str(interleaved).lower(),
        }
        yield case.says("rope-sections", "denied" if denied else "unsaid", **told)


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
