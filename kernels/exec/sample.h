/* sample.h - parses a sample of an operator's record, like "f32{4,6} #2.5 - i64{5}<7 axis=0", into a call.
 *
 * Used by the tests that iterate over the operators, and by the pages about operators. The caller owns the sample; any
 * thread. */
#ifndef RILLE_KERNELS_SAMPLE_H
#define RILLE_KERNELS_SAMPLE_H

#include "kernels/op/base/body.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLE_IN = 64 };

struct sample {
    struct call call;
    struct type in[SAMPLE_IN], out[OP_OUT];
    struct attr attr[OP_ATTR];
    double number[SAMPLE_IN]; /* value of each operand that is a number */
    int64_t below[SAMPLE_IN]; /* exclusive upper bound of the operand's values, as in "i64{5}<7"; 0: none */
    /* lower bound of the operand's values, as in "f32{4}>0.5"; inclusive for integers, else exclusive; 0: none */
    double above[SAMPLE_IN];
};

/* Parses a type like "f32{4,6}". Returns the text after the type; NULL: the text is not a type. */
static inline const char *
sample_type(const char *text, struct type *t)
{
    char name[8] = "";
    size_t n = strcspn(text, "{ ");
    if (text[n] != '{' || n >= sizeof name) return NULL;
    memcpy(name, text, n);
    *t = (struct type){.dtype = (uint8_t)dtype_parse(name)};
    if (t->dtype == DT_NONE) return NULL;
    for (text += n + 1; *text && *text != '}'; text += *text == ',' || *text == ' ') {
        char *end;
        if (t->ndim == MAX_DIM) return NULL;
        t->dim[t->ndim++] = strtoll(text, &end, 10);
        if (end == text || t->dim[t->ndim - 1] < 0) return NULL;
        text = end;
    }
    return *text == '}' ? text + 1 : NULL;
}

static inline const char *
sample_operand(const char *text, struct sample *s)
{
    if (s->call.nin == SAMPLE_IN) return NULL;
    int k = s->call.nin++;
    struct type *t = &s->in[k];
    *t = (struct type){0};
    if (*text == '-' && (text[1] == ' ' || !text[1])) return text + 1;
    if (*text != '#') {
        text = sample_type(text, t);
        if (text && *text == '<') s->below[k] = strtoll(text + 1, (char **)&text, 10);
        if (text && *text == '>') s->above[k] = strtod(text + 1, (char **)&text);
        return text;
    }
    bool real = memchr(text, '.', strcspn(text, " ")) != NULL;
    *t = (struct type){.dtype = real ? DT_F64 : DT_I64, .weak = 1};
    s->number[k] = strtod(text + 1, (char **)&text);
    return text;
}

/* Returns the index of the word text[0..n) in a list like "sum|mean|none"; -1: not in the list. */
static inline int64_t
sample_word(const char *words, const char *text, size_t n)
{
    for (int64_t i = 0; words; i++) {
        size_t len = strcspn(words, "|");
        if (len == n && !memcmp(words, text, n)) return i;
        words = words[len] ? words + len + 1 : NULL;
    }
    return -1;
}

static inline bool
sample_value(const struct sample *s, const struct attr_def *def, struct attr *a, const char *text, size_t n)
{
    char word[256] = "";
    if (n >= sizeof word) return false;
    memcpy(word, text, n);
    a->set = true;
    if (def->kind == ATTR_BODY) return !body_number(word, &a->i);
    a->i = strtoll(word, NULL, 10);
    a->f = strtod(word, NULL);
    if (def->kind == ATTR_BOOL && !strcmp(word, "true")) a->i = 1;
    if (def->kind == ATTR_TEXT) a->i = sample_word(def->text, word, n);
    if (def->kind == ATTR_DTYPE) a->i = dtype_parse(word);
    int ndim = s->in[0].ndim + !!(def->flags & ATTR_AXIS_NEW);
    bool axis = def->flags & (ATTR_AXIS | ATTR_AXIS_NEW);
    if (axis && a->i < 0) a->i += ndim;
    if (def->kind != ATTR_INTS) return a->i >= 0 || def->kind != ATTR_TEXT;
    char *at = word;
    for (a->n = 0; *at && a->n < ATTR_LIST; at += *at == ',') {
        int64_t i = strtoll(at, &at, 10);
        a->list[a->n++] = axis && i < 0 ? i + ndim : i;
    }
    return true;
}

static inline const char *
sample_attr(const char *text, struct sample *s)
{
    size_t name = strcspn(text, "= "), value = strcspn(text + name, " ");
    if (text[name] != '=') return NULL;
    for (int i = 0; i < OP_ATTR && s->call.op->attr[i].name; i++)
        if (strlen(s->call.op->attr[i].name) == name && !strncmp(s->call.op->attr[i].name, text, name))
            return sample_value(s, &s->call.op->attr[i], &s->attr[i], text + name + 1, value - 1) ? text + name + value
                                                                                                  : NULL;
    return NULL;
}

/* Adds the operands that the sample omits after its last one: absent operands, and hidden numbers that a session
 * would fill in. */
static inline void
sample_complete(struct sample *s)
{
    const struct op *op = s->call.op;
    for (int k = s->call.nin; k < OP_OPERAND && op->in[k].name && !(op->in[k].flags & IN_LIST); k++) {
        s->in[k] = op->in[k].flags & IN_HIDDEN ? (struct type){.dtype = DT_I64, .weak = 1} : (struct type){0};
        s->number[k] = 7;
        s->call.nin = k + 1;
    }
}

/* Sets attributes that the sample leaves out to their defaults. A default axis below 0 counts from the end. */
static inline void
sample_defaults(struct sample *s)
{
    for (int i = 0; i < OP_ATTR && s->call.op->attr[i].name; i++) {
        const struct attr_def *def = &s->call.op->attr[i];
        struct attr *a = &s->attr[i];
        if (a->set) continue;
        *a = (struct attr){.i = def->i, .f = def->f};
        if (def->kind == ATTR_INT && def->flags & (ATTR_AXIS | ATTR_AXIS_NEW) && a->i < 0)
            a->i += s->in[0].ndim + !!(def->flags & ATTR_AXIS_NEW);
    }
}

/* Parses the whole sample; returns false if it is malformed. Allots call.out, but does not infer the result types. */
static inline bool
sample_read(const struct op *op, const char *text, struct sample *s)
{
    memset(s, 0, sizeof *s);
    s->call = (struct call){.op = op, .in = s->in, .out = s->out, .attr = s->attr};
    bool attrs = false;
    while (text && *text) {
        attrs |= text[strcspn(text, "= ")] == '=';
        text = attrs ? sample_attr(text, s) : sample_operand(text, s);
        while (text && *text == ' ') text++;
    }
    sample_complete(s);
    sample_defaults(s);
    s->call.nout = op_nresult(op, s->attr);
    return text != NULL;
}

#endif
