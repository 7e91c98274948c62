"""Extensions equal published rows and transformers' modules; pairs with new angles are counted."""

from contextlib import suppress

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from published_configs import PUBLISHED, sized
from refusals import refusal
from transformers import AutoConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from pefourier.encodings import load
from pefourier.encodings.registry import BUILDERS
from pefourier.errors import PefourierError
from pefourier.questions.context import describe_context
from pefourier.questions.extend import Settings, bound_of, extend, settings_for, whole_layers
from pefourier.writing.page import labelled_fields

QWEN = "Qwen/Qwen2.5-7B-Instruct, with its YaRN"


def ways(result):
    return {extension.way: extension for extension in result.ways}


def test_yarn_of_qwen_is_the_published_one():
    """The bands, bounds and cosines of Qwen's YaRN are the published values."""
    result = extend("rope:rho=1e6", 131072, trained=32768, d=128)
    yarn = ways(result)["yarn"]
    bands = [(band.treatment, band.pairs) for band in yarn.bands]
    assert bands == [("kept", 24), ("blended", 16), ("stretched", 24)]
    assert yarn.band_counts == "24/16/24"
    bounds = {way.way: way.bound for way in result.candidates}
    assert (bounds["yarn"], bounds["unchanged"]) == (66234, 27115)
    assert (yarn.below[".99"], yarn.below[".9"]) == (743, 2453)
    assert_allclose([c for _, c in yarn.cosine], [0.9997, 0.981, 0.766], atol=6e-4)
    assert yarn.attention_factor == pytest.approx(0.1 * np.log(4) + 1)
    best = max(result.scaled, key=lambda way: (-way.unseen, way.below[".99"]))
    assert result.chosen == best


SCALED = [
    ("meta-llama/Llama-3.1-8B", 2**18, "llama3", 32, ""),
    ("Qwen/Qwen2.5-7B-Instruct, with its YaRN", 2**18, "yarn", 8, "yarn"),
    ("openai/gpt-oss-20b", 2**18, "yarn", 64, "truncate=False"),
    ("deepseek-ai/DeepSeek-V3", 2**18, "yarn", 64, "mscale_all_dim=1"),
    ("tencent/Hunyuan-7B-Instruct", 2**19, "yarn", 2, ""),
]


@pytest.mark.parametrize(("name", "to", "way", "factor", "setting"), SCALED)
def test_the_lengths_and_new_angles_are_those_of_context(name, to, way, factor, setting, written):
    """design and context state the same lengths, and count the same pairs with new angles."""
    path = whole_layers(written(PUBLISHED[name]))
    result, (_, context) = extend(path, to), describe_context(path, to)
    assert (result.trained, result.stated) == (context.trained.length, context.stated)
    unseen = max(rotation.unseen for rotation in context.rotations)
    assert ways(result)["unchanged"].unseen == unseen > 0
    assert not result.by_factor
    scaled = ways(result)[way]
    assert scaled.factor == factor
    assert setting in scaled.spec
    if "DeepSeek" in name:
        assert scaled.attention_factor == 1.0
    if "Hunyuan" in name:  # an engine that scales by alpha uses another base
        assert scaled.rho == pytest.approx(1e4 * 1000 ** (128 / 126))


def rotation_of_transformers(config, length):
    """Return the frequencies and the factor of a config, as transformers computes them."""
    config = AutoConfig.for_model(**config).get_text_config()
    kind = config.rope_parameters["rope_type"]
    config.standardize_rope_params()
    if kind != "default":
        return ROPE_INIT_FUNCTIONS[kind](config, seq_len=length)
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return config.rope_parameters["rope_theta"] ** -(torch.arange(0, head, 2) / head), 1.0


def first(holds):
    """Return the first index at which a condition holds, or None."""
    return int(np.argmax(holds)) if np.any(holds) else None


TABLES = [
    ("meta-llama/Llama-3.1-8B", 2**18, {}),
    ("Qwen/Qwen2.5-7B-Instruct, with its YaRN", 2**18, {}),  # cosines: 804 by llama3
    ("Qwen/Qwen2.5-7B-Instruct, with its YaRN", 2**17 + 2**12, {"transformers_version": "5.0.0"}),
    ("mistralai/Mistral-7B-v0.1", 2**16, {"sliding_window": None}),
]


@pytest.mark.parametrize(("name", "to", "changes"), TABLES)
def test_every_column_is_that_of_the_rotation_of_transformers(name, to, changes, written):
    """The JSON for each way, read by transformers and by context, gives the row of its way."""
    config = PUBLISHED[name] | changes
    result = extend(written(config), to, bases=(3e6,))
    best = max(result.scaled, key=lambda way: (-way.unseen, way.below[".99"]))
    assert result.chosen == best
    before = {k: v for k, v in config.items() if k != "rope_scaling"}
    plain, _ = rotation_of_transformers(before, 1)
    model, _ = rotation_of_transformers(config, to)
    plain, model = (np.asarray(omega, dtype=float) for omega in (plain, model))
    p, lags = np.arange(result.covered)[:, None], np.arange(70_000)[:, None]
    for row in result.scaled:
        settings = settings_for(result.encodings[0], load(row.spec, to), "transformers")
        typed = config | settings.json
        omega, factor = rotation_of_transformers(typed, to)
        omega = np.asarray(omega, dtype=float)
        assert_allclose(omega, row.frequencies, rtol=1e-5)
        (again,) = describe_context(written(typed), to)[1].rotations
        assert_allclose(again.frequencies, row.frequencies, rtol=1e-12)
        assert factor == pytest.approx(row.attention_factor, rel=1e-6)
        section = typed.get("rope_scaling") or {}
        stretched = (float(settings.json["rope_theta"]) / config["rope_theta"]) ** (126 / 128)
        assert row.factor == pytest.approx(
            {"ntk": stretched, "base": 1.0}.get(row.way, section.get("factor")), rel=1e-9
        )
        omega = row.frequencies  # equal up to rounding; thresholds need them exactly
        beyond = omega * to > plain * result.trained * (1 + 1e-6)
        assert row.unseen == (beyond & (plain * result.trained < 2 * np.pi)).sum()
        cosines = np.cos(p * (model - omega)).mean(axis=1)
        assert row.cosine == tuple(
            (at, pytest.approx(cosines[at], abs=1e-4)) for at, _ in row.cosine
        )
        assert row.idle == (omega * to < 2 * np.pi).sum()
        for level, position in ((0.99, row.below_99), (0.9, row.below_90)):
            at = first(cosines < level)
            assert position == at or abs(cosines[position] - level) < 1e-4
        bound = first(np.cos(lags * omega).sum(axis=1) < 0)
        measured = bound_of(load(row.spec, to))
        assert (measured if measured and measured < 70_000 else None) == bound
        ratio = plain / omega
        kept = int((np.abs(ratio - 1) < 1e-5).sum())
        full = int((np.abs(ratio - ratio.max()) < 1e-5 * ratio.max()).sum())
        assert row.band_counts == f"{kept}/{64 - kept - full}/{full}"


@pytest.mark.parametrize(
    ("engine", "way", "words"),
    [
        ("llama.cpp", "yarn", "--rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 32768"),
        ("vllm", "yarn", '"rope_type": "yarn", "factor": 4.0'),
        ("transformers", "yarn", None),
    ],
)
def test_settings_of_engines(engine, way, words, written):
    """The way of the vendor's model cards is recommended, with what to type for an engine."""
    config = {k: v for k, v in PUBLISHED[QWEN].items() if k != "rope_scaling"}
    result = extend(written(config), 2**17, engine=engine)
    assert (result.chosen.way, result.vendor) == (way, "qwen2")
    assert (words or "") in (result.settings.flags or "")
    assert labelled_fields(Settings).keys() >= {"engine", "version", "json", "flags"}


def merged(config, changes):
    """Return a config with changed keys, in an inner config too."""
    inner = {k: merged(config[k], v) for k, v in changes.items() if k.endswith("_config")}
    return {**config, **changes, **inner}


IN_PARTS = ["google/gemma-3-4b-it", "Qwen/Qwen2-VL-7B-Instruct", "EleutherAI/pythia-1.4b"]
IN_PARTS += ["answerdotai/ModernBERT-base", "microsoft/Phi-4-mini-instruct"]


@pytest.mark.parametrize("name", IN_PARTS)
def test_the_json_read_back_is_the_promised_rotation(name, written):
    """The settings change the rotation that is extended; other layers and sections stay."""
    config, path = PUBLISHED[name], written(PUBLISHED[name])
    flags = extend(path, 2**18, engine="llama.cpp").settings.flags
    result = extend(path, 2**18)
    assert not (flags and result.name)
    _, before = describe_context(path, 2**18)
    _, after = describe_context(written(merged(config, result.settings.json)), 2**18)
    for old, new in zip(before.rotations, after.rotations, strict=True):
        omega = result.chosen.frequencies if result.name in ("", old.name) else old.frequencies
        assert_allclose(new.frequencies, omega[omega != 0], rtol=1e-9)
        assert old.axes == new.axes


GEMMA = {"model_type": "gemma2", "head_dim": 256, "num_hidden_layers": 26, "rope_theta": 1e4}
GEMMA |= {"max_position_embeddings": 8192, "sliding_window": 4096}


@pytest.mark.parametrize(
    ("changes", "window", "unseen"),
    [  # no phase is new, so no scaling is suggested
        ({"model_type": "mistral"}, 4096, 0),
        ({"model_type": "llama", "sliding_window": None}, None, 28),
        ({"model_type": "mistral", "sliding_window": 32768}, 32768, 28),
        ({}, None, 28),
    ],
)
def test_layers_with_a_window_need_no_scaling(changes, window, unseen, written):
    result = extend(written(GEMMA | changes), 131072)
    assert (result.window, result.unchanged.unseen, result.pairs) == (window, unseen, 128)
    assert result.verdict == ("scaling needed" if unseen else "no scaling needed")
    assert ways(result)["linear"].unseen == 0


def test_an_advice_takes_no_pair_to_new_angles(written):
    long = {"rope_type": "longrope", "long_factor": [1.0 + i for i in range(48)]}
    config = sized("phi3", 3072, 32, 131072, original_max_position_embeddings=4096)
    result = extend(written(config | {"rope_scaling": long | {"short_factor": [1.0] * 48}}), 2**18)
    assert (result.unchanged.unseen, result.chosen.unseen) == (14, 0)


def test_an_original_length_that_no_config_says_is_reported(written):
    """An assumed original length is reported with both readings."""
    scaling = {"rope_type": "linear", "factor": 8.0}
    own = {"model_type": "llama", "max_position_embeddings": 131072, "sliding_window": None}
    path = written(GEMMA | own | {"rope_scaling": scaling})
    result = extend(path, 2**18)
    assert (result.original, result.by_factor) == (16384, True)
    (note,) = result.findings
    assert (note.code, "16,384" in note.message, "--length 1048576" in note.message) == (
        *("original-by-factor", True, True),
    )
    with refusal("covers 131072 positions"):
        extend(path, 131072)


@pytest.mark.parametrize("name", sorted(BUILDERS))
def test_each_encoding_is_extended_or_refused(name):
    """An encoding without a rotation by a base is refused, with no other error."""
    with suppress(PefourierError):
        found = extend(name, 4096, trained=80, d=16)
        assert found.verdict in found.verdicts
