"""Figures: the data on the axes, labels with units, and the same bytes on every run."""

import hashlib
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from itertools import combinations, pairwise

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from published_configs import PUBLISHED
from tiny_models import write_model
from training import result

import pefourier
from pefourier.encodings import load
from pefourier.errors import PefourierError
from pefourier.questions.bands import density_by_decade
from pefourier.questions.compare import compare as compare_encodings
from pefourier.questions.faithful import assess
from pefourier.questions.reconstruct import position_functions
from pefourier.questions.relations import kernel, relate
from pefourier.questions.resize import by_cycles
from pefourier.questions.spectrum import density
from pefourier.report import plot
from pefourier.report.compare import compare
from pefourier.report.encode import heatmap
from pefourier.report.faithful import STRETCHES, envelope, faithful
from pefourier.report.frame import Answer, answer_of
from pefourier.report.reconstruct import reconstruct
from pefourier.report.relations import relations
from pefourier.report.spectrum import spectrum, spectrum_by_decade
from pefourier.report.training_figures import comparison, critical_difference


@pytest.fixture
def pair():
    return [load("sinusoidal", 20, 16), load("dft", 20, 16)]


def test_spectrum_draws_the_densities(pair):
    answers = [Answer(e, density(e)) for e in pair]
    (axes,) = spectrum(answers).axes
    for line, a in zip(axes.lines, answers, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), a.result.density)
        assert line.get_label() == a.encoding.spec
    assert axes.get_xlabel() == "angular frequency ω (radians per position)"
    assert axes.get_ylabel() == "share of energy $g_k$"


def test_single_lines_stand_behind_the_curves():
    """DFT's frequencies on a longer lattice were a comb of dashes over everything."""
    both = [load(name, 64, 16) for name in ("sinusoidal", "dft")]
    answers = [Answer(e, density(e, 64)) for e in both]
    (axes,) = spectrum(answers).axes
    (lines,) = axes.collections
    curve, named = axes.lines
    found = answers[1].result
    tops = [path.vertices[1] for path in lines.get_paths()]
    kept = found.density > 0
    np.testing.assert_allclose(tops, np.c_[found.omega, found.density][kept])
    assert lines.get_zorder() < curve.get_zorder()
    assert (named.get_label(), len(named.get_xdata())) == ("dft", 0)
    assert tuple(lines.get_color()[0][:3]) == matplotlib.colors.to_rgb(named.get_color())


def test_reconstruct_draws_a_panel_an_encoding(pair):
    answers = [Answer(e, position_functions(e, [2, 9])) for e in pair]
    panels = reconstruct(answers).axes
    assert [axes.get_title(loc="left") for axes in panels] == ["sinusoidal", "dft"]
    np.testing.assert_array_equal(
        panels[1].lines[1].get_ydata(), answers[1].result.reconstructions[1].values
    )


def test_faithful_draws_singular_values_and_the_kernel(pair):
    answers = [Answer(e, assess(e)) for e in pair]
    left, right = faithful(answers).axes
    table = pair[0].table()
    sigma = np.linalg.svd(table, compute_uv=False)
    np.testing.assert_allclose(left.lines[0].get_ydata(), sigma / sigma[0], atol=1e-14)
    kernel = [np.mean(np.diag(table @ table.T, lag)) / 8 for lag in range(20)]
    np.testing.assert_allclose(right.lines[0].get_ydata(), kernel, atol=1e-14)


def test_rows_that_a_picture_has_no_room_for_are_averaged():
    """Every tenth row of a fast wave drew slow ones, moiré that is in no code."""
    enc = load("rope", 6000, 8)
    (axes, bar) = heatmap([Answer(enc, enc.table())]).axes
    drawn = axes.images[0].get_array()
    assert len(drawn) == 400
    np.testing.assert_allclose(drawn, enc.table().reshape(400, 15, 8).mean(axis=1), atol=1e-12)
    assert axes.images[0].get_extent() == [-0.5, 7.5, 5999.5, -0.5]
    assert bar.get_ylabel() == "value of the code (means of some rows)"


def test_tables_of_two_lengths_are_compared_as_far_as_both_go():
    a, b = load("rope", 900, 8), load("rope:rho=500", 1000, 8)
    one, other, apart = compare([answer_of(compare_encodings(a, b))]).axes[:3]
    assert one.get_ylim() == other.get_ylim() == apart.get_ylim() == (899.5, -0.5)
    worst = np.abs(a.table() - b.table()[:900]).max(axis=0)
    np.testing.assert_allclose(apart.images[0].get_array().max(axis=0), worst)


@pytest.mark.parametrize("spec", ["sinusoidal:d=64", "rope:rho=1e4", "dft:d=80", "sinusoidal:d=6"])
@pytest.mark.parametrize("stored", [None, np.float16])
def test_as_many_singular_values_are_above_their_line_as_the_rank_says(spec, stored, tmp_path):
    """It was drawn at the eps of float64, which is no tolerance: it crossed at 79, of rank 75."""
    enc = load(spec, 60)
    if stored:
        np.save(tmp_path / "codes.npy", enc.table().astype(stored))
        enc = load(str(tmp_path / "codes.npy"))
    found = assess(enc)
    axes, _ = faithful([Answer(enc, found)]).axes
    sigma, zero, _ = (np.asarray(line.get_ydata()) for line in axes.lines)
    assert (sigma > zero[0]).sum() == found.rank
    assert axes.get_legend_handles_labels()[1][0].endswith(f" (rank {found.rank})")


def test_a_long_kernel_is_a_mean_in_a_band_of_all_its_values():
    """Eight thousand lags in a line were a solid band of ink."""
    enc = load("rope", 5000, 16)
    curve = kernel(enc)
    alibi = load("alibi", 80, 4)
    figure = relations([Answer(one, relate(one)) for one in (enc, alibi)])
    (axes,) = figure.axes
    line, biases, shade = axes.lines
    assert shade.get_label() == "shaded: least to largest nearby"
    assert shade.get_label() in [text.get_text() for text in figure.legends[0].texts]
    np.testing.assert_array_equal(biases.get_ydata(), kernel(alibi))
    assert axes.get_ylabel() == "inner product or mean of exp(bias) (1 at lag 0)"
    (band,) = axes.collections
    corners = band.get_paths()[0].vertices[:, 1]
    assert (corners.min(), corners.max()) == (curve.min(), curve.max())
    assert len(line.get_xdata()) < 300
    np.testing.assert_array_equal(line.get_ydata()[:20], curve[:20])
    last = np.ptp(line.get_ydata()[-20:]), np.ptp(curve[-500:])
    assert last[0] < last[1]
    assert axes.get_xscale() == "symlog"


def test_heatmap_draws_the_table(pair):
    table = pair[1].table()
    axes = heatmap([Answer(pair[1], table)]).axes[0]
    np.testing.assert_array_equal(axes.images[0].get_array(), table)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("dimension", "position")


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_the_same_bytes_on_every_run(tmp_path, pair, suffix):
    digests = set()
    for name in ("one", "two"):
        path = tmp_path / f"{name}.{suffix}"
        plot.save(str(path), spectrum, [Answer(e, density(e)) for e in pair])
        digests.add(hashlib.sha256(path.read_bytes()).hexdigest())
    assert len(digests) == 1


def test_text_stays_text(tmp_path, pair):
    path = tmp_path / "figure.svg"
    plot.save(str(path), spectrum, [Answer(e, density(e)) for e in pair])
    assert "angular frequency ω (radians per position)</text>" in path.read_text()


@pytest.mark.parametrize(
    ("command", "suffix"), [("spectrum", "svg"), ("reconstruct", "pdf"), ("check-faithful", "png")]
)
def test_every_command_draws(run, tmp_path, command, suffix):
    path = tmp_path / f"figure.{suffix}"
    done = run(command, "dft", "none", "learned", "--d", 16, "--plot", path, "--pos", 3)
    if command != "reconstruct":
        done = run(command, "dft", "none", "learned", "--d", 16, "--plot", path)
    assert done.status == 0, done.err
    assert path.stat().st_size > 5000


def test_panels_of_a_figure_have_one_axis(pair):
    answers = [Answer(e, position_functions(e, [2, 9])) for e in pair]
    first, second = reconstruct(answers).axes
    assert first.get_ylim() == second.get_ylim()


def test_slow_waves_have_room_on_a_logarithmic_axis():
    enc = load("rope:rho=5e5", 4096, 128)
    axes, above = spectrum_by_decade([Answer(enc, density(enc))]).axes
    found = density_by_decade(enc)
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), found.omega)
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), found.density)
    assert (axes.get_xscale(), above.get_xscale()) == ("log", "log")
    waves = [2 * np.pi / omega for omega in axes.get_xlim()]
    np.testing.assert_allclose(above.get_xlim(), waves)
    assert above.get_xlabel() == "length of the wave (positions)"
    assert axes.lines[1].get_label() == "one turn in 4096 positions"
    assert axes.lines[1].get_xdata()[0] == pytest.approx(2 * np.pi / 4096)


def test_energy_that_a_logarithm_leaves_out_is_told():
    enc = load("dft", 8, 8)
    (line, _) = spectrum_by_decade([Answer(enc, density(enc))]).axes[0].lines
    assert line.get_label() == "dft (12.5 % at 0)"


def test_declared_waves_stand_apart_where_nothing_is_smoothed():
    """--sigma 0 drew a curve that was smeared by a tenth of a decade, with ripples of its own."""
    enc = load("rope", 64, 16)
    (axes, _) = spectrum_by_decade([Answer(enc, density(enc, sigma=0))]).axes
    np.testing.assert_allclose(axes.lines[0].get_xdata(), 1e4 ** -(np.arange(8) / 8))
    np.testing.assert_allclose(axes.lines[0].get_ydata(), 1 / 8)
    assert axes.get_ylabel() == "share of energy of each wave"


def test_what_is_computed_anew_is_drawn_so():
    """Of a rotation the table that no model interpolates was drawn."""
    found = pefourier.resize("axial-rope", (6, 9), grid=(4, 5), d=16)
    drawn = found.plot()
    _, after = (line.get_ydata() for line in drawn.axes[0].lines)
    np.testing.assert_allclose(after, by_cycles(found.after).sum(axis=1))
    assert drawn.get_suptitle().endswith(", anew")


def test_a_long_curve_looks_the_same_from_few_points():
    x, y = np.arange(100_000.0), np.random.default_rng(3).normal(size=100_000)
    few, values = envelope(x, y)
    assert len(few) <= 2 * STRETCHES + 2
    assert {y.min(), y.max()} <= {*values}
    np.testing.assert_array_equal(values, y[few.astype(int)])
    assert (few[0], few[-1]) == (0, 99_999)


def size_of(path):
    """Width and height of a PNG in pixels."""
    head = path.read_bytes()[16:24]
    return int.from_bytes(head[:4], "big"), int.from_bytes(head[4:], "big")


@pytest.mark.parametrize(
    ("options", "wide"),
    [
        ([], 1200),
        (["--width", "column"], 680),
        (["--width", "page"], 1400),
        (["--width", "5.5"], 1100),
        (["--dpi", 100], 600),
        (["--width", "column", "--dpi", 50], 170),
    ],
)
def test_a_figure_is_as_wide_as_asked(run, tmp_path, options, wide):
    path = tmp_path / "figure.png"
    done = run("spectrum", "dft", "--d", 8, "--plot", path, *options)
    assert (done.status, done.err) == (0, "")
    assert size_of(path)[0] == wide


LLAMA, GEMMA, QWEN = "Llama-3.1-8B.json", "gemma-3-4b-it.json", "Qwen2-VL-7B-Instruct.json"
LONG = "rope:scaling=yarn,factor=4,original=4096 rope:rho=500,layout=interleaved"
MANY = "none onehot ramp learned sinusoidal tape fourier-features dft rope xpos time2vec"
GRIDS = "axial axial-rope sinusoidal --grid 6x9 --d 16"
PICTURES = [
    f"spectrum {LONG} {LLAMA} --axis log --d 128",
    f"spectrum {GRIDS}",
    f"reconstruct {GRIDS} --pos 2,3 4,5",
    f"check-faithful {MANY} --d 16",
    f"context {LLAMA} {GEMMA} --length 128k",
    "compare rope xpos --d 128 -S 600",
    f"relations {LONG}",
    "resize axial --from 6x9 --to 9x14 --d 16",
    "design --length 80 --d 32",
    f"design --extend-from {LLAMA} --to 256k",
    f"encode {LONG.split()[0]} --d 16 --out codes.npy",
    "usage model --length 512",
]
MORE = [
    f"spectrum {LONG} --axis linear",
    f"spectrum {MANY} --d 16",
    f"reconstruct {LONG} --pos 1 2 3 4 5 6 7 8 9",
    "reconstruct dft --d 8 -S 8",
    f"check-faithful {LONG}",
    f"check-faithful {GRIDS}",
    "check-faithful rope --d 16 -S 8192",
    f"context {QWEN} --length 64k",
    f"context {LLAMA} --against scaling-ignored",
    f"compare {LONG} --d 16",
    "compare axial mixed-rope --grid 6x6 --d 16",
    f"relations {GRIDS}",
    "resize axial --from 2x4x6 --to 3x5x8 --d 24",
    "resize learned --from 100 --to 200 --d 16",
    "design --grid 4x30x52 --d 48",
]
PICTURES += [pytest.param(command, marks=pytest.mark.long) for command in MORE]
SMALL = plot.Look(3.8)
LOOKS = [(plot.Look(3.4),)]
LOOKS += [pytest.param((plot.USUAL, plot.Look(3.25), SMALL), marks=pytest.mark.long)]
COUNTED = re.compile(r"(position|row|column|lag|index|dimension|layer|rank|epoch|cycles)\b")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A folder with configs as they are published, and a model."""
    folder = tmp_path_factory.mktemp("inputs")
    for name, config in PUBLISHED.items():
        path = folder / f"{name.rpartition('/')[2]}.json"
        if path.name in (LLAMA, GEMMA, QWEN):
            path.write_text(json.dumps(config))
    write_model(folder / "model")
    return folder


def words_in(figure):
    """All texts that a figure shows, with the numbers along its axes."""
    found = [*figure.texts, *(t for one in figure.legends for t in one.get_texts())]
    for axes in figure.axes:
        found += [axes.title, axes._left_title, axes._right_title, *axes.texts]
        for axis in [one for one in (axes.xaxis, axes.yaxis) if axes.axison and one.get_visible()]:
            found += [axis.label, axis.offsetText]
            found += [t for tick in axis._update_ticks() for t in (tick.label1, tick.label2)]
    return [text for text in found if text.get_visible() and text.get_text().strip()]


def names_beside(axis):
    """What says what numbers along an axis are: its label, or one in its row or column."""
    which, figure = axis.axis_name, axis.figure

    def interval(axes):
        return getattr(axes.get_position(), f"interval{which}")

    (low, high), names = interval(axis.axes), [getattr(figure, f"_sup{which}label")]
    for axes in figure.axes:
        if max(low, interval(axes)[0]) < min(high, interval(axes)[1]):
            names.append(getattr(axes, f"{which}axis").label.get_text())
    return list(filter(None, names))


def check_words(figure, dpi):
    """Nothing is cut, covers other words, curves or pictures, counts in halves or lacks a name."""
    plot.fit_words(figure)
    figure.dpi = dpi  # of the file
    FigureCanvasAgg(figure).draw()  # a layout that finds no room warns
    boxes = [(text.get_text(), text.get_window_extent()) for text in words_in(figure)]
    whole = figure.bbox.padded(2)
    for words, box in boxes:
        assert all(whole.contains(*at) for at in (box.min, box.max)), f"cut: {words}"
    for (one, a), (other, b) in combinations(boxes, 2):
        assert not a.padded(-1).overlaps(b.padded(-1)), f"{one} over {other}"
    for axes in figure.axes:
        place = axes.get_window_extent().padded(-1)
        covered = figure.legends if axes.axison else []
        shaded = axes.images or any(isinstance(one, QuadMesh) for one in axes.collections)
        for one in (*covered, *(axes.texts if shaded else ())):
            assert not one.get_window_extent().overlaps(place), one
        for axis in (axes.xaxis, axes.yaxis) if axes.axison else ():
            ticks = [tick.label1 for tick in axis._update_ticks()]
            told = [one.get_text() for one in ticks if one.get_visible() and axis.get_visible()]
            counted = [one for one in told if one and not one[0].isalpha()]
            assert not counted or names_beside(axis), f"of what? {told}"
            if COUNTED.match(axis.label.get_text()):
                assert not [number for number in told if "." in number], axis.label


@pytest.mark.parametrize("looks", LOOKS, ids=("column", "others"))
@pytest.mark.parametrize("command", PICTURES)
def test_words_of_a_picture_are_whole_and_apart(run, monkeypatch, inputs, command, looks):
    monkeypatch.chdir(inputs)
    asked = []
    monkeypatch.setattr(plot, "save", lambda path, draw, answers: asked.append((draw, answers)))
    done = run(*command.split(), "--quiet", "--plot", "a.png")
    assert done.status < 2, done.err
    ((draw, answers),) = asked
    for look in looks:
        with plot.figure_style(look):
            check_words(draw(answers, look), look.dpi)


def test_names_below_the_axes_take_no_room_from_them(pair):
    heights = []
    for count in (1, 3):  # of which each takes a line
        named = [replace(e, spec=60 * str(i)) for i, e in enumerate(pair + pair)][:count]
        with plot.figure_style(SMALL):
            figure = spectrum([Answer(e, density(e)) for e in named], SMALL)
        heights.append(figure.get_figheight())
    assert heights[1] == pytest.approx(heights[0] + 2 * plot.LINE)


def test_a_title_is_text(run, tmp_path):
    path = tmp_path / "figure.svg"
    title = "Cost $x_1$ & <b>"
    run("spectrum", "dft", "--d", 8, "--plot", path, "--title", title)
    assert ">Cost $x_1$ &amp; &lt;b&gt;</text>" in path.read_text()
    assert "<title>Cost $x_1$ &amp; &lt;b&gt;</title>" in path.read_text()


def test_dark_is_light_on_dark(run, tmp_path):
    path = tmp_path / "figure.svg"
    run("spectrum", "dft", "--d", 8, "--plot", path)
    usual = path.read_text()
    run("spectrum", "dft", "--d", 8, "--plot", path, "--dark")
    dark = path.read_text()
    assert "<title>spectrum: dft</title>" in usual
    assert "fill: #ffffff" in usual
    assert "fill: #ffffff" not in dark
    for colour in (plot.DARK.paper, plot.DARK.ink, plot.DARK.curves[0]):
        assert colour.lower() in dark


def test_fonts_are_part_of_a_pdf(run, tmp_path):
    path = tmp_path / "figure.pdf"
    run("spectrum", "dft", "--d", 8, "--plot", path)
    assert b"/FontFile2" in path.read_bytes()
    assert b"/Type3" not in path.read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dark"], "--dark say how a figure is to look; give --plot FILE too"),
        (
            ["--plot", "a.png", "--width", "wide"],
            "--width must be column (3.4 inches), page",
        ),
        (["--plot", "a.png", "--width", "nan"], "or inches from 3.0 to 40.0; got 'nan'"),
        (["--plot", "a.png", "--width", "1"], "or inches from 3.0 to 40.0; got '1'"),
        (["--plot", "a.png", "--dpi", "0"], "0 is not in the range"),
        (["--plot", "a.png", "--width", "40", "--dpi", "2400"], "is larger than a figure needs"),
    ],
)
def test_a_look_that_cannot_be_had_is_refused(run, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    done = run("spectrum", "dft", "--d", 8, *options)
    assert done.status == 2
    assert message in done.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "drawn_by"),
    [
        (["rope"], spectrum_by_decade),
        (["rope", "dft"], spectrum),
        (["rope", "--axis", "linear"], spectrum),
        (["dft", "--axis", "log"], spectrum_by_decade),
    ],
)
def test_the_axis_is_that_on_which_there_is_something_to_see(run, monkeypatch, arguments, drawn_by):
    used = []
    monkeypatch.setattr(plot, "save", lambda path, draw, answers: used.append(draw))
    assert run("spectrum", *arguments, "--d", 64, "--plot", "a.png").status == 0
    assert used == [drawn_by]


def test_long_names_are_cut_and_every_run_is_beside_the_interval():
    from pefourier.train import summary

    rows = [
        result(e, v, dataset=d, split="random", leaky=True, length=100)
        for d in ("lags:count=60,length=16,short=2,long=7", "/home/of/somebody/with/data$.npz")
        for v, e in zip(
            (0, 0.5, 1),
            ("rope:scaling=yarn,factor=4,rho=500000", "dft", "a/codes/mine.npy"),
            strict=True,
        )
    ]
    found = summary.summarize_runs(rows)
    for draw in (comparison, critical_difference):
        with plot.figure_style():
            figure = draw(found)
            FigureCanvasAgg(figure).draw()  # a layout that finds no room warns
        axes = figure.axes
        shown = [text for each in axes for text in (*each.texts, *each.get_yticklabels())]
        titles = [each.title for each in axes] + [each._right_title for each in axes]
        for text in (*shown, *titles):
            box = text.get_window_extent()
            assert -1 <= box.x0 <= box.x1 <= figure.bbox.width + 1, text.get_text()
    figure = comparison(found)
    for line in figure.axes[0].lines:  # points below their row's middle, means above
        assert (line.get_ydata()[0] % 1 > 0.5) == (line.get_marker() != "o")


@pytest.mark.parametrize(("other", "panels"), [("ramp", 3), ("dft:d=4", 2)])
def test_compare_draws_both_tables_and_their_difference(run, monkeypatch, other, panels):
    drawn = []
    monkeypatch.setattr(plot, "save", lambda path, draw, answers: drawn.extend([draw, *answers]))
    done = run("compare", "onehot", other, "--d", 8, "-S", 8, "--plot", "a.png", "--quiet")
    assert done.status == 1
    draw, *answers = drawn
    assert draw == compare
    axes = [each for each in draw(answers).axes if each.get_xlabel() == "dimension"]
    images = [each.images[0].get_array() for each in axes]
    assert len(axes) == panels
    if panels == 3:
        np.testing.assert_array_equal(images[2], images[1] - images[0])
        assert axes[2].get_title("left") == "second − first (red: larger in the second)"


def drawn(folder, **environment):
    """Status, standard error and figure of a command that draws in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "pefourier", "spectrum", "dft", "--d", "8", "--plot", "x.svg"],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    path = folder / "x.svg"
    return done.returncode, done.stderr, path.read_bytes() if path.exists() else b""


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    return drawn(tmp_path_factory.mktemp("usual"))


@pytest.mark.parametrize(
    "settings", [b"nonsense\ntext.usetex: True\nfont.size: 30\n", b"\xff\xfe: True\n"]
)
def test_settings_that_lie_about_change_nothing(tmp_path, usual, settings):
    assert usual[:2] == (0, "")
    os.makedirs(tmp_path / "home" / "matplotlib")
    for place in (tmp_path, tmp_path / "home" / "matplotlib"):
        (place / "matplotlibrc").write_bytes(settings)
    home = str(tmp_path / "home")
    assert drawn(tmp_path, XDG_CONFIG_HOME=home, MPLBACKEND="nonsense") == usual


def test_a_file_of_settings_that_is_not_there_changes_nothing(tmp_path, usual):
    assert drawn(tmp_path, MPLBACKEND="tkagg", MATPLOTLIBRC=str(tmp_path / "none")) == usual


@pytest.mark.parametrize("name", ["own", "."])
def test_settings_that_are_asked_for_count(tmp_path, usual, name):
    for path in (tmp_path / "own", tmp_path / "matplotlibrc"):
        path.write_text("font.size: 30\nlines.linewidth: 9\naxes.labelsize: 30\n")
    status, err, larger = drawn(tmp_path, MATPLOTLIBRC=name)
    assert (status, err) == (0, "")
    assert b"font-size: 30px" in larger
    assert b"font-size: 30px" not in usual[2]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (b"\xff\xfe: True\n", "cannot read MATPLOTLIBRC='own': "),
        (b"text.usetex: True\n", "cannot draw as MATPLOTLIBRC='own' asks: "),
    ],
)
def test_settings_that_are_asked_for_and_fail_are_named_in_one_line(tmp_path, settings, message):
    (tmp_path / "own").write_bytes(settings)
    path = os.path.dirname(sys.executable)  # where no latex is
    status, err, figure = drawn(tmp_path, MATPLOTLIBRC="own", PATH=path)
    assert (status, figure) == (2, b"")
    assert err.splitlines()[-1].startswith(f"pefourier: {message}")
    assert "Traceback" not in err


def test_the_settings_and_the_backend_of_a_program_are_left_alone(tmp_path, usual):
    code = """
import os
os.environ["MPLBACKEND"] = "svg"
import matplotlib
matplotlib.rcParams["font.size"] = 30
before = dict(matplotlib.rcParams)
from pefourier.report import plot
from pefourier.report.spectrum import spectrum
from pefourier.report.frame import Answer, answer_of
from pefourier.encodings import load
from pefourier.questions.spectrum import density
enc = load("dft", 8, 8)
plot.save("x.svg", spectrum, [Answer(enc, density(enc))])
assert dict(matplotlib.rcParams) == before, "settings"
assert matplotlib.get_backend() == "svg"
assert os.environ["MPLBACKEND"] == "svg"
import sys
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    assert (tmp_path / "x.svg").read_bytes() == usual[2]


@pytest.mark.parametrize("wide", [3.0, 3.8, 6.0])
@pytest.mark.parametrize("top", [90, 2**13, 2**17, 2**26])
def test_numbers_along_an_axis_stand_apart(wide, top):
    """Those of 131072 positions ran into one another: 80000100000120000."""

    def draw(answers, look):
        figure, panels = plot.make_panels(1, 2, (wide, 2.6), look)
        for axes in panels.flat:
            axes.plot([0, top], [0, 1])
        plot.fit_words(figure)
        return figure

    with plot.figure_style(plot.USUAL):
        figure = draw(None, plot.USUAL)
        FigureCanvasAgg(figure).draw()
        for axes in figure.axes:
            ends = [t.get_window_extent() for t in axes.get_xticklabels() if t.get_text()]
            ends = [e for e in ends if axes.bbox.x0 <= (e.x0 + e.x1) / 2 <= axes.bbox.x1]
            assert all(a.x1 < b.x0 for a, b in pairwise(ends))


def test_fourteen_curves_differ_in_colour_or_dashes():
    for look in (plot.USUAL, plot.DARK):
        with plot.figure_style(look):
            cycle = matplotlib.rcParams["axes.prop_cycle"]
        styles = [(one["color"], one["linestyle"]) for one in cycle]
        assert len(styles) == len(set(styles)) == 14


def test_names_of_many_curves_stand_below_the_axes_and_whole():
    specs = ["sinusoidal", "rope", "dft", "tape", "rope:rho=5e5", "sinusoidal:rho=500"]
    encodings = [load(spec, 20, 8) for spec in specs]
    asked = [Answer(enc, relate(enc)) for enc in encodings]
    with plot.figure_style(plot.USUAL):
        figure = relations(asked, replace(plot.USUAL, width=3.4))
        FigureCanvasAgg(figure).draw()
    (axes,) = figure.axes
    (legend,) = figure.legends
    assert axes.get_legend() is None
    assert [one.get_text().split(" (on ")[0] for one in legend.get_texts()] == specs
    assert legend.get_window_extent().y1 <= axes.get_tightbbox().y0
    assert figure.bbox.containsx(legend.get_window_extent().x1)
    assert axes.yaxis.label.get_window_extent().y0 >= 0


def test_a_curve_that_hides_another_says_so():
    encs = [load(spec, 40, 16) for spec in ("sinusoidal", "dft", "sinusoidal:layout=halves")]
    (axes,) = relations([answer_of(relate(enc)) for enc in encs]).axes
    names = axes.get_legend_handles_labels()[1]
    assert names == ["sinusoidal", "dft", "sinusoidal:layout=halves (on sinusoidal)"]


@pytest.mark.parametrize("size", [(1, 700), (700, 1), (150, 150)])
def test_a_png_that_no_screen_shows_is_refused(size):
    figure = Figure(figsize=size)
    with pytest.raises(PefourierError, match="pixels is larger than a figure needs"):
        plot.check_pixels("png", figure, 100)
    plot.check_pixels("svg", figure, 100)
