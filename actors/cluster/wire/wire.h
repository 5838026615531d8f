/* wire.h - encodes and decodes the packets between a controller and its workers.
 *
 * A packet is a header of 24 bytes and a body; wire.def lists the fields of each kind. packet_read() trusts no
 * input: it checks lengths, kind, version and every field, and rejects a packet that is longer or shorter than its
 * fields. Numbers are little endian. Text and bytes of a decoded packet point into the caller's buffer, which must
 * outlive the packet.
 *
 * The header's `seq` numbers the packets of one direction of one link. A gap means a lost packet and ends the link;
 * the receiver drops duplicates. A heartbeat travels on a link of its own and carries the number of packets given to
 * the other link, so that the loss of the last packet is detected, too (coordinator.h, member.h). Values; any
 * thread. */
#ifndef RILLE_CLUSTER_WIRE_H
#define RILLE_CLUSTER_WIRE_H

#include "runtime/base/base.h"
#include "runtime/base/str.h"

enum {
    WIRE_MAGIC = 0x4c52,          /* "RL" */
    WIRE_VERSION = 14,            /* protocol version; the coordinator rejects workers of another version */
    WIRE_HEAD = 24,               /* bytes of a header */
    WIRE_TEXT = 2048,             /* maximum bytes of a text */
    WIRE_PIECE = 1 << 20,         /* maximum bytes of a piece; programs and reports of acts are sent in pieces */
    WIRE_MOST = (1 << 22) + 4096, /* maximum bytes of a packet; the tables of START are the longest body */
};

/* Bytes owned by somebody else; text has no terminating NUL. */
struct span {
    const unsigned char *bytes;
    uint32_t n;
};
struct span span_text(const char *text);
bool span_is(struct span a, struct span b);
/* Prints a span, with other than printable ASCII as \x1b: a stranger's text may end up in a terminal. */
void span_print(struct span s, struct str *out);

enum packet_kind {
    PACKET_NONE,
#define PACKET(NAME, name) PACKET_##NAME,
#define FIELD(NAME, kind, field)
#include "actors/cluster/wire/wire.def"
#undef PACKET
#undef FIELD
    NPACKET
};

/* The fields of all kinds in one struct, because kinds share most fields; wire.def says which fields a kind has. */
struct packet {
    uint8_t kind;
    uint32_t epoch, seq;
    uint32_t protocol, pid, cores, threads, abilities, world, run, status, flags, nslot, home, made, every, anew;
    int32_t rank, node, speaker, lacks;
    uint64_t memory, program, offset, total, count, source;
    struct span version, host, machine, devices, gpus, text, job, digest, outline, segment, beat, bulk, bus, port,
        secret;
    struct span bytes;                    /* of a program, rows, acts, a value or a communicator id */
    struct span ranges;                   /* u32: devices of each memory, as struct range (coordinator.h) */
    struct span slots;                    /* u32: worker of each slot */
    struct span ports;                    /* text */
    struct span lost;                     /* u32: processes */
    struct span spoken, others, memories; /* u32 */
    struct span places;                   /* i64: positions of leaf parts, root parts and arenas */
    struct span numbers;
    struct span arenas, replaces, comm_ranks;
    struct span begun, acted; /* i32 */
    struct span busy;         /* u64: device, its busy time in ns */
    struct span digests;      /* u64 */
};

const char *packet_name(int kind); /* Returns "HELLO"; "?": unknown kind. */
/* Appends the packet's bytes to out; asserts that all fields are within their limits. */
void packet_write(const struct packet *p, struct str *out);
/* Decodes a packet. E_BUS: malformed. */
int packet_read(const void *bytes, size_t n, struct packet *out);
/* Returns the protocol version of a packet, even of one that packet_read() rejects; 0: not a packet of Rille. */
int packet_protocol(const void *bytes, size_t n);

#endif
