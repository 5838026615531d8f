/* carrier.h - transport between this worker and workers on different hosts: actors' messages, bytes of channels, and
 * the lists that connect plan partitions.
 *
 * A worker binds two ports, and opens two links to another worker at the first use. Messages have a link of their
 * own, so that bytes never delay them; bytes are sent in pieces of 1 MiB, in place (ZeroMQ makes no copy). If an MPI
 * launcher started the workers and every worker has the plug-in, MPI carries messages and bytes. MPI cannot go on
 * after the loss of a worker, so later epochs use tcp. At most CREDITS pieces per peer are in flight; the rest waits
 * here. A FULL is sent behind its bytes, so the bytes are there when the FULL arrives.
 *
 * Every message belongs to an epoch and, except for lists, to a run. The carrier drops messages of earlier epochs
 * and runs. Messages of later ones wait in their link until this worker has joined the epoch or begun the run
 * (carrier_join, carrier_begin). The carrier's own thread owns the sockets. */
#ifndef RILLE_CLUSTER_CARRIER_H
#define RILLE_CLUSTER_CARRIER_H

#include "actors/act/bus/bus.h"
#include "actors/cluster/coordinator/coordinator.h"
#include "actors/cluster/wire/key.h"
#include "actors/plan/model/transport.h"

struct carrier;

/* Callbacks, called by the carrier's thread. */
struct carrier_hear {
    void *of;
    /* A worker requests this worker's list of a program's channels; program 0: the port of worker `from` is needed,
     * but unknown. */
    void (*asked)(void *of, uint32_t epoch, int from, uint64_t program);
    void (*listed)(void *of, uint32_t epoch, int from, uint64_t program, const void *bytes, size_t n);
    /* Copies n bytes at a position of this host's memory, for a worker of another host. E_BUS: invalid range. */
    int (*give)(void *of, uint64_t at, size_t n, void *to);
    /* Answer to carrier_fetch(); bytes NULL: the worker does not have them. */
    void (*brought)(void *of, int from, uint64_t count, const void *bytes, size_t n);
    void (*lost)(void *of, const char *how); /* a link to a member failed, or carried an invalid message */
};
enum { CARRIER_PORT = 256 };
enum carrier_mpi { CARRIER_TCP, CARRIER_MPI_IF_ALL, CARRIER_MPI };
struct carrier_options {
    const char *host;      /* address at which workers of other hosts reach this host */
    const struct key *key; /* NULL: no encryption */
    struct carrier_hear hear;
    enum carrier_mpi mpi;
    int link_ms; /* time that a link may be down, or data unacknowledged, until the peer is lost, ms; 0: 3000 */
};
/* Starts a carrier. E_BUS, E_ARG; also if there is no MPI and `mpi` is CARRIER_MPI. */
int carrier_new(const struct carrier_options *o, struct carrier **out);
void carrier_free(struct carrier **c);
void carrier_port(const struct carrier *c, char text[CARRIER_PORT]); /* for other workers */
bool carrier_has_mpi(const struct carrier *c); /* MPI is usable: only until the first epoch is joined */

/* The epoch to join. ports: for each known rank a line, "3 PORT". lacks: lowest rank without MPI, -1: none. bus: of
 * this process; passes on messages to other hosts (bus_host_far) and receives theirs. */
struct carrier_epoch {
    uint32_t epoch;
    const unsigned char *job; /* CLUSTER_ID bytes */
    int rank, world, lacks;
    const char *ports;
    struct bus *bus;
};
/* Joins an epoch. Main thread. E_BUS: `mpi` is CARRIER_MPI, and MPI cannot be used. */
int carrier_join(struct carrier *c, const struct carrier_epoch *e);
/* Adds ports of further workers. Main thread. */
void carrier_meet(struct carrier *c, const char *ports);
/* Returns why tcp is used although MPI was requested; NULL: not so. */
const char *carrier_why_tcp(const struct carrier *c);
/* Ends the epoch. Afterwards the carrier neither reads bytes that were put nor uses the bus. */
void carrier_leave(struct carrier *c);
/* Ends the epoch soon, without waiting; lost: because of a lost worker. Any thread, even with a lock that callbacks
 * take. */
void carrier_cut(struct carrier *c, bool lost);

/* Requests a worker's list of the program's channels; sends this worker's list. Main thread. */
void carrier_ask(struct carrier *c, int rank, uint64_t program);
void carrier_list(struct carrier *c, int rank, uint64_t program, const void *bytes, size_t n);

/* Requests n bytes, at most CARRIER_PIECE, of a worker's host memory. count: number of the request, passed to
 * brought() with the answer. No answer arrives if the epoch ends first or has not begun at that worker. Any thread,
 * even with a lock that callbacks take. */
enum { CARRIER_PIECE = 1 << 20 };
void carrier_fetch(struct carrier *c, int rank, uint64_t count, uint64_t at, size_t n);

/* The channels of a connected plan partition, for one run at a time. far: the other ends in this epoch; p and far
 * must outlive the result. */
struct carrier_channels;
struct carrier_channels *carrier_channels_new(struct carrier *c, const struct plan *p, const struct channel_far *far);
void carrier_channels_free(struct carrier_channels **k);
const struct transport *carrier_channels_transport(const struct carrier_channels *k);
/* Begin and end a run of the channels. Main thread. */
void carrier_begin(struct carrier *c, struct carrier_channels *k, uint32_t run);
void carrier_end(struct carrier *c);

#endif
