"""A config is answered with what transformers computes, or it is refused.

The law covers every model type of the installed transformers: its default config as saved, only
its differences from the class, its config without the keys of a rotation, and the type alone; the
default config with each usual key changed; and configs of real models. Frequencies and attention
factors of each type of layer agree to 1e-6 in float32. The tests count the types that agree, those
that are refused, by reason, and those that transformers cannot build from their defaults.
"""

import inspect
import json
from collections import Counter
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from published_configs import PUBLISHED
from refusals import refusal
from rotary_modules import TYPES, config_class, modeling, quiet, rotations, torch

from pefourier import context
from pefourier.encodings import load
from pefourier.encodings.loader import open_model
from pefourier.encodings.registry import BUILDERS
from pefourier.encodings.sources.huggingface import PAIRED, type_row, version
from pefourier.errors import PefourierError
from pefourier.nn import Rotary

KEYS = (
    *("rope_parameters", "rope_scaling", "rope_theta", "partial_rotary_factor", "rotary_pct"),
    *("rotary_emb_base", "rope_local_base_freq", "global_rope_theta", "local_rope_theta"),
)
LINEAR = {"type": "linear", "factor": 4.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
LLAMA3 = {
    **{"rope_type": "llama3", "rope_theta": 3e5, "factor": 4.0, "low_freq_factor": 1.0},
    **{"high_freq_factor": 4.0, "original_max_position_embeddings": 1024},
}
CHANGES = {
    "old keys, linear": {"rope_theta": 5e5, "rope_scaling": LINEAR},
    "old keys, yarn": {"rope_theta": 5e5, "rope_scaling": YARN},
    "new keys, llama3": {"rope_parameters": LLAMA3},
    "partial": {"partial_rotary_factor": 0.5},
    "head": {"head_dim": 48},
    "no head": {"head_dim": None},
}


def module_of(kind, config):
    """Return the rotary module of a model type, or None."""
    row = type_row(kind)
    if "module" not in row:
        return None
    source = row.get("of")
    place = f"transformers.models.{source}.x" if source else type(config).__module__
    place = place.replace(".x", f".configuration_{source}")
    return getattr(modeling(place), row.module)


def text_row(values):
    """Return the row of the text model of a config."""
    row = type_row(values["model_type"])
    while row.kind == "parts":
        inner = values.get(row.text) or {}
        kind = inner.get("model_type", row.parts[row.text])
        values, row = inner, type_row(kind)
    return row


def own_rotations(values, path):
    """Return the rotations that transformers computes for a config, or None without any."""
    if "module" not in text_row(values):
        return None
    with quiet():
        cls = config_class(values["model_type"])
        config = cls.from_dict(cls._dict_from_json_file(str(path)))
        while type_row(config.model_type).kind == "parts":
            config = getattr(config, type_row(config.model_type).text)
    module = module_of(config.model_type, config)
    return None if module is None else rotations(module, config)


def verdict(values, path, tolerance=1e-6):
    """Yield `agrees`, `differs` or the reason of a refusal for each type of layer of a config."""
    path.write_text(json.dumps(values))
    try:
        own = own_rotations(values, path)
    except Exception:
        yield "transformers fails"
        return
    for layer, (waves, factor) in (own or {"": (None, 1.0)}).items():
        try:
            enc = load(f"{path}#{layer}" if layer else str(path), length=64)
        except PefourierError:
            yield "refused"
            continue
        if waves is None:
            needless = enc.name == "rope" and text_row(values)["kind"] != "rotary"
            yield "rotates where nothing does" if needless else f"is {enc.name}"
            continue
        if enc.name == "none" and values["model_type"] in SWITCHED_OFF:
            yield "is none"
            continue
        reported, frequencies = reported_frequencies(enc), waves
        if text_row(values).get("interleaved") == "rows":
            wanted = np.sort(frequencies)[::-1]  # sorted, as DeepSeek sorts frequencies
        elif enc.name == "axial-rope":
            wanted = np.unique(frequencies / frequencies.max())
        else:
            wanted = frequencies
        same = reported.shape == wanted.shape and np.allclose(
            reported, wanted, rtol=tolerance, atol=0
        )
        close = same and abs(enc.params.get("attention_factor", 1.0) / factor - 1) < tolerance
        yield "agrees" if close else "differs"


SWITCHED_OFF = {"granitemoehybrid", "zamba2"}  # these models rotate only if a key is set


def reported_frequencies(enc):
    """Return the frequencies of an encoding; on axes, those of all axes over the largest."""
    if enc.name == "axial-rope":
        rotating = np.abs(enc.measure.frequencies).max(axis=1)
        return np.unique((rotating / rotating.max()).round(12))
    return enc.measure.frequencies if enc.name in ("rope", "xl") else np.empty(0)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)  # later tests share the cores among processes


def saved(kind):
    """Return the default config as saved, and only its differences from the class."""
    with quiet():
        config = config_class(kind)()
        whole = json.loads(config.to_json_string(use_diff=False))
        return whole, json.loads(config.to_json_string(use_diff=True))


def count(configs, path, tolerance=1e-6):
    """Count the configs by verdict, and list those that differ."""
    counts, different = Counter(), []
    for name, values in configs:
        for found in verdict(values, path, tolerance):
            counts[found] += 1
            if found in ("differs", "rotates where nothing does"):
                different.append(f"{name}: {found}")
    print(json.dumps(counts, indent=1))
    return counts, different


def turned_by_its_model(module, config, layer, q, k, layout):
    """Rotate queries and keys with a model's source code, called as its attention calls it."""
    code = modeling(type(config).__module__)
    positions = torch.arange(q.shape[2]).expand(len(q), -1)
    with quiet():
        made = module(config)
        waves = made(q, positions, layer) if layer else made(q, positions)
    if not isinstance(waves, tuple):  # complex numbers
        if config.model_type.startswith("llama4"):  # heads after positions
            rotated = code.apply_rotary_emb(q.transpose(1, 2), k.transpose(1, 2), waves)
            return [x.transpose(1, 2) for x in rotated]
        return code.apply_rotary_emb(q, k, waves)
    beside = getattr(code, "apply_rotary_pos_emb_interleave", None)
    turn = beside if beside and layout == "interleaved" else code.apply_rotary_pos_emb
    if "q" not in inspect.signature(turn).parameters:  # one at a time
        return [turn(x, *waves) for x in (q, k)]
    try:
        return turn(q, k, *waves)
    except RuntimeError:  # the rotated part is cut out before
        r = waves[0].shape[-1]
        rotated = turn(q[..., :r], k[..., :r], *waves)
        return [torch.cat([y, x[..., r:]], -1) for y, x in zip(rotated, (q, k), strict=True)]


def turned_alike(kind, path):
    """Yield `same`, `differs` or a reason for each type of layer, comparing logits.

    The comparison of `nn.Rotary` with the model uses logits, because some models return rotated
    neighbours in the order of halves.
    """
    values, _ = saved(kind)
    path.write_text(json.dumps(values))
    with quiet():
        cls = config_class(kind)
        config = cls.from_dict(cls._dict_from_json_file(str(path)))
    try:
        module = module_of(kind, config)
    except AttributeError:  # needs a package that is not installed
        return
    for layer in rotations(module, config):
        try:
            rotary = Rotary(str(path), layer_type=layer or None)
        except PefourierError as error:
            yield f"refused: {error}"
            continue
        pairing = open_model(str(path)).pairing
        assert PAIRED[rotary.layout] == pairing
        q, k = torch.randn(2, 1, 2, 9, rotary.d, generator=torch.Generator().manual_seed(0))
        try:
            own = turned_by_its_model(module, config, layer, q, k, rotary.layout)
        except (AttributeError, TypeError, RuntimeError, ValueError):
            yield "called otherwise"
            continue
        one, other = (a @ b.mT for a, b in (own, rotary.rotate(q, k)))
        yield "same" if torch.allclose(one, other, rtol=1e-4, atol=1e-4) else "differs"


def some_and_all(kinds, least):
    """Parametrize over every sixteenth kind, and over all kinds in `make test-all`.

    `least` is the smallest number of kinds that must agree among all kinds.
    """
    some = kinds[5::16]
    whole = pytest.param(kinds, least, id="all", marks=pytest.mark.long)
    part = pytest.param(some, least * len(some) // (2 * len(kinds)), id="some")
    return pytest.mark.parametrize(("kinds", "least"), [part, whole])


def defaults(kinds):
    for kind in kinds:
        yield f"{kind}, nothing", {"model_type": kind}
        try:
            whole, changed = saved(kind)
        except Exception:  # two types cannot be built from their defaults
            continue
        yield kind, whole
        yield f"{kind}, what differs", changed
        yield f"{kind}, no rope", {k: v for k, v in whole.items() if k not in KEYS}


def test_rows_are_of_the_installed_transformers():
    import transformers

    assert version() == transformers.__version__, "run make models"
    assert {kind for kind in TYPES if not type_row(kind)} == set()


@some_and_all(TYPES, 1000)
def test_every_model_type_is_answered_as_transformers_computes_or_refused(kinds, least, tmp_path):
    counts, different = count(defaults(kinds), tmp_path / "config.json")
    assert different == []
    assert counts["agrees"] > least


def variants(kinds):
    for kind in kinds:
        row = type_row(kind)
        if row.kind != "rotary":
            continue
        whole, _ = saved(kind)
        whole |= {row.switch[0]: row.switch[1][0]} if "switch" in row else {}
        bare = {key: value for key, value in whole.items() if key not in KEYS}
        yield f"{kind}, switched on", whole
        for name, change in CHANGES.items():
            yield f"{kind}, {name}", {**bare, **change}


SECTIONS = (
    {"rope_type": "linear", "factor": 8.0},
    {"rope_type": "default"},
    {**YARN, "partial_rotary_factor": 0.5},
)


def by_layer(kinds):
    for kind in kinds:
        for section in SECTIONS if "layers" in type_row(kind) else ():
            layers = {
                layer: {**section, "rope_theta": 500.0 * 10**i}
                for i, layer in enumerate(type_row(kind).layers)
            }
            values = {"model_type": kind, "rope_parameters": layers}
            yield f"{kind}, {section['rope_type']}", values
            if type_row(kind).get("flat", []) is not None:
                yield f"{kind}, one {section['rope_type']}", {**values, "rope_parameters": section}


@some_and_all(TYPES, 1000)
def test_changed_keys_count_as_in_transformers(kinds, least, tmp_path):
    counts, different = count(
        [*variants(kinds), *by_layer(kinds)], tmp_path / "config.json", tolerance=5e-6
    )
    assert different == []
    assert counts["agrees"] > least


SIZES_BY_LAYER = ({}, {"05": {"head_dim": 32}}, {"0": {"head_dim": 32}, "5": {"head_dim": 96}})


def test_heads_by_layer_count_as_in_transformers(tmp_path):
    types = ["sliding_attention"] * 5 + ["full_attention"]
    own = {"head_dim": 64, "global_head_dim": None, "num_hidden_layers": 6, "layer_types": types}
    configs = [
        (kind, {"model_type": kind, **own, "per_layer_config": sizes})
        for kind in ("gemma4_text", "gemma4_unified_text", "diffusion_gemma_text", "olmo3")
        for sizes in SIZES_BY_LAYER
    ]
    counts, different = count(configs, tmp_path / "config.json")
    assert different == []
    assert counts["agrees"] >= 12
    (tmp_path / "config.json").write_text(json.dumps(configs[2][1]))
    with refusal(r"for 'sliding_attention'; got \[32, 64\]"):
        load(f"{tmp_path / 'config.json'}#sliding_attention")


NOT_TURNED = {  # types whose defaults are refused, and part of the error
    **dict.fromkeys(("glm4v_moe_text", "glm4v_text", "glm_image_text"), "must be three numbers"),
    "qwen3_omni_moe_text": "needs an even d; got d=73",  # these fail in transformers too
    **dict.fromkeys(("granitemoehybrid", "zamba2"), "expected a rotation"),
    "esm": "are learned",
}
ROTARY = [k for k in TYPES if type_row(k).kind == "rotary" and "module" in type_row(k)]
ROTARY.sort(key=lambda kind: type_row(kind).get("layout", "halves"))  # some kinds of each layout


@some_and_all(ROTARY, 150)
def test_the_module_rotates_as_the_model_does(kinds, least, tmp_path):
    found = {kind: list(turned_alike(kind, tmp_path / "config.json")) for kind in kinds}
    print(json.dumps(found, indent=1))
    assert [kind for kind, ways in found.items() if "differs" in ways] == []
    without = {"hunyuan_vl_text", "internlm3", "iquestcoder"}  # functions not callable alone
    assert {kind for kind, ways in found.items() if "called otherwise" in ways} <= without
    refused = {kind for kind, ways in found.items() if "refused" in str(ways)}
    assert [k for k in refused if NOT_TURNED.get(k, "unexplained") not in str(found[k])] == []
    assert sum(ways.count("same") for ways in found.values()) >= least


def sines_of(kind, n, d):
    """Return a table of sinusoids from a model's source code."""
    module = modeling(config_class(kind).__module__)
    if kind == "whisper":
        return module.sinusoids(n, d)
    if kind == "ctrl":
        return module.positional_encoding(n, d, torch.float)
    if kind == "videomae":
        return module.get_sinusoid_encoding_table(n, d)[0]
    (cls,) = (v for k, v in vars(module).items() if k.endswith("SinusoidalPositionalEmbedding"))
    given = inspect.signature(cls.__init__).parameters
    if kind == "pegasus_x":
        return cls(d)(torch.zeros(1, n, d))[0]
    made = cls(n, d, padding_idx=1) if "padding_idx" in given else cls(n, d)
    if hasattr(made, "create_weight"):
        return made.create_weight()
    if hasattr(made, "get_embedding"):
        own = [n, d, 1] if "padding_idx" in given else [n, d]
        return made.get_embedding(*own)
    return made.weight


SINES = [k for k in TYPES if type_row(k).kind.startswith("sinusoidal") and "table" in type_row(k)]


@pytest.mark.parametrize("kind", SINES)
@pytest.mark.filterwarnings("ignore")
def test_sinusoids_are_those_of_the_model(kind, config):
    """The table equals that of the model from the row of its first token on."""
    keys = dict.fromkeys(("d_model", "hidden_size", "n_embd", "num_mel_bins"), 64)
    enc = load(config({"model_type": kind, **keys, "pad_token_id": 1}), length=30)
    first = enc.params["offset"]
    own = np.asarray(sines_of(kind, 30 + first, 64).detach(), dtype=float)
    assert_allclose(enc.table(), own[first : first + 30], atol=1e-5)


ENDING = ("marian", "pegasus", "distilbert", "xlm", "flaubert", "ctrl", "led")
GROWING = ("pegasus_x", "fsmt", "m2m_100", "nllb-moe", "xglm", "trocr")


@pytest.mark.parametrize("kind", ENDING + GROWING)
def test_a_table_ends_where_the_model_refuses_more(kind, config):
    """A table of 12 rows ends at 12 tokens, as in transformers, unless the model's table grows."""
    own = {f"max_{side}position_embeddings": 12 for side in ("", "encoder_", "decoder_")}
    own |= {"n_positions": 12, "sinusoidal_embeddings": True, "sinusoidal_pos_embds": True}
    own |= {"use_learned_position_embeddings": False, "hidden_size": 16, "d_model": 16}
    path = config({"model_type": kind, **own})
    reported = [context(path, length=n).verdict for n in (12, 13)]
    assert reported == (["any length"] * 2 if kind in GROWING else ["fixed length", "too few rows"])


@pytest.mark.parametrize("kind", ["informer", "autoformer", "time_series_transformer"])
def test_series_have_rows_for_what_is_known_and_what_is_requested(kind, config):
    module = modeling(config_class(kind).__module__)
    values = {"context_length": 10, "prediction_length": 7, "d_model": 16}
    encoders = ("TransformerEncoder", "InformerEncoder", "AutoformerEncoder")
    (encoder,) = (v for k, v in vars(module).items() if k.endswith(encoders))
    meant = config_class(kind)(**values, lags_sequence=[1], feature_size=3)
    rows = encoder(meant).embed_positions.num_embeddings
    found = context(config({"model_type": kind, **values}))
    assert (found.verdict, found.held) == ("fixed length", rows)


@pytest.mark.parametrize("kind", ["bloom", "falcon", "mpt"])
def test_biases_of_alibi_are_those_of_the_model(kind, config):
    """The slopes of 6 heads, not a power of two, multiply the position of the key."""
    values = {"model_type": kind, "n_head": 6, "n_heads": 6, "num_attention_heads": 6}
    values |= {"alibi": True, "attn_config": {"alibi": True}}
    module = modeling(config_class(kind).__module__)
    if kind == "mpt":
        own = module.build_mpt_alibi_tensor(6, 10)[:, 0]
    else:
        own = module.build_alibi_tensor(torch.ones(1, 10), 6, torch.float32)[:, 0]
    biases = load(config(values), length=10).table()  # of lags key - query, up to 0
    apart = np.asarray(own, dtype=float).T  # (keys, heads), relative to the last query
    assert_allclose(biases[-10:] - biases[-1], apart - apart[-1], atol=1e-5)


@pytest.mark.parametrize("mscale_all_dim", [0.707, 1.0])
@pytest.mark.parametrize("kind", [k for k in TYPES if type_row(k) and type_row(k).get("softmax")])
def test_the_factor_of_the_softmax_is_that_of_the_attention(kind, mscale_all_dim, config):
    """The factor equals yarn_apply_mscale of the model: 1.590 for V2-Lite, 1.874 for V3."""
    scaling = {"type": "yarn", "factor": 40.0, "mscale": 1.0, "mscale_all_dim": mscale_all_dim}
    scaling["original_max_position_embeddings"] = 4096
    given = {"rope_theta": 1e4, "partial_rotary_factor": 1.0, **scaling, "rope_type": "yarn"}
    values = {"model_type": kind, "head_dim": 64, "max_position_embeddings": 163840}
    path = config({**values, "rope_parameters": given})
    own = modeling(config_class(kind).__module__).yarn_apply_mscale(given, 1.0)
    assert load(path, length=8).params["softmax_factor"] == pytest.approx(own, rel=1e-12)


@pytest.mark.parametrize(
    ("kind", "own"), [("gptj", {"rotary_dim": 32}), ("codegen", {}), ("roformer", {})]
)
def test_models_without_a_rotary_module_turn_by_their_own_table(kind, own, config):
    module = modeling(f"transformers.models.{kind}.configuration_{kind}")
    if kind == "roformer":
        table = module.RoFormerSinusoidalPositionalEmbedding(30, 64).create_weight().numpy()
    else:
        table = module.create_sinusoidal_positions(30, own.get("rotary_dim", 64)).numpy()
    path = config({"model_type": kind, **own})
    vectors = load(path, length=30).table()  # cosine and sine of each pair
    pairs = table.shape[1] // 2
    assert_allclose(vectors[:, 1::2], table[:, :pairs], atol=3e-6)
    assert_allclose(vectors[:, 0::2], table[:, pairs:], atol=3e-6)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_configs_are_answered_as_transformers_computes(name, tmp_path):
    values = PUBLISHED[name]
    found = list(verdict(values, tmp_path / "config.json"))
    assert set(found) == {"agrees"}


def reported(spec):
    """Return the answer to a SPEC, or that it is refused."""
    try:
        enc = load(spec, length=32)
    except PefourierError:
        return "refused"
    frequencies = [] if not enc.measure else enc.measure.frequencies.tolist()
    return enc.name, enc.dim, frequencies, enc.params.get("layout"), enc.params.get("offset")


PARTS = [kind for kind in TYPES if type_row(kind).kind == "parts"]


@some_and_all(PARTS, 150)
def test_a_part_of_a_config_is_what_its_own_type_is(kinds, least, tmp_path):
    """``config.json#vision_config`` equals the config of that part on its own, for all types."""
    path, alone, seen, different = tmp_path / "config.json", tmp_path / "part.json", Counter(), []
    for kind in kinds:
        try:
            whole, _ = saved(kind)
        except Exception:
            continue
        path.write_text(json.dumps(whole))
        for part, usual in type_row(kind).parts.items():
            inner = whole.get(part)
            if not isinstance(inner, dict) or not type_row(inner.get("model_type", usual)):
                continue
            alone.write_text(json.dumps({"model_type": usual, **inner}))
            one, other = reported(f"{path}#{part}"), reported(str(alone))
            seen[other if isinstance(other, str) else f"is {other[0]}"] += 1
            if one != other:
                different.append(f"{kind}#{part}: {one} for {other}")
    print(json.dumps(seen, indent=1))
    assert different == []
    assert seen.total() > least


COMMANDS = (  # that read a SPEC, with the options that they need
    *("context", "spectrum", "check-faithful", "relations", "compare rope", "reconstruct --pos 1"),
    *("encode --out -", "design --to 4096 --extend-from"),
)


@some_and_all(sorted({*TYPES, *BUILDERS}), 0)
def test_every_command_answers_or_refuses_every_type_and_encoding(kinds, least, written, run):
    assert len(kinds) > least
    for kind in kinds:
        specs = [kind] if kind in BUILDERS else []
        if kind in TYPES:
            specs.append(written(dict(defaults([kind])).popitem()[1]))
        for spec, command in product(specs, COMMANDS):
            length = () if "design" in command else ("--length", "12")
            assert run(*command.split(), spec, *length).status <= 2, (command, kind)
