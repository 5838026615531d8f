/* pickle.h - reads the values of a pickle without running any code.
 *
 * A pickle is a program for a stack machine. This reader knows the opcodes that build plain values: numbers, texts,
 * lists, tuples, dictionaries. A call of a function is stored, not made: its value has the function's name and its
 * arguments, and the caller decides which functions it knows (torch.c). An opcode that would import or run anything
 * else is refused by name. The arena owns all values. Values may share parts, and may contain themselves. One thread.
 */
#ifndef RILLE_RUNTIME_FILE_PICKLE_H
#define RILLE_RUNTIME_FILE_PICKLE_H

#include "runtime/base/arena.h"

enum pickle_kind {
    PICKLE_NONE,
    PICKLE_BOOL,
    PICKLE_INT,
    PICKLE_FLOAT,
    PICKLE_TEXT,   /* text, which ends with a zero byte; n: its length */
    PICKLE_LIST,   /* items; also a tuple */
    PICKLE_DICT,   /* items: key, value, key, value... */
    PICKLE_GLOBAL, /* text: name of a function, a class or a value: "collections.OrderedDict" */
    PICKLE_CALL,   /* text: name of the function; items: its arguments */
    PICKLE_STORED, /* an object that is stored beside the pickle; items: its description */
};
struct pickle {
    uint8_t kind; /* enum pickle_kind */
    bool tuple;   /* the list is a tuple */
    int32_t nitem, capacity;
    size_t n;
    union {
        int64_t integer; /* also of PICKLE_BOOL */
        double real;
        const char *text;
    };
    struct pickle **item;
};
/* Reads a pickle of n bytes. name: name of the file for error texts. E_IO: damaged, or an unsupported opcode. */
int pickle_read(const char *name, const uint8_t *bytes, size_t n, struct arena *a, struct pickle **out);

#endif
