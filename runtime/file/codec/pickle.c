/* pickle.c - the stack machine of pickles, protocols 2 to 5, for plain values.
 *
 * Python's pickletools describes the opcodes. Each opcode makes at most one value, so the memory of all values is
 * at most a constant times the size of the pickle. */
#include "runtime/file/codec/pickle.h"

#include "runtime/base/error.h"
#include "runtime/data/str.h"

#include <stdlib.h>
#include <string.h>

struct machine {
    const char *name; /* name of the file, for error texts */
    const uint8_t *at, *end;
    struct arena *arena;
    struct pickle **stack;
    int32_t n, capacity;
    int32_t *mark; /* heights that the stack had when its marks were pushed */
    int32_t nmark, mark_capacity;
    struct pickle **memo;
    int32_t nmemo, memo_capacity;
};

static int
bad_pickle(const struct machine *m, const char *why)
{
    return fail(E_IO, "%s: damaged: its pickle %s", m->name, why);
}

/* ---- reading bytes and numbers ---- */

/* Returns the next n bytes; NULL: fewer bytes are left. */
static const uint8_t *
pickle_bytes(struct machine *m, uint64_t n)
{
    if (n > (uint64_t)(m->end - m->at)) return NULL;
    m->at += n;
    return m->at - n;
}

/* Reads an unsigned number of `width` bytes. */
static int
pickle_number(struct machine *m, int width, uint64_t *out)
{
    const uint8_t *p = pickle_bytes(m, (uint64_t)width);
    *out = 0;
    if (!p) return bad_pickle(m, "ends early");
    memcpy(out, p, (size_t)width);
    return 0;
}

/* Reads a line without its end. */
static int
pickle_line(struct machine *m, const char **out)
{
    const uint8_t *end = memchr(m->at, '\n', (size_t)(m->end - m->at));
    if (!end) return bad_pickle(m, "ends early");
    size_t n = (size_t)(end - m->at);
    char *text = arena_alloc(m->arena, n + 1);
    memcpy(text, m->at, n);
    text[n] = '\0';
    m->at = end + 1;
    *out = text;
    return 0;
}

/* ---- making values on the stack ---- */

static struct pickle *
pickle_push(struct machine *m, enum pickle_kind kind)
{
    struct pickle *v = arena_alloc(m->arena, sizeof *v);
    *v = (struct pickle){.kind = (uint8_t)kind};
    GROW(m->stack, m->n + 1, m->capacity);
    m->stack[m->n++] = v;
    return v;
}

/* Pops the top value of the stack. */
static int
pickle_pop(struct machine *m, struct pickle **out)
{
    if (m->n <= (m->nmark ? m->mark[m->nmark - 1] : 0)) return bad_pickle(m, "needs a value, but its stack is empty");
    *out = m->stack[--m->n];
    return 0;
}

static void
pickle_append(struct machine *m, struct pickle *list, struct pickle *item)
{
    ARENA_GROW(m->arena, list->item, list->nitem + 1, list->capacity);
    list->item[list->nitem++] = item;
}

/* Pops the values above the last mark, and the mark. *n: number of values, which stay in the stack's memory until
 * a value is pushed. */
static int
pop_mark(struct machine *m, struct pickle ***first, int32_t *n)
{
    if (!m->nmark) return bad_pickle(m, "lacks a mark");
    int32_t from = m->mark[--m->nmark];
    *first = m->stack ? m->stack + from : NULL;
    *n = m->n - from;
    m->n = from;
    return 0;
}

/* Replaces the top n values by one value that contains them. */
static int
pickle_gather(struct machine *m, enum pickle_kind kind, bool tuple, struct pickle **first, int32_t n)
{
    struct pickle v = {.kind = (uint8_t)kind, .tuple = tuple};
    if (kind == PICKLE_DICT && n % 2) return bad_pickle(m, "has a dictionary whose last key has no value");
    for (int32_t i = 0; i < n; i++) pickle_append(m, &v, first[i]);
    *pickle_push(m, kind) = v;
    return 0;
}

static int
gather_marked(struct machine *m, enum pickle_kind kind, bool tuple)
{
    struct pickle **first = NULL;
    int32_t n = 0;
    TRY(pop_mark(m, &first, &n));
    return pickle_gather(m, kind, tuple, first, n);
}

static int
gather_top(struct machine *m, int32_t n)
{
    if (m->n - n < (m->nmark ? m->mark[m->nmark - 1] : 0))
        return bad_pickle(m, "needs a value, but its stack is empty");
    m->n -= n;
    return pickle_gather(m, PICKLE_LIST, true, m->stack + m->n, n);
}

/* Sets *out to the top value, to which an opcode adds items. Fails if the value has another kind, or is a tuple. */
static int
extended(struct machine *m, enum pickle_kind kind, struct pickle **out)
{
    if (m->n <= (m->nmark ? m->mark[m->nmark - 1] : 0)) return bad_pickle(m, "needs a value, but its stack is empty");
    *out = m->stack[m->n - 1];
    if ((*out)->kind == kind && !(*out)->tuple) return 0;
    return bad_pickle(m, kind == PICKLE_DICT ? "must set items of dictionaries only" : "must append to lists only");
}

static int
pickle_extend(struct machine *m, enum pickle_kind kind, struct pickle **first, int32_t n)
{
    struct pickle *v = NULL;
    TRY(extended(m, kind, &v));
    if (kind == PICKLE_DICT && n % 2) return bad_pickle(m, "has a dictionary whose last key has no value");
    for (int32_t i = 0; i < n; i++) pickle_append(m, v, first[i]);
    return 0;
}

static int
extend_marked(struct machine *m, enum pickle_kind kind)
{
    struct pickle **first = NULL;
    int32_t n = 0;
    TRY(pop_mark(m, &first, &n));
    return pickle_extend(m, kind, first, n);
}

/* Pops the top n values, and appends them to the value below. */
static int
extend_top(struct machine *m, enum pickle_kind kind, int32_t n)
{
    struct pickle *item[2] = {0};
    for (int32_t i = n - 1; i >= 0; i--) TRY(pickle_pop(m, &item[i]));
    return pickle_extend(m, kind, item, n);
}

static int
pickle_text(struct machine *m, int width)
{
    uint64_t n = 0;
    TRY(pickle_number(m, width, &n));
    const uint8_t *p = pickle_bytes(m, n);
    if (!p) return bad_pickle(m, "ends early");
    char *text = arena_alloc(m->arena, (size_t)n + 1);
    if (n) memcpy(text, p, (size_t)n);
    text[n] = '\0';
    struct pickle *v = pickle_push(m, PICKLE_TEXT);
    v->text = text;
    v->n = (size_t)n;
    return 0;
}

/* Pushes a signed integer of `width` bytes. */
static int
pickle_int(struct machine *m, int width, bool is_signed)
{
    uint64_t u = 0;
    if (width > 8) return bad_pickle(m, "has an integer of more than 64 bits");
    TRY(pickle_number(m, width, &u));
    int shift = 64 - 8 * width;
    pickle_push(m, PICKLE_INT)->integer = is_signed && width ? (int64_t)(u << shift) >> shift : (int64_t)u;
    return 0;
}

/* Pushes an 8-byte big-endian float. */
static int
pickle_float(struct machine *m)
{
    uint64_t u = 0;
    double d;
    TRY(pickle_number(m, 8, &u));
    u = __builtin_bswap64(u);
    memcpy(&d, &u, sizeof d);
    pickle_push(m, PICKLE_FLOAT)->real = d;
    return 0;
}

static void
pickle_bool(struct machine *m, bool on)
{
    pickle_push(m, PICKLE_BOOL)->integer = on;
}

static int
pickle_global(struct machine *m, const char *module, const char *name)
{
    struct str both = {0};
    str_addf(&both, "%s.%s", module, name);
    pickle_push(m, PICKLE_GLOBAL)->text = arena_strdup(m->arena, str_text(&both));
    str_free(&both);
    return 0;
}

static int
pickle_global_lines(struct machine *m)
{
    const char *module = NULL, *name = NULL;
    TRY(pickle_line(m, &module));
    TRY(pickle_line(m, &name));
    return pickle_global(m, module, name);
}

static int
pickle_global_stack(struct machine *m)
{
    struct pickle *module = NULL, *name = NULL;
    TRY(pickle_pop(m, &name));
    TRY(pickle_pop(m, &module));
    if (module->kind != PICKLE_TEXT || name->kind != PICKLE_TEXT)
        return bad_pickle(m, "must import names that are texts");
    return pickle_global(m, module->text, name->text);
}

/* ---- recording calls and stored objects ---- */

/* Stores a call. The call that makes an ordered dictionary becomes an empty dictionary, because later opcodes add
 * its items. */
static int
pickle_call(struct machine *m)
{
    struct pickle *arguments = NULL, *f = NULL;
    TRY(pickle_pop(m, &arguments));
    TRY(pickle_pop(m, &f));
    if (f->kind != PICKLE_GLOBAL || arguments->kind != PICKLE_LIST) return bad_pickle(m, "must call functions only");
    bool ordered = !strcmp(f->text, "collections.OrderedDict") && arguments->nitem == 0;
    struct pickle *v = pickle_push(m, ordered ? PICKLE_DICT : PICKLE_CALL);
    if (ordered) return 0;
    v->text = f->text;
    v->item = arguments->item;
    v->nitem = v->capacity = arguments->nitem;
    return 0;
}

/* Pops the state of an object, and ignores it. Example: attributes of an ordered dictionary. */
static int
set_state(struct machine *m)
{
    struct pickle *state = NULL, *object = NULL;
    TRY(pickle_pop(m, &state));
    TRY(pickle_pop(m, &object));
    m->n++;
    if (object->kind == PICKLE_DICT) return 0;
    return fail(E_IO, "%s: its pickle restores an object of '%.200s', which is not supported; save a state_dict",
                m->name, object->kind == PICKLE_CALL ? object->text : "a class");
}

static int
push_stored(struct machine *m)
{
    struct pickle *id = NULL;
    TRY(pickle_pop(m, &id));
    if (id->kind != PICKLE_LIST) return bad_pickle(m, "must name stored objects by tuples");
    struct pickle *v = pickle_push(m, PICKLE_STORED);
    v->item = id->item;
    v->nitem = v->capacity = id->nitem;
    return 0;
}

/* ---- the memo: values that later opcodes push again ---- */

static int
pickle_memorise(struct machine *m, uint64_t i)
{
    if (m->n == 0) return bad_pickle(m, "needs a value, but its stack is empty");
    if (i > (uint64_t)m->nmemo) return bad_pickle(m, "numbers its memory with gaps");
    if (i == (uint64_t)m->nmemo) {
        GROW(m->memo, m->nmemo + 1, m->memo_capacity);
        m->nmemo++;
    }
    m->memo[i] = m->stack[m->n - 1];
    return 0;
}

static int
pickle_recall(struct machine *m, uint64_t i)
{
    if (i >= (uint64_t)m->nmemo) return bad_pickle(m, "reads memory that it did not write");
    GROW(m->stack, m->n + 1, m->capacity);
    m->stack[m->n++] = m->memo[i];
    return 0;
}

static int
memorise_at(struct machine *m, int width)
{
    uint64_t i = 0;
    TRY(pickle_number(m, width, &i));
    return pickle_memorise(m, i);
}

static int
recall_at(struct machine *m, int width)
{
    uint64_t i = 0;
    TRY(pickle_number(m, width, &i));
    return pickle_recall(m, i);
}

static void
pickle_mark(struct machine *m)
{
    GROW(m->mark, m->nmark + 1, m->mark_capacity);
    m->mark[m->nmark++] = m->n;
}

/* ---- executing the opcodes ---- */

static int
check_protocol(struct machine *m)
{
    uint64_t n = 0;
    TRY(pickle_number(m, 1, &n));
    return n <= 5 ? 0 : fail(E_IO, "%s: its pickle has protocol %d, expected at most 5", m->name, (int)n);
}

static int
push_long(struct machine *m)
{
    uint64_t n = 0;
    TRY(pickle_number(m, 1, &n));
    return pickle_int(m, (int)n, true);
}

static int
skip_frame(struct machine *m)
{
    uint64_t n = 0;
    return pickle_number(m, 8, &n);
}

static int
pop_one(struct machine *m)
{
    struct pickle *v = NULL;
    return pickle_pop(m, &v);
}

/* Runs one opcode. */
static int
pickle_step(struct machine *m, uint8_t op)
{
    switch (op) {
    case 0x80: return check_protocol(m);
    case 0x95: return skip_frame(m);
    case '(': pickle_mark(m); return 0;
    case '0': return pop_one(m);
    case 'N': pickle_push(m, PICKLE_NONE); return 0;
    case 0x88: pickle_bool(m, true); return 0;
    case 0x89: pickle_bool(m, false); return 0;
    case 'J': return pickle_int(m, 4, true);
    case 'K': return pickle_int(m, 1, false);
    case 'M': return pickle_int(m, 2, false);
    case 0x8a: return push_long(m);
    case 'G': return pickle_float(m);
    case 'X':
    case 'T':
    case 'B': return pickle_text(m, 4);
    case 0x8c:
    case 'U':
    case 'C': return pickle_text(m, 1);
    case 0x8d:
    case 0x8e: return pickle_text(m, 8);
    case ')': return pickle_gather(m, PICKLE_LIST, true, NULL, 0);
    case ']': return pickle_gather(m, PICKLE_LIST, false, NULL, 0);
    case '}': return pickle_gather(m, PICKLE_DICT, false, NULL, 0);
    case 't': return gather_marked(m, PICKLE_LIST, true);
    case 'l': return gather_marked(m, PICKLE_LIST, false);
    case 'd': return gather_marked(m, PICKLE_DICT, false);
    case 0x85: return gather_top(m, 1);
    case 0x86: return gather_top(m, 2);
    case 0x87: return gather_top(m, 3);
    case 'a': return extend_top(m, PICKLE_LIST, 1);
    case 'e': return extend_marked(m, PICKLE_LIST);
    case 's': return extend_top(m, PICKLE_DICT, 2);
    case 'u': return extend_marked(m, PICKLE_DICT);
    case 'q': return memorise_at(m, 1);
    case 'r': return memorise_at(m, 4);
    case 0x94: return pickle_memorise(m, (uint64_t)m->nmemo);
    case 'h': return recall_at(m, 1);
    case 'j': return recall_at(m, 4);
    case 'c': return pickle_global_lines(m);
    case 0x93: return pickle_global_stack(m);
    case 'R':
    case 0x81: return pickle_call(m);
    case 'b': return set_state(m);
    case 'Q': return push_stored(m);
    default:
        return fail(E_IO, "%s: its pickle uses opcode 0x%02x, which state dicts of torch.save do not have", m->name,
                    op);
    }
}

static int
pickle_run(struct machine *m, struct pickle **out)
{
    for (;;) {
        const uint8_t *op = pickle_bytes(m, 1);
        if (!op) return bad_pickle(m, "ends early");
        if (*op == '.') return m->nmark ? bad_pickle(m, "ends at a mark") : pickle_pop(m, out);
        TRY(pickle_step(m, *op));
    }
}

int
pickle_read(const char *name, const uint8_t *bytes, size_t n, struct arena *a, struct pickle **out)
{
    struct machine m = {.name = name, .at = bytes, .end = bytes + n, .arena = a};
    int status = pickle_run(&m, out);
    free(m.stack);
    free(m.mark);
    free(m.memo);
    return status;
}
