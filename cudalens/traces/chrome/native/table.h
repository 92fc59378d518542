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

typedef struct {
    Array spans;    /* Span of each number */
    Array hashes;   /* uint64_t of each number */
    int32_t *slots; /* number + 1, or 0 */
    int64_t num_slots, count;
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
    int32_t *slots = calloc((size_t)num_slots, sizeof(int32_t));
    if (!slots) return 0;
    for (int64_t code = 0; code < table->count; code++) {
        int64_t at = (int64_t)(((uint64_t *)table->hashes.data)[code] & (uint64_t)(num_slots - 1));
        while (slots[at]) at = (at + 1) & (num_slots - 1);
        slots[at] = (int32_t)(code + 1);
    }
    free(table->slots);
    table->slots = slots;
    table->num_slots = num_slots;
    return 1;
}

/* The number of `text`, a new one if it is new; -1 if there is no memory. The text is not copied. */
static inline int32_t number_of(Table *table, Span text, uint64_t seed) {
    uint64_t hash = hash_of(text, seed);
    if (table->count * 2 >= table->num_slots && !grow(table)) return -1;
    int64_t at = (int64_t)(hash & (uint64_t)(table->num_slots - 1));
    for (int32_t slot; (slot = table->slots[at]); at = (at + 1) & (table->num_slots - 1)) {
        Span known = ((Span *)table->spans.data)[slot - 1];
        if (((uint64_t *)table->hashes.data)[slot - 1] == hash && known.size == text.size &&
            !memcmp(known.at, text.at, (size_t)text.size))
            return slot - 1;
    }
    if (!append(&table->spans, &text, sizeof text) || !append(&table->hashes, &hash, sizeof hash)) return -1;
    table->slots[at] = (int32_t)++table->count;
    return (int32_t)(table->count - 1);
}

/* The number of `key`, a new one if it is new; -1 if there is no memory. */
static inline int32_t number_of_key(Table *table, uint64_t key, uint64_t seed) {
    uint64_t hash = (key ^ key >> 32) * (seed | 1); /* one to one, so that equal hashes are equal keys */
    hash ^= hash >> 32;
    if (table->count * 2 >= table->num_slots && !grow(table)) return -1;
    int64_t at = (int64_t)(hash & (uint64_t)(table->num_slots - 1));
    for (int32_t slot; (slot = table->slots[at]); at = (at + 1) & (table->num_slots - 1))
        if (((uint64_t *)table->hashes.data)[slot - 1] == hash) return slot - 1;
    if (!append(&table->hashes, &hash, sizeof hash)) return -1;
    table->slots[at] = (int32_t)++table->count;
    return (int32_t)(table->count - 1);
}

static void release_table(Table *table) {
    free(table->spans.data);
    free(table->hashes.data);
    free(table->slots);
}

#endif
