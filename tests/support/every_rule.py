"""Findings for all rules that have fixes, so that programs too small for some rules have every fix tried."""

from __future__ import annotations

from collections.abc import Sequence

from cudalens.analysis import Finding
from cudalens.fixes.rewrites import REWRITES, fusion


def with_every_rule(found: Sequence[Finding]) -> list[Finding]:
    """Return findings, then one for each rule without a finding whose rewrites the others do not have.

    Rules with few rewrites come first: of a rule with many, a try runs only some.
    """
    chosen = list(found)
    covered = {rewrite for finding in found for rewrite in REWRITES.get(finding.rule, ())}
    for rule, rewrites in sorted(REWRITES.items(), key=lambda item: len(item[1])):
        if not covered.issuperset(rewrites):
            chosen.append(Finding(rule, rule, "", None, None, (), None, "", "high"))
            covered.update(rewrites)
    return chosen


def leave_out_compiling() -> None:
    """Remove the fixes with torch.compile from this process.

    They take most of the time of a try, and the host time of a compiled call is not modelled.
    """
    for rule, rewrites in REWRITES.items():
        REWRITES[rule] = tuple(one for one in rewrites if one is not fusion.compile_functions)
