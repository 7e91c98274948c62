"""Which mistakes does a model config give away? Rules about one rotation as it was read.

Conventions
-----------
A rule yields its findings about a `ConfigCase`; `RULES` lists all, findings.toml says what each
finding means. A warning is a mistake, or two statements that cannot both be meant; a note is what
readers other than transformers 5 may take otherwise. Each says what it costs, the first positions
at which the cosine between the codes as read and as probably meant falls below .99 and .9, and what
to write. No published config that transformers loads has a warning: tests/published_configs.py.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pefourier.encodings.encoding import Encoding, Finding
from pefourier.encodings.families.rotary import SCALINGS, rotation_of, scaling_parameters
from pefourier.encodings.readings import FARTHEST, positions_below
from pefourier.encodings.sources.config import (
    HEADS,
    LONGEST,
    WIDTH,
    ModelConfig,
    Section,
    first_names,
)
from pefourier.encodings.sources.models import Rotary
from pefourier.errors import PefourierError, shown

ORIGINAL = "original_max_position_embeddings"
SHARES = (
    *("partial_rotary_factor", "rotary_pct", "rotary_percent", "rotary_percentage", "rope_pct"),
    *("rope_percent", "rotary_emb_fraction", "rotary_factor", "partial_rotary_pct"),
)
TURNED = ("rotary_dim", "rotary_ndims", "rope_dim")
LEVELS = (0.99, 0.9)  # of the cosine, from which on it matters
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
    def given_key(self) -> str:
        """The key of the section that is read."""
        return "rope_scaling" if self.values.get("rope_scaling") else "rope_parameters"

    @property
    def kinds(self) -> list[str]:
        """Types of layers that the config tells, each once."""
        told = self.values.get("layer_types")
        named = [kind for kind in told if isinstance(kind, str)] if isinstance(told, list) else []
        return list(dict.fromkeys(named))

    def as_meant(self, given: Any) -> dict[str, Any]:
        """The settings that a section states, whoever reads it; none where it has no scaling."""
        own = given.get(self.layer, given) if isinstance(given, dict) else {}
        own = own if isinstance(own, dict) else {}
        reached = self.model.row.get("scaled")
        if own is given and self.layer and reached is not None and self.layer not in reached:
            return {}  # what is given for all types does not reach this one
        kind = own.get("rope_type", own.get("type"))
        kind = ALIASES.get(kind, kind) if isinstance(kind, str) else "none"
        changes = {key: own[key] for key in SCALES if type(own.get(key)) in (int, float)}
        before = own.get(ORIGINAL)
        changes |= {"original": before} if type(before) is int else {}
        changes |= {"rho": own["rope_theta"]} if type(own.get("rope_theta")) in (int, float) else {}
        return {**changes, "scaling": kind} if kind in SCALINGS else changes

    def cost(self, meant: str, **changes: Any) -> str:
        """From which positions on the codes are unlike those that were meant."""
        other = self.other_frequencies(**changes) if changes else None
        if other is None:
            return ""
        most, own = min(FARTHEST, self.model.longest() or FARTHEST), self.enc.measure.frequencies
        if "d" in changes:  # a head has the pairs that it has, whatever grid they lie on
            own, other = own[: len(other)], other[: len(own)]
        below = positions_below(own, other, most, LEVELS)
        if below[".99"] is None:
            return f"; the cosine to {meant} stays above .99 at all {most} positions"
        first = f"below .99 from position {below['.99']} on"
        second = f", below .9 from {below['.9']}" if below[".9"] else ""
        return f"; the cosine to {meant} is {first}{second}"

    def turns_so(self, settings: Mapping[str, Any]) -> bool:
        """Whether some settings change nothing; none do not say so."""
        other, own = self.other_frequencies(**settings), self.enc.measure.frequencies
        return bool(settings) and other is not None and np.array_equal(other, own)

    def other_frequencies(self, **changes: Any) -> np.ndarray | None:
        """Frequencies by other settings, None where there are none of such settings."""
        settings = {**self.params, **changes}
        own = scaling_parameters(settings["scaling"]).items()
        if any(p.default is p.empty and settings.get(key) in (None, ()) for key, p in own):
            return None
        try:
            return rotation_of(settings, len(self.enc))[0]
        except PefourierError:
            return None


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
    lost = f"base {base:g}" + (f" and scaling {case.params['scaling']}" if scaled else "")
    cost = case.cost("theirs", rho=case.turns.base, scaling="none")
    saved = str(values.get("transformers_version", ""))
    older = saved.partition(".")[0].isdigit() and int(saved.partition(".")[0]) < 5
    by = f", such as transformers {shown(saved)[1:-1]} that saved it," if older else ""
    message = (
        f"{lost} stand in rope_parameters alone: readers older than transformers 5{by} take base "
        f"{case.turns.base:g} and no scaling{cost}; write rope_theta"
        + (" and rope_scaling" if scaled else "")
        + " beside it for them"
    )
    yield Finding("rope-new-keys", "warning" if older else "note", message)


def default_base(case: ConfigCase) -> Iterator[Finding]:
    """A base that is left to the model type."""
    inside = ("rope_theta", "rotary_emb_base")
    told = any(case.section.values.get(key) is not None for key in inside)
    told = told or any(case.values.get(key) is not None for key in case.turns.bases)
    if told or (case.layer and case.model.row):
        return
    theta = case.params["rho"]
    who = f"model_type {shown(case.model.kind)} has" if case.model.row else "as most models do,"
    message = f"{case.model.config.label} sets no rope_theta; {who} {theta:g}"
    if theta != 1e4:
        message += f", others read 10000{case.cost('theirs', rho=1e4)}; write rope_theta"
    yield Finding("rope-theta-default", "note", message)


def scaling_lost(case: ConfigCase) -> Iterator[Finding]:
    """A long context whose scaling is not there."""
    if case.params["scaling"] != "none":
        return
    longest, known = case.model.config.count(*LONGEST) or 0, case.known
    told = case.model.config.count(ORIGINAL)
    if told and longest >= LONG * told:
        message = (
            f"{case.model.config.label} has max_position_embeddings={longest} and {ORIGINAL}="
            f"{told} but no scaling: beyond {told} positions phases are new; write rope_scaling "
            "again"
        ) + case.cost("a linear one", scaling="linear", factor=longest / told)
        yield Finding("rope-scaling-lost", "warning", message)
    elif "scaling" in known and longest >= known["from"] and "factor" not in case.section.values:
        own = known["scaling"]
        words = ", ".join(f"{key}={value}" for key, value in own.items())
        message = (
            f"{case.model.config.label} has max_position_embeddings={longest} and no scaling; "
            f"models of this type with base {known['base']:g} were trained on {known['trained']} "
            f"positions and have one ({words}){case.cost('theirs', **own)}; write it again"
        )
        yield Finding("rope-scaling-lost", "warning", message)


def two_types(case: ConfigCase) -> Iterator[Finding]:
    """type and rope_type that differ, or numbers of a scaling without either."""
    values = case.section.values
    one, other = values.get("rope_type"), values.get("type")
    names = {
        "default": "none",
        "mrope": "none",
        "su": "longrope",
        **case.model.row.get("renamed", {}),
    }
    if "type" in case.model.row.get("unread", ()):
        return
    if isinstance(one, str) and isinstance(other, str):
        if names.get(one, one) != names.get(other, other):
            read = {key: value for key, value in case.params.items() if key in SCALES}
            cost = case.cost(f"{shown(other)}", **{**read, "scaling": names.get(other, other)})
            message = (
                f"rope_type of {case.section.label} is {shown(one)} and type {shown(other)}; "
                f"transformers takes the first, others the second{cost}; keep one"
            )
            yield Finding("rope-two-types", "warning", message)
    elif one is None and other is None and type(values.get("factor")) in (int, float):
        if any("did you mean rope_type" in finding.message for finding in case.enc.findings):
            return
        guess = next((kind for key, kind in TELLS.items() if key in values), "linear")
        own = {key: values.get(key) for key in SCALES if type(values.get(key)) in (int, float)}
        own["original"] = values.get(ORIGINAL)
        cost = case.cost(guess, **own, scaling=guess) if values["factor"] > 0 else ""
        message = (
            f"{case.section.label} has factor={values['factor']:g} and no rope_type: no scaling is "
            f"applied{cost}; add rope_type"
        )
        yield Finding("rope-no-type", "warning", message)


ALIASES = {"default": "none", "mrope": "none", "su": "longrope"}
SCALES = ("factor", "low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow", "original")
TELLS = {
    "low_freq_factor": "llama3",
    "high_freq_factor": "llama3",
    "beta_fast": "yarn",
    ORIGINAL: "yarn",
}


def type_refused(case: ConfigCase) -> Iterator[Finding]:
    """A scaling that transformers refuses for a model type, whose class knows others alone."""
    own, taken = case.params["scaling"], case.model.row.get("takes")
    if taken and own not in ("none", taken):
        yield Finding(
            "rope-type-refused",
            "warning",
            f"rope_type {own} of {case.section.label}: transformers refuses it for model_type "
            f"{shown(case.model.kind)}, which has {taken} alone; it is computed here as other "
            f"readers may{case.cost('no scaling', scaling='none')}; write {taken}, or null",
        )


def lengths(case: ConfigCase) -> Iterator[Finding]:
    """Lengths before and after a scaling that do not go with its factor."""
    params, longest = case.params, case.model.longest()
    before, factor = params.get("original"), params.get("factor")
    if not before or not longest:
        return
    if params["scaling"] == "yarn" and longest / before not in (factor, 1.0):
        meant = longest / before
        message = (
            f"factor={factor:g} of {case.section.label} is not max_position_embeddings / "
            f"{ORIGINAL} = {longest} / {before} = {meant:g}; the factor is used, where "
            f"some versions of transformers before 4.56 took {meant:g}"
            f"{case.cost('that of ' + format(meant, 'g'), factor=meant)}; correct one of them"
        )
        yield Finding("rope-lengths", "warning", message)
    if params["scaling"] == "llama3" and before >= longest:
        meant = max(1, int(longest / factor))
        message = (
            f"{ORIGINAL}={before} of {case.section.label} should be below max_position_embeddings="
            f"{longest}{case.cost(f'that of {meant}', original=meant)}; correct one of them"
        )
        yield Finding("rope-original", "warning", message)


def length_of_training(case: ConfigCase) -> Iterator[Finding]:
    """A length of training that is left out, or that is not the family's."""
    scaling, before = case.params["scaling"], case.params.get("original")
    factor = case.params.get("factor") or 1.0
    if scaling not in ("yarn", "llama3", "longrope") or not before:
        return
    told = (
        case.section.values.get(ORIGINAL)
        or case.values.get(ORIGINAL)
        or case.model.row.get("original")
    )
    if told is None:
        meant = max(1, int(before / factor)) if factor > 1 else before
        message = (
            f"{case.section.label} has no {ORIGINAL}; {before}, max_position_embeddings, is taken"
            f"{case.cost(f'that of {meant}', original=meant)}; write the length of training"
        )
        yield Finding("rope-original-missing", "warning", message)
    trained, longest = case.known.get("trained"), case.model.longest() or 0
    not_below = scaling == "llama3" and before >= longest  # a finding of `lengths`
    if told is not None and trained and before != trained and not not_below:
        message = (
            f"{ORIGINAL}={before} of {case.section.label}: models of type {shown(case.model.kind)} "
            f"with base {case.params['rho']:g} were trained on {trained} positions"
            f"{case.cost(f'that of {trained}', original=trained)}; write {trained}"
        )
        yield Finding("rope-original-unusual", "warning", message)


def share_of_the_head(case: ConfigCase) -> Iterator[Finding]:
    """A share of the head under a name that is not read, or left to the model type."""
    config, head, used = case.model.config, case.params["d"], case.params["partial"]
    told = False
    if case.turns.fixed:
        return
    for section in (case.section, config):
        for key in (*SHARES, *TURNED):
            value = section.values.get(key)
            if type(value) not in (int, float) or not value > 0:
                continue
            share = value / head if key in TURNED else value
            told = True
            apart = abs(share - used) * head
            if share <= 1 and apart >= 1 and unsaid(case, key):
                message = (
                    f"{key}={value:g} of {section.label} is not read for model_type "
                    f"{shown(case.model.kind)}, which turns {used:.4g} of a head"
                    f"{case.cost('that share', partial=share)}; write {name_of_share(case)}"
                )
                yield Finding("rope-share-unread", "warning", message)
    if not told and case.model.row and not case.layer and case.turns.share != 1 and used < 1:
        message = (
            f"{config.label} does not say which share of a head turns; model_type "
            f"{shown(case.model.kind)} has {used:g}, others turn all of it"
            f"{case.cost('theirs', partial=1.0)}; write {name_of_share(case)}"
        )
        yield Finding("rope-share-default", "note", message)


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
    width, heads = (
        config.count(*case.turns.width[0], *WIDTH),
        config.count(*case.turns.heads[0], *HEADS),
    )
    head = case.params["d"]
    if not width or not heads or case.model.d is not None:
        return
    if width % heads:
        message = (
            f"{config.label} sets no head_dim, and {width} / {heads} is not whole: {head} is taken"
            f"{case.cost('heads of 128', d=128)}; write head_dim"
        )
        yield Finding("rope-head-guessed", "warning", message)
    elif head not in USUAL_HEADS and head > 32:
        near = min(USUAL_HEADS, key=lambda size: (abs(size - head), size))
        message = (
            f"{config.label} sets no head_dim; {width} / {heads} = {head} is taken, a size that "
            f"few models have{case.cost(f'heads of {near}', d=near)}; write head_dim"
        )
        yield Finding("rope-head-guessed", "note", message)


def mscale_pairs(case: ConfigCase) -> Iterator[Finding]:
    """One of two factors that work as a pair, and factors under other names."""
    values = case.section.values
    one, other = (values.get(key) for key in ("mscale", "mscale_all_dim"))
    if case.params["scaling"] == "yarn" and bool(one) != bool(other):
        has, lacks = ("mscale", "mscale_all_dim") if one else ("mscale_all_dim", "mscale")
        message = (
            f"{case.section.label} has {has}={values[has]} and no {lacks}: cosines and sines are "
            f"multiplied by {case.params['attention_factor']:.6g} whatever {has} says, at every "
            f"position from 0 on; write {lacks} too, or attention_factor"
        )
        yield Finding("rope-mscale", "warning", message)
    unread = [key for key in ("short_mscale", "long_mscale") if values.get(key) is not None]
    if unread:
        said = " and ".join(f"{key}={shown(values[key])}" for key in unread)
        message = (
            f"{said} of {case.section.label} are not read for model_type {shown(case.model.kind)}: "
            f"cosines and sines are multiplied by {case.params['attention_factor']:.6g}, at every "
            "position from 0 on; write attention_factor"
        )
        yield Finding("rope-mscale-unread", "warning", message)


def one_for_all(case: ConfigCase) -> Iterator[Finding]:
    """A scaling given for all types of layers, that reaches layers of a short reach."""
    key, given, params = case.given_key, case.values.get(case.given_key) or {}, case.params
    if not isinstance(given, dict) or any(isinstance(v, dict | None) for v in given.values()):
        return
    if not case.model.row:
        yield from one_for_unknown(case)
    if len(case.model.row.get("layers", ())) < 2 or "sliding" not in case.layer:
        return
    if params["scaling"] == "none":
        return
    message = (
        f"{key} of {case.model.config.label} is one for all types of layers: it scales those of "
        f"type {shown(case.layer)} too, which never see far"
        f"{case.cost('theirs unscaled', scaling='none')}; write rope_parameters with a section for "
        "each type"
    )
    yield Finding("rope-one-for-all", "warning", message)


def one_for_unknown(case: ConfigCase) -> Iterator[Finding]:
    """Types of layers with and without a window, and one rotation, of a model that is not known."""
    kinds = case.kinds
    sliding = [kind for kind in kinds if "sliding" in kind]
    plain = case.params["rho"] == 1e4 and case.params["scaling"] == "none"
    if not case.layer and sliding and len(kinds) > 1 and not plain:
        message = (
            f"{case.model.config.label} has layers of types {first_names(kinds)} and one rotation; "
            f"many models turn {shown(sliding[0])} layers by base 10000"
            f"{case.cost('that', rho=1e4, scaling='none')}; write rope_parameters with a section "
            "for each type, if this model has them"
        )
        yield Finding("rope-one-for-all", "note", message)


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
        message = (
            f"rope_parameters of {case.model.config.label} has no section for "
            f"{first_names(lacking)}, layers that the model has: readers fail, or take base 10000"
            f"{case.cost('that', rho=1e4, scaling='none')}; write a section, or null where these "
            "layers have no positions"
        )
        yield Finding("rope-no-section", "warning", message)


def not_read(case: ConfigCase) -> Iterator[Finding]:
    """Keys that say something of the rotation and that a model type does not read."""
    model, given = case.model, case.values.get(case.given_key)
    given = given if isinstance(given, dict) else {}
    for key in model.row.get("unread", ()):
        if key == "type":
            way, meant, found = "rope_type", given, "type" in given and "rope_type" not in given
        else:
            other = {"rope_scaling": "rope_parameters", "rope_parameters": "rope_scaling"}
            way, meant = f"it in {other.get(key, key)}", case.values.get(key)
            found = bool(meant)
        says = case.as_meant(meant) if found else {}
        if found and not case.turns_so(says):
            message = (
                f"{key} of {model.config.label} is not read for model_type {shown(model.kind)}"
                f"{case.cost('what it says', **says)}; write {way}"
            )
            yield Finding("rope-unread", "warning", message)
    truncate = case.section.values.get("truncate")
    if case.layer and truncate is not None:
        message = (
            f"truncate of {case.section.label} is not read in sections by type of layer"
            f"{case.cost('what it says', truncate=truncate)}; leave it out"
        )
        yield Finding("rope-unread", "warning", message)


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
        message = (
            f"mrope_section of {case.section.label} is null, on which transformers fails; write "
            f"{known} or leave it out"
        )
        yield Finding("rope-sections", "warning", message)
        return
    if numbers is not None and sum(numbers) != pairs:
        message = (
            f"mrope_section {numbers} of {case.section.label} sums to {sum(numbers)}; a head turns "
            f"{pairs} pairs: transformers fails on it, other readers leave pairs without a place "
            "from position 1 on; make it sum to that"
        )
        yield Finding("rope-sections", "warning", message)
        return
    interleaved = case.model.row.get("interleaved", False)
    if numbers is None and sum(known) != pairs:
        message = (
            f"{case.section.label} has no mrope_section; model_type {shown(case.model.kind)} has "
            f"{known}, which sums to {sum(known)}, and a head turns {pairs} pairs; write it"
        )
        yield Finding("rope-sections", "warning", message)
    elif numbers is None and len(case.section.values) > 1:
        cost = sections_cost(case, known, interleaved)
        message = (
            f"{case.section.label} has no mrope_section: transformers takes {known}, other readers "
            f"need it{cost}; write it"
        )
        yield Finding("rope-sections", "note", message)
    elif numbers and known and bool(values.get("mrope_interleaved")) != interleaved:
        yield from order_of_sections(case, numbers, interleaved)


def order_of_sections(case: ConfigCase, numbers: list[int], interleaved: bool) -> Iterator[Finding]:
    """A config that does not say in which order its type of model gives pairs to axes."""
    order = "by turns" if interleaved else "in blocks"
    message = (
        f"mrope_interleaved of {case.section.label} does not say that model_type "
        f"{shown(case.model.kind)} gives pairs to axes {order}"
        f"{sections_cost(case, numbers, interleaved)}; write "
        f"mrope_interleaved={str(interleaved).lower()}"
    )
    known_false = "mrope_interleaved" in case.section.values
    if interleaved or known_false:
        yield Finding("rope-sections", "warning" if known_false else "note", message)


def sections_cost(case: ConfigCase, numbers: list[int], interleaved: bool) -> str:
    """What it costs to give pairs to axes in the other order: along x, of tokens of an image."""
    pairs, count = sum(numbers), len(numbers)
    blocks = np.repeat(np.arange(count), numbers)
    turns = np.zeros(pairs, dtype=int)
    for axis in range(1, count):
        turns[axis : 3 * numbers[axis] : 3] = axis
    apart = np.where((blocks == 2) != (turns == 2), case.enc.measure.frequencies[:pairs], 0.0)
    below = positions_below(apart, np.zeros(pairs), 4096, LEVELS)
    share = (blocks != turns).mean()
    other = "in blocks" if interleaved else "by turns"
    return (
        f"; text is read alike, but {other} {share:.0%} of pairs turn by another axis of an image, "
        f"and the cosine is below .99 from column {below['.99']} on, below .9 from {below['.9']}"
    )


RULES = (
    new_keys,
    default_base,
    scaling_lost,
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
