"""Claims of `usage` about weights, given as drawn shares."""

import re
from dataclasses import replace

import numpy as np
from drawn_usage import drawn_model

from pefourier.encodings import load
from pefourier.questions.usage import Usage
from pefourier.weights.pair_energy import LayerShares, PairLayout, pair_rows
from pefourier.weights.summary import summarise

SHAPES = [
    (1, 1, 1, 4, 16),
    (2, 4, 2, 8, 32),
    (4, 8, 2, 16, 32),
    (2, 8, 8, 16, 8),
    (1, 2, 1, 64, 64),
]
SHAPES += [(4, 8, 8, 64, 64)]  # layers, heads, key heads, pairs, columns


def draws(rng, count):
    for i in range(count):
        shape, length = SHAPES[rng.integers(len(SHAPES))], int(np.exp(rng.uniform(1, 9)))
        layers, heads, kv, pairs = shape[:4]
        kind = rng.integers(5)
        if kind == 0:  # all energy of each head in one pair, the same or another
            one = rng.integers(pairs, size=(layers, kv)) if rng.integers(2) else pairs - 1
            held = np.broadcast_to(one, (layers, kv)).repeat(heads // kv, axis=1)
            shares = [np.eye(pairs)[held[layer]] for layer in range(layers)]
            own = [LayerShares(n, 0, kv, s, s, s) for n, s in enumerate(shares)]
            use = summarise("", 1e4 ** -(np.arange(pairs) / pairs), length, own)
            models, truth = [use], (length, own)
        else:
            louder = [1.0, 1.2, 4.0, 100.0][kind - 1]
            start = rng.integers(pairs)
            of = slice(start, start + rng.integers(1, pairs))
            state = rng.bit_generator.state
            models = [drawn_model(rng, shape, louder, of, length=length)]
            rng.bit_generator.state = state
            truth = (length, drawn_shares(rng, shape, louder, of))
        if i % 10 == 9:
            models = [replace(models[0], name=name) for name in ("sliding", "full")]
        rows = pair_rows(pairs, "halves")
        models = [
            replace(use, half_rows=tuple(sorted(rows[:, list(use.half)].ravel().tolist())))
            for use in models
        ]
        pairing, encodings = (
            PairLayout("halves", "config", 0.7, -0.1),
            (load("rope", 8, 2 * pairs),),
        )
        answer = Usage(
            *("m", length, length, pairing, (), tuple(models), None, "applied", ()),
            encodings=encodings,
        )
        yield f"{kind} {shape} {length}", answer, truth


def drawn_shares(rng, shape, louder, of):
    """Repeat the draws of `drawn_model` and return its shares."""
    layers, heads, kv, pairs, columns = shape
    shares = []
    for layer in range(layers):
        q, k = (rng.chisquare(2 * columns, (n, pairs)) for n in (heads, kv))
        q[:, of] *= louder
        product = (q / q.sum(axis=1)[:, None]) * np.repeat(
            k / k.sum(axis=1)[:, None], heads // kv, 0
        )
        product /= product.sum(axis=1, keepdims=True)
        shares.append(LayerShares(layer, 0, kv, product, product, product))
    return shares


def kinds(truth):
    """Return the shares, the pairs without a full rotation, and those with more than 32."""
    length, shares = truth
    pairs = shares[0].product.shape[1]
    turns = 1e4 ** -(np.arange(pairs) / pairs) * length / (2 * np.pi)
    used = np.concatenate([layer.product for layer in shares])
    return used, turns < 1, turns > 32


def reported_values(answer):
    from pefourier.report.render import conclude

    meaning = conclude(answer)[1]
    counts = [int(x) for x in re.findall(r"(\d+)(?: of (?:\d+))?(?: rotary)? pairs", meaning)]
    return meaning, counts, [float(x) for x in re.findall(r"([\d.]+)%", meaning)]


def near(stated, share):
    """Return whether a percentage in two digits is that of a share."""
    return (
        abs(stated - 100 * share) <= 0.051 * max(stated, 1e-9)
        or f"{100 * share:.2g}" == f"{stated:g}"
    )


def prefers(which, sign):
    def predicate(answer, truth):
        used, *members = kinds(truth)
        member = members[which]
        held, even = used[:, member].sum(axis=1).mean(), member.mean()
        _, counts, stated = reported_values(answer)
        assert counts[0] == member.sum()
        assert near(stated[0], held)
        assert near(stated[1], even)
        return sign * (held - even) > 0.1 * even and not by_chance(truth, member)

    return predicate


def by_chance(truth, member, slack=0.85):
    """Return whether pairs shuffled in groups of heads differ as much, by 3 standard deviations."""
    rng, drawn, (_, shares) = np.random.default_rng(0), [], truth
    groups = np.concatenate(
        [s.product.reshape(s.kv_heads, -1, len(member)).sum(axis=1) for s in shares]
    )
    count = sum(len(s.product) for s in shares)
    for _ in range(400):
        drawn.append(rng.permuted(groups, axis=1)[:, member].sum() / count)
    excess = groups[:, member].sum() / count - member.mean()
    return abs(excess) < slack * 3 * np.std(drawn)


def no_preference(answer, truth):
    used, slow, fast = kinds(truth)
    _, _, stated = reported_values(answer)
    expected = [
        f(m) for m in (slow, fast) for f in (lambda m: used[:, m].sum(axis=1).mean(), np.mean)
    ]
    assert all(map(near, stated, expected)), (stated, expected)
    for member in (slow, fast):
        excess = used[:, member].sum(axis=1).mean() - member.mean()
        assert abs(excess) <= 0.1001 * member.mean() or by_chance(truth, member, 1.15)
    return not few(used)


def spread(used):
    logs = np.log(np.where(used > 0, used, 1.0))
    return np.exp(-(used * logs).sum(axis=1))


def few(used):
    return np.median(spread(used)) <= used.shape[1] / 2


def few_pairs(answer, truth):
    used, slow, _ = kinds(truth)
    meaning, _, stated = reported_values(answer)
    no_wider = float(re.search(r"no wider than over ([\d.]+) evenly", meaning)[1])
    assert (spread(used) <= no_wider * 1.01).mean() >= 0.5
    assert near(stated[0], used[:, slow].sum(axis=1).mean())
    return few(used)


def each_type(answer, truth):
    parts = answer.preferences.split("; ")
    return [part.partition(": ")[0] for part in parts] == ["sliding", "full"]


VERDICTS = {
    "slow pairs favoured": prefers(0, 1),
    "slow pairs neglected": prefers(0, -1),
    "fast pairs favoured": prefers(1, 1),
    "fast pairs neglected": prefers(1, -1),
    "few pairs used": few_pairs,
    "no preference": no_preference,
    "by layer type": each_type,
}
WITHOUT = {
    "probably a mistake": "the correlations of norms are tested in tests/weights/test_usage.py",
    "usage-weights-only": "about what weights do not say",
    "usage-rounded-keys": "held to drawn keys in tests/weights/test_quantise.py",
}
