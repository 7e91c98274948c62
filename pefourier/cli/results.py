"""Results: a question asked of each SPEC, what answers are held against, and how a command ends."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import typer

from pefourier.cli.options import EncodingOptions, NothingAnswered, OutputOptions
from pefourier.cli.process import note
from pefourier.errors import PefourierError, UnknownPositions, shown


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
    from pefourier.answers.telling import Refusal

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
        raise NothingAnswered(results.refusals, last)
    for spec, error in ((shown(refusal.spec), refusal.error) for refusal in results.refusals):
        note(error if spec in error else f"{spec}: {error}")
    return results


def ask_each(options: EncodingOptions, question: Callable[..., Any], skip: bool = False) -> Results:
    """Ask a question of `pefourier.questions` about each SPEC."""
    from pefourier.answers.telling import answer_of

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
    baseline: Mapping[str, Any] | None,
    strict: bool,
) -> Any:
    """A page with what results lack, and what is not as in a baseline.

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
        from pefourier.answers.baseline import judge

        worse, remarks = judge(baseline, results.per_spec)
        reasons += worse
    if strict:
        reasons, remarks = reasons + remarks, []
    return replace(page, reasons=reasons, remarks=remarks)


def stored_answers(path: str | None, command_name: str) -> Mapping[str, Any] | None:
    """The answers of a baseline, where one is given."""
    if path is None:
        return None
    from pefourier.answers.baseline import read_baseline

    return read_baseline(path, command_name)
