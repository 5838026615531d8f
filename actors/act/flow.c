/* flow.c - making room for work that is under way. */
#include "actors/act/actor.h"

#include "runtime/arena.h"
#include "runtime/error.h"

#include <stdlib.h>

int
flow_new(struct flow *f, int kind, int rank, bool driven, struct worker *owner)
{
    *f = (struct flow){.kind = kind, .rank = rank, .driven = driven};
    TRY(device_kind(kind)->stream_new(rank, STREAM_COMPUTE, driven, &f->stream));
    f->tells = !driven && stream_tell(f->stream, worker_told, owner);
    f->act = must_alloc(sizeof *f->act * FLOW_ACTS);
    return 0;
}

void
flow_free(struct flow *f)
{
    f->stream->kind->stream_free(&f->stream);
    free(f->act);
    free(f->address);
}

void
flow_capacity(struct flow *f, int32_t naddress)
{
    assert(flow_empty(f));
    if (naddress <= f->naddress) return;
    f->naddress = naddress;
    f->address = must_realloc(f->address, sizeof *f->address * (size_t)naddress * FLOW_ACTS);
}
