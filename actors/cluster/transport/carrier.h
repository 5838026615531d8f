/* carrier.h - transport to workers on other hosts: messages of actors, bytes of channels, and the lists by which
 * plan partitions are connected.
 *
 * A worker binds two ports. At its first send to another worker it opens two links to that worker. One link carries
 * only messages, so that no message waits behind the bytes of a channel. The second link carries bytes in pieces of
 * 1 MiB, which ZeroMQ sends without a copy. If an MPI launcher started the workers and every worker has the plug-in,
 * MPI carries messages and bytes. MPI cannot continue after the loss of a worker, so later epochs use tcp. At most
 * CREDITS pieces per peer are in flight; further pieces wait in the carrier. A FULL is sent behind its bytes, so it
 * arrives after them. If a tcp connection ends, the carrier makes a new one, and repeats the messages that the other
 * worker has not acknowledged (traffic.c).
 *
 * Every message belongs to an epoch and, except for lists, to a run. The carrier drops messages of earlier epochs
 * and runs. A message of a later epoch or run waits in its link until this worker has joined the epoch or begun the
 * run (carrier_join, carrier_begin). Only the carrier's own thread uses the sockets. */
#ifndef RILLE_CLUSTER_CARRIER_H
#define RILLE_CLUSTER_CARRIER_H

#include "actors/act/bus/bus.h"
#include "actors/cluster/coordinator/coordinator.h"
#include "actors/cluster/wire/key.h"
#include "actors/plan/model/transport.h"

struct carrier;

/* The result of handling a received message. FATE_DONE: the message was accepted or dropped. FATE_LATER: the message
 * and all messages behind it must wait. FATE_STRANGE: the message is invalid. If carrier_take keeps the body, it
 * owns the body. */
enum fate { FATE_DONE, FATE_LATER, FATE_STRANGE };

/* Functions that the carrier's thread calls when data arrives or a link fails. */
struct carrier_hear {
    void *of;
    /* Called when worker `from` requests this worker's list of a program's channels. Called with program 0 if the
     * carrier needs the address of worker `from` and does not know it. */
    void (*asked)(void *of, uint32_t epoch, int from, uint64_t program);
    void (*listed)(void *of, uint32_t epoch, int from, uint64_t program, const void *bytes, size_t n);
    /* Copies n bytes at position `at` of this host's memory to `to`, because a worker of another host requested
     * them. E_BUS: the range is invalid. */
    int (*give)(void *of, uint64_t at, size_t n, void *to);
    /* Receives the answer to carrier_fetch(); bytes NULL: the other worker does not have the bytes. */
    void (*brought)(void *of, int from, uint64_t count, const void *bytes, size_t n);
    /* Called when the link to worker `rank` failed. rank -1: a link carried an invalid message. */
    void (*lost)(void *of, int rank, const char *how);
};
enum { CARRIER_PORT = 256 };
enum carrier_mpi { CARRIER_TCP, CARRIER_MPI_IF_ALL, CARRIER_MPI };
struct carrier_options {
    const char *host;      /* address of this host for workers of other hosts */
    const struct key *key; /* key of this process; NULL: messages are not encrypted */
    struct carrier_hear hear;
    enum carrier_mpi mpi;
    /* time limit, ms, for a peer whose link has no connection; then the peer is lost; 0: 3000 ms */
    int link_ms;
};
/* Starts a carrier. E_BUS, E_ARG. Also fails if `mpi` is CARRIER_MPI and MPI is not available. */
int carrier_new(const struct carrier_options *o, struct carrier **out);
void carrier_free(struct carrier **c);
/* writes the addresses of this worker's ports, for other workers */
void carrier_port(const struct carrier *c, char text[CARRIER_PORT]);
/* returns true if MPI is usable; always false after the first epoch was joined */
bool carrier_has_mpi(const struct carrier *c);

/* An epoch to join.
 * ports: for each known rank a line, "3 PORT".
 * lacks: lowest rank whose worker has no MPI; -1: all workers have MPI.
 * bus: the message bus of this process. The carrier sends the bus's messages for other hosts (bus_host_far), and
 * delivers messages from other hosts to the bus. */
struct carrier_epoch {
    uint32_t epoch;
    const unsigned char *job; /* id of the job, CLUSTER_ID bytes */
    int rank, world, lacks;
    const char *ports;
    struct bus *bus;
};
/* Joins an epoch. Called on the main thread. E_BUS: `mpi` is CARRIER_MPI, and MPI cannot be used in this epoch. */
int carrier_join(struct carrier *c, const struct carrier_epoch *e);
/* Adds the ports of further workers, one line per rank as in carrier_epoch.ports. Called on the main thread. */
void carrier_meet(struct carrier *c, const char *ports);
/* Returns the reason why tcp is used although MPI was requested; NULL: MPI is used, or was not requested. */
const char *carrier_why_tcp(const struct carrier *c);
/* Ends the epoch. After the call the carrier neither reads the bytes of SENDs nor uses the bus. */
void carrier_leave(struct carrier *c);
/* Makes the carrier's thread end the epoch soon, and returns at once. lost: true if a worker was lost. May be called
 * on any thread, even if the thread holds a lock of the callbacks. */
void carrier_cut(struct carrier *c, bool lost);

/* carrier_ask requests a worker's list of a program's channels. carrier_list sends this worker's list to a worker
 * that has requested it. Called on the main thread. */
void carrier_ask(struct carrier *c, int rank, uint64_t program);
void carrier_list(struct carrier *c, int rank, uint64_t program, const void *bytes, size_t n);

#endif
