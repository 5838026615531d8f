/* channel.h - what crosses from one memory to another: from a task that sends to a task that receives.
 *
 * A part of a plan is what the devices of one memory do. Where a task reads what lies in another memory, the part there
 * has a SEND, which reads the window that it wants, and the part here has a RECV, whose registers hold that window and
 * nothing else. Order that crosses memories has a gate at each end and no bytes. The two ends are a channel.
 *
 * Each memory makes its own part, so what both makers know names a channel: the step of the program, which operand of
 * it moves, which hop of the way, and from where to where. Its bytes, credits and rate follow from the outline and the
 * map as well. Before parts run they connect: each writes the list of its channels to the other's memory, sorted by
 * name, and compares the other's with its own. What differs is an error that names the channel; what does not is the
 * contract that the proofs of both parts rest on (verify_channel.c). Connecting also exchanges the numbers of tasks, by
 * which messages then name the other end.
 *
 * Between devices that a library joins a channel is direct: the two ends are tasks of the devices themselves, and the
 * bytes go by an edge (communicator.h), from device memory to device memory. All else of it is as ever.
 *
 * Read-only with the plan; any thread. */
#ifndef RILLE_PLAN_CHANNEL_H
#define RILLE_PLAN_CHANNEL_H

#include "runtime/str.h"
#include "runtime/view.h"

struct plan;

enum channel_side {
    SIDE_PART,  /* part of a value: a mesh position of the layout that the hop comes from, or goes to */
    SIDE_STAGE, /* what one reduces of its part: the number of the stage (boxing/box.h) */
    SIDE_GATE,  /* order: the number of a memory */
};

struct channel_name {
    int32_t step; /* program node that needs it */
    int16_t operand, hop;
    uint8_t from_side, to_side; /* enum channel_side */
    int32_t from, to;           /* several parts of one memory that read the same: the first of them */
};

/* A window of what a SEND reads: bytes from the start of its argument, and how it lies there. */
struct channel_slice {
    int64_t skip;
    const struct view *view;
};

struct channel {
    struct channel_name name;
    bool sends;    /* this part has the SEND */
    int32_t peer;  /* the memory of the other end */
    int32_t turn;  /* when it acts among those of its hop (cross_turn); gates: of its step (guard.c) */
    int32_t task;  /* of this end */
    int32_t nreg;  /* acts of the SEND that may be ahead of the RECV: registers that the other end has room for; direct:
                      one is, when the RECV has said that it is ready to take it */
    int32_t nact;  /* acts a run */
    uint8_t dtype; /* of what it carries */
    bool direct;   /* a library carries its bytes: its ends are KIND_DIRECT tasks of devices */
    bool late;     /* its only act comes after the last piece, and not before the first */
    int64_t bytes; /* an act; 0: order alone */
    uint64_t what; /* tells apart what it carries: a value, in the layouts of a hop, in these slices (cross.h) */
    int32_t nslice;
    const struct channel_slice
        *slice; /* SEND: what it sends, one after the other, each row-major; direct: seat->pack */
};

/* The other end, as a run knows it. */
struct channel_far {
    int32_t task, thread; /* in its part */
    uint32_t addr;        /* where messages reach it: who knows where threads are sets it */
};

int channel_compare(const struct channel_name *a, const struct channel_name *b); /* < 0: a comes first */
/* "step 12, operand 0, hop 1: part 3 -> stage 5" */
void channel_print(const struct channel_name *name, struct str *s);

/* Appends the channels of a part to the memory `peer` to s, as bytes for the part there. */
void channels_write(const struct plan *p, int32_t peer, struct str *s);
/* The part of the memory `peer` wrote these bytes (they may come from anybody): fills in the ends far[c] of all
 * channels c to it. E_PLAN names the first channel that one of the two lacks, or that they do not agree about. */
int channels_match(const struct plan *p, int32_t peer, const char *bytes, size_t n, struct channel_far *far);

/* What becomes of a root: is it here at all, and does it overwrite its leaf? All memories that it lies in say the same.
 */
enum root_fate { ROOT_ELSEWHERE, ROOT_NEW, ROOT_OVERWRITES };
enum root_fate root_fate(const struct plan *p, int32_t root);

/* Copies the window of a SEND to `dense`: its slices in the argument that begins at `from`, one after the other. */
void channel_gather(const struct channel *c, const char *from, char *dense);

#endif
