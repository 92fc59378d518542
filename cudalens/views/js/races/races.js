// The race diff: a list of the races, a filter by kind, and the card of the one that is chosen. The cards come as trees
// from cudalens/views/races/cards.py; one is built when it is first looked at, so hundreds of races cost hundreds of lines.

import { buildMarkup } from "../shared/markup.js";
import { uiCount, uiElement, uiPlural } from "../shared/dom.js";

const RACE_COPIED_MS = 1500;
// Fewer races are seen at a glance.
const RACE_FILTER_FROM = 4;

/**
 * Builds the races in `host`.
 *
 * @param {HTMLElement} host Empty element.
 * @param {object} model {races: [{row, kind, title, tensor, places, times, card}], more}, worst first.
 * @param {object} options onChoose(race) after the user chose one.
 * @returns {object} choose(row of trace.races), chosen() (that row), setTheme, destroy.
 */
export function createRaces(host, model, { onChoose } = {}) {
  const state = { model, onChoose, kind: null, at: 0, shown: model.races, cards: new Map(), items: [] };
  state.list = uiElement("ul", { class: "cl-race-list", role: "listbox", tabindex: "0", "aria-label": "Races, worst first",
    "data-lm-suppress-shortcuts": "true" });
  state.card = uiElement("div", { class: "cl-race-host", "aria-live": "polite" });
  state.tools = uiElement("div", { class: "cl-race-tools", role: "group", "aria-label": "Kinds of races" });
  const isOne = model.races.length === 1;
  const body = isOne ? state.card : uiElement("div", { class: "cl-race-split" }, state.list, state.card);
  if (!isOne) {
    fillRaceTools(state);
    listenToRaceList(state);
  }
  host.replaceChildren(...(state.tools.childElementCount ? [state.tools] : []), body);
  fillRaceList(state);
  return {
    choose: (row) => chooseRaceRow(state, row),
    chosen: () => state.shown[state.at].row,
    setTheme() {},
    destroy: () => host.replaceChildren(),
  };
}

function fillRaceTools(state) {
  const counts = new Map();
  const titles = new Map();
  for (const { kind, title } of state.model.races) {
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
    titles.set(kind, title);
  }
  const button = (kind, text) => {
    const press = () => {
      state.kind = kind;
      for (const other of state.tools.querySelectorAll("button")) other.setAttribute("aria-pressed", String(other === node));
      showRaceKind(state);
    };
    const node = uiElement("button", { type: "button", class: "cl-button", "aria-pressed": String(kind === state.kind), onclick: press }, text);
    return node;
  };
  if (counts.size > 1 && state.model.races.length >= RACE_FILTER_FROM) {
    const kinds = [...counts].map(([kind, number]) => button(kind, `${titles.get(kind)} ${uiCount(number)}`));
    state.tools.append(button(null, `all ${uiCount(state.model.races.length)}`), ...kinds);
  }
  if (state.model.more) {
    state.tools.append(uiElement("span", { class: "cl-hint" }, `and ${uiPlural(state.model.more, "race")} more in trace.races`));
  }
}

function showRaceKind(state) {
  const before = state.shown[state.at];
  state.shown = state.model.races.filter((race) => state.kind === null || race.kind === state.kind);
  state.at = Math.max(0, state.shown.indexOf(before));
  fillRaceList(state);
}

function fillRaceList(state) {
  state.items = state.shown.map((race, k) => raceItem(state, race, k));
  state.list.replaceChildren(...state.items);
  showRaceCard(state, state.at);
}

function raceItem(state, race, k) {
  const number = state.model.races.indexOf(race) + 1;
  return uiElement("li", { role: "option", id: raceItemId(state, k), "aria-selected": "false", onclick: () => pickRace(state, k) },
    uiElement("b", {}, `${uiCount(number)}. ${race.title}`), ` of ${race.tensor}, ${race.times}`,
    ...race.places.map((place) => uiElement("small", {}, place)));
}

function raceItemId(state, k) {
  state.id ??= `cl-race-${Math.random().toString(36).slice(2)}`;
  return `${state.id}-${k}`;
}

function showRaceCard(state, at) {
  state.items[state.at]?.setAttribute("aria-selected", "false");
  state.at = at;
  const race = state.shown[at];
  const item = state.items[at];
  item.setAttribute("aria-selected", "true");
  state.list.setAttribute("aria-activedescendant", item.id);
  keepInSight(state.list, item);
  if (!state.cards.has(race)) state.cards.set(race, raceCard(race));
  state.card.replaceChildren(state.cards.get(race));
}

// Scrolls the list alone; scrollIntoView would move the page as well.
function keepInSight(list, item) {
  const top = item.offsetTop - list.offsetTop;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + item.offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = top + item.offsetHeight - list.clientHeight;
}

function pickRace(state, at) {
  showRaceCard(state, at);
  state.onChoose?.(state.shown[at]);
}

function chooseRaceRow(state, row) {
  if (!state.shown.some((race) => race.row === row)) {
    state.kind = null;
    for (const [k, other] of [...state.tools.querySelectorAll("button")].entries()) other.setAttribute("aria-pressed", String(k === 0));
    showRaceKind(state);
  }
  const at = state.shown.findIndex((race) => race.row === row);
  if (at >= 0) showRaceCard(state, at);
}

const RACE_PAGE = 10;

function listenToRaceList(state) {
  state.list.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const last = state.shown.length - 1;
    const steps = { ArrowDown: state.at + 1, ArrowUp: state.at - 1, Home: 0, End: last, PageDown: state.at + RACE_PAGE, PageUp: state.at - RACE_PAGE };
    if (!(event.key in steps)) return;
    event.preventDefault();
    event.stopPropagation();
    pickRace(state, Math.min(Math.max(steps[event.key], 0), last));
  });
}

function raceCard(race) {
  const card = buildMarkup(race.card);
  const diff = card.querySelector(".cl-race-diff");
  if (diff) addRaceCopy(diff);
  const values = card.querySelector(":scope > .cl-race-value");
  if (values) addRaceTabs(card, values);
  return card;
}

// Two tabs, the accesses and the values. What convinces a person is the number that comes out wrong: where there is one,
// its tab is the one that is open.
function addRaceTabs(card, values) {
  const id = `cl-race-tab-${Math.random().toString(36).slice(2)}`;
  const parts = [...card.children].filter((node) => node !== values && !node.matches(".cl-race-head, .cl-race-what"));
  const accesses = uiElement("div", { class: "cl-race-panel" }, ...parts);
  const panels = [accesses, values];
  const tabs = ["Accesses", "Values"].map((text, k) => uiElement("button", { type: "button", role: "tab", id: `${id}-${k}`,
    "data-lm-suppress-shortcuts": "true" }, text));
  const show = (at) => {
    for (const [k, tab] of tabs.entries()) {
      tab.setAttribute("aria-selected", String(k === at));
      tab.tabIndex = k === at ? 0 : -1;
      panels[k].hidden = k !== at;
    }
  };
  for (const [k, panel] of panels.entries()) {
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", `${id}-${k}`);
    tabs[k].addEventListener("click", () => show(k));
    tabs[k].addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      event.preventDefault();
      event.stopPropagation();
      show(1 - k);
      tabs[1 - k].focus();
    });
  }
  card.append(uiElement("div", { class: "cl-race-tabs", role: "tablist", "aria-label": "What is known of the race" }, ...tabs), accesses, values);
  show(values.querySelector(".cl-value-confirmed") ? 1 : 0);
}

// A button that copies the diff as it stands, without what it would say of itself.
function addRaceCopy(diff) {
  const text = diff.textContent;
  const frame = uiElement("div", { class: "cl-race-copy" });
  const copy = uiElement("button", { type: "button", class: "cl-button", "data-lm-suppress-shortcuts": "true" }, "Copy");
  copy.addEventListener("click", async () => {
    copy.textContent = (await copyRaceText(text, diff)) ? "Copied" : "Selected: press Ctrl+C";
    setTimeout(() => (copy.textContent = "Copy"), RACE_COPIED_MS);
  });
  diff.replaceWith(frame);
  frame.append(diff, copy);
}

// Pages that are no secure context (a report from file:, a plain http server) may have no clipboard: then the text is selected.
async function copyRaceText(text, node) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection().selectAllChildren(node);
    return document.execCommand("copy");
  }
}
