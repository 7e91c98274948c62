"""Which mistakes does a model config give away? Rules about one rotation as it was read.

Conventions
-----------
A rule yields its findings about a `ConfigCase`; `RULES` lists all, findings.toml says what each
finding means. A warning is a mistake, or two statements that cannot both be meant; a note is what
readers other than transformers 5 may take otherwise. Each says what to write; what another reading
costs is told by ``context --against``. No published config that transformers loads has a warning.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pefourier.encodings.checks import is_number
from pefourier.encodings.encoding import Encoding, Finding
from pefourier.encodings.findings import finding
from pefourier.encodings.sources.config import HEADS, LONGEST, WIDTH, ModelConfig, Section
from pefourier.encodings.sources.models import Rotary
from pefourier.errors import shown

ORIGINAL = "original_max_position_embeddings"
USUAL_HEADS = {32, 48, 64, 80, 96, 100, 112, 120, 128, 192, 256, 512}
LONG = 4  # times the length of training from which a context needs a scaling
DIFFERENCES = 4  # that are told one by one
ALIASES = {"default": "none", "mrope": "none", "su": "longrope"}


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
    def published(self) -> Mapping[str, Any]:
        """What the published models of this type with this base were trained with."""
        for family in self.model.row.get("families", ()):
            layers = family.get("layers", [self.layer])
            if family["base"] == self.params["rho"] and self.layer in layers:
                return family
        return {}

    def says(self, code: str, variant: str = "", **values: Any) -> Finding:
        """A finding about the rotation, whose sentence may name what the rotation was read from."""
        facts = {
            "config": self.model.config.label,
            "section": self.section.label,
            "kind": shown(self.model.kind),
            "params": self.params,
            "known": self.published,
            "turns": self.turns,
            "original": ORIGINAL,
        }
        return finding(code, variant, **{**facts, **values})


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
    major = str(values.get("transformers_version", "")).partition(".")[0]
    older = major.isdigit() and int(major) < 5
    scaling = f" and scaling {case.params['scaling']}" if scaled else ""
    yield case.says("rope-new-keys", "older" if older else "newer", scaling=scaling)


def scaling_lost(case: ConfigCase) -> Iterator[Finding]:
    """A long context whose scaling is not there."""
    if case.params["scaling"] != "none":
        return
    longest, family = case.model.config.count(*LONGEST) or 0, case.published
    original = case.model.config.count(ORIGINAL)
    if original and longest >= LONG * original:
        yield case.says("rope-scaling-lost", "told", longest=longest, before=original)
    elif "scaling" in family and longest >= family["from"] and "factor" not in case.section.values:
        words = ", ".join(f"{key}={value}" for key, value in family["scaling"].items())
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


def two_types(case: ConfigCase) -> Iterator[Finding]:
    """type and rope_type that differ, or numbers of a scaling without either."""
    values = case.section.values
    kinds = [values.get(key) for key in ("rope_type", "type")]
    names = ALIASES | case.model.row.get("renamed", {})
    if "type" in case.model.row.get("unread", ()):
        return
    if all(isinstance(kind, str) for kind in kinds):
        if len({names.get(kind, kind) for kind in kinds}) == 2:
            yield case.says("rope-two-types", one=shown(kinds[0]), other=shown(kinds[1]))
    elif kinds == [None, None] and is_number(values.get("factor")):
        if not any("did you mean rope_type" in f.message for f in case.enc.findings):
            yield case.says("rope-no-type", factor=values["factor"])


def lengths(case: ConfigCase) -> Iterator[Finding]:
    """Lengths before and after a scaling that do not go with its factor."""
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
    """A length of training that is left out, or that is not the family's."""
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
    """The size of a head, where it is hidden size over heads and unusual."""
    config, turns, head = case.model.config, case.turns, case.params["d"]
    stated = any(case.values.get(key) is not None for key in turns.size)
    if stated or turns.head is not None or not turns.size or case.model.d is not None:
        return
    width, heads = config.count(*turns.width[0], *WIDTH), config.count(*turns.heads[0], *HEADS)
    if width and heads and (width % heads or (head not in USUAL_HEADS and head > 32)):
        variant = "split" if width % heads else "unusual"
        yield case.says("rope-head-guessed", variant, width=width, heads=heads)


def sections(case: ConfigCase) -> Iterator[Finding]:
    """Sections of M-RoPE that do not sum to the pairs that turn."""
    numbers = case.section.values.get("mrope_section", case.model.row.get("sections"))
    pairs = len(case.enc.measure.frequencies)
    numbers = numbers if isinstance(numbers, list | tuple) else ()
    if numbers and all(isinstance(n, int) for n in numbers) and sum(numbers) != pairs:
        yield case.says("rope-sections", numbers=numbers, sum=sum(numbers), pairs=pairs)


RULES = (
    new_keys,
    scaling_lost,
    two_spellings,
    two_types,
    lengths,
    length_of_training,
    size_of_head,
    sections,
)
