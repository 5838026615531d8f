/* wire.h - encodes and decodes the packets between a controller and its workers.
 *
 * A packet is a header of 24 bytes and a body; wire.def lists the fields of each kind of packet. packet_read()
 * trusts no input: it checks lengths, kind, version and every field, and rejects a packet that is longer or shorter
 * than its fields. Numbers are little endian. The texts and byte arrays of a decoded packet point into the caller's
 * buffer, which must outlive the packet.
 *
 * The header's `seq` numbers the packets of one direction of a link. A gap in the numbers means a lost packet and
 * ends the link; the receiver drops duplicates. The header's `ack` is the number of the last packet received in the
 * other direction; the other end keeps later packets, and sends them again over a new connection (window.h).
 * Heartbeats are sent on a link of their own. A heartbeat carries the number of the last packet sent on the packet
 * link, so that the loss of the last packet is detected, too (coordinator.h, member.h). Values; any thread. */
#ifndef RILLE_CLUSTER_WIRE_H
#define RILLE_CLUSTER_WIRE_H

#include "runtime/base/base.h"
#include "runtime/data/str.h"

enum {
    WIRE_MAGIC = 0x4c52, /* first bytes of a header: "RL" */
    WIRE_VERSION = 23,   /* version of the protocol; the coordinator rejects workers of another version */
    WIRE_HEAD = 24,      /* bytes of a packet's header */
    WIRE_TEXT = 2048,    /* maximum bytes of a text field */
    /* maximum bytes of one part of a long content; programs and act times are sent in several parts */
    WIRE_PIECE = 1 << 20,
    WIRE_MOST = (1 << 22) + 4096, /* maximum bytes of a packet; START has the longest body, because of its tables */
};

/* Bytes that belong to another owner; a text has no terminating NUL. */
struct span {
    const unsigned char *bytes;
    uint32_t n;
};
struct span span_text(const char *text);
bool span_is(struct span a, struct span b);
/* Appends a span to a text. Bytes other than printable ASCII are written like \x1b, because they may come from an
 * untrusted process and be shown on a terminal. */
void span_print(struct span s, struct str *out);

/* Bytes that the packets to several workers contain. Windows keep the bytes once (window.h). Owner: a coordinator. */
struct shared_bytes {
    uint32_t refs; /* number of owners and of packets in windows */
    size_t n;
    unsigned char bytes[];
};

enum packet_kind {
    PACKET_NONE,
#define PACKET(NAME, name) PACKET_##NAME,
#define FIELD(NAME, kind, field)
#include "actors/cluster/wire/wire.def"
#undef PACKET
#undef FIELD
    NPACKET
};

/* The fields of packets. All kinds of packets use one struct, because many fields are common to them; wire.def says
 * which fields a kind has. */
struct packet {
    uint8_t kind;
    uint32_t epoch, seq, ack;
    uint32_t protocol, pid, cores, threads, abilities, isa, world, run, status, flags, nslot, home, made, every, anew,
        code, link_ms, orphan_ms;
    int32_t rank, node, speaker, lacks;
    uint64_t memory, program, offset, total, count, source, progress;
    struct span link, version, host, machine, devices, gpus, name, kernels, text, job, digest, outline, segment, beat,
        bulk, bus, port, secret;
    struct span bytes;  /* content of a program, schedule rows, act times, a value or a communicator id */
    struct span ranges; /* devices of each memory, as struct range (coordinator.h), in uint32_t */
    struct span slots;  /* worker of each slot, as uint32_t */
    struct span ports;  /* ports of workers, as text: a line per worker with its rank and addresses */
    struct span lost;   /* pids of lost processes, as uint32_t */
    /* arrays of uint32_t: ranks, heartbeats and memories; see FORM, BEAT and MEET in wire.def */
    struct span spoken, others, memories;
    struct span places; /* positions of leaf shards, root shards and arenas, as int64_t */
    struct span numbers;
    struct span arenas, replaces, comm_ranks;
    struct span begun, acted; /* arrays of int32_t: roots and tasks of a failed run; see END in wire.def */
    struct span busy;         /* pairs of uint64_t: plan device, and its busy time in ns */
    struct span digests;      /* digests of blocks, as uint64_t */
    /* not sent: bytes that several packets share, and into which some spans point; a window need not copy them;
     * NULL: none */
    struct shared_bytes *shared;
};

/* Indices of the numbers of a relayed heartbeat: rank, count of heartbeats, number of the rank's last packet, and
 * both halves of the rank's progress (PROGRESS). */
enum { BEAT_RANK, BEAT_COUNT, BEAT_SEQ, BEAT_NODE, BEAT_DONE, NBEAT };
/* Words that a worker shares with the speaker, which relays its heartbeats. WORD_UP: the worker's heartbeat;
 * WORD_DOWN: the coordinator's heartbeat for the worker; WORD_PROGRESS: the worker's progress. */
enum beat_word { WORD_UP, WORD_DOWN, WORD_PROGRESS, NBEAT_WORD };
/* The progress of a worker. done: a number that changes when the worker completes a piece of work. node: the program
 * node that the worker computes at present; -1: none. */
#define PROGRESS(done, node) ((uint64_t)(uint32_t)(done) << 32 | (uint32_t)((node) + 1))

const char *packet_name(int kind); /* returns the name of a packet kind, such as "HELLO"; "?": unknown kind */
/* Appends the encoded packet to out. Asserts that the fields are within their limits. */
void packet_write(const struct packet *p, struct str *out);
/* Decodes a packet. E_BUS: the bytes are malformed; the text says how. */
int packet_read(const void *bytes, size_t n, struct packet *out);
/* Like packet_write() and packet_read(), but the encoded packet contains the positions of spans in p->shared instead of
 * their bytes; for windows. packet_fetch() needs the same `shared`. */
void packet_keep(const struct packet *p, struct str *out);
int packet_fetch(const void *bytes, size_t n, const struct shared_bytes *shared, struct packet *out);
/* Returns the protocol version of a packet, even if packet_read() rejects the packet; 0: not a packet of Rille. */
int packet_protocol(const void *bytes, size_t n);

#endif
