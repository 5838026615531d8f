/* verify.h - a plan under proof: the files that prove it share this, and nothing but their test includes it.
 *
 *   verify_program.c  the program is legal: operands, types, signatures
 *   verify.c          indices and counts are in range, ports and readers agree
 *   verify_token.c    every edge means "happens before", whatever the streams
 *   verify_run.c      it runs to its end: round by round, or in one greedy run of tokens
 *   verify_channel.c  so it does together with the parts of other memories
 *   verify_value.c    every task reads and writes the bytes that the program means (with verify_part.c, verify_move.c)
 *   verify_berth.c    the same where each act has a berth
 *   verify_memory.c   no two live registers share bytes, updates come after those who read what they replace
 *
 * Each trusts what the ones before it have shown. That arrays are as long as their counts say is the maker's promise;
 * where a second count contradicts one, the proof finds it before it reads the array. A proof belongs to one
 * plan_verify() and its thread. */
#ifndef RILLE_PLAN_VERIFY_H
#define RILLE_PLAN_VERIFY_H

#include "actors/plan/cross.h"
#include "actors/plan/plan.h"
#include "actors/plan/replica.h"

/* Where an in-port's tokens come from, as its task says. */
struct inlet {
    int32_t task, out, fan;
    uint8_t token; /* enum token */
};

/* Tasks and ports take hundreds of bytes each, and edges go far: what is asked of the other end of an edge lies here in
 * arrays of its own, which caches hold. */
struct proof {
    const struct plan *plan;
    struct arena tmp;
    struct mines mines;
    int64_t *first_in, *first_out; /* number of a task's first in-port, out-port; [ntask] is how many there are */
    int32_t *thread, *nact;        /* by task */
    struct inlet *inlet;           /* by in-port */
    int32_t *from;                 /* by in-port: the task whose result it reads */
    int32_t *nreg;                 /* by out-port; 0: it is of control */
    int32_t *made;                 /* by out-port: tokens that a run puts on each of its edges */
    int64_t *first_reader;         /* by out-port, and behind the last: number of the first who reads it */
    struct reader *reader;         /* all of them, those of an out-port one after the other */
    bool *shares;                  /* by node: replica_updates */
    bool *checks;                  /* by node: program_checks */
    int32_t *sums;                 /* by node: program_sums; NULL: nobody asked */
    uint8_t *wide;                 /* by node: program_wide; NULL: nobody asked */
    bool *late;                    /* by task: its only act is in the last round (verify_run.c) */
    int32_t no_round;              /* the first task that acts for each piece and waits for the last, -1 */
};

/* E_PLAN: "task 12, matmul (a.lua:3) on cpu:1: ". */
int proof_fail(const struct proof *v, int32_t task, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* May n things of this size lie in an arena that has handed out so many bytes? */
bool proof_fits(int64_t n, size_t size, const struct arena *a);
/* E_PLAN: "matmul ...: field is got, and should be want". */
int proof_differs(const struct proof *v, int32_t task, const char *field, int64_t got, int64_t want);
/* E_PLAN unless got is want. */
static inline int
proof_same(const struct proof *v, int32_t task, const char *field, int64_t got, int64_t want)
{
    return got == want ? 0 : proof_differs(v, task, field, got, want);
}

/* The sum over pieces that alone reads node i, -1. */
uint32_t proof_wide(struct proof *v, int32_t i); /* results of node i that may be f32 where they are halves: bits */
int32_t proof_sum(struct proof *v, int32_t i);
/* Are two values of an attribute one? */
bool proof_same_attr(const struct attr *a, const struct attr *b);

/* verify_program.c */
int prove_program(struct proof *v);
/* verify_token.c */
int prove_tokens(struct proof *v);
/* verify_run.c */
int prove_run(struct proof *v);
/* Does a task of a collective act where the last of its partners here stands: in one round, and before all who read
 * what they fill? */
bool proof_seat_keeps_order(const struct proof *v, int32_t i);
/* What proves it where rounds do not: in as much time as there are acts. */
int proof_run_greedily(struct proof *v);
/* verify_channel.c */
int prove_channels(struct proof *v);
/* verify_value.c */
int prove_values(struct proof *v);
/* verify_kernel.c */
int prove_credits(struct proof *v);
/* verify_berth.c: of all devices on which results have berths; has, all false, becomes true for each of these. */
int prove_berths(struct proof *v, bool *has);
/* verify_memory.c */
int prove_memory(struct proof *v);

#endif
