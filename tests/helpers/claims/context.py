"""Claims of `context` about angles and lengths, evaluated by the published formulas."""

import json
import re
from itertools import count as numbers
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from pefourier import check, context
from pefourier.questions.extend import extend
from pefourier.report.render import conclude

TURN = 2 * np.pi * (1 - 1e-9)
PAIRS = r"(\d+) of (\d+) rotary pairs"
ORIGINAL, LONGEST = "original_max_position_embeddings", "max_position_embeddings"
SEARCHED = 2**20


def draws(rng, count):
    """Draw configs of every scaling, names and tables, at lengths around those of the configs."""
    makers = (scaled, scaled, scaled, windowed, by_name, misread, unrotated)
    with TemporaryDirectory() as folder:
        paths = (Path(folder) / f"{i}.json" for i in numbers())
        for i in range(count):
            spec, truth, options = makers[i % len(makers)](rng, paths)
            answer = context(spec, **options)
            yield f"{truth} {options}", answer, truth | options | {"spec": spec}


def around(rng, *lengths):
    """Draw a length at, just below or just above one of `lengths`, or None."""
    edge = rng.choice([n for n in lengths if n])
    return rng.choice(
        [None, max(int(edge * rng.choice([0.5, 1, 1, 1, 2, 8]) + rng.integers(-1, 2)), 3)]
    )


def sizes(rng):
    """Draw a head of a few pairs, and its base."""
    return 2 * int(rng.integers(2, 17)), float(
        rng.choice([1e4, 5e5, 30.0, 10 ** rng.uniform(0.2, 7)])
    )


def scaled(rng, paths):
    """Draw a config of any scaling or none, and a length around those of the config."""
    d, base = sizes(rng)
    kind = rng.choice(["none", "linear", "dynamic", "yarn", "llama3", "longrope"])
    factor, original = float(rng.choice([1.5, 2, 4, 8])), int(rng.choice([64, 2048, 4096, 777]))
    longest = int(original * rng.choice([1, 1, factor, 2 * factor]))
    says = bool(rng.random() < 0.6) or kind in ("llama3", "yarn", "longrope")
    section = {"rope_type": str(kind), "factor": factor} | ({ORIGINAL: original} if says else {})
    if kind == "llama3":
        section |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    if kind == "longrope":
        section |= {
            f"{name}_factor": np.sort(rng.uniform(1, 9, d // 2)).tolist()
            for name in ("short", "long")
        }
    config = {"model_type": "llama", "head_dim": d, "rope_theta": base, LONGEST: longest}
    config |= {} if kind == "none" else {"rope_scaling": section}
    config |= {} if rng.random() < 0.95 or kind == "dynamic" else {"num_hidden_layers": 3}
    path = next(paths)
    path.write_text(json.dumps(config))
    trained = rng.choice([None, None, None, original, longest, 3 * longest])
    options = {
        "length": around(rng, original, longest, original * factor, trained),
        "trained": trained,
    }
    truth = {"config": config, "section": section if kind != "none" else {}, "windows": [None]}
    return str(path), truth, {k: int(v) for k, v in options.items() if v}


def windowed(rng, paths):
    """Draw a model whose layers have windows, some perhaps full attention."""
    d, base = sizes(rng)
    layers, window, longest = (
        int(rng.integers(1, 9)),
        int(rng.choice([8, 64, 65])),
        64 * int(rng.integers(1, 9)),
    )
    kinds = [
        str(rng.choice(["sliding_attention", "sliding_attention", "full_attention"]))
        for _ in range(layers)
    ]
    config = {
        "model_type": "qwen2",
        "hidden_size": 8 * d,
        "num_attention_heads": 8,
        "rope_theta": base,
    }
    config |= {LONGEST: longest, "layer_types": kinds, "num_hidden_layers": layers}
    config |= {"sliding_window": window, "use_sliding_window": True}
    path = next(paths)
    path.write_text(json.dumps(config))
    windows = [window if kind == "sliding_attention" else None for kind in kinds]
    length = around(rng, longest, window)
    truth = {"config": config | {"head_dim": d}, "section": {}, "windows": windows}
    return str(path), truth, {"length": int(length)} if length else {}


def by_name(rng, _):
    """Draw a rotation by name, with a trained length or without."""
    d, base = sizes(rng)
    trained = rng.choice([None, 100, 4096])
    truth = {"config": {"head_dim": d, "rope_theta": base}, "section": {}, "windows": [None]}
    options = {"length": int(around(rng, 100, 4096, trained) or 99), "d": d, "trained": trained}
    return f"rope:rho={base!r}", truth, {k: int(v) for k, v in options.items() if v}


def misread(rng, _):
    """Draw a rotation that is read with another base: near, far or equal."""
    d, base = sizes(rng)
    other = float(f"{base * rng.choice([1, 1 + 1e-9, 1 + 1e-4, 1.5, 30]):.12g}")
    truth = {
        "config": {"head_dim": d, "rope_theta": base},
        "section": {},
        "other": other,
        "windows": [None],
    }
    return f"rope:rho={base!r}", truth, {"length": 512, "d": d, "against": f"base={other!r}"}


def unrotated(rng, paths):
    """Draw tables that end, formulas that do not, or buckets."""
    path = next(paths).with_suffix(".npy")
    rows, length = int(rng.integers(8, 90)), int(rng.integers(8, 120))
    table = rng.normal(size=(rows, 8))
    if rng.random() < 0.5:
        angles = np.outer(np.arange(rows), 1e4 ** (-np.arange(8) / 8))
        table = np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(rows, 16)
    np.save(path, table)
    spec = str(
        rng.choice(
            ["alibi", "none", "sinusoidal", "t5:max_distance=40,buckets=16", "learned", str(path)]
        )
    )
    return spec, {"rows": rows, "table": table}, {"length": length}


def frequencies(truth, length):
    """Return frequencies at a length by the formulas of transformers, in radians per position."""
    config, section = truth["config"], truth["section"]
    d, base, kind = config["head_dim"], config["rope_theta"], section.get("rope_type", "none")
    theta, s = base ** (-np.arange(0, d, 2) / d), section.get("factor")
    original = section.get(ORIGINAL)
    if kind == "linear":
        return theta / s
    if kind == "dynamic":
        start = config[LONGEST]
        ratio = s * max(length, start) / start - (s - 1)
        return (base * ratio ** (d / (d - 2))) ** (-np.arange(0, d, 2) / d)
    if kind == "longrope":
        return theta / np.array(section["long_factor" if length > original else "short_factor"])
    if kind == "llama3":
        wave, low, high = 2 * np.pi / theta, original / 1.0, original / 4.0
        share = (original / wave - 1) / 3
        middle = (1 - share) * theta / s + share * theta
        return np.where(wave > low, theta / s, np.where(wave < high, theta, middle))
    if kind == "yarn":
        ends = [d * np.log(original / (n * 2 * np.pi)) / (2 * np.log(base)) for n in (32, 1)]
        low, high = max(np.floor(ends[0]), 0), min(np.ceil(ends[1]), d - 1)
        ramp = np.clip((np.arange(d // 2) - low) / (high - low if high != low else 0.001), 0, 1)
        return theta / s * ramp + theta * (1 - ramp)
    return theta


def plain(truth):
    """Return the frequencies without the scaling."""
    return frequencies(truth | {"section": {}}, 1)


def met_angles(answer, truth):
    """Return the largest angle of each pair in the training that the sentence names."""
    trained = answer.trained.length
    if answer.trained.source == "given" or (
        answer.trained.source == "assumed" and not known_before(truth)
    ):
        return frequencies(truth, trained) * trained
    return plain(truth) * trained


def known_before(truth):
    """Return whether the length before scaling is stated, or follows from published models."""
    section, longest = truth["section"], truth["config"].get(LONGEST, 0)
    if ORIGINAL in section or section.get("rope_type") == "dynamic":
        return True
    lengths = {longest, longest / section.get("factor", 1)} & {2048, 4096}
    return len(lengths) == 1 and truth["config"]["rope_theta"] == 1e4


def new_pairs(answer, truth):
    """Return the number of pairs that reach angles not seen in that training."""
    length = min(answer.length, max((w or answer.length) for w in truth["windows"]))
    angles, met = frequencies(truth, answer.length) * length, met_angles(answer, truth)
    return int(((angles > met * (1 + 1e-9)) & (met < TURN)).sum())


def sentences(answer):
    """Return the meaning and the action as printed."""
    return conclude(answer)[1:3]


def reported_pairs(answer):
    """Return the counts of pairs in the meaning."""
    return tuple(map(int, re.search(PAIRS, sentences(answer)[0]).groups()))


def reported_lengths(answer):
    """Return the numbers of positions in the meaning."""
    return [
        int(n.replace(",", "")) for n in re.findall(r"([\d,]+) positions", sentences(answer)[0])
    ]


def unseen_is_true(answer, truth):
    """The stated number of pairs reach new angles, and no config's scaling covers the length."""
    covered = truth["section"] and known_before(truth) and "trained" not in truth
    longest, before = truth["config"].get(LONGEST, 0), answer.trained.length
    assert not (covered and before < longest and answer.length <= longest)
    assert reported_lengths(answer) == [answer.length, before]
    return reported_pairs(answer) == (new_pairs(answer, truth), truth["config"]["head_dim"] // 2)


def within_is_true(answer, truth):
    """The config states at least the length, which exceeds that before scaling; pairs go beyond."""
    stated, original = reported_lengths(answer)
    assert stated == truth["config"][LONGEST] >= answer.length
    assert original < stated
    assert original == truth["section"].get(ORIGINAL, original)
    return reported_pairs(answer)[0] == new_pairs(answer, truth) > 0


def seen_is_true(answer, truth):
    """No pair reaches new angles, and the stated number do not complete a rotation."""
    idle = (frequencies(truth, answer.length) * answer.length < TURN).sum()
    assert reported_pairs(answer)[0] == idle
    return new_pairs(answer, truth) == 0


def hidden_is_true(answer, truth):
    """The stated token is the first on which a token depends through the windows of all layers."""
    assert all(w is not None and w < answer.length for w in truth["windows"])
    earliest = 0
    for window in truth["windows"]:
        earliest -= window - 1
    return reported_lengths(answer)[2] == 1 - earliest and new_pairs(answer, truth) == 0


def cosines(truth, count):
    """Return the cosines between the vectors of both readings at positions 0 … count - 1."""
    other = truth | {"config": truth["config"] | {"rope_theta": truth["other"]}}
    apart = plain(truth) - plain(other)
    return np.mean([np.cos(np.arange(count) * w) for w in apart], axis=0)


def differs_is_true(answer, truth):
    """The stated position is the first at which the cosine is below 0.99."""
    first = int(re.search(r"0\.99 at position ([\d,]+)", sentences(answer)[0])[1].replace(",", ""))
    below = cosines(truth, first + 1) < 0.99
    return below[-1] and not below[:-1].any()


def alike_is_true(answer, truth):
    """The cosine is above 0.99 up to 2^20 positions."""
    return (cosines(truth, SEARCHED) > 0.99 - 1e-12).all()


def far_is_true(answer, truth):
    """From the stated distance on, each side has one bias, unlike the distance before it."""
    far = int(re.search(r"distances from (\d+) on", sentences(answer)[0])[1])
    vectors = answer.encodings[0].vectors
    side = [vectors(sign * np.arange(far - 1, far + 300)) for sign in (1, -1)]
    assert all((one[1:] == one[1]).all() for one in side)
    return any((one[0] != one[1]).any() for one in side)


def follow_unseen(answer, truth):
    """The command compares scalings, one of which leaves fewer pairs with new angles.

    The trained length is typed in the command.
    """
    action = sentences(answer)[1]
    if command := re.search("`pefourier design (.*?)`", action):
        words = command[1].split()
        options = dict(zip(words[::2], words[1::2], strict=True))
        found = extend(
            options["--extend-from"],
            options["--to"],
            trained=options.get("--length"),
            d=options.get("--d"),
        )
        assert found.length == answer.length
    if given := re.search(r"--trained (\d+)", action):
        sizes = {k: truth[k] for k in ("length", "d") if k in truth}
        seen = context(truth["spec"], trained=int(given[1]), **sizes)
        assert seen.verdict in ("no new angles", "beyond every window")
    return True


def follow_unknown(answer, truth):
    """With a trained length, the question is answered."""
    seen = context(truth["spec"], trained=truth["length"], length=truth["length"], d=truth["d"])
    return seen.verdict == "no new angles"


def follow_rows(answer, truth):
    """The named formula computes more rows, if the table follows one."""
    rows = check(truth["spec"])
    return (rows.identified is not None) == (truth["table"].shape[1] == 16)


VERDICTS = {
    "unseen angles": unseen_is_true,
    "within the stated length": within_is_true,
    "no new angles": seen_is_true,
    "beyond every window": hidden_is_true,
    "training length unknown": lambda answer, truth: LONGEST not in truth["config"],
    "read differently": differs_is_true,
    "read alike": alike_is_true,
    "limited distance": far_is_true,
    "too few rows": lambda answer, truth: (
        reported_numbers(answer)
        == (truth["rows"], truth["length"] - truth["rows"], truth["length"])
    ),
    "any length": lambda answer, truth: np.isfinite(
        answer.encodings[0].vectors(np.array([2**20]))
    ).all(),
    "no positions": lambda answer, truth: not answer.encodings[0].vectors(np.arange(9)).any(),
    "fixed length": lambda answer, truth: (
        len(answer.encodings[0].table()) == reported_numbers(answer)[0]
    ),
}


def reported_numbers(answer):
    """Return all numbers of the meaning."""
    return tuple(int(n.replace(",", "")) for n in re.findall(r"\d[\d,]*", sentences(answer)[0]))


ACTIONS = {
    "unseen angles": follow_unseen,
    "training length unknown": follow_unknown,
    "too few rows": follow_rows,
}


def assumed_is_true(finding, answer, truth):
    """With --trained as typed, the answer is the other reading and reaches the stated length."""
    message = finding.message
    if not (typed := re.search(r"pass --trained (\d+)", message)):
        return f"{answer.trained.length} positions" in message
    other = context(truth["spec"], length=answer.length, trained=int(typed[1]))
    longest, factor = truth["config"][LONGEST], truth["section"]["factor"]
    assert f"{LONGEST}={longest}" in message
    assert other.trained.length in (longest, round(longest * factor), round(longest / factor))
    return (
        other.trained.length != answer.trained.length
        or not known_before(truth)
        or (
            other.rotations[0].familiar_length != answer.rotations[0].familiar_length
            or answer.rotations[0].familiar_length is None
        )
    )


def by_length_is_true(finding, answer, truth):
    """The frequencies are equal up to the stated length and different beyond."""
    edge = int(re.search(r"beyond (\d+) positions", finding.message)[1])
    before, at, beyond = (frequencies(truth, n) for n in (edge // 2, edge, 2 * edge))
    return (before == at).all() and (at != beyond).any()


def lengths_are_true(finding, answer, truth):
    """Factor and lengths are those of the config, and the ratio is that of the lengths."""
    longest, original = truth["config"][LONGEST], truth["section"][ORIGINAL]
    assert f"{longest} / {original} = {longest / original:g}" in finding.message
    return truth["section"]["factor"] not in (longest / original, 1.0)


def original_is_true(finding, answer, truth):
    """The length before scaling is at least the length after it."""
    return truth["section"][ORIGINAL] >= truth["config"][LONGEST]


def unusual_is_true(finding, answer, truth):
    """Llama 3.1 with base 500000 was trained on 8192 positions; the config has another length."""
    config, section = truth["config"], truth["section"]
    return config["rope_theta"] == 5e5 and section[ORIGINAL] != 8192 and "8192" in finding.message


def unread_is_true(finding, answer, truth):
    """The key is in the config, and the rotation is equal without the key."""
    key = re.match(r"'?(\w+)'? of", finding.message)[1]
    rest = {k: v for k, v in truth["section"].items() if k != key}
    if key not in truth["section"]:  # a window, although no layer has one
        return key in truth["config"] and set(truth["windows"]) == {None}
    return (frequencies(truth, 99) == frequencies(truth | {"section": rest}, 99)).all()


FINDINGS = {
    "trained-assumed": assumed_is_true,
    "rope-by-length": by_length_is_true,
    "rope-lengths": lengths_are_true,
    "rope-original": original_is_true,
    "rope-original-unusual": unusual_is_true,
    "unread-key": unread_is_true,
}
WITHOUT = {
    "no rotation": "a statement of what the input is not",
    "logits scaled": "a factor, recomputed in tests/questions/test_context.py",
    "a grid": "what the input is",
    "rope-long-factor": "which list is used, compared with that list by `frequencies`",
    "codes repeat": "the finding repeating-codes, claimed of check-faithful",
}
