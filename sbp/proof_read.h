/* proof_read.h - a certificate as the checker sees it: the net, the claim, and the text of the steps (inside sbp/).
 *
 * Neither this file nor proof.c includes anything of the search. It belongs to one check and its thread. */
#ifndef RILLE_SBP_PROOF_READ_H
#define RILLE_SBP_PROOF_READ_H

#include "runtime/arena.h"

#define PROOF_NEVER (INT64_MAX / 4)

struct proof_list {
    int64_t n, *x;
};
struct proof_node {
    const struct proof_list *cost, *memory;
    int32_t time;
};
struct proof_use {
    int32_t node;
    const struct proof_list *form;
};
struct proof_tensor {
    int32_t maker, nfrom, nto, born, dies, nuse;
    const struct proof_list *form, *price, *bytes;
    struct proof_use *use;
};
struct proof {
    struct arena arena;
    const char *at, *end;
    int line;
    int32_t nlist, list_capacity;
    struct proof_list *list;
    int64_t entries; /* of all tables together: a certificate cannot ask for more than it can show */
    int32_t nnode, ntensor, ntime;
    int64_t limit, scale, cost, bound, worth, below;
    int64_t searched; /* 0: as much as bound */
    int32_t *choice;
    int64_t *price, *live; /* by time */
    struct proof_tensor *tensor;
    struct proof_node *node;
};

/* Reads everything up to the proof's first step. E_PLAN: what is wrong, with the line; so below. */
int proof_read(struct proof *r);

/* Passes the next word of the line if it is this one; false: it is another. */
bool proof_word(struct proof *r, const char *w);
int proof_line_ends(struct proof *r);
/* Reads an integer, or PROOF_NEVER for a dash, if most allows it. */
int proof_number(struct proof *r, int64_t least, int64_t most, int64_t *out);
int proof_number32(struct proof *r, int64_t least, int64_t most, int32_t *out);
int proof_wrong(const struct proof *r, const char *what);

#endif
