"""`cudalens.devices()` as HTML that stands alone: the verdict, a card per GPU, what they share, who reaches whom.

Tints are mixed from the text's own colour, so that the cards stand on light and dark ground without a script.
"""

from __future__ import annotations

from typing import Final

from cudalens.analysis import units
from cudalens.device.inventory.devices import Device, Devices
from cudalens.views import assets
from cudalens.views.devices import text as words
from cudalens.views.sections.markup import Node, element

_MAX_MATRIX: Final = 16


def devices_html(devices: Devices) -> str:
    """The whole picture; no script, nothing external, every foreign text escaped."""
    body = element(
        "div",
        *_head(devices),
        element("div", *(card(device) for device in devices.visible[: words.MAX_CARDS]), class_="cl-dev-cards"),
        _more(devices),
        _hidden(devices),
        _notes(devices),
        _machine(devices),
        _matrix(devices),
        class_="cudalens-devices",
    )
    return f"<style>{assets.style('devices')}</style>{body.html()}"


def card(device: Device) -> Node:
    """One GPU as an ``<article>``."""
    head = element(
        "h4",
        element("span", device.label, class_="cl-dev-label"),
        f" {device.name}",
        element("span", "simulated", class_="cl-dev-badge") if device.is_simulated else None,
    )
    warning = device.warning and element(
        "p",
        device.warning,
        *((element("br"), element("code", device.remedy)) if device.remedy else ()),
        class_="cl-dev-warn",
    )
    return element("article", head, warning or None, _memory(device), _facts(words.facts(device)), class_="cl-dev-card")


def _head(devices: Devices) -> list[Node]:
    line = words.verdict(devices, badge=False)
    answer, _, support = line.partition("; ")
    badge = element("span", words.mark(devices), class_="cl-dev-badge") if devices.simulated else None
    nodes = [
        element("p", badge, element("strong", answer), f"; {support}" if support else "", class_="cl-dev-verdict"),
    ]
    if not devices.visible and not devices.simulated:
        nodes.append(
            element("p", element("code", words.MODEL_HINT.partition(" puts")[0]), " puts a modelled one in its place.")
        )
    return nodes


def _memory(device: Device) -> Node | None:
    """A bar of the memory in use."""
    used, total = device.used_memory_bytes, device.total_memory_bytes
    if used is None or not total:
        return None
    share = f"{min(100.0, 100 * used / total):.1f}%"
    label = f"{units.size(used)} of {units.size(total)} in use"
    fill = element("div", class_="cl-dev-fill", style=f"width:{share}")
    return element("div", fill, class_="cl-dev-bar", role="img", aria_label=label, title=label)


def _facts(facts: list[tuple[str, str]]) -> Node:
    rows = (node for term, text in facts for node in (element("dt", term), element("dd", text)))
    return element("dl", *rows)


def _more(devices: Devices) -> Node | None:
    left = len(devices) - words.MAX_CARDS
    return element("p", f"and {units.count(left)} more in .frame") if left > 0 else None


def _hidden(devices: Devices) -> Node | None:
    if not devices.hidden:
        return None
    items = (element("li", words.hidden_line(device)) for device in devices.hidden[: words.MAX_CARDS])
    why = element("p", devices.visibility) if devices.visible else None
    heading = element("h4", "Not visible to this program")
    return element("div", heading, why, element("ul", *items), class_="cl-dev-hidden")


def _notes(devices: Devices) -> Node | None:
    if not devices.notes:
        return None
    return element("ul", *(element("li", note) for note in devices.notes), class_="cl-dev-warn")


def _machine(devices: Devices) -> Node | None:
    shared = words.machine(devices)
    if not shared:
        return None
    opened = not devices.visible
    return element("details", element("summary", "Driver, torch and what is visible"), _facts(shared), open=opened)


def _matrix(devices: Devices) -> Node | None:
    """Peer access as a table; for many devices the words in `_machine` must do."""
    if not 1 < len(devices.access) <= _MAX_MATRIX:
        return None
    labels = [device.label for device in devices.visible]
    head = element("tr", element("th", "peer access"), *(element("th", label, scope="col") for label in labels))
    rows = [
        element("tr", element("th", label, scope="row"), *(element("td", _can(can)) for can in row))
        for label, row in zip(labels, devices.access, strict=True)
    ]
    return element("table", element("thead", head), element("tbody", *rows), class_="cl-dev-peers")


def _can(can: bool | None) -> str:
    return "·" if can is None else "yes" if can else "no"
