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
enum { MAX_FIELDS = 64, KEY_SLOTS = 256, MAX_SPELLINGS = 128, SPELLING_WORDS = 4, NUM_RECENT = 8 };
#define MISSING INT64_MIN
#define MAX_NS ((int64_t)1 << 62)
#define EXACT_US ((int64_t)1 << 43) /* below it a double of microseconds is exact to the nanosecond */

/* An argument to read: `kind` is 'i' integer, 'f' number, 's' text, 'j' any JSON value or 'm' integer of an allocation. */
typedef struct {
    Span key;
    char *name; /* the memory of `key` */
    char kind;
    Array rows, values; /* int32_t; int64_t, float, or int32_t numbers of `texts` */
    Table texts;
    float number; /* of the last entry that has it, as are the following */
    int64_t value, stamp;
    int64_t given, odd;   /* stamp of the last entry that has it in `given`, and with a value of another type */
    Span raw;
} Field;

/* The keys of an entry that are read. */
typedef enum { OTHER, PHASE, TS, DUR, NAME, CAT, PID, TID, ARGS, ID, SCOPE, ID2 } Role;

/* A key as the file writes it: with its quotes, its colon and the space after that. A file has few of them, and mostly
 * in the same order, so `next`, the one that came after it the last time, is tried first. */
typedef struct Spelling {
    uint64_t words[SPELLING_WORDS], mask[SPELLING_WORDS]; /* the text, and which of its bytes are compared */
    int size;
    int has_escape;
    Role role;    /* as a key of an entry */
    Field *field; /* as a key of arguments, or NULL */
    struct Spelling *next;
} Spelling;

/* The labels of an entry of this slice, and their number. */
typedef struct {
    Span cat, pid, tid;
    int32_t number;
} Track;

/* The columns of a slice. The tables hold the distinct texts of all slices so far. */
typedef struct {
    uint64_t seed;
    int is_exact;
    Field fields[MAX_FIELDS];
    int num_fields;
    unsigned char key_slots[KEY_SLOTS]; /* number + 1, or 0 */
    Spelling spellings[MAX_SPELLINGS], unusual, first_key, first_argument;
    unsigned char spelling_slots[KEY_SLOTS]; /* number + 1, or 0 */
    int num_spellings;
    unsigned char given[MAX_FIELDS];    /* numbers of the fields that the current entry has */
    int num_given;
    int64_t num_entries, num_rows, stamp;
    Array ts, dur, name, track, tracks, others;
    Array odd; /* int32_t pairs: row and number of each field of a type that only the Python reader handles */
    Array memory_ts, memory_track; /* of the allocator's instants, the rows of the fields of kind 'm' */
    Table names, labels, track_keys;
    Track recent[NUM_RECENT];
    int64_t tracks_before; /* bytes of `tracks` before the slice */
    int has_decimals, has_huge, has_long;
} Scan;

typedef struct {
    Span name, cat, pid, tid;
    uint64_t name_hash;
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

static Role role_of(Span key) {
    static const struct { const char *key; Role role; } KEYS[] = {
        {"ph", PHASE}, {"ts", TS},     {"dur", DUR}, {"name", NAME},   {"cat", CAT}, {"pid", PID},
        {"tid", TID},  {"args", ARGS}, {"id", ID},   {"scope", SCOPE}, {"id2", ID2},
    };
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++)
        if (key.size == (int64_t)strlen(KEYS[i].key) && !memcmp(key.at, KEYS[i].key, (size_t)key.size))
            return KEYS[i].role;
    return OTHER;
}

/* Whether the text at p, of at least the size of `words`, begins with `spelling`. */
static inline int is_spelled(const Spelling *spelling, Text p) {
    uint64_t words[SPELLING_WORDS], differs = 0;
    memcpy(words, p, sizeof words);
    for (int i = 0; i < SPELLING_WORDS; i++) differs |= (words[i] ^ spelling->words[i]) & spelling->mask[i];
    return !differs;
}

static void set_spelling(Scan *scan, Spelling *spelling, Span text, const String *key) {
    memset(spelling, 0, sizeof *spelling);
    spelling->has_escape = key->has_escape;
    spelling->role = role_of(key->inner);
    spelling->field = field_of(scan, key->inner);
    spelling->next = &scan->unusual;
    if (text.size > (int64_t)sizeof spelling->words) return;
    spelling->size = (int)text.size;
    memcpy(spelling->words, text.at, (size_t)text.size);
    memset(spelling->mask, 255, (size_t)text.size);
}

/* The spelling of the key in `text`, a new one if it is new; `unusual` if it is long or there are many. */
static Spelling *spelling_of(Scan *scan, Span text, const String *key) {
    unsigned at = key_slot(text);
    for (unsigned number; (number = scan->spelling_slots[at]); at = (at + 1) & (KEY_SLOTS - 1)) {
        Spelling *known = &scan->spellings[number - 1];
        if (known->size == text.size && !memcmp(known->words, text.at, (size_t)text.size)) return known;
    }
    int is_usual = scan->num_spellings < MAX_SPELLINGS && text.size <= (int64_t)sizeof scan->unusual.words;
    Spelling *found = is_usual ? &scan->spellings[scan->num_spellings++] : &scan->unusual;
    if (is_usual) scan->spelling_slots[at] = (unsigned char)scan->num_spellings;
    set_spelling(scan, found, text, key);
    return found;
}

/* The key at p, its colon and the space after that; `*key` is the key before it, and becomes this one. */
static inline Text read_spelling(Scan *scan, Text p, Text end, Spelling **key) {
    Spelling *before = *key, *next = before->next;
    if (next->size && end - p >= (int64_t)sizeof next->words && is_spelled(next, p)) {
        *key = next;
        return skip_space(p + next->size, end);
    }
    String string;
    Text after = read_key(p, end, &string);
    if (after) before->next = *key = spelling_of(scan, (Span){p, after - p}, &string);
    return after;
}

static inline int is_integer(const Number *number) { return !number->places && !number->has_exponent; }

static inline int is_null(Text p, Text end) { return end - p >= 4 && !memcmp(p, "null", 4); }

/* Powers of ten that a double holds exactly. */
static const double POWERS[] = {1,    1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* The number in single precision, as Python rounds it: to a double, and that to a float; 0 if it is left to Python. */
static int read_float(const Number *number, float *value) {
    if (number->whole < 0 || number->part < 0 || number->exponent < 0 || number->exponent > 22) return 0;
    double digits = (double)number->whole * POWERS[number->places] + (double)number->part;
    double scale = POWERS[number->exponent], exact = digits / POWERS[number->places];
    if (!(digits < 9007199254740992.0) || number->exponent) {
        /* At most five roundings from the exact value: one float if the bounds of the error have the same. */
        double about = (double)number->whole + (double)number->part / POWERS[number->places];
        about = number->is_small ? about / scale : about * scale;
        exact = about * (1 - 0x1p-49);
        if ((float)exact != (float)(about * (1 + 0x1p-49))) return 0;
    }
    *value = (float)(number->is_negative ? -exact : exact);
    return 1;
}

/* A number of microseconds as a double, if that is exact enough to equal Python's; rounded to ns. */
static int64_t ns_of_long(const Number *us) {
    if (us->part < 0) return MISSING;
    double scaled = (double)us->whole * POWERS[us->places] + (double)us->part;
    if (!(scaled < 9007199254740992.0) || us->part >= (int64_t)1 << 53) return MISSING;
    double value = scaled / POWERS[us->places], whole = floor(value);
    return (int64_t)whole * 1000 + (int64_t)rint((value - whole) * 1000);
}

/* Nanoseconds of the number of microseconds at p. */
static Text read_ns(Scan *scan, Text p, Text end, int64_t *ns, Entry *entry) {
    static const int SCALES[] = {1000, 100, 10, 1};
    Number us;
    if (!(p = read_number(p, end, &us))) return NULL;
    scan->has_decimals |= us.places || us.has_exponent;
    if (us.has_exponent || us.whole < 0 || us.whole >= MAX_NS / 1000) {
        entry->is_odd = 1;
        return p;
    }
    entry->is_huge |= us.whole >= EXACT_US;
    if (us.places > 3) {
        entry->is_long = 1;
        *ns = us.is_negative ? MISSING : ns_of_long(&us);
        entry->is_odd |= *ns == MISSING;
        return p;
    }
    *ns = us.whole * 1000 + us.part * SCALES[us.places];
    if (us.is_negative) *ns = -*ns;
    return p;
}

/* A text, a whole number or null at p; a span without a start for null. */
static Text read_label(Text p, Text end, Span *found, Entry *entry, int may_be_number) {
    Text start = p;
    String string = {0};
    Number number;
    found->at = NULL;
    if (p < end && *p == '"') {
        if (!(p = read_string(p, end, &string))) return NULL;
        entry->is_unchecked |= !string.is_ascii;
    } else if (is_null(p, end)) {
        return p + 4;
    } else if (may_be_number && p < end && (*p == '-' || is_digit(p, end))) {
        if (!(p = read_number(p, end, &number))) return NULL;
        if (!is_integer(&number) || p - start > 18 || (number.is_negative && !number.whole)) entry->is_odd = 1;
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
    Text start = p;
    String string;
    Number number;
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
        if (!(p = read_number(p, end, &number))) return NULL;
        if (field->kind == 'i' || field->kind == 'm') {
            if (!is_integer(&number) || number.whole < 0) field->odd = scan->stamp;
            field->value = number.is_negative ? -number.whole : number.whole;
        } else if (!read_float(&number, &field->number)) {
            field->odd = scan->stamp;
        }
    }
    if (!p) return NULL;
    field->raw.at = start;
    field->raw.size = p - start;
    field->stamp = scan->stamp;
    return p;
}

static Text read_arguments(Scan *scan, Text p, Text end, Entry *entry) {
    scan->stamp++;
    scan->num_given = 0;
    if (p >= end || *p != '{') {
        entry->is_odd_in_row = 1;
        return skip_value(p, end);
    }
    p = skip_space(p + 1, end);
    if (p < end && *p == '}') return p + 1;
    for (Spelling *key = &scan->first_argument;;) {
        if (!(p = read_spelling(scan, p, end, &key))) return NULL;
        if (key->has_escape) entry->is_odd_in_row = 1;
        p = key->field ? read_argument(scan, key->field, p, end) : skip_value(p, end);
        if (!p) return NULL;
        p = skip_space(p, end);
        if (p >= end) return NULL;
        if (*p == '}') return p + 1;
        if (*p != ',') return NULL;
        p = skip_space(p + 1, end);
    }
}

static Text read_phase(Text p, Text end, Entry *entry) {
    String string;
    entry->phase = 0;
    if (p >= end || *p != '"') {
        entry->is_odd = 1;
        return skip_value(p, end);
    }
    if (!(p = read_string(p, end, &string))) return NULL;
    if (string.inner.size == 1) entry->phase = (char)string.inner.at[0];
    return p;
}

/* A label that is not decoded later. */
static Text read_checked_label(Text p, Text end, Entry *entry, int may_be_number) {
    Span ignored;
    int before = entry->is_unchecked;
    entry->is_unchecked = 0;
    Text after = read_label(p, end, &ignored, entry, may_be_number);
    entry->is_odd |= entry->is_unchecked;
    entry->is_unchecked = before;
    return after;
}

static Text read_name(Scan *scan, Text p, Text end, Entry *entry) {
    if (is_null(p, end)) entry->is_odd = 1;
    p = read_label(p, end, &entry->name, entry, 0);
    if (p && entry->name.at) {
        entry->name_hash = hash_of(entry->name, scan->seed);
        prefetch(&scan->names, entry->name_hash);
    }
    return p;
}

/* The value of a key of an entry. */
static Text read_value(Scan *scan, Role role, Text p, Text end, Entry *entry) {
    switch (role) {
    case PHASE: return read_phase(p, end, entry);
    case TS:
    case DUR:
        if (p < end && (*p == '-' || is_digit(p, end)))
            return read_ns(scan, p, end, role == TS ? &entry->ts : &entry->dur, entry);
        entry->is_odd = 1;
        return skip_value(p, end);
    case NAME:
        return read_name(scan, p, end, entry);
    case CAT: return read_label(p, end, &entry->cat, entry, 0);
    case PID: return read_label(p, end, &entry->pid, entry, 1);
    case TID: return read_label(p, end, &entry->tid, entry, 1);
    case ARGS: return read_arguments(scan, p, end, entry);
    case ID:
    case SCOPE: return read_checked_label(p, end, entry, role == ID);
    case ID2:
        if (!is_null(p, end)) entry->is_odd = 1;
        return skip_value(p, end);
    default: return skip_value(p, end);
    }
}

static int32_t label_number(Scan *scan, Span label) {
    return label.at ? number_of(&scan->labels, label, scan->seed) : -2;
}

static inline int is_same(Span a, Span b) {
    return a.size == b.size && !memcmp(a.at, b.at, (size_t)a.size);
}

static int32_t new_track_of(Scan *scan, const Entry *entry) {
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

/* The number of the entry's combination of category, process and thread; -1 if there is no memory, -2 if there are too
 * many labels. */
static int32_t track_of(Scan *scan, const Entry *entry) {
    if (!entry->cat.at || !entry->pid.at || !entry->tid.at) return new_track_of(scan, entry);
    unsigned last = entry->tid.at[entry->tid.size - 1];
    Track *recent = &scan->recent[((unsigned)entry->cat.size ^ last) & (NUM_RECENT - 1)];
    if (recent->cat.at && is_same(recent->tid, entry->tid) && is_same(recent->pid, entry->pid) &&
        is_same(recent->cat, entry->cat))
        return recent->number;
    int32_t number = new_track_of(scan, entry);
    if (number >= 0) *recent = (Track){entry->cat, entry->pid, entry->tid, number};
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
        } else if (field->kind == 'f') {
            if (!append(&field->values, &field->number, sizeof field->number)) return NO_MEMORY;
        } else {
            int32_t number = number_of(&field->texts, field->raw, scan->seed);
            if (number < 0 || !append(&field->values, &number, sizeof number)) return NO_MEMORY;
        }
    }
    return DONE;
}

static int add_row(Scan *scan, const Entry *entry, int has_arguments) {
    static const unsigned char EMPTY[] = "\"\"";
    int32_t name_number = entry->name.at ? number_by_hash(&scan->names, entry->name, entry->name_hash)
                                         : number_of(&scan->names, (Span){EMPTY, 2}, scan->seed);
    int32_t track = track_of(scan, entry);
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
    Entry entry;
    entry.name.at = entry.cat.at = entry.pid.at = entry.tid.at = NULL;
    entry.ts = entry.dur = MISSING;
    entry.phase = 0;
    entry.is_odd = entry.is_odd_in_row = entry.is_unchecked = entry.is_huge = entry.is_long = 0;
    Text start = p;
    int64_t stamp = scan->stamp;
    *status = NEEDS_PYTHON;
    if (p >= end || *p != '{') return NULL;
    p = skip_space(p + 1, end);
    if (p < end && *p == '}') {
        p++;
    } else {
        for (Spelling *key = &scan->first_key;;) {
            if (!(p = read_spelling(scan, p, end, &key))) return NULL;
            if (key->has_escape) return NULL;
            if (!(p = read_value(scan, key->role, p, end, &entry))) return NULL;
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
    memset(scan->recent, 0, sizeof scan->recent);
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
