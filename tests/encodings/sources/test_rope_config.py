"""Rotations of real models, read as transformers reads them, and compared with it where it is."""

import json
import math
import re
import warnings

import numpy as np
import pytest

from pefourier.encodings import load
from pefourier.encodings.registry import build, parse_parameters
from pefourier.encodings.sources import huggingface
from pefourier.errors import PefourierError

LLAMA = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32}
LLAMA2 = {**LLAMA, "max_position_embeddings": 4096, "rope_theta": 10000.0, "rope_scaling": None}
LLAMA31_SCALING = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}
LLAMA31 = {
    **LLAMA,
    "max_position_embeddings": 131072,
    "rope_theta": 500000.0,
    "rope_scaling": LLAMA31_SCALING,
}
LLAMA32 = {
    **LLAMA31,
    "hidden_size": 2048,
    "head_dim": 64,
    "rope_scaling": {**LLAMA31_SCALING, "factor": 32.0},
}
MISTRAL = {
    "model_type": "mistral",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "head_dim": None,
    "max_position_embeddings": 32768,
    "rope_theta": 1000000.0,
    "sliding_window": None,
}
QWEN25 = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "num_attention_heads": 28,
    "max_position_embeddings": 32768,
    "rope_theta": 1000000.0,
    "rope_scaling": {"factor": 4.0, "original_max_position_embeddings": 32768, "type": "yarn"},
}
PHI3 = {
    "model_type": "phi3",
    "hidden_size": 3072,
    "num_attention_heads": 32,
    "max_position_embeddings": 131072,
    "original_max_position_embeddings": 4096,
    "rope_theta": 10000.0,
    "rope_scaling": {
        "type": "longrope",
        "short_factor": [1 + i / 64 for i in range(48)],
        "long_factor": [1.0 + i for i in range(48)],
    },
}
DEEPSEEK = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_attention_heads": 128,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "max_position_embeddings": 163840,
    "rope_theta": 10000,
    "rope_scaling": {
        "beta_fast": 32,
        "beta_slow": 1,
        "factor": 40,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4096,
        "type": "yarn",
    },
}
NEOX = {
    "model_type": "gpt_neox",
    "hidden_size": 6144,
    "num_attention_heads": 64,
    "rotary_pct": 0.25,
    "rotary_emb_base": 10000,
    "max_position_embeddings": 2048,
}
GEMMA3 = {
    "model_type": "gemma3_text",
    "hidden_size": 2560,
    "num_attention_heads": 8,
    "head_dim": 256,
    "max_position_embeddings": 131072,
    "rope_theta": 1000000.0,
    "rope_local_base_freq": 10000.0,
    "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
}
PROPORTIONAL = {
    **LLAMA,
    "max_position_embeddings": 4096,
    "rope_parameters": {
        "rope_type": "proportional",
        "rope_theta": 1e6,
        "partial_rotary_factor": 0.25,
    },
}
GEMMA4 = {
    "model_type": "gemma4_text",
    "hidden_size": 2304,
    "num_attention_heads": 8,
    "head_dim": 256,
    "global_head_dim": 512,
    "max_position_embeddings": 131072,
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        "full_attention": {
            "rope_type": "proportional",
            "rope_theta": 1000000.0,
            "partial_rotary_factor": 0.25,
        },
    },
}
P_ROPE = "rho=1e6,scaling=proportional,partial=0.25"
SHORT = ";".join(repr(1 + i / 64) for i in range(48))
LONG = ";".join(repr(1.0 + i) for i in range(48))
LONGROPE = f"scaling=longrope,factor=32,original=4096,short_factor={SHORT},long_factor={LONG}"

# config, part after #, length asked for, the same as a SPEC, its d, length
MODELS = {
    "Llama-2": (LLAMA2, "", None, "rope", 128, 4096),
    "Llama-1": (
        {**LLAMA, "max_position_embeddings": 2048},
        "",
        None,
        "rope",
        128,
        2048,
    ),
    "Llama-3.1": (
        LLAMA31,
        "",
        None,
        "rope:rho=5e5,scaling=llama3,factor=8,original=8192",
        128,
        131072,
    ),
    "Llama-3.2": (
        LLAMA32,
        "",
        100,
        "rope:rho=5e5,scaling=llama3,factor=32,original=8192",
        64,
        100,
    ),
    "Mistral": (MISTRAL, "", None, "rope:rho=1e6", 128, 32768),
    "Qwen2.5": (
        QWEN25,
        "",
        None,
        "rope:rho=1e6,scaling=yarn,factor=4,original=32768",
        128,
        131072,
    ),
    "Phi-3 long": (PHI3, "", None, f"rope:{LONGROPE}", 96, 131072),
    "Phi-3 short": (PHI3, "", 4096, f"rope:{LONGROPE}", 96, 4096),
    "DeepSeek-V3": (
        DEEPSEEK,
        "",
        None,
        "rope:layout=interleaved,scaling=yarn,factor=40,original=4096,mscale=1,mscale_all_dim=1",
        64,
        163840,
    ),
    "GPT-NeoX": (NEOX, "", None, "rope:partial=0.25", 96, 2048),
    "Gemma-3 full": (
        GEMMA3,
        "full_attention",
        9,
        "rope:rho=1e6,scaling=linear,factor=8",
        256,
        9,
    ),
    "Gemma-3 sliding": (GEMMA3, "sliding_attention", 9, "rope", 256, 9),
    "proportional": (
        PROPORTIONAL,
        "",
        9,
        "rope:rho=1e6,scaling=proportional,partial=0.25",
        128,
        9,
    ),
    "dynamic at its length": (
        {**LLAMA2, "rope_scaling": {"type": "dynamic", "factor": 2.0}},
        "",
        None,
        "rope:scaling=dynamic,factor=2,original=4096",
        128,
        4096,
    ),
    "dynamic beyond": (
        {**LLAMA2, "rope_scaling": {"type": "dynamic", "factor": 2.0}},
        "",
        16384,
        "rope:scaling=dynamic,factor=2,original=4096",
        128,
        16384,
    ),
    "GPT-J": (
        {
            "model_type": "gptj",
            "n_embd": 4096,
            "n_head": 16,
            "n_positions": 2048,
            "rotary_dim": 64,
        },
        "",
        None,
        "rope:layout=interleaved,partial=0.25",
        256,
        2048,
    ),
    "rotary_dim that rounds down": (
        {"model_type": "gptj", "n_embd": 44, "n_head": 1, "n_positions": 8, "rotary_dim": 30},
        "",
        None,
        "rope:layout=interleaved,partial=0.682",
        44,
        8,
    ),
    "nested text model": (
        {"model_type": "llava", "text_config": LLAMA31, "vision_config": {"hidden_size": 9}},
        "",
        9,
        "rope:rho=5e5,scaling=llama3,factor=8,original=8192",
        128,
        9,
    ),
    "old Gemma-3 with the code's defaults": (
        {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text"}},
        "full_attention",
        9,
        "rope:rho=1e6",
        256,
        9,
    ),
    "ModernBERT": (
        {
            "model_type": "modernbert",
            "hidden_size": 768,
            "num_attention_heads": 12,
            "global_rope_theta": 80000.0,
            "local_rope_theta": 10000.0,
        },
        "full_attention",
        9,
        "rope:rho=80000",
        64,
        9,
    ),
    "Qwen2-VL": (
        {
            **QWEN25,
            "model_type": "qwen2_vl_text",
            "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
        },
        "",
        9,
        "rope:rho=1e6",
        128,
        9,
    ),
    "Gemma-4 full": (GEMMA4, "full_attention", 9, f"rope:{P_ROPE}", 512, 9),
    "Gemma-4 sliding": (GEMMA4, "sliding_attention", 9, "rope", 256, 9),
    "layers that turn alike": (
        {
            **LLAMA,
            "max_position_embeddings": 16,
            "rope_parameters": {
                "full_attention": {"rope_theta": 5.0, "rope_type": "default"},
                "sliding_attention": {"rope_theta": 5.0, "rope_type": "default"},
            },
        },
        "",
        None,
        "rope:rho=5",
        128,
        16,
    ),
    "yarn with the ratio of the lengths": (
        {
            **LLAMA,
            "max_position_embeddings": 65536,
            "rope_parameters": {
                "rope_type": "yarn",
                "factor": None,
                "original_max_position_embeddings": 4096,
            },
        },
        "",
        9,
        "rope:scaling=yarn,factor=16,original=4096",
        128,
        9,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_rotates_as_the_spec_says(name, config):
    values, part, asked, spec, d, length = MODELS[name]
    path = config(values)
    enc = load(f"{path}#{part}" if part else path, length=asked)
    same = build("rope", **{"length": length, "d": d, **parse_parameters("rope", spec[5:])})
    assert len(enc) == length
    np.testing.assert_array_equal(enc.measure.frequencies, same.measure.frequencies)
    x = np.array([0, 1, length - 1])
    np.testing.assert_array_equal(enc.codes(x), same.codes(x))
    noted = {"path": path, "model_type": enc.params["model_type"], "partial": enc.params["partial"]}
    if name == "DeepSeek-V3":
        noted["softmax_factor"] = pytest.approx((0.1 * math.log(40) + 1) ** 2, rel=1e-15)
    if name == "Qwen2-VL":
        noted["mrope_section"] = "16 t + 24 y + 24 x"
    assert enc.params == {**same.params, **noted}
    assert enc.spec == (f"{path}#{part}" if part else path)


def renamed(values):
    """The new spelling of a flat config of the old one."""
    new = {k: v for k, v in values.items() if k not in ("rope_scaling", "rope_theta")}
    old = dict(values.get("rope_scaling") or {"type": "default"})
    kind = old.pop("rope_type", None) or old.pop("type")
    return {
        **new,
        "rope_parameters": {"rope_type": kind, "rope_theta": values["rope_theta"], **old},
    }


@pytest.mark.parametrize("values", [LLAMA2, LLAMA31, QWEN25, PHI3, DEEPSEEK], ids=str)
def test_both_spellings_say_the_same(values, config):
    old = load(config(values), length=5000)
    new = load(config(renamed(values)), length=5000)
    np.testing.assert_array_equal(old.measure.frequencies, new.measure.frequencies)
    assert new.params == old.params


def test_a_folder_is_its_config(config, tmp_path):
    config(LLAMA2)
    assert load(str(tmp_path)).params["path"] == str(tmp_path / "config.json")


def test_no_known_model_has_a_finding_but_notes(config):
    silent = {
        "Llama-1",
        "GPT-J",
        "rotary_dim that rounds down",
        "yarn with the ratio of the lengths",
    }
    for name, (values, part, length, *_) in MODELS.items():
        enc = load(config(values) + f"#{part}" * bool(part), length)
        expected = ["rope-theta-default"] * (name in silent)
        expected += ["rope-head-default"] * (name == "old Gemma-3 with the code's defaults")
        expected += ["rope-axes"] * (name == "Qwen2-VL")
        expected += ["rope-long-factor"] * (name == "Phi-3 long")
        expected += ["rope-new-keys"] * (name in ("proportional", "layers that turn alike"))
        expected += ["unread-key"] * (name == "layers that turn alike")
        expected += ["vision-tower"] * (name == "nested text model")
        assert [f.code for f in enc.findings] == expected, name


def scaling(**values):
    return {**LLAMA2, "rope_scaling": values}


MROPE = {"type": "mrope", "mrope_section": [16, 24, 24]}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
WARNED = {
    "misspelt": (
        scaling(**YARN, beta_fsat=8),
        "unread-key",
        "'beta_fsat' of rope_scaling of {path} is not used by rope_type yarn; "
        "did you mean beta_fast?",
    ),
    "of another type": (
        scaling(rope_type="linear", factor=2.0, zeta=1),
        "unread-key",
        "'zeta' of rope_scaling of {path} is not used by rope_type linear; leave it out",
    ),
    "factor and lengths": (
        scaling(**{**YARN, "factor": 3.0}),
        "rope-lengths",
        "factor=3 of rope_scaling of {path} is not max_position_embeddings / "
        "original_max_position_embeddings = 4096 / 1024 = 4; the factor is used, "
        "transformers before 4.56 may take 4; correct one of them",
    ),
    "two bases": (
        {**LLAMA2, "rope_parameters": {"rope_type": "default", "rope_theta": 7.0}},
        "rope-contradiction",
        "rope_theta=7 of rope_parameters of {path} contradicts 10000 above it; the first is used",
    ),
    "llama3 that shortens": (
        scaling(**LLAMA31_SCALING),
        "rope-original",
        "original_max_position_embeddings=8192 of rope_scaling of {path} should be below "
        "max_position_embeddings=4096; correct one of them",
    ),
    "factor below 1": (
        scaling(type="linear", factor=0.5),
        "rope-factor",
        "factor=0.5 is below 1 and shortens the context; give its inverse",
    ),
    "dynamic goes by the longest sequence": (
        scaling(type="dynamic", factor=2.0, original_max_position_embeddings=3),
        "unread-key",
        "'original_max_position_embeddings' of rope_scaling of {path} is not used by rope_type "
        "dynamic; leave it out, unless it is the length of training, for which it is taken",
    ),
    "no base": (
        {**LLAMA, "max_position_embeddings": 9},
        "rope-theta-default",
        "{path} sets no rope_theta; model_type 'llama' has 10000",
    ),
}


@pytest.mark.parametrize("name", WARNED)
def test_what_transformers_warns_of_is_a_finding(name, config):
    values, code, message = WARNED[name]
    path = config(values)
    (finding,) = load(path, length=9).findings
    assert finding.code == code
    assert finding.severity == ("note" if code == "rope-theta-default" else "warning")
    assert finding.message == message.format(path=repr(path))


def test_dynamic_frequencies_are_unscaled_up_to_the_longest_sequence(config):
    own = {"type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 3}
    same = load("rope", length=9, d=128).measure.frequencies
    enc = load(config({**LLAMA2, "rope_scaling": own}), length=9)
    np.testing.assert_array_equal(enc.measure.frequencies, same)


def test_a_length_of_zero_is_refused_as_everywhere(config):
    path = config(LLAMA2)
    message = f"{path!r}: length must be a whole number from 1 on; got 0"
    with pytest.raises(PefourierError, match=f"^{re.escape(message)}$"):
        huggingface.read_config(path, length=0)


def test_a_text_model_has_nothing_from_above_it(config):
    values = {"model_type": "llava", "hidden_size": 9, "text_config": {"model_type": "llama"}}
    enc = load(config(values), length=3)
    assert enc.params["d"] == 128
    assert [f.code for f in enc.findings] == ["rope-head-default", "rope-theta-default"]


def test_a_section_wins_over_the_config_above_it(config):
    path = config({**LLAMA2, "rope_parameters": {"rope_type": "default", "rope_theta": 7.0}})
    assert load(path, length=3).params["rho"] == 7.0


REFUSED = {
    "no factor": (
        scaling(type="linear"),
        "rope_scaling of {path} has no factor; rope_type linear needs it",
    ),
    "null factor": (
        scaling(type="linear", factor=None),
        "rope_scaling of {path} has no factor; rope_type linear needs it",
    ),
    "no low_freq_factor": (
        scaling(**{k: v for k, v in LLAMA31_SCALING.items() if k != "low_freq_factor"}),
        "rope_scaling of {path} has no low_freq_factor; rope_type llama3 needs it",
    ),
    "unknown type": (
        scaling(type="yarm", factor=2),
        "unknown rope_type of rope_scaling of {path} 'yarm'. Did you mean 'yarn'? Known: default, "
        "dynamic, linear, llama3, longrope, mrope, proportional, su, yarn.",
    ),
    "type is a number": (
        scaling(type=7),
        "rope_type of rope_scaling of {path} must be a string; got 7",
    ),
    "factor is a text": (
        scaling(type="linear", factor="2"),
        "factor of rope_scaling of {path} must be a finite number; got '2'",
    ),
    "factor is true": (
        scaling(type="linear", factor=True),
        "factor of rope_scaling of {path} must be a finite number; got True",
    ),
    "factor is huge": (
        scaling(type="linear", factor=10**400),
        f"factor of rope_scaling of {{path}} must be a finite number; got 1{'0' * 59}…{'0' * 60}",
    ),
    "factor is zero": (
        scaling(type="linear", factor=0),
        "{path}: factor must be a finite number above 0; got 0.0",
    ),
    "attention_factor is zero": (
        scaling(**YARN, attention_factor=0.0),  # once taken for not given
        "attention_factor of rope_scaling of {path} must be a number above 0, or null for the "
        "formula's; got 0",
    ),
    "truncate is a number": (
        scaling(**YARN, truncate=1),
        "truncate of rope_scaling of {path} must be true or false; got 1",
    ),
    "original is fractional": (
        scaling(**{**YARN, "original_max_position_embeddings": 10.5}),
        "original_max_position_embeddings of rope_scaling of {path} must be a whole number "
        "from 1 on; got 10.5",
    ),
    "factors are a number": (
        scaling(type="longrope", short_factor=1.0, long_factor=[1.0]),
        "short_factor of rope_scaling of {path} must be a list of numbers; got 1.0",
    ),
    "factors hold a text": (
        scaling(type="longrope", short_factor=[1.0, "x"], long_factor=[1.0]),
        "short_factor of rope_scaling of {path} must be a finite number; got 'x'",
    ),
    "too few factors": (
        scaling(type="longrope", short_factor=[1.0], long_factor=[1.0]),
        "{path}: short_factor needs 64 numbers, one per rotated pair; got 1",
    ),
    "scaling is a list": (
        {**LLAMA2, "rope_scaling": [1]},
        "rope_scaling of {path} must be an object {{…}}; got [1]",
    ),
    "theta is a dictionary": (
        {**LLAMA2, "rope_theta": {"a": 1}},
        "rope_theta of {path} must be a finite number; got {{'a': 1}}",
    ),
    "theta is negative": (
        {**LLAMA2, "rope_theta": -1},
        "{path}: rho must be a finite number above 0; got -1.0",
    ),
    "head is odd": (
        {**LLAMA2, "head_dim": 127},
        "{path}: rope turns pairs of dimensions and needs an even d; got d=127",
    ),
    "width is a text": (
        {**LLAMA2, "hidden_size": "big"},
        "hidden_size of {path} must be a whole number from 1 on; got 'big'",
    ),
    "model_type is a list": (
        {**LLAMA2, "model_type": []},
        "model_type of {path} must be a string; got []",
    ),
    "no lengths": (
        {**LLAMA, "model_type": "mine", "rope_scaling": {"type": "dynamic", "factor": 2}},
        "rope_scaling of {path} has no original_max_position_embeddings and {path} no "
        "max_position_embeddings; rope_type dynamic needs one of them",
    ),
    "no head": (
        {"model_type": "mine", "rope_theta": 5.0},
        "{path} sets no head_dim; give the dimension by --d",
    ),
    "layers differ": (
        GEMMA3,
        "{path} rotates by type of layer: full_attention, sliding_attention; name one, {full}",
    ),
    "nothing": (
        {"model_type": "mamba"},
        "{path} (model_type 'mamba') is not answered: its layers have no positions: their order "
        "comes from recurrence or convolution",
    ),
    "nothing known": (
        {"model_type": "mine"},
        "{path} sets no positions: model_type 'mine' is not known here and no key of a rotation "
        "is set; name an encoding or a file of codes",
    ),
    "one section for several": (
        {"model_type": "laguna", "rope_parameters": {"rope_theta": 5.0}},
        "rope_parameters of {path} is one for all layers; model_type 'laguna' needs one for each "
        "type: full_attention",
    ),
    "axial by its own word": (
        {**LLAMA, "rope_parameters": {"rope_type": "axial"}},
        "rope_type of rope_parameters of {path} is axial: positions on several axes",
    ),
    "learned": (
        {"model_type": "gpt2", "n_positions": 1024, "n_embd": 768},
        "the positions of model_type 'gpt2' are learned: their table is in its weights, not in "
        "{path}; put model.safetensors beside it, or give a file of codes, "
        "weights.safetensors#tensor",
    ),
    "relative keys": (
        {"model_type": "bert", "position_embedding_type": "relative_key"},
        "position_embedding_type of {path} must be absolute or rotary; got 'relative_key'",
    ),
    "other slopes": (
        {"model_type": "mpt", "n_heads": 8, "attn_config": {"alibi_bias_max": 4}},
        "alibi_bias_max of attn_config of {path} must be 8, the slopes of ALiBi; got 4.0",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_transformers_cannot_use_is_refused_in_one_line(name, config):
    values, message = REFUSED[name]
    path = config(values)
    message = message.format(path=repr(path), full=repr(f"{path}#full_attention"))
    with pytest.raises(PefourierError, match=f"^{re.escape(message)}$"):
        load(path, length=9)


@pytest.mark.parametrize(
    ("values", "part", "message"),
    [
        (LLAMA2, "#full", "{path} has one rotation for all layers; leave out '#full'"),
        (
            GEMMA3,
            "#full_attentoin",
            "unknown type of layer of {path} 'full_attentoin'. Did you mean 'full_attention'? "
            "Known: full_attention, sliding_attention.",
        ),
        (
            {"model_type": "t5", "num_heads": 8},
            "#decode",
            "unknown part of {path} 'decode'. Did you mean 'decoder'? Known: decoder, encoder.",
        ),
    ],
)
def test_a_part_that_is_not_there_is_refused(values, part, message, config):
    path = config(values)
    with pytest.raises(PefourierError, match=f"^{re.escape(message.format(path=repr(path)))}$"):
        load(path + part)


def test_d_is_for_configs_that_set_none(config):
    path = config(LLAMA2)
    message = f"{path!r} sets a dimension of 128 (head_dim), --d 64 another; leave out --d"
    with pytest.raises(PefourierError, match=f"^{re.escape(message)}$"):
        load(path, d=64)
    assert load(path, d=128, length=3).dim == 128
    assert load(config({"model_type": "llama"}), d=64).table().shape == (2048, 64)


def test_a_config_without_a_length_says_so(config):
    enc = load(config({"model_type": "mine", "head_dim": 8, "rope_theta": 10000.0}))
    assert len(enc) == 80
    assert [f.code for f in enc.findings] == ["model-type-unknown", "length-default"]
    message = f"{enc.params['path']!r} sets no length; 80 positions are taken"
    assert enc.findings[1].message == message


def test_a_key_that_clips_is_not_read_as_plain_rope(config):
    own = {"model_type": "llama", "head_dim": 128, "rope_theta": 5e5}
    plain, clipped = (load(config({**own, **asked}), 9) for asked in ({}, {"use_cope": True}))
    assert (plain.params["scaling"], clipped.params["scaling"]) == ("none", "clip")
    meant = load("rope:rho=5e5,scaling=clip,clipped=20", 9, 128)
    np.testing.assert_array_equal(clipped.table(), meant.table())
    assert "rope-clipped" in {f.code for f in clipped.findings}
    assert load(config({**own, "use_cope": False}), 9).params["scaling"] == "none"
    linear = {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}
    for asked in ({"use_hardclip": True}, {"use_cope": True, **linear}):
        with pytest.raises(PefourierError, match=r"rope:inv_freq=FILE$"):
            load(config({**own, **asked}), 9)


NOTED = {
    "no rotation in some": ("smollm3", {}, "rope-some-layers", "note"),
    "rotation in one type": ("cohere2", {}, "rope-some-layers", "note"),
    "three axes": ("qwen2_vl", {"rope_scaling": MROPE}, "rope-axes", "note"),
    "a share that is not used": (
        *("llama", {"partial_rotary_factor": 0.5}),
        *("unread-key", "warning"),
    ),
    "a scaling that is not read": (
        *("cohere2_moe", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}),
        *("unread-key", "warning"),
    ),
    "an old key that is not read": (
        *("gemma3_text", {"rope_scaling": {"type": "linear", "factor": 2.0}}),
        *("unread-key", "warning"),
    ),
    "a rotation for each where all have one": (
        *("llama", {"rope_parameters": {"full_attention": {"rope_theta": 7.0}}}),
        *("unread-key", "warning"),
    ),
    "a rotation for all where each has its own": (
        *("olmo3", {"rope_parameters": {"rope_type": "linear", "factor": 2.0}}),
        *("unread-key", "warning"),
    ),
}


@pytest.mark.parametrize("name", NOTED)
def test_what_does_not_hold_for_all_is_noted(name, config):
    kind, own, code, severity = NOTED[name]
    path = config({"model_type": kind, "rope_theta": 5.0, **own})
    part = "#full_attention" if kind in ("gemma3_text", "olmo3") else ""
    found = {f.code: f.severity for f in load(path + part, length=3).findings}
    assert found.get(code) == severity


def reference(transformers, values, layer, length):
    """Inverse frequencies and attention factor of transformers for a config."""
    torch = transformers.torch
    values = json.loads(json.dumps(values))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = transformers.configs[values.pop("model_type")](**values)
        config = getattr(config, "text_config", config)
        own = config.rope_parameters[layer] if layer else config.rope_parameters
        if own["rope_type"] != "default":
            function = transformers.scalings[own["rope_type"]]
            inverse, factor = function(config, "cpu", seq_len=length, layer_type=layer or None)
            return inverse.double().numpy(), factor
    told = values.get("head_dim") or values.get("qk_rope_head_dim")  # may differ by layer in config
    head = told or config.hidden_size // config.num_attention_heads
    r = int(head * own.get("partial_rotary_factor", 1.0))
    exponents = torch.arange(0, r, 2, dtype=torch.int64).to(torch.float) / r
    return (1.0 / own["rope_theta"] ** exponents).double().numpy(), 1.0


NOT_BY_CONFIG_CLASS = {  # models that compute sines themselves, or no config of a real class
    "GPT-J",
    "rotary_dim that rounds down",
    "nested text model",
    "old Gemma-3 with the code's defaults",
    "layers that turn alike",
}
COMPARED = sorted(MODELS.keys() - NOT_BY_CONFIG_CLASS)


@pytest.mark.parametrize("name", COMPARED)
def test_frequencies_are_those_of_transformers(name, config, transformers, monkeypatch):
    """Its float32, and to rounding its code run in float64.

    float32 phases themselves err by up to 3.4e-7 where exponents 2i/d are not binary fractions.
    """
    values, part, length, *_ = MODELS[name]
    enc = load(config(values) + f"#{part}" * bool(part), length=length)
    own = enc.measure.frequencies
    single, factor = reference(transformers, values, part, len(enc))
    np.testing.assert_allclose(own, single, rtol=4e-7)
    assert enc.params["attention_factor"] == pytest.approx(factor, rel=1e-15)
    torch = transformers.torch
    monkeypatch.setattr(torch, "float", torch.float64)
    monkeypatch.setattr(torch, "float32", torch.float64)
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    double, _ = reference(transformers, values, part, len(enc))
    np.testing.assert_allclose(own, double, rtol=1e-13)


@pytest.mark.parametrize(
    ("key", "value", "near"),
    [("rope_scalling", {"factor": 2.0}, "rope_scaling"), ("rope_thetta", 5e5, "rope_theta")],
)
def test_misspelt_keys_of_the_config_are_named(config, key, value, near):
    enc = load(config({"model_type": "llama", "head_dim": 8, key: value}))
    messages = [f.message for f in enc.findings if f.severity == "warning"]
    assert [m for m in messages if m.startswith(f"'{key}' of ")] == messages
    assert messages[0].endswith(f"; did you mean {near}?")


def test_a_misspelt_type_is_the_only_thing_said_of_its_keys(config):
    scaling = {"rope_typ": "llama3", "factor": 8.0, "low_freq_factor": 1.0}
    scaling |= {"high_freq_factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0}
    enc = load(config({"model_type": "llama", "head_dim": 8, "rope_scaling": scaling}))
    messages = [f.message for f in enc.findings if f.severity == "warning"]
    assert len(messages) == 1
    assert messages[0].endswith("did you mean rope_type?")


def test_all_commands_take_the_length_that_a_scaling_reaches(run, tmp_path):
    """Where YaRN's settings leave the original length, context took 4 times as many, others not."""
    config = {**LLAMA, "rope_scaling": {**YARN}, "max_position_embeddings": 1024}
    (tmp_path / "config.json").write_text(json.dumps(config))
    path = str(tmp_path / "config.json")
    told = [run(command, path, "--json").results[0] for command in ("check-faithful", "context")]
    assert [one["length"] for one in told] == [4096, 4096]
    assert told[1]["trained"] == {"length": 1024, "source": "assumed"}
    assert (len(load(path)), len(load(path, 1024))) == (4096, 1024)
