/* kept.h - the description of a snapshot in a host's shared memory, which workers keep for the next controller.
 *
 * The first page of a segment (SEGMENT_HEAD) has two slots. A slot refers to a note in the same memory. The note lists
 * the ranges of this memory that hold the snapshot's bytes, and contains a text of the session, equal on all hosts. The
 * controller writes the note, and then the slot; it uses both slots in turn. If the controller is killed meanwhile, the
 * other slot and its note are still complete. Digests show whether a slot and its note are complete. Pure. */
#ifndef RILLE_CLUSTER_KEPT_H
#define RILLE_CLUSTER_KEPT_H

#include "runtime/base/base.h"
#include "runtime/data/str.h"

enum { KEPT_SLOTS = 2, KEPT_JOB = 16 };
struct kept_slot {
    uint64_t number;    /* number of the snapshot, from 1 */
    uint64_t at, bytes; /* position and size of the note */
    uint64_t digest;    /* digest of the note */
    unsigned char job[KEPT_JOB];
    uint64_t check; /* digest of the fields above */
};
struct kept_range {
    uint64_t at, bytes; /* position (position.h) in the memory of the host, and number of bytes */
};
struct kept_note {
    uint64_t memory; /* number of the host's memory in the job that took the snapshot */
    uint64_t nrange, ntext;
    const struct kept_range *range;
    const char *text;
};

/* Appends a note's bytes. */
void kept_note_write(const struct kept_note *n, struct str *out);
/* Finds the fields of a note in its bytes, which must be aligned to 8 bytes. Returns false if the bytes are not the
 * complete note of the slot. */
bool kept_note_read(const struct kept_slot *s, const void *bytes, struct kept_note *out);
/* Returns the slot for a note at position `at`. */
struct kept_slot kept_slot_of(uint64_t number, const unsigned char job[KEPT_JOB], uint64_t at, const struct str *note);
/* Returns true if the slot was written completely. */
bool kept_slot_is_whole(const struct kept_slot *s);

/* The complete notes in a memory that a host keeps, by slot; number 0: the slot has no complete note. A host can keep
 * memories of two jobs: the controller of the later job was lost at its first snapshot. */
struct kept_memory {
    int host;
    unsigned char job[KEPT_JOB];
    uint64_t number[KEPT_SLOTS];
};
/* Returns the number of the latest snapshot of which every host has a note; without such a snapshot, of the latest one
 * of which every host of its job has a note. 0: none. Sets `job` to its job. */
uint64_t kept_choose(int n, const struct kept_memory *m, unsigned char job[KEPT_JOB]);

#endif
