"""Figures: the data on the axes, labels with units, and identical bytes on every run."""

import json
from itertools import combinations

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from numpy.testing import assert_allclose, assert_array_equal
from published_configs import PUBLISHED
from tiny_models import write_model

from pefourier.encodings import load
from pefourier.questions.check_faithful import Faithfulness, check_faithful
from pefourier.questions.compare import compare as compare_encodings
from pefourier.questions.reconstruct import position_functions
from pefourier.questions.relations import Relations, kernel, relate
from pefourier.questions.spectrum import LineSpectrum
from pefourier.questions.spectrum import spectrum as spectrum_of
from pefourier.report import plot
from pefourier.report.figures import (
    compare,
    heatmap,
    reconstruct,
    spectrum,
)
from pefourier.report.render import Answer, answer_of


@pytest.fixture
def pair():
    return [load("sinusoidal", 20, 16), load("dft", 20, 16)]


def test_curves_are_the_numbers_of_the_answers(pair):
    answers = [Answer(e, spectrum_of(e)) for e in pair]
    (axes,) = spectrum(answers, plot.USUAL, axis="linear").axes
    for line, a in zip(axes.lines, answers, strict=True):
        assert_array_equal(line.get_ydata(), a.result.density)
        assert line.get_label() == a.encoding.spec
    answers = [Answer(e, position_functions(e, [2, 9])) for e in pair]
    panels = reconstruct(answers, plot.USUAL).axes
    values = answers[1].result.reconstructions[1].values
    assert_array_equal(panels[1].lines[1].get_ydata(), values)
    left, right = Faithfulness.draw([Answer(e, check_faithful(e)) for e in pair], plot.USUAL).axes
    table = pair[0].table()
    sigma = np.linalg.svd(table, compute_uv=False)
    assert_allclose(left.lines[0].get_ydata(), sigma / sigma[0], atol=1e-14)
    means = [np.mean(np.diag(table @ table.T, lag)) / 8 for lag in range(20)]
    assert_allclose(right.lines[0].get_ydata(), means, atol=1e-14)


def test_equal_curves_are_visible_and_named_in_the_legend():
    def draw(answers, look):
        figure, (axes,) = plot.make_panels(look, 3.0)
        for name, values in answers.items():
            axes.plot(values, label=name)
        return figure

    line = np.sin(np.arange(20))
    named = {"a": line, "b": line + 1e-5, "c": -line, "d": line[:9], "e (equal to a)": line}
    named |= {f"{'f' * 60} along x": line}
    axes, *_ = plot.draw_styled(draw, named, plot.USUAL).axes
    *labels, long = (curve.get_label() for curve in axes.lines)
    assert labels == ["a", "b (equal to a)", "c", "d", "e (equal to a)"]
    assert long.endswith("f along x (equal)")
    first, second, *others = (curve.get_linewidth() for curve in axes.lines)
    assert (first > 2 * second, {second, *others}) == (True, {second})


def test_tables_of_two_lengths_are_compared_as_far_as_both_go():
    a, b = load("rope", 900, 8), load("rope:rho=500", 1000, 8)
    one, other, apart = compare([answer_of(compare_encodings(a, b))], plot.USUAL).axes[:3]
    assert one.get_ylim() == other.get_ylim() == apart.get_ylim() == (899.5, -0.5)
    two = compare([answer_of(compare_encodings(a, load("dft", 900, 4)))], plot.USUAL).axes
    assert [axes.get_xlabel() for axes in two].count("dimension") == 2  # no difference
    worst = np.abs(a.table() - b.table()[:900]).max(axis=0)
    assert_allclose(apart.images[0].get_array().max(axis=0), worst)


def test_all_lags_of_a_long_kernel_are_drawn_on_a_logarithmic_axis():
    enc, alibi = load("rope", 5000, 16), load("alibi", 80, 4)
    answers = [Answer(one, relate(one)) for one in (enc, alibi)]
    (axes,) = Relations.draw(answers, plot.USUAL).axes
    line, biases = axes.lines
    assert_array_equal(biases.get_ydata(), relate(alibi).by_lag)
    assert_array_equal(line.get_ydata(), kernel(enc))
    assert axes.get_xscale() == "symlog"


def test_slow_waves_have_room_on_a_logarithmic_axis():
    enc = load("rope:rho=5e5", 4096, 128)
    axes, above = spectrum([Answer(enc, spectrum_of(enc))], plot.USUAL).axes
    found = spectrum_of(enc).measure.by_decade
    assert_array_equal(axes.lines[0].get_xdata(), found.omega)
    assert_array_equal(axes.lines[0].get_ydata(), found.density)
    waves = [2 * np.pi / omega for omega in axes.get_xlim()]
    assert_allclose(above.get_xlim(), waves)
    assert axes.lines[1].get_xdata()[0] == pytest.approx(2 * np.pi / 4096)


LLAMA, GEMMA, QWEN = "Llama-3.1-8B.json", "gemma-3-4b-it.json", "Qwen2-VL-7B-Instruct.json"
LONG = "rope:scaling=yarn,factor=4,original=4096 rope:rho=500,layout=interleaved"
MANY = "none onehot ramp learned sinusoidal tape fourier-features dft rope xpos time2vec"
GRIDS = "axial axial-rope sinusoidal --grid 6x9 --d 16"
MIXED = "axial:grid=6x9 sinusoidal:layout=halves,rho=500 --d 16"
PICTURES = [
    f"spectrum {LONG} {LLAMA} --axis log --d 128",
    f"spectrum {GRIDS}",
    f"reconstruct {GRIDS} --pos 2,3 4,5",
    f"reconstruct {MIXED}",
    f"check-faithful {MANY} --d 16",
    f"context {LLAMA} {GEMMA} --length 128k",
    "compare rope xpos --d 128 -S 600",
    f"relations {LONG}",
    "resize axial --from 6x9 --to 9x14 --d 16",
    f"design --extend-from {LLAMA} --to 256k",
    f"encode {LONG.split()[0]} --d 16 --out codes.npy",
    "usage model --length 512",
]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A folder with published configs and a model."""
    folder = tmp_path_factory.mktemp("inputs")
    for name, config in PUBLISHED.items():
        path = folder / f"{name.rpartition('/')[2]}.json"
        if path.name in (LLAMA, GEMMA, QWEN):
            path.write_text(json.dumps(config))
    write_model(folder / "model")
    return folder


@pytest.mark.parametrize("command", PICTURES)
def test_words_of_a_picture_are_whole_and_apart(run, monkeypatch, inputs, command):
    """Words in a figure are not cut and do not overlap; a layout without room warns."""
    monkeypatch.chdir(inputs)
    requested = []
    monkeypatch.setattr(
        plot, "save", lambda _path, draw, answers, _: requested.append((draw, answers))
    )
    assert run(command, "--quiet", "--plot", "a.png").status < 2
    ((draw, answers),) = requested
    look = plot.Look(3.4)
    with plot.figure_style():
        figure = draw(answers, look)
        plot.fit_words(figure)
        figure.dpi = look.dpi  # resolution of the file
        FigureCanvasAgg(figure).draw()
    texts = [*figure.texts, *(t for legend in figure.legends for t in legend.get_texts())]
    for axes in figure.axes:
        texts += [axes.title, axes._left_title, axes._right_title, *axes.texts]
        for axis in [one for one in (axes.xaxis, axes.yaxis) if axes.axison and one.get_visible()]:
            texts += [t for tick in axis._update_ticks() for t in (tick.label1, tick.label2)]
            texts += [axis.label, axis.offsetText]
    texts = [text for text in texts if text.get_visible() and text.get_text().strip()]
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    cut = [text for text, box in boxes if not figure.bbox.padded(2).containsx(box.x1)]
    pairs = combinations(boxes, 2)
    over = [(one, two) for (one, a), (two, b) in pairs if a.padded(-1).overlaps(b.padded(-1))]
    assert (cut, over) == ([], [])


def test_a_table_is_drawn_with_the_same_weight_for_both_signs(pair):
    """The colour scale is symmetric, and long tables are drawn as means to avoid moiré."""
    table = pair[1].table()
    axes = heatmap([Answer(pair[1], table)], plot.USUAL).axes[0]
    assert_array_equal(axes.images[0].get_array(), table)
    top = np.abs(table).max()
    assert axes.images[0].get_clim() == (-top, top)
    enc = load("rope", 6000, 8)
    (image,) = heatmap([Answer(enc, enc.table())], plot.USUAL).axes[0].images
    means = enc.table().reshape(400, 15, 8).mean(axis=1)
    assert_allclose(image.get_array(), means, atol=1e-12)
    assert image.get_extent() == [-0.5, 7.5, 5999.5, -0.5]


LOOKED = [  # options, with the width in pixels of a PNG, or text in an SVG or PDF
    ([], "png", 1200),
    (["--width", 3.4], "png", 680),
    (["--dpi", 100], "png", 600),
    (["--title", "Cost $x_1$ & <b>"], "svg", "<title>Cost $x_1$ &amp; &lt;b&gt;</title>"),
    ([], "pdf", "/FontFile2"),
]


@pytest.mark.parametrize(("options", "suffix", "part"), LOOKED)
def test_a_figure_looks_as_requested_and_is_the_same_on_every_run(
    run, tmp_path, options, suffix, part
):
    """Figures do not depend on a user's matplotlib settings."""
    files = []
    for name in "ab":
        path = tmp_path / f"{name}.{suffix}"
        done = run("spectrum dft --d 8 --plot", path, *options)
        assert (done.status, done.err) == (0, "")
        files.append(path.read_bytes())
        matplotlib.rcParams["font.size"] = 30
    matplotlib.rcdefaults()
    assert files[0] == files[1]
    if suffix == "png":
        assert int.from_bytes(files[0][16:20], "big") == part
    else:
        assert part.encode() in files[0]
        assert b"/Type3" not in files[0]


def test_a_png_that_no_screen_shows_is_refused(run, tmp_path):
    for dpi, status in ((2400, 2), (50, 0)):
        words = f"spectrum dft --d 8 --width 40 --dpi {dpi} --plot"
        assert run(words, tmp_path / "a.png").status == status
        assert (tmp_path / "a.png").exists() == (status == 0)


def test_axes_name_the_unit_of_the_drawn_encodings(rng):
    def words(*encodings):
        answers = [Answer(e, spectrum_of(e)) for e in encodings]
        axes, *others = LineSpectrum.draw(answers, plot.USUAL, axis="log").axes
        return axes.get_xlabel(), others[0].get_xlabel()

    places, times = (
        load("sinusoidal", 20, 8),
        load("sinusoidal", times=np.sort(rng.random(20)), d=8),
    )
    both = words(places, times)
    assert words(places) == ("angular frequency ω (radians per position)", "wavelength (positions)")
    assert words(times)[0] == "angular frequency ω (radians per unit of time)"
    assert both[1] == "wavelength (positions or units of time)"
