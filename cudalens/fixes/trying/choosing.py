"""Try the fixes for one finding, or for all findings one after the other, and keep what helps."""

from __future__ import annotations

from collections.abc import Callable, Collection, MutableMapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Final

from cudalens.analysis import Finding
from cudalens.errors import FixError
from cudalens.fixes.honest.checks import MIN_CHANGE
from cudalens.fixes.names import find_effects
from cudalens.fixes.rewrites import fixes_for
from cudalens.fixes.rewrites.fix import Fix, Program, program_of
from cudalens.fixes.source import without_observers
from cudalens.fixes.trying.attempt import Attempt, refused
from cudalens.fixes.trying.running import Trial

#: Fixes for one finding that are run at most.
MOST_FIXES: Final = 4

#: Effects that are discarded, so that a cell with them runs again without consent.
_DISCARDED: Final = "prints"


@dataclass(frozen=True)
class Tries:
    """What a try of all findings gave.

    Attributes:
        attempts: One for each finding, in the order in which they were tried; one more for each further fix of a
            finding that was kept.
        kept: Which of them were kept.
        together: All kept fixes against the cell as it is; None if none was kept.
        repeats: How often the cell was said to run.
    """

    attempts: tuple[Attempt, ...]
    kept: tuple[bool, ...]
    together: Attempt | None
    repeats: int = 1

    def headline(self) -> str:
        """Return the answer in one line."""
        if self.together is None:
            return f"no fix helps: {len(self.attempts)} findings tried"
        return f"{sum(self.kept)} of {len(self.attempts)} kept: {self.together.headline()}"

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Return for each attempt: the rule, what the fix does, what it gave alone, and whether it was kept."""
        found = []
        for attempt, is_kept in zip(self.attempts, self.kept, strict=True):
            gain, alone = attempt.gain_pct, "-"
            if gain is not None:
                direction = "less" if gain >= 0 else "more"
                alone = f"{abs(gain):.0f} % {direction}"
            found.append((attempt.rule, attempt.title or "-", alone, "kept" if is_kept else self._why_not(attempt)))
        if self.together is not None and self.together.gain_pct is not None:
            found.append(("together", "", f"{self.together.gain_pct:.0f} % less", ""))
        return found

    def _why_not(self, attempt: Attempt) -> str:
        if attempt.helps and not attempt.pays_off(self.repeats):
            return f"not taken: {_lower(attempt.setup_cost())}; repeats= (--repeats) says how often the cell will run"
        return why_not(attempt)

    def notes(self) -> list[str]:
        """Return what the first lines of the fixed cell cost, if it has any."""
        if self.together is None or self.together.setup_ns is None:
            return []
        return [f"{self.together.setup_cost()}."]

    def __str__(self) -> str:
        """The answer, the table, and one diff."""
        rows = [("finding", "fix", "alone", ""), *self.rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        table = "\n".join("  ".join(f"{row[n]:{widths[n]}}" for n in range(3)) + f"  {row[3]}" for row in rows)
        diff = f"\n\n{self.together.diff}" if self.together is not None else ""
        return "\n".join([self.headline(), *self.notes()]) + f"\n\n{table}{diff}"

    def __repr__(self) -> str:
        """The text, so that a notebook shows it."""
        return str(self)

    def _repr_html_(self) -> str:
        """The answer in bold, the table, and one diff."""
        style = "text-align:left;vertical-align:top;padding:.1em .8em .1em 0;font-size:inherit"
        body = "".join(
            "<tr>" + "".join(f"<td style='{style}'>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self.rows()
        )
        head = "".join(f"<th style='{style}'>{name}</th>" for name in ("finding", "fix", "alone", ""))
        rest = "".join(f"<div>{escape(note)}</div>" for note in self.notes())
        rest += self.together.diff_html() if self.together is not None else ""
        return (
            f"<div class='cudalens-try' style='overflow-wrap:anywhere'><div><b>{escape(self.headline())}</b></div>"
            f"<table style='border:0'><tr>{head}</tr>{body}</table>{rest}</div>"
        )


def why_not(attempt: Attempt) -> str:
    """Return why an attempt is not kept."""
    if attempt.refusal:
        return attempt.headline()
    if attempt.changes_behaviour:
        return f"not taken: {attempt.changes_behaviour}"
    if not attempt.is_faster:
        return "not faster" if (attempt.gain_pct or 0.0) < 100 * MIN_CHANGE else "not faster in all runs"
    if not attempt.difference.is_known:
        return f"not taken: {attempt.difference}"
    return "not taken: results differ by more than rounding; a tolerance allows it"


class Trying:
    """The cell whose findings are tried.

    Attributes:
        effects: Effects of each run outside of the program's objects, in words.
        needs_consent: Whether the cell only runs again with consent to these effects.

    Args:
        name: Name of the cell.
        code: Its text.
        namespace: The variables.
        runs: Runs of each version; None for the default.
        tolerance: By how much results may differ, relative to the root mean square of a tensor.
        consent: Run the cell again although it has effects outside of its objects.
        quiet: Makes the block in which nothing that a run prints or shows is visible.
        progress: Called with a text before each run.
        repeats: How often the cell will run: costs that come once are weighed against the gain of so many runs.
        first_line: The line of the cell on which its text begins.
    """

    def __init__(
        self,
        name: str,
        code: str,
        namespace: MutableMapping[str, Any],
        *,
        runs: int | None = None,
        tolerance: float | None = None,
        consent: bool = False,
        quiet: Any = None,
        progress: Callable[[str], object] | None = None,
        repeats: int = 1,
        first_line: int = 1,
    ) -> None:
        text, num_above = without_observers(code)
        self.program = program_of(name, text.rstrip("\n"), namespace, first_line=first_line + num_above)
        self._namespace, self._runs, self._tolerance, self._quiet = namespace, runs, tolerance, quiet
        self._progress, self._repeats = progress, repeats
        #: Which finding `all` tries, before each text of the progress.
        self._position = ""
        self.effects = self._describe_effects()
        is_free = all(what == _DISCARDED for what in self._kinds)
        self.needs_consent = not consent and not is_free
        self._refusal = f"{'; '.join(self.effects)}. Pass consent to run it again." if self.needs_consent else ""
        self._trial: Trial | None = None

    def _report(self, text: str) -> None:
        if self._progress is not None:
            self._progress(f"{self._position}{text}")

    def _describe_effects(self) -> tuple[str, ...]:
        found, self._kinds = [], set[str]()
        if self.program.cell.source.foreign_lines:
            line = min(self.program.cell.source.foreign_lines) + self.program.cell.source.first_line - 1
            raise FixError(
                f"{self.program.cell.source.name} has a magic or a shell command (line {line}), which does not run "
                "again. Put it into a cell of its own."
            )
        for unit in self.program.units:
            for line, what, call in find_effects(unit.source.tree.body):
                self._kinds.add(what)
                where = f"line {line + unit.source.first_line - 1} of {unit.source.name}"
                found.append(f"Each run {what}: {call} ({where})")
        return tuple(dict.fromkeys(found))

    def fixes(self, program: Program, finding: Finding) -> list[Fix]:
        """Return the fixes for a finding that are run."""
        return fixes_for(program, finding.rule, finding)[:MOST_FIXES]

    def attempt(self, finding: Finding) -> Attempt:
        """Try the fixes for a finding; returns the best one."""
        return max((found for found, _ in self._attempts(self.program, finding)), key=_preference)

    def _attempts(
        self, program: Program, finding: Finding, titles: Collection[str] | None = None
    ) -> list[tuple[Attempt, Fix | None]]:
        """Try the fixes for a finding, or those with one of `titles`; returns one refusal where none can be tried."""
        fixes = [one for one in self.fixes(program, finding) if titles is None or one.title in titles]
        if not fixes:
            name = program.cell.source.name
            why = f"no fix for {finding.title} is written for the code of {name}."
            return [(refused(finding.rule, "", why), None)]
        if self._refusal:
            diff = program.with_fix(fixes[0]).diff(program)
            why = f"the cell would run again, and {_lower(self._refusal)}"
            return [(refused(finding.rule, fixes[0].title, why, diff=diff, effects=self.effects), None)]
        if self._trial is None:
            try:
                self._trial = Trial(self.program, self._namespace, quiet=self._quiet, progress=self._report)
            except FixError as error:
                diff = program.with_fix(fixes[0]).diff(program)
                return [(refused(finding.rule, fixes[0].title, str(error), diff=diff), None)]
        tried: list[tuple[Attempt, Fix | None]] = []
        for fix in fixes:
            found = self._trial.attempt(program, fix, self._runs, self._tolerance)
            found = replace(found, rule=finding.rule, predicted_pct=finding.alone_pct, effects=self.effects)
            tried.append((found, fix))
        return tried

    def _keeps(self, found: Attempt) -> bool:
        """Whether `all` keeps a fix."""
        return is_taken(found, self._tolerance) and found.pays_off(self._repeats)

    def _best(self, tried: list[tuple[Attempt, Fix | None]]) -> tuple[Attempt, Fix | None]:
        """The best of the fixes that are kept: a larger gain that does not pay off helps less."""
        return max(tried, key=lambda pair: (self._keeps(pair[0]), *_preference(pair[0])))

    def all(self, findings: Sequence[Finding]) -> Tries:
        """Try the findings one after the other, and keep what helps."""
        program, attempts, kept = self.program, [], []
        dropped: frozenset[str] = frozenset()
        for number, finding in enumerate(findings, 1):
            self._position = f"Finding {number} of {len(findings)}. "
            tried = self._attempts(program, finding)
            helpful = {fix.title for found, fix in tried if fix is not None and self._keeps(found)}
            found, fix = self._best(tried)
            attempts.append(found)
            kept.append(self._keeps(found))
            while fix is not None and self._keeps(found):
                program, dropped = program.with_fix(fix), dropped | fix.dropped
                helpful.discard(fix.title)
                if not helpful:
                    break
                found, fix = self._best(self._attempts(program, finding, helpful))  # the next one may help as well
                if self._keeps(found):
                    attempts.append(found)
                    kept.append(True)
        together, self._position = None, ""
        if any(kept) and self._trial is not None:
            claim = Attempt("all", "all kept fixes", changes_numbers=True, effects=self.effects)
            together = self._trial.compare(self.program, program, claim, dropped, self._runs, self._tolerance)
        return Tries(tuple(attempts), tuple(kept), together, self._repeats)


def is_taken(attempt: Attempt, tolerance: float | None) -> bool:
    """Return whether `Trying.all` keeps a fix: it helps, and results differ by no more than rounding or `tolerance`."""
    is_close = not attempt.difference.is_known or attempt.difference.is_exact or attempt.difference.is_within(tolerance)
    if not attempt.difference.is_known and attempt.changes_numbers:
        is_close = False
    return attempt.helps and is_close


def _preference(attempt: Attempt) -> tuple[bool, bool, float]:
    """The best of several attempts: valid, without another behaviour, the largest gain."""
    gain = attempt.gain_pct
    is_valid = not attempt.refusal
    return is_valid, attempt.is_faster and not attempt.changes_behaviour, gain if gain is not None else -1e9


def _lower(text: str) -> str:
    """A sentence within another one."""
    return f"{text[:1].lower()}{text[1:]}"
