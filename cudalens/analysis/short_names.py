"""Short names of kernels and Python functions: what differs comes first, what all of them share is left out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from cudalens.analysis.cached import once_per_trace
from cudalens.frames.column_arrays import is_category

if TYPE_CHECKING:
    from cudalens.frames import Trace

#: Longest name that is read; longer ones are cut first.
_MAX_NAME: Final = 4000
#: Names up to here keep a beginning that they share with others.
_MAX_PLAIN: Final = 36
_MAX_DIFFERENCE: Final = 28
_PYTHON: Final = re.compile(r"^(?:.*[/\\])?([^/\\]+\.py|In\[\d+\])\((\d+)\): (.+)$", re.DOTALL)
_RETURNS: Final = re.compile(r"^(?:void |(?:std::)?enable_if<.*?>::type )")
_PARAMETERS: Final = re.compile(r"\([^()]*\)")
_NAMESPACE: Final = re.compile(r"(?:\b\w+|\(anonymous namespace\))::")
_WORD: Final = re.compile(r"[A-Za-z_]\w*")
_PART: Final = re.compile(r"\w+")
_HEAD: Final = re.compile(r"_*[^_ <:]*(?:_[^_ <:]*)?")
#: Words of template arguments that many kernels have in common.
_GENERIC: Final = re.compile(
    r"^(?:gpu_kernel_impl(?:_nocast)?|gpu_kernel|[AB]?UnaryFunctor|BinaryFunctor|ReduceOp|func_wrapper_t|lambda|operator"
    r"|const|volatile|unsigned|signed|int\d*(?:_t)?|uint\d*(?:_t)?|long|short|char|float|double|half|bool|void|array"
    r"|BFloat16|Half|bfloat16_t|half_t|complex|OpaqueType|Array|KernelParams|__\w+|Float8\w*|TensorIterator(?:Base)?|Trivial\w+|\w*OffsetCalculator"
    r"|Load\w+|Store\w+|true|false|std|at|native|c10|ul|u|auto|struct|class)$"
)
_ENDINGS: Final = re.compile(r"(?:_kernel)?(?:_impl|_cuda|_kernel)+$")


@once_per_trace
def names_in_short(trace: Trace) -> dict[str, str]:
    """Return the short name of each kernel and Python function of `trace` that has one, by its name."""
    events = trace.events
    chosen = is_category(events["cat"].array, ("kernel", "python_function"))
    return short_names(str(name) for name in events["name"].array[chosen].unique())


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Return the short names of `names`, by name; a name that stays as it is is left out.

    A C++ name becomes what it computes and its kernel, ``MulFunctor · vectorized_elementwise``: namespaces, parameters
    and template arguments that many kernels have are left out. A Python frame becomes its function and its file or
    cell, that of a whole cell the cell. Names that would be equal also have what differs between them, ``MulFunctor
    [128, 4] · elementwise``.

    Args:
        names: The names that are shown together.

    Returns:
        The short names. No two of them are equal, and none equals another name.
    """
    known = list(dict.fromkeys(names))
    brief = {name: _brief(name) for name in known}
    if not brief:
        return {}
    brief |= _told_apart(brief)
    brief = _without_shared(brief)
    taken = Counter([*brief.values(), *(name for name in known if brief[name] != name)])
    return {name: text for name, text in brief.items() if text != name and taken[text] == 1}


def _brief(name: str) -> str:
    if found := _PYTHON.match(name[:_MAX_NAME]):
        file, line, function = found.groups()
        is_cell = file.startswith("In[") and function == "<module>"
        return file if is_cell else f"{function} · {file}:{line}"
    if name.startswith(("<", "nn.Module: ")):
        return name
    text = _RETURNS.sub("", name[:_MAX_NAME])
    if "<" not in text and "::" not in text and "(" not in text:
        return name
    base, arguments = _parts(text)
    kernel = _ENDINGS.sub("", base) or base
    telling = next(_telling(arguments, base), "")
    return f"{_ENDINGS.sub('', telling) or telling} · {kernel}" if telling else kernel or name


def _parts(text: str) -> tuple[str, str]:
    """The unqualified name of a function and its template arguments, ``f`` and ``A, B`` of ``n::f<A, B>(int)``."""
    plain = text.replace("(anonymous namespace)::", "")
    head = re.split(r"[<(]", plain, maxsplit=1)[0]
    rest = plain[len(head) :]
    base = head.rpartition("::")[2].rpartition(" ")[2]
    return base, rest[1 : _end_of(rest)] if rest.startswith("<") else ""


def _end_of(text: str) -> int:
    """Where the bracket that begins `text` is closed."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "<") - (letter == ">" and text[place - 1] != "-")
        if depth == 0:
            return place
    return len(text)


def _telling(arguments: str, base: str) -> Iterator[str]:
    """Words of template arguments that few kernels have; parameters of functions are left out."""
    plain = _PARAMETERS.sub(" ", arguments.replace("(anonymous namespace)::", ""))
    for word in _WORD.findall(_NAMESPACE.sub("", plain)):
        if len(word) > 2 and word != base and not _GENERIC.match(word):
            yield word


def _told_apart(brief: dict[str, str]) -> dict[str, str]:
    """For names with the same short name: that with the first words in which they differ."""
    groups: dict[str, list[str]] = {}
    for name, text in brief.items():
        groups.setdefault(text, []).append(name)
    return {
        name: _with_difference(text, difference)
        for text, members in groups.items()
        if len(members) > 1
        for name, difference in zip(members, _differences(members), strict=True)
    }


def _differences(names: list[str]) -> list[str]:
    """Return the words of each name that not all have; with a number where these are equal."""
    words = [list(dict.fromkeys(_PART.findall(_NAMESPACE.sub("", name[:_MAX_NAME])))) for name in names]
    common = set(words[0]).intersection(*words)
    parts = [_joined(word for word in own if word not in common) for own in words]
    repeated = Counter(parts)
    return [
        part if part and repeated[part] == 1 else ", ".join(filter(None, (part, str(number))))
        for number, part in enumerate(parts, 1)
    ]


def _joined(words: Iterable[str]) -> str:
    """Return the first words, in at most `_MAX_DIFFERENCE` characters."""
    text = ""
    for word in words:
        longer = f"{text}, {word}" if text else word
        if len(longer) > _MAX_DIFFERENCE:
            return text or word[:_MAX_DIFFERENCE]
        text = longer
    return text


def _with_difference(text: str, difference: str) -> str:
    telling, separator, kernel = text.partition(" · ")
    return f"{telling} [{difference}]{separator}{kernel}" if difference else text


def _without_shared(brief: dict[str, str]) -> dict[str, str]:
    """Replace a long beginning that a name shares with its neighbours in the alphabet by its first words.

    Names that would be equal then stay as they are.
    """
    ordered = sorted(brief, key=lambda name: brief[name])
    texts = [brief[name] for name in ordered]
    shared = [_num_shared(*pair) for pair in pairwise(texts)]
    result = dict(brief)
    for name, text, before, after in zip(ordered, texts, [0, *shared], [*shared, 0], strict=True):
        result[name] = _cut_shared(text, max(before, after))
    taken = Counter(result.values())
    return {name: text if taken[text] == 1 else brief[name] for name, text in result.items()}


def _num_shared(one: str, other: str) -> int:
    """Characters that two texts begin with in common."""
    return next((k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _cut_shared(text: str, shared: int) -> str:
    """`text` with its first two words in place of its first `shared` characters, where that is much shorter."""
    start = max(text.rfind(mark, 0, shared) for mark in ("_", " ", ",", "<", ":")) + 1
    found = _HEAD.match(text)
    head = found[0] if found else ""
    if text.startswith("<") or len(text) <= _MAX_PLAIN or start <= len(head) + 4:
        return text
    return f"{head}…{text[start:]}"
