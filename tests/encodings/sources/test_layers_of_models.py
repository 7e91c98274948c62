"""The positions of each layer of a config, for published shapes of models."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import record_layers
from refusals import refusal
from rotary_modules import TYPES, config_class, quiet
from survey_transformers import SWITCHED, changed

from pefourier.encodings.loader import open_model
from pefourier.encodings.sources.huggingface import LayerRun, read_temperature, type_row

FULL, LOCAL = "full_attention", "sliding_attention"
GEMMA = {"model_type": "gemma3_text", "num_hidden_layers": 8, "sliding_window": 1024}
SMOLLM3 = {"model_type": "smollm3", "num_hidden_layers": 4}
OWN = {FULL: {"rope_theta": 1e6}, LOCAL: {"rope_theta": 1e4}}
NOBODY = {"model_type": "nobody", "head_dim": 64, "rope_parameters": OWN, "sliding_window": 128}
ALL, NONE = (lambda *index: (index, "rotary")), (lambda *index: (index, "none"))
SCHEDULES = {  # config, and its runs: layers, kind, part, window
    "by a pattern": (
        GEMMA | {"sliding_window_pattern": 4},
        [(*ALL(0, 1, 2, 4, 5, 6), LOCAL, 1024), (*ALL(3, 7), FULL)],
    ),
    "by an interval": (SMOLLM3 | {"no_rope_layer_interval": 2}, [ALL(0, 2), NONE(1, 3)]),
    "types without an order": (
        {"model_type": "gpt_neo", "num_layers": 4, "attention_types": [[["global", "local"], 2]]},
        [((), "learned"), ((), "learned", "", 256)],
    ),
    "a formula of the number": (
        {"model_type": "lfm3", "num_hidden_layers": 9},
        [NONE(), (*ALL(), FULL), (*ALL(), LOCAL, 256)],
    ),
}


@pytest.fixture
def runs(config):
    """Return a function that lists the runs of layers of a config.

    A run without a named kind has learned positions.
    """

    def read(**values):
        layers = open_model(config(values)).layers
        return [replace(run, kind=run.kind or "learned") for run in layers]

    return read


@pytest.mark.parametrize("name", SCHEDULES)
def test_layers_that_are_equal_are_one_run(name, runs):
    values, wanted = SCHEDULES[name]
    padded = [(*run, *("", None)[len(run) - 2 :]) for run in wanted]
    assert runs(**values) == [LayerRun(*run) for run in padded]


def test_temperatures_are_those_of_the_code(config):
    """Llama 4 scales the logits of layers without positions (maxtext 1611)."""
    for kind, own, length, wanted in (
        ("ministral3", {}, 262144, ("all", 16384, 1.27725887)),
        ("llama4_text", {}, 10485760, ("without positions", 8192, 0.1 * np.log(1281) + 1)),
        ("llama4_text", {"attn_scale": None}, 8190, ("without positions", 8192, 1.0)),
        ("llama4_text", {"attn_temperature_tuning": False}, 9, None),
        ("llama", {}, 9, None),
    ):
        found = read_temperature(open_model(config({"model_type": kind, **own})).model, length)
        reported = found and (found.layers, found.floor, found.largest)
        assert reported == (wanted and (*wanted[:2], pytest.approx(wanted[2])))


def transformers_windows(config):
    """Return each layer's window from transformers' configuration, or one for all layers."""
    own = {
        name: value
        for name in ("sliding_window", "attention_chunk_size", "layer_types")
        if (value := print_results(config, name)) is not None
    }
    window, chunk = own.get("sliding_window"), own.get("attention_chunk_size")
    kinds = own.get("layer_types")
    if not isinstance(kinds, list):
        return {window if type(window) is int else None}
    return [window if "sliding" in k else chunk if "chunked" in k else None for k in kinds]


def print_results(config, name):
    try:
        return getattr(config, name, None)
    except Exception:  # layers differ, and some attributes raise an error
        return vars(config).get(name)


def test_windows_are_those_of_transformers(config):
    """The windows of all types equal those of transformers' configurations."""
    differing, seen = {}, 0
    for kind in TYPES:
        other = kind.startswith("modernbert") or kind == "moshi"
        if (type_row(kind) or {}).get("kind") != "rotary" or other:
            continue
        try:
            with quiet():
                theirs = config_class(kind)()
        except Exception:  # a class that needs settings
            continue
        expected = transformers_windows(theirs)
        count = print_results(theirs, "num_hidden_layers") or 4
        for form in (theirs.to_dict(), {"model_type": kind, "num_hidden_layers": count}):
            found = open_model(config(json.dumps(form, default=str))).layers
            windows = {i: run.window for run in found for i in run.index}
            if isinstance(expected, list) and windows:
                same = [windows[i] for i in range(len(expected))] == expected
            else:
                same = {run.window for run in found} == set(expected)
            seen += 1
            if not same:
                differing[kind] = ({run.window for run in found}, set(expected))
    assert differing == {}
    assert seen > 300


@pytest.mark.parametrize(
    ("kind", "own", "windows"),
    [
        ("qwen2", {"use_sliding_window": True, "max_window_layers": 2}, [None, None, 4096, 4096]),
        ("qwen2", {"use_sliding_window": True, "max_window_layers": 0}, [4096] * 4),  # all windows
        ("qwen2", {}, [None] * 4),
        ("qwen2_moe", {"use_sliding_window": True, "max_window_layers": 3}, [9, None, 9, None]),
        ("qwen3_moe", {"use_sliding_window": True}, [4096] * 4),
        ("dots1", {"max_window_layers": 3}, [None, None, None, 4096]),
        ("modernbert", {"local_attention": 256}, [None, 256, 256, None]),
        ("recurrent_gemma", {"attention_window_size": 300}, [None, None, 300, None]),
    ],
)
def test_windows_that_switches_set_are_those_of_transformers(runs, kind, own, windows):
    own = {**own, "sliding_window": 9} if 9 in windows else own
    equal_ones = runs(model_type=kind, num_hidden_layers=4, **own)
    found = {i: run.window for run in equal_ones for i in run.index}
    assert [found[i] for i in range(4)] == windows
    with quiet():
        theirs = transformers_windows(config_class(kind)(**{"num_hidden_layers": 4, **own}))
    both_sides = 2 if kind == "modernbert" else 1
    expected = list(theirs) * 4 if isinstance(theirs, set) else theirs
    assert [w and w * both_sides for w in expected] == windows


RECORDED = json.loads(record_layers.FILE.read_text())
TRIED = {kind: rows for kind, rows in RECORDED.items() if "R" in (rows[0][1] or "")}
UNTRIED = {"pe_audio_video_encoder", "pe_video_encoder"}  # of 197; only timm builds these two


def reported_letters(path):
    """Return a letter for each layer of a config, or no letters without a layer order."""
    runs = open_model(path).layers
    letters = {i: "R" if run.kind == "rotary" else "." for run in runs for i in run.index}
    return "".join(letters[i] for i in range(len(letters)))


def test_the_layers_that_rotate_equal_transformers(config):
    """The layers that rotate are those whose modules rotate in transformers.

    Each type is tested with a config of little but its type. A type whose layers differ is also
    tested with the whole config that transformers saves.
    """
    different, seen, several = [], Counter(), set()
    for kind, rows in TRIED.items():
        for settings, letters in rows:
            few = {"model_type": kind, "num_hidden_layers": len(letters)}
            forms = [few | SWITCHED.get(kind, {}) | settings]
            if len(rows) > 1:
                with quiet():
                    forms.append(changed(kind, **settings).to_dict())
            several |= {kind} if "." in letters else set()
            for form in forms:
                reported = reported_letters(config(json.dumps(form, default=str)))
                seen["told" if reported else "without an order"] += 1
                pairs = zip(reported, letters, strict=True) if reported else ()
                if any(own != theirs for own, theirs in pairs if theirs != "?"):
                    different.append((kind, letters, reported))
    assert different == []
    assert RECORDED.keys() - TRIED.keys() == UNTRIED
    assert seen["without an order"] <= 16
    assert len(several) >= 26


FIVE = {"num_hidden_layers": 5}
MANY = "must be a whole number from 1 to 16384; got"
REFUSED = [
    ({"model_type": "llama", "num_hidden_layers": 10**9}, MANY),  # once took 8 GiB
    ({"model_type": "bloom", "n_layer": 10**9}, MANY),
    ({**NOBODY, "num_layers": 16385}, MANY),
    ({**FIVE, "model_type": "deepseek_v4", "compress_ratios": [0, 5]}, "compress_ratios"),
    ({**FIVE, "model_type": "deepseek_v4", "compress_ratios": 3}, "compress_ratios"),
    ({**FIVE, "model_type": "bamba", "attn_layer_indices": "2"}, "indices .* layer numbers"),
]


@pytest.mark.parametrize(("values", "words"), REFUSED)
def test_layers_that_no_model_has_are_refused(runs, values, words):
    with refusal(words):
        runs(**values)
