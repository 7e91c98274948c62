"""Read a config.json, and the properties of its model type.

Values are checked on access; a config is data. Each model type of transformers has a row. ``make
models`` writes ``models.json`` by running the configuration and modeling classes of transformers,
and records the version. ``models_by_hand.json`` adds facts that this cannot determine, with
sources, and has priority. Reading a config needs neither transformers nor torch.

Conventions
-----------
An error names the key, the file, the rule and the value. A key that is null counts as not set.

`ModelRow` lists the keys of a row.

Derive the positions of each layer of a model from its config, as runs of equal layers.

The keys of transformers are ``layer_types`` or the pattern of the model type, ``no_rope_layers``,
``no_rope_layer_interval``, ``sliding_window``, ``use_sliding_window``, ``max_window_layers`` and
``attention_chunk_size``. A row of a model type (models.json) may differ by these fields:
``windows``, keys; ``halved``, if a query sees half of that; ``window`` and ``chunk``, defaults;
``square``, if a window is a square of an image that consists of whole blocks: patches per side of a
block and pixels per side of a patch, each [key, default]; ``shifted``, keys for the number of
tokens before the query (1), or for the first distance without a visible token, plus 1 (-1);
``local``, the types of layers with a window; ``slides``, the layers with a window if
``use_sliding_window`` is true; ``rotation_of``, the rotation of types of layers that have no
rotation under their name; ``order``, the name of a function in `ORDERS` that reads the types of
layers, and its arguments (coded: key, types by number; indexed: key, type of the layers that it
lists, type of the others, default list; slides: by ``slides``);
``every`` [keys for the period of
full_attention]; ``from_end``, the period of layers without positions, counted from the last layer,
with which ``layer_types`` end too;
``dense_turn``, the key that is 1 if dense layers at the start are rotated whatever their type.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, replace
from functools import cache, cached_property, partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Literal

from pefourier.encodings.encoding import Encoding, Finding, finding
from pefourier.encodings.families.absolute import Temperature
from pefourier.encodings.registry import build
from pefourier.encodings.sources.json_object import (
    HEADS,
    LAYERS,
    SINGLE,
    Section,
    TrackedKeys,
)
from pefourier.errors import PefourierError, shown
from pefourier.types import Counts, Fields, Strings, Values, frozen
from pefourier.writing.text import first_few

Sized = tuple[Strings, int | None]  # keys of a size in order of priority, and its default
Pairing = Literal["halves", "neighbours"]
PAIRED: dict[str, Pairing] = {"halves": "halves", "interleaved": "neighbours"}  # by layout


# Facts about a model type, by key; a key that most types lack is for the types that differ.
# rotary, axes (rotates on several axes), learned, sinusoidal, alibi, t5, relative (other biases
# and vectors of lags), convolutional, mixer (no positions), none (no positions found), parts
# (contains a text model), unbuilt (the default config builds no model); or several of these
# kind: str; the first word that names a reader in `READERS` of `model` selects it
# otherwise: str; the reader if `switch` is off
# switch: Sequence[Any]; key, values that switch the rotation on, default
# reader: str; the reader, if it is not that of the kind
# usual: Values; defaults of keys, by key
# only: Values; supported values and the rule for others, by key
# facts: Values; parameters of the rotation: backwards (by -p at position p), trailing (the last
# rows of a head)
# scalings: Sequence[str]; rope_types of this section that transformers lacks
# section: str; the function that reads the section of a rotation in a vendor's words
# temperature: Values; keys of the temperature of queries: scale, floor (default: the length before
# scaling), switch, and the section that has them ("": that of the rotation)
# reason: str; why the type is not supported
# source: str; where the facts come from
# types: str; types of a row by hand
# module: str; class of the rotation
# of: str; folder of that class
# since: int; first major version of transformers with the type
# parts: Mapping[str, str]; inner configs: key, model type
# text: str; key of the inner config of the text model
# inner: Values; that config if the config has none
# beside: Sequence[str]; keys of other parts of the model
#
# sizes: the keys of a config in order of priority, and the default
# size: Sequence[str]; keys of the size of a head
# head: int | None; default size; None: times * width // heads
# times: int
# null: bool; a size that is null means width // heads
# width: Sized
# heads: Sized
# length: tuple[str, int | None]; the longest sequence
# original: int; trained length
# families: Sequence[Values]; training setup of published models, by base
#
# the rotation; defaults are in `USUAL`
# layers: dict[str, dict[str, Any]]; differences by type of layer
# layout: str; halves, interleaved, or the key that decides
# bases: Sequence[str]; keys of the base besides rope_theta of the section
# base: float
# shares: Sequence[str]; keys of the rotated share of a head
# share: float
# scaled_share: float; default share with scaling, if different
# whole: bool; without scaling the whole head is rotated
# fixed: bool; the whole size is rotated, with or without scaling
# added: Values; default keys by rope_type
# rope: Values; default section
# renamed: dict[str, str]; names of scalings
# unread: list[str]; keys that the type ignores
# unscaled: str; why a scaling is refused
# flat: Sequence[str] | None; types of layers that one rope_parameters reaches; None: refused
# scaled: Sequence[str] | None; the same for rope_scaling
# own_base: bool; types of layers keep their base and share
# given_whole: bool; a section without a share rotates the whole head
# softmax: bool; mscale_all_dim scales logits
# sections: Sequence[int]; pairs of each axis
# interleaved: bool | Literal["rows"]; whether axes alternate
# axes: int
# heads_turned: int
# indexer: str; layout of the indexer
#
# layers: see above
# layer_types: Sequence[str]; repeated
# irregular: bool; their order is a formula of the class
# turning: Sequence[str]; types of layers that rotate
# unrotated: Sequence[int]; layers without positions
# still: Sequence[str]; keys of a list with 0 for each layer without positions
# from_end: int
# every: Sequence[str]
# order: Sequence[Any]; the function that reads the types of layers, and its arguments
# rotation_of: Mapping[str, str]
# dense_turn: str
# without_window: str
# window: int | None
# windows: Sequence[str]
# halved: bool
# shifted: Mapping[str, int]
# slides: tuple[str, int]
# local: Sequence[str]
# square: Sequence[tuple[str, int]]
#
# tables, sinusoids and biases
# tables: Sequence[str]; names of learned tables
# first: Any; row of position 0; "padding": after pad_token_id
# tables that limit the input, by side of the model or "" for both; each is a list of sizes that
# add up to its rows (empty: unknown)
# ends: Mapping[str, Sequence[Sized]]
# learned_part: str; the part with a learned table
# table: Values; parameters of the sinusoids
# when: tuple[str, object]; key and value for which sinusoids are computed
# cosines_first: bool
# inside: str; key of the section with alibi
# relative: str; deberta or deberta-v2
# xl: dict[str, Any]; see `model`
# axial: Sequence[Values]; see `model`
# table_beside: tuple[str, int]; points of a learned table beside a rotation: key, default
# resized: list[list[str]]; libraries that resize tables, with their methods
# resized_lags: list[list[str]]
class ModelRow(dict[str, Any]):
    """Facts about a model type, as attributes; a fact that it lacks is None."""

    def __getattr__(self, name: str) -> Any:
        return self.get(name)


@cache
def model_types() -> dict[str, Fields]:
    """Return the row of each model type; the key ``transformers`` holds the version.

    >>> model_types()["opt"]["first"]
    2
    """
    here = Path(__file__)
    rows: dict[str, Fields] = json.loads(here.with_name("models.json").read_bytes())
    return add_groups(rows, json.loads(here.with_name("models_by_hand.json").read_bytes()))


def add_groups(rows: dict[str, Fields], groups: Iterable[Fields]) -> dict[str, Fields]:
    """Add facts to the rows of the ``types`` of each group; the last have priority."""
    for group in groups:
        for kind in group["types"].split():
            rows[kind] = {**rows.get(kind, {}), **group}
    return rows


def type_row(kind: str) -> ModelRow:
    """Return the row of a model type; empty if unknown."""
    return ModelRow(() if kind == "transformers" else model_types().get(kind, ()))


def stand_in(values: Values) -> str:
    """Return a known model type for a config of an unknown type, by its architecture or its keys.

    >>> stand_in({"model_type": "kimi_k2", "architectures": ["DeepseekV3ForCausalLM"]})
    'deepseek_v3'
    """
    architectures = values.get("architectures")
    for name in architectures if isinstance(architectures, list) else ():
        stem = re.sub("(For[A-Z]|Model$|LMHead).*", "", name) if isinstance(name, str) else ""
        if (kind := kinds_by_class().get(stem.lower())) is not None:
            return kind
    candidates = (kind for keys, kind in BY_KEYS.items() if all(values.get(key) for key in keys))
    return next(candidates, "")


BY_KEYS = {  # keys that all model types read in the same way
    ("kv_lora_rank", "qk_rope_head_dim"): "deepseek_v3",
    ("dim", "n_heads", "n_layers", "rope_theta"): "params.json",
}


@cache
def kinds_by_class() -> dict[str, str]:
    """Return model types by the stem of their class names, in lower case."""
    return {re.sub("[-_]", "", kind): kind for kind in sorted(model_types(), reverse=True)}


def family_of(row: ModelRow, base: float, layer: str = "") -> Values:
    """Return the training setup of published models of a type with this base; empty: unknown."""
    families: Sequence[Values] = row.families or ()
    fits = (f for f in families if f["base"] == base and layer in f.get("layers", [layer]))
    return next(fits, {})


def version() -> str:
    """Return the version of transformers that the rows describe."""
    return str(model_types()["transformers"])


def rotary(row: ModelRow, layer: str = "") -> ModelRow:
    """Return the keys and defaults of the rotation of a type of layer.

    >>> rotary(type_row("gemma3_text"), "full_attention").base
    1000000.0
    """
    return ModelRow(USUAL | row | (row.layers or {}).get(layer, {}))


USUAL = {  # keys and defaults of a rotation
    "size": ("head_dim",),
    "times": 1,
    "width": (("hidden_size",), None),
    "heads": (("num_attention_heads",), None),
    "bases": ("rope_theta",),
    "base": 10000.0,
    "shares": (),
    "share": 1.0,
    "added": {},
    "rope": {},
}
USUAL_LENGTH = 80
NESTED = "thinker_config text_config llm_config language_config decoder".split()
WIDTH = tuple("d_model hidden_size n_embd emb_dim dim".split())
ORIGINAL = "original_max_position_embeddings"
LONGEST = tuple(
    """max_position_embeddings n_positions max_source_positions max_target_positions max_seq_len
    seq_length context_length""".split()
)
LENGTHS = tuple(  # other names of the longest sequence, in configs of unknown types
    """max_sequence_length max_seq_length sequence_length seq_len max_context_length max_context_len
    context_len context_window context_size n_ctx block_size max_ctx_len ctx_len sequence_len
    max_len""".split()
)
SYNONYMS = [  # names of one setting
    tuple(names.split())
    for names in (
        """max_position_embeddings n_positions n_ctx max_seq_len max_sequence_length max_seq_length
        seq_length context_length model_max_length""",
        "rope_theta rotary_emb_base",
        "hidden_size n_embd d_model",
        "num_attention_heads n_head n_heads num_heads",
        "head_dim kv_channels",
        "num_hidden_layers n_layer n_layers num_layers",
    )
]


@frozen
class ModelConfig(Section):
    """A model's config, the selected part of it, and the requested sizes."""

    _: KW_ONLY
    file: str
    part: str  # after the #
    kind: str  # model_type
    row: ModelRow  # row of the model type; empty if unknown
    length: int | None = None
    d: int | None = None
    grid: Counts = ()  # requested grid of a vision model; empty: from the config
    prefix: int = 0  # requested rows before it
    is_sketch: bool = False  # whether a learned table without weights has unknown vectors

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or the default of the model type."""
        value = self.values.get(key, default)
        return (self.row.usual or {}).get(key, value) if value is None else value

    @property
    def folder(self) -> str:
        """Return the folder of the file."""
        return str(Path(self.file).parent)

    @property
    def shown_file(self) -> str:
        """Return the name of the file for a message."""
        return shown(self.file)

    @cached_property
    def rope_key(self) -> str:
        """Return the key of the section that sets the rotation."""
        return "rope_scaling" if self.get("rope_scaling") else "rope_parameters"

    def sized(self, keys: Sized) -> int | None:
        """Return a size by the first of its keys that is set, or the default."""
        return self.count(*keys[0]) or keys[1]

    def own(self, name: str, usual: Strings) -> Sized:
        """Return keys and default of a size: the keys of the model type, then the usual keys."""
        keys, default = self.row.get(name) or ((), None)
        return (*keys, *usual), default

    @property
    def width(self) -> int:
        """Return the width of the model."""
        return self.dimension(self.sized(self.own("width", WIDTH)), "width")

    @property
    def query_heads(self) -> int | None:
        """Return the number of query heads in a rotated layer."""
        keys, usual = rotary(self.row, next(iter(self.row.layers or [""]))).heads
        return self.count(*keys, *HEADS) or usual

    @cached_property
    def layer_count(self) -> int:
        """Return the number of layers of all kinds; 0 if not set."""
        single = self.count(*SINGLE, minimum=0) or 0
        return single + (self.count(*LAYERS) or 0)

    def tables(self) -> dict[str, int | None]:
        """Return the rows of tables that limit the input, by side; None: unknown."""
        ends = (self.row.ends or {}).items()
        rows = {side: [self.sized(size) or 0 for size in sizes] for side, sizes in ends}
        return {side: sum(sizes) if sizes and all(sizes) else None for side, sizes in rows.items()}

    @property
    def lengths(self) -> Sized:
        """Return the keys of the longest sequence, and its default."""
        key, default = self.row.length or (LONGEST[0], None)
        others: Strings = () if self.row else LENGTHS
        return (key, *LONGEST, *others), default

    def longest(self) -> int | None:
        """Return the longest sequence that the config allows, or the default of the model type."""
        tables = self.tables()
        usual = next(iter(tables.values()), None)
        return tables.get(self.part, usual) if tables else self.sized(self.lengths)

    @property
    def length_key(self) -> str | None:
        """Return the key of the longest sequence; None if the model type or tables set it."""
        values = self.untracked.values
        return next(filter(values.get, self.lengths[0]), None)

    @property
    def settles_original(self) -> bool:
        """Return whether the length before scaling is set, or known for the published models."""
        own, ended = self.untracked, self.longest()
        sections = (own, own.section("rope_scaling"), own.section("rope_parameters"))
        families = self.row.families or ()
        is_set = any(section.get(ORIGINAL) for section in sections)
        return is_set or ended in [family.get("ended", 0) for family in families]

    @property
    def stated(self) -> tuple[str, int] | None:
        """Return the key and the value of the longest sequence in the config."""
        key, longest = self.length_key, self.longest()
        return None if key is None or longest is None or self.tables() else (key, longest)

    def dimension(self, value: int | None, keys: str) -> int:
        """Return the dimension of the config, or the requested dimension if it sets none."""
        d, keys = self.d if value is None else value, self.spelled(keys)
        if d is None:
            raise PefourierError(f"{self.shown_file} sets no {keys}; give the dimension by --d")
        if self.d not in (None, d):
            statement = f"{self.shown_file} sets a dimension of {value} ({keys})"
            raise PefourierError(f"{statement}, which contradicts --d {self.d}; leave out --d")
        return d

    def build(self, name: str, d: int, *findings: Finding, **parameters: Any) -> Encoding:
        """Build a registered encoding, by default with the longest length of the config."""
        length = self.longest() if self.length is None else self.length
        if length is None:
            length = USUAL_LENGTH
            findings = (*findings, finding("length-default", config=self.label, length=length))
        return self.named(findings, name, length=length, d=d, **parameters)

    def named(self, findings: Iterable[Finding], name: str, **parameters: Any) -> Encoding:
        """Build a registered encoding with findings about the config."""
        try:
            enc = build(name, **parameters)
        except PefourierError as error:
            raise PefourierError(f"{self.shown_file}: {error}") from error
        own = replace(enc, findings=tuple(findings))
        return noted(own, *enc.findings, path=self.file, model_type=self.kind)


def noted(enc: Encoding, *findings: Finding, **facts: Any) -> Encoding:
    """Return an encoding with further findings, and parameters."""
    return replace(enc, params={**enc.params, **facts}, findings=(*enc.findings, *findings))


def first_names(names: Iterable[str]) -> str:
    """Return the first of some names, escaped for a terminal."""
    return first_few([shown(name)[1:-1] for name in names], 8)


def choose_part(config: Section, part: str) -> tuple[Section, str, str]:
    """Return the section of the selected config, its model_type, and the rest of the part.

    A part may begin with the names of inner configs, ``vision_config`` or ``text_config.sliding``.
    Otherwise the text model's config is selected.
    """
    kind = model_type(config, "")
    while True:
        row = type_row(kind)
        inner = row.parts or {}
        name, _, remainder = part.partition(".")
        if name and (name in inner or (name.endswith("_config") and name in config.values)):
            part = remainder
        elif part.endswith(("pos_embed", "pos_embed.weight")) and "vision_config" in inner:
            name = "vision_config"  # a tensor of the tower
        else:
            inside = (k for k in NESTED if isinstance(config.get(k), dict))
            name = row.text or next(inside, "")
        if not name:
            return config, kind if row else stand_in(config.values) or kind, part
        usual = inner.get(name, "")
        text = name == row.text and name not in config.values
        if text and row.flat:
            kind = usual
            continue
        config = config.section(name)
        values = row.inner or {} if text else config.values
        config = replace(config, values=TrackedKeys(values))
        stated = model_type(config, usual)
        kind = usual if usual and stated == kind else stated  # as in towers of Qwen2.5-VL


def as_timm(values: Fields) -> Fields:
    """Convert a config of timm to the keys of transformers; return other configs unchanged.

    The patch is in the name of the architecture.

    >>> trained = {"input_size": [3, 32, 48]}
    >>> config = as_timm({"architecture": "vit_tiny_patch8_224", "pretrained_cfg": trained})
    >>> config["patch_size"], config["image_size"]
    (8, [3, 32, 48])
    """
    name, inner = values.get("architecture"), values.get("pretrained_cfg")
    is_timm = values.get("model_type", "timm_wrapper") == "timm_wrapper"
    if not (is_timm and isinstance(name, str) and isinstance(inner, dict)):
        return values
    own = values.get("model_args")
    image = own.get("img_size") if isinstance(own, dict) else None
    sizes: Fields = {"image_size": image or inner.get("input_size")}
    if patch := re.search(r"patch(\d{1,4})", name):
        sizes |= {"patch_size": int(patch[1]), "patched": bool(sizes["image_size"])}
    kind = "swinv2" if name.startswith("swinv2") else "timm_wrapper"
    return {**values, "model_type": kind, **sizes}


def model_type(config: Section, usual: str) -> str:
    """Return the model_type, or the class name, of a config."""
    kind = config.get("model_type", config.get("_class_name", usual))
    if not isinstance(kind, str):
        raise config.wrong("model_type", kind, "a string")
    return kind or usual


RECURRENT = ("linear_attention", "mamba", "conv", "recurrent", "kda")  # types without positions
TYPES = ("layer_types", "layers_block_type", "attention_layers")
LOCAL = ("sliding", "local")  # parts of the names of types of layers with a window
SLIDING, FULL = "sliding_attention", "full_attention"


@frozen
class LayerRun:
    """Layers with equal positions."""

    index: Counts  # layer numbers; empty if unknown
    kind: str  # rotary, none, or empty for the kind of the whole model
    part: str  # the type of layer that names its rotation; empty if all layers share a rotation
    window: int | None  # positions that a query sees; None: all


def layer_schedule(model: ModelConfig, rotations: Collection[str] | None) -> list[LayerRun]:
    """Return runs of layers in the order of their first layer, without a kind if nothing rotates.

    `rotations` are the types of layers with separate rotations, "" for all layers; None: the model
    does not rotate. If neither config nor model type sets types of layers, all layers are equal. If
    the part names a type of layer, only layers of that type are listed.
    """
    number = model.layer_count
    rotary, sections = rotations is not None, rotations or ()
    by_type, called = rotary and "" not in sections, model.row.rotation_of or {}
    kinds, laid = layer_types(model, number)
    if by_type and not kinds:
        kinds, laid = list(sections), False
    unrotated, dense = layers_without_positions(model, number), dense_layers(model)
    kinds = kinds or [""] * max(number, 1)
    rotating = {kind for kind in set(kinds) if rotates_by_type(model, kind)}
    runs: dict[LayerRun, list[int]] = {}
    for i, kind in enumerate(kinds):
        part = called.get(kind, kind) if by_type else ""
        has_rotation = part in sections or not model.row  # else without positions
        rotates = rotary and has_rotation and (i < dense or kind in rotating) and i not in unrotated
        run_kind = "rotary" if rotates else "none" if rotary else ""
        run = LayerRun((), run_kind, part if rotates else "", window_of(model, kind, i))
        runs.setdefault(run, []).append(i)
    placed_runs = [
        replace(run, index=tuple(index) if number and laid else ()) for run, index in runs.items()
    ]
    selected = [run for run in placed_runs if by_type and run.part == model.part != ""]
    return selected or placed_runs


def layer_types(model: ModelConfig, number: int) -> tuple[list[str], bool]:
    """Return the type of each layer, and whether the types are in the order of layers.

    Without a number of layers, each type is listed once. Empty if there are no types.
    """
    row = model.row
    name, *settings = row.order or [""]
    once = stated_types(model.values) or (ORDERS[name](model, number, *settings) if name else [])
    if not once:
        once = row.layer_types or []
        if row.irregular:  # a formula of the class
            return once, False
        interval = model.count(*(row.every or EVERY))
        if interval and FULL in once and len({*once}) == 2:
            windowed = [*({*once} - {FULL})] * min(interval - 1, number or 1)
            once = [FULL, *windowed] if once[0] == FULL else [*windowed, FULL]
        first = [FULL] * min(dense_layers(model), number)
        start = -number % len(once) if row.from_end and once else 0
        laid = islice(cycle(once), start, start + number - len(first))
        once = [*first, *laid] if number else once
    return (once[:number], True) if number else (list(dict.fromkeys(once)), False)


EVERY = ("sliding_window_pattern", "global_attn_every_n_layers")  # keys of the period of full


def coded_types(model: ModelConfig, _: int, key: str, types: Mapping[str, str]) -> list[str]:
    """Return the type of each layer from a number for each layer, as in DeepSeek-V4."""
    codes = [] if model.get(key) is None else model.get(key)
    if not isinstance(codes, list) or any(str(code) not in types for code in codes):
        raise model.wrong(key, codes, f"a list of {', '.join(types)}, one for each layer")
    return [types[str(code)] for code in codes]


def indexed_types(
    model: ModelConfig, number: int, key: str, listed: str, other: str, usual: list[int] | None
) -> list[str]:
    """Return the type of each layer from the numbers of the layers of one type; null: all."""
    entries = usual if model.get(key) is None else model.get(key)
    if not isinstance(entries, list | None) or any(type(i) is not int for i in entries or ()):
        raise model.wrong(key, entries, "a list of layer numbers")
    return [listed if entries is None or i in entries else other for i in range(number)]


def dense_layers(model: ModelConfig) -> int:
    """Return the number of dense first layers that rotate whatever their type, as in Cohere."""
    key = model.row.dense_turn
    if not key or model.get(key, 1) != 1:
        return 0
    kinds = model.get("mlp_layer_types")
    if isinstance(kinds, list):
        return next((i for i, kind in enumerate(kinds) if kind != "dense"), len(kinds))
    return model.count("first_k_dense_replace", minimum=0) or 0


def stated_types(values: Values) -> list[str]:
    """Return the type of each layer from a config; empty if it sets no types."""
    for key in TYPES:
        types = values.get(key)
        if isinstance(types, list) and types and all(isinstance(name, str) for name in types):
            return types
    return []


def sliding_or_not(model: ModelConfig, number: int) -> list[str]:
    """Return the type of each layer if the config has a switch for windows, as in Qwen."""
    rule, first = model.row.slides
    if rule != "after" and model.get("use_sliding_window") is not True:
        return [FULL] * number
    stated = model.count("max_window_layers", minimum=0)
    first = first if stated is None else stated
    sliding: Collection[int] = range(first, number)  # rules from and after
    if rule == "even":
        sliding = range(0, first, 2)
    elif rule == "still":
        sliding = layers_without_positions(model, number)
    return [SLIDING if rule == "all" or i in sliding else FULL for i in range(number)]


ORDERS: dict[str, Callable[..., list[str]]] = {  # of layers, by the name in a row
    "coded": coded_types,
    "indexed": indexed_types,
    "slides": sliding_or_not,
}


def window_of(model: ModelConfig, kind: str, layer: int) -> int | None:
    """Return the number of positions that a query of a layer sees, if it is of a kind."""
    row = model.row
    if "chunked" in kind:
        return model.count("attention_chunk_size")
    local = row.get("local", LOCAL)
    is_local = any(name in kind for name in local) if kind else local
    # else the class has no window, or not here
    has_window = is_local and (not row or {"window", "windows", "slides", "square"} & row.keys())
    has_switch = not row or (row.slides or ["after"])[0] != "after"
    if not has_window or (has_switch and model.get("use_sliding_window", not row) is False):
        return None
    keys = row.windows or ("sliding_window",)
    key = next((key for key in keys if key in model.values), keys[0])
    window = model.get(key, row.window)
    if key not in model.values and not row.square:
        usual: int | None = window
        return usual
    if isinstance(window, list):  # one per layer
        window = window[layer] if layer < len(window) else None
    size = replace(model, values={key: window}).count(key, minimum=-1) or 0
    if row.square:
        block, pixels = (model.count(key) or usual for key, usual in row.square)
        return int((max(size, 0) // (block * pixels) * block) ** 2) or None
    size += (row.shifted or {}).get(key, 0)  # plus the query itself
    return size // (2 if row.halved else 1) if size > 0 else None


def layers_without_positions(model: ModelConfig, number: int) -> set[int]:
    """Return the layers without positions in a rotary model."""
    row = model.row
    keys = row.still or (("no_rope_layers",) if row.unrotated else ())
    keys = keys if row else ("no_rope_layers", "layer_rope_theta")
    flags = next(filter(None, map(model.get, keys)), None)
    if isinstance(flags, list):  # 1, or a base, if a layer rotates
        return {i for i, rotates in enumerate(flags) if not rotates}
    if row.from_end:
        return set(range(number - 1, -1, -row.from_end))
    usual = row.unrotated or []
    if len(usual) < 2:
        return set(usual)
    step = model.count("no_rope_layer_interval") or usual[1] - usual[0]
    return set(range(step - 1, number, step))


def rotates_by_type(model: ModelConfig, kind: str) -> bool:
    """Return whether layers of a type rotate.

    Some model types decide by the window: without a window, all layers of EXAONE rotate, and no
    layers of Cohere.
    """
    row = model.row
    if any(name in kind for name in RECURRENT):
        return False
    if row.without_window and model.get("sliding_window", ...) is None:
        return bool(row.without_window == "all")
    return kind in (row.turning or [kind])


def read_temperature(model: ModelConfig, length: int) -> Temperature | None:
    """Return how queries grow with their position; None if they do not."""
    keys, section = ModelRow(model.row.temperature or {}), Section("", {})
    if keys:
        section = model if keys.section is None else model.section(keys.section or model.rope_key)
    if keys.section == "" and not section.values:
        section = Section(model.rope_key, model.row.rope or {})
    scale, floor = section.number(keys.scale or ""), section.count(keys.floor or ORIGINAL)
    if not scale or not floor or not model.get(keys.switch, default=True):
        return None
    layers = "without positions" if keys.switch else "all"
    return Temperature(layers, scale, floor, int("switch" in keys)).over(length)


def lint_layers(model: ModelConfig, runs: Sequence[LayerRun], trained: int) -> Iterator[Finding]:
    """Yield findings about mistakes in the layers of a config, and about a rotated indexer."""
    says = partial(finding, config=model.label, kind=shown(model.kind))
    # a majority of layers without positions in a model type that has few
    switches, number = model.get("no_rope_layers"), model.layer_count
    step: Sequence[int] = model.row.unrotated or ()
    if isinstance(switches, list) and number and len(step) > 1:
        unrotated, usual = sum(not rotates for rotates in switches), number // (step[1] - step[0])
        if unrotated > max(number / 2, usual):
            yield says("layers-inverted", unrotated=unrotated, number=number, usual=usual)
    # windows in all layers of a model type that has layers with full attention
    windows = [run.window or trained for run in runs for _ in run.index]  # 0 is no window
    is_stated = FULL in (model.row.layer_types or ()) and stated_types(model.values)
    if is_stated and windows and (widest := max(windows)) < trained:
        layers, reach = len(windows), sum(windows) - len(windows)
        yield says("layers-no-global", layers=layers, reach=reach, widest=widest, trained=trained)
    if model.row.indexer:
        layouts = (model.row.indexer, model.row.layout or "halves")
        indexed, attended = map(PAIRED.get, layouts)
        yield finding("rope-indexer", indexed=indexed, attended=attended)
