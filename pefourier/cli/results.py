"""Which encodings are asked about, what is found for each, and how a command ends."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import typer

from pefourier.cli.options import NothingAnswered, OutputOptions
from pefourier.cli.process import note
from pefourier.errors import PefourierError, UnknownPositions, shown


@dataclass(frozen=True)
class EncodingOptions:
    """Which encodings, and what holds of all of them."""

    specs: list[str] | None = None
    d: int | None = None
    length: int | None = None
    grid: tuple | None = None
    prefix: int | None = None
    rho: float | None = None
    seed: int | None = None
    times: str | None = None
    paths: bool = False
    quiet: bool = False

    @property
    def names(self) -> list[str]:
        """The SPECs; where none is given sinusoidal, and dft where no times are."""
        return list(self.specs or (["sinusoidal", "dft"] if self.times is None else ["sinusoidal"]))

    @property
    def sizes(self) -> dict[str, int | None]:
        """The length and dimension."""
        return {"length": self.length, "d": self.d}

    def defaults(self) -> dict[str, Any]:
        """Parameters of all SPECs that have them."""
        if self.names.count("-") > 1:
            raise PefourierError("standard input ('-') can be read once; name it once")
        defaults = {"rho": self.rho, "seed": self.seed}
        defaults |= {"grid": self.grid or (), "prefix": self.prefix or 0}
        if self.times is None:
            return defaults
        from pefourier.encodings.sources.tables import read_numbers
        from pefourier.encodings.specs import refuse_times

        refuse_times(self.names)
        return defaults | {"times": read_numbers(self.times)}

    def sources(self, *, split: bool = True) -> list[Any]:
        """The SPECs with what holds of all, a config with several rotations `split` into these."""
        from pefourier.encodings.specs import SpecWithDefaults, specs_of_rotations

        specs = [s for name in self.names for s in (specs_of_rotations(name) if split else [name])]
        defaults = self.defaults()
        return [SpecWithDefaults(spec, defaults) for spec in specs]

    def note_without_effect(self, encodings: Sequence[Any]) -> None:
        """Name the options that are settings of none of the encodings; times of any."""
        for name in ("d", "length", "rho", "seed", "times"):
            value = getattr(self, name)
            without = [
                e for e in encodings if value is not None and not has_setting(e, name, value)
            ]
            if without and (name == "times" or len(without) == len(encodings)):
                labels = ", ".join(e.label for e in without)
                note(f"--{name} {value} has no effect on {labels}", self.quiet)


def has_setting(enc: Any, name: str, value: Any) -> bool:
    """Whether an option's value is that of a parameter, or a size, of an encoding."""
    if name == "times":
        return enc.params.get("times") is not None
    params = [enc.params.get(key) for key in (name, "embedding" if name == "d" else name)]
    return value in [*params, {"d": enc.dim, "length": len(enc)}.get(name)]


def parse_points(texts: list[str] | None) -> list[tuple[int, ...]]:
    """Points, each of whole numbers from 0 on with commas between.

    >>> parse_points(["3,4", "10,2"])
    [(3, 4), (10, 2)]
    """
    from pefourier.writing.text import whole_number

    points = [tuple(map(whole_number, text.split(","))) for text in texts or []]
    for text, point in zip(texts or [], points, strict=True):
        if any(value is None or not 0 <= value < 2**53 for value in point):
            raise PefourierError(
                f"--pos takes whole numbers from 0 on, such as 5,40,75; got {shown(text)} (times "
                "between: --times FILE, as with sinusoidal)"
            )
    return points


@dataclass(frozen=True)
class Results:
    """What was found for each SPEC, in the order given: an answer, or why there is none."""

    per_spec: list[Any]

    @property
    def answers(self) -> list[Any]:
        """The SPECs that were answered."""
        return [result for result in self.per_spec if hasattr(result, "encoding")]

    @property
    def refusals(self) -> list[Any]:
        """The SPECs that were not."""
        return [result for result in self.per_spec if not hasattr(result, "encoding")]


def answer_each(
    sources: Sequence[Any], ask: Callable[[Any], Any], quiet: bool, skip: bool = False
) -> Results:
    """The answer for each SPEC, or its refusal, which is told; where all are refused an error.

    With `skip` configs that set no positions which could be answered for are passed over.
    """
    from pefourier.report.frame import Refusal

    results = Results([])
    for source in sources:
        try:
            results.per_spec.append(ask(source))
        except PefourierError as error:
            if skip and isinstance(error, UnknownPositions):
                note(f"skipped: {error}", quiet)
                continue
            if len(sources) == 1:
                raise  # with where it happened, for --debug
            results.per_spec.append(Refusal(getattr(source, "spec", source), str(error)))
    if not results.per_spec:
        note("all were skipped; nothing was checked", quiet)
        raise typer.Exit(0)
    if not results.answers:
        *reasons, last = dict.fromkeys(refusal.error for refusal in results.refusals)
        for reason in reasons:
            note(reason)
        raise NothingAnswered(last, results.refusals)
    for spec, error in ((shown(refusal.spec), refusal.error) for refusal in results.refusals):
        note(error if spec in error else f"{spec}: {error}")
    return results


def ask_each(options: EncodingOptions, question: Callable[..., Any], skip: bool = False) -> Results:
    """Ask a question of `pefourier.api` about each SPEC."""
    from pefourier.report.frame import answer_of

    def ask(source: Any) -> Any:
        return answer_of(question(source, **options.sizes))

    return answer_each(options.sources(), ask, options.quiet, skip)


def print_and_exit(page: Any, results: Results, output: OutputOptions, quiet: bool = False) -> None:
    """Print a page and why it says "no"; end with status 2 for a refusal, 1 for such a reason."""
    for remark in page.remarks:
        note(remark.text, quiet)
    output.print(page)
    for reason in () if quiet and output.name == "lint" else page.reasons:
        note(reason.text)
    if results.refusals or page.reasons:
        raise typer.Exit(2 if results.refusals else 1)


def hold_against(
    page: Any,
    results: Results,
    shortfalls: Callable[[Any], Sequence[str]],
    baseline: str | None,
    strict: bool,
) -> Any:
    """A page with what results lack, and what is not as in the file of a baseline.

    What is no worse and not as it was is a remark, where it is not `strict`.
    """
    from pefourier.writing.page import Reason

    reasons = [
        Reason(a.encoding.label, "unmet", words)
        for a in results.answers
        for words in shortfalls(a.result)
    ]
    remarks: list[Reason] = []
    if baseline is not None:
        from pefourier.report.baseline import judge, read_baseline

        worse, remarks = judge(read_baseline(baseline, page.command), results.per_spec)
        reasons += worse
    if strict:
        reasons, remarks = reasons + remarks, []
    return replace(page, reasons=reasons, remarks=remarks)
