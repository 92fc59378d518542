"""The ``cudalens`` command: the public verbs from a shell, as `cudalens.commands` defines them.

Exit codes: 0 success; 1 something does not hold: an assertion, ``--fail-if``, for ``check`` a partial trace; 2 wrong
usage; 3 a file cannot be read or written, or another error. Messages are on standard error.
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

import cudalens
from cudalens.commands import VERBS
from cudalens.errors import AssertionFailed, AssertionSyntaxError, CudalensError
from cudalens.views.sections.clean_text import clean_lines

_FAILED, _USAGE, _ERROR, _INTERRUPTED = 1, 2, 3, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command of `argv` (without the program's name; default: the arguments of the process).

    Returns:
        The exit code.
    """
    # Let a terminal of ASCII or Latin-1 show "?" for what it cannot show, and write nothing to closed streams.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 - None where a shell closed it with >&-
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")
    arguments = _parse(list(sys.argv[1:] if argv is None else argv))
    try:
        code = arguments.run(arguments) or 0
        sys.stdout.flush()
        return code
    except AssertionFailed as error:
        return _refuse(str(error), _FAILED, keeps_lines=True)
    except AssertionSyntaxError as error:
        return _refuse(str(error), _USAGE, keeps_lines=True)
    except CudalensError as error:
        return _refuse(str(error), _ERROR)
    except BrokenPipeError:  # `cudalens summary … | head` closed the pipe
        sys.stderr.close()
        return 0
    except OSError as error:
        if error.filename is not None:
            return _refuse(f"{error.filename}: {error.strerror}.", _ERROR)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python's exit writes the rest again
        is_full = error.errno == errno.ENOSPC
        return _refuse(f"cannot write the output: {'no space is left on its device' if is_full else error}.", _ERROR)
    except KeyboardInterrupt:
        print("cudalens: interrupted", file=sys.stderr)
        return _INTERRUPTED


def _parse(argv: list[str]) -> argparse.Namespace:
    """Return the arguments. argparse accepts those of a script after ``--`` only directly after the script."""
    parser = _parser()
    if argv[:1] != ["job"] or "--" not in argv:
        return parser.parse_args(argv)
    at = argv.index("--")
    arguments = parser.parse_args(argv[:at])
    arguments.arguments += argv[at + 1 :]
    return arguments


def _refuse(message: str, code: int, *, keeps_lines: bool = False) -> int:
    text = message if keeps_lines else " ".join(message.split())
    if not text.replace("\n", "").isprintable():  # a name from a file
        text = clean_lines(text)
    with suppress(OSError):  # standard error may be full, and the exit code still counts
        print(f"cudalens: {text}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("cudalens", description="See what your GPU did, from recorded traces.")
    parser.add_argument("--version", action="version", version=f"cudalens {cudalens.__version__}")
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")
    for add_verb in VERBS:
        add_verb(verbs)
    return parser


if __name__ == "__main__":
    sys.exit(main())
