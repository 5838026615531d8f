/* body.c - reads, writes and interns bodies. */
#include "kernels/op/base/body.h"

#include "kernels/op/base/table.h"
#include "runtime/base/error.h"
#include "runtime/data/hash.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing ---- */

static bool
is_default(const struct attr_def *def, const struct attr *a)
{
    return !a->set && a->i == def->i && !memcmp(&a->f, &def->f, sizeof a->f) && !a->n;
}

static void
write_attr(const struct attr_def *def, const struct attr *a, struct str *s)
{
    str_addf(s, "%s%c", def->name, a->set ? '=' : '~');
    if (def->kind == ATTR_BODY)
        str_addf(s, "{%s}", body_at(a->i)->text);
    else if (def->kind == ATTR_FLOAT)
        str_addf(s, "%a", a->f);
    else if (def->kind != ATTR_INTS)
        str_addf(s, "%lld", (long long)a->i);
    for (int k = 0; def->kind == ATTR_INTS && k < a->n; k++) str_addf(s, "%s%lld", k ? "/" : "", (long long)a->list[k]);
}

void
body_write(const struct op *op, const struct attr *attr, int nin, const int *in, struct str *s)
{
    int shown = 0;
    str_add(s, op->name);
    for (int i = 0; i < op_nattr(op); i++) {
        if (is_default(&op->attr[i], &attr[i])) continue;
        str_add(s, shown++ ? "," : "[");
        write_attr(&op->attr[i], &attr[i], s);
    }
    if (shown) str_add(s, "]");
    for (int i = 0; i < nin; i++) {
        str_add(s, i ? "," : "(");
        str_addf(s, in[i] < 0 ? "-" : "%d", in[i]);
    }
    str_add(s, ")");
}

/* ---- reading ---- */

enum { MOST_INPUTS = 1 << 8, MOST_NODES = 1 << 12, MOST_TEXT = 1 << 20, MOST_DEPTH = 8 };

/* State of reading a text. bad: an error was found; the reader then makes no progress. */
struct reader {
    const char *begin, *at;
    struct arena *arena;
    struct body *body;
    int depth;
    bool bad;
};

static int read_body(const char *text, size_t n, int depth, int64_t *number);

/* Skips the character c, and returns true, if c is next in the text. Otherwise returns false. */
static bool
skip(struct reader *r, char c)
{
    if (r->bad || *r->at != c) return false;
    r->at++;
    return true;
}

static void
expect(struct reader *r, char c)
{
    if (!skip(r, c)) r->bad = true;
}

static int64_t
read_number(struct reader *r, int64_t least, int64_t most)
{
    char *end;
    int64_t n = strtoll(r->at, &end, 10);
    if (r->bad || end == r->at || n < least || n > most) return r->bad = true, least;
    r->at = end;
    return n;
}

/* Reads the name of an attribute or operator. */
static void
read_name(struct reader *r, char name[64])
{
    size_t n = strspn(r->at, "abcdefghijklmnopqrstuvwxyz0123456789_");
    name[0] = '\0';
    if (r->bad || n == 0 || n > 63) {
        r->bad = true;
        return;
    }
    memcpy(name, r->at, n);
    name[n] = '\0';
    r->at += n;
}

/* Reads the text of a body within braces. */
static int64_t
read_inner(struct reader *r)
{
    int64_t number = 0;
    int open = 1;
    expect(r, '{');
    const char *begin = r->at;
    for (; !r->bad && *r->at && open; r->at++) open += (*r->at == '{') - (*r->at == '}');
    if (open || r->depth == MOST_DEPTH || r->bad) return r->bad = true, 0;
    if (read_body(begin, (size_t)(r->at - begin - 1), r->depth + 1, &number)) r->bad = true;
    return number;
}

static double
read_real(struct reader *r)
{
    char *end;
    double f = strtod(r->at, &end);
    if (end == r->at) r->bad = true;
    if (!r->bad) r->at = end;
    return f;
}

static void
read_attr_value(struct reader *r, const struct attr_def *def, struct attr *a)
{
    switch (def->kind) {
    case ATTR_BODY: a->i = read_inner(r); break;
    case ATTR_FLOAT: a->f = read_real(r); break;
    case ATTR_INTS:
        while (*r->at != ',' && *r->at != ']' && !r->bad && a->n < ATTR_LIST) {
            if (a->n) expect(r, '/');
            a->list[a->n++] = read_number(r, INT64_MIN, INT64_MAX);
        }
        break;
    default: a->i = read_number(r, INT64_MIN, INT64_MAX);
    }
    if (def->kind == ATTR_DTYPE && (a->i < 0 || a->i >= NDTYPE)) r->bad = true;
}

static void
read_attrs(struct reader *r, struct body_node *n)
{
    char name[64];
    if (!skip(r, '[')) return;
    do {
        read_name(r, name);
        int k = r->bad ? -1 : op_attr_find(n->op, name);
        if (k < 0) {
            r->bad = true;
            return;
        }
        n->attr[k] = (struct attr){.f = n->op->attr[k].f, .i = n->op->attr[k].i, .set = skip(r, '=')};
        if (!n->attr[k].set) expect(r, '~');
        read_attr_value(r, &n->op->attr[k], &n->attr[k]);
    } while (skip(r, ','));
    expect(r, ']');
}

static void
read_node(struct reader *r, struct body_node *n)
{
    char name[64];
    int in[MOST_INPUTS];
    read_name(r, name);
    n->op = op_find(name);
    if (r->bad || !n->op || n->op->flags & (OP_SOURCE | OP_RANDOM | OP_MOVE | OP_SHIFT | OP_UPDATE)) {
        r->bad = true;
        return;
    }
    n->attr = ARENA_ARRAY(r->arena, struct attr, op_nattr(n->op));
    op_attr_defaults(n->op, n->attr);
    read_attrs(r, n);
    expect(r, '(');
    do {
        if (n->nin == MOST_INPUTS) r->bad = true;
        if (!r->bad) in[n->nin++] = skip(r, '-') ? -1 : (int)read_number(r, 0, r->body->nvalue - 1);
    } while (skip(r, ','));
    expect(r, ')');
    n->in = arena_dup(r->arena, in, sizeof *in * (size_t)n->nin);
    n->first = r->body->nvalue;
    n->nout = r->bad ? 0 : op_nresult(n->op, n->attr);
    r->body->nvalue += n->nout;
}

static void
read_inputs(struct reader *r)
{
    struct body *b = r->body;
    int like[MOST_INPUTS];
    b->nstate = (int)read_number(r, 0, MOST_INPUTS);
    expect(r, ',');
    b->nslice = (int)read_number(r, 0, MOST_INPUTS);
    expect(r, ',');
    b->ncapture = (int)read_number(r, 0, MOST_INPUTS);
    while (skip(r, ',')) {
        expect(r, '=');
        if (b->nsum == MOST_INPUTS) r->bad = true;
        if (!r->bad) like[b->nsum++] = (int)read_number(r, 0, MOST_INPUTS * 4);
    }
    expect(r, ':');
    b->ninput = b->nvalue = b->nstate + b->nsum + b->nslice + b->ncapture;
    b->like = arena_dup(r->arena, like, sizeof *like * (size_t)b->nsum);
    for (int k = 0; k < b->nsum; k++)
        if (like[k] >= b->ninput || body_operand(b, like[k]) < 0) r->bad = true;
}

static void
read_nodes(struct reader *r)
{
    struct body *b = r->body;
    struct body_node *node = NULL;
    int capacity = 0;
    while (!r->bad && *r->at != '>') {
        if (b->nnode) expect(r, ';');
        if (b->nnode == MOST_NODES) r->bad = true;
        ARENA_GROW(r->arena, node, b->nnode + 1, capacity);
        if (!r->bad) read_node(r, &node[b->nnode++]);
    }
    b->node = node;
}

static void
read_results(struct reader *r)
{
    struct body *b = r->body;
    int result[OP_OUT], n = 0;
    expect(r, '>');
    do {
        if (n == OP_OUT) r->bad = true;
        if (!r->bad) result[n++] = (int)read_number(r, 0, b->nvalue - 1);
    } while (skip(r, ','));
    b->noutput = n - b->nstate - b->nsum;
    b->result = arena_dup(r->arena, result, sizeof *result * (size_t)n);
    if (b->noutput < 0 || *r->at || body_noperand(b) == 0) r->bad = true;
}

/* ---- interning ---- */

enum { MOST_BODIES = 1 << 16 };

/* The bodies of the process. Entries below `count` do not change any more, so readers need no lock. */
static struct {
    pthread_mutex_t lock;
    struct arena arena;
    struct hash_table by_text;
    const struct body *body[MOST_BODIES];
    atomic_int count;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int64_t
find_number(const char *text, uint64_t hash)
{
    uint32_t at = 0;
    for (const void *item; (item = hash_next(&all.by_text, hash, &at));)
        if (!strcmp(all.body[hash_index_of(item)]->text, text)) return hash_index_of(item);
    return -1;
}

static int
add_body(struct reader *r, uint64_t hash, int64_t *number)
{
    read_inputs(r);
    read_nodes(r);
    read_results(r);
    if (r->bad) return fail(E_ARG, "scan: character %d of the body is wrong", (int)(r->at - r->begin));
    int n = atomic_load(&all.count);
    if (n == MOST_BODIES) return fail(E_ARG, "scan: the process has %d bodies already", n);
    all.body[n] = r->body;
    hash_add(&all.by_text, hash, hash_index(n));
    atomic_store(&all.count, n + 1);
    *number = n;
    return 0;
}

/* Sets *number to the number of the body with this text, and adds the body to the table if it is new. The caller
 * holds the lock. */
static int
read_body(const char *text, size_t n, int depth, int64_t *number)
{
    uint64_t hash = hash_bytes(0, text, n);
    if (n > MOST_TEXT || memchr(text, '\0', n)) return fail(E_ARG, "scan: the body is too long");
    char *own = arena_alloc(&all.arena, n + 1);
    memcpy(own, text, n);
    own[n] = '\0';
    *number = find_number(own, hash);
    if (*number >= 0) return 0;
    struct reader r = {.begin = own, .at = own, .arena = &all.arena, .depth = depth};
    r.body = ARENA_NEW(&all.arena, struct body);
    r.body->text = own;
    return add_body(&r, hash, number);
}

int
body_number(const char *text, int64_t *number)
{
    pthread_mutex_lock(&all.lock);
    *number = find_number(text, hash_bytes(0, text, strlen(text)));
    int status = *number < 0 ? read_body(text, strlen(text), 0, number) : 0;
    pthread_mutex_unlock(&all.lock);
    return status;
}

const struct body *
body_at(int64_t number)
{
    return number >= 0 && number < atomic_load(&all.count) ? all.body[number] : NULL;
}

int
body_operand(const struct body *b, int i)
{
    if (i < b->nstate) return i;
    return i < b->nstate + b->nsum ? -1 : i - b->nsum;
}

int
body_noperand(const struct body *b)
{
    return b->ninput - b->nsum;
}

int
body_nresult(const struct body *b)
{
    return b->nstate + b->nsum + b->noutput;
}
