"""Every step in which two tables, functions or biases differ is named, two as well as one.

Tables are made here, by arithmetic of their own; what is named must be what was planted, and right
tables are never different.
"""

import secrets
from itertools import combinations, groupby, starmap

import numpy as np
import pytest
import torch
from planted import rotated

import pefourier
from pefourier.construction.explain import Named
from pefourier.construction.operators import operator_at
from pefourier.construction.rows import Change
from pefourier.construction.tables import TableNumbers
from pefourier.encodings import load
from pefourier.encodings.encoding import from_table
from pefourier.encodings.families.rotary import SCALINGS, scaling_parameters
from pefourier.encodings.registry import BUILDERS
from pefourier.errors import PefourierError
from pefourier.geometry.precision import FORMATS, rounded
from pefourier.geometry.tolerance import stored_tolerance
from pefourier.questions.compare import compare

N, D = 96, 32
EPS = {"float64": 2.0**-52, "float32": 2.0**-23}
FAULTS = {  # step: code, change of a recipe
    "frequencies": ("base", {"base": 5e5}),
    "positions": ("shifted", {"start": 7}),
    "waves": ("scaled", {"factor": 3.0}),
    "layout": ("layout", {"layout": "halves"}),
    "order": ("order", {"first": "cos"}),
}


def sinusoids(base=1e4, start=0, factor=1.0, layout="interleaved", first="sin", n=N):
    angles = np.outer(start + np.arange(n), base ** (-np.arange(D // 2) / (D // 2)))
    waves = {"sin": np.sin(angles), "cos": np.cos(angles)}
    columns = [waves.pop(first), *waves.values()]
    if layout == "halves":
        return factor * np.hstack(columns)
    return factor * np.stack(columns, axis=-1).reshape(n, -1)


@pytest.mark.parametrize("form", EPS)
@pytest.mark.parametrize("pair", [*combinations(FAULTS, 2)], ids=str)
def test_law_two_steps_of_sinusoids_are_both_named(pair, form):
    changes = [FAULTS[name] for name in pair]
    if {"layout", "order"} == {*pair}:
        return  # an order of columns like any other
    second = sinusoids(**{key: value for _, change in changes for key, value in change.items()})
    tables = (from_table(x.astype(form), eps=EPS[form]) for x in (sinusoids(), second))
    found = compare(*tables)
    codes = {cause.code for cause in found.causes}
    assert found.explained == 1.0
    assert codes == {code for code, _ in changes} or codes <= {"columns", "scaled", "shifted"}
    assert len(found.causes) == 2
    assert (found.verdict == "different") == ("frequencies" in pair)


def test_a_slow_pair_is_compared_to_its_own_size():
    """A sine of bfloat16 that is 5% off differs, although it is small."""
    omega = 1e4 ** (-np.arange(64) / 64)
    meant = load("rope:d=128", N)
    for ratio, verdict in ((1.0, "the same"), (1.05, "different")):
        own = np.where(np.arange(64) == 60, ratio, 1.0) * omega
        angles = torch.outer(torch.arange(N).double(), torch.tensor(own))
        dump = torch.cat([angles.cos(), angles.sin()], -1).bfloat16()
        assert compare(meant, pefourier.encodings.encoding.as_encoding(dump)).verdict == verdict


def rows_of_length_one(x):
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(norms > 0, norms, 1)


def layer_norm(x):
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)


def exchanged(x):
    return x[:, [0, 3, 2, 1, *range(4, x.shape[1])]]


def without(x, rows=(), columns=()):
    x = x.copy()
    x[list(rows)] = 0
    x[:, list(columns)] = 0
    return x


CHANGES = {
    "zeroed": lambda x: without(x, columns=range(4, 6)),
    "unit-rows": rows_of_length_one,
    "layer-norm": layer_norm,
    "decimals": lambda x: x.round(3),
    "integers": lambda x: np.rint(x / np.abs(x).max() * 127),
    "reversed": lambda x: x[::-1],
    "scaled": lambda x: 2.5 * x,
    "columns": exchanged,
    "offset-row": lambda x: x + 0.25,
    "padding": lambda x: np.hstack([x, np.zeros((len(x), 4))]),
    "transposed": lambda x: x.T,
    "clamped": lambda x: x[np.minimum(np.arange(len(x)), 30)],
}
STEPS = {"scaled": "waves", "reversed": "positions", "clamped": "positions"}
STEPS |= dict.fromkeys(("columns", "padding", "transposed"), "columns")
PAIRS = [("scaled", "reversed"), ("unit-rows", "reversed"), ("zeroed", "columns")]
PAIRS += [("columns", "zeroed"), ("scaled", "offset-row"), ("reversed", "decimals")]


@pytest.mark.parametrize("names", PAIRS, ids=str)
def test_two_steps_of_tables_without_sinusoids_are_both_named(names, rng):
    table = other = rng.normal(size=(40, 24)).cumsum(axis=0)
    for name in names:
        other = CHANGES[name](other)
    found = compare(table, np.ascontiguousarray(other))
    assert {*names} == {cause.code for cause in found.causes}, found.causes
    assert found.explained == 1.0
    damaged = np.array(other)
    damaged[3, 5] += 1
    assert not compare(table, damaged).causes


@pytest.fixture
def drawn():
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    return np.random.default_rng(seed)


EQUAL = ("none", "ramp", "recurrent")  # numbers of a row, or late rows, are equal
PERIODIC = ("dft", "onehot")


def are_added(name):
    try:
        enc = load(name, 48, 16)
    except PefourierError:
        return False
    is_line = enc.domain.is_line and enc.domain.kind == "position"
    return is_line and enc.injection in ("add", "rotate") and name not in EQUAL


ADDED = [name for name in sorted(BUILDERS) if are_added(name)]
BOTH = ("halves", "interleaved")
LAYOUTS = {"sinusoidal": BOTH, "rope": BOTH}
FORMATS_OF = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def load_drawn(name, n, d, rng):
    layouts = LAYOUTS.get(name)
    return load(f"{name}:layout={rng.choice(layouts)}" if layouts else name, n, d)


def kept(table, form):
    """Store a table in a format."""
    numbers = table if form == "float64" else rounded(table, FORMATS[form])
    return from_table(np.ascontiguousarray(numbers), eps=FORMATS_OF[form])


def applied(causes, table):
    """Return what causes give, one after the other; None if one acts on sinusoids."""
    groups = groupby(causes, lambda c: (isinstance(getattr(c, "cause", c), Change), part_of(c)))
    for (are_rows, part), group in groups:
        own = [getattr(cause, "cause", cause) for cause in group]
        index = slice(None) if part is None else part.index
        table, numbers = table.copy(), table[index]
        rows = np.arange(len(numbers))
        for cause in own:
            if are_rows:
                rows = cause.apply(rows)
            elif "amplitude" in getattr(cause, "changes", {}):
                numbers = numbers * np.divide(*cause.changes["amplitude"][::-1])
            elif not isinstance(cause, Named):
                return None
            else:
                numbers = cause.apply(TableNumbers(numbers, np.full(numbers.shape, 1e-12))).values
        if are_rows and (rows.min() < 0 or rows.max() >= len(numbers)):
            return None  # positions beyond the table
        numbers = numbers[rows] if are_rows else numbers
        if part is None:
            table = numbers
        else:
            table[index] = numbers
    return table


def part_of(cause):
    return getattr(cause, "part", None)


def assert_true(found, first, second, codes):
    """Fail if the causes neither give the second table nor are those that were planted."""
    expected, observed = (first, second)[:: 1 if found.expected == "first" else -1]
    given, said = applied(found.causes, expected), {cause.code for cause in found.causes}
    if given is None:
        assert {*codes} <= {"columns" if code in ("layout", "order") else code for code in said}
    else:  # numbers at a tie may be rounded either way
        is_tied = said & {"decimals", "integers", "layer-norm"}
        apart = np.abs(given - observed) > 1e-5 * np.abs(observed).max()
        assert apart.mean() <= (0.05 if is_tied else 0)


def changes_drawn(rng, count):
    """Yield for each encoding: its table, one with planted changes, and their codes."""
    for name in ADDED:
        n, d = int(rng.integers(36, 70)), 2 * int(rng.integers(4, 12))
        first = np.asarray(load_drawn(name, n, d, rng).float_table())
        for codes in rng.permuted(np.tile([*CHANGES], (3, 1)), axis=1)[:, :count].tolist():
            tables = [first]
            for code in codes:
                tables.append(CHANGES[code](tables[-1]))
            steps = {STEPS.get(code, "numbers") for code in codes}
            if len(steps) == count and not any(starmap(are_alike, combinations(tables, 2))):
                yield name, first, tables[-1], codes


def are_alike(a, b):
    return a.shape == b.shape and np.allclose(a, b, atol=1e-4)


@pytest.mark.parametrize("count", [1, 2])
def test_law_steps_of_every_encoding_are_all_named_or_none_is_all(count, drawn):
    for name, first, second, codes in changes_drawn(drawn, count):
        form = str(drawn.choice([*EPS]))
        found = compare(kept(first, form), kept(second, form))
        print(name, first.shape, form, codes, found.causes)
        assert found.verdict != "the same"
        if found.causes and found.explained == 1.0:
            assert_true(found, first, second, codes)
        else:
            assert count == 2 or name in PERIODIC
            words = " ".join(f.message for f in found.findings)
            assert "equals the" not in words
            assert " only" not in words


PARTIAL = ("scaled", "zeroed", "decimals", "unit-rows", "layer-norm", "reversed", "integers")


def test_law_a_step_within_rows_or_half_of_the_columns_is_named_with_its_part(drawn):
    for name in ADDED:
        n, d = int(drawn.integers(36, 70)), 4 * int(drawn.integers(2, 6))
        first = np.asarray(load_drawn(name, n, d, drawn).float_table())
        low, code = int(drawn.integers(2, 20)), str(drawn.choice(PARTIAL))
        high = low + int(drawn.integers(4, 12))
        part = (np.s_[:, d // 2 :], np.s_[low : high + 1])[drawn.integers(2)]
        second = first.copy()
        second[part] = 0 if code == "zeroed" else CHANGES[code](first[part])
        if are_alike(first, second):
            continue
        found = compare(first, second)
        print(name, first.shape, part, code, found.causes)
        assert found.explained == 1.0
        assert_true(found, first, second, [code])
        bounds = {"rows": (low, high), "columns": (d // 2, d - 1)}
        for own in filter(None, map(part_of, found.causes)):
            assert own.first >= bounds[own.axis][0]
            assert own.last <= bounds[own.axis][1]


def test_law_right_tables_of_any_layout_format_and_length_are_right(drawn):
    for name in ADDED:
        for form in FORMATS_OF:
            n, d = int(drawn.choice([1, 2, 3, 5, 9, 33, 150])), 2 * int(drawn.integers(1, 20))
            try:
                enc = load_drawn(name, n, d, drawn)
            except PefourierError:  # too narrow
                continue
            table = np.asarray(enc.float_table())
            stored = kept(table, form)
            print(enc.spec, n, d, form)
            assert compare(enc, stored).verdict != "different"
            found = compare(from_table(table), stored)
            assert (found.verdict, found.transform) == ("the same", {})
            assert (form != "float64") or (found.bitwise and not found.max_difference)
            findings = pefourier.check(stored).findings
            assert "error" not in {finding.severity for finding in findings}


def test_law_numbers_on_both_sides_of_a_tolerance_are_told_apart(drawn):
    for name in ADDED:
        n, d = int(drawn.integers(36, 70)), 2 * int(drawn.integers(4, 12))
        first = kept(np.asarray(load_drawn(name, n, d, drawn).float_table()), "float32")
        table, place = first.table(), (int(drawn.integers(n)), int(drawn.integers(d)))
        allowed, _ = stored_tolerance(table, table, first, first)
        limits = np.broadcast_to(allowed(np.arange(n)), table.shape)
        for by, verdict in ((0.9 * limits[place], "the same"), (6 * limits.max(), "different")):
            other = table.copy()  # up to 5 units, two resizes may differ
            other[place] += by
            print(name, table.shape, place, by)
            assert compare(first, from_table(other, eps=EPS["float32"])).verdict == verdict


def test_a_part_of_the_rows_is_named_with_its_rows():
    table = sinusoids()
    table[48:64] = sinusoids(base=5e5)[48:64]
    (record,) = compare(sinusoids(), table).to_dict()["causes"]
    assert (record["code"], record["within"]) == ("base", {"rows": [48, 63]})


ON_GRIDS = ("axial-rope", "mixed-rope")
OWN_TABLES = ("rope++", "xpos", "fope")  # no plain cosines and sines: a cause is not required


def rotary():
    """Yield a SPEC of each registered encoding that rotates, and of rope with each scaling."""
    yield from (name for name in BUILDERS if load(name, 40, 16).injection == "rotate")
    yield from ("rope:partial=0.5", "rope:layout=interleaved")
    for scaling in SCALINGS:
        used = {"factor": 4, "original": 5000 if scaling == "dynamic" else 48, "repeat": 40}
        texts = [f"{key}={used[key]}" for key in scaling_parameters(scaling) if key in used]
        try:
            load(spec := ",".join([f"rope:scaling={scaling}", *texts]), 40, 16)
        except PefourierError:
            continue  # it needs lists of numbers
        yield spec


def with_base(spec, base):
    return f"{spec}{',' if ':' in spec else ':'}rho={base}"


def dumped(spec, base=1e4, start=0, step=1, turn=1, factor=1.0, first="cos", columns="halves"):
    """Return the rows of an encoding with faults, in any layout of cosines and sines."""
    enc = load(with_base(spec, base), 4 * N, 16)
    one, two = np.split(enc.table(enc.domain.x[start + step * np.arange(N)]), 2, axis=1)
    if enc.params.get("layout") == "interleaved":
        one, two = (np.hstack([one, two])[:, k::2] for k in (0, 1))
    parts = [factor * one, turn * factor * two][:: 1 if first == "cos" else -1]
    if columns == "neighbours":
        return np.stack(parts, -1).reshape(N, -1)
    return np.hstack(np.repeat(parts, 2 if columns == "twice" else 1, axis=0))


def drawn_faults(rng):
    return {
        "base": {"base": float(rng.choice([7e4, 5e5, 3e3]))},
        "shifted": {"start": int(rng.integers(1, 40))},
        "step": {"step": 3},
        "reversed": {"turn": -1},
        "mscale": {"factor": float(rng.choice([0.5, 1.3, 2.0]))},
        "order": {"first": "sin"},
    }


STEPS_OF_DUMPS = {"step": "positions", "shifted": "positions"}  # of faults, if not their own


@pytest.mark.parametrize("spec", [*rotary()])
def test_law_faults_of_dumps_of_every_rotary_encoding_are_named(spec, drawn):
    meant, faults = load(with_base(spec, 1e4), N, 16), drawn_faults(drawn)
    columns = str(drawn.choice(["halves", "neighbours", "twice"]))
    is_plain = not spec.startswith(OWN_TABLES)
    for form in ("float64", "float32", "float16") if is_plain else ("float64",):
        right = dumped(spec, columns=columns if is_plain else "halves").astype(form)
        assert compare(meant, right).verdict in ("the same", "permuted"), form
    pairs = [p for p in combinations(faults, 2) if len({STEPS_OF_DUMPS.get(x, x) for x in p}) == 2]
    for names in [*((name,) for name in faults), *(pairs[k] for k in drawn.permutation(14)[:3])]:
        done = {key: value for name in names for key, value in faults[name].items()}
        found = compare(meant, dumped(spec, **done, columns=columns if is_plain else "halves"))
        codes, told = {cause.code for cause in found.causes}, (spec, names, done, found.causes)
        assert found.verdict != "the same", told
        assert is_plain or not codes or found.explained == 1.0, told
        assert (found.explained == 1.0) == bool(codes), told
        if {"step", "reversed"} == {*names} or not is_plain:
            continue  # one number of positions, p for -2 p
        same = {"columns", "reversed", "order", "shifted"}  # signs or orders of columns, of rows
        assert codes in ({*names}, set()) or codes <= same, told
        is_refused = spec in ON_GRIDS and "base" in names  # it is no setting of a rope
        is_refused |= "cut" in spec and "shifted" in names  # all pairs are fast
        assert codes or len(names) == 2 or is_refused, told
        for cause in found.causes:
            assert cause.code != "base" or cause.changes == {"rho": (1e4, done["base"])}, told
            assert cause.code != "mscale" or cause.changes["attention_factor"][1] == pytest.approx(
                done["factor"] * cause.changes["attention_factor"][0], rel=1e-6
            )


def turning(
    spec, base=1e4, ahead=0, scale=1.0, turn=1, factor=1.0, *, exchanged=False, at=lambda s: 5 + s
):
    """Return a function of queries and keys that rotates like an encoding, with faults."""
    if exchanged:
        other = spec.replace(",layout=interleaved", "").replace(":layout=interleaved", "")
        layout = ",layout=interleaved" if ":" in spec else ":layout=interleaved"
        spec = other if other != spec else spec + layout
    enc = load(with_base(spec, base), 4 * N, 16)

    def rotate(q, k):
        places = at(np.arange(q.shape[-2]))
        matrices = operator_at(enc, places)[0], scale * operator_at(enc, places + ahead)[1]
        turned = (factor * (x if turn > 0 else np.swapaxes(x, 1, 2)) for x in matrices)
        return tuple(
            torch.einsum("pij,...pj->...pi", torch.tensor(x).to(y), y)
            for x, y in zip(turned, (q, k), strict=True)
        )

    return rotate


@pytest.mark.parametrize("spec", [spec for spec in rotary() if "fope" != spec != "xpos"])
def test_law_faults_of_functions_of_every_rotary_encoding_are_named(spec, drawn):
    """Functions that scale as they rotate (xpos, fope) are refused when loaded."""
    faults = {name: done for name, done in drawn_faults(drawn).items() if name != "step"}
    faults |= {"shifted": {"ahead": int(drawn.choice([-3, 1, 2]))}, "order": {"scale": 1.5}}
    names = {"shifted": "keys-ahead", "order": "keys-scaled"}
    if spec not in ON_GRIDS:
        faults["layout"] = {"exchanged": True}
    meant, pairs = load(with_base(spec, 1e4), N, 16), [*combinations(faults, 2)]
    assert pefourier.compare(meant, turning(spec)).same
    for chosen in [*((name,) for name in faults), *(pairs[k] for k in drawn.permutation(10)[:3])]:
        done = {key: value for name in chosen for key, value in faults[name].items()}
        found = pefourier.compare(meant, turning(spec, **done))
        codes, told = {cause.code for cause in found.causes}, (spec, chosen, done, found.causes)
        assert found.verdict == ("permuted" if chosen == ("layout",) else "different"), told
        whole = {names.get(name, name) for name in chosen}
        both = {"mscale", "keys-scaled"} == whole  # one factor of scores
        assert codes in (whole, set()) or (both and codes == {"keys-scaled"}), told
        is_partial = "partial" in spec and {"mscale", "order"} & {*chosen}
        is_other = spec in ON_GRIDS and "base" in chosen
        assert codes or chosen == ("layout",) or is_partial or is_other or spec == "rope++", told


@pytest.mark.parametrize(
    "spec", [s for s in rotary() if {"fope", "xpos", "rope++", *ON_GRIDS}.isdisjoint([s])]
)
def test_law_positions_and_sides_of_functions_are_named(spec, drawn):
    meant, (by, to), right = (
        load(with_base(spec, 1e4), N, 16),
        drawn.integers(2, 9, 2),
        turning(spec, at=lambda s: s),
    )
    functions = {
        "divided": turning(spec, at=lambda s: s // by),
        "clamped": turning(spec, at=lambda s: np.minimum(s, to)),
        "unrotated": lambda q, k: (right(q, k)[0], k),
    }
    for code, rotate in functions.items():
        found = pefourier.compare(meant, rotate)
        assert [cause.code for cause in found.causes] == [code], (spec, code, by, to)


def test_a_basis_and_one_row_have_no_findings():
    t = np.arange(64)
    fourier = np.outer(t, np.arange(33)) * 2 * np.pi / 64
    basis = np.hstack([np.cos(fourier), np.sin(fourier[:, 1:32])])
    for table in (basis, np.cos(np.pi * np.outer(t + 0.5, t) / 64), sinusoids()[:1]):
        assert not pefourier.check(table).findings


def test_a_second_copy_of_a_column_is_compared_in_all_rows():
    angles = np.outer(np.arange(900), 1e4 ** (-np.arange(16) / 16))
    table = np.hstack([np.cos(angles), np.cos(angles), np.sin(angles), np.sin(angles)])
    meant = load("rope:d=32", 900)
    assert compare(meant, table).same
    table[700, 20] += 0.5
    assert not compare(meant, table).same


def test_dimensions_that_are_not_rotated_are_compared_too():
    def partly(x, start=0.0, factor=1.0):
        return torch.cat([rotated(x[..., :8], start=start), factor * x[..., 8:]], -1)

    for factor, codes in ((1.0, ["keys-ahead"]), (2.0, [])):
        found = pefourier.compare(
            "rope:d=16,partial=0.5",
            lambda q, k, by=factor: (partly(q), partly(k, 1.0, by)),
            length=64,
            d=16,
        )
        assert [cause.code for cause in found.causes] == codes
