/* The extension module `_scanner`: it reads slices of ``traceEvents`` into columns, in a thread without the GIL.
 *
 * Distinct texts are numbered over all slices that were scanned with the same tables; a slice returns its new ones.
 * Built with the limited API of Python 3.11 (abi3). Optional: the Python reader returns the same.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <pthread.h>
#include <unistd.h>
#include "entry.h"

/* The tables of one file, and the scan of a slice in a thread of its own. */
typedef struct {
    Scan scan;
    PyObject *data; /* the slice that is scanned, or NULL */
    Text text, end; /* its contents */
    pthread_t thread;
    pid_t process; /* of the thread */
    int has_thread, status;
    int is_broken; /* in a fork that began while the thread wrote the tables: they are neither used nor freed */
} Work;

static void release(Scan *scan) {
    Array *arrays[] = {&scan->ts,     &scan->dur, &scan->name,      &scan->track,       &scan->tracks,
                       &scan->others, &scan->odd, &scan->memory_ts, &scan->memory_track};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free(arrays[i]->data);
    release_table(&scan->names);
    release_table(&scan->labels);
    release_table(&scan->track_keys);
    for (int i = 0; i < scan->num_fields; i++) {
        free(scan->fields[i].rows.data);
        free(scan->fields[i].values.data);
        release_table(&scan->fields[i].texts);
        free(scan->fields[i].name);
    }
}

static PyObject *bytes_of(const Array *array) {
    return PyBytes_FromStringAndSize(array->data ? array->data : "", (Py_ssize_t)array->size);
}

/* The new texts of a table as a list of bytes. */
static PyObject *texts_of(const Table *table) {
    int64_t first = table->mark.count;
    PyObject *list = PyList_New((Py_ssize_t)(table->count - first));
    for (int64_t i = 0; list && i < table->count - first; i++) {
        Span span = ((Span *)table->spans.data)[first + i];
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
    Array tracks = {scan->tracks.data + scan->tracks_before, scan->tracks.size - scan->tracks_before, 0};
    return Py_BuildValue("(LiiNNNNNNNNNNNN)", (long long)scan->num_entries, is_exact, scan->has_long, bytes_of(&scan->ts),
                         bytes_of(&scan->dur), bytes_of(&scan->name), texts_of(&scan->names), bytes_of(&scan->track),
                         bytes_of(&tracks), texts_of(&scan->labels), fields_of(scan), bytes_of(&scan->odd), bytes_of(&scan->others),
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
        if (!(field->name = malloc((size_t)size))) {
            PyErr_NoMemory();
            return 0;
        }
        field->key = (Span){memcpy(field->name, key, (size_t)size), size};
        field->kind = (char)kind;
        unsigned at = key_slot(field->key);
        while (scan->key_slots[at]) at = (at + 1) & (KEY_SLOTS - 1);
        scan->key_slots[at] = (unsigned char)(i + 1);
        scan->num_fields++;
    }
    return 1;
}

static const char CAPSULE[] = "cudalens.traces.chrome._scanner.tables";

static void *run(void *argument) {
    Work *work = argument;
    work->status = read_slice(&work->scan, work->text, work->end);
    return NULL;
}

static void join(Work *work) {
    if (work->has_thread && work->process == getpid()) {
        pthread_join(work->thread, NULL);
    } else if (work->has_thread) { /* a fork has no other thread */
        work->is_broken = 1;
        work->status = NEEDS_PYTHON;
    }
    work->has_thread = 0;
}

static void release_work(Work *work) {
    join(work);
    Py_XDECREF(work->data);
    if (!work->is_broken) release(&work->scan);
    PyMem_Free(work);
}

static void release_capsule(PyObject *capsule) { release_work(PyCapsule_GetPointer(capsule, CAPSULE)); }

static PyObject *new_tables(PyObject *module, PyObject *args) {
    PyObject *fields;
    unsigned long long seed;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!K", &PyTuple_Type, &fields, &seed)) return NULL;
    Work *work = PyMem_Calloc(1, sizeof(Work));
    if (!work) return PyErr_NoMemory();
    work->scan.seed = seed;
    work->scan.first_key.next = work->scan.first_argument.next = &work->scan.unusual;
    PyObject *capsule = set_fields(&work->scan, fields) ? PyCapsule_New(work, CAPSULE, release_capsule) : NULL;
    if (!capsule) release_work(work);
    return capsule;
}

/* The work in `capsule`, NULL with an exception set unless a slice is in it as `is_begun` says. */
static Work *work_of(PyObject *capsule, int is_begun) {
    Work *work = PyCapsule_GetPointer(capsule, CAPSULE);
    if (!work || !work->data == !is_begun) return work;
    PyErr_SetString(PyExc_RuntimeError, is_begun ? "no slice was begun" : "a slice was begun before");
    return NULL;
}

static PyObject *start(PyObject *module, PyObject *args) {
    PyObject *capsule, *data;
    int is_exact;
    char *text;
    Py_ssize_t size, room;
    (void)module;
    if (!PyArg_ParseTuple(args, "OSnp", &capsule, &data, &size, &is_exact)) return NULL;
    Work *work = work_of(capsule, 0);
    if (!work || PyBytes_AsStringAndSize(data, &text, &room) < 0) return NULL;
    if (size < 0 || size > room) {
        PyErr_SetString(PyExc_ValueError, "size is not within data");
        return NULL;
    }
    if (!work->is_broken) begin_slice(&work->scan);
    work->scan.is_exact = is_exact;
    work->data = Py_NewRef(data);
    work->text = (Text)text;
    work->end = (Text)text + size;
    work->status = NEEDS_PYTHON;
    if (size <= 1 << 30 && !work->is_broken) {
        work->process = getpid();
        work->has_thread = !pthread_create(&work->thread, NULL, run, work);
        if (!work->has_thread) run(work);
    }
    Py_RETURN_NONE;
}

static PyObject *finish(PyObject *module, PyObject *capsule) {
    (void)module;
    Work *work = work_of(capsule, 1);
    if (!work) return NULL;
    Py_BEGIN_ALLOW_THREADS;
    join(work);
    Py_END_ALLOW_THREADS;
    Py_CLEAR(work->data);
    PyObject *result = work->status == DONE ? result_of(&work->scan) : NULL;
    if (!result && !work->is_broken) undo_slice(&work->scan);
    if (work->status == NO_MEMORY) PyErr_NoMemory();
    return result || PyErr_Occurred() ? result : Py_NewRef(Py_None);
}

static PyObject *undo(PyObject *module, PyObject *capsule) {
    (void)module;
    Work *work = work_of(capsule, 0);
    if (!work) return NULL;
    if (!work->is_broken) {
        undo_slice(&work->scan);
        begin_slice(&work->scan); /* a second call does nothing */
    }
    Py_RETURN_NONE;
}

static PyMethodDef METHODS[] = {
    {"new_tables", new_tables, METH_VARARGS,
     "new_tables(fields, seed)\n--\n\nEmpty tables of the texts of one file; `fields` are the arguments to read."},
    {"start", start, METH_VARARGS,
     "start(tables, data, size, is_exact)\n--\n\nScan the entries in the first `size` bytes of `data` in a thread of its "
     "own."},
    {"finish", finish, METH_O,
     "finish(tables)\n--\n\nThe columns of the slice that was begun, or None if only Python can read it."},
    {"undo", undo, METH_O, "undo(tables)\n--\n\nForget the texts that the last slice added."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_scanner", NULL, 0, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__scanner(void) { return PyModuleDef_Init(&MODULE); }
