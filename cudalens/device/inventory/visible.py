"""CUDA_VISIBLE_DEVICES: which of a machine's GPUs a program sees, in which order, and why. No torch.

The driver's rules are those of NVIDIA's programming guide ("CUDA environment variables") and MIG user guide ("CUDA
device enumeration"); cases that these leave open follow torch.cuda's parser of the variable:

- Not set: every GPU. Set and empty: none.
- A list that begins with ``GPU-`` or ``MIG-`` holds UUIDs, or unique prefixes of them; any other list holds numbers.
- Numbers are read as by `strtoul`: leading blanks and a sign are allowed, text after the digits is ignored.
- The first entry without a GPU (negative, too large, no number, unknown or ambiguous UUID) ends the list.
- If a GPU occurs twice, every GPU is hidden.
- If a MIG instance is visible, it is the only device: CUDA enumerates one compute instance and no other GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

#: A ROCm build reads the first one that is set. ROCR_VISIBLE_DEVICES is applied earlier, by the ROCm runtime.
CUDA_VARIABLE: Final = "CUDA_VISIBLE_DEVICES"
HIP_VARIABLES: Final = ("HIP_VISIBLE_DEVICES", CUDA_VARIABLE)

_LEADING_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
_LEGACY_MIG: Final = re.compile(r"MIG-(GPU-[0-9a-fA-F-]+)/(\d+)/(\d+)")
_GPU, _MIG = "GPU-", "MIG-"


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A compute instance of a GPU in MIG mode.

    Attributes:
        uuid: ``MIG-<uuid>``.
        gpu: Physical number of its GPU.
        gpu_instance: Number of the GPU instance in the GPU.
        compute_instance: Number of the compute instance in the GPU instance.
        profile: Its size ("1g.10gb"), or "".
    """

    uuid: str
    gpu: int
    gpu_instance: int = 0
    compute_instance: int = 0
    profile: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the list, up to the entry that ends the list.

    Attributes:
        text: Its text.
        gpu: Physical number of its GPU; None if it matches none.
        mig: Its MIG instance; None if it is a whole GPU or matches nothing.
        problem: Why it matches nothing, or "".
    """

    text: str
    gpu: int | None = None
    mig: MigInstance | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Visible:
    """The GPUs that the variable makes visible.

    Attributes:
        text: The variable; None if it is not set.
        num_gpus: How many GPUs the machine has.
        gpus: Physical number of ``cuda:0``, ``cuda:1`` …
        mig: The MIG instance that is ``cuda:0``; None if whole GPUs are visible.
        entries: The entries that were read; the last one may have ended the list.
        note: The result in one sentence, without a full stop.
    """

    text: str | None
    num_gpus: int
    gpus: tuple[int, ...]
    mig: MigInstance | None
    entries: tuple[Entry, ...]
    note: str


def variable(environment: Mapping[str, str], *, is_hip: bool = False) -> tuple[str, str | None]:
    """Name and text of the variable that applies; the text is None if none is set."""
    names = HIP_VARIABLES if is_hip else (CUDA_VARIABLE,)
    return next(((name, environment[name]) for name in names if name in environment), (CUDA_VARIABLE, None))


def parse_visible(
    text: str | None, gpus: int | Sequence[str], migs: Sequence[MigInstance] = (), *, name: str = CUDA_VARIABLE
) -> Visible:
    """Return the GPUs that the variable makes visible.

    Args:
        text: The variable's text; None if it is not set.
        gpus: The machine's GPUs in order: their UUIDs (``GPU-…``), or their number if UUIDs are unknown.
        migs: The MIG compute instances, in order.
        name: The variable's name, for the note.
    """
    uuids = [""] * gpus if isinstance(gpus, int) else list(gpus)
    entries = () if text is None else tuple(_read(text, uuids, migs))
    named = [Entry("", number) for number in range(len(uuids))] if text is None else entries
    found = [entry for entry in named if entry.gpu is not None]
    is_twice = _repeated(found)
    found = [] if is_twice else found
    mig = next((one for entry in found if (one := entry.mig or _first(entry, migs))), None)
    numbers = tuple(entry.gpu for entry in found if entry.gpu is not None) if mig is None else (mig.gpu,)
    return Visible(text, len(uuids), numbers, mig, entries, name + _note(text, uuids, numbers, mig, entries, is_twice))


def _read(text: str, uuids: Sequence[str], migs: Sequence[MigInstance]) -> Iterator[Entry]:
    """Entries up to and including the first that matches nothing."""
    for part in text.split(","):
        if text.startswith(_GPU):
            entry = _gpu(part, uuids)
        elif text.startswith(_MIG):
            entry = _mig(part, uuids, migs)
        else:
            entry = _number(part, len(uuids))
        yield entry
        if entry.gpu is None:
            return


def _number(part: str, num_gpus: int) -> Entry:
    found = _LEADING_NUMBER.match(part.strip())
    if not found:
        problem = "is empty" if not part.strip() else "does not begin with a number"
        return Entry(part, problem=problem)
    number = int(found.group())
    if number < 0:
        return Entry(part, problem="is negative")
    if number >= num_gpus:
        return Entry(part, problem=f"is beyond the last GPU, {num_gpus - 1}" if num_gpus else "names no existing GPU")
    return Entry(part, number)


def _gpu(part: str, uuids: Sequence[str]) -> Entry:
    if not part.startswith(_GPU):
        return Entry(part, problem=_not_prefixed(part, _GPU))
    matches = [number for number, uuid in enumerate(uuids) if uuid.startswith(part)]
    if len(matches) == 1:
        return Entry(part, matches[0])
    return Entry(part, problem=_how_many(len(matches), "GPU", known=any(uuids)))


def _mig(part: str, uuids: Sequence[str], migs: Sequence[MigInstance]) -> Entry:
    if not part.startswith(_MIG):
        return Entry(part, problem=_not_prefixed(part, _MIG))
    matches = [one for one in migs if one.uuid.startswith(part)]
    if legacy := _LEGACY_MIG.fullmatch(part):  # drivers before R470 named an instance by its GPU and two numbers
        place = int(legacy[2]), int(legacy[3])
        matches = [m for m in migs if uuids[m.gpu] == legacy[1] and (m.gpu_instance, m.compute_instance) == place]
    if len(matches) == 1:
        return Entry(part, matches[0].gpu, matches[0])
    return Entry(part, problem=_how_many(len(matches), "MIG instance", known=bool(migs)))


def _not_prefixed(part: str, prefix: str) -> str:
    if part.strip().startswith(prefix):
        return f"has a blank before {prefix}"
    return f"does not begin with {prefix}, as the first entry does"


def _how_many(number: int, what: str, *, known: bool) -> str:
    if number:
        return f"is ambiguous: it is the beginning of {number} UUIDs"
    return f"is the beginning of no {what}'s UUID" if known else f"cannot be looked up: no {what}'s UUID is known"


def _repeated(found: Sequence[Entry]) -> Entry | None:
    """Return the first entry with the GPU or instance of an earlier one."""
    seen: set[object] = set()
    for entry in found:
        key = entry.mig.uuid if entry.mig else entry.gpu
        if key in seen:
            return entry
        seen.add(key)
    return None


def _first(entry: Entry, migs: Sequence[MigInstance]) -> MigInstance | None:
    """Return the instance that CUDA uses for an entry that is a whole GPU in MIG mode."""
    return next((one for one in migs if one.gpu == entry.gpu), None)


def _note(
    text: str | None,
    uuids: Sequence[str],
    numbers: Sequence[int],
    mig: MigInstance | None,
    entries: Sequence[Entry],
    twice: Entry | None,
) -> str:
    if twice is not None:
        return f"={text!r} names GPU {twice.gpu} twice, which hides every GPU"
    if text is not None and not text.strip():
        return f"={text!r} is empty, which hides every GPU"
    ended = [entry for entry in entries if entry.problem]
    end = f"; entry {len(entries)}, {ended[0].text.strip()!r}, {ended[0].problem}, which ends the list" if ended else ""
    head = " is not set" if text is None else f"={text!r}"
    if mig is not None:
        which = f"MIG instance {mig.profile or mig.uuid} of GPU {mig.gpu}"
        return f"{head}: cuda:0 is {which}; CUDA shows a process one instance and nothing else{end}"
    if text is None and not numbers:
        return " is not set, and no GPU was found"
    if not numbers:
        return f"{head} hides every GPU{end}"
    if text is None:
        return f"{head}: every GPU is visible"
    which = ", ".join(f"cuda:{index} is GPU {number}" for index, number in enumerate(numbers))
    return f"{head} makes {len(numbers)} of {len(uuids)} GPUs visible: {which}{end}"
