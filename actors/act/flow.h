/* flow.h - a stream of a device as its thread sees it: acts whose work is under way, in order.
 *
 * An act keeps its place, and its addresses, until its work is done, also beyond its run where that stays open. Only
 * the thread of the device touches a flow; the session's makes and frees it, between runs. */
#ifndef RILLE_ACT_FLOW_H
#define RILLE_ACT_FLOW_H

#include "actors/plan/kind.h"
#include "runtime/graph.h"
#include "runtime/stream.h"

struct communicator;
struct run;
struct worker;

enum { FLOW_ACTS = 64 }; /* at most under way on a stream */

struct under_way {
    struct act act;
    int64_t mark, begin_ns;
    int64_t order;  /* among all acts of its thread */
    struct run *of; /* of which run, */
    uint64_t run;   /* and its number: it may be another one's by the time it is left */
    bool counted;   /* nobody of the run waits for it any more (open_run.c) */
    struct line at; /* of a run that was left: where in the user's program */
};
struct flow {
    int kind, rank, role;
    bool driven;
    bool tells; /* the stream says when it has gone on; else one looks again and again */
    struct stream *stream;
    struct under_way *act; /* FLOW_ACTS of them, a ring */
    int64_t first, next;   /* the oldest; where the next goes */
    int64_t until_ns;      /* when the thread found the last act done */
    int64_t wanted;        /* the mark for which another stream is about to wait, 0: none is */
    void **address;        /* FLOW_ACTS times naddress */
    int32_t naddress;
    /* Of an edge (edge.h): what is to be put on the stream, in this order; a ring, with room for all that may be. */
    const struct communicator *edge; /* NULL: it is none's */
    int32_t *queue, nqueue, first_queued, queue_capacity;
    uint16_t turn; /* of the next act that its ends agree about in this run */
};

/* Gives a worker the streams that a run's plan has work for on its devices, and room for acts on them; what it has from
 * other plans it keeps. Nothing is under way, or what the run follows (engine.h). driven: as stream_new has it
 * (device.h). E_MEMORY. */
int flows_make(struct worker *w, const struct run *run, bool driven);
/* Ends what waits on its streams for other devices, since the run has failed. */
void flows_cut(const struct worker *w);
void flows_free(struct worker *w);

static inline bool
flow_empty(const struct flow *f)
{
    return f->first == f->next;
}
static inline bool
flow_full(const struct flow *f)
{
    return f->next - f->first == FLOW_ACTS;
}
static inline struct under_way *
flow_oldest(const struct flow *f)
{
    return &f->act[f->first % FLOW_ACTS];
}
/* The place of the next act, and room for its addresses. */
static inline struct under_way *
flow_next(const struct flow *f, void ***address)
{
    *address = f->address + (f->next % FLOW_ACTS) * f->naddress;
    return &f->act[f->next % FLOW_ACTS];
}

#endif
