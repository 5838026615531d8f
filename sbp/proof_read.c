/* proof_read.c - reading a certificate, which may be anybody's. */
#include "sbp/proof_read.h"

#include "runtime/error.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 22 }; /* nodes, tensors, times, forms */

int
proof_wrong(const struct proof *r, const char *what)
{
    return fail(E_PLAN, "certificate: line %d: %s", r->line, what);
}

/* The next word of the line is this one; it is passed. */
bool
proof_word(struct proof *r, const char *w)
{
    size_t n = strlen(w);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, w, n)) return false;
    if (r->at + n < r->end && !isspace((unsigned char)r->at[n])) return false;
    r->at += n;
    if (r->at < r->end && *r->at == ' ') r->at++;
    return true;
}

int
proof_line_ends(struct proof *r)
{
    if (r->at >= r->end || *r->at != '\n') return proof_wrong(r, "a line with more or less on it than it should have");
    r->at++;
    r->line++;
    return 0;
}

/* An integer, or PROOF_NEVER for a dash. */
int
proof_number(struct proof *r, int64_t least, int64_t most, int64_t *out)
{
    char digits[24];
    size_t n = 0;
    if (r->at < r->end && *r->at == '-' && (r->at + 1 == r->end || isspace((unsigned char)r->at[1]))) {
        r->at++;
        *out = PROOF_NEVER;
        if (most < PROOF_NEVER) return proof_wrong(r, "a number is wanted");
    } else {
        while (r->at < r->end && n < sizeof digits - 1 && (isdigit((unsigned char)*r->at) || (n == 0 && *r->at == '-')))
            digits[n++] = *r->at++;
        digits[n] = 0;
        char *end;
        *out = strtoll(digits, &end, 10);
        if (n == 0 || *end || n >= 20) return proof_wrong(r, "a number is wanted");
        if (*out < least || *out > most) return proof_wrong(r, "a number is out of range");
    }
    if (r->at < r->end && *r->at == ' ') r->at++;
    return 0;
}

int
proof_number32(struct proof *r, int64_t least, int64_t most, int32_t *out)
{
    int64_t x;
    TRY(proof_number(r, least, MIN(most, INT32_MAX), &x));
    *out = (int32_t)x;
    return 0;
}

static int
read_list(struct proof *r)
{
    int64_t id, n;
    TRY(proof_number(r, r->nlist, r->nlist, &id));
    TRY(proof_number(r, 0, r->end - r->at, &n)); /* each takes a byte at least */
    if (r->nlist == r->list_capacity) {
        int32_t capacity = r->list_capacity ? 2 * r->list_capacity : 64;
        struct proof_list *more = ARENA_ARRAY(&r->arena, struct proof_list, capacity);
        if (r->nlist) memcpy(more, r->list, sizeof *more * (size_t)r->nlist);
        r->list = more;
        r->list_capacity = capacity;
    }
    struct proof_list *l = &r->list[r->nlist++];
    l->n = n;
    l->x = ARENA_ARRAY(&r->arena, int64_t, MAX(1, n));
    for (int64_t i = 0; i < n; i++) TRY(proof_number(r, 0, INT64_MAX, &l->x[i]));
    return proof_line_ends(r);
}

/* A list of n numbers below `most`, or at most PROOF_NEVER; optional: a dash is none. */
static int
list_of(struct proof *r, int64_t n, int64_t most, bool optional, const struct proof_list **out)
{
    int64_t id;
    *out = NULL;
    TRY(proof_number(r, 0, optional ? PROOF_NEVER : INT32_MAX, &id));
    if (id == PROOF_NEVER) return 0;
    if (id >= r->nlist) return proof_wrong(r, "a list that was not given");
    *out = &r->list[id];
    if (n >= 0 && (*out)->n != n) return proof_wrong(r, "a list of another length than is wanted");
    for (int64_t i = 0; i < (*out)->n; i++)
        if ((*out)->x[i] > most) return proof_wrong(r, "a list with a number out of range");
    return 0;
}

static int
read_lists(struct proof *r)
{
    while (proof_word(r, "list")) TRY(read_list(r));
    return 0;
}

static int
read_node(struct proof *r, struct proof_node *v)
{
    if (!proof_word(r, "node")) return proof_wrong(r, "a node is wanted");
    TRY(list_of(r, -1, PROOF_NEVER, false, &v->cost));
    if (v->cost->n < 1 || v->cost->n > UINT16_MAX) return proof_wrong(r, "a node without candidates, or with too many");
    TRY(proof_number32(r, 0, r->ntime - 1, &v->time));
    TRY(list_of(r, v->cost->n, PROOF_NEVER - 1, true, &v->memory));
    return proof_line_ends(r);
}

static int
read_tensor(struct proof *r, struct proof_tensor *t)
{
    if (!proof_word(r, "tensor")) return proof_wrong(r, "a tensor is wanted");
    int64_t id;
    TRY(proof_number32(r, 0, r->nnode - 1, &t->maker));
    const char *at = r->at;
    TRY(proof_number(r, 0, INT32_MAX, &id));
    TRY(proof_number32(r, 1, MOST, &t->nfrom));
    TRY(proof_number32(r, 0, MOST, &t->nto));
    const char *after = r->at;
    r->at = at;
    TRY(list_of(r, r->node[t->maker].cost->n, t->nfrom - 1, false, &t->form));
    r->at = after;
    TRY(list_of(r, (int64_t)t->nfrom * t->nto, PROOF_NEVER, true, &t->price));
    TRY(list_of(r, t->nfrom, PROOF_NEVER - 1, true, &t->bytes));
    TRY(proof_number32(r, 0, INT32_MAX, &t->born));
    TRY(proof_number32(r, 0, r->ntime, &t->dies));
    TRY(proof_number32(r, 0, MIN(MOST, r->end - r->at), &t->nuse));
    if (t->nuse && !t->price) return proof_wrong(r, "a tensor that is read and has no prices");
    t->use = ARENA_ARRAY(&r->arena, struct proof_use, MAX(1, t->nuse));
    for (int32_t k = 0; k < t->nuse; k++) {
        TRY(proof_number32(r, 0, r->nnode - 1, &t->use[k].node));
        TRY(list_of(r, r->node[t->use[k].node].cost->n, t->nto - 1, false, &t->use[k].form));
    }
    return proof_line_ends(r);
}

static int
read_net(struct proof *r)
{
    if (!proof_word(r, "net")) return proof_wrong(r, "the net is wanted");
    TRY(proof_number32(r, 1, MIN(MOST, r->end - r->at), &r->nnode));
    TRY(proof_number32(r, 0, MIN(MOST, r->end - r->at), &r->ntensor));
    TRY(proof_number32(r, 1, MOST, &r->ntime));
    TRY(proof_number(r, 0, PROOF_NEVER - 1, &r->limit));
    TRY(proof_line_ends(r));
    r->node = ARENA_ARRAY(&r->arena, struct proof_node, r->nnode);
    r->tensor = ARENA_ARRAY(&r->arena, struct proof_tensor, r->ntensor + 1);
    r->price = ARENA_ARRAY(&r->arena, int64_t, r->ntime + 1);
    r->live = ARENA_ARRAY(&r->arena, int64_t, r->ntime + 1);
    for (int32_t i = 0; i < r->nnode; i++) {
        TRY(read_lists(r));
        TRY(read_node(r, &r->node[i]));
    }
    for (int32_t i = 0; i < r->ntensor; i++) {
        TRY(read_lists(r));
        TRY(read_tensor(r, &r->tensor[i]));
    }
    return 0;
}

static int
read_claim(struct proof *r)
{
    while (proof_word(r, "price")) {
        int32_t t;
        TRY(proof_number32(r, 0, r->ntime - 1, &t));
        TRY(proof_number(r, 0, (int64_t)1 << 60, &r->price[t]));
        TRY(proof_line_ends(r));
    }
    if (!proof_word(r, "scale")) return proof_wrong(r, "the scale is wanted");
    TRY(proof_number(r, 1, 1 << 16, &r->scale));
    TRY(proof_line_ends(r));
    if (!proof_word(r, "choice")) return proof_wrong(r, "the choice is wanted");
    r->choice = ARENA_ARRAY(&r->arena, int32_t, r->nnode);
    for (int32_t i = 0; i < r->nnode; i++) TRY(proof_number32(r, 0, r->node[i].cost->n - 1, &r->choice[i]));
    TRY(proof_line_ends(r));
    if (!proof_word(r, "cost")) return proof_wrong(r, "the cost is wanted");
    TRY(proof_number(r, 0, PROOF_NEVER - 1, &r->cost));
    TRY(proof_line_ends(r));
    if (!proof_word(r, "bound")) return proof_wrong(r, "the bound is wanted");
    TRY(proof_number(r, 0, PROOF_NEVER - 1, &r->bound));
    TRY(proof_line_ends(r));
    if (proof_word(r, "searched")) {
        TRY(proof_number(r, MIN(r->bound, PROOF_NEVER - 2) + 1, r->cost, &r->searched));
        TRY(proof_line_ends(r));
    }
    if (!proof_word(r, "proof")) return proof_wrong(r, "the proof is wanted");
    return proof_line_ends(r);
}

int
proof_read(struct proof *r)
{
    if (!proof_word(r, "rille") || !proof_word(r, "certificate") || !proof_word(r, "1"))
        return proof_wrong(r, "this is no certificate: it begins \"rille certificate 1\"");
    TRY(proof_line_ends(r));
    while (proof_word(r, "with")) {
        while (r->at < r->end && *r->at != '\n') r->at++;
        TRY(proof_line_ends(r));
    }
    TRY(read_net(r));
    TRY(read_claim(r));
    if (r->bound > r->cost) return fail(E_PLAN, "certificate: the bound is above the cost");
    return 0;
}
