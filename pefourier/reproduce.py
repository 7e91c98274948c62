"""Which numbers and claims of the paper hold? Every one that computing can settle, recomputed.

The paper is Idé, Labaien, Chen, "Improving Transformers using Faithful Positional Encoding"
(arXiv 2405.09061). A `Claim` puts its printed value beside the computed one, with a verdict and one
sentence of reason. d = 256 and rho = 10^4, the paper's own, unless said otherwise.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pefourier.analysis.faithful import assess
from pefourier.analysis.reconstruct import position_functions
from pefourier.analysis.spectrum import density
from pefourier.answers.telling import Answer
from pefourier.encodings.families import absolute  # noqa: F401 (registers the paper's encodings)
from pefourier.encodings.registry import build
from pefourier.errors import PefourierError, shown
from pefourier.files import read_toml, write_whole
from pefourier.writing.page import Page, as_json, fields_of, flattened
from pefourier.writing.text import agreeing, join, markdown_table, paragraph

HOLDS, FAILS = "holds", "does not hold"
UNDECIDED, NOT_YET = "not supported by the data", "not yet compared"
POSITIONS = [5, 40, 75]  # those of Fig. 2
LENGTH = 80  # positions of the paper's series
NEEDED = "dataset leaky length seeds folds scores differences verdicts auprc_differences".split()
SIGNS = {"better": 1, "worse": -1}  # of verdicts on a difference
TEXTS = Path(__file__).with_suffix(".toml")
Verdict = Literal[
    "holds",
    "holds in another sense",
    "does not hold",
    "not supported by the data",
    "not yet compared",
    "private data",
]


@dataclass(frozen=True)
class Claim:
    """One statement of the paper beside what computing finds."""

    where: str
    statement: str
    printed: str
    computed: str
    verdict: Verdict
    reason: str


def recompute_paper(
    folder: str, begin: Callable[[str], Callable[[int, int], None]] | None = None
) -> tuple[list[Claim], list[str]]:
    """Compute all claims and write figures and tables into a folder, made if it is not there.

    Table 1 is filled from what `pefourier train` has left in the folder, ``*/summary.json``, or
    where it left nothing there, from the results that come with this version. `begin` a phase of
    the work, and call what it returns with how much is done, of how much.
    """
    from pefourier.answers import plot
    from pefourier.answers.reconstruct import reconstruct
    from pefourier.answers.spectrum import spectrum

    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    pair = [build("sinusoidal", length=LENGTH), build("dft", length=LENGTH)]
    figures = {
        "figure1": (spectrum, [Answer(e, density(e)) for e in pair]),
        "figure2": (reconstruct, [Answer(e, position_functions(e, POSITIONS)) for e in pair]),
    }
    written = [str(out / f"{name}.{suffix}") for name in figures for suffix in ("pdf", "png")]
    show = begin("figures") if begin else None
    for number, path in enumerate(written, 1):
        plot.save(path, *figures[Path(path).stem])
        if show:
            show(number, len(written))
    trainings = read_summaries(out if has_results(out) else results_folder())
    claims = all_claims(trainings, begin("claims") if begin else None)
    page = claims_page(claims)
    for suffix, text in (
        ("md", page.words()),
        ("json", json.dumps(json.loads(as_json(page)), indent=1) + "\n"),
    ):
        path = str(out / f"reproduction.{suffix}")
        write_whole(path, lambda f, text=text: f.write(text.encode()))
        written.append(path)
    return claims, written


def has_results(folder: str | Path) -> bool:
    """Whether `pefourier train` has left a comparison in a folder."""
    return any(Path(folder).glob("*/**/summary.json"))


def results_folder() -> Path:
    """The folder of the results that come with this version: of the package, or of the sources."""
    package = Path(__file__).parent
    return next(
        (f for f in (package / "figures", package.parent / "figures") if f.is_dir()), package
    )


def read_summaries(folder: Path) -> list[Mapping[str, Any]]:
    """What the comparisons in a folder found, one dataset and window after another."""
    found = []
    for path in sorted(folder.glob("*/**/summary.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            datasets = content["datasets"]
            found += [
                {key: one[key] for key in NEEDED}
                | {"scores": dict(one["scores"]), "cut_short": list(one.get("cut_short", ()))}
                | {"chosen": bool(one.get("chosen"))}
                for one in datasets
            ]
        except (ValueError, KeyError, TypeError) as error:
            raise PefourierError(
                f"{shown(str(path))} was not written by pefourier train; move it elsewhere"
            ) from error
    return found


def all_claims(
    trainings: Sequence[Mapping[str, Any]] = (), show: Callable[[int, int], None] | None = None
) -> list[Claim]:
    """Every claim, in the paper's order; Table 1 from the datasets of summary.json."""
    parts: list[Callable[[], Claim | list[Claim]]] = [
        equations_2_3,
        equations_10_13,
        equation_12,
        equations_13_14,
        equation_15,
        equation_16,
        equations_17_18_20,
        equation_19,
        equation_21,
        equation_22,
        theorem_1,
        figure_2_width,
        figure_2_exactness,
        figure_2_places,
        definition_1,
        partial(table_1, trainings),
    ]
    claims: list[Claim] = []
    for number, part in enumerate(parts, 1):
        found = part()
        claims += [found] if isinstance(found, Claim) else found
        if show:
            show(number, len(parts))
    return claims


def claim(code: str, **found: Any) -> Claim:
    """A claim of reproduce.toml, with what was found."""
    told = read_toml(TEXTS)["claims"][code]
    return Claim(**{key: text.format(**found).strip() for key, text in told.items()})


def equations_2_3() -> Claim:
    """Eqs. 2-3: the sinusoidal encoding and its frequencies."""
    enc = build("sinusoidal", length=LENGTH)
    w = enc.measure.frequencies
    table = enc.table()
    lag = np.subtract.outer(np.arange(LENGTH), np.arange(LENGTH))
    gap = np.abs(table @ table.T - np.cos(np.multiply.outer(lag, w)).sum(axis=2)).max()
    return claim("equations_2_3", count=len(w), w=(w[0], w[-1]), gap=gap)


def fourier_basis(d: int) -> np.ndarray:
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


def transform(functions: np.ndarray) -> np.ndarray:
    """Coefficients of functions, one a row, in the order of the basis, by a fast transform."""
    found = np.fft.rfft(functions, norm="ortho")
    real, imaginary = found.real, found.imag
    waves = np.sqrt(2) * np.hstack([real[:, 1:-1], -imaginary[:, 1:-1]])
    return np.hstack([real[:, :1], waves, real[:, -1:]])


def size_of_error(error: float) -> str:
    """An error, or that it is one of rounding: how large those are differs between processors.

    >>> size_of_error(2.2e-16), size_of_error(3e-9)
    ('below 1e-14', '3.0e-09')
    """
    return "below 1e-14" if error < 1e-14 else f"{error:.1e}"


def equations_10_13() -> Claim:
    """Eqs. 10 and 13: a function is its Fourier series, shown of deltas, which span all."""
    error = np.abs(transform(np.eye(256)) @ fourier_basis(256).T - np.eye(256)).max()
    return claim("equations_10_13", error=size_of_error(error))


def equation_12() -> Claim:
    """Eq. 12: the basis is orthogonal."""
    basis = fourier_basis(256)
    return claim("equation_12", error=size_of_error(np.abs(basis.T @ basis - np.eye(256)).max()))


def equations_13_14() -> Claim:
    """Eqs. 13-14: coefficients are inner products with the basis."""
    functions = np.random.default_rng(0).normal(size=(256, 256))
    functions /= np.linalg.norm(functions, axis=1, keepdims=True)
    error = np.abs(functions @ fourier_basis(256) - transform(functions)).max()
    return claim("equations_13_14", error=size_of_error(error))


def equation_15() -> Claim:
    """Eq. 15 and Fig. 1."""
    found = density(build("sinusoidal"))
    return claim("equation_15", s=found.summary, nyquist=found.density[-1])


def equation_16() -> list[Claim]:
    """Eq. 16, and the share of the entries that it puts into the lowest bin."""
    claims = []
    for d in (256, 512):
        s = density(build("sinusoidal", d=d)).summary
        own = {"s": s, "d": d, "first": 2 * int(s.lowest_bin_index // 2) + 2, "last": d - 2}
        own["share"] = 100 * s.below_first_bin / s.frequencies_total
        claims += [claim("equation_16", **own), claim("after_equation_16", **own)]
    return claims


def equations_17_18_20() -> Claim:
    """Eqs. 17, 18 and 20: the coefficients of a delta, but for that of Eq. 19."""
    error = np.abs(fourier_basis(256) - transform(np.eye(256))).max()
    return claim("equations_17_18_20", error=size_of_error(error))


def equation_19() -> Claim:
    """Eq. 19: b_K is the value of phi_2K, a sine, and not of phi_K."""
    s, largest = POSITIONS[1], 256 // 2 - 1
    printed, true = fourier_basis(256)[s, [largest, 2 * largest]]
    return claim("equation_19", s=s, printed=printed, true=true, error=abs(printed - true))


def equation_21() -> Claim:
    """Eq. 21: the DFT encoding."""
    enc = build("dft", length=256)
    error = np.abs(enc.table() - fourier_basis(256)).max()
    return claim("equation_21", error=size_of_error(error), r=assess(enc))


def equation_22() -> Claim:
    """Eq. 22: the density of the DFT encoding."""
    g = density(build("dft")).density
    return claim("equation_22", g=g, last=len(g) - 1)


def theorem_1() -> Claim:
    """Theorem 1: the DFT encoding can be inverted."""
    r = assess(build("dft", length=256))
    return claim("theorem_1", r=r, error=size_of_error(r.inverse_error))


def figure_2_width() -> Claim:
    """Fig. 2: how wide the sinusoidal encoding makes a delta."""
    r = position_functions(build("sinusoidal", length=LENGTH), [40]).reconstructions[0]
    return claim("figure_2_width", r=r, base=100 * r.values[40 + 15] / r.peak)


def figure_2_exactness() -> Claim:
    """Fig. 2: the DFT encoding's reconstruction."""
    found = position_functions(build("dft", length=LENGTH), [40])
    return claim("figure_2_exactness", r=found.reconstructions[0])


def figure_2_places() -> Claim:
    """Fig. 2: peaks stand where the deltas were."""
    names = ["sinusoidal", "dft", "learned", "ramp"]
    found = [
        int(np.argmax(r.values)) == r.position
        for name in names
        for r in position_functions(build(name), POSITIONS).reconstructions
    ]
    return claim("figure_2_places", right=sum(found), all=len(found), names=", ".join(names))


def definition_1() -> Claim:
    """Definition 1 applied to the sinusoidal encoding."""
    return claim("definition_1", r=assess(build("sinusoidal", length=LENGTH)))


def table_1(trainings: Sequence[Mapping[str, Any]]) -> list[Claim]:
    """Table 1: what the paper's training comparison prints, P / R / F1, and what ours finds."""
    printed = {
        "SMD": "1 / .943 / .970 → 1 / .961 / .980",
        "MSL": ".822 / .855 / .838 → .894 / .821 / .856",
    }
    return [claim("elevator"), *(row_of_table_1(*row, trainings) for row in printed.items())]


def row_of_table_1(dataset: str, printed: str, trainings: Sequence[Mapping[str, Any]]) -> Claim:
    """A row of Table 1 beside the comparisons on that dataset whose split does not leak."""
    own = [
        one
        for one in trainings
        if one["dataset"] == dataset.lower() and {"sinusoidal", "dft"} <= one["scores"].keys()
    ]
    sound = [one for one in own if not one["leaky"]]
    trained = [one for one in sound if not {"sinusoidal", "dft"} & set(one["cut_short"])]
    codes = {
        one["verdicts"]["dft"]
        for one in trained
        if one["differences"]["dft"]["over"] == "folds"  # one fold says nothing of other windows
    } - {"too few"}
    signs = {SIGNS.get(code, 0) for code in codes}
    verdict = {(1,): HOLDS, (-1,): FAILS}.get(tuple(signs), UNDECIDED if sound else NOT_YET)
    reasons = [f1_difference(one) for one in sound]
    reasons += [
        f"With windows shuffled, which leaks, F1 is {mean_f1(one, 'sinusoidal')} → "
        f"{mean_f1(one, 'dft')}."
        for one in own
        if one["leaky"]
    ]
    found = [f"{score_triple(one, 'sinusoidal')} → {score_triple(one, 'dft')}" for one in sound]
    told = {"computed": "; ".join(found) or "–", "verdict": verdict, "reason": " ".join(reasons)}
    return claim("table_1", dataset=dataset, printed=printed, **told)


def f1_difference(one: Mapping[str, Any]) -> str:
    """By how much the DFT encoding is above the sinusoidal one, in a sentence."""
    d = one["differences"]["dft"]
    at_equal_size = "".join(
        f"; both at {name.partition('@')[2]}: {other['mean']:+.3f}"
        for name, other in one["differences"].items()
        if name.startswith("dft@") and other["reference"] != "sinusoidal"
    )
    by_auprc = one["auprc_differences"]["dft"]
    cut_short = "; training was cut short" if {"sinusoidal", "dft"} & set(one["cut_short"]) else ""
    chosen = ", settings chosen on validation" if one["chosen"] else ""
    seeds = f"{one['seeds']} {agreeing(one['seeds'], 'seed', 'seeds')}"
    more = {
        "seeds": seeds,
        "at_equal_size": at_equal_size,
        "auprc": by_auprc,
        "cut_short": cut_short,
    }
    return read_toml(TEXTS)["difference"].format(one=one, d=d, chosen=chosen, **more)


def score_triple(one: Mapping[str, Any], encoding: str) -> str:
    """Precision, recall and F1 as Table 1 has them."""
    means = (one["scores"][encoding][m]["mean"] for m in ("precision", "recall", "f1"))
    return " / ".join(f"{mean:.3f}".lstrip("0") for mean in means)


def mean_f1(one: Mapping[str, Any], encoding: str) -> str:
    """The mean F1 of an encoding."""
    return score_triple(one, encoding).rpartition(" ")[2]


def claims_page(claims: Sequence[Claim]) -> Page:
    """The answer of `pefourier reproduce`."""
    return Page(
        "reproduce",
        words=partial(claims_as_markdown, claims),
        records=lambda: map(claim_record, claims),
        rows=lambda: flattened(map(fields_of, claims)),
        conclusion=lambda: paragraph(count_verdicts(claims)),
    )


def claim_record(claim: Claim) -> dict[str, Any]:
    """The JSON object of a claim; it is about the paper and not about one SPEC."""
    about = {"encoding": None, "spec": None, "params": {}}
    conclusion = f"{claim.where}, {claim.statement}: {claim.verdict}. {claim.reason}"
    return about | {"conclusion": conclusion} | fields_of(claim)


def count_verdicts(claims: Sequence[Claim]) -> str:
    """How many claims hold, in a sentence."""
    counts = Counter(claim.verdict for claim in claims)
    each = [
        f"{counts[verdict]} {agreeing(counts[verdict], *words)}"
        for verdict, words in read_toml(TEXTS)["spoken"].items()
        if counts[verdict]
    ]
    return f"Of {len(claims)} claims of the paper {join(each)}."


def claims_as_markdown(claims: Sequence[Claim]) -> str:
    """The claims as a Markdown table."""
    rows = [["where", "the paper says", "printed", "computed", "verdict", "why"]]
    for c in claims:
        rows.append([c.where, c.statement, c.printed, c.computed, f"**{c.verdict}**", c.reason])
    lines = [
        "# The paper, recomputed",
        "",
        "Idé, Labaien, Chen, “Improving Transformers using Faithful Positional Encoding” "
        "(arXiv 2405.09061); d = 256, ρ = 10⁴ unless said otherwise.",
        "",
        markdown_table(rows),
    ]
    return "\n".join(lines) + "\n"
