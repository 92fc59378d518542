/* Reads the entries of ``traceEvents`` into columns: one pass, no Python objects.
 *
 * Whatever is not strictly typed ends the pass with NEEDS_PYTHON: the Python reader then decodes the slice. So this file
 * decides nothing about damaged or unusual input.
 */
#ifndef CUDALENS_ENTRY_H
#define CUDALENS_ENTRY_H

#include <math.h>
#include "table.h"

enum { DONE, NEEDS_PYTHON, NO_MEMORY };
enum { MAX_FIELDS = 64, KEY_SLOTS = 256 };
#define MISSING INT64_MIN
#define MAX_NS ((int64_t)1 << 62)
#define EXACT_US ((int64_t)1 << 43) /* below it a double of microseconds is exact to the nanosecond */

/* An argument to read: `kind` is 'i' integer, 'f' number, 's' text, 'j' any JSON value or 'm' integer of an allocation. */
typedef struct {
    Span key;
    char *name; /* the memory of `key` */
    char kind;
    Array rows, values; /* int32_t; int64_t, or int32_t numbers of `texts` */
    Table texts;
    int64_t value, stamp; /* of the last entry that has it */
    int64_t given, odd;   /* stamp of the last entry that has it in `given`, and with a value of another type */
    Span raw;
} Field;

/* The columns of a slice. The tables hold the distinct texts of all slices so far. */
typedef struct {
    uint64_t seed;
    int is_exact;
    Field fields[MAX_FIELDS];
    int num_fields;
    unsigned char key_slots[KEY_SLOTS]; /* number + 1, or 0 */
    unsigned char given[MAX_FIELDS];    /* numbers of the fields that the current entry has */
    int num_given;
    int64_t num_entries, num_rows, stamp;
    Array ts, dur, name, track, tracks, others;
    Array odd; /* int32_t pairs: row and number of each field of a type that only the Python reader handles */
    Array memory_ts, memory_track; /* of the allocator's instants, the rows of the fields of kind 'm' */
    Table names, labels, track_keys;
    int64_t tracks_before; /* bytes of `tracks` before the slice */
    int has_decimals, has_huge, has_long;
} Scan;

typedef struct {
    Span name, cat, pid, tid;
    int64_t ts, dur;
    char phase;        /* 0 for one of several characters */
    int is_odd;        /* of a type that only the Python reader handles */
    int is_odd_in_row; /* the same, if the entry becomes a row */
    int is_unchecked;  /* has text that is not ASCII: it is checked when a row's texts are decoded */
    int is_huge, is_long;
} Entry;

static inline unsigned key_slot(Span key) {
    unsigned first = key.at[0], last = key.at[key.size - 1];
    return ((unsigned)key.size * 31 + first * 7 + last * 13) & (KEY_SLOTS - 1);
}

static Field *field_of(Scan *scan, Span key) {
    if (!key.size) return NULL;
    for (unsigned at = key_slot(key), number; (number = scan->key_slots[at]); at = (at + 1) & (KEY_SLOTS - 1)) {
        Field *field = &scan->fields[number - 1];
        if (field->key.size == key.size && !memcmp(field->key.at, key.at, (size_t)key.size)) return field;
    }
    return NULL;
}

static inline int is_null(Text p, Text end) { return end - p >= 4 && !memcmp(p, "null", 4); }

/* The digits in [p, end), at most 18 of them; -1 if there are more. */
static int64_t digits(Text p, Text end) {
    int64_t value = 0;
    if (end - p > 18) return -1;
    while (p < end) value = value * 10 + (*p++ - '0');
    return value;
}

/* A decimal of more than three places as a double, if that is exact enough to equal Python's; rounded to ns. */
static int64_t ns_of_long(int64_t whole, Text dot, Text end) {
    static const double POWERS[] = {1,    1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9, 1e10,
                                    1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18};
    int64_t places = end - dot - 1, fraction = digits(dot + 1, end);
    if (fraction < 0 || places > 18) return MISSING;
    double scaled = (double)whole * POWERS[places] + (double)fraction;
    if (!(scaled < 9007199254740992.0) || fraction >= (int64_t)1 << 53) return MISSING;
    double us = scaled / POWERS[places], floor_us = floor(us);
    return (int64_t)floor_us * 1000 + (int64_t)rint((us - floor_us) * 1000);
}

/* Nanoseconds of the number of microseconds at p. */
static Text read_ns(Scan *scan, Text p, Text end, int64_t *ns, Entry *entry) {
    Text dot, exponent, after = read_number(p, end, &dot, &exponent);
    if (!after) return NULL;
    int is_negative = *p == '-', places = (int)(exponent - dot);
    int64_t whole = digits(p + is_negative, dot);
    scan->has_decimals |= after != dot;
    if (after != exponent || whole < 0 || whole >= MAX_NS / 1000) {
        entry->is_odd = 1;
        return after;
    }
    entry->is_huge |= whole >= EXACT_US;
    if (places > 4) { /* a dot and more than three digits */
        entry->is_long = 1;
        *ns = is_negative ? MISSING : ns_of_long(whole, dot, exponent);
        entry->is_odd |= *ns == MISSING;
        return after;
    }
    int64_t part = places ? digits(dot + 1, exponent) : 0;
    for (int i = places ? places - 1 : 3; i < 3; i++) part *= 10;
    *ns = (whole * 1000 + part) * (is_negative ? -1 : 1);
    return after;
}

/* A text, a whole number or null at p; a span without a start for null. */
static Text read_label(Text p, Text end, Span *found, Entry *entry, int may_be_number) {
    Text start = p, dot, exponent;
    String string = {0};
    found->at = NULL;
    if (p < end && *p == '"') {
        if (!(p = read_string(p, end, &string))) return NULL;
        entry->is_unchecked |= !string.is_ascii;
    } else if (is_null(p, end)) {
        return p + 4;
    } else if (may_be_number && p < end && (*p == '-' || is_digit(p, end))) {
        if (!(p = read_number(p, end, &dot, &exponent))) return NULL;
        if (p != dot || p - start > 18 || (*start == '-' && start[1] == '0')) entry->is_odd = 1;
    } else {
        entry->is_odd = 1;
        return skip_value(p, end);
    }
    found->at = start;
    found->size = p - start;
    return p;
}

/* The value of an argument. */
static Text read_argument(Scan *scan, Field *field, Text p, Text end) {
    Text start = p, dot, exponent;
    String string;
    int is_new = field->given != scan->stamp;
    if (is_new) scan->given[scan->num_given++] = (unsigned char)(field - scan->fields);
    field->given = scan->stamp;
    field->stamp = 0;
    if (field->kind != 'j' && is_null(p, end)) return p + 4;
    if (field->kind == 'j') {
        p = skip_value(p, end);
    } else if (field->kind == 's') {
        if (p >= end || *p != '"') {
            field->odd = scan->stamp;
            return skip_value(p, end);
        }
        p = read_string(p, end, &string);
    } else {
        if (p >= end || !(*p == '-' || is_digit(p, end))) {
            field->odd = scan->stamp;
            return skip_value(p, end);
        }
        if (!(p = read_number(p, end, &dot, &exponent))) return NULL;
        if (field->kind == 'i' || field->kind == 'm') {
            int is_negative = *start == '-';
            field->value = digits(start + is_negative, dot);
            if (p != dot || field->value < 0) field->odd = scan->stamp;
            if (is_negative) field->value = -field->value;
        }
    }
    if (!p) return NULL;
    field->raw.at = start;
    field->raw.size = p - start;
    field->stamp = scan->stamp;
    return p;
}

static Text read_arguments(Scan *scan, Text p, Text end, Entry *entry) {
    String key;
    scan->stamp++;
    scan->num_given = 0;
    if (p >= end || *p != '{') {
        entry->is_odd_in_row = 1;
        return skip_value(p, end);
    }
    p = skip_space(p + 1, end);
    if (p < end && *p == '}') return p + 1;
    for (;;) {
        if (!(p = read_key(p, end, &key))) return NULL;
        if (key.has_escape) entry->is_odd_in_row = 1;
        Field *field = field_of(scan, key.inner);
        p = field ? read_argument(scan, field, p, end) : skip_value(p, end);
        if (!p) return NULL;
        p = skip_space(p, end);
        if (p >= end) return NULL;
        if (*p == '}') return p + 1;
        if (*p != ',') return NULL;
        p = skip_space(p + 1, end);
    }
}

static inline int is_key(const String *key, const char *text, int64_t size) {
    return key->inner.size == size && !memcmp(key->inner.at, text, (size_t)size);
}

/* The value of a key of an entry. */
static Text read_value(Scan *scan, const String *key, Text p, Text end, Entry *entry) {
    String string;
    Span ignored;
    if (is_key(key, "ph", 2)) {
        entry->phase = 0;
        if (p >= end || *p != '"') {
            entry->is_odd = 1;
            return skip_value(p, end);
        }
        if (!(p = read_string(p, end, &string))) return NULL;
        if (string.inner.size == 1) entry->phase = (char)string.inner.at[0];
        return p;
    }
    if (is_key(key, "ts", 2) || is_key(key, "dur", 3)) {
        int64_t *ns = key->inner.size == 2 ? &entry->ts : &entry->dur;
        if (p < end && (*p == '-' || is_digit(p, end))) return read_ns(scan, p, end, ns, entry);
        entry->is_odd = 1;
        return skip_value(p, end);
    }
    if (is_key(key, "name", 4)) {
        if (is_null(p, end)) entry->is_odd = 1;
        return read_label(p, end, &entry->name, entry, 0);
    }
    if (is_key(key, "cat", 3)) return read_label(p, end, &entry->cat, entry, 0);
    if (is_key(key, "pid", 3)) return read_label(p, end, &entry->pid, entry, 1);
    if (is_key(key, "tid", 3)) return read_label(p, end, &entry->tid, entry, 1);
    if (is_key(key, "args", 4)) return read_arguments(scan, p, end, entry);
    if (is_key(key, "id", 2) || is_key(key, "scope", 5)) {
        int before = entry->is_unchecked;
        entry->is_unchecked = 0;
        Text after = read_label(p, end, &ignored, entry, key->inner.size == 2);
        entry->is_odd |= entry->is_unchecked; /* it is not decoded later */
        entry->is_unchecked = before;
        return after;
    }
    if (is_key(key, "id2", 3) && !is_null(p, end)) entry->is_odd = 1;
    return skip_value(p, end);
}

static int32_t label_number(Scan *scan, Span label) {
    return label.at ? number_of(&scan->labels, label, scan->seed) : -2;
}

/* The number of the entry's combination of category, process and thread; -1 if there is no memory. */
static int32_t track_of(Scan *scan, const Entry *entry) {
    int32_t triple[3] = {label_number(scan, entry->cat), label_number(scan, entry->pid), label_number(scan, entry->tid)};
    uint64_t key = 0;
    for (int i = 0; i < 3; i++) {
        if (triple[i] == -1) return -1;
        if (triple[i] >= (1 << 21) - 2) return -2;
        key = key << 21 | (uint64_t)(triple[i] + 2);
    }
    int32_t number = number_of_key(&scan->track_keys, key, scan->seed);
    if (number == scan->tracks.size / (int64_t)sizeof triple && !append(&scan->tracks, triple, sizeof triple)) return -1;
    return number;
}

static int add_arguments(Scan *scan, int32_t row, int is_memory) {
    for (int i = 0; i < scan->num_given; i++) {
        Field *field = &scan->fields[scan->given[i]];
        if ((field->kind == 'm') != is_memory) continue;
        if (field->odd == scan->stamp) {
            int32_t pair[2] = {row, scan->given[i]};
            if (is_memory) return NEEDS_PYTHON;
            if (!append(&scan->odd, pair, sizeof pair)) return NO_MEMORY;
            continue;
        }
        if (field->stamp != scan->stamp) continue;
        if (!append(&field->rows, &row, sizeof row)) return NO_MEMORY;
        if (field->kind == 'i' || is_memory) {
            if (!append(&field->values, &field->value, sizeof field->value)) return NO_MEMORY;
        } else {
            int32_t number = number_of(&field->texts, field->raw, scan->seed);
            if (number < 0 || !append(&field->values, &number, sizeof number)) return NO_MEMORY;
        }
    }
    return DONE;
}

static int add_row(Scan *scan, const Entry *entry, int has_arguments) {
    static const unsigned char EMPTY[] = "\"\"";
    Span name = entry->name.at ? entry->name : (Span){EMPTY, 2};
    int32_t name_number = number_of(&scan->names, name, scan->seed), track = track_of(scan, entry);
    if (track == -2) return NEEDS_PYTHON;
    if (name_number < 0 || track < 0 || !append(&scan->ts, &entry->ts, 8) || !append(&scan->dur, &entry->dur, 8) ||
        !append(&scan->name, &name_number, 4) || !append(&scan->track, &track, 4))
        return NO_MEMORY;
    int32_t row = (int32_t)scan->num_rows++;
    return has_arguments ? add_arguments(scan, row, 0) : DONE;
}

static int is_allocation(const Entry *entry) {
    static const char NAME[] = "\"[memory]\"";
    return entry->phase == 'i' && entry->name.at && entry->name.size == sizeof NAME - 1 &&
           !memcmp(entry->name.at, NAME, sizeof NAME - 1);
}

static int add_allocation(Scan *scan, const Entry *entry, int has_arguments) {
    int32_t track = track_of(scan, entry), row = (int32_t)(scan->memory_ts.size / 8);
    if (track == -2 || entry->ts == MISSING) return NEEDS_PYTHON;
    if (track < 0 || !append(&scan->memory_ts, &entry->ts, 8) || !append(&scan->memory_track, &track, 4))
        return NO_MEMORY;
    return has_arguments ? add_arguments(scan, row, 1) : DONE;
}

static int add_entry(Scan *scan, const Entry *entry, Text start, Text end, Text base, int64_t stamp_before) {
    scan->num_entries++;
    int is_flow = entry->phase == 's' || entry->phase == 't' || entry->phase == 'f';
    int is_memory = is_allocation(entry), has_arguments = scan->stamp != stamp_before;
    if (entry->phase == 'X' || is_memory) {
        if (entry->is_odd || entry->is_odd_in_row) return NEEDS_PYTHON;
        scan->has_huge |= entry->is_huge;
        scan->has_long |= entry->is_long;
        return is_memory ? add_allocation(scan, entry, has_arguments) : add_row(scan, entry, has_arguments);
    }
    if (is_flow) return entry->is_odd || entry->is_unchecked ? NEEDS_PYTHON : DONE;
    int64_t span[2] = {start - base, end - base};
    return append(&scan->others, span, sizeof span) ? DONE : NO_MEMORY;
}

/* The entry that begins at p, an object; `*status` is not DONE if it cannot be added. */
static Text read_entry(Scan *scan, Text p, Text end, Text base, int *status) {
    Entry entry = {.ts = MISSING, .dur = MISSING};
    Text start = p;
    String key;
    int64_t stamp = scan->stamp;
    *status = NEEDS_PYTHON;
    if (p >= end || *p != '{') return NULL;
    p = skip_space(p + 1, end);
    if (p < end && *p == '}') {
        p++;
    } else {
        for (;;) {
            if (!(p = read_key(p, end, &key))) return NULL;
            if (key.has_escape) return NULL;
            if (!(p = read_value(scan, &key, p, end, &entry))) return NULL;
            p = skip_space(p, end);
            if (p >= end) return NULL;
            if (*p == '}') break;
            if (*p != ',') return NULL;
            p = skip_space(p + 1, end);
        }
        p++;
    }
    *status = add_entry(scan, &entry, start, p, base, stamp);
    return *status == DONE ? p : NULL;
}

/* Empty the columns, and mark where the tables end. */
static void begin_slice(Scan *scan) {
    Array *columns[] = {&scan->ts,     &scan->dur, &scan->name,      &scan->track,
                        &scan->others, &scan->odd, &scan->memory_ts, &scan->memory_track};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) columns[i]->size = 0;
    for (int i = 0; i < scan->num_fields; i++) {
        Field *field = &scan->fields[i];
        field->rows.size = field->values.size = field->stamp = field->given = field->odd = 0;
        mark_table(&field->texts);
    }
    mark_table(&scan->names);
    mark_table(&scan->labels);
    mark_table(&scan->track_keys);
    scan->tracks_before = scan->tracks.size;
    scan->num_entries = scan->num_rows = scan->stamp = scan->num_given = 0;
    scan->has_decimals = scan->has_huge = scan->has_long = 0;
}

/* Forget the texts that the last slice added. */
static void undo_slice(Scan *scan) {
    for (int i = 0; i < scan->num_fields; i++) undo_table(&scan->fields[i].texts);
    undo_table(&scan->names);
    undo_table(&scan->labels);
    undo_table(&scan->track_keys);
    scan->tracks.size = scan->tracks_before;
}

/* All entries of a slice, the contents of a JSON list. */
static int read_slice(Scan *scan, Text base, Text end) {
    int status = NEEDS_PYTHON;
    Text p = skip_space(base, end);
    if (p == end) return NEEDS_PYTHON;
    for (;;) {
        if (!(p = read_entry(scan, p, end, base, &status))) return status;
        p = skip_space(p, end);
        if (p == end) break;
        if (*p != ',') return NEEDS_PYTHON;
        p = skip_space(p + 1, end);
    }
    return scan->has_long && (scan->is_exact || scan->has_huge) ? NEEDS_PYTHON : DONE;
}

#endif
