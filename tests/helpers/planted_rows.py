"""Causes of rows, applied and drawn with the arithmetic of the tests."""

import numpy as np
from claims import read_conclusion

OMEGA = 5e5 ** (-np.arange(0, 32, 2) / 32)  # of the small Llama
APPLIED = {  # what each cause makes of a list, with the test's own arithmetic
    "shifted": lambda e, by: [x + by for x in e],
    "reversed": lambda e: e[::-1],
    "step": lambda e, by: [e[0] + by * i for i in range(len(e))],
    "clamped": lambda e, to: [min(x, to) for x in e],
    "repeated": lambda e, at, count: (e[:at] + [e[at - 1]] * count + e[at:])[: len(e)],
    "restarted": lambda e, at: e[:at] + e[: len(e) - at],
    "gap": lambda e, at, by: e[:at] + [x + by for x in e[at:]],
    "backwards": lambda e, at, by: e[:at] + [x - by for x in e[at:]],
    "wrong": lambda e, at, value: [*e[:at], value, *e[at + 1 :]],
    "divided": lambda e, by: [x // by for x in e],
    "exchanged": lambda e, first, second, count: [
        *e[:first],
        *e[second : second + count],
        *e[first + count : second],
        *e[first : first + count],
        *e[second + count :],
    ],
}

VERDICTS = {"shifted": "offset", "step": "gap", "wrong": "gap or backwards"}
VERDICTS |= dict.fromkeys(("clamped", "divided"), "repeated")
VERDICTS |= dict.fromkeys(("reversed", "exchanged", "axes-exchanged", "column-major"), "backwards")


def is_verdict(found, code, ids):
    """Whether an answer about ids has the verdict of a cause, and words for it."""
    named = VERDICTS.get(code, code.replace("-", " "))
    verdict = read_conclusion(found)["verdict"]
    return verdict in named.split(" or ") if np.min(ids) >= 0 else verdict == "negative"


def drawn(code, rng, n):
    """Draw parameters of a cause that no other cause shares."""
    at, by = int(rng.integers(3, n - 5)), int(rng.integers(2, 9))
    if code == "exchanged":
        first, count = int(rng.integers(0, n // 3)), int(rng.integers(1, n // 3))
        second = int(rng.integers(first + count, n - count + 1))
        return {"first": first, "second": second, "count": count}
    return {
        "shifted": {"by": by * int(rng.choice([-1, 1]))},
        "reversed": {},
        "divided": {"by": by},
        "step": {"by": by * int(rng.choice([-1, 1]))},
        "clamped": {"to": at},
        "repeated": {"at": at, "count": int(rng.integers(1, 4))},
        "restarted": {"at": at},
        "gap": {"at": at, "by": by},
        "backwards": {"at": at, "by": by if by != at else by + 1},
        "wrong": {"at": at, "value": int(rng.choice([-3, 2 * n, at - 2, at + 3]))},
    }[code]


def applied(cause, numbers):
    """Return what a cause makes of a list, in the rows that it is confined to."""
    facts = {k: v for k, v in cause.items() if k not in ("code", "step", "within", "axis")}
    first, last = cause.get("within", {}).get("rows", (0, len(numbers) - 1))
    part = APPLIED[cause["code"]](numbers[first : last + 1], **facts)
    return [*numbers[:first], *part[: last + 1 - first], *numbers[last + 1 :]]


def reproduces(causes, expected, observed):
    """Whether causes give the observed numbers; those that begin again do so at either start."""
    lists = [list(expected)]
    for cause in causes:
        made = [applied(cause, e) for e in lists]
        if cause["code"] == "restarted":
            first, last = cause.get("within", {}).get("rows", (0, len(expected) - 1))
            made += [
                [*e[: first + cause["at"]], *range(last + 1 - first - cause["at"]), *e[last + 1 :]]
                for e in lists
            ]
        lists = made
    return list(observed) in lists


def shard_of(shard, rank, ranks, n):
    """Return the ids of a rank, with the test's own arithmetic."""
    half, mirror = n // 2, 2 * ranks - 1 - rank
    return {
        "every": [rank + ranks * i for i in range(n)],
        "block": [rank * n + i for i in range(n)],
        "zigzag": [
            *range(rank * half, (rank + 1) * half),
            *range(mirror * half, (mirror + 1) * half),
        ],
    }[shard]
