/* carrier.h - what goes between this worker and those of other hosts: messages of actors, bytes of channels, and the
 * lists that connect parts of a plan.
 *
 * A worker binds two ports, and has two links to each worker that it speaks to, from when it first does: one for
 * messages, so that they never wait behind bytes, and one for bytes, in pieces of 1 MiB that ZeroMQ sends from where
 * they lie. Where a launcher of MPI started all workers and all have its plug-in, MPI does both, until somebody is
 * lost: it cannot go on without, so later epochs speak tcp. At most CREDITS pieces of a link are in its hands; the
 * others wait here. A FULL travels behind the bytes that it speaks of, so that they are there when it arrives.
 *
 * Everything is of an epoch and, but for lists, of a run. The carrier drops what is older; what is newer waits in its
 * link until this worker hears of it as well (carrier_join, carrier_begin). One thread of the carrier's own has all
 * sockets. */
#ifndef RILLE_CLUSTER_CARRIER_H
#define RILLE_CLUSTER_CARRIER_H

#include "actors/act/bus.h"
#include "actors/cluster/coordinator.h"
#include "actors/cluster/key.h"
#include "actors/plan/transport.h"

struct carrier;

/* The carrier's thread calls these. */
struct carrier_hear {
    void *of;
    /* One wants this worker's list of a program's channels; program 0: one is to be reached whose port is not known. */
    void (*asked)(void *of, uint32_t epoch, int from, uint64_t program);
    void (*listed)(void *of, uint32_t epoch, int from, uint64_t program, const void *bytes, size_t n);
    /* Copies n bytes of this host's memory, which begin at an offset, for a worker of another host. E_BUS: they are not
     * there. */
    int (*give)(void *of, uint64_t at, size_t n, void *to);
    /* What carrier_bring() asked a worker for; bytes NULL: it has not got it. */
    void (*brought)(void *of, int from, uint64_t count, const void *bytes, size_t n);
    void (*lost)(void *of, const char *how); /* a link to a worker that others still have */
};
enum { CARRIER_PORT = 256 };
enum carrier_mpi { CARRIER_TCP, CARRIER_MPI_IF_ALL, CARRIER_MPI };
struct carrier_options {
    const char *host;      /* the address of this host at which others reach it */
    const struct key *key; /* NULL: none */
    struct carrier_hear hear;
    enum carrier_mpi mpi;
};
/* E_BUS, E_ARG; also that there is no MPI here, where nothing else will do. */
int carrier_new(const struct carrier_options *o, struct carrier **out);
void carrier_free(struct carrier **c);
void carrier_port(const struct carrier *c, char text[CARRIER_PORT]); /* for the others */
bool carrier_has_mpi(const struct carrier *c);                       /* and nobody was lost yet */

/* The main thread: an epoch begins. ports: a line for each rank that is known, "3 PORT"; lacks: the first that has no
 * MPI, -1: none does. bus: of this process, which hands on what is for other hosts (bus_host_far) and takes what comes.
 */
struct carrier_epoch {
    uint32_t epoch;
    const unsigned char *job; /* CLUSTER_ID bytes */
    int rank, world, lacks;
    const char *ports;
    struct bus *bus;
};
/* E_BUS: MPI cannot be, where nothing else will do. */
int carrier_join(struct carrier *c, const struct carrier_epoch *e);
/* Others are known as well. The main thread. */
void carrier_meet(struct carrier *c, const char *ports);
/* Why tcp is used, though MPI was asked for; NULL: it is not so. */
const char *carrier_why_tcp(const struct carrier *c);
/* Ends the epoch: when it returns, the carrier reads nothing that anybody put, and does not use the bus any more. */
void carrier_leave(struct carrier *c);
/* Ends it soon; lost: since somebody is. Any thread, also one that holds a lock that `hear` takes. */
void carrier_cut(struct carrier *c, bool lost);

/* Asks for a worker's list of the program's channels; sends it this one's. The main thread. */
void carrier_ask(struct carrier *c, int rank, uint64_t program);
void carrier_list(struct carrier *c, int rank, uint64_t program, const void *bytes, size_t n);

/* Asks a worker for n bytes, CARRIER_PIECE at most, of its host's memory; count: of the question, by which brought()
 * has the answer. There is none where the epoch ends before, or has not begun there. Any thread, also one that holds a
 * lock that `hear` takes. */
enum { CARRIER_PIECE = 1 << 20 };
void carrier_bring(struct carrier *c, int rank, uint64_t count, uint64_t at, size_t n);

/* The channels of a connected part, for one run at a time. far: as it is in this epoch; both outlive it. */
struct carrying;
struct carrying *carrying_new(struct carrier *c, const struct plan *p, const struct channel_far *far);
void carrying_free(struct carrying **k);
const struct transport *carrying_transport(const struct carrying *k);
/* The main thread, before the run and after it. */
void carrier_begin(struct carrier *c, struct carrying *k, uint32_t run);
void carrier_end(struct carrier *c);

#endif
