"""Law: each finding of check-faithful is found in source code, float32 and float16 tables."""

import inspect
import tomllib

import numpy as np
import pytest
from planted import ELSEWHERE, FAMILIES, PLANTS, D, N

from pefourier.encodings import load
from pefourier.encodings.encoding import FINDINGS
from pefourier.questions.check_faithful import check_faithful


def test_each_code_of_the_catalogue_is_planted_or_belongs_to_another_answer():
    catalogue = {
        code for code in tomllib.loads(FINDINGS.read_text()) if not code.startswith(FAMILIES)
    }
    others = {code for codes in ELSEWHERE.values() for code in codes.split()}
    assert catalogue == others | set(PLANTS)
    assert not others & set(PLANTS)


def planted(code, form, folder):
    """Return the encoding with a planted mistake, read as a user's source code or file."""
    plant, grid = PLANTS[code], {"grid": PLANTS[code].grid} if PLANTS[code].grid else {}
    has_eps = "eps" in inspect.signature(plant.make).parameters and form != "code"
    made = plant.make(
        np.float64 if form != "code" else np.float32, *([np.finfo(form).eps] if has_eps else [])
    )
    if callable(made):
        return load(made, N, D, seed=0)
    if form == "code":
        table = made.astype(np.float32)
        return load(lambda length, d: table[:length, :d], *table.shape, **grid)
    arrays = made if isinstance(made, dict) else {plant.name: made}
    path = folder / "table.npz"
    np.savez(path, **{name: array.astype(form) for name, array in arrays.items()})
    return load(f"{path}#{plant.name}" if arrays is not made else str(path), **grid)


ALSO = {  # further findings of a planted mistake; of any: rounding, and what random numbers are
    "clipped-index": {"stray-rows"},
    "duplicate-rows": {"stray-rows"},
    "transposed": {"near-duplicates"},
    "aliased-waves": {"aliased-frequencies"},
    "aliased-frequencies": {"step"},
    "rank-of-rounding": {"divisor"},
    "ends-coincide": {"aliased-frequencies"},
    "pixel-coordinates": {"aliased-frequencies"},
    "window-biases": {"grid-unknown"},
    "turns-its-input": {"cosines-first"},
    "queries-keys-differ": {"cosines-first"},
}
ANY = {"rank-of-rounding", "random-codes", "turns-its-input"}


@pytest.mark.parametrize(
    ("code", "form"), [(code, form) for code, plant in PLANTS.items() for form in plant.forms]
)
def test_a_planted_mistake_is_found(code, form, tmp_path):
    found = {f.code for f in check_faithful(planted(code, form, tmp_path)).findings}
    assert {code} <= found <= {code} | ALSO.get(code, ANY) | ANY
