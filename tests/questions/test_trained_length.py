"""The trained length and the length that a config states, in all commands that use them."""

import json

import numpy as np
import pytest
from published_configs import PUBLISHED

from pefourier import context
from pefourier.encodings.model_positions import describe_positions
from pefourier.questions.context import Reach
from pefourier.questions.extend import extend

LLAMA31 = PUBLISHED["meta-llama/Llama-3.1-8B"]
LLAMA2 = PUBLISHED["meta-llama/Llama-2-7b-hf"]
LOST = {key: value for key, value in LLAMA31.items() if key != "rope_scaling"}
ORIGINAL, LONGEST = "original_max_position_embeddings", "max_position_embeddings"
STATED = {"length": 131072, "key": LONGEST}


def changed(config, factor, kind="linear", longest=4096, **own):
    scaling = {"rope_type": kind, "factor": factor, **own}
    return {**config, LONGEST: longest, "rope_scaling": scaling}


KINDS = [  # config, trained length, stated length, design's length
    (LLAMA31, 8192, 131072, 131072),
    (LOST, 8192, None, 8192),
    (PUBLISHED["deepseek-ai/DeepSeek-V3"], 4096, 163840, 163840),
    (PUBLISHED["microsoft/Phi-3-mini-128k-instruct"], 4096, 131072, 131072),
    (PUBLISHED["Qwen/Qwen2.5-7B-Instruct, with its YaRN"], 32768, None, 131072),
    (LLAMA2, 4096, None, 4096),
    (changed(LLAMA2, 4.0), 4096, None, 4096),  # as in the documentation
    (changed(LLAMA2, 8.0, longest=32768), 4096, 32768, 32768),  # LLaMA-2-7B-32K
    (changed(LLAMA2, 2.0), 4096, None, 4096),  # 2048 or 4096: both are possible
    (changed(LLAMA2, 4.0, longest=16384, **{ORIGINAL: 4096}), 4096, 16384, 16384),
    (changed(LLAMA2, 2.0, "dynamic"), 4096, None, 4096),
    (changed(LLAMA2, 1000.0, longest=128), 128, None, 128),
]


@pytest.mark.parametrize(("config", "trained", "stated", "stands_for"), KINDS)
def test_all_questions_use_the_same_two_lengths(config, trained, stated, stands_for, written):
    path = written(config)
    found = context(path).to_dict()
    assert found["trained"]["length"] == trained
    assert (found["stated"] or {"length": None})["length"] == stated
    positions = describe_positions(path)
    assert (positions.stands_for, positions.trained_or_native) == (stands_for, trained)
    if config is LLAMA2:
        assert found["trained"]["source"] == "stated"
    if config in (LOST, KINDS[7][0]):
        result = extend(path, 2**18)
        assert (result.trained, result.covered) == (trained, stands_for)


AT = [(None, "within the stated length", 0), (131072, "within the stated length", 0)]
AT += [(65536, "no new angles", 0), (131073, "unseen angles", 1)]


@pytest.mark.parametrize(("length", "verdict", "status"), AT)
@pytest.mark.parametrize("demand", [("--require", "fits"), ("--strict",)])
def test_a_length_beyond_the_stated_one_ends_with_status_1(
    length, verdict, status, demand, written, run
):
    requested = ("context", written(LLAMA31), *(("--length", length) if length else ()), "--json")
    done = run(*requested, *demand)
    assert (done.results[0]["verdict"], done.status) == (verdict, status)
    assert done.results[0]["stated"] == STATED
    kinds = [reason["kind"] for reason in json.loads(done.out).get("reasons", [])]
    assert kinds == ["unmet"] * status


FITS = [("rope:d=16", 99, 1, 0), ("rope:rho=1e4,d=16", 99, 1, 0), ("alibi", 99, 0, 0)]
FITS += [("codes.npy", 8, 0, 0), ("codes.npy", 9, 1, 1), ("none", 9, 0, 0)]


@pytest.mark.parametrize(("spec", "length", "required", "strict"), FITS)
@pytest.mark.usefixtures("folder")
def test_unknown_lengths_fail_requirements(spec, length, required, strict, run, rng):
    np.save("codes.npy", rng.normal(size=(8, 4)))
    requested = ("context", spec, "--length", length)
    assert run(*requested, "--require", "fits").status == required
    assert run(*requested, "--strict").status == strict
    assert run(*requested).status == 0


@pytest.mark.parametrize(("longest", "severity"), [(4096, "note"), (131072, "warning")])
def test_a_base_that_the_published_configs_state_is_missed(longest, severity, written):
    config = {k: v for k, v in LOST.items() if k != "rope_theta"} | {LONGEST: longest}
    assert {
        f.severity for f in context(written(config)).findings if f.code == "rope-theta-default"
    } == {severity}


@pytest.mark.parametrize(("length", "base"), [(4096, None), (8192, 30527.74), (16384, 72195.86)])
def test_dynamic_ntk_has_the_base_of_its_length(length, base, written):
    found = context(written(changed(LLAMA2, 2.0, "dynamic")), length=length).rotations[0]
    assert found.base == 10000
    assert found.effective_base == (base if base is None else pytest.approx(base, abs=0.005))


def test_windows_one_behind_another_reach_further(written):
    mistral = {"model_type": "mistral", "head_dim": 128, "num_hidden_layers": 32}
    mistral |= {"sliding_window": 4096, LONGEST: 32768, "rope_theta": 1e4}
    found = context(written(mistral))
    assert (found.verdict, found.reach) == ("beyond every window", Reach(4096, 131041))
    assert found.rotations[0].familiar_length is None  # no query sees farther than training
    for length, verdict in ((4096, "no new angles"), (4097, "beyond every window")):
        assert context(written(mistral), length=length, trained=length).verdict == verdict
    kinds = ["sliding_attention"] * 3 + ["full_attention"]
    for layers, reach in ((kinds[:3], Reach(9, 25)), (kinds, None)):
        mixed = {"model_type": "qwen2", "head_dim": 8, "num_hidden_layers": len(layers)}
        mixed |= {"sliding_window": 9, "use_sliding_window": True, "layer_types": layers}
        assert context(written(mixed)).reach == reach
    assert context("rope").reach is None


@pytest.mark.parametrize("length", [7, 75, 80, 117, 225])
@pytest.mark.usefixtures("folder")
def test_a_wavelength_of_the_length_is_a_whole_rotation(length):
    np.save("turn.npy", np.full(4, 2 * np.pi / length))
    found = context("rope:inv_freq=turn.npy", length=3 * length, trained=length)
    assert (found.verdict, found.rotations[0].familiar_length) == ("no new angles", None)
    (rotation,) = context("rope:inv_freq=turn.npy", length=length, trained=length).rotations
    assert rotation.idle == 0
    np.save("turn.npy", np.full(4, 2 * np.pi / length * (1 - 1e-7)))
    assert context("rope:inv_freq=turn.npy", length=3 * length, trained=length).new_pairs == 4


def test_without_a_training_nothing_is_stated_of_one():
    (rotation,) = context("rope:rho=1e4", length=512, d=64).rotations
    assert {band.turns_trained for band in rotation.bands} == {None}
    assert (rotation.unseen, rotation.critical_dimension) == (None, None)
    found = [context("rope", length=512, d=64, **own).trained for own in ({}, {"trained": 512})]
    assert [(t.length, t.source) for t in found] == [(None, "unknown"), (512, "given")]
