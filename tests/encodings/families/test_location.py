"""Vectors of places and their distances: golden numbers, closed forms and slow twins."""

import math

import numpy as np
import pytest
from scipy.special import sph_harm_y

from pefourier.encodings import build, load
from pefourier.encodings.families.location import place_domain
from pefourier.geometry.products import products_by_distance
from pefourier.questions.relations import relate

RADIUS = 6371.0088


def row(name, d, place, **own):
    return build(name, d=d, places=np.array([place], dtype=float), **own).table()[0]


def haversine(a, b):
    (lon, lat), (east, north) = np.radians(a), np.radians(b)
    along = math.cos(lat) * math.cos(north) * math.sin((east - lon) / 2) ** 2
    return 2 * RADIUS * math.asin(math.sqrt(math.sin((north - lat) / 2) ** 2 + along))


def drawn(rng, count=12):
    return np.stack([rng.uniform(-180, 180, count), rng.uniform(-90, 90, count)], axis=-1)


def test_vectors_are_those_of_microsoft_satclip():
    grid = row("space2vec", 16, (0.3, -0.7), r_min=0.1, r_max=1.0)
    np.testing.assert_allclose(grid[[0, 1, 8]], (0.14112001, -0.98999250, -0.65698660), atol=1e-8)
    theory = row("space2vec", 24, (500, -200), kind="theory")
    np.testing.assert_allclose(theory[[0, 2, 23]], (0.47942554, -0.41068488, 0.99997051), atol=1e-8)
    ball = row("sphere2vec", 12, np.degrees((0.3, -0.7)), r_min=0.1, r_max=1.0)
    np.testing.assert_allclose(ball[:3], (-0.65698660, -0.74635757, 0.10639069), atol=1e-8)
    first = row("spherical-harmonics", 4, (10, 45))
    np.testing.assert_allclose(first, (0.28209479, 0.05999443, -0.34549415, 0.34024532), atol=1e-8)


def test_harmonics_are_those_of_scipy(rng):
    at = drawn(rng, 40)
    phi, theta = np.radians(at + np.array([180.0, 90.0])).T
    columns = []
    for n in range(12):
        for m in range(-n, n + 1):
            y = sph_harm_y(n, abs(m), theta, phi)
            columns.append(y.real if m == 0 else math.sqrt(2) * (y.real if m > 0 else y.imag))
    table = build("spherical-harmonics", d=144, places=at).table()
    np.testing.assert_allclose(table, np.array(columns).T, atol=1e-13)


def test_high_harmonics_stay_finite_and_of_one_norm(rng):
    table = build("spherical-harmonics", d=150**2, places=drawn(rng, 3)).table()
    np.testing.assert_allclose((table**2).sum(axis=1), 150**2 / (4 * math.pi), rtol=1e-10)


def test_places_beyond_lie_at_the_distance_in_the_direction(rng):
    at, domain = drawn(rng), place_domain(drawn(rng), "km")
    for distance, bearing in [(1.0, 0.3), (500.0, 4.0), (15000.0, 2.0)]:
        for start, end in zip(at, domain.beyond(distance, bearing, at), strict=True):
            assert haversine(start, end) == pytest.approx(distance, rel=1e-7)
            (lon, lat), (east, north) = np.radians(start), np.radians(end)
            y = math.sin(east - lon) * math.cos(north)
            x = math.cos(lat) * math.sin(north)
            x -= math.sin(lat) * math.cos(north) * math.cos(east - lon)
            assert math.remainder(math.atan2(y, x) - bearing, 2 * math.pi) == pytest.approx(
                0, abs=1e-7
            )
    flat = place_domain(at, "")
    np.testing.assert_allclose(
        flat.beyond(2.0, math.pi / 2, at), at + np.array([2.0, 0.0]), atol=1e-12
    )


def test_places_that_repeat_are_written_but_not_told_apart(run, tmp_path):
    file = tmp_path / "places.csv"
    file.write_text("lon,lat\n50,10\n0,0\n50,10\n")
    out = tmp_path / "o.npy"
    run("encode", "sphere2vec", "--d", 8, "--places", file, "--out", out)
    table = np.load(out)
    assert (table[0] == table[2]).all()
    refused = run("check-faithful", "sphere2vec", "--d", 8, "--places", file)
    assert (refused.status, refused.out) == (2, "")


def test_two_places_collide_and_their_distance_is_in_km(run, tmp_path):
    file = tmp_path / "places.csv"
    file.write_text("lon,lat\n50,10\n0,0\n180,0\n-100,70\n")
    half = "sphere2vec:r_min=0.5,r_max=0.5"  # both angles are doubled
    done = run("check-faithful", half, "--d", 3, "--places", file, "--json")
    (answer,) = done.results
    assert (answer["verdict"], answer["closest_pair"]) == ("collides", [1, 2])
    assert answer["closest_places"] == [[0, 0], [180, 0]]
    assert (answer["distance"], answer["unit"]) == (pytest.approx(math.pi * RADIUS), "km")
    assert answer["params"]["places"] == [[50, 10], [0, 0], [180, 0], [-100, 70]]
    assert "20015 km" in run("check-faithful", half, "--d", 3, "--places", file).out
    assert " km\n" in run("relations", "spherical-harmonics", "--d", 9, "--places", file).out
    assert "  from" not in run("check-faithful", "space2vec", "--d", 4, "--places", file).out
    (answer,) = run("check-faithful", "space2vec", "--places", file, "--json").results
    assert (answer["faithful"], answer["distance"], answer["unit"]) == (
        True,
        math.hypot(50, 10),
        "",
    )


def test_products_without_the_mean_row_are_those_of_the_places(rng):
    at = drawn(rng, 5)
    enc = load("sphere2vec:r_min=0.3", d=6, demean=True, places=at)
    domain = enc.domain
    mean = build("sphere2vec", d=6, r_min=0.3, places=at).table().mean(axis=0)
    found, expected = products_by_distance(enc, domain), []
    chosen = [(0, 0, 0), (3, 1, 4), (100, 7, 2), (50, 3, 1)]
    for lag, direction, place in chosen:
        (end,) = domain.beyond(lag * domain.spacing, direction * math.pi / 4, at[[place]])
        start, end = (row("sphere2vec", 6, p, r_min=0.3) - mean for p in (at[place], end))
        expected.append(start @ end)
    ratios = np.array([found[triple] for triple in chosen]) / expected
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-9)


def test_correlation_of_distances_is_that_of_all_pairs(rng):
    at = drawn(rng, 9)
    table = build("spherical-harmonics", d=16, places=at).table()
    pairs = [(i, j) for i in range(9) for j in range(i)]
    straight = [np.linalg.norm(table[i] - table[j]) for i, j in pairs]
    around = [haversine(at[i], at[j]) for i, j in pairs]
    answer = relate(build("spherical-harmonics", d=16, places=at))
    assert answer.distance_preservation == pytest.approx(np.corrcoef(straight, around)[0, 1])


WRONG = {
    "lon,lat\n10,95\n": "0 is [10.0, 95.0]",
    "51,2\n45,120\n": "1 is [45.0, 120.0]",
    "370,5\n": "[370.0, 5.0]",
    "-181,5\n": "[-181.0, 5.0]",
    "3,4\n37,nan\n": "1 is [37.0, nan]",
    "3,4\n5,6\n3,4\n3,4\n": ": 2, the first in row 2",
    "180,4\n-180,4\n": ": 1, the first in row 1",
    "20,90\n-30,90\n": ": 1, the first in row 1",
    "1,2,3\n4,5,6\n": "(2, 3)",
    "1\n2\n3\n": "(1, 3)",
    "1,a\n": "",
}


@pytest.mark.parametrize("text", WRONG)
def test_wrong_places_are_refused_in_a_line(run, tmp_path, text):
    (tmp_path / "places.csv").write_text(text)
    done = run("check-faithful", "spherical-harmonics", "--places", tmp_path / "places.csv")
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert WRONG[text] in done.err


@pytest.mark.usefixtures("folder")
def test_a_file_of_one_place_and_longitudes_up_to_360_are_read(run):
    np.save("p.npy", [[359.5, 10.0]])
    (answer,) = run("check-faithful", "spherical-harmonics", "--places", "p.npy", "--json").results
    assert (answer["length"], answer["closest_places"], answer["distance"]) == (1, [], None)
    west, east = (row("spherical-harmonics", 9, (lon, 10)) for lon in (-0.5, 359.5))
    np.testing.assert_allclose(west, east, atol=1e-13)
