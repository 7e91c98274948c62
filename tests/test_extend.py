"""Extensions against published rows, transformers' own modules, and what they leave unseen."""

import json
import re

import numpy as np
import pytest
from published_configs import PUBLISHED

from pefourier.encodings import load
from pefourier.errors import PefourierError
from pefourier.questions.context import (
    describe_context,
)
from pefourier.questions.extend import (
    extend,
    extend_on_grid,
    whole_layers,
)


def write(name, config, tmp_path):
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps(config))
    return str(path)


def ways(found):
    return {e.way: e for e in found.candidates}


def test_yarn_of_qwen_is_the_published_one():
    """Field values: bands, first lag below the bound, cosine to the unscaled rotation."""
    found = ways(extend("rope:rho=1e6", 131072, trained=32768, d=128))
    yarn = found["yarn"]
    assert [(b.treatment, b.pairs) for b in yarn.bands] == [
        ("kept", 24),
        ("blended", 16),
        ("stretched", 24),
    ]
    assert (yarn.bound, found["unchanged"].bound) == (66234, 27115)
    assert (yarn.below[".99"], yarn.below[".9"]) == (743, 2453)
    np.testing.assert_allclose([c for _, c in yarn.cosine], [0.9997, 0.981, 0.766], atol=6e-4)
    assert yarn.attention_factor == pytest.approx(0.1 * np.log(4) + 1)
    assert found["llama3"].bands[0].pairs > yarn.bands[0].pairs


def test_scalings_by_the_ratio_of_lengths_leave_nothing_unseen():
    found = {
        e.way: e.unseen for e in extend("rope:rho=5e5", 131072, trained=8192, d=128).candidates
    }
    assert found == {"unchanged": 29, "linear": 0, "ntk": 28, "yarn": 0, "llama3": 0}


def test_a_scaled_rotation_is_compared_with_what_it_is(tmp_path):
    path = write("llama", PUBLISHED["meta-llama/Llama-3.1-8B"], tmp_path)
    found = extend(path, 262144)
    assert (found.trained, found.original) == (131072, 8192)
    again = ways(found)["llama3"]
    assert again.factor == 32
    assert again.cosine[0][1] > 0.999  # at 128: stretched pairs hardly turn there in either
    assert again.bands[0].treatment == "kept"


def test_a_length_that_was_not_raised_is_the_original_one(tmp_path):
    config = PUBLISHED["Qwen/Qwen2.5-7B-Instruct, with its YaRN"]
    found = extend(write("qwen", config, tmp_path), 262144)
    assert (found.trained, found.original) == (131072, 32768)
    assert ways(found)["yarn"].factor == 8
    best = max(found.candidates[1:], key=lambda e: (-e.unseen, e.below[".99"]))
    assert found.nearest == best


def test_settings_of_the_own_scaling_stay(tmp_path):
    found = ways(extend(write("oss", PUBLISHED["openai/gpt-oss-20b"], tmp_path), 262144))
    assert "truncate=False" in found["yarn"].spec
    deep = ways(extend(write("v3", PUBLISHED["deepseek-ai/DeepSeek-V3"], tmp_path), 262144))
    assert "mscale_all_dim=1" in deep["yarn"].spec
    assert deep["yarn"].attention_factor == 1.0


def test_layers_without_a_window_are_extended(tmp_path):
    config = {**PUBLISHED["google/gemma-3-1b-it"], "num_hidden_layers": 26}
    found = extend(write("gemma", config, tmp_path), 131072)
    assert (found.name, found.trained) == ("full_attention", 32768)
    assert found.candidates[0].rho == 1e6


def test_bases_and_criteria_are_ways_too():
    found = extend("rope:rho=1e4", 8192, trained=4096, d=128, criteria=("turns",), bases=(2e4,))
    assert found.best["turns"] == pytest.approx(1461.03, rel=1e-5)
    assert [e.rho for e in found.candidates if e.way == "base"] == [found.best["turns"], 2e4]


def test_an_engine_that_scales_by_alpha_has_another_base(tmp_path):
    config = PUBLISHED["tencent/Hunyuan-7B-Instruct"]
    found = extend(write("hunyuan", config, tmp_path), 524288)
    assert (found.trained, found.original) == (262144, 262144)
    assert ways(found)["yarn"].rho == pytest.approx(1e4 * 1000 ** (128 / 126))


def test_frequencies_without_a_base_are_not_extended(tmp_path):
    np.save(tmp_path / "inv.npy", np.array([1.0, 0.3, 0.01]))
    with pytest.raises(PefourierError, match="gives frequencies without a base; --extend-from"):
        extend(f"rope:inv_freq={tmp_path}/inv.npy", 8192, trained=1024)


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        (
            "rope",
            {"trained": 4096, "length": 4096},
            "'rope' stands for 4096 positions; an extension is to more, got 4096",
        ),
        (
            "rope",
            {"length": 4096},
            "'rope' does not say how many positions it was trained on; give them, as in --length "
            "8k",
        ),
        (
            "dft",
            {"length": 4096},
            "'dft' does not rotate pairs of dimensions; --extend-from takes a model's config or "
            "rope",
        ),
        (
            "rope",
            {"length": 4096, "criteria": ("distance",)},
            "an extension is asked for turns, bound or wavelength=K, each a base; got 'distance'",
        ),
    ],
)
def test_what_is_not_extended(spec, options, message):
    with pytest.raises(PefourierError) as error:
        extend(spec, **options)
    assert str(error.value) == message


def test_axes_of_a_grid_are_extended_each_by_its_own_factor(tmp_path):
    """Once a grid was refused."""
    spec = "axial-rope:convention=flux,grid=64x64,d=128"
    rows, columns = extend_on_grid(spec, (128, 96))
    assert [(one.name, one.trained, one.length, one.d) for one in (rows, columns)] == [
        ("y", 64, 128, 56),
        ("x", 64, 96, 56),
    ]
    assert {e.way: e.unseen for e in rows.candidates} == {
        **{"unchanged": 20, "linear": 0, "ntk": 19, "yarn": 0}
    }
    specs = {one.by: one.spec for one in rows.whole_grid}
    assert columns.whole_grid == ()
    for way, own in specs.items():
        whole = load(own).measure.frequencies
        for axis, one in enumerate((rows, columns)):
            expected = next(e.frequencies for e in one.candidates if e.way == way)
            turning = whole[whole[:, axis] != 0, axis]
            np.testing.assert_allclose(np.sort(turning)[::-1], expected, rtol=1e-9)
    told = {"_class_name": "WanTransformer3DModel", "attention_head_dim": 48}
    path, sides = write("wan", told, tmp_path), (42, 30, 52)
    (time,) = extend_on_grid(path, sides)
    linear = time.whole_grid[0].spec
    assert linear == "axial-rope:d=48,convention=wan,grid=42x30x52,stretch=2;1;1,stretch_by=linear"
    halved = load(path).measure.frequencies / [2, 1, 1]
    np.testing.assert_allclose(load(linear).measure.frequencies, halved, rtol=1e-12)
    stretched, *_ = extend_on_grid("axial-rope:convention=cosmos,grid=8x8x8,d=96", (16, 8, 8))
    assert stretched.whole_grid == ()
    (time,) = extend_on_grid(
        "axial-rope:convention=hunyuan-video,grid=33x80x80,d=128", (66, 80, 80)
    )
    assert (time.name, time.d) == ("t", 16)


@pytest.mark.parametrize(
    ("spec", "sides", "message"),
    [
        ("rope", (8, 8), "'rope' does not rotate on 2 axes; "),
        ("axial-rope:grid=8x8,d=16", (8, 8), "stands for 8x8 points; an extension is to more"),
        ("mixed-rope:grid=8x8,d=16", (9, 9), "has an axis whose frequencies are no grid"),
        ("axial-rope:grid=8x8,d=16,coordinates=unit", (9, 9), "which has no base to scale"),
    ],
)
def test_grids_that_are_not_extended(spec, sides, message):
    with pytest.raises(PefourierError, match=re.escape(message)):
        extend_on_grid(spec, sides)


def gemma(tmp_path, **more):
    config = {"model_type": "gemma2", "head_dim": 256, "num_hidden_layers": 26, "rope_theta": 1e4}
    config |= {"max_position_embeddings": 8192, "sliding_window": 4096, **more}
    return write("gemma", config, tmp_path)


def test_layers_with_a_window_need_no_scaling(tmp_path):
    """Once Mistral was advised llama3's scaling, where context said that no phase is new."""
    found = extend(gemma(tmp_path, model_type="mistral"), 131072)
    assert (found.window, found.windows, ways(found)["unchanged"].unseen) == (4096, (), 0)
    assert found.verdict == "no scaling needed"
    assert (
        ways(extend(gemma(tmp_path, sliding_window=None, model_type="llama"), 131072))[
            "unchanged"
        ].unseen
        == 28
    )


def test_a_window_longer_than_training_meets_new_phases(tmp_path):
    path = gemma(tmp_path, model_type="mistral", sliding_window=32768)
    assert ways(extend(path, 131072))["unchanged"].unseen == 28
    assert ways(extend(path, 131072))["linear"].unseen == 0


def test_of_layers_that_differ_those_are_named_that_need_a_scaling(tmp_path):
    found = extend(gemma(tmp_path), 131072)
    assert (found.window, found.windows) == (None, (4096,))
    assert (found.unchanged.unseen, found.pairs) == (28, 128)
    assert [f.code for f in found.findings] == ["extension-windows"]
    found = extend(write("gemma", PUBLISHED["google/gemma-3-1b-it"], tmp_path), 131072)
    assert (found.window, found.windows) == (None, (512,))
    assert found.part == "full_attention"
    assert "512" in found.findings[0].message


def test_an_original_length_that_no_config_says_is_told(tmp_path):
    """Once 131072 / 8 was written for the length of training without a word."""
    scaling = {"rope_type": "linear", "factor": 8.0}
    own = {"model_type": "llama", "max_position_embeddings": 131072, "sliding_window": None}
    path = gemma(tmp_path, **own, rope_scaling=scaling)
    found = extend(path, 2**18)
    assert (found.original, found.by_factor) == (16384, True)
    assert [f.code for f in found.findings] == ["original-by-factor"]
    assert not extend(write("own", PUBLISHED["meta-llama/Llama-3.1-8B"], tmp_path), 2**18).by_factor
    with pytest.raises(PefourierError, match="stands for 131072 positions"):
        extend(path, 131072)


def test_context_and_an_extension_agree_on_the_length_of_a_config(tmp_path):
    """Once 32768 in one and 131072 in the other, of Qwen's settings for YaRN."""
    config = PUBLISHED["Qwen/Qwen2.5-7B-Instruct, with its YaRN"]
    path = write("qwen", config, tmp_path)
    _, known = describe_context(path)
    assert (known.trained.length, known.length) == (32768, 131072)
    assert extend(path, 262144).trained == 131072
    assert describe_context(path, 4096)[1].length == 4096
    with pytest.raises(PefourierError, match="stands for 131072 positions"):
        extend(path, 131072)


def test_a_grid_of_training_that_no_config_states_is_said_to_be_taken(run, tmp_path):
    wan = write("wan", {"_class_name": "WanTransformer3DModel", "attention_head_dim": 48}, tmp_path)
    for known in ((), ("--length", "13x30x52")):
        (record,) = run(
            "design", "--extend-from", wan, "--grid", "42x30x52", *known, "--json"
        ).results
        assert ([f["code"] for f in record["findings"]] == ["grid-default"]) == (not known)
        assert (record["trained"], record["length"]) == (13 if known else 21, 42)
        yarn = record["whole_grid"][-1]
        assert f"stretch_by=yarn,trained={13 if known else 21};" in yarn["spec"]
    done = run("design", "--extend-from", f"{wan}:grid=13x30x52", "--grid", "42x30x52")
    assert (done.status, "takes no parameters behind a colon" in done.err) == (2, True)


@pytest.mark.parametrize("trained", ["16", "4k"])
def test_a_grid_is_not_extended_from_one_length(run, trained):
    """Status 3, once."""
    done = run("design", "--extend-from", "axial-rope", "--grid", "4x4", "--length", trained)
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(
    "name",
    [
        "meta-llama/Llama-3.1-8B",
        "meta-llama/Llama-3.2-1B",
        "mistralai/Mistral-7B-v0.1",
        "CohereForAI/c4ai-command-r7b-12-2024",
        "tencent/Hunyuan-7B-Instruct",
        "answerdotai/ModernBERT-base",
        "openai/gpt-oss-20b",
        "EleutherAI/pythia-1.4b",
    ],
)
def test_new_angles_are_those_of_context(name, tmp_path):
    """One number: once 29 in one answer and 25 in the other, of Llama 3.1 at 200k."""
    path = whole_layers(write("own", PUBLISHED[name], tmp_path))
    length = int(1.3 * len(load(path)))
    found = extend(path, length)
    _, known = describe_context(path, length, trained=found.trained)
    assert [one.unseen for one in known.rotations] == [found.unchanged.unseen]


def test_llama_at_200k_meets_25_new_pairs_and_yarn_has_its_factor(tmp_path, run):
    path = write("llama", PUBLISHED["meta-llama/Llama-3.1-8B"], tmp_path)
    (record,) = run("design", "--extend-from", path, "--to", "200k", "--json").results
    by_way = {one["way"]: one for one in record["candidates"]}
    assert by_way["unchanged"]["unseen"] == 25
    assert by_way["yarn"]["factor"] == 204800 / 8192
    assert record["encoding"] == "rope"
    assert record["params"]["to"] == 204800
