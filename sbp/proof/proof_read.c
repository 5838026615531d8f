/* proof_read.c - parses an untrusted certificate. */
#include "sbp/proof/proof_read.h"

#include "runtime/base/error.h"

#include <ctype.h>
#include <string.h>

enum { MOST = 1 << 22 }; /* maximum number of nodes, tensors, times and forms */

int
proof_wrong(const struct proof *r, const char *what)
{
    return fail(E_PLAN, "line %d: %s", r->line, what);
}

/* ---- reading words and numbers ---- */

/* Returns true if a word ends at p. */
static bool
word_ends(const struct proof *r, const char *p)
{
    return p >= r->end || isspace((unsigned char)*p);
}

static void
pass(struct proof *r, const char *to)
{
    r->at = to < r->end && *to == ' ' ? to + 1 : to;
}

bool
proof_word(struct proof *r, const char *w)
{
    size_t n = strlen(w);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, w, n) || !word_ends(r, r->at + n)) return false;
    pass(r, r->at + n);
    return true;
}

int
proof_wants(struct proof *r, const char *w)
{
    if (proof_word(r, w)) return 0;
    return fail(E_PLAN, "line %d: expected \"%s\"", r->line, w);
}

int
proof_line_ends(struct proof *r)
{
    if (r->at >= r->end || *r->at != '\n') return proof_wrong(r, "the line has too many or too few entries");
    r->at++;
    r->line++;
    return 0;
}

int
proof_pass_line(struct proof *r)
{
    while (r->at < r->end && *r->at != '\n') r->at++;
    return proof_line_ends(r);
}

int
proof_number(struct proof *r, int64_t least, int64_t most, int64_t *out)
{
    const char *p = r->at;
    bool minus = p < r->end && *p == '-';
    int64_t x = 0;
    if (minus) p++;
    if (minus && word_ends(r, p)) x = -PROOF_NEVER; /* a dash stands for PROOF_NEVER */
    for (; p < r->end && isdigit((unsigned char)*p); p++)
        if (__builtin_mul_overflow(x, 10, &x) || __builtin_add_overflow(x, *p - '0', &x))
            return proof_wrong(r, "a number is out of range");
    if (p == r->at || !word_ends(r, p)) return proof_wrong(r, "expected a number");
    *out = minus ? -x : x;
    if (*out < least || *out > most) return proof_wrong(r, "a number is out of range");
    pass(r, p);
    return 0;
}

/* ---- reading the net ---- */

static int
read_lists(struct proof *r)
{
    while (proof_word(r, "list")) {
        int64_t id, n;
        TRY(proof_number(r, r->nlist, r->nlist, &id));
        TRY(proof_number(r, 0, r->end - r->at, &n)); /* each entry needs at least one byte of text */
        ARENA_GROW(&r->arena, r->list, r->nlist + 1, r->capacity);
        struct proof_list *l = &r->list[r->nlist++];
        *l = (struct proof_list){n, ARENA_ARRAY(&r->arena, int64_t, n + 1), -1};
        for (int64_t i = 0; i < n; i++) {
            TRY(proof_number(r, 0, PROOF_NEVER, &l->x[i]));
            l->most = MAX(l->most, l->x[i]);
        }
        TRY(proof_line_ends(r));
    }
    return 0;
}

/* Reads a list of n numbers (-1: any count), each at most `most`. If allowed, a dash stands for no list. */
static int
list_of(struct proof *r, int64_t n, int64_t most, bool optional, const struct proof_list **out)
{
    int64_t id;
    *out = NULL;
    TRY(proof_number(r, 0, optional ? PROOF_NEVER : MOST * 64, &id));
    if (id == PROOF_NEVER) return 0;
    if (id >= r->nlist) return proof_wrong(r, "an unknown list");
    const struct proof_list *l = *out = &r->list[id]; /* the pointer stays valid when the array of lists grows */
    if (n >= 0 && l->n != n) return proof_wrong(r, "a list has a wrong length");
    return l->most > most ? proof_wrong(r, "a list with a number out of range") : 0;
}

static int
read_node(struct proof *r, struct proof_node *v)
{
    TRY(proof_wants(r, "node"));
    TRY(list_of(r, -1, PROOF_NEVER, false, &v->cost));
    if (v->cost->n < 1 || v->cost->n > UINT16_MAX) return proof_wrong(r, "a node without candidates, or with too many");
    TRY(proof_number(r, 0, r->ntime - 1, &v->time));
    TRY(list_of(r, v->cost->n, PROOF_NEVER - 1, true, &v->memory));
    return proof_line_ends(r);
}

static int
read_tensor(struct proof *r, struct proof_tensor *t)
{
    TRY(proof_wants(r, "tensor"));
    TRY(proof_number(r, 0, r->nnode - 1, &t->maker));
    TRY(proof_number(r, 1, MOST, &t->nfrom));
    TRY(proof_number(r, 0, MOST, &t->nto));
    TRY(list_of(r, r->node[t->maker].cost->n, t->nfrom - 1, false, &t->form));
    TRY(list_of(r, t->nfrom * t->nto, PROOF_NEVER, true, &t->price));
    TRY(list_of(r, t->nfrom, PROOF_NEVER - 1, true, &t->bytes));
    TRY(proof_number(r, 0, INT32_MAX, &t->born)); /* the time is ignored if the tensor never dies */
    TRY(proof_number(r, 0, r->ntime, &t->dies));
    TRY(proof_number(r, 0, MIN(MOST, r->end - r->at), &t->nuse));
    if (t->nuse && !t->price) return proof_wrong(r, "a tensor that is read has no prices");
    t->use = ARENA_ARRAY(&r->arena, struct proof_use, t->nuse + 1);
    for (int64_t k = 0; k < t->nuse; k++) {
        TRY(proof_number(r, 0, r->nnode - 1, &t->use[k].node));
        TRY(list_of(r, r->node[t->use[k].node].cost->n, t->nto - 1, false, &t->use[k].form));
    }
    return proof_line_ends(r);
}

static int
read_net(struct proof *r)
{
    TRY(proof_wants(r, "net"));
    TRY(proof_number(r, 1, MIN(MOST, r->end - r->at), &r->nnode));
    TRY(proof_number(r, 0, MIN(MOST, r->end - r->at), &r->ntensor));
    TRY(proof_number(r, 1, MOST, &r->ntime));
    TRY(proof_number(r, 0, PROOF_NEVER - 1, &r->limit));
    TRY(proof_line_ends(r));
    r->node = ARENA_ARRAY(&r->arena, struct proof_node, r->nnode);
    r->tensor = ARENA_ARRAY(&r->arena, struct proof_tensor, r->ntensor + 1);
    for (int64_t i = 0; i < r->nnode; i++) {
        TRY(read_lists(r));
        TRY(read_node(r, &r->node[i]));
    }
    for (int64_t i = 0; i < r->ntensor; i++) {
        TRY(read_lists(r));
        TRY(read_tensor(r, &r->tensor[i]));
    }
    return 0;
}

/* ---- reading the choice and the claimed bound ---- */

static int
read_integer(struct proof *r, const char *word, int64_t least, int64_t most, int64_t *out)
{
    TRY(proof_wants(r, word));
    TRY(proof_number(r, least, most, out));
    return proof_line_ends(r);
}

static int
read_claim(struct proof *r)
{
    int64_t t;
    r->price = ARENA_ARRAY(&r->arena, int64_t, r->ntime + 1);
    r->choice = ARENA_ARRAY(&r->arena, int64_t, r->nnode);
    while (proof_word(r, "price")) {
        if (!r->limit) return proof_wrong(r, "has prices of memory, but no memory limit");
        TRY(proof_number(r, 0, r->ntime - 1, &t));
        TRY(proof_number(r, 0, (int64_t)1 << 60, &r->price[t]));
        TRY(proof_line_ends(r));
    }
    TRY(read_integer(r, "scale", 1, 1 << 16, &r->scale));
    TRY(proof_wants(r, "choice"));
    for (int64_t i = 0; i < r->nnode; i++) TRY(proof_number(r, 0, r->node[i].cost->n - 1, &r->choice[i]));
    TRY(proof_line_ends(r));
    TRY(read_integer(r, "cost", 0, PROOF_NEVER - 1, &r->cost));
    TRY(read_integer(r, "bound", 0, r->cost, &r->bound));
    if (r->at < r->end && *r->at == 's') TRY(read_integer(r, "searched", r->bound + 1, r->cost, &r->searched));
    TRY(proof_wants(r, "proof"));
    return proof_line_ends(r);
}

int
proof_read(struct proof *r)
{
    if (!proof_word(r, "rille") || !proof_word(r, "certificate") || !proof_word(r, "2"))
        return proof_wrong(r, "not a certificate: expected \"rille certificate 2\" on the first line");
    TRY(proof_line_ends(r));
    while (proof_word(r, "with")) {
        while (r->at < r->end && *r->at != '\n') r->at++;
        TRY(proof_line_ends(r));
    }
    TRY(read_net(r));
    return read_claim(r);
}
