// The live widget: the app, fed by the ipykernel over the widget's comm.

import { createApp } from "./app/app.js";
import { uiElement } from "./shared/dom.js";

const PATIENCE_MS = 2000;

// Asks the kernel for named bytes; one answer per question, told apart by number.
function createKernelLink(model) {
  const pending = new Map();
  const own = `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;
  let number = 0;
  const receive = (message, buffers) => {
    const waiting = pending.get(message?.id);
    if (!waiting) return;
    pending.delete(message.id);
    if (message.error) waiting.reject(new Error(message.error));
    else waiting.resolve(asBytes(buffers[0]));
  };
  model.on("msg:custom", receive);
  return {
    ask(want) {
      const id = `${own}-${(number += 1)}`;
      return new Promise((resolve, reject) => {
        pending.set(id, { resolve, reject });
        model.send({ kind: "request", id, want });
      });
    },
    close() {
      model.off("msg:custom", receive);
      pending.clear();
    },
  };
}

function asBytes(buffer) {
  return buffer instanceof ArrayBuffer
    ? new Uint8Array(buffer)
    : new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
}

// The saved pictures that stand in for this widget where no kernel lives; hidden while the live view shows.
function findPictures(id) {
  return id ? [...document.querySelectorAll(`[data-cudalens-static="${CSS.escape(id)}"]`)] : [];
}

function hidePictures(id, isHidden) {
  for (const picture of findPictures(id)) {
    const output = picture.closest(".jp-OutputArea-child") ?? picture;
    output.style.display = isHidden ? "none" : "";
  }
}

function render({ model, el }) {
  const picture = model.get("_picture");
  const link = createKernelLink(model);
  const root = uiElement("div", {});
  const errors = uiElement("div", { class: "cudalens cl-callback-errors", role: "alert" });
  el.classList.add("cudalens-live");
  el.replaceChildren(root, errors);
  // Until the kernel answers (it may be busy, or gone), the saved picture is the better thing to look at.
  root.hidden = findPictures(picture).length > 0;
  const reveal = () => {
    root.hidden = false;
    hidePictures(picture, true);
  };

  const app = createApp(root, {
    facts: model.get("_facts"),
    versions: model.get("_versions"),
    payload: () => link.ask("payload"),
    races: () => link.ask("races"),
    graphs: () => link.ask("graphs"),
    memory: () => link.ask("memory"),
    asset: (name) => link.ask(name),
    onData: reveal,
    onFail: () => (root.hidden = false),
    onSelect(selection) {
      model.set("_selection", selection);
      model.save_changes();
    },
  });
  const patience = setTimeout(() => app.say("Waiting for the kernel, which is busy or gone…"), PATIENCE_MS);

  const showErrors = () => {
    errors.dataset.theme = root.dataset.theme;
    errors.replaceChildren(...model.get("_errors").map((text) => uiElement("pre", { class: "cl-traceback" }, text)));
  };
  model.on("change:_errors", showErrors);
  showErrors();

  return () => {
    clearTimeout(patience);
    model.off("change:_errors", showErrors);
    link.close();
    app.destroy();
    hidePictures(picture, false);
  };
}

export default { render };
