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
from pefourier.answers.page import Page, as_json, fields_of, flattened
from pefourier.answers.telling import Answer
from pefourier.answers.text import agreeing, join, markdown_table, paragraph
from pefourier.encodings.families import absolute  # noqa: F401 (registers the paper's encodings)
from pefourier.encodings.registry import build
from pefourier.errors import PefourierError, shown
from pefourier.files import write_whole
from pefourier.train.options import LEVEL

HOLDS, SENSE, FAILS = "holds", "holds in another sense", "does not hold"
UNDECIDED, NOT_YET = "not supported by the data", "not yet compared"
POSITIONS = [5, 40, 75]  # those of Fig. 2
LENGTH = 80  # positions of the paper's series
NEEDED = "dataset leaky length seeds folds scores differences auprc_differences".split()
PRIVATE = "private data"
SPOKEN = {  # after one claim, and after several
    HOLDS: ("holds", "hold"),
    SENSE: ("holds in another sense", "hold in another sense"),
    FAILS: ("fails", "fail"),
    UNDECIDED: ("is without support in the data", "are without support in the data"),
    NOT_YET: ("is not yet compared", "are not yet compared"),
    PRIVATE: ("rests on private data", "rest on private data"),
}
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
            datasets = [] if "results" in content else content["datasets"]  # the first: causal
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
        equation_12,
        equation_15,
        equation_16,
        equations_17_18,
        equation_19,
        equations_20_21,
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


def equation_12() -> Claim:
    """Eq. 12: the sinusoidal encoding."""
    enc = build("sinusoidal", length=LENGTH)
    w = enc.measure.frequencies
    table = enc.table()
    lag = np.subtract.outer(np.arange(LENGTH), np.arange(LENGTH))
    gap = np.abs(table @ table.T - np.cos(np.multiply.outer(lag, w)).sum(axis=2)).max()
    return Claim(
        "Eq. 12",
        "sines and cosines at w_l = ρ^(−l/d), l = 0, 2 … d−2",
        "w from 1 down to ρ^(−(d−2)/d)",
        f"{len(w)} frequencies, {w[0]:.0f} down to {w[-1]:.4e}",
        HOLDS,
        f"Inner products equal Σ cos(w_l (s−t)) to {gap:.0e}: they depend on the lag alone.",
    )


def equation_15() -> Claim:
    """Eq. 15 and Fig. 1."""
    s = density(build("sinusoidal")).summary
    return Claim(
        "Eq. 15, Fig. 1",
        "the sinusoidal encoding is a low-pass filter",
        "a peak at zero frequency",
        f"mean frequency {s.centroid:.4f} rad, 95 % below {s.cutoff95:.4f} rad of π",
        HOLDS,
        "With bandwidth 4 the largest share lies at k = 1, next to zero; "
        f"at Nyquist it is {density(build('sinusoidal')).density[-1]:.1e}.",
    )


def equation_16() -> list[Claim]:
    """Eq. 16, and the share of the entries that it puts into the lowest bin."""
    claims = []
    for d in (256, 512):
        s = density(build("sinusoidal", d=d)).summary
        share = s.below_first_bin / s.frequencies_total
        claims += [
            Claim(
                "Eq. 16",
                f"index l at which w_l = 2π/d, d = {d}",
                "d ln(d/2π) / ln ρ",
                f"{s.lowest_bin_index:.2f}",
                HOLDS,
                f"Of index {2 * int(s.lowest_bin_index // 2) + 2} … {d - 2} all lie below it.",
            ),
            Claim(
                "text after Eq. 16",
                f"“almost half of the entries” go into the lowest bin, d = {d}",
                "almost 1/2",
                f"{s.below_first_bin} of {s.frequencies_total} = {100 * share:.0f} %",
                SENSE,
                "It is more than half: the paper's point is stronger than it says.",
            ),
        ]
    return claims


def fourier_basis(d: int) -> np.ndarray:
    """The real Fourier basis of Eqs. 17-18: constant, d/2-1 cosines, as many sines, Nyquist."""
    return build("dft", length=d, d=d).table()


def size_of_error(error: float) -> str:
    """An error, or that it is one of rounding: how large those are differs between processors.

    >>> size_of_error(2.2e-16), size_of_error(3e-9)
    ('below 1e-14', '3.0e-09')
    """
    return "below 1e-14" if error < 1e-14 else f"{error:.1e}"


def equations_17_18() -> Claim:
    """Eqs. 17-18: the position function is its Fourier series."""
    basis = fourier_basis(256)
    error = np.abs(basis @ basis.T - np.eye(256)).max()
    return Claim(
        "Eqs. 17-18",
        "a position function equals its real Fourier series",
        "equality",
        f"largest error {size_of_error(error)}",
        HOLDS,
        "All 256 deltas on 256 points are rebuilt from their coefficients to rounding.",
    )


def equation_19() -> Claim:
    """Eq. 19: the sum must run over phi_1 … phi_2K."""
    basis = fourier_basis(256)
    half = basis[:, :128]  # the constant and the cosines: what a sum to phi_K holds
    error = np.linalg.norm(half @ half[40] - np.eye(256)[40])
    return Claim(
        "Eq. 19",
        "the sum over basis functions ends at φ_K",
        "φ_K",
        f"l2 error {error:.3f} with φ_K, 0 with φ_2K",
        FAILS,
        "A misprint: K cosines and K sines need φ_1 … φ_2K.",
    )


def equations_20_21() -> Claim:
    """Eqs. 20-21: the DFT encoding."""
    r = assess(build("dft", length=256))
    return Claim(
        "Eqs. 20-21",
        "the DFT encoding: coefficients of δ_s as the code of s",
        "an orthonormal code",
        f"all distances √2 = {r.min_distance:.6f}, condition number {r.condition_number:.0f}",
        HOLDS,
        "Codes have period d: positions s and s + d collide, so it serves lengths up to d.",
    )


def equation_22() -> Claim:
    """Eq. 22: the density of the DFT encoding."""
    g = density(build("dft")).density
    return Claim(
        "Eq. 22",
        "the DFT encoding has a flat distribution",
        "(1/d)(δ_0 + δ_Nyquist) + (2/d) Σ_k",
        f"{g[0]:.6f} at 0 and π, {g[1]:.6f} between",
        HOLDS,
        "Flat for each basis column; the constant and Nyquist own one column and not two. The "
        "delta sum's index is misprinted as l.",
    )


def theorem_1() -> Claim:
    """Theorem 1: the DFT encoding can be inverted."""
    r = assess(build("dft", length=256))
    return Claim(
        "Theorem 1",
        "the DFT encoding is faithful: position functions are recovered from it",
        "exact",
        f"largest error {size_of_error(r.inverse_error)}, verdict {r.verdict}",
        HOLDS,
        "The inverse is the transpose of the table.",
    )


def figure_2_width() -> Claim:
    """Fig. 2: how wide the sinusoidal encoding makes a delta."""
    enc = build("sinusoidal", length=LENGTH)
    r = position_functions(enc, [40]).reconstructions[0]
    base = 100 * r.values[40 + 15] / r.peak
    return Claim(
        "text on Fig. 2",
        "positions are lost over a range “up to about 30”",
        "about 30",
        f"{r.width:.1f} at half height, 30 at {base:.1f} % of the peak",
        SENSE,
        f"30 is the width at the base; the peak falls to {r.peak:.4f}, its half-height width is "
        f"{r.width:.1f}. (The caption writes h for ρ.)",
    )


def figure_2_exactness() -> Claim:
    """Fig. 2: the DFT encoding's reconstruction."""
    r = position_functions(build("dft", length=LENGTH), [40]).reconstructions[0]
    return Claim(
        "text on Fig. 2",
        "with the DFT encoding Algorithm 1 rebuilds deltas perfectly",
        "perfectly",
        f"l2 error {r.error:.4f}, peak {r.peak:.5f}",
        SENSE,
        "Eq. 22 gives the constant and Nyquist half the weight, so Algorithm 1 is not exact; with "
        f"equal weights, and by Theorem 1's inverse ({r.inverse_error:.0e}), it is.",
    )


def figure_2_places() -> Claim:
    """Fig. 2: peaks stand where the deltas were."""
    names = ["sinusoidal", "dft", "learned", "ramp"]
    found = [
        int(np.argmax(r.values)) == r.position
        for name in names
        for r in position_functions(build(name), POSITIONS).reconstructions
    ]
    return Claim(
        "Fig. 2",
        "rebuilt peaks stand at the right positions",
        "5, 40, 75",
        f"{sum(found)} of {len(found)} over {', '.join(names)}",
        HOLDS,
        "True of any encoding, a ramp included (the weights are nonnegative), so it tells nothing; "
        "error, width and side lobes do.",
    )


def definition_1() -> Claim:
    """Definition 1 applied to the sinusoidal encoding."""
    r = assess(build("sinusoidal", length=LENGTH))
    return Claim(
        "Definition 1",
        "the sinusoidal encoding “lacks faithfulness”",
        "not faithful",
        f"smallest distance {r.min_distance:.2f} > 0; rank {r.rank} of {LENGTH}",
        SENSE,
        "By Definition 1 (injective) it is faithful; what it lacks is a stable linear inverse: its "
        f"numerical rank at length {LENGTH} is {r.rank}.",
    )


def table_1(trainings: Sequence[Mapping[str, Any]]) -> list[Claim]:
    """Table 1: what the paper's training comparison prints, P / R / F1, and what ours finds."""
    private = Claim(
        "Table 1",
        "Elevator: DFT encoding above the original",
        ".977 / .917 / .946 → .979 / .955 / .967",
        "–",
        PRIVATE,
        "Its owners' result sheet gives an F1 difference of +.021, five repeats, paired t p = .18: "
        "not significant.",
    )
    printed = {
        "SMD": "1 / .943 / .970 → 1 / .961 / .980",
        "MSL": ".822 / .855 / .838 → .894 / .821 / .856",
    }
    return [private, *(row_of_table_1(*row, trainings) for row in printed.items())]


def row_of_table_1(dataset: str, printed: str, trainings: Sequence[Mapping[str, Any]]) -> Claim:
    """A row of Table 1 beside the comparisons on that dataset whose split does not leak."""
    own = [
        one
        for one in trainings
        if one["dataset"] == dataset.lower() and {"sinusoidal", "dft"} <= one["scores"].keys()
    ]
    sound = [one for one in own if not one["leaky"]]
    trained = [one for one in sound if not {"sinusoidal", "dft"} & set(one["cut_short"])]
    differences = [one["differences"]["dft"] for one in trained]
    able = [d for d in differences if d["p_floor"] <= LEVEL]  # fewer runs could never show any
    signs = {np.sign(d["mean"]) if is_established(d) else 0 for d in able}
    verdict = {(1,): HOLDS, (-1,): FAILS}.get(tuple(signs), UNDECIDED if sound else NOT_YET)
    reasons = [f1_difference(one) for one in sound]
    reasons += [
        f"With windows shuffled, which leaks, F1 is {mean_f1(one, 'sinusoidal')} → "
        f"{mean_f1(one, 'dft')}."
        for one in own
        if one["leaky"]
    ]
    reasons.append("The paper's windows, split and training were not published.")
    found = [f"{score_triple(one, 'sinusoidal')} → {score_triple(one, 'dft')}" for one in sound]
    return Claim(
        "Table 1",
        f"{dataset}: DFT encoding above the original",
        printed,
        "; ".join(found) or "–",
        verdict,
        " ".join(reasons),
    )


def is_established(d: Mapping[str, Any]) -> bool:
    """Whether a difference is told apart, and would be on other windows: no fold denies it.

    The interval over folds is missing where there is one fold, of which nothing carries over.
    """
    low, high = d["folds_low"], d["folds_high"]
    return d["p_holm"] < LEVEL and low is not None and (low > 0 or high < 0)


def f1_difference(one: Mapping[str, Any]) -> str:
    """By how much the DFT encoding is above the sinusoidal one, in a sentence."""
    d = one["differences"]["dft"]
    at_equal_size = "".join(
        f"; both at {name.partition('@')[2]}: {other['mean']:+.3f}"
        for name, other in one["differences"].items()
        if name.startswith("dft@") and other["reference"] != "sinusoidal"
    )
    by_auprc = "{mean:+.3f}, Holm p {p_holm:.2g}".format(**one["auprc_differences"]["dft"])
    cut_short = "; training was cut short" if {"sinusoidal", "dft"} & set(one["cut_short"]) else ""
    return (
        f"Windows of {one['length']}, {one['seeds']} seeds, {one['folds']} folds"
        f"{', settings chosen on validation' if one['chosen'] else ''}: F1 difference "
        f"{d['mean']:+.3f}, 95 % {d['low']:+.3f} … {d['high']:+.3f}, Holm p {d['p_holm']:.2g}"
        f"{at_equal_size}; by AUPRC {by_auprc}{cut_short}."
    )


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
        for verdict, words in SPOKEN.items()
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
