// The live widget: the app, with its data from the ipykernel over the widget's comm.

import { createApp } from "./app/app.js";
import { element } from "./shared/dom.js";
import { KernelGone, uniqueId } from "./shared/model.js";
import { pageTheme, watchPageTheme } from "./shared/page_theme.js";
import { findPictures, hidePictures } from "./shared/static_pictures.js";

/** @import { Mark } from "./app/marks.js" */
/** @import { OutwardSelection, PageFacts } from "./app/source.js" */
/** @import { Question, Tried } from "./app/try_button.js" */
/** @import { WidgetModel } from "./shared/model.js" */

/**
 * The state of TimelineWidget in cudalens/views/widget.py.
 *
 * @typedef {object} WidgetState
 * @property {string} _process Identifies the process of the kernel.
 * @property {PageFacts} _facts
 * @property {{ [library: string]: string }} _versions
 * @property {string} _picture
 * @property {OutwardSelection} _selection
 * @property {Mark[]} _marks
 * @property {string[]} _errors
 * @property {boolean} _can_try Whether the kernel can run the cell again.
 * @property {{ [want: string]: DataView<ArrayBuffer> }} _ready Small data that came with the widget.
 */

/** @typedef {WidgetModel<WidgetState & { [name: string]: unknown }>} Model */
/** @typedef {{ id: string, error?: string, progress?: string, tried?: Tried }} Answer */
/**
 * @typedef {object} Waiting
 * @property {(answer: Answer, buffers: DataView<ArrayBuffer>[]) => void} resolve
 * @property {(error: Error) => void} reject
 * @property {(text: string) => void} [onProgress]
 */

const WAITING_NOTE_MS = 1000;
const WAITING_NOTE = "This view becomes interactive when the kernel is free.";
const GONE_NOTE =
  "The kernel was restarted before this view had its data. Run the cell again for the interactive view.";

/**
 * Asks the kernel for named bytes. Each question has an id, which its answer repeats.
 *
 * @param {Model} model
 */
function createKernelLink(model) {
  /** @type {Map<string, Waiting>} */
  const pending = new Map();
  const own = uniqueId();
  let number = 0;
  let isGone = false;
  const refuse = (/** @type {Error} */ error) => {
    for (const waiting of pending.values()) waiting.reject(error);
    pending.clear();
  };
  const leave = () => {
    isGone = true;
    refuse(new KernelGone());
  };
  const receive = (/** @type {Answer} */ message, /** @type {DataView<ArrayBuffer>[]} */ buffers) => {
    const waiting = pending.get(message?.id);
    if (!waiting) return;
    if (message.progress) {
      waiting.onProgress?.(message.progress);
      return;
    }
    pending.delete(message.id);
    if (message.error) waiting.reject(new Error(message.error));
    else waiting.resolve(message, buffers);
  };
  model.on("msg:custom", receive);
  model.on("comm_live_update", leave);
  void isSavedState(model).then((isSaved) => isSaved && leave());
  /**
   * @template T
   * @param {{ [name: string]: unknown }} question
   * @param {(answer: Answer, buffers: DataView<ArrayBuffer>[]) => T} read
   * @param {(text: string) => void} [onProgress]
   * @returns {Promise<T>}
   */
  const send = (question, read, onProgress) => {
    if (isGone) return Promise.reject(new KernelGone());
    number += 1;
    const id = `${own}-${number}`;
    return new Promise((resolve, reject) => {
      const answered = (/** @type {Answer} */ answer, /** @type {DataView<ArrayBuffer>[]} */ buffers) =>
        resolve(read(answer, buffers));
      pending.set(id, { resolve: answered, reject, onProgress });
      model.send({ ...question, id });
    });
  };
  return {
    /**
     * @param {string} want
     * @returns {Promise<Uint8Array<ArrayBuffer>>}
     */
    ask: (want) => send({ kind: "request", want }, (_, buffers) => asBytes(buffers[0])),
    /**
     * Have the kernel try the fix of a finding, or of all.
     *
     * @param {Question} question
     * @param {(text: string) => void} onProgress
     * @returns {Promise<Tried>}
     */
    tryFindings: (question, onProgress) =>
      send({ kind: "try", ...question }, ({ tried }) => /** @type {Tried} */ (tried), onProgress),
    close() {
      model.off("msg:custom", receive);
      model.off("comm_live_update", leave);
      refuse(new Error("the view was closed"));
    },
  };
}

/**
 * Whether the model is made of what the notebook has saved, so that no kernel answers.
 *
 * @param {Model} model
 */
async function isSavedState(model) {
  try {
    const jupyters = await model.widget_manager?.get_model(model.get("_picture"));
    return jupyters?.comm_live === false;
  } catch {
    return false; // shown in another way
  }
}

/** @param {ArrayBuffer | DataView<ArrayBuffer>} buffer */
function asBytes(buffer) {
  return buffer instanceof ArrayBuffer
    ? new Uint8Array(buffer)
    : new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
}

/** @param {{ model: Model, el: HTMLElement }} view */
function render({ model, el }) {
  const picture = model.get("_picture");
  const link = createKernelLink(model);
  const ask = (/** @type {string} */ want) => {
    const ready = model.get("_ready")[want];
    return ready ? Promise.resolve(asBytes(ready)) : link.ask(want);
  };
  const root = element("div", {});
  const note = element("p", { class: "cl-live-note", role: "status", hidden: true }, WAITING_NOTE);
  const errors = element("div", { class: "cudalens cl-callback-errors", role: "alert" });
  el.classList.add("cudalens-live");
  el.replaceChildren(note, root, errors);
  // Until the kernel answers (it may be busy or gone), the saved picture shows.
  root.hidden = findPictures(picture).length > 0;
  const timer = setTimeout(() => {
    note.hidden = false;
    app.showStatus("");
  }, WAITING_NOTE_MS);
  const app = createApp(root, {
    facts: { ...model.get("_facts"), marks: model.get("_marks") },
    versions: model.get("_versions"),
    sender: model.get("_process"),
    payload: () => ask("payload"),
    races: () => ask("races"),
    graphs: () => ask("graphs"),
    memory: () => ask("memory"),
    asset: (name) => link.ask(name),
    tryFindings: model.get("_can_try") ? link.tryFindings : undefined,
    onData() {
      clearTimeout(timer);
      note.hidden = true;
      root.hidden = false;
      hidePictures(picture, true);
    },
    onFail() {
      clearTimeout(timer);
      note.hidden = true;
      root.hidden = false;
    },
    onGone() {
      clearTimeout(timer);
      note.textContent = GONE_NOTE;
      note.hidden = false;
    },
    onMarks(marks) {
      model.set("_marks", marks);
      model.save_changes();
    },
    onSelect(selection) {
      model.set("_selection", selection);
      model.save_changes();
    },
  });

  const showErrors = () => {
    errors.replaceChildren(...model.get("_errors").map((text) => element("pre", { class: "cl-traceback" }, text)));
  };
  errors.dataset.theme = pageTheme();
  const unwatchTheme = watchPageTheme((theme) => {
    errors.dataset.theme = theme;
  });
  model.on("change:_errors", showErrors);
  showErrors();

  return () => {
    clearTimeout(timer);
    unwatchTheme();
    model.off("change:_errors", showErrors);
    link.close();
    app.destroy();
    hidePictures(picture, false);
  };
}

export default { render };
