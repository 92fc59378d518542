/* Strict JSON lexing within [p, end). Each function returns the position after what it read, or NULL.
 *
 * NULL means that the text is not strict JSON, or that it is left to the Python reader. Nothing is read at or beyond
 * `end`. There is no recursion.
 */
#ifndef CUDALENS_LEXER_H
#define CUDALENS_LEXER_H

#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

typedef const unsigned char *Text;

/* A piece of the text. `at` is NULL if there is none. */
typedef struct {
    Text at;
    int64_t size;
} Span;

/* A string's contents, without its quotes. */
typedef struct {
    Span inner;
    int has_escape, is_ascii;
} String;

enum { MAX_DEPTH = 64 };

static inline Text skip_space(Text p, Text end) {
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) p++;
    return p;
}

static inline int is_digit(Text p, Text end) { return p < end && *p >= '0' && *p <= '9'; }

/* The first quote, backslash or control character at or after p; ORs the bytes before it into `bits`. */
static inline Text plain_characters(Text p, Text end, unsigned *bits) {
#if defined(__SSE2__)
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'), control = _mm_set1_epi8(0x1f);
    while (end - p >= 16) {
        __m128i found, block = _mm_loadu_si128((const __m128i *)p);
        found = _mm_or_si128(_mm_cmpeq_epi8(block, quote), _mm_cmpeq_epi8(block, slash));
        found = _mm_or_si128(found, _mm_cmpeq_epi8(_mm_min_epu8(block, control), block));
        unsigned at = (unsigned)_mm_movemask_epi8(found), high = (unsigned)_mm_movemask_epi8(block);
        if (at) {
            unsigned first = (unsigned)__builtin_ctz(at);
            if (high & ((1u << first) - 1)) *bits |= 0x80;
            return p + first;
        }
        if (high) *bits |= 0x80;
        p += 16;
    }
#endif
    while (p < end && *p != '"' && *p != '\\' && *p >= 0x20) *bits |= *p++;
    return p;
}

static inline int hex_digit(unsigned char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The escape at p, a backslash. Surrogates are left to Python. */
static Text escape(Text p, Text end) {
    if (end - p < 2) return NULL;
    if (p[1] != 'u') return memchr("\"\\/bfnrt", p[1], 8) ? p + 2 : NULL;
    if (end - p < 6) return NULL;
    int code = 0;
    for (int i = 2; i < 6; i++) {
        int digit = hex_digit(p[i]);
        if (digit < 0) return NULL;
        code = code * 16 + digit;
    }
    return code >= 0xd800 && code < 0xe000 ? NULL : p + 6;
}

/* The string that begins at p, a quote. */
static Text read_string(Text p, Text end, String *found) {
    unsigned bits = 0;
    found->inner.at = ++p;
    found->has_escape = 0;
    for (;;) {
        p = plain_characters(p, end, &bits);
        if (p >= end || *p < 0x20) return NULL;
        if (*p == '"') break;
        found->has_escape = 1;
        if (!(p = escape(p, end))) return NULL;
    }
    found->inner.size = p - found->inner.at;
    found->is_ascii = !(bits & 0x80);
    return p + 1;
}

/* A number as it is written.
 *
 * `whole` and `part` are the digits before and after the dot as integers, -1 if there are more than 18; `places` is the
 * number of digits after the dot, and `exponent` -1 if it has more than 18 digits.
 */
typedef struct {
    int64_t whole, part, places, exponent;
    int is_negative, has_exponent, is_small; /* `is_small`: the exponent is negative */
} Number;

/* The digits at p as an integer, -1 if there are more than 18. */
static inline Text read_digits(Text p, Text end, int64_t *value) {
    Text start = p;
    uint64_t found = 0;
    while (is_digit(p, end)) found = found * 10 + (uint64_t)(*p++ - '0');
    *value = p - start > 18 ? -1 : (int64_t)found;
    return p;
}

static inline Text read_number(Text p, Text end, Number *number) {
    *number = (Number){0};
    if (p < end && *p == '-') {
        number->is_negative = 1;
        p++;
    }
    Text start = p;
    p = read_digits(p, end, &number->whole);
    if (p == start || (*start == '0' && p - start > 1)) return NULL;
    if (p < end && *p == '.') {
        start = ++p;
        p = read_digits(p, end, &number->part);
        if (!(number->places = p - start)) return NULL;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        number->has_exponent = 1;
        p++;
        if (p < end && (*p == '+' || *p == '-')) number->is_small = *p++ == '-';
        start = p;
        if ((p = read_digits(p, end, &number->exponent)) == start) return NULL;
    }
    return p;
}

static Text read_word(Text p, Text end, const char *word, int size) {
    return end - p >= size && !memcmp(p, word, (size_t)size) ? p + size : NULL;
}

/* A number, string, true, false or null at p. */
static Text skip_scalar(Text p, Text end) {
    String string;
    Number number;
    if (p >= end) return NULL;
    switch (*p) {
    case '"': return read_string(p, end, &string);
    case 't': return read_word(p, end, "true", 4);
    case 'f': return read_word(p, end, "false", 5);
    case 'n': return read_word(p, end, "null", 4);
    default: return read_number(p, end, &number);
    }
}

/* A key and its colon. */
static Text read_key(Text p, Text end, String *key) {
    if (p >= end || *p != '"' || !(p = read_string(p, end, key))) return NULL;
    p = skip_space(p, end);
    return p < end && *p == ':' ? skip_space(p + 1, end) : NULL;
}

/* The JSON value at p, of any kind. */
static Text skip_value(Text p, Text end) {
    uint64_t is_object = 0; /* a bit for each open bracket */
    int depth = 0;
    String key;
    for (;;) {
        if (p < end && (*p == '{' || *p == '[')) {
            unsigned char close = *p == '{' ? '}' : ']';
            if (depth == MAX_DEPTH) return NULL;
            is_object = is_object << 1 | (*p == '{');
            depth++;
            p = skip_space(p + 1, end);
            if (p >= end) return NULL;
            if (*p != close) {
                if (close == '}' && !(p = read_key(p, end, &key))) return NULL;
                continue;
            }
            p++;
            depth--;
            is_object >>= 1;
        } else if (!(p = skip_scalar(p, end))) {
            return NULL;
        }
        for (;;) { /* after a value */
            if (!depth) return p;
            p = skip_space(p, end);
            if (p >= end) return NULL;
            if (*p == ',') {
                p = skip_space(p + 1, end);
                if ((is_object & 1) && !(p = read_key(p, end, &key))) return NULL;
                break;
            }
            if (*p != ((is_object & 1) ? '}' : ']')) return NULL;
            p++;
            depth--;
            is_object >>= 1;
        }
    }
}

#endif
