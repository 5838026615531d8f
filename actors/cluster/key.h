/* key.h - the keys of a cluster, of CURVE: files that the coordinator and its workers have.
 *
 * Either one file for all, with two secrets: the coordinator's and the workers'. A coordinator lets in who has the
 * workers', as whatever rank it wants. Or a folder of files, one a process: "coordinator", "worker-0", "worker-1"...
 * Each holds the secret of its process and the public keys of all, so that a worker's key stands for its rank, to the
 * coordinator and to other workers, and one that falls into other hands makes nobody another rank.
 *
 * Whoever can read a file gets in, so key_read() refuses one that others can read. A key belongs to whoever read or
 * copied it, until key_forget(); any thread. Bytes of keys go nowhere but to the files. */
#ifndef RILLE_CLUSTER_KEY_H
#define RILLE_CLUSTER_KEY_H

#include "runtime/str.h"

enum {
    KEY_TEXT = 41, /* 40 characters of Z85, and the end mark */
    KEY_FILE = 24, /* the longest name in a folder, and the end mark */
};

/* Whose: a rank's, counted from 0, or one of these. */
enum { KEY_ANY = -1 /* a worker's, whatever its rank */, KEY_COORDINATORS = -2 };
enum key_side { KEY_COORDINATOR, KEY_WORKER };
struct key {
    char secret[2][KEY_TEXT], public[2][KEY_TEXT]; /* by side; "": of others, and no secret of this process */
    int nrank;                                     /* 0: all workers have the same */
    int rank;                                      /* whose the worker's side is, KEY_ANY: all workers' */
    char (*of)[KEY_TEXT];                          /* public, by rank */
};

int key_new(struct str *text); /* what the file for all holds. E_STATE: this libzmq has no CURVE */
/* What the files of a folder hold: text[0] the coordinator's, text[1 + r] that of rank r. E_STATE, E_ARG: no rank. */
int key_new_ranks(int nrank, struct str *text);
void key_file_name(int whose, char name[KEY_FILE]);
/* path: a file, or a folder, and then the one in it that is whose. E_IO, E_ARG: why this process cannot read it, that
 * others can, what is wrong in which line, that it is somebody else's. From then on the process leaves no core file. */
int key_read(const char *path, int whose, struct key *out);
int key_parse(const char *text, size_t n, struct key *out); /* E_ARG: nothing is to be forgotten */
void key_copy(const struct key *k, struct key *out);
void key_forget(struct key *k); /* writes over the secrets, and frees */

#endif
