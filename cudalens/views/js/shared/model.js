// The part of anywidget's interface that the widgets use.

/**
 * State that the widget shares with the kernel, and messages between them.
 *
 * @template {{ [name: string]: unknown }} State
 * @typedef {object} WidgetModel
 * @property {<Name extends keyof State>(name: Name) => State[Name]} get
 * @property {<Name extends keyof State>(name: Name, value: State[Name]) => void} set
 * @property {() => void} save_changes
 * @property {(content: object) => void} send
 * @property {ModelListening} on
 * @property {ModelListening} off
 * @property {{ get_model: (id: string) => Promise<{ comm_live?: boolean }> }} [widget_manager] Jupyter's.
 */

/**
 * Adds or removes a listener: of `msg:custom`, of `change:name`, or of `comm_live_update`, which Jupyter's models send
 * when the kernel is restarted.
 *
 * @typedef {(type: string, listener: (message: any, buffers: DataView<ArrayBuffer>[]) => void) => void} ModelListening
 */

/** What a view that asks the kernel gets once the kernel was restarted: no answer, which is no fault of the view. */
export class KernelGone extends Error {
  constructor() {
    super("the kernel was restarted; run the cell again");
  }
}

/** Text that no other view has. */
export function uniqueId() {
  return `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;
}
