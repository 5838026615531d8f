/* pickle.h - reads the values of a pickle without running any code.
 *
 * A pickle is a program for a stack machine. This reader knows the opcodes that build plain values: numbers,
 * texts, lists, tuples, dictionaries. A call of a function is not executed, but becomes a value with the
 * function's name and arguments. The caller of pickle_read() decides which functions it accepts (torch.c). An
 * opcode that would import or run anything else is refused by name. The arena owns all values. A value may be
 * contained in more than one value, even in itself. One thread.
 * */
#ifndef RILLE_RUNTIME_FILE_CODEC_PICKLE_H
#define RILLE_RUNTIME_FILE_CODEC_PICKLE_H

#include "runtime/data/arena.h"

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
    PICKLE_STORED, /* an object whose data is outside the pickle; items: its description */
};
struct pickle {
    uint8_t kind; /* enum pickle_kind */
    bool tuple;   /* true: the list is a tuple */
    int32_t nitem, capacity;
    size_t n;
    union {
        int64_t integer; /* value of PICKLE_INT and PICKLE_BOOL */
        double real;
        const char *text;
    };
    struct pickle **item;
};
/* Reads a pickle of n bytes. name: name of the file for error texts. E_IO: damaged, or an unsupported opcode. */
int pickle_read(const char *name, const uint8_t *bytes, size_t n, struct arena *a, struct pickle **out);

#endif
