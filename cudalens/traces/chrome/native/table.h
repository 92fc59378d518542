/* Growing arrays, and tables that number distinct pieces of text in order of appearance. */
#ifndef CUDALENS_TABLE_H
#define CUDALENS_TABLE_H

#include <stdlib.h>
#include "lexer.h"

typedef struct {
    char *data;
    int64_t size, room; /* bytes */
} Array;

/* Append `size` bytes; returns 0 if there is no memory. */
static inline int append(Array *array, const void *bytes, int64_t size) {
    if (array->size + size > array->room) {
        int64_t room = array->room * 2 > 4096 ? array->room * 2 : 4096;
        char *data = realloc(array->data, (size_t)room);
        if (!data) return 0;
        array->data = data;
        array->room = room;
    }
    memcpy(array->data + array->size, bytes, (size_t)size);
    array->size += size;
    return 1;
}

/* A number + 1, or 0; half of the hash, so that most searches read the text that they find, and no other; and where
 * this text is, after its size as an int32_t. */
typedef struct {
    int32_t number;
    uint32_t half;
    Text at;
} Slot;

/* Where a table ended before the last slice. */
typedef struct {
    int64_t count, used, room, num_chunks;
} Mark;

typedef struct {
    Array spans;    /* Span of each number */
    Array hashes;   /* uint64_t of each number */
    Array chunks;   /* char * of each piece of memory that holds the texts */
    Slot *slots;
    int64_t num_slots, count;
    int64_t used, room; /* bytes of the last chunk */
    Mark mark;
} Table;

static inline uint64_t mixed(uint64_t a, uint64_t b) {
#if defined(__SIZEOF_INT128__)
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
#else
    uint64_t high = (a >> 32) * (b >> 32), low = (a & 0xffffffffu) * (b & 0xffffffffu);
    uint64_t middle = (a >> 32) * (b & 0xffffffffu), other = (a & 0xffffffffu) * (b >> 32);
    return (low + (middle << 32) + (other << 32)) ^ (high + (middle >> 32) + (other >> 32));
#endif
}

/* A keyed hash: without `seed`, no file can be made whose texts collide. */
static inline uint64_t hash_of(Span text, uint64_t seed) {
    uint64_t hash = seed ^ (uint64_t)text.size, word;
    Text p = text.at;
    int64_t left = text.size;
    for (; left >= 8; p += 8, left -= 8) {
        memcpy(&word, p, 8);
        hash = mixed(hash ^ word, seed | 1) + hash;
    }
    word = 0;
    memcpy(&word, p, (size_t)left);
    hash = mixed(hash ^ word, 0x9e3779b97f4a7c15u ^ seed);
    return mixed(hash, 0xa0761d6478bd642fu) ^ hash;
}

static int grow(Table *table) {
    int64_t num_slots = table->num_slots ? table->num_slots * 2 : 256;
    Slot *slots = calloc((size_t)num_slots, sizeof *slots);
    if (!slots) return 0;
    for (int64_t from = 0; from < table->num_slots; from++) {
        Slot slot = table->slots[from];
        if (!slot.number) continue;
        int64_t at = (int64_t)(((uint64_t *)table->hashes.data)[slot.number - 1] & (uint64_t)(num_slots - 1));
        while (slots[at].number) at = (at + 1) & (num_slots - 1);
        slots[at] = slot;
    }
    free(table->slots);
    table->slots = slots;
    table->num_slots = num_slots;
    return 1;
}

enum { SMALLEST_CHUNK = 1 << 12, LARGEST_CHUNK = 1 << 20 };

/* A copy of `text`, after its size, that stays until the table is released; NULL if there is no memory. */
static Text keep(Table *table, Span text) {
    int32_t size = (int32_t)text.size;
    int64_t needed = text.size + (int64_t)sizeof size;
    if (table->room - table->used < needed) {
        int64_t room = table->room ? table->room * 2 : SMALLEST_CHUNK;
        if (room > LARGEST_CHUNK) room = LARGEST_CHUNK;
        if (room < needed) room = needed;
        char *chunk = malloc((size_t)room);
        if (!chunk || !append(&table->chunks, &chunk, sizeof chunk)) {
            free(chunk);
            return NULL;
        }
        table->used = 0;
        table->room = room;
    }
    char *last = ((char **)table->chunks.data)[table->chunks.size / (int64_t)sizeof last - 1];
    memcpy(last + table->used, &size, sizeof size);
    char *copy = memcpy(last + table->used + sizeof size, text.at, (size_t)text.size);
    table->used += needed;
    return (Text)copy;
}

static inline int is_kept(Text at, Span text) {
    int32_t size;
    memcpy(&size, at - sizeof size, sizeof size);
    return size == text.size && !memcmp(at, text.at, (size_t)text.size);
}

/* The number of `text` by its hash, a new one if it is new; -1 if there is no memory. */
static inline int32_t number_by_hash(Table *table, Span text, uint64_t hash) {
    if (table->count * 2 >= table->num_slots && !grow(table)) return -1;
    int64_t at = (int64_t)(hash & (uint64_t)(table->num_slots - 1));
    for (Slot slot; (slot = table->slots[at]).number; at = (at + 1) & (table->num_slots - 1))
        if (slot.half == (uint32_t)(hash >> 32) && is_kept(slot.at, text)) return slot.number - 1;
    if (table->count == INT32_MAX || !(text.at = keep(table, text))) return -1;
    if (!append(&table->spans, &text, sizeof text) || !append(&table->hashes, &hash, sizeof hash)) return -1;
    table->slots[at] = (Slot){(int32_t)++table->count, (uint32_t)(hash >> 32), text.at};
    return (int32_t)(table->count - 1);
}

static inline int32_t number_of(Table *table, Span text, uint64_t seed) {
    return number_by_hash(table, text, hash_of(text, seed));
}

/* Read the slot of a text that is looked up soon. */
static inline void prefetch(const Table *table, uint64_t hash) {
    if (table->num_slots) __builtin_prefetch(&table->slots[hash & (uint64_t)(table->num_slots - 1)]);
}

/* The number of `key`, a new one if it is new; -1 if there is no memory. */
static inline int32_t number_of_key(Table *table, uint64_t key, uint64_t seed) {
    uint64_t hash = (key ^ key >> 32) * (seed | 1); /* one to one, so that equal hashes are equal keys */
    hash ^= hash >> 32;
    if (table->count * 2 >= table->num_slots && !grow(table)) return -1;
    int64_t at = (int64_t)(hash & (uint64_t)(table->num_slots - 1));
    for (Slot slot; (slot = table->slots[at]).number; at = (at + 1) & (table->num_slots - 1))
        if (((uint64_t *)table->hashes.data)[slot.number - 1] == hash) return slot.number - 1;
    if (!append(&table->hashes, &hash, sizeof hash)) return -1;
    table->slots[at] = (Slot){(int32_t)++table->count, (uint32_t)(hash >> 32), NULL};
    return (int32_t)(table->count - 1);
}

static void mark_table(Table *table) {
    table->mark = (Mark){table->count, table->used, table->room, table->chunks.size / (int64_t)sizeof(char *)};
}

/* Forget what was added after the last mark, the latest first, so that no search passes a slot that became free. */
static void undo_table(Table *table) {
    Mark mark = table->mark;
    char **chunks = (char **)table->chunks.data;
    int64_t last = table->num_slots - 1, num_chunks = table->chunks.size / (int64_t)sizeof *chunks;
    for (int64_t code = table->count - 1; code >= mark.count; code--) {
        int64_t at = (int64_t)(((uint64_t *)table->hashes.data)[code] & (uint64_t)last);
        while (table->slots[at].number != code + 1) at = (at + 1) & last;
        table->slots[at] = (Slot){0, 0, NULL};
    }
    while (num_chunks > mark.num_chunks) free(chunks[--num_chunks]);
    table->chunks.size = num_chunks * (int64_t)sizeof *chunks;
    table->hashes.size = mark.count * (int64_t)sizeof(uint64_t);
    table->spans.size = table->spans.size ? mark.count * (int64_t)sizeof(Span) : 0;
    table->count = mark.count;
    table->used = mark.used;
    table->room = mark.room;
}

static void release_table(Table *table) {
    for (int64_t i = 0; i < table->chunks.size / (int64_t)sizeof(char *); i++) free(((char **)table->chunks.data)[i]);
    free(table->chunks.data);
    free(table->spans.data);
    free(table->hashes.data);
    free(table->slots);
}

#endif
