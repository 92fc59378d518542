/* The extension module `_scanner`: `scan` reads a slice of ``traceEvents`` into columns without the GIL.
 *
 * Built with the limited API of Python 3.11 (abi3). Optional: the Python reader returns the same.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include "entry.h"

static void release(Scan *scan) {
    Array *arrays[] = {&scan->ts,     &scan->dur,    &scan->name,      &scan->track,
                       &scan->tracks, &scan->others, &scan->memory_ts, &scan->memory_track};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free(arrays[i]->data);
    release_table(&scan->names);
    release_table(&scan->labels);
    release_table(&scan->track_keys);
    for (int i = 0; i < scan->num_fields; i++) {
        free(scan->fields[i].rows.data);
        free(scan->fields[i].values.data);
        release_table(&scan->fields[i].texts);
    }
    PyMem_Free(scan);
}

static PyObject *bytes_of(const Array *array) {
    return PyBytes_FromStringAndSize(array->data ? array->data : "", (Py_ssize_t)array->size);
}

/* The texts of a table as a list of bytes. */
static PyObject *texts_of(const Table *table) {
    PyObject *list = PyList_New((Py_ssize_t)table->count);
    for (int64_t i = 0; list && i < table->count; i++) {
        Span span = ((Span *)table->spans.data)[i];
        PyObject *text = PyBytes_FromStringAndSize((const char *)span.at, (Py_ssize_t)span.size);
        if (!text || PyList_SetItem(list, (Py_ssize_t)i, text) < 0) Py_CLEAR(list);
    }
    return list;
}

/* The columns of the arguments: by name (rows, values, texts). */
static PyObject *fields_of(const Scan *scan) {
    PyObject *found = PyDict_New();
    for (int i = 0; found && i < scan->num_fields; i++) {
        const Field *field = &scan->fields[i];
        if (!field->rows.size) continue;
        PyObject *column =
            Py_BuildValue("(NNN)", bytes_of(&field->rows), bytes_of(&field->values), texts_of(&field->texts));
        PyObject *key = PyBytes_FromStringAndSize((const char *)field->key.at, (Py_ssize_t)field->key.size);
        if (!column || !key || PyDict_SetItem(found, key, column) < 0) Py_CLEAR(found);
        Py_XDECREF(column);
        Py_XDECREF(key);
    }
    return found;
}

static PyObject *result_of(const Scan *scan) {
    int is_exact = scan->has_huge && scan->has_decimals;
    return Py_BuildValue("(LiiNNNNNNNNNNN)", (long long)scan->num_entries, is_exact, scan->has_long, bytes_of(&scan->ts),
                         bytes_of(&scan->dur), bytes_of(&scan->name), texts_of(&scan->names), bytes_of(&scan->track),
                         bytes_of(&scan->tracks), texts_of(&scan->labels), fields_of(scan), bytes_of(&scan->others),
                         bytes_of(&scan->memory_ts), bytes_of(&scan->memory_track));
}

/* Read `fields`, a tuple of (key, kind), into `scan`; returns 0 with an exception set if it is not one. */
static int set_fields(Scan *scan, PyObject *fields) {
    Py_ssize_t count = PyTuple_Size(fields);
    if (count < 0) return 0;
    if (count > MAX_FIELDS) {
        PyErr_SetString(PyExc_ValueError, "too many fields");
        return 0;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        Field *field = &scan->fields[i];
        const char *key;
        Py_ssize_t size;
        int kind;
        if (!PyArg_ParseTuple(PyTuple_GetItem(fields, i), "y#C", &key, &size, &kind)) return 0;
        if (size < 1) {
            PyErr_SetString(PyExc_ValueError, "a field without a key");
            return 0;
        }
        field->key = (Span){(Text)key, size};
        field->kind = (char)kind;
        unsigned at = key_slot(field->key);
        while (scan->key_slots[at]) at = (at + 1) & (KEY_SLOTS - 1);
        scan->key_slots[at] = (unsigned char)(i + 1);
        scan->num_fields++;
    }
    return 1;
}

static PyObject *scan_slice(PyObject *module, PyObject *args) {
    PyObject *data, *fields;
    unsigned long long seed;
    int is_exact, status;
    (void)module;
    if (!PyArg_ParseTuple(args, "SO!pK", &data, &PyTuple_Type, &fields, &is_exact, &seed)) return NULL;
    char *text;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(data, &text, &size) < 0) return NULL;
    if (size > 1 << 30) Py_RETURN_NONE;
    Scan *scan = PyMem_Calloc(1, sizeof(Scan));
    if (!scan) return PyErr_NoMemory();
    scan->seed = seed;
    scan->is_exact = is_exact;
    if (!set_fields(scan, fields)) {
        release(scan);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = read_slice(scan, (Text)text, (Text)text + size);
    Py_END_ALLOW_THREADS;
    PyObject *result = NULL;
    if (status == DONE)
        result = result_of(scan);
    else if (status == NO_MEMORY)
        PyErr_NoMemory();
    else
        result = Py_NewRef(Py_None);
    release(scan);
    return result;
}

static PyMethodDef METHODS[] = {
    {"scan", scan_slice, METH_VARARGS,
     "scan(data, fields, is_exact, seed)\n--\n\nThe columns of the entries in `data`, or None if only Python can read "
     "them."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_scanner", NULL, 0, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__scanner(void) { return PyModuleDef_Init(&MODULE); }
