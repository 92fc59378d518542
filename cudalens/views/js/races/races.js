// The race diff: a list of the races, a filter by kind, and the card of the one that is chosen. The cards come as trees
// from cudalens/views/races/section.py; each is built when it is first shown, so that many races load fast.

import { element, findAll } from "../shared/dom.js";
import { formatCount, formatPlural } from "../shared/format.js";
import { buildCard } from "./card.js";

// A filter is of no use for fewer races.
const MIN_RACES_TO_FILTER = 4;
const PAGE_ROWS = 10;

/** @import { MarkupElement } from "../shared/markup.js" */

/**
 * @typedef {object} Race
 * @property {number} row Of trace.races.
 * @property {string} kind
 * @property {string} title
 * @property {string} tensor
 * @property {string[]} places
 * @property {string} times
 * @property {MarkupElement} card
 */

/** @typedef {{ races: Race[], more: number }} RacesModel Worst first, and how many are left out. */

/**
 * @typedef {object} RacesView
 * @property {(row: number) => void} choose
 * @property {() => number} chosen Row of trace.races.
 * @property {() => void} setTheme
 * @property {() => void} destroy
 */

/**
 * @typedef {object} State
 * @property {RacesModel} model
 * @property {((race: Race) => void) | undefined} onChoose
 * @property {string | null} kind That shows; null for all.
 * @property {number} at Place of the chosen race in `shown`.
 * @property {Race[]} shown
 * @property {Map<Race, Element>} cards That were built.
 * @property {HTMLElement[]} items
 * @property {string} id
 * @property {HTMLElement} list
 * @property {HTMLElement} card
 * @property {HTMLElement} tools
 */

/**
 * Builds the races in `host`.
 *
 * @param {HTMLElement} host Empty element.
 * @param {RacesModel} model
 * @param {{ onChoose?: (race: Race) => void }} [options] `onChoose` is called after the user chose a race.
 * @returns {RacesView}
 */
export function createRaces(host, model, { onChoose } = {}) {
  /** @type {State} */
  const state = {
    model,
    onChoose,
    kind: null,
    at: 0,
    shown: model.races,
    cards: new Map(),
    items: [],
    id: `cl-race-${Math.random().toString(36).slice(2)}`,
    list: element("ul", {
      class: "cl-race-list",
      role: "listbox",
      tabindex: "0",
      "aria-label": "Races, worst first",
      "data-lm-suppress-shortcuts": "true",
    }),
    card: element("div", { class: "cl-race-host", "aria-live": "polite" }),
    tools: element("div", { class: "cl-race-tools", role: "group", "aria-label": "Kinds of races" }),
  };
  const isOne = model.races.length === 1;
  const body = isOne ? state.card : element("div", { class: "cl-race-split" }, state.list, state.card);
  if (!isOne) {
    fillTools(state);
    listenToList(state);
  }
  host.replaceChildren(...(state.tools.childElementCount ? [state.tools] : []), body);
  fillList(state);
  return {
    choose: (row) => chooseRow(state, row),
    chosen: () => state.shown[state.at].row,
    setTheme() {},
    destroy: () => host.replaceChildren(),
  };
}

/** @param {State} state */
function fillTools(state) {
  const { races, more } = state.model;
  /** @type {Map<string, { title: string, number: number }>} */
  const kinds = new Map();
  for (const { kind, title } of races) kinds.set(kind, { title, number: (kinds.get(kind)?.number ?? 0) + 1 });
  if (kinds.size > 1 && races.length >= MIN_RACES_TO_FILTER) {
    const texts = [...kinds].map(([kind, { title, number }]) => ({ kind, text: `${title} ${formatCount(number)}` }));
    for (const { kind, text } of [{ kind: null, text: `all ${formatCount(races.length)}` }, ...texts]) {
      state.tools.append(kindButton(state, kind, text));
    }
  }
  if (more) {
    const text = `and ${formatPlural(more, "race")} more in trace.races`;
    state.tools.append(element("span", { class: "cl-hint" }, text));
  }
}

/**
 * @param {State} state
 * @param {string | null} kind
 * @param {string} text
 */
function kindButton(state, kind, text) {
  const press = () => {
    state.kind = kind;
    markKind(state);
    showKind(state);
  };
  const isPressed = String(kind === state.kind);
  const attributes = { type: "button", class: "cl-button", "aria-pressed": isPressed, onclick: press };
  return element("button", { ...attributes, "data-kind": kind ?? "" }, text);
}

/** @param {State} state */
function markKind({ tools, kind }) {
  for (const button of findAll(tools, "button", HTMLButtonElement)) {
    button.setAttribute("aria-pressed", String(button.dataset.kind === (kind ?? "")));
  }
}

/** @param {State} state */
function showKind(state) {
  const before = state.shown[state.at];
  state.shown = state.model.races.filter((race) => state.kind === null || race.kind === state.kind);
  state.at = Math.max(0, state.shown.indexOf(before));
  fillList(state);
}

/** @param {State} state */
function fillList(state) {
  state.items = state.shown.map((race, k) => listItem(state, race, k));
  state.list.replaceChildren(...state.items);
  showCard(state, state.at);
}

/**
 * @param {State} state
 * @param {Race} race
 * @param {number} k
 */
function listItem(state, race, k) {
  const number = state.model.races.indexOf(race) + 1;
  return element(
    "li",
    { role: "option", id: `${state.id}-${k}`, "aria-selected": "false", onclick: () => pickRace(state, k) },
    element("b", {}, `${formatCount(number)}. ${race.title}`),
    ` of ${race.tensor}, ${race.times}`,
    ...race.places.map((place) => element("small", {}, place)),
  );
}

/**
 * @param {State} state
 * @param {number} at
 */
function showCard(state, at) {
  state.items[state.at]?.setAttribute("aria-selected", "false");
  state.at = at;
  const race = state.shown[at];
  const item = state.items[at];
  item.setAttribute("aria-selected", "true");
  state.list.setAttribute("aria-activedescendant", item.id);
  scrollListTo(state.list, item);
  const card = state.cards.get(race) ?? buildCard(race.card);
  state.cards.set(race, card);
  state.card.replaceChildren(card);
}

/**
 * Scrolls the list alone; scrollIntoView would move the page as well.
 *
 * @param {HTMLElement} list
 * @param {HTMLElement} item
 */
function scrollListTo(list, item) {
  const top = item.offsetTop - list.offsetTop;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + item.offsetHeight > list.scrollTop + list.clientHeight)
    list.scrollTop = top + item.offsetHeight - list.clientHeight;
}

/**
 * @param {State} state
 * @param {number} at
 */
function pickRace(state, at) {
  showCard(state, at);
  state.onChoose?.(state.shown[at]);
}

/**
 * @param {State} state
 * @param {number} row
 */
function chooseRow(state, row) {
  if (!state.shown.some((race) => race.row === row)) {
    state.kind = null;
    markKind(state);
    showKind(state);
  }
  const at = state.shown.findIndex((race) => race.row === row);
  if (at >= 0) showCard(state, at);
}

/** @param {State} state */
function listenToList(state) {
  state.list.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const last = state.shown.length - 1;
    /** @type {{ [key: string]: number }} */
    const steps = {
      ArrowDown: state.at + 1,
      ArrowUp: state.at - 1,
      Home: 0,
      End: last,
      PageDown: state.at + PAGE_ROWS,
      PageUp: state.at - PAGE_ROWS,
    };
    if (!(event.key in steps)) return;
    event.preventDefault();
    event.stopPropagation();
    pickRace(state, Math.min(Math.max(steps[event.key], 0), last));
  });
}
