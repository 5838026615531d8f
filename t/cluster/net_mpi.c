/* Tests of actors/cluster/transport/net_mpi.c: the bytes of abandoned sends must stay valid until the process ends,
 * because MPI may still read them. */
#include "actors/cluster/transport/net_mpi.c"
#include "t/lib/tap.h"

enum { SENDS = 64 };
static struct sent { /* bytes passed to MPI, and a copy of them made when they were sent */
    const void *bytes;
    void *copy;
    size_t n;
} sent[2 * SENDS];
static int nsent, released_pieces;

static int
fake_open(int *rank, int *size)
{
    *rank = 0;
    *size = 2;
    return 0;
}

static void *
fake_send(int rank, int tag, const void *bytes, size_t n)
{
    UNUSED(rank), UNUSED(tag);
    sent[nsent] = (struct sent){bytes, must_copy(bytes, n), n};
    return &sent[nsent++];
}

static enum mpi_done
never_done(void *ticket)
{
    UNUSED(ticket);
    return MPI_NOT_YET;
}

static void
release_piece(void *data, void *hint)
{
    UNUSED(data), UNUSED(hint);
    released_pieces++;
}

static void
send_some(struct carrier *c, int i)
{
    static char piece[1 << 12];
    struct head h = {.m = {.kind = MSG_FREE}, .offset = (uint64_t)i * 0x9e3779b97f4a7c15u};
    zmq_msg_t body;
    if (i % 3 == 0) {
        net_mpi.send(c, 1, MESSAGES, &h, NULL);
    } else if (i % 3 == 1) {
        zmq_msg_init_data(&body, memset(malloc(1 << 12), i, 1 << 12), 1 << 12, free_bytes, NULL);
        net_mpi.send(c, 1, MESSAGES, &h, &body);
    } else {
        h.m.kind = MSG_FULL;
        zmq_msg_init_data(&body, piece, sizeof piece, release_piece, NULL);
        net_mpi.send(c, 1, BYTES, &h, &body);
    }
}

int
main(void)
{
    const struct mpi_plugin plugin = {.open = fake_open, .send = fake_send, .done = never_done};
    struct carrier c = {.plugin = &plugin, .world = 2};
    int changed = 0;
    if (mpi_open(&c)) return 1;
    for (int i = 0; i < SENDS; i++) send_some(&c, i);
    mpi_break(&c);
    for (int i = 0; i < nsent; i++) changed += memcmp(sent[i].bytes, sent[i].copy, sent[i].n) != 0;
    is_int(changed, 0, "after the loss of a worker, the bytes of pending sends stay in place");
    is_int(released_pieces, SENDS / 3,
           "after the loss of a worker, pending chunks are released, so that no sender waits for them");
    ok(c.mpi->broken, "the MPI transport is marked as broken");
    mpi_close(&c);
    for (int i = 0; i < nsent; i++) free(sent[i].copy);
    return done();
}
