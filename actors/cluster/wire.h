/* wire.h - what a controller and its workers say to each other, as bytes.
 *
 * A packet is a header of 24 bytes and a body whose fields stand in a table, one for each kind (wire.def).
 * packet_read() trusts nothing: it checks lengths, kinds, the version and every field before it believes any, and
 * refuses a packet that is longer than its fields like one that is shorter. Numbers are little endian. Text and bytes
 * that a decoded packet names lie in the caller's buffer, which stays as long.
 *
 * The header's `seq` counts the packets of one direction of one link: a gap means that the link lost something, and is
 * the end of the link; the receiver drops what comes twice. A heartbeat, which has a link of its own, tells with it how
 * many packets its sender gave the other link, so that the receiver sees the loss of the last one too (coordinator.h,
 * member.h). Values; any thread. */
#ifndef RILLE_CLUSTER_WIRE_H
#define RILLE_CLUSTER_WIRE_H

#include "runtime/base.h"
#include "runtime/str.h"

enum {
    WIRE_MAGIC = 0x4c52,          /* "RL" */
    WIRE_VERSION = 12,            /* of the packets; the coordinator refuses a worker of another one */
    WIRE_HEAD = 24,               /* bytes */
    WIRE_TEXT = 2048,             /* a text has at most so many bytes */
    WIRE_PIECE = 1 << 20,         /* programs and reports of acts travel in pieces of at most so many bytes */
    WIRE_MOST = (1 << 22) + 4096, /* a packet: the tables of START are the longest body */
};

/* Bytes that lie somewhere else; text has no end mark. */
struct span {
    const unsigned char *bytes;
    uint32_t n;
};
struct span span_text(const char *text);
bool span_is(struct span a, struct span b);
/* Prints it, what does not print as \x1b: texts of strangers end up in terminals. */
void span_print(struct span s, struct str *out);

enum packet_kind {
    PACKET_NONE,
#define PACKET(NAME, name) PACKET_##NAME,
#define FIELD(NAME, kind, field)
#include "actors/cluster/wire.def"
#undef PACKET
#undef FIELD
    NPACKET
};

/* One struct holds the fields of all kinds: kinds share most, and the table says which a kind has. */
struct packet {
    uint8_t kind;
    uint32_t epoch, seq;
    uint32_t protocol, pid, cores, threads, abilities, world, run, status, flags, nslot, home, made, every, anew;
    int32_t rank, node, speaker, lacks;
    uint64_t memory, program, offset, total, count, source;
    struct span version, host, machine, devices, gpus, text, job, digest, outline, segment, beat, bulk, bus, port,
        secret;
    struct span bytes;                    /* of a program, of rows, of acts, of a value, of an id */
    struct span ranges;                   /* u32: where devices live, as struct range (coordinator.h) has it */
    struct span slots;                    /* u32: which worker runs each slot */
    struct span ports;                    /* text */
    struct span lost;                     /* u32: processes */
    struct span spoken, others, memories; /* u32 */
    struct span places;                   /* i64: where leaf parts, root parts and arenas lie */
    struct span numbers;
    struct span arenas, replaces, seats;
    struct span begun, acted; /* i32 */
    struct span busy;         /* u64: device, nanoseconds that it was busy */
    struct span digests;      /* u64 */
};

const char *packet_name(int kind); /* "HELLO"; "?" */
/* Adds the packet's bytes to out; asserts that the caller has kept the limits. */
void packet_write(const struct packet *p, struct str *out);
/* E_BUS: what is wrong with the bytes. */
int packet_read(const void *bytes, size_t n, struct packet *out);
/* Which protocol a packet is of, also where packet_read() refuses it for that; 0: it is none of Rille's. */
int packet_protocol(const void *bytes, size_t n);
void packet_print(const struct packet *p, struct str *out); /* for logs and the simulator's traces */

#endif
