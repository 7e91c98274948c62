"""Claims of `design` about bases and scalings."""

import re

import numpy as np

from pefourier.encodings import load
from pefourier.questions.design import design_base
from pefourier.questions.extend import extend

CRITERIA = ["turns", "distance", "stable_rank", "condition", "wavelength=2.5", "phase=.8", "bound"]
SCALINGS = ["linear,factor=4", "ntk,factor=3.7", "yarn,factor=6,original=40", "cut,original=400"]
SCALINGS += ["llama3,factor=8,original=64", "dynamic,factor=2,original=64", "none", "none"]
SCALINGS += ["proportional,factor=2,partial=.5", "yarn,factor=40,original=8,truncate=false"]
NUMBER = r"(\d[\d.]*(?:e[-+]\d+)?)"
FULL_ROTATION = 6.283185307179586


def draws(rng, count):
    for i in range(count):
        if i % 2:
            d, length = int(rng.choice([4, 6, 16, 32])), int(np.exp(rng.uniform(0.7, 5)))
            length = [length, d, d + 1, 6, 7][rng.choice(5, p=[0.6, 0.1, 0.1, 0.1, 0.1])]
            names = tuple(rng.choice(CRITERIA, rng.integers(1, 4), replace=False))
            bases = tuple(rng.choice([1.2, 2.0, 3.0, 5.0, 30.0, 1e4], 4, replace=False))
            answer = design_base(length, d, bases, names)
            yield f"{length} {d} {names}", answer, (length, d)
        else:
            trained = int(np.exp(rng.uniform(3, 5.7)))
            length = trained + max(1, int(trained * 10 ** rng.uniform(-2, 0.8)))
            setting, rho = rng.choice(SCALINGS), float(f"{10 ** rng.uniform(0.5, 6):.3g}")
            spec = f"rope:rho={rho},scaling={setting},d={rng.choice([8, 16, 64])}"
            yield f"{spec} {trained} {length}", extend(spec, length, trained=trained), spec


def frequencies(rho, d):
    return np.array([rho ** (-2 * i / d) for i in range(d // 2)])


def sums(rho, d, length):
    return np.cos(np.arange(length)[:, None] * frequencies(rho, d)).sum(axis=1)


def vectors(rho, d, length):
    phases = np.arange(length)[:, None] * frequencies(rho, d)
    return np.hstack([np.cos(phases), np.sin(phases)])


def closest(table):
    distances = np.linalg.norm(table[:, None] - table, axis=-1)
    return distances[~np.eye(len(table), dtype=bool)].min()


def stable_rank(table):
    values = np.linalg.svd(table, compute_uv=False)
    return (values**2).sum() / values[0] ** 2


def condition(table):
    values = np.linalg.svd(table, compute_uv=False)
    return values[0] / values[-1]


def base_is_true(name, words, answer, length, d):
    """The stated base meets one criterion."""
    if words.startswith("none"):
        if name in ("turns", "wavelength=2.5"):
            return length * (2.5 if "=" in name else 1) < FULL_ROTATION
        tables = [vectors(c.rho, d, length) for c in answer.candidates]
        return f"none of the {len(tables)} tried" in words and all(
            np.linalg.matrix_rank(t) < min(t.shape) or condition(t) > 1e12 for t in tables
        )
    rho = float(re.match(NUMBER, words)[1])
    slowest = frequencies(rho, d)[-1] * length
    if name == "turns":  # the largest base
        return slowest >= FULL_ROTATION > frequencies(rho * (1 + 1e-5), d)[-1] * length
    if name == "wavelength=2.5":
        return abs(slowest * 2.5 / FULL_ROTATION - 1) < 1e-5
    if name == "phase=.8":  # the smallest base
        return np.cos(slowest) >= 0.8 > np.cos(frequencies(rho * (1 - 1e-4), d)[-1] * length)
    if name == "bound":
        return sums(rho, d, length).min() >= -1e-9
    measure = {"distance": closest, "stable_rank": stable_rank}.get(name, lambda t: -condition(t))
    values = {c.rho: measure(vectors(c.rho, d, length)) for c in answer.candidates}
    tried = re.search(r"best of (\d+) tried", words)[1]
    best = max(values.values())
    return int(tried) == len(values) and best - values[rho] <= 1e-6 * abs(best)


def bases_are_true(answer, truth):
    words = answer.bases_in_words
    starts = [words.index(f"{name}: ") for name in answer.criteria]
    parts = [words[a:b] for a, b in zip(starts, [*starts[1:], None], strict=True)]
    for name, part in zip(answer.criteria, parts, strict=True):
        assert base_is_true(name, part.removeprefix(f"{name}: "), answer, *truth), part
    return True


def no_base_needed(answer, truth):
    length, d = truth
    table = load("dft", length, d).table()
    distances = np.linalg.norm(table[:, None] - table, axis=-1)[~np.eye(length, dtype=bool)]
    unequal = all(np.ptp(sums(c.rho, d, length)[1:]) > 1e-9 for c in answer.candidates)
    return np.ptp(distances) < 1e-9 and unequal


def unseen(spec, answer, at):
    """Return how many pairs of a rotation go beyond the angles of training."""
    trained = load(at, answer.trained).measure.frequencies
    new = load(spec, answer.length).measure.frequencies
    beyond = new * answer.length > trained * answer.trained * (1 + 1e-9)
    return int((beyond & (trained * answer.trained < FULL_ROTATION)).sum())


def takes_to_new_angles(answer, truth):
    assert answer.unchanged.unseen == unseen(truth, answer, truth) > 0
    assert answer.pairs == (load(truth, answer.length).measure.frequencies != 0).sum()
    return True


def scaled_already(answer, truth):
    return "scaling=none" not in truth and takes_to_new_angles(answer, truth)


def nothing_suffices(answer, truth):
    counts = [unseen(way.spec, answer, truth) for way in answer.scaled]
    return takes_to_new_angles(answer, truth) and 0 < min(counts) == answer.nearest.unseen


def advised_scaling_suffices(answer, truth):
    words = f"{answer.chosen.setting} none do, and the cosine {answer.chosen_falls}"
    way, factor = re.match(rf"(\w+) scaling \(factor {NUMBER}\)", words).groups()
    spec = answer.chosen.spec
    assert f"scaling={way},factor={float(factor):.10g}" in spec
    assert unseen(spec, answer, truth) == 0
    trained = load(truth, answer.covered).measure.frequencies
    new = load(spec, answer.length).measure.frequencies
    apart = np.arange(answer.covered)[:, None] * (trained - new)
    cosines = np.cos(apart).mean(axis=1)
    falls = re.search(r"first falls below 0.99 at position (\d+)", words)
    first = int(falls[1]) if falls else answer.covered
    assert (cosines[:first] >= 0.99 - 1e-9).all()
    return not falls or cosines[first] < 0.99 + 1e-9


def dft_is_isometric(answer, truth):
    gram = (table := load("dft", *truth).table()) @ table.T
    return np.allclose(gram - np.diag(np.diag(gram)), gram[0, 1], atol=1e-9)


def each_criterion_asks_for_one(answer, truth):
    chosen = [design_base(*truth, (), (name,)).best.values() for name in ("bound", "turns")]
    return all(len(bases) == 1 for bases in chosen)


def bases_were_tried(finding, answer, truth):
    length, d = truth
    numbers = [float(x) for x in re.findall(NUMBER, finding.message)]
    count, base = int(numbers[0]), numbers[1]
    assert "to ten times that base pass" in finding.message
    grid = {float(f"{10 ** (k / 400):.3e}") for k in range(7000)}
    grid = sorted(x for x in grid | {base} if base <= x)
    grid = grid[: 1 + next(i for i, x in enumerate(grid) if x >= 10 * base)]
    assert count == len(grid)
    assert all(sums(rho, d, length).min() >= -1e-9 for rho in grid)
    smallest = numbers[2]
    assert sums(smallest, d, length).min() >= -1e-9
    if "but" in finding.message:
        return smallest < numbers[3] < base and sums(numbers[3], d, length).min() < 0
    return smallest == base


def both_readings(finding, answer, truth):
    factor = float(re.search(rf"factor={NUMBER}", truth)[1])
    numbers = {float(x) for x in re.findall(NUMBER, finding.message)}
    before = float(f"{answer.trained / factor:.10g}")
    return {before, factor, answer.trained, int(answer.trained * factor)} == numbers


VERDICTS = {
    "no base needed": no_base_needed,
    "criteria disagree": lambda r, t: bases_are_true(r, t) and len({*r.best.values()}) > 1,
    "base found": lambda r, t: bases_are_true(r, t) and len({*r.best.values()}) == 1,
    "no base serves": bases_are_true,
    "scaling needed": takes_to_new_angles,
    "further scaling needed": scaled_already,
    "no scaling suffices": nothing_suffices,
    "no scaling needed": lambda r, spec: unseen(spec, r, spec) == 0,
}
FINDINGS = {"larger-bases": bases_were_tried, "original-by-factor": both_readings}
ACTIONS = {
    "no base needed": dft_is_isometric,
    "criteria disagree": each_criterion_asks_for_one,
    "scaling needed": advised_scaling_suffices,
    "further scaling needed": advised_scaling_suffices,
}
WITHOUT: dict = {}
