// The part of the interface of DataTables (from itables) that the table uses.

/**
 * @template Row
 * @typedef {object} DataTable
 * @property {() => DataTable<Row>} clear
 * @property {TableRows<Row>} rows
 * @property {(node: HTMLElement) => { data: () => Row | undefined }} row
 * @property {(paging?: "page") => DataTable<Row>} draw
 * @property {((page: number) => DataTable<Row>) & { info: () => { page: number, length: number } }} page
 * @property {(columns: number[]) => { visible: (isVisible: boolean) => void }} columns
 * @property {() => void} destroy
 */

/**
 * @template Row
 * @typedef {{ add: (rows: Row[]) => DataTable<Row> } & ((selector: object) => {
 *   every: (visit: (this: { node: () => HTMLElement, data: () => Row }) => void) => void,
 *   data: () => { toArray: () => Row[] },
 * })} TableRows
 */

/**
 * @template Row
 * @typedef {object} TableColumn
 * @property {string} title
 * @property {string} data
 * @property {string} [className]
 * @property {boolean} searchable
 * @property {string[]} orderSequence
 * @property {(value: unknown, type: string, row: Row) => string | number} render
 */

/**
 * @template Row
 * @typedef {{ columns: TableColumn<Row>[], data: Row[], [option: string]: unknown }} TableSettings
 */

/**
 * The class of the library.
 *
 * @typedef {{
 *   new <Row>(node: HTMLElement, settings: TableSettings<Row>): DataTable<Row>,
 *   ext: { errMode: string },
 * }} DataTableClass
 */

export {};
