"""Hunt for faults with new seeds until the time is over; write each found program into a folder.

Each subject has a process of its own, which is started again if a program ends it.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import re
import secrets
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support"), str(HERE.parent / "gpu")]

from hunting import FaultyProgram, Subject, load_subjects, search  # noqa: E402

#: Faults of one subject after which its hunt ends.
MOST_FAULTS = 20


def hunt(subject: Subject, minutes: float, seed: int | None, folder: Path) -> None:
    """Search a subject until the time is over, or with one seed only; what it counted goes into `NAME-PID.json`."""
    known: set[str] = set()
    seeds: list[int] = []
    running = folder / f"{subject.name}-running.txt"
    counts = folder / f"{subject.name}-{os.getpid()}.json"
    deadline = time.monotonic() + 60 * minutes

    def write_counts() -> None:
        counts.write_text(json.dumps({"seeds": seeds, "counts": subject.counts, "kinds": sorted(known)}))

    with (folder / f"{subject.name}-stacks.txt").open("w") as stacks:

        def before(program: object) -> None:
            text = subject.source(program)
            running.write_text(f"# Found by `make hunt SUBJECT={subject.name} SEED={seeds[-1]}`\n\n{text}\n")
            write_counts()
            faulthandler.dump_traceback_later(subject.limit_s, exit=True, file=stacks)

        seeds.append(secrets.randbits(32) if seed is None else seed)
        while time.monotonic() < deadline and len(known) < MOST_FAULTS:
            faulty = search(subject, seeds[-1], subject.num_round, known=known, deadline=deadline, before=before)
            if faulty:
                known.add(faulty.fault.kind)
                write_program(faulty, folder)
            elif seed is not None:
                break
            if seed is None:
                seeds.append(secrets.randbits(32))
        faulthandler.cancel_dump_traceback_later()

    write_counts()
    running.unlink(missing_ok=True)


def write_program(faulty: FaultyProgram, folder: Path) -> None:
    """Write a found program and print where."""
    words = re.sub(r"\W+", "-", faulty.fault.kind).strip("-")[:60]
    path = folder / f"{faulty.subject.name}-{faulty.seed}-{words}.py"
    path.write_text(faulty.text())
    print(f"{faulty.subject.name}: {faulty.fault.kind}\n    {path}", flush=True)


def hunt_in_process(subject: Subject, minutes: float, seed: int | None, folder: Path) -> None:
    """Hunt in a process of its own; a program that ends the process, or that does not end, is a fault."""
    deadline = time.monotonic() + 60 * minutes
    for _ in range(MOST_FAULTS):
        left = max(0.0, deadline - time.monotonic()) / 60
        command = [sys.executable, __file__, "--in-process", "--subject", subject.name, "--out", str(folder)]
        command += ["--minutes", str(left)] + ([] if seed is None else ["--seed", str(seed)])
        code = subprocess.run(command, check=False).returncode
        running = folder / f"{subject.name}-running.txt"
        if code and not running.exists():
            raise SystemExit(f"{subject.name}: the hunt itself failed with code {code}")
        if code:
            keep_ended_program(subject, code, running)
        if not code or seed is not None or time.monotonic() > deadline:
            break


def keep_ended_program(subject: Subject, code: int, running: Path) -> None:
    """Keep the program that ended its process, with the stacks if it was ended because of its time."""
    stacks = running.with_name(f"{subject.name}-stacks.txt").read_text().splitlines()
    reason = f"takes longer than {subject.limit_s:g} s" if stacks else f"ends the process with code {code}"
    notes = [f"Fault: {reason}", *(line for line in stacks if "hypothesis" not in line)]
    path = running.rename(running.with_name(f"{subject.name}-ended-{secrets.token_hex(4)}.py"))
    path.write_text(path.read_text() + "".join(f"\n# {line}" for line in notes) + "\n")
    print(f"{subject.name}: {reason}\n    {path}", flush=True)


def print_counts(subject: Subject, folder: Path) -> int:
    """Print what the processes of a subject counted; returns the number of kinds of faults."""
    counts: Counter[str] = Counter()
    seeds, kinds = 0, set()
    for path in folder.glob(f"{subject.name}-*.json"):
        report = json.loads(path.read_text())
        counts.update(report["counts"])
        seeds += len(report["seeds"])
        kinds.update(report["kinds"])
    ended = len(list(folder.glob(f"{subject.name}-ended-*.py")))
    details = ", ".join(f"{number:,} {name}" for name, number in counts.items())
    print(f"{subject.name}: {len(kinds) + ended} faults; {details or 'no programs'}; {seeds} seeds")
    return len(kinds) + ended


def main() -> int:
    """Parse the command line and hunt; 1 if there are faults."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--subject", action="append", default=[])
    parser.add_argument("--seed", type=int)
    parser.add_argument("--out", type=Path, default=Path("out/hunt"))
    parser.add_argument("--in-process", action="store_true", help="hunt in this process")
    options = parser.parse_args()
    try:
        chosen = load_subjects(options.subject)
    except LookupError as error:
        parser.error(str(error))
    if options.in_process:
        hunt(chosen[0], options.minutes, options.seed, options.out)
        return 0
    folder = options.out / time.strftime("%Y%m%d-%H%M%S")
    folder.mkdir(parents=True)
    workers = min(len(chosen), os.cpu_count() or 1)
    minutes = options.minutes * workers / len(chosen)
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(lambda subject: hunt_in_process(subject, minutes, options.seed, folder), chosen))
    return int(sum(print_counts(subject, folder) for subject in chosen) > 0)


if __name__ == "__main__":
    sys.exit(main())
