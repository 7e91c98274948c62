"""Claims of `compare` about two configs, a config and a .gguf file, and two biases."""

import json
import re
import tempfile
from pathlib import Path

import numpy as np
from stored import gguf_bytes

import pefourier

LONGEST = 4096  # positions of every config
WIDTH = 32  # dimensions of a head
LLAMA = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 2, "rope_theta": 1e4}
LLAMA |= {"num_hidden_layers": 3, "max_position_embeddings": LONGEST}
KINDS = ("default", "linear", "dynamic", "yarn", "llama3", "longrope")
USUAL = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0}
ORIGINAL = "original_max_position_embeddings"
NUMBER = r"[-+\d.e]+"


def config_of(rng, kind):
    """Return a config of one type of rope, with drawn settings."""
    config = LLAMA | {"rope_theta": float(rng.choice([1e4, 5e5, 1e6]))}
    if kind == "default":
        return config
    scaling = {"rope_type": kind, "factor": float(rng.choice([2.0, 4.0, 8.0]))}
    if kind in ("yarn", "llama3", "longrope"):
        scaling[ORIGINAL] = int(rng.choice([512, 1024]))
    if kind == "llama3":
        scaling |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    if kind == "longrope":
        pairs = WIDTH // 2
        scaling |= {"short_factor": [1.0] * pairs, "long_factor": np.linspace(1, 6, pairs).tolist()}
    return config | {"rope_scaling": scaling}


def changed(rng, config):
    """Return a copy with one or two settings changed, perhaps to values without effect."""
    other = json.loads(json.dumps(config))
    scaling = other.get("rope_scaling")
    ways = ["base", "lost", "none"] if scaling else ["base", "added", "none"]
    for way in rng.choice(ways, size=rng.integers(1, 3), replace=False):
        if way == "base":
            other["rope_theta"] = float(rng.choice([1e4, 2e4, 5e5]))
        elif way == "lost" and rng.random() < 0.5:
            other.pop("rope_scaling", None)
        elif way == "lost" and "rope_scaling" in other:
            key = rng.choice([k for k in ("factor", ORIGINAL) if k in scaling])
            scaling[key] = type(scaling[key])(scaling[key] * 2)
        elif way == "added":
            other["rope_scaling"] = config_of(rng, str(rng.choice(KINDS[1:])))["rope_scaling"]
    return other


def frequencies(config, n):
    """Return inverse frequencies and attention factor at a length, as in transformers."""
    base, scaling = config["rope_theta"], config.get("rope_scaling") or {}
    kind, factor = scaling.get("rope_type", "default"), scaling.get("factor", 1.0)
    original = scaling.get(ORIGINAL, LONGEST)
    i = np.arange(WIDTH // 2)
    if kind == "dynamic":
        length = max(n, LONGEST)
        base *= (factor * length / LONGEST - (factor - 1)) ** (WIDTH / (WIDTH - 2))
    omega = base ** (-2 * i / WIDTH)
    if kind == "linear":
        return omega / factor, 1.0
    if kind == "llama3":
        return np.array([llama3(w, factor, original) for w in omega]), 1.0
    if kind == "longrope":
        divisors = scaling["long_factor" if n > original else "short_factor"]
        return omega / divisors, np.sqrt(1 + np.log(factor) / np.log(original))
    if kind == "yarn":
        low, high = (
            WIDTH * np.log(original / (turns * 2 * np.pi)) / (2 * np.log(config["rope_theta"]))
            for turns in (32, 1)
        )
        low, high = max(np.floor(low), 0), min(np.ceil(high), WIDTH - 1)
        ramp = np.clip((i - low) / max(high - low, 0.001), 0, 1)
        return omega / factor * ramp + omega * (1 - ramp), 0.1 * np.log(factor) + 1
    return omega, 1.0


def llama3(w, factor, original):
    turns = original * w / (2 * np.pi)
    if turns > 4:
        return w
    share = (turns - 1) / 3
    return w / factor if turns < 1 else (1 - share) * w / factor + share * w


def gguf_of(config):
    """Return the GGUF file that a converter writes for a config with no or linear scaling."""
    values = {"general.architecture": "llama", "llama.context_length": LONGEST}
    values |= {"llama.block_count": 3, "llama.rope.dimension_count": WIDTH}
    values |= {"llama.embedding_length": 64, "llama.attention.head_count": 2}
    values["llama.rope.freq_base"] = config["rope_theta"]
    if scaling := config.get("rope_scaling"):
        values["llama.rope.scaling.type"] = scaling["rope_type"]
        values["llama.rope.scaling.factor"] = scaling["factor"]
        values["llama.rope.scaling.original_context_length"] = scaling.get(ORIGINAL, LONGEST)
    return gguf_bytes(values)


def slopes_of(rng, heads):
    by_rule = 2.0 ** (-8 * np.arange(1, heads + 1) / heads)
    kinds = [by_rule, -by_rule, by_rule * 2, by_rule[::-1], np.tile(by_rule[:2], heads // 2)]
    return kinds[rng.integers(len(kinds))] * (1 + rng.choice([0, 1e-7, 1e-3]))


def pair_of_biases(rng):
    """Draw two biases, or two masks of windows, as arrays."""
    lag = np.arange(20) - np.arange(20)[:, None]
    if rng.random() < 0.5:
        return [slopes_of(rng, 4)[:, None, None] * -abs(lag) for _ in range(2)]
    sizes = [(int(rng.integers(1, 6)), int(rng.choice([0, 3]))) for _ in range(2)]
    masks = [(lag >= -before) & (lag <= after) for before, after in sizes]
    if rng.random() < 0.5:
        return masks
    return [np.where(mask, 0.0, -np.inf) for mask in masks]


def draws(rng, count):
    with tempfile.TemporaryDirectory() as folder:
        for k in range(count):
            if k % 4 == 3:
                pair = pair_of_biases(rng)
                yield f"biases {k}", pefourier.compare(*pair), pair
                continue
            first = config_of(rng, KINDS[k % len(KINDS)])
            second = changed(rng, first)
            as_gguf = k % 4 == 2 and (second.get("rope_scaling") or {}).get("rope_type") in (
                None,
                "linear",
                "yarn",
            )
            one, two = (Path(folder, f"{k}{name}") for name in ("a.json", "b.json"))
            one.write_text(json.dumps(first))
            two.write_text(json.dumps(second))
            if as_gguf:
                two = two.with_suffix(".gguf")
                two.write_bytes(gguf_of(second))
            yield f"{first} {second}", pefourier.compare(str(one), str(two)), (first, second)


def is_config(truth):
    return isinstance(truth[0], dict)


def differing(truth, n):
    (one, a), (two, b) = (frequencies(config, n) for config in truth)
    return int((abs(one - two) > 2e-6 * one).sum()), abs(a - b) > 2e-6 * a


def numbers_differ(truth):
    """Return whether biases differ by more than a constant for each query, or masks hide others."""
    hidden = [np.isneginf(x) if x.dtype != bool else ~x for x in truth]
    a, b = (np.where(hide, 0, x.astype(float)) for hide, x in zip(hidden, truth, strict=True))
    gap = np.ptp(a - b, axis=-1).max()
    return bool((hidden[0] != hidden[1]).any() or gap > 1e-5 * max(abs(a).max(), 1e-30))


def is_the_same(answer, truth):
    """All compared quantities agree over the stated positions, and for models at every length."""
    if not is_config(truth):
        return not numbers_differ(truth)
    lengths = (1, 511, 512, 513, 1024, 1025, answer.length, LONGEST + 1, 2 * LONGEST, 2**17)
    return not any(any(differing(truth, n)) for n in lengths)


def is_different(answer, truth):
    meaning = answer.to_dict()["meaning"]
    if not is_config(truth):
        return numbers_differ(truth)
    if meaning.startswith("The attention factor"):
        return differing(truth, answer.length) == (0, True)
    reported = re.match(r"(\d+) of (\d+) pairs(?: at (\d+) positions)? differs?\.", meaning)
    reported_at = int(reported[3] or answer.length)
    return (int(reported[1]), int(reported[2])) == (differing(truth, reported_at)[0], WIDTH // 2)


def settings_are_reported(message, truth):
    """Each named setting differs as stated, and no other setting makes a difference."""
    first, second = truth
    mixed = json.loads(json.dumps(first))
    base = re.search(rf"base ({NUMBER}) in the first, ({NUMBER}) in the second", message)
    if base:
        assert np.allclose([float(x) for x in base.groups()], [c["rope_theta"] for c in truth])
        mixed["rope_theta"] = second["rope_theta"]
    scalings = [config.get("rope_scaling") or {} for config in truth]
    kinds = [scaling.get("rope_type") for scaling in scalings]
    for words in re.finditer(r"(\w+) scaling(?: \(([^)]*)\))?", message):
        holder = scalings[kinds.index(words[1])]
        stated = dict(part.split(" ", 1) for part in (words[2] or "").split(", ") if part)
        assert float(stated.get("factor", 1)) == holder["factor"]
        assert int(stated.get("original", LONGEST)) == holder.get(ORIGINAL, LONGEST)
        mixed["rope_scaling"] = second.get("rope_scaling")
    for key, name in (("factor", "factor"), ("original", ORIGINAL)):
        one = re.search(rf"(?:: |; ){key} ({NUMBER}) in the first, ({NUMBER}) in", message)
        if one:
            reported = [float(x) for x in one.groups()]
            known = [scaling.get(name, LONGEST) for scaling in scalings]
            assert reported == known or kinds == ["longrope"] * 2
            mixed["rope_scaling"][name] = second["rope_scaling"].get(name)
    for n in (64, LONGEST, 2 * LONGEST):
        assert np.allclose(frequencies(mixed, n)[0], frequencies(second, n)[0], rtol=2e-6)
    return True


def layers_are_reported(finding, answer, truth):
    assert finding.message.startswith("all 3 layers differ in the same way: ")
    return settings_are_reported(finding.message, truth)


def misreading_is_reported(finding, answer, truth):
    if is_config(truth):
        if "attention factor" in finding.message:
            reported = re.search(
                rf"attention factor ({NUMBER}) in the first, ({NUMBER})", finding.message
            )
            known = [frequencies(config, 1)[1] for config in truth]
            return np.allclose([float(x) for x in reported.groups()], known, rtol=1e-6)
        return settings_are_reported(finding.message, truth)
    windows = re.findall(r"(\d+) before and (\d+) after the query", finding.message)
    if not windows:
        return "slopes" in finding.message
    lag = np.arange(20) - np.arange(20)[:, None]
    for (before, after), mask in zip(windows, truth, strict=True):
        visible = mask if mask.dtype == bool else mask == 0
        assert np.array_equal(visible, (lag >= -int(before)) & (lag <= int(after)))
    return True


def lengths_are_reported(finding, answer, truth):
    n = [int(x) for x in re.findall(r"\d+", finding.message)]
    if "beyond" in finding.message:
        limit, reported_at, count, of = n
        lengths = np.unique(np.geomspace(1, limit, 20).astype(int))
        assert not any(differing(truth, m)[0] for m in lengths)
        assert differing(truth, limit + 1)[0]
    else:
        length, reported_at, count, of = n
        assert not differing(truth, length)[0]
        assert all(differing(truth, m)[0] for m in (1, reported_at))
    return (count, of) == (differing(truth, reported_at)[0], WIDTH // 2)


def heads_are_reported(finding, answer, truth):
    worst = float(re.search(rf"differ by up to ({NUMBER}\d)", finding.message)[1])
    a, b = truth
    indices = [i for i in range(len(a)) if abs(a[i] - b[i]).max() > 1e-5 * abs(a).max()]
    ratios = re.search(rf"are ({NUMBER})(?: to ({NUMBER}))? times", finding.message)
    slopes = [(b[i, 1, 0] - b[i, 0, 0]) / (a[i, 1, 0] - a[i, 0, 0]) for i in indices]
    known = [min(slopes), max(slopes)] if ratios[2] else [slopes[0]]
    assert np.allclose([float(x) for x in ratios.groups() if x], known, rtol=1e-5)
    assert [head.index for head in answer.heads] == indices
    return np.isclose(worst, abs(a - b).max(), rtol=5e-3)


def pairs_are_reported(finding, answer, truth):
    ratios = re.search(rf"are ({NUMBER})(?: to ({NUMBER}))? times", finding.message)
    (one, _), (two, _) = (frequencies(config, answer.length) for config in truth)
    apart = (two / one)[abs(two - one) > 2e-6 * one]
    reported = [float(x) for x in ratios.groups() if x]
    return np.allclose([reported[0], reported[-1]], [apart.min(), apart.max()], rtol=1e-5)


VERDICTS = {"the same": is_the_same, "different": is_different}
FINDINGS = {
    "layers-differ": layers_are_reported,
    "misread": misreading_is_reported,
    "length-dependent": lengths_are_reported,
    "heads-differ": heads_are_reported,
    "pairs-differ": pairs_are_reported,
}
ACTIONS = {}
WITHOUT = {
    "lengths-differ": "counts of the answer",
    "numbers-unchanged": "never of configs",
    "constant-for-each-query": "covered by the same",
    "keys-behind": "no number",
    "rows-as-converted": "no number",
}
