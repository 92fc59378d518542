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
 */

/**
 * Adds or removes a listener: of `msg:custom`, or of `change:name`.
 *
 * @typedef {(type: string, listener: (message: any, buffers: DataView<ArrayBuffer>[]) => void) => void} ModelListening
 */

/** Text that no other view has. */
export function uniqueId() {
  return `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;
}
