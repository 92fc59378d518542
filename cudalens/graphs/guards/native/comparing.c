/* The extension module `_comparing`: whether many objects are the same as before, without a Python call for each.
 *
 * Built with the limited API of Python 3.11 (abi3). Optional: comparing.py has the same class in Python.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <limits.h>

/* How an item is looked up. */
enum { ANY, DICT, ATTRIBUTE };

/* `position` is a place in a dict for PyDict_Next: where the key was when it was last found there. */
typedef struct {
    PyObject *container, *key, *value;
    int position, how;
} Item;

typedef struct {
    PyObject *container;
    int size, is_dict;
} Size;

/* The tuples own what the arrays refer to. */
enum { CONTAINERS, KEYS, VALUES, SIZED, SIZES, ORDERED, ORDER, OWNERS, KINDS, OBJECTS, TABLES, NUM_FIELDS };

typedef struct {
    PyObject ob_base;
    PyObject *fields[NUM_FIELDS];
    PyObject **rows[NUM_FIELDS];
    Py_ssize_t counts[NUM_FIELDS];
    Item *items;
    Size *sizes;
} Compared;

static Py_ssize_t count(const Compared *self, int field) { return self->counts[field]; }

static PyObject *at(const Compared *self, int field, Py_ssize_t row) { return self->rows[field][row]; }

static int set_rows(Compared *self, int field, PyObject *given) {
    PyObject *tuple = PySequence_Tuple(given);
    if (!tuple) return 0;
    Py_ssize_t num = PyTuple_Size(tuple);
    self->fields[field] = tuple;
    if (!(self->rows[field] = PyMem_Calloc((size_t)num + 1, sizeof(PyObject *)))) {
        PyErr_NoMemory();
        return 0;
    }
    self->counts[field] = num;
    for (Py_ssize_t i = 0; i < num; i++) self->rows[field][i] = PyTuple_GetItem(tuple, i);
    return 1;
}

/* Whether looking up a key runs no code and gives the same each time. */
static int is_plain_key(PyObject *key) { return PyUnicode_CheckExact(key) || PyLong_CheckExact(key); }

/* Where a plain key is in a dict, searched from a position on, then from the beginning; -1 for "not known". */
static int position_of(PyObject *held, PyObject *wanted, int first) {
    if (!is_plain_key(wanted)) return -1;
    for (;; first = 0) {
        Py_ssize_t next = first > 0 ? first : 0, position = next;
        PyObject *key, *value;
        while (PyDict_Next(held, &next, &key, &value)) {
            if (key == wanted) return position <= INT_MAX ? (int)position : -1;
            position = next;
        }
        if (first <= 0) return -1;
    }
}

/* A number that is too large is -1, which is never a length. */
static int set_int(int *number, PyObject *given) {
    Py_ssize_t value = PyLong_AsSsize_t(given);
    *number = value <= INT_MAX ? (int)value : -1;
    return value != -1 || !PyErr_Occurred();
}

/* A look-up of `AttributeItems` is that of its owner's attribute. */
static int set_items(Compared *self, PyObject *attribute_items) {
    for (Py_ssize_t i = 0; i < count(self, CONTAINERS); i++) {
        Item *item = &self->items[i];
        item->container = at(self, CONTAINERS, i);
        item->key = at(self, KEYS, i);
        item->value = at(self, VALUES, i);
        item->how = ANY;
        if (PyDict_CheckExact(item->container)) {
            item->how = DICT;
            int is_next = i && self->items[i - 1].container == item->container;
            item->position = position_of(item->container, item->key, is_next ? self->items[i - 1].position : 0);
        } else if ((PyObject *)Py_TYPE(item->container) == attribute_items) {
            item->how = ATTRIBUTE;
            PyObject *owner = PyObject_GetAttrString(item->container, "_owner");
            if (!owner) return 0;
            item->container = owner; /* its AttributeItems owns it */
            Py_DECREF(owner);
        }
    }
    return 1;
}

/* A collections.OrderedDict has its length where a dict has it; a subclass can have a method for it. */
static int set_sizes(Compared *self) {
    PyObject *collections = PyImport_ImportModule("collections");
    PyObject *ordered = collections ? PyObject_GetAttrString(collections, "OrderedDict") : NULL;
    Py_XDECREF(collections);
    if (!ordered) return 0;
    for (Py_ssize_t i = 0; i < count(self, SIZED); i++) {
        Size *size = &self->sizes[i];
        size->container = at(self, SIZED, i);
        size->is_dict = PyDict_CheckExact(size->container) || (PyObject *)Py_TYPE(size->container) == ordered;
        size->is_dict = size->is_dict && PyDict_Check(size->container);
        if (!set_int(&size->size, at(self, SIZES, i))) break;
    }
    Py_DECREF(ordered);
    return !PyErr_Occurred();
}

static int has_equal_lengths(const Compared *self) {
    return count(self, CONTAINERS) == count(self, KEYS) && count(self, KEYS) == count(self, VALUES) &&
           count(self, SIZED) == count(self, SIZES) && count(self, OWNERS) == count(self, KINDS) &&
           count(self, OBJECTS) == count(self, TABLES);
}

static int fill(Compared *self, PyObject *given[], PyObject *attribute_items) {
    for (int i = 0; i < NUM_FIELDS; i++)
        if (!set_rows(self, i, given[i])) return 0;
    if (!has_equal_lengths(self)) {
        PyErr_SetString(PyExc_ValueError, "the lengths differ");
        return 0;
    }
    self->items = PyMem_Calloc((size_t)count(self, CONTAINERS) + 1, sizeof(Item));
    self->sizes = PyMem_Calloc((size_t)count(self, SIZED) + 1, sizeof(Size));
    if (!self->items || !self->sizes) {
        PyErr_NoMemory();
        return 0;
    }
    return set_items(self, attribute_items) && set_sizes(self);
}

static PyObject *compared_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    PyObject *given[NUM_FIELDS], *attribute_items;
    if (named && PyDict_Size(named)) {
        PyErr_SetString(PyExc_TypeError, "expected positional arguments");
        return NULL;
    }
    if (!PyArg_UnpackTuple(args, "Compared", NUM_FIELDS + 1, NUM_FIELDS + 1, &attribute_items, &given[0], &given[1],
                           &given[2], &given[3], &given[4], &given[5], &given[6], &given[7], &given[8], &given[9],
                           &given[10]))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Compared *self = (Compared *)allocate(type, 0);
    if (self && !fill(self, given, attribute_items)) Py_CLEAR(self);
    return (PyObject *)self;
}

/* Nothing is compared after this: the arrays refer to what the tuples owned. */
static int compared_clear(PyObject *object) {
    Compared *self = (Compared *)object;
    PyMem_Free(self->items);
    PyMem_Free(self->sizes);
    self->items = NULL;
    self->sizes = NULL;
    for (int i = 0; i < NUM_FIELDS; i++) {
        PyMem_Free(self->rows[i]);
        self->rows[i] = NULL;
        self->counts[i] = 0;
        Py_CLEAR(self->fields[i]);
    }
    return 0;
}

static int compared_traverse(PyObject *object, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(object));
    for (int i = 0; i < NUM_FIELDS; i++) Py_VISIT(((Compared *)object)->fields[i]);
    return 0;
}

static void compared_free(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    compared_clear(object);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

/* Whether a dict has a value at a key: first where the key was before. 1, 0, or -1 with an error. */
static int has_in_dict(Item *item) {
    Py_ssize_t next = item->position;
    PyObject *key, *value;
    if (next >= 0 && PyDict_Next(item->container, &next, &key, &value) && key == item->key)
        return value == item->value;
    PyObject *found = PyDict_GetItemWithError(item->container, item->key);
    if (!found) {
        if (!PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, item->key);
        return -1;
    }
    if (found != item->value) return 0;
    item->position = position_of(item->container, item->key, item->position);
    return 1;
}

static int has_elsewhere(const Item *item) {
    PyObject *found = item->how == ATTRIBUTE ? PyObject_GetAttr(item->container, item->key)
                                             : PyObject_GetItem(item->container, item->key);
    Py_XDECREF(found);
    return found ? found == item->value : -1;
}

/* All of these: 1, 0, or -1 with an error. */
static int same_items(Compared *self) {
    for (Py_ssize_t i = 0, size = count(self, CONTAINERS); i < size; i++) {
        Item *item = &self->items[i];
        int is_same = item->how == DICT ? has_in_dict(item) : has_elsewhere(item);
        if (is_same != 1) return is_same;
    }
    return 1;
}

static int same_sizes(Compared *self) {
    for (Py_ssize_t i = 0, size = count(self, SIZED); i < size; i++) {
        const Size *held = &self->sizes[i];
        Py_ssize_t now = held->is_dict ? PyDict_Size(held->container) : PyObject_Size(held->container);
        if (now < 0) return -1;
        if (now != held->size) return 0;
    }
    return 1;
}

/* Compare the keys of an exact dict with the order from `*row` on. */
static int has_keys(const Compared *self, PyObject *held, Py_ssize_t *row) {
    Py_ssize_t next = 0, num = PyDict_Size(held), end = *row + num;
    PyObject *key, *value;
    if (end > count(self, ORDER)) return 0;
    for (; *row < end; (*row)++)
        if (!PyDict_Next(held, &next, &key, &value) || key != at(self, ORDER, *row)) return 0;
    return 1;
}

/* The same of any other iterable. */
static int has_elements(const Compared *self, PyObject *held, Py_ssize_t *row) {
    PyObject *iterator = PyObject_GetIter(held), *key;
    if (!iterator) return -1;
    int is_same = 1;
    Py_ssize_t size = count(self, ORDER);
    while (is_same && (key = PyIter_Next(iterator))) {
        is_same = *row < size && at(self, ORDER, (*row)++) == key;
        Py_DECREF(key);
    }
    Py_DECREF(iterator);
    return PyErr_Occurred() ? -1 : is_same;
}

static int same_order(Compared *self) {
    Py_ssize_t row = 0;
    for (Py_ssize_t i = 0, size = count(self, ORDERED); i < size; i++) {
        PyObject *held = at(self, ORDERED, i);
        int is_same = PyDict_CheckExact(held) ? has_keys(self, held, &row) : has_elements(self, held, &row);
        if (is_same != 1) return is_same;
    }
    return row == count(self, ORDER);
}

static int same_kinds(Compared *self) {
    for (Py_ssize_t i = 0, size = count(self, OWNERS); i < size; i++)
        if ((PyObject *)Py_TYPE(at(self, OWNERS, i)) != at(self, KINDS, i)) return 0;
    return 1;
}

static int same_tables(Compared *self) {
    for (Py_ssize_t i = 0, size = count(self, OBJECTS); i < size; i++) {
        PyObject *found = PyObject_GenericGetDict(at(self, OBJECTS, i), NULL);
        Py_XDECREF(found);
        if (!found) return -1;
        if (found != at(self, TABLES, i)) return 0;
    }
    return 1;
}

/* Holds a reference: a look-up can run code that frees this object. */
static PyObject *answer_of(PyObject *object, int (*const *compare)(Compared *), int num) {
    int is_same = 1;
    Py_INCREF(object);
    for (int i = 0; i < num && is_same == 1; i++) is_same = ((Compared *)object)->items ? compare[i]((Compared *)object) : 0;
    Py_DECREF(object);
    return is_same < 0 ? NULL : PyBool_FromLong(is_same);
}

#define METHOD(NAME, ...)                                             \
    static PyObject *NAME(PyObject *object, PyObject *none) {         \
        static int (*const compare[])(Compared *) = {__VA_ARGS__};    \
        (void)none;                                                   \
        return answer_of(object, compare, sizeof compare / sizeof *compare); \
    }

METHOD(is_same, same_items, same_tables, same_kinds, same_sizes, same_order)
METHOD(has_items, same_items)
METHOD(has_tables, same_tables)
METHOD(has_kinds, same_kinds)
METHOD(has_sizes, same_sizes)
METHOD(has_order, same_order)

static PyMethodDef METHODS[] = {
    {"is_same", is_same, METH_NOARGS, "Whether nothing changed."},
    {"has_items", has_items, METH_NOARGS, "Whether each container has its value at its key."},
    {"has_tables", has_tables, METH_NOARGS, "Whether each object has its ``__dict__``."},
    {"has_kinds", has_kinds, METH_NOARGS, "Whether each object has its class."},
    {"has_sizes", has_sizes, METH_NOARGS, "Whether each container has its length."},
    {"has_order", has_order, METH_NOARGS, "Whether the keys of all tables, one after another, are these."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot SLOTS[] = {
    {Py_tp_new, compared_new},         {Py_tp_dealloc, compared_free}, {Py_tp_clear, compared_clear},
    {Py_tp_traverse, compared_traverse}, {Py_tp_methods, METHODS},       {0, NULL},
};

static PyType_Spec SPEC = {"cudalens.graphs.guards._comparing.Compared", sizeof(Compared), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, SLOTS};

static int add_type(PyObject *module) {
    PyObject *type = PyType_FromModuleAndSpec(module, &SPEC, NULL);
    int failed = !type || PyModule_AddType(module, (PyTypeObject *)type) < 0;
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot MODULE_SLOTS[] = {{Py_mod_exec, add_type}, {0, NULL}};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_comparing", NULL, 0, NULL, MODULE_SLOTS, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__comparing(void) { return PyModuleDef_Init(&MODULE); }
