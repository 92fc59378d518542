// Where an app gets its data from: the widget from its kernel, the report from its own file.

/** @import { Mark } from "./marks.js" */
/** @import { TryFindings } from "./try_button.js" */
/** @import { Baseline } from "../flame/baseline.js" */
/** @import { MarkupElement } from "../shared/markup.js" */

/**
 * What `facts` of cudalens/views/sections/page.py makes.
 *
 * @typedef {object} PageFacts
 * @property {string} verdict
 * @property {string} [details] What supports the verdict.
 * @property {string} badge
 * @property {string[]} notes
 * @property {MarkupElement | null} findings
 * @property {MarkupElement | null} syncs
 * @property {MarkupElement | null} lines
 * @property {MarkupElement | null} modules
 * @property {MarkupElement | null} steps
 * @property {string | null} metrics
 * @property {Mark[]} marks
 * @property {MarkupElement | null} memoryMap
 * @property {boolean} memoryFirst Whether the memory map is above the timeline.
 * @property {boolean} memoryAlone Whether there is no timeline.
 * @property {boolean} hasRaces
 * @property {boolean} hasGraphs
 * @property {boolean} graphsFirst Whether the graphs are above the races.
 * @property {Baseline | null} baseline Another run, which the flame graph compares with.
 * @property {boolean} hasProfile Whether there are events.
 */

/**
 * A selection in terms that hold outside of the page.
 *
 * @typedef {object} OutwardSelection
 * @property {[number, number] | null} range ns from the trace's start.
 * @property {number | null} event Row of trace.events.
 * @property {string[] | null} names
 * @property {number[] | null} name_rows Rows that have these names, where the page has cut ones.
 */

/** @typedef {() => Promise<Uint8Array<ArrayBuffer>>} FetchData */

/**
 * @typedef {object} Source
 * @property {PageFacts} facts
 * @property {{ [library: string]: string }} versions Of datatables and plotly.
 * @property {string} [sender] Identifies who answers `asset`.
 * @property {FetchData} payload The columns of the events.
 * @property {FetchData} races Gzipped JSON.
 * @property {FetchData} graphs Gzipped JSON.
 * @property {FetchData} memory The columns of the memory map.
 * @property {(name: string) => Promise<Uint8Array<ArrayBuffer>>} asset A gzipped library or its style sheet.
 * @property {string} [hash] The part of the page's address after "#", with what to show.
 * @property {(hash: string) => string} [address] The whole address with another such part.
 * @property {() => void} [onData] Before anything is drawn.
 * @property {() => void} [onPaint] After the timeline is drawn.
 * @property {() => void} [onFail]
 * @property {() => void} [onGone] The kernel was restarted before the events were there.
 * @property {(marks: Mark[]) => void} [onMarks] After the reader changed the marks.
 * @property {(selection: OutwardSelection) => void} [onSelect]
 * @property {TryFindings} [tryFindings] Where a kernel can run the cell again.
 */

export {};
