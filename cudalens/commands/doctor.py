"""``cudalens doctor``: what works on this machine, what does not, and why."""

from __future__ import annotations

import argparse
import json
import os
from typing import TYPE_CHECKING, Any

import cudalens
from cudalens.commands import arguments

if TYPE_CHECKING:
    from cudalens.commands.arguments import Verbs
    from cudalens.device import Check
    from cudalens.device.inventory.devices import Devices


def add(verbs: Verbs) -> None:
    """Add the verb's parser."""
    parser = verbs.add_parser("doctor", help="show what works on this machine, what does not, and why")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the versions, the devices and what works here."""
    from cudalens import device

    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # else torch's profiler prints a line on stderr
    devices = cudalens.devices()
    facts = {
        "cudalens": cudalens.__version__,
        "versions": device.versions(),
        "checks": (*device.run_checks(), _reader_check(), _gzip_check(), *_comparison_checks()),
    }
    if options.json:
        print(_as_json(facts, devices))
    else:
        arguments.show(_as_text(facts, devices))


def _reader_check() -> Check:
    from cudalens.device import Check
    from cudalens.traces.chrome.scanned import SWITCH, is_scanner_built, is_scanner_in_use

    if is_scanner_in_use():
        detail = "the compiled scanner reads Chrome traces"
    elif is_scanner_built():
        detail = f"{SWITCH}=0 switches it off; Python code reads Chrome traces, with the same result"
    else:
        detail = "it was not compiled; Python code reads Chrome traces, with the same result"
    return Check("compiled scanner", is_scanner_in_use(), detail)


def _gzip_check() -> Check:
    from cudalens.device import Check
    from cudalens.traces.source import IS_ZLIB_NG

    detail = (
        "it decompresses gzip files"
        if IS_ZLIB_NG
        else (
            "it is not installed; Python's zlib decompresses gzip files, in more than twice the time: "
            'pip install "cudalens[gzip]"'
        )
    )
    return Check("zlib-ng", IS_ZLIB_NG, detail)


def _comparison_checks() -> tuple[Check, ...]:
    from cudalens.device import Check

    try:
        from cudalens.graphs.guards.comparing import SWITCH, is_comparing_built, is_comparing_in_use
    except Exception:  # a broken torch raises anything
        return ()
    if is_comparing_in_use():
        detail = "compiled code compares what graphed functions read"
    elif is_comparing_built():
        detail = f"{SWITCH}=0 switches it off; Python code compares what graphed functions read, with the same result"
    else:
        detail = "it was not compiled; Python code compares what graphed functions read, more slowly"
    return (Check("compiled guards", is_comparing_in_use(), detail),)


def _as_json(facts: dict[str, Any], devices: Devices) -> str:
    import msgspec

    known = devices.to_dict()
    parts = {"torch_build": known.pop("runtime"), "devices": known.pop("devices"), **known}
    return json.dumps(msgspec.to_builtins({**facts, **parts}), indent=2)


def _as_text(facts: dict[str, Any], devices: Devices) -> str:
    lines = [f"cudalens {facts['cudalens']}", "", "Versions"]
    lines += [f"  {name:<12} {version}" for name, version in facts["versions"].items()]
    lines += ["", "Devices", *(f"  {line}".rstrip() for line in str(devices).splitlines())]
    lines += ["", "What works here"]
    for check in facts["checks"]:
        lines += _check_lines(check.name, check.works, check.detail)
    return "\n".join(lines)


def _check_lines(name: str, works: bool, detail: str) -> list[str]:
    import textwrap

    head = f"  {'yes' if works else 'NO':<4} {name:<30}"
    return textwrap.wrap(detail, 112, initial_indent=head, subsequent_indent=" " * len(head)) or [head]
