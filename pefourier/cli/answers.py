"""Ask a question about each SPEC, print the answers, and set the exit status."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pefourier.cli.options import AnswerOptions, EncodingOptions, FigureOptions, File, OutputOptions
from pefourier.cli.process import note
from pefourier.errors import PefourierError, UnknownPositions, shown
from pefourier.types import Strings, Values

if TYPE_CHECKING:
    from pefourier.questions.result import Result
    from pefourier.writing.page import Page


@dataclass(eq=False, repr=False)
class Results:
    """Answer or refusal for each SPEC, in the given order."""

    per_spec: list[Any]

    @property
    def answers(self) -> list[Any]:
        """Answers to the SPECs that were answered."""
        return [result for result in self.per_spec if hasattr(result, "encoding")]

    @property
    def refusals(self) -> list[Any]:
        """Refusals of the SPECs that were not answered."""
        return [result for result in self.per_spec if hasattr(result, "error")]


def answer_each(
    sources: Sequence[Any], ask: Callable[[Any], Any], *, quiet: bool, skip: bool = False
) -> Results:
    """Answer each SPEC, or note its refusal; raise if all are refused.

    With `skip`, configs without a known positional encoding are skipped.
    """
    from pefourier.report.render import Refusal

    results = Results([])
    for source in sources:
        try:
            results.per_spec.append(ask(source))
        except PefourierError as error:
            if skip and isinstance(error, UnknownPositions):
                note(f"skipped: {error}", quiet=quiet)
                continue
            if len(sources) == 1:
                raise  # keep the traceback for --debug
            results.per_spec.append(Refusal(getattr(source, "spec", source), str(error)))
    if not results.per_spec:
        note("all were skipped; nothing was checked", quiet=quiet)
        raise typer.Exit(0)
    if not results.answers:
        *reasons, last = dict.fromkeys(refusal.error for refusal in results.refusals)
        for reason in reasons:
            note(reason)
        raise PefourierError(last, results.refusals)
    for refusal in results.refusals:
        spec = shown(refusal.spec)
        note(refusal.error if spec in refusal.error else f"{spec}: {refusal.error}")
    return results


@dataclass(eq=False, repr=False)
class Requirements:
    """Checks that apply to the answer to any question."""

    strict: Annotated[
        bool,
        "Exit with status 1 on any error or warning; with --baseline, also on any change from the "
        "baseline.",
    ] = False
    skip_unknown: Annotated[
        bool,
        "Skip, with a note, any config.json that is not a model's, or that does not define a "
        "positional encoding.",
    ] = False
    baseline: Annotated[
        File,
        "Earlier answer, written with --json. Exit with status 1 if a verdict, a distance or a "
        "finding is worse than in that answer.",
    ] = None

    def check(self, page: Page, results: Results, **limits: str | None) -> Page:
        """Return a page with unmet requirements and changes from a baseline.

        Changes that are not worse are remarks, unless `strict`.
        """
        from pefourier.writing.page import Reason

        reasons: list[Reason] = []
        remarks: list[Reason] = []
        if self.strict or any(limits.values()):
            from pefourier.questions.check_faithful import shortfalls

            reasons += [
                Reason(a.encoding.label, "unmet", words)
                for a in results.answers
                for words in shortfalls(a.result, strict=self.strict, **limits)
            ]
        if self.baseline is not None:
            from pefourier.report.baseline import judge, read_baseline

            worse, remarks = judge(read_baseline(self.baseline, page.command), results.per_spec)
            reasons += worse
        if self.strict:
            reasons, remarks = reasons + remarks, []
        return replace(page, reasons=reasons, remarks=remarks)


def answer_specs(
    kind: type[Result],
    question: Callable[..., Any],
    options: EncodingOptions,
    output: AnswerOptions,
    figure: FigureOptions,
    *,
    check: Callable[[Page, Results], Page] = lambda page, _: page,
    skip: bool = False,
    **drawing: Any,
) -> None:
    """Ask a question of `pefourier.api` about each SPEC; draw, check and print the answers.

    Notes name options that have no effect on any of the encodings.
    """
    from pefourier.report.render import answer_of, page_of

    def ask(source: Any) -> Any:
        return answer_of(question(source, **options.sizes))

    results = answer_each(options.sources(), ask, quiet=output.quiet, skip=skip)
    page = check(page_of(kind, results.per_spec, **drawing), results)
    figure.draw(partial(kind.draw, **drawing), results.answers, results.refusals)
    if not results.refusals:
        options.note_without_effect([a.encoding for a in results.answers], quiet=output.quiet)
    print_and_exit(page, results, output)


def print_result(result: Any, output: OutputOptions, figure: FigureOptions) -> None:
    """Draw and print one result, or the results of each axis of a grid."""
    from pefourier.report.render import answer_of, page_of

    answers = list(map(answer_of, result if isinstance(result, tuple) else (result,)))
    kind = type(answers[0].result)
    figure.draw(kind.draw, answers)
    output.print(page_of(kind, answers))


def print_and_exit(page: Page, results: Results, output: OutputOptions) -> None:
    """Print a page and its reasons; exit with status 2 for a refusal, 1 for another reason."""
    for remark in page.remarks:
        note(remark.text, quiet=output.quiet)
    output.print(page)
    for reason in () if output.quiet and output.name == "lint" else page.reasons:
        note(reason.text)
    if results.refusals or page.reasons:
        raise typer.Exit(2 if results.refusals else 1)


def annotate_refusals(command: str, values: Values, error: PefourierError) -> None:
    """Print annotations for other programs if nothing could be answered."""
    from pefourier.writing.page import Page

    spec = "".join(values.get("specs") or ())
    refusals = error.refusals or [{"spec": spec, "error": str(error)}]
    OutputOptions(form=values["form"]).print(Page(command, str, lambda: refusals))


def check_count_of_specs(options: EncodingOptions, required: int, rule: str) -> None:
    """Raise if the number of SPECs is not what the command expects."""
    specs = options.specs or []
    if len(specs) != required:
        raise PefourierError(f"{rule}; got {len(specs)}: {' '.join(map(shown, specs)) or 'none'}")


def write_text(path: str, text: str) -> None:
    """Write a text to a file atomically."""
    from pefourier.writing.files import write_whole

    write_whole(path, lambda stream: stream.write(text.encode()))


def spare_threads(specs: Strings = ()) -> None:
    """Limit BLAS to one thread where more threads would wait, if numpy is not loaded yet.

    Matrix products are long and thin in reconstruct and design, and in check-faithful if all SPECs
    have declared frequencies, because two parts are then decomposed at the same time.
    """
    from pefourier.report.catalogue import read_catalogue

    records = read_catalogue() if specs else ()
    declared = {record["encoding"] for record in records if record["measure"] == "declared"}
    if all(spec.partition(":")[0] in declared for spec in specs):
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
