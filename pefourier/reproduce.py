"""Recompute the numbers and claims of the paper.

The paper is Idé, Labaien, Chen, "Improving Transformers using Faithful Positional Encoding"
(arXiv 2405.09061). A `Claim` has the printed value, the computed value, a verdict and a reason of
one sentence. d = 256 and rho = 10^4, as in the paper, unless stated otherwise.
"""

import json
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pefourier.encodings.registry import build
from pefourier.errors import PefourierError, shown
from pefourier.questions.check_faithful import check_faithful
from pefourier.questions.reconstruct import position_functions
from pefourier.questions.spectrum import spectrum as spectrum_of
from pefourier.report.forms import as_json, markdown_of
from pefourier.report.render import Answer
from pefourier.types import Array, Values, frozen
from pefourier.writing.files import read_toml, write_text
from pefourier.writing.page import Page, fields_of, flattened
from pefourier.writing.text import agreeing, aligned, paragraph

HOLDS, FAILS = "holds", "does not hold"
UNDECIDED, NOT_YET = "not supported by the data", "not yet compared"
POSITIONS = [5, 40, 75]  # of Fig. 2
COMPARED = {"sinusoidal", "dft"}
SCORES = ("precision", "recall", "f1")
LENGTH = 80  # positions in the paper's series
NEEDED = "dataset leaky length seeds folds scores differences verdicts auprc_differences".split()
TEXTS = Path(__file__).with_suffix(".toml")
PREFACE = """\
# The paper, recomputed

Idé, Labaien, Chen, “Improving Transformers using Faithful Positional Encoding” \
(arXiv 2405.09061); d = 256, ρ = 10⁴ unless stated otherwise.

"""


@frozen
class Claim:
    """One statement of the paper and the result of recomputing it."""

    where: str
    statement: str
    printed: str
    computed: str
    verdict: str
    reason: str


def recompute_paper(folder: str) -> tuple[list[Claim], list[str]]:
    """Compute all claims and write figures and tables into a folder, created if missing.

    Table 1 uses the results of `pefourier train` in the folder (``*/summary.json``). If there are
    no such files, it uses the results that are shipped with this version.
    """
    from pefourier.report import plot
    from pefourier.report.figures import reconstruct, spectrum

    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    pair = [build("sinusoidal", length=LENGTH), build("dft", length=LENGTH)]
    figures = (
        ("figure1", partial(spectrum, axis="linear"), [Answer(e, spectrum_of(e)) for e in pair]),
        ("figure2", reconstruct, [Answer(e, position_functions(e, POSITIONS)) for e in pair]),
    )
    written = []
    for name, draw, answers in figures:
        rows = [np.array([row[1:] for row in a.result.series()[1]], dtype=float) for a in answers]
        drawn = f"numbers {zlib.crc32((np.round([*map(np.ravel, rows)], 6) + 0.0).tobytes()):08x}"
        for path in (out / f"{name}.pdf", out / f"{name}.png"):
            written.append(str(path))
            if not path.exists() or drawn.encode() not in path.read_bytes():  # of other numbers
                plot.save(str(path), draw, answers, plot.Look(keywords=drawn))
    claims = all_claims(read_summaries(out if has_results(out) else results_folder()))
    page = claims_page(claims)
    answer = json.dumps(json.loads(as_json(page)), indent=1) + "\n"
    for suffix, text in (("md", f"{PREFACE}{markdown_of(page)}"), ("json", answer)):
        written.append(str(out / f"reproduction.{suffix}"))
        write_text(written[-1], text)
    return claims, written


def has_results(folder: str | Path) -> bool:
    """Whether a folder contains a comparison written by `pefourier train`."""
    return any(Path(folder).glob("*/**/summary.json"))


def results_folder() -> Path:
    """Return the folder of shipped results, in the package or in the source tree."""
    package = Path(__file__).parent
    return next(
        (f for f in (package / "figures", package.parent / "figures") if f.is_dir()), package
    )


def read_summaries(folder: Path) -> list[Values]:
    """Read the comparisons in a folder: one mapping per dataset and window."""
    comparisons: list[Values] = []
    for path in sorted(folder.glob("*/**/summary.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            comparisons += [
                {key: dataset[key] for key in NEEDED}
                | {key: dataset.get(key) or [] for key in ("cut_short", "chosen")}
                for dataset in content["datasets"]
            ]
        except (ValueError, KeyError, TypeError) as error:
            raise PefourierError(
                f"{shown(str(path))} was not written by pefourier train; move it elsewhere"
            ) from error
    return comparisons


def all_claims(trainings: Sequence[Values] = ()) -> list[Claim]:
    """Return every claim, in the paper's order; Table 1 uses the datasets of summary.json."""
    return [*equations(), *figures_and_theorems(), *table_1(trainings)]


def claim(code: str, **values: Any) -> Claim:
    """Fill in a claim of reproduce.toml with computed values."""
    texts = [text.format(**values).strip() for text in read_toml(TEXTS)[code]]
    where, statement, printed, computed, reason, *verdict = texts
    found = verdict[0] if verdict else HOLDS
    return Claim(where, statement, printed, computed, found, reason)


def fourier_basis(d: int) -> Array:
    """The paper's basis, phi_l(s) in row s and column l: (d, d).

    A constant, K = d/2 - 1 cosines, as many sines phi_{K+1} … phi_{2K}, and Nyquist phi_{d-1}.

    >>> fourier_basis(4).round(3)[1]
    array([ 0.5  ,  0.   ,  0.707, -0.5  ])
    """
    s = np.arange(d)
    phases = 2 * np.pi / d * (np.multiply.outer(s, s[1 : d // 2]) % d)
    waves = np.sqrt(2 / d) * np.hstack([np.cos(phases), np.sin(phases)])
    constant = np.full((d, 1), np.sqrt(1 / d))
    return np.hstack([constant, waves, constant * (-1.0) ** s[:, None]])


def transform(functions: Array) -> Array:
    """Return the coefficients of functions (one per row) in basis order, by a fast transform."""
    coefficients = np.fft.rfft(functions, norm="ortho")
    real, imaginary = coefficients.real, coefficients.imag
    waves = np.sqrt(2) * np.hstack([real[:, 1:-1], -imaginary[:, 1:-1]])
    return np.hstack([real[:, :1], waves, real[:, -1:]])


def equations() -> Iterator[Claim]:
    """Yield Eqs. 2-22: both encodings, the Fourier basis, the density, the misprint in Eq. 19."""
    enc = build("sinusoidal", length=LENGTH)
    w, table = enc.measure.frequencies, enc.table()
    lag = np.subtract.outer(np.arange(LENGTH), np.arange(LENGTH))
    gap = np.abs(table @ table.T - np.cos(np.multiply.outer(lag, w)).sum(axis=2)).max()
    yield claim("equations_2_3", count=len(w), w=(w[0], w[-1]), gap=gap)
    basis, deltas = fourier_basis(256), np.eye(256)
    yield claim("equations_10_13", error=size_of_error(transform(deltas) @ basis.T, deltas))
    yield claim("equation_12", error=size_of_error(basis.T @ basis, deltas))
    functions = np.random.default_rng(0).normal(size=(256, 256))
    functions /= np.linalg.norm(functions, axis=1, keepdims=True)
    error = size_of_error(functions @ basis, transform(functions))
    yield claim("equations_13_14", error=error)
    spectrum = spectrum_of(build("sinusoidal"))
    yield claim("equation_15", s=spectrum.summary, nyquist=spectrum.density[-1])
    for d in (256, 512):  # also the share of entries that Eq. 16 puts into the lowest bin
        summary = spectrum_of(build("sinusoidal", d=d)).summary
        root, below = summary.lowest_bin_index, summary.below_first_bin
        assert root is not None  # because frequencies are declared
        assert below is not None
        yield claim("equation_16", s=summary, d=d, first=2 * int(root // 2) + 2, last=d - 2)
        yield claim("after_equation_16", s=summary, d=d, share=100 * below / (d // 2))
    yield claim("equations_17_18_20", error=size_of_error(basis, transform(deltas)))
    s, largest = POSITIONS[1], 256 // 2 - 1  # b_K is the value of the sine phi_2K, not of phi_K
    printed, true = basis[s, [largest, 2 * largest]]
    yield claim("equation_19", s=s, printed=printed, true=true, error=abs(printed - true))
    enc = build("dft", length=256)
    yield claim("equation_21", error=size_of_error(enc.table(), basis), r=check_faithful(enc))
    g = spectrum_of(build("dft")).density
    yield claim("equation_22", g=g, last=len(g) - 1)


def figures_and_theorems() -> Iterator[Claim]:
    """Yield Theorem 1, the claims on Fig. 2, and Definition 1 for the sinusoidal encoding."""
    r = check_faithful(build("dft", length=256))
    yield claim("theorem_1", r=r, error=size_of_error(r.inverse_error, 0.0))
    wide, exact = (
        position_functions(build(name, length=LENGTH), [40]).reconstructions[0]
        for name in ("sinusoidal", "dft")
    )
    yield claim("figure_2_width", r=wide, base=100 * wide.values[40 + 15] / wide.peak)
    yield claim("figure_2_exactness", r=exact)
    names = ["sinusoidal", "dft", "learned", "ramp"]
    is_at_peak = [
        int(np.argmax(rebuilt.values)) == rebuilt.position
        for name in names
        for rebuilt in position_functions(build(name), POSITIONS).reconstructions
    ]
    values = {"right": sum(is_at_peak), "all": len(is_at_peak), "names": ", ".join(names)}
    yield claim("figure_2_places", **values)
    yield claim("definition_1", r=check_faithful(build("sinusoidal", length=LENGTH)))


def size_of_error(values: Array | float, expected: Array | float) -> str:
    """Format the largest error; rounding errors are only bounded, as they depend on the processor.

    >>> size_of_error(1 + 2.2e-16, 1), size_of_error(3e-9, 0)
    ('below 1e-14', '3.0e-09')
    """
    error = float(np.abs(values - expected).max())
    return "below 1e-14" if error < 1e-14 else f"{error:.1e}"


def table_1(trainings: Sequence[Values]) -> list[Claim]:
    """Return Table 1 (P / R / F1): the paper's training comparison and the recomputed one."""
    printed = {
        "SMD": "1 / 0.943 / 0.970 → 1 / 0.961 / 0.980",
        "MSL": "0.822 / 0.855 / 0.838 → 0.894 / 0.821 / 0.856",
    }
    claims = [claim("elevator")]
    for dataset, values in printed.items():
        runs = [run for run in trainings if run["dataset"] == dataset.lower()]
        runs = [run for run in runs if run["scores"].keys() >= COMPARED]
        leak_free = [run for run in runs if not run["leaky"]]
        codes = {
            run["verdicts"]["dft"]
            for run in leak_free  # a single fold cannot be generalized to other windows
            if not COMPARED & set(run["cut_short"]) and run["differences"]["dft"]["over"] == "folds"
        } - {"too few"}
        decided = {("better",): HOLDS, ("worse",): FAILS}
        verdict = decided.get(tuple(codes), UNDECIDED if leak_free else NOT_YET)
        reasons = [f1_difference(run) for run in leak_free]
        reasons += [
            f"With shuffled windows, which leak into the test set, F1 is {scores_of(run, 'f1')}."
            for run in runs
            if run["leaky"]
        ]
        texts = {"verdict": verdict, "reason": " ".join(reasons)}
        texts["computed"] = "; ".join(scores_of(run, *SCORES) for run in leak_free) or "–"
        claims.append(claim("table_1", dataset=dataset, printed=values, **texts))
    return claims


def f1_difference(run: Values) -> str:
    """Describe the F1 difference between the DFT and the sinusoidal encoding."""
    at_equal_size = "".join(
        f"; both at {name.partition('@')[2]}: {difference['mean']:+.3f}"
        for name, difference in run["differences"].items()
        if name.startswith("dft@") and difference["reference"] != "sinusoidal"
    )
    slots = {
        "run": run,
        "f1": run["differences"]["dft"],
        "auprc": run["auprc_differences"]["dft"],
        "seeds": f"{run['seeds']} {agreeing(run['seeds'], 'seed', 'seeds')}",
        "chosen": ", settings chosen on validation" if run["chosen"] else "",
        "at_equal_size": at_equal_size,
        "cut_short": "; training stopped at the epoch limit"
        if COMPARED & set(run["cut_short"])
        else "",
    }
    template: str = read_toml(TEXTS)["difference"]
    return template.format(**slots)


def scores_of(run: Values, *metrics: str) -> str:
    """Format the scores of both encodings as in Table 1."""
    of_each = (
        " / ".join(f"{run['scores'][name][m]['mean']:.3f}" for m in metrics)
        for name in ("sinusoidal", "dft")
    )
    return " → ".join(of_each)


def claims_page(claims: Sequence[Claim]) -> Page:
    """Build the answer of `pefourier reproduce`."""
    head = ["where", "the paper says", "printed", "computed", "verdict", "why"]
    rows = [list(vars(claim).values()) for claim in claims]
    counts = Counter(claim.verdict for claim in claims)  # in order of first appearance
    listed = ", ".join(f"{verdict} {count}" for verdict, count in counts.items())
    records = [  # a claim refers to the paper rather than to a SPEC
        {
            "encoding": None,
            "spec": None,
            "params": {},
            "verdict": claim.verdict,
            "meaning": claim.reason,
            "action": "",
            "findings": [],
            "conclusion": f"{claim.where}, {claim.statement}: {claim.verdict}. {claim.reason}",
            **fields_of(claim),
        }
        for claim in claims
    ]
    return Page(
        "reproduce",
        words=lambda: aligned([head, *rows]),
        records=lambda: records,
        rows=lambda: flattened(map(fields_of, claims)),
        conclusion=lambda: paragraph(f"{len(claims)} claims of the paper. Verdicts: {listed}."),
    )
