/* proof_read.h - parses a certificate for the checker: the net, the claim, and the position of the first step
 * (inside sbp/).
 *
 * Neither this file nor proof.c includes any file of the search. One check and its thread own struct proof. */
#ifndef RILLE_SBP_PROOF_READ_H
#define RILLE_SBP_PROOF_READ_H

#include "runtime/data/arena.h"

#define PROOF_NEVER (INT64_MAX / 4)

struct proof_list {
    int64_t n, *x, most; /* most: largest entry of x; -1: no entries */
};
struct proof_node {
    const struct proof_list *cost, *memory;
    int64_t time;
};
struct proof_use {
    int64_t node;
    const struct proof_list *form;
};
struct proof_tensor {
    int64_t maker, nfrom, nto, born, dies, nuse;
    const struct proof_list *form, *price, *bytes;
    struct proof_use *use;
};
struct proof {
    struct arena arena;
    const char *at, *end;
    int line;
    int64_t nlist, capacity;
    struct proof_list *list;
    /* searched: lower bound that the search found; 0: equal to `bound`, the bound that the proof claims */
    int64_t nnode, ntensor, ntime, limit, scale, cost, bound, searched;
    /* choice: candidate by node; price: price of a byte by time */
    int64_t *choice, *price;
    struct proof_tensor *tensor;
    struct proof_node *node;
    bool fell; /* true: a cost fell below the least representable number */
};

/* Reads everything before the proof's first step. E_PLAN, in all functions of this file: the text names the fault
 * and its line. */
int proof_read(struct proof *r);

/* If the next word of the line equals w, skips it and returns true. */
bool proof_word(struct proof *r, const char *w);
int proof_wants(struct proof *r, const char *w);
int proof_line_ends(struct proof *r);
/* Skips the rest of the line. */
int proof_pass_line(struct proof *r);
/* Reads an integer from least to most. If `most` allows PROOF_NEVER, a dash stands for that. */
int proof_number(struct proof *r, int64_t least, int64_t most, int64_t *out);
int proof_wrong(const struct proof *r, const char *what);

#endif
